/* tutti profile --workers: searches the best workers (profile/worker_search.h) with a progress bar.
 * The search can be resumed; its file is signed like a profile. */
#ifndef TT_CMD_PROFILE_WORKERS_H
#define TT_CMD_PROFILE_WORKERS_H

#include "engine/engine_kind.h"
#include "model/repository/repository.h"

struct tt_profile_workers {
    const struct tt_repository_model *model; /* its newest version */
    struct tt_engine *engine;                /* of the runtime, with enough executors */
    const struct tt_engine_runtime *runtime; /* of the model's backend */
    const int32_t *totals;
    int32_t total_count;
    int32_t largest, length, runs; /* 0: the model's maximum batch, 16 where inputs vary; >= 1 */
    int64_t slo_ns;                /* objective that workers must keep; 0: none */
    const char *output;            /* NULL: workers.pbtxt beside the model; "-": stdout */
};

/* Prints a table of the best workers on stderr. Errors: those of loading and of the search;
 * CANCELLED: interrupted; the next call resumes the search. */
TT_MUST_CHECK enum tt_err tt_profile_workers(const struct tt_profile_workers *options,
                                             struct tt_error *why);

#endif
