/* Opening and closing the server. What the connections use of it is serve/serving.h. */
#ifndef TT_SERVE_SERVING_OPTIONS_H
#define TT_SERVE_SERVING_OPTIONS_H

#include "policy/policy.h"
#include "record/recorder.h"
#include "serve/catalogue.h"
#include "serve/limits.h"
#include "serve/served_model.h"
#include "serve/serving.h"

/* Makes the server; its scheduling thread begins with tt_serving_start. The engine is opened by the
 * caller with tt_serving_done as its `done` and this server as the context, and closed by the
 * caller after the server. */
TT_MUST_CHECK enum tt_err tt_serving_open(struct tt_serving **out_serving, struct tt_error *why);
/* Other limits than the standard ones; before the first port is opened and the first model placed.
 */
void tt_serving_set_limits(struct tt_serving *serving, const struct tt_limits *limits);
/* Domains whose policy splits into halves (multicore/multicore.h) are scheduled on so many threads
 * of their own: 1: one for all; more: one of them ranks; 0 (the default): none. Before the first
 * tt_serving_place; not together with tt_serving_record: such decisions do not replay. */
void tt_serving_use_threads(struct tt_serving *serving, int32_t scheduler_threads);
/* Every domain is recorded from its beginning (borrowed; closed after the server). Before the first
 * tt_serving_place. */
void tt_serving_record(struct tt_serving *serving, struct tt_recorder *recorder);
/* Puts a model in that stays as long as the server, loaded and placed or unavailable. Before
 * tt_serving_start, which shows them all. For servers whose models never change; others publish
 * catalogues of their own. */
void tt_serving_add(struct tt_serving *serving, struct tt_served_model *take_model);

/* What a model's configuration asks of its domain. */
struct tt_serving_policy {
    const char *name;
    const struct tt_option *options;
    int32_t option_count;
    /* How its executors stand; 0 and NULL where nobody says (serve/domain.h). */
    int32_t depth;
    const int32_t *devices; /* borrowed until the domain is made */
};
/* Puts a loaded model into the domain of its policy on this engine (made when there is none yet):
 * `executors` executors of the engine from *next_executor on go to a new domain. Any time before
 * tt_serving_close, not from two threads at once. Errors: NOT_FOUND (no such policy; `why` lists
 * them), INVALID (its options), UNSUPPORTED (max_batch is too large), BUSY (the engine has too few
 * executors left), NO_MEMORY; the model belongs to no domain then, and the caller says why with
 * tt_served_model_unavailable. */
TT_MUST_CHECK enum tt_err tt_serving_place(struct tt_serving *serving,
                                           struct tt_served_model *model,
                                           const struct tt_serving_policy *policy,
                                           struct tt_engine *engine, int32_t executors,
                                           int32_t *next_executor, struct tt_error *why);
/* No new requests will be sent to the model, but for those that are on their way: who waits for
 * company need not any longer. */
void tt_serving_drain(struct tt_serving *serving, struct tt_served_model *model);
/* Takes the model out of its domain; it has no user left. */
void tt_serving_remove(struct tt_serving *serving, struct tt_served_model *model);
/* Frees the domains that run on the engine; none has a model left. The engine may be closed then.
 */
void tt_serving_leave_engine(struct tt_serving *serving, const struct tt_engine *engine);
/* Shows the (sealed) catalogue to every port, instead of the one before. From one thread at a
 * time. */
void tt_serving_publish(struct tt_serving *serving, struct tt_catalogue *take_catalogue);

TT_MUST_CHECK enum tt_err tt_serving_start(struct tt_serving *serving, struct tt_error *why);
/* Stops the scheduler and frees models and domains; the ports are closed before. NULL-safe. */
void tt_serving_close(struct tt_serving *take_serving);

/* The engine's `done`; context is the struct tt_serving. */
void tt_serving_done(void *context, struct tt_device_task *task);

#endif
