/* The last values of a quantity, in order of age and in order of size: quantiles of what was seen
 * last, and of nothing older.
 *
 * A new value replaces the oldest. So a fall of the quantity moves the median after 16 values, a
 * rise after 17, and a single outlier moves neither the median nor a quantile of at most 96 %. All
 * functions are inline; O(size), integers only. */
#ifndef TT_CORE_QUANTILE_WINDOW_H
#define TT_CORE_QUANTILE_WINDOW_H

#include "base/err.h"

#include <stdint.h>

enum { TT_QUANTILE_WINDOW = 32 };

struct tt_quantile_window {
    uint32_t sorted[TT_QUANTILE_WINDOW]; /* ascending */
    uint32_t recent[TT_QUANTILE_WINDOW]; /* cyclic */
    int32_t next;                        /* index of the oldest in `recent` */
};

/* Fills it with one value. */
static inline void tt_quantile_window_fill(struct tt_quantile_window *self, uint32_t value) {
    self->next = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++)
        self->sorted[i] = self->recent[i] = value;
}

/* Fills the older half with `low`, the newer half with `high` >= low. The median is `low`, until a
 * value of `high` or more is added: then it is `high` or more. */
static inline void tt_quantile_window_fill_halves(struct tt_quantile_window *self, uint32_t low,
                                                  uint32_t high) {
    tt_assert(low <= high);
    self->next = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++)
        self->sorted[i] = self->recent[i] = i < TT_QUANTILE_WINDOW / 2 ? low : high;
}

static inline void tt_quantile_window_add(struct tt_quantile_window *self, uint32_t value) {
    uint32_t old = self->recent[self->next], *sorted = self->sorted;
    self->recent[self->next] = value;
    self->next = (self->next + 1) % TT_QUANTILE_WINDOW;
    int32_t at = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++)
        at += sorted[i] < old;
    for (; at + 1 < TT_QUANTILE_WINDOW && sorted[at + 1] < value; at++)
        sorted[at] = sorted[at + 1];
    for (; at > 0 && sorted[at - 1] > value; at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = value;
}

/* The smallest value that at least `percent` (1 .. 100) of them do not exceed. */
static inline uint32_t tt_quantile_window_at(const struct tt_quantile_window *self,
                                             int32_t percent) {
    return self->sorted[(TT_QUANTILE_WINDOW * percent + 99) / 100 - 1];
}

#endif
