#include "lab/clairvoyant/device_prices.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

void tt_device_prices_init(struct tt_device_prices *self, int64_t from_at, int64_t until_at,
                           int64_t cell_ns, int64_t longest_ns) {
    tt_assert(until_at > from_at);
    tt_assert(until_at - from_at <= TT_DEVICE_PRICES_MAX_NS);
    *self = (struct tt_device_prices){.origin_at = from_at, .cell_ns = cell_ns};
    self->cell_count = (int32_t)((until_at - from_at) / cell_ns + 1);
    self->padded = self->cell_count + (int32_t)(longest_ns / cell_ns) + 2;
    self->price = tt_allocate((size_t)self->padded, sizeof(*self->price));
    self->sum = tt_allocate((size_t)self->padded + 1, sizeof(*self->sum));
    for (int32_t c = 0; c < self->cell_count; c++)
        self->price[c] = TT_DEVICE_PRICE_MEAN;
    for (int32_t c = 0; c < self->padded; c++)
        self->sum[c + 1] = self->sum[c] + self->price[c] * cell_ns;
}

void tt_device_prices_fini(struct tt_device_prices *self) {
    free(self->price);
    free(self->sum);
    *self = (struct tt_device_prices){0};
}

void tt_device_prices_set(struct tt_device_prices *self, const double *weights) {
    for (int32_t c = 0; c < self->cell_count; c++) {
        double price = weights[c] * TT_DEVICE_PRICE_MEAN;
        self->price[c] = price < TT_DEVICE_PRICE_MAX ? (int64_t)price : TT_DEVICE_PRICE_MAX;
    }
    for (int32_t c = 0; c < self->padded; c++)
        self->sum[c + 1] = self->sum[c] + self->price[c] * self->cell_ns;
}

void tt_device_prices_least(const struct tt_device_prices *self, int64_t length_ns,
                            int64_t *out_least) {
    int32_t cells = (int32_t)(length_ns / self->cell_ns);
    int64_t rest_ns = length_ns % self->cell_ns;
    const int64_t *sum = self->sum, *price = self->price;
    int64_t at_begin = sum[cells] + price[cells] * rest_ns - sum[0];
    for (int32_t c = 0; c < self->cell_count; c++) {
        int32_t last = c + cells + 1; /* < padded */
        int64_t at_end = sum[last] + price[last] * rest_ns - sum[c + 1];
        /* The batch ends where cell `last` begins. */
        int64_t at_border = sum[last] - sum[c] - price[c] * (self->cell_ns - rest_ns);
        out_least[c] = tt_instant_min(at_begin, tt_instant_min(at_end, at_border));
        at_begin = at_end;
    }
}
