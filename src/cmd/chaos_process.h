/* A process of a cluster on this machine that `tutti chaos` kills, freezes and starts again.
 *
 * It is found by its process id, and started again as it was: the same program, arguments, folder
 * and place for its log. Implemented in chaos_process.c. */
#ifndef TT_CMD_CHAOS_PROCESS_H
#define TT_CMD_CHAOS_PROCESS_H

#include "base/text.h"

#include <sys/types.h>

struct tt_chaos_process {
    pid_t pid;                                      /* 0: none */
    struct tt_text program, arguments, folder, log; /* arguments: each ends with NUL */
};

/* Reads what /proc states of it. Errors: NOT_FOUND (no such process, or not this user's), IO,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_chaos_process_find(struct tt_chaos_process *self, pid_t pid,
                                                struct tt_error *why);
void tt_chaos_process_fini(struct tt_chaos_process *self);
/* Kills it, and returns when it has ended. */
void tt_chaos_process_kill(struct tt_chaos_process *self);
void tt_chaos_process_freeze(const struct tt_chaos_process *self);
void tt_chaos_process_thaw(const struct tt_chaos_process *self);
/* After _kill. It does not end with this program. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_chaos_process_start(struct tt_chaos_process *self,
                                                 struct tt_error *why);

#endif
