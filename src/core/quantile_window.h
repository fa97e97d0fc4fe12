/* The last 32 values of a quantity: quantiles of what was seen last, and of nothing older.
 *
 * A new value replaces the oldest. So a fall of the quantity moves the median after 16 values, a
 * rise after 17. A single outlier moves neither the median nor a quantile of at most 96 %.
 *
 * A quantile costs some hundred instructions. A watch (struct tt_quantile_watch) says in O(1),
 * without a branch, whether a quantile has left a band around the value that was last used. Only
 * then the quantile is needed. All functions are inline; integers only. */
#ifndef TT_CORE_QUANTILE_WINDOW_H
#define TT_CORE_QUANTILE_WINDOW_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_QUANTILE_WINDOW = 32 }; /* a power of two */

struct tt_quantile_window {
    uint32_t recent[TT_QUANTILE_WINDOW]; /* cyclic */
    int32_t next;                        /* index of the oldest */
};

struct tt_quantile_watch {
    uint32_t low, high;   /* the band: low <= value <= high */
    int32_t below, above; /* values of the window outside of it */
    int32_t index;        /* of the quantile, in order of size */
};

/* Fills the window with one value. */
static inline void tt_quantile_window_fill(struct tt_quantile_window *self, uint32_t value) {
    self->next = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++)
        self->recent[i] = value;
}

/* Fills the older half with `low`, the newer half with `high` >= low. The median is `low`, until a
 * value of `high` or more is added: then it is `high` or more. */
static inline void tt_quantile_window_fill_halves(struct tt_quantile_window *self, uint32_t low,
                                                  uint32_t high) {
    tt_assert(low <= high);
    self->next = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++)
        self->recent[i] = i < TT_QUANTILE_WINDOW / 2 ? low : high;
}

/* Adds a value; returns the one that it replaces. */
static inline uint32_t tt_quantile_window_add(struct tt_quantile_window *self, uint32_t value) {
    uint32_t old = self->recent[self->next];
    self->recent[self->next] = value;
    self->next = (self->next + 1) & (TT_QUANTILE_WINDOW - 1);
    return old;
}

/* The place, in order of size, of the smallest value that at least `percent` (1 .. 100) of all do
 * not exceed. */
static inline int32_t tt_quantile_window_index(int32_t percent) {
    return (TT_QUANTILE_WINDOW * percent + 99) / 100 - 1;
}

/* That value. O(size^2): counting has no branches that depend on values. */
static inline uint32_t tt_quantile_window_at(const struct tt_quantile_window *self,
                                             int32_t percent) {
    int32_t index = tt_quantile_window_index(percent);
    for (int32_t i = 0;; i++) {
        uint32_t value = self->recent[i];
        int32_t below = 0, up_to = 0;
        for (int32_t k = 0; k < TT_QUANTILE_WINDOW; k++) {
            below += self->recent[k] < value;
            up_to += self->recent[k] <= value;
        }
        if (below <= index && index < up_to)
            return value;
    }
}

/* Watches the band from now on. */
static inline void tt_quantile_watch_set(struct tt_quantile_watch *self,
                                         const struct tt_quantile_window *window, uint32_t low,
                                         uint32_t high) {
    self->low = low;
    self->high = high;
    self->below = self->above = 0;
    for (int32_t i = 0; i < TT_QUANTILE_WINDOW; i++) {
        self->below += window->recent[i] < low;
        self->above += window->recent[i] > high;
    }
}

/* `value` has replaced `old` in the window. */
static inline void tt_quantile_watch_add(struct tt_quantile_watch *self, uint32_t old,
                                         uint32_t value) {
    self->below += (value < self->low) - (old < self->low);
    self->above += (value > self->high) - (old > self->high);
}

/* True if the quantile is outside of the band. */
static inline bool tt_quantile_watch_left(const struct tt_quantile_watch *self) {
    return self->below > self->index || self->above >= TT_QUANTILE_WINDOW - self->index;
}

#endif
