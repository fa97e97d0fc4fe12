/* Machines that a command of the operator's starts and stops: `CMD pool devices`, without a shell.
 *
 * The command's exit code 0 promises the machines. It gets the epoch of the primary as {epoch}: a
 * command that keeps the highest one that it has seen can refuse a primary that has been deposed
 * between `confirm` and its run; nothing else closes that gap. Implemented in command_provider.c.
 */
#ifndef TT_ACTUATE_COMMAND_PROVIDER_H
#define TT_ACTUATE_COMMAND_PROVIDER_H

#include "actuate/scale_provider.h"

/* `line`: words (actuate/timed_command.h) with placeholders (actuate/scale_provider.h). Errors:
 * INVALID: it has no words, or is not well formed; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_command_provider_open(const char *line, int64_t limit_ns,
                                                   struct tt_scale_provider *out_provider,
                                                   struct tt_error *why);

#endif
