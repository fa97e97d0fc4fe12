#include "profile/repetition.h"

#include "base/err.h"

#include <stdlib.h>

bool tt_repetition_again(const struct tt_repetition *self, int32_t count, int64_t total_ns) {
    tt_assert(count >= 0);
    tt_assert(count <= self->max_runs);
    if (count == 0)
        return true;
    return count < self->max_runs && total_ns < self->max_ns &&
           (count < self->runs || total_ns < self->least_ns);
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct tt_run_times tt_run_times_of(int64_t *times_ns, int32_t count) {
    tt_assert(count >= 1);
    qsort(times_ns, (size_t)count, sizeof(*times_ns), compare);
    return (struct tt_run_times){.median_ns = times_ns[count / 2],
                                 .low_ns = times_ns[count / 10],
                                 .high_ns = times_ns[count - 1 - count / 10]};
}
