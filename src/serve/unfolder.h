/* The thread on which a model's unfold plug-in runs (C2). Code of users may take long, or never
 * return; a connection's thread must not wait for it.
 *
 * Life of a request here: its port sends it (_send), the thread unfolds it, and it goes back to its
 * port (serve/plugin_inbox.h), which submits it. In order, one at a time. If the plug-in does not
 * return within the model's maximum run time, the watchdog gives it up (_look): the request goes
 * back with an error, and so do those that wait; the model has failed, and refuses others. What the
 * plug-in reads of the request stays until it returns, or for ever: `is_lost` in the inference, as
 * with runs (serve/domain_watch.h).
 *
 * It knows no domain. Implemented in unfolder.c. */
#ifndef TT_SERVE_UNFOLDER_H
#define TT_SERVE_UNFOLDER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_inference;
struct tt_served_model;
struct tt_unfolder;

/* Of a model of cells, which owns it. Errors: NO_MEMORY, IO (the system gave no thread). */
TT_MUST_CHECK enum tt_err tt_unfolder_new(struct tt_served_model *model,
                                          struct tt_unfolder **out_unfolder, struct tt_error *why);
/* Nothing is here, not even a lost request. NULL-safe. */
void tt_unfolder_free(struct tt_unfolder *take_self);
/* A submitted inference. It comes back once, unfolded or with an error, and once more if it was
 * lost. A port's thread. */
void tt_unfolder_send(struct tt_unfolder *self, struct tt_inference *inference);
/* What the watchdog calls at each tick, with the time since the last one. True: the plug-in was
 * given up now. */
bool tt_unfolder_look(struct tt_unfolder *self, int64_t elapsed_ns, int64_t limit_ns);
/* 1: the plug-in was given up and has not returned. Any thread. */
int64_t tt_unfolder_lost(const struct tt_unfolder *self);

/* Unfolds on the calling thread, for models without a plug-in: sets cell_run, length and err. */
void tt_unfolder_run_here(struct tt_inference *inference);

#endif
