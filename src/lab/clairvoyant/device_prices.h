/* A price for the devices' time: a whole number per ns, constant within cells of equal length.
 *
 * A batch that runs during [s, s + l) costs the integral of the price over it. Outside of the cells
 * the price is 0. The least cost over all starts within a cell is exact: the cost is linear between
 * the instants at which the batch begins or ends at a cell's border.
 *
 * Life: _init makes the cells; _set replaces the prices, any number of times; _fini. It knows no
 * requests. */
#ifndef TT_LAB_CLAIRVOYANT_DEVICE_PRICES_H
#define TT_LAB_CLAIRVOYANT_DEVICE_PRICES_H

#include "base/err.h"

#include <stdint.h>

/* Prices are at most 2^20 per ns and the cells cover at most 2^42 ns, so an integral fits. */
enum { TT_DEVICE_PRICE_MEAN = 1 << 12, TT_DEVICE_PRICE_MAX = 1 << 20 };
#define TT_DEVICE_PRICES_MAX_NS (INT64_C(1) << 42)

struct tt_device_prices {
    int64_t origin_at; /* the first cell begins */
    int64_t cell_ns;
    int32_t cell_count;
    int32_t padded; /* cells with those behind the last one, whose price is 0 */
    int64_t *price; /* per ns: [padded] */
    int64_t *sum;   /* the integral until the cell begins: [padded + 1] */
};

/* Cells that cover [from, until), for batches that take at most longest_ns; all prices are the
 * mean. */
void tt_device_prices_init(struct tt_device_prices *self, int64_t from_at, int64_t until_at,
                           int64_t cell_ns, int64_t longest_ns);
void tt_device_prices_fini(struct tt_device_prices *self);
/* Prices in proportion to the weights, whose mean is 1; [cell_count], >= 0. */
void tt_device_prices_set(struct tt_device_prices *self, const double *weights);
/* What all the time of one device costs. */
static inline int64_t tt_device_prices_total(const struct tt_device_prices *self) {
    return self->sum[self->cell_count];
}
/* The cell of an instant within [from, until). */
static inline int32_t tt_device_prices_cell(const struct tt_device_prices *self, int64_t at) {
    return (int32_t)((at - self->origin_at) / self->cell_ns);
}
/* out[c]: the least cost of `length_ns`, at most longest_ns, over all starts in cell c, both its
 * ends included; [cell_count]. */
void tt_device_prices_least(const struct tt_device_prices *self, int64_t length_ns,
                            int64_t *out_least);

#endif
