#include "serve/rate_window.h"

enum { FEWEST_DIFFERENCES = 5 };

/* Rows of a whole second; 0 where nothing is known of it. */
static double rows_at(const struct tt_rate_window *self, int64_t second) {
    const struct tt_rate_slot *slot = &self->slots[second % TT_RATE_WINDOW_SLOTS];
    return slot->second == second ? (double)slot->rows : 0;
}

static double mean_of(const struct tt_rate_window *self, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t second = from; second < to; second++)
        sum += rows_at(self, second);
    return to > from ? sum / (double)(to - from) : 0;
}

/* Half the mean square of the differences is the variance of independent counts. */
static double dispersion_of(const struct tt_rate_window *self, int64_t from, int64_t to) {
    double squares = 0, mean = mean_of(self, from, to);
    if (to - from <= FEWEST_DIFFERENCES || mean <= 0)
        return 1;
    for (int64_t second = from + 1; second < to; second++) {
        double difference = rows_at(self, second) - rows_at(self, second - 1);
        squares += difference * difference;
    }
    return squares / 2 / (double)(to - from - 1) / mean;
}

static double growth_of(const struct tt_rate_window *self, int64_t from, int64_t to) {
    const int64_t width = TT_RATE_WINDOW_S;
    if (to - from < 3 * width)
        return 0;
    double last = mean_of(self, to - width, to), middle = mean_of(self, to - 2 * width, to - width);
    double first = mean_of(self, to - 3 * width, to - 2 * width);
    double late = last - middle, early = middle - first;
    double smaller = late < early ? late : early;
    return smaller > 0 ? smaller / (double)width : 0;
}

struct tt_rate_sum tt_rate_window_sum(const struct tt_rate_window *self, int64_t now) {
    struct tt_rate_sum sum = {.dispersion = 1};
    if (self->began_at == 0)
        return sum;
    /* Whole seconds only: from the one after the first arrival, or 60 ago, to the current one. */
    int64_t to = now / TT_S, from = self->began_at / TT_S + 1;
    if (from < to - TT_RATE_WINDOW_SLOTS + 1)
        from = to - TT_RATE_WINDOW_SLOTS + 1;
    if (from >= to)
        return sum;
    int64_t recent = to - from < TT_RATE_WINDOW_S ? from : to - TT_RATE_WINDOW_S;
    sum.rows_per_s = mean_of(self, recent, to);
    sum.window_s = (double)(to - recent);
    sum.dispersion = dispersion_of(self, from, to);
    sum.growth_per_s2 = growth_of(self, from, to);
    return sum;
}
