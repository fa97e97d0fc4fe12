#include "sim/step_work.h"

int32_t tt_step_demand(const struct tt_profile *profile, const struct tt_task *task) {
    return tt_profile_demand(profile, tt_task_computed_rows(task),
                             profile->length_count == 1 ? 0 : tt_task_computed_length(task));
}

int64_t tt_step_work(const struct tt_profile *profile, const struct tt_task *task,
                     int32_t jitter_permille, struct tt_prng *prng) {
    int32_t length = profile->length_count == 1 ? 0 : tt_task_computed_length(task);
    int64_t work_ns = tt_profile_latency(profile, tt_task_computed_rows(task), length);
    if (jitter_permille > 0) {
        /* In millionths, uniform on the integers -j .. +j. */
        uint64_t width = (uint64_t)jitter_permille * 2000 + 1;
        int64_t ppm = (int64_t)tt_prng_below(prng, width) - (int64_t)jitter_permille * 1000;
        work_ns += (int64_t)((__int128)work_ns * ppm / 1000000);
    }
    return work_ns > 0 ? work_ns : 1;
}
