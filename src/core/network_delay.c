#include "core/network_delay.h"

#include "base/err.h"
#include "base/instant.h"

enum { PERIOD = 16, FIRST_PERIOD = 4, LEAST_GROUP = 4, MOVE_PERCENT = 5 };
#define MOVE_NS (10 * TT_US)
#define TRAVEL_MAX_NS (3600 * TT_S)

void tt_delay_estimate_init(struct tt_delay_estimate *self, struct tt_network_delay prior,
                            int32_t percent) {
    tt_assert(percent >= 1 && percent <= 100);
    *self = (struct tt_delay_estimate){
        .prior = prior, .believed = prior, .percent = percent, .device = -1};
}

/* Insertion: 32 values at most, usually nearly in order. */
static void sort(int64_t *values, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        int64_t value = values[i];
        int32_t k = i;
        for (; k > 0 && values[k - 1] > value; k--)
            values[k] = values[k - 1];
        values[k] = value;
    }
}

/* The place nearest the middle that divides ascending rows into two groups without a common value.
 * 0: a group would be too small. */
static int32_t divide(const int64_t *rows, int32_t count) {
    for (int32_t off = 0; off <= count / 2 - LEAST_GROUP; off++) {
        int32_t low = count / 2 - off, high = count / 2 + off;
        if (rows[low - 1] < rows[low])
            return low;
        if (high <= count - LEAST_GROUP && rows[high - 1] < rows[high])
            return high;
    }
    return 0;
}

/* The travel time that one more row costs. */
static int64_t slope_of(const struct tt_delay_estimate *self) {
    int64_t rows[TT_NETWORK_DELAY_WINDOW], low[TT_NETWORK_DELAY_WINDOW],
        high[TT_NETWORK_DELAY_WINDOW];
    for (int32_t i = 0; i < self->count; i++)
        rows[i] = self->rows[i];
    sort(rows, self->count);
    int32_t at = divide(rows, self->count), low_count = 0, high_count = 0;
    if (at == 0)
        return self->believed.data_ns;
    for (int32_t i = 0; i < self->count; i++)
        if (self->rows[i] < rows[at])
            low[low_count++] = self->travel_ns[i];
        else
            high[high_count++] = self->travel_ns[i];
    tt_assert(low_count == at);
    sort(low, low_count);
    sort(high, high_count);
    /* The lower medians of rows and of times belong together where times grow with rows. */
    int64_t row_span = rows[at + (high_count - 1) / 2] - rows[(low_count - 1) / 2];
    int64_t span_ns = high[(high_count - 1) / 2] - low[(low_count - 1) / 2];
    return span_ns > 0 ? (span_ns + row_span / 2) / row_span : 0;
}

/* The quantile of the times that the rows do not explain. */
static int64_t rest_of(const struct tt_delay_estimate *self, int64_t data_ns) {
    int64_t rest[TT_NETWORK_DELAY_WINDOW];
    for (int32_t i = 0; i < self->count; i++)
        rest[i] = self->travel_ns[i] - data_ns * self->rows[i];
    sort(rest, self->count);
    return tt_instant_max(rest[(self->count * self->percent + 99) / 100 - 1], 0);
}

static bool differs(struct tt_network_delay a, struct tt_network_delay b, int32_t rows) {
    int64_t before_ns = tt_network_delay_of(a, rows), after_ns = tt_network_delay_of(b, rows);
    int64_t slack_ns = tt_instant_max(before_ns * MOVE_PERCENT / 100, MOVE_NS);
    return after_ns > before_ns + slack_ns || after_ns < before_ns - slack_ns;
}

/* True if a message of the window was under way between these instants, which are not one. */
static bool overlaps(const struct tt_delay_estimate *self, int64_t sent_at, int64_t received_at) {
    bool any = false;
    for (int32_t i = 0; i < self->count; i++)
        any |= self->sent_at[i] < received_at && sent_at < self->sent_at[i] + self->travel_ns[i];
    return any;
}

bool tt_delay_estimate_add(struct tt_delay_estimate *self, int64_t sent_at, int32_t rows,
                           int64_t travel_ns) {
    tt_assert(rows >= 0 && travel_ns >= 0);
    if (overlaps(self, sent_at, tt_instant_add(sent_at, travel_ns)))
        return false;
    self->rows[self->next] = rows;
    self->sent_at[self->next] = sent_at;
    self->travel_ns[self->next] = tt_instant_min(travel_ns, TRAVEL_MAX_NS);
    self->next = (self->next + 1) % TT_NETWORK_DELAY_WINDOW;
    self->count += self->count < TT_NETWORK_DELAY_WINDOW;
    if (++self->since < (self->count <= PERIOD ? FIRST_PERIOD : PERIOD))
        return false;
    self->since = 0;
    struct tt_network_delay found = {.data_ns = slope_of(self)};
    found.control_ns = rest_of(self, found.data_ns);
    int32_t least = rows, most = rows;
    for (int32_t i = 0; i < self->count; i++) {
        least = self->rows[i] < least ? self->rows[i] : least;
        most = self->rows[i] > most ? self->rows[i] : most;
    }
    if (!differs(self->believed, found, least) && !differs(self->believed, found, most))
        return false;
    self->believed = found;
    return true;
}

bool tt_delay_estimate_starved(struct tt_delay_estimate *self) {
    bool moved = self->believed.control_ns != self->prior.control_ns ||
                 self->believed.data_ns != self->prior.data_ns;
    int32_t device = self->device;
    tt_delay_estimate_init(self, self->prior, self->percent);
    self->device = device;
    return moved;
}

void tt_delay_estimate_check(const struct tt_delay_estimate *self) {
    tt_assert(self->believed.control_ns >= 0 && self->believed.data_ns >= 0);
    tt_assert(self->count >= 0 && self->count <= TT_NETWORK_DELAY_WINDOW);
    tt_assert(self->next >= 0 && self->next < TT_NETWORK_DELAY_WINDOW);
    tt_assert(self->since >= 0 && self->since < PERIOD);
    for (int32_t i = 0; i < self->count; i++)
        tt_assert(self->rows[i] >= 0 && self->travel_ns[i] >= 0);
}
