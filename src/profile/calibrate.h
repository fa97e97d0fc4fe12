/* Measures how long a loaded model runs per batch size and input length, on an executor of its
 * engine: the whole, and where asked each of its steps as a task of its own, with what it costs to
 * put down the activations and take them up again.
 *
 * Used by `tutti profile` (every batch size asked for, many repetitions, written to a file) and
 * when the server starts for a model whose policy needs a profile and that has none (few points, in
 * well under a second). Inputs are zeros: the run time of the graphs served here does not depend on
 * the values. Nothing else may use the engine meanwhile. */
#ifndef TT_PROFILE_CALIBRATE_H
#define TT_PROFILE_CALIBRATE_H

#include "core/profile.h"
#include "engine/engine.h"

enum { TT_CALIBRATION_WHOLE = -1 };

struct tt_calibration_point {
    int32_t step; /* TT_CALIBRATION_WHOLE: all steps as one task */
    int32_t batch, length;
    int32_t runs;
    int64_t median_ns, low_ns,
        high_ns; /* the middle and the 10th and 90th percentile of the runs */
};

/* Called before each point is measured, for a progress bar. False stops: CANCELLED. */
typedef bool tt_calibrate_progress_fn(void *context, int32_t done, int32_t total, int32_t batch,
                                      int32_t length);
/* The points of one batch and length: the whole, then the steps where they are asked for. `recall`
 * may fill in what was measured before (the batch and the length stand there already) and says
 * whether it did; `keep` is told what was measured now. */
typedef bool tt_calibrate_recall_fn(void *context, struct tt_calibration_point *points,
                                    int32_t count);
typedef void tt_calibrate_keep_fn(void *context, const struct tt_calibration_point *points,
                                  int32_t count);

struct tt_calibrate_options {
    int32_t max_batch;
    const int32_t *batches; /* ascending, 1 first; NULL: 1, 2, 4 ... max_batch */
    int32_t batch_count;
    const int32_t *lengths; /* ascending; what the variable dimensions become; NULL: one, of 16 */
    int32_t length_count;
    int32_t runs;     /* at least so many per point, after one to warm up */
    int64_t least_ns; /* and at least so long */
    int64_t max_ns;   /* but no further run once a point took so long */
    bool by_step;     /* of a model of several steps: each step too */
    tt_calibrate_progress_fn *progress;
    tt_calibrate_recall_fn *recall;
    tt_calibrate_keep_fn *keep;
    void *progress_context;
};

/* One run of `rows` rows of these inputs (one per input of the signature), its outputs thrown away.
 * Nothing else may use the engine meanwhile. Errors: what the run fails with. */
TT_MUST_CHECK enum tt_err tt_calibrate_run(struct tt_engine_model *model, int32_t rows,
                                           const struct tt_tensor_view *inputs, int64_t *out_ns,
                                           struct tt_error *why);
/* `*out_points` is malloc'ed, the caller's, by length, then batch, then step; length 0 in a point:
 * nothing of the inputs varies. */
TT_MUST_CHECK enum tt_err tt_calibrate(struct tt_engine_model *model,
                                       const struct tt_calibrate_options *options,
                                       struct tt_calibration_point **out_points, int32_t *out_count,
                                       struct tt_error *why);

#endif
