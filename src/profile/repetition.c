#include "profile/repetition.h"

#include "base/err.h"
#include "base/sort.h"

bool tt_repetition_again(const struct tt_repetition *self, int32_t count, int64_t total_ns) {
    tt_assert(count >= 0);
    tt_assert(count <= self->max_runs);
    if (count == 0)
        return true;
    return count < self->max_runs && total_ns < self->max_ns &&
           (count < self->runs || total_ns < self->least_ns);
}

struct tt_run_times tt_run_times_of(int64_t *times_ns, int32_t count) {
    tt_assert(count >= 1);
    tt_sort_int64(times_ns, count);
    return (struct tt_run_times){.median_ns = times_ns[count / 2],
                                 .low_ns = times_ns[count / 10],
                                 .high_ns = times_ns[count - 1 - count / 10]};
}
