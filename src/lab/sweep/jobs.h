/* Independent pieces of work on several cores: each runs in a child process and sends back a text.
 * Children share nothing, so a result does not depend on how many run at once. */
#ifndef TT_LAB_SWEEP_JOBS_H
#define TT_LAB_SWEEP_JOBS_H

#include "base/text.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>

struct tt_jobs {
    int32_t count;
    int32_t workers; /* at once; 0: as many as there are processors */
    void *context;
    /* In the child: appends the result of job `index`. */
    void (*work)(void *context, int32_t index, struct tt_text *result);
    /* In the caller's process, in the order in which they end. A child that died leaves an empty
     * result. */
    void (*done)(void *context, int32_t index, const char *result);
    /* May be NULL; when not 0, no more jobs are started, and those at work get a SIGINT, which
     * should make the same flag not 0 there: their results are what they have so far. */
    const volatile sig_atomic_t *stop;
};

/* Errors: IO (fork, pipe). A single job runs in the caller's process; several never do, so that
 * what one of them changes in the context is not seen by the next. */
TT_MUST_CHECK enum tt_err tt_jobs_run(const struct tt_jobs *jobs, struct tt_error *why);

/* For `work` whose results are JSON: the value; where it is NULL, {"error": text, "code": err}, of
 * NO_MEMORY where `err` is OK. */
void tt_jobs_answer(json_t *take_value, enum tt_err err, const struct tt_error *why,
                    struct tt_text *result);

#endif
