/* Measures how long a batch takes while other executors are busy, too, and its demand
 * (profile/demand_estimate.h).
 *
 * For 2, 4, 8 ... executors, and for all of them: each executor runs the batch again and again,
 * and submits the next run from its own thread when one ends. No executor waits for another one,
 * because threads that sleep and wake often share a processor for a while. What is measured begins
 * after a warm-up, and ends while all are still busy.
 *
 * The whole model is measured beside copies. For its steps, one executor runs them one by one while
 * the others run the whole, whose mean demand is known by then. It ends after a random number of
 * steps and begins again: so a step does not meet the same part of the whole each time. The demand
 * is estimated at the largest number of executors.
 *
 * Nothing else may use the engine meanwhile. What other programs do to the processors counts as
 * demand: measure on a machine that does nothing else. */
#ifndef TT_PROFILE_CONTENTION_H
#define TT_PROFILE_CONTENTION_H

#include "engine/engine.h"
#include "profile/demand_estimate.h"
#include "profile/profile_builder.h"
#include "profile/repetition.h"

struct tt_contention_subject {
    struct tt_engine_model *model;
    int32_t rows;
    const struct tt_tensor_view *inputs; /* one per input of the signature */
    int32_t step_count; /* steps measured one by one besides the whole; 0: only the whole */
    int32_t executors;  /* 2 .. TT_DEMAND_MAX_EXECUTORS; at most the engine's */
    struct tt_repetition repetition; /* per executor, and number of busy executors */
};

/* The number of busy executors that is measured after `busy` (1: alone), of `executors`; 0: `busy`
 * was the last. */
int32_t tt_contention_next(int32_t busy, int32_t executors);
/* `points` [1 + step_count]: the whole, then the steps, measured alone; sets `busy` and the demand
 * of each. The engine's receiver of completions is replaced meanwhile. Errors: NO_MEMORY, and those
 * of a run. */
TT_MUST_CHECK enum tt_err tt_contention_measure(const struct tt_contention_subject *subject,
                                                struct tt_calibration_point *points,
                                                struct tt_error *why);

#endif
