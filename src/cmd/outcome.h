/* How a verb ends: its exit codes, the sentence when it cannot, and the person who has had enough.
 */
#ifndef TT_CMD_OUTCOME_H
#define TT_CMD_OUTCOME_H

#include "base/err.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* INTERRUPTED where the person has (CANCELLED), SENSELESS where what was asked for makes none
 * (INVALID, NOT_FOUND, UNSUPPORTED), else FAILED. */
int tt_outcome_code(enum tt_err err);
/* The sentence on stderr; returns the exit code for it. */
int tt_outcome_complain(enum tt_err err, const struct tt_error *why);

/* Not 0 once the handler ran: a signal handler can tell nobody else. */
extern volatile sig_atomic_t tt_interrupted;
void tt_on_interrupt(int signal_number);
/* SIGINT raises it, and ends what a thread waits for in the kernel. */
void tt_outcome_catch_interrupt(void);

/* A bar on stderr, where that is a terminal; `context` is nobody's. */
void tt_outcome_progress(void *context, int32_t finished, int32_t all);
/* On stdout, with an end of line. */
void tt_outcome_print_json(json_t *take_value);

#endif
