/* Runs independent jobs on several cores: in child processes, which send a text back for each.
 * A result must not depend on how many run at once, nor on what a job leaves for later ones in
 * memory that the caller shares with them (lab/load/shared_gaps.h). */
#ifndef TT_LAB_SWEEP_JOBS_H
#define TT_LAB_SWEEP_JOBS_H

#include "base/text.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>

struct tt_jobs {
    int32_t count;
    int32_t workers; /* at once; 0: one per processor */
    void *context;
    /* A job leaves the context as it was, so that a child does one after another. Otherwise each
     * has a child of its own, whose start costs more the more memory the caller has. */
    bool keeps_context;
    /* Called in the caller's process before a job starts; may be NULL. */
    void (*starts)(void *context, int32_t index);
    /* Called in the child: appends the result of job `index`. */
    void (*work)(void *context, int32_t index, struct tt_text *result);
    /* Called in the caller's process, in the order in which jobs end. A child that died has an
     * empty result. */
    void (*done)(void *context, int32_t index, const char *result);
    /* May be NULL. When it is not 0, no more jobs start, and running ones get SIGINT, which should
     * set the same flag in the child: their results are then partial. */
    const volatile sig_atomic_t *stop;
};

/* Errors: IO (fork, socketpair). A single job runs in the caller's process. Several never do. */
TT_MUST_CHECK enum tt_err tt_jobs_run(const struct tt_jobs *jobs, struct tt_error *why);

/* Appends a JSON result for `work`: the value, or, if it is NULL, {"error": text, "code": err},
 * with NO_MEMORY if `err` is OK. */
void tt_jobs_answer(json_t *take_value, enum tt_err err, const struct tt_error *why,
                    struct tt_text *result);

#endif
