/* Measures how long a loaded model runs per batch size and input length, on an executor of its
 * engine. It measures the whole model and, on request, each step as a task of its own, including
 * the time to store the activations and load them again.
 *
 * With `executors` it measures each point beside copies of itself, too (profile/contention.h).
 *
 * `tutti profile` measures every requested batch size with many repetitions. The server measures a
 * few points in well under a second at start-up, for a model without a profile whose policy needs
 * one. Inputs are zeros: the run time of the graphs served here does not depend on the values.
 * Nothing else may use the engine meanwhile. */
#ifndef TT_PROFILE_CALIBRATE_H
#define TT_PROFILE_CALIBRATE_H

#include "engine/engine.h"
#include "profile/profile_builder.h"

/* Called before each point is measured, for a progress bar. False stops: CANCELLED. */
typedef bool tt_calibrate_progress_fn(void *context, int32_t done, int32_t total, int32_t batch,
                                      int32_t length);
/* The points of one batch and length: the whole, then the steps if they are requested. `recall`
 * may fill in earlier measurements (batch and length are set) and returns whether it did. `keep`
 * receives new measurements. */
typedef bool tt_calibrate_recall_fn(void *context, struct tt_calibration_point *points,
                                    int32_t count);
typedef void tt_calibrate_keep_fn(void *context, const struct tt_calibration_point *points,
                                  int32_t count);

struct tt_calibrate_options {
    int32_t max_batch;
    const int32_t *batches; /* ascending, 1 first; NULL: 1, 2, 4 ... max_batch */
    int32_t batch_count;
    const int32_t *lengths; /* ascending, for the variable dimensions; NULL: 16 only */
    int32_t length_count;
    int32_t runs;      /* minimum per point, after one warm-up run */
    int64_t least_ns;  /* minimum total time per point */
    int64_t max_ns;    /* no further run once a point took so long */
    bool by_step;      /* for a model of several steps: measure each step too */
    int32_t executors; /* busy at once, for the demand; 0 or 1: do not measure it */
    tt_calibrate_progress_fn *progress;
    tt_calibrate_recall_fn *recall;
    tt_calibrate_keep_fn *keep;
    void *progress_context;
};

/* Runs `rows` rows of these inputs (one view per input of the signature) once and discards the
 * outputs. Nothing else may use the engine meanwhile. Errors: the run's. */
TT_MUST_CHECK enum tt_err tt_calibrate_run(struct tt_engine_model *model, int32_t rows,
                                           const struct tt_tensor_view *inputs, int64_t *out_ns,
                                           struct tt_error *why);
/* `*out_points` is malloc'ed, the caller's, ordered by length, batch, step. A point's length is 0
 * if no dimension of the inputs varies. */
TT_MUST_CHECK enum tt_err tt_calibrate(struct tt_engine_model *model,
                                       const struct tt_calibrate_options *options,
                                       struct tt_calibration_point **out_points, int32_t *out_count,
                                       struct tt_error *why);

#endif
