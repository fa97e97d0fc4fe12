#include "core/overload.h"

#include "base/instant.h"

enum { LOSS = 64, CALM = 4, WEIGHT = 4, WINDOWS_MAX = 8 };

/* True if `rows` rows gather at the rate and run within the SLO. */
static bool fits(const struct tt_overload *self, const struct tt_step_model *model, int32_t rows,
                 int32_t length, int32_t executors) {
    __int128 gather_ns = (__int128)rows * 1000 * TT_S / self->rate_mhz;
    gather_ns = gather_ns * 2 * executors / (executors + 1);
    return gather_ns + tt_profile_tail(model->whole, rows, length) <= model->slo_ns;
}

static int32_t target_of(const struct tt_overload *self, const struct tt_step_model *model,
                         int32_t length, int32_t executors) {
    int32_t low = 1, high = model->max_batch + 1; /* low fits, or is the least; high does not */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (fits(self, model, middle, length, executors))
            low = middle;
        else
            high = middle;
    }
    return low;
}

void tt_overload_close(struct tt_overload *self, int64_t now, const struct tt_step_model *model,
                       int32_t length, int32_t executors) {
    int64_t elapsed_ns = now - self->window_at;
    bool first = self->offered == 0 && self->rate_mhz == 0;
    bool lost = self->lost > 0 && self->lost * LOSS >= self->offered;
    self->windows_left = lost ? CALM : self->windows_left > 0 ? self->windows_left - 1 : 0;
    if (elapsed_ns / WINDOWS_MAX > model->slo_ns)
        self->windows_left = 0;
    int64_t sample = (int64_t)((__int128)self->served * 1000 * TT_S / elapsed_ns);
    self->rate_mhz += (sample - self->rate_mhz) / (first ? 1 : WEIGHT);
    self->window_at = now;
    self->offered = self->served = self->lost = 0;
    self->target = 0;
    if (self->windows_left > 0 && self->rate_mhz > 0)
        self->target = target_of(self, model, length, executors > 0 ? executors : 1);
}
