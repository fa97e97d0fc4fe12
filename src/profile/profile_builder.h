/* From points to a profile: the one place where measured, written and derived points become a
 * table (core/profile.h).
 *
 * Life: zero-initialized; _add any number of points in any order; _finish makes the profile and
 * frees the points, also on failure. An allocation failure in _add is reported by _finish. */
#ifndef TT_PROFILE_PROFILE_BUILDER_H
#define TT_PROFILE_PROFILE_BUILDER_H

#include "core/profile.h"

#include <stdbool.h>

enum { TT_CALIBRATION_WHOLE = -1, TT_CALIBRATION_MAX_BUSY = 7 };

/* What the runs came to while so many executors ran copies. */
struct tt_busy_times {
    int32_t executors, runs;
    int64_t median_ns, low_ns, high_ns;
};

/* What the runs of one step came to, for one batch and one input length. */
struct tt_calibration_point {
    int32_t step; /* TT_CALIBRATION_WHOLE: all steps as one task */
    int32_t batch, length;
    int32_t runs;
    int64_t median_ns, low_ns, high_ns; /* of the runs; low and high: 10th and 90th percentile */
    /* Beside copies (profile/contention.h); not measured: no busy times, and demands of 0. */
    int32_t busy_count;
    struct tt_busy_times busy[TT_CALIBRATION_MAX_BUSY]; /* by ascending `executors` */
    int32_t demand_ppm, demand_low_ppm, demand_high_ppm;
};

struct tt_profile_builder {
    struct tt_profile_point *points;
    int32_t count;
    int64_t capacity;
    int32_t largest_batch; /* of the points; 0: there is none */
    bool failed;           /* out of memory */
};

void tt_profile_builder_add(struct tt_profile_builder *self, struct tt_profile_point point);
/* For batches up to `max_batch`; 0: up to the largest batch added. INVALID names the point that is
 * wrong; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_profile_builder_finish(struct tt_profile_builder *self,
                                                    int32_t max_batch,
                                                    struct tt_profile **out_profile,
                                                    struct tt_error *why);
/* The profile of `step` from the medians and demands of its measured points. Errors: as _finish. */
TT_MUST_CHECK enum tt_err tt_profile_from_calibration(const struct tt_calibration_point *points,
                                                      int32_t count, int32_t step,
                                                      int32_t max_batch,
                                                      struct tt_profile **out_profile,
                                                      struct tt_error *why);

/* A model that runs in steps, and how often each of them runs. */
struct tt_whole_profile {
    int32_t step_count;
    struct tt_profile *const *steps;
    const int32_t *lengths; /* of the inputs for which the whole is wanted */
    int32_t length_count;
    int32_t max_batch; /* 0: of the step that takes the fewest rows */
    /* How often a request of `length` runs the step; at least one step runs. */
    int64_t (*times)(const void *context, int32_t step, int32_t length);
    const void *context;
    /* The steps are cells: none depends on the length, a larger batch than a step takes runs in
     * several tasks, and the whole occupies the device. */
    bool is_cells;
};

/* How long the whole runs if it was not measured: the sum of its steps, each as often as it
 * runs. Its demand is the mean demand of the steps over that time. Errors: as _finish. */
TT_MUST_CHECK enum tt_err tt_whole_profile_sum(const struct tt_whole_profile *model,
                                               struct tt_profile **out_profile,
                                               struct tt_error *why);

#endif
