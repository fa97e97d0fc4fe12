/* Measures how long a loaded model runs per batch size and input length, on an executor of its
 * engine.
 *
 * Used by `tutti profile` (every batch size asked for, many repetitions, written to a file) and
 * when the server starts for a model whose policy needs a profile and that has none (few points, in
 * well under a second). Inputs are zeros: the run time of the graphs served here does not depend on
 * the values. Nothing else may use the engine meanwhile. */
#ifndef TT_RT_CALIBRATE_H
#define TT_RT_CALIBRATE_H

#include "core/profile.h"
#include "engine/engine.h"

struct tt_calibration_point {
    int32_t batch, length;
    int32_t runs;
    int64_t median_ns, low_ns,
        high_ns; /* the middle and the 10th and 90th percentile of the runs */
};

/* Called before each point is measured, for a progress bar. False stops: CANCELLED. */
typedef bool tt_calibrate_progress_fn(void *context, int32_t done, int32_t total, int32_t batch,
                                      int32_t length);

struct tt_calibrate_options {
    int32_t max_batch;
    const int32_t *batches; /* ascending, 1 first; NULL: 1, 2, 4 ... max_batch */
    int32_t batch_count;
    const int32_t *lengths; /* ascending; what the variable dimensions become; NULL: one, of 16 */
    int32_t length_count;
    int32_t runs;     /* at least so many per point, after one to warm up */
    int64_t least_ns; /* and at least so long */
    int64_t most_ns;  /* but no further run once a point took so long */
    tt_calibrate_progress_fn *progress;
    void *progress_context;
};

/* One run of `rows` rows of these inputs (one per input of the signature), its outputs thrown away.
 * Nothing else may use the engine meanwhile. Errors: what the run fails with. */
TT_MUST_CHECK enum tt_err tt_calibrate_run(struct tt_engine_model *model, int32_t rows,
                                           const struct tt_tensor_view *inputs, int64_t *out_ns,
                                           struct tt_message *why);
/* `*out_points` is malloc'ed, the caller's; length 0 in a point: nothing of the inputs varies. */
TT_MUST_CHECK enum tt_err tt_calibrate(struct tt_engine_model *model,
                                       const struct tt_calibrate_options *options,
                                       struct tt_calibration_point **out_points, int32_t *out_count,
                                       struct tt_message *why);

#endif
