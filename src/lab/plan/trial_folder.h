/* The temporary folder of one plan, which no plan leaves behind for good.
 *
 * A process holds a lock on the folder for as long as it lives, whatever ends it. _open first
 * removes the folders of plans that ended without _close (SIGKILL, a crash), then makes one of its
 * own; _close removes that. A folder of another user, or of a plan that runs, is never touched. */
#ifndef TT_LAB_PLAN_TRIAL_FOLDER_H
#define TT_LAB_PLAN_TRIAL_FOLDER_H

#include "base/err.h"

struct tt_trial_folder {
    char path[256]; /* "": none */
    int lock;       /* a descriptor of the folder; valid if there is a path */
};

/* Below $TMPDIR, else /tmp. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_trial_folder_open(struct tt_trial_folder *self, struct tt_error *why);
/* Nothing to do without a folder. */
void tt_trial_folder_close(struct tt_trial_folder *self);

#endif
