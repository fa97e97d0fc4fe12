#include "scale/start_up_time.h"

#include "base/err.h"

#include <math.h>

static const double supposed = 0.5; /* of the mean: how far one more start would be off */

void tt_start_up_time_learn(struct tt_start_up_time *self, double seconds) {
    tt_assert(seconds >= 0);
    self->seen_s[self->seen_count++ % TT_START_UP_KEPT] = seconds;
}

struct tt_start_up_estimate tt_start_up_time_of(const struct tt_start_up_time *self) {
    if (self->given_s > 0)
        return (struct tt_start_up_estimate){.seconds = self->given_s, .confidence = 1};
    int32_t count =
        self->seen_count < TT_START_UP_KEPT ? (int32_t)self->seen_count : TT_START_UP_KEPT;
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < count; i++)
        sum += self->seen_s[i];
    if (sum <= 0)
        return (struct tt_start_up_estimate){.seconds = 0};
    double mean = sum / count;
    for (int32_t i = 0; i < count; i++)
        squares += (self->seen_s[i] - mean) * (self->seen_s[i] - mean);
    squares += supposed * mean * supposed * mean;
    double error = sqrt(squares / count / count);
    return (struct tt_start_up_estimate){.seconds = mean,
                                         .confidence = fmax(1 - 2 * error / mean, 0)};
}
