/* Exit codes, error output and SIGINT handling shared by all verbs. */
#ifndef TT_CMD_OUTCOME_H
#define TT_CMD_OUTCOME_H

#include "base/text.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>

/* FAILED: the verb ran and failed, or a condition that the user set does not hold. USAGE: the
 * command line or an input file is wrong. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* CANCELLED: EXIT_INTERRUPTED; INVALID, NOT_FOUND, UNSUPPORTED: EXIT_USAGE; else EXIT_FAILED. */
int tt_outcome_code(enum tt_err err);
/* Prints the error on stderr, behind "tutti VERB: " unless `verb` is NULL; returns its exit code.
 */
int tt_outcome_print_error(const char *verb, enum tt_err err, const struct tt_error *why);

/* Not 0 after a signal that tt_on_interrupt handled. */
extern volatile sig_atomic_t tt_interrupted;
void tt_on_interrupt(int signal_number);
/* Handles SIGINT without SA_RESTART, so that it also ends blocking system calls. */
void tt_outcome_catch_interrupt(void);
/* The same for SIGTERM and SIGHUP, for verbs that have something to tidy up. */
void tt_outcome_catch_termination(void);

/* A progress bar on stderr if that is a terminal; `context` is not used. */
void tt_outcome_progress(void *context, int32_t finished, int32_t all);
/* Prints on stdout, with a newline. */
void tt_outcome_print_json(json_t *take_value);
/* Prints on stdout and frees. */
void tt_outcome_print_text(struct tt_text *take_text);

#endif
