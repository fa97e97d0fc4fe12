#include "core/profile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_PARTS = 16 }; /* of a length, to the next one of a table */

static struct tt_profile *profile_new(int32_t max_batch, int32_t length_count) {
    struct tt_profile *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    size_t batches = (size_t)max_batch + 1;
    self->max_batch = max_batch;
    self->length_count = length_count;
    self->lengths = calloc((size_t)length_count, sizeof(*self->lengths));
    self->latency_ns = calloc(batches * (size_t)length_count, sizeof(*self->latency_ns));
    self->demand_ppm = calloc(batches * (size_t)length_count, sizeof(*self->demand_ppm));
    if (!self->lengths || !self->latency_ns || !self->demand_ppm) {
        tt_profile_free(self);
        return NULL;
    }
    self->tail_ns = self->latency_ns;
    return self;
}

void tt_profile_free(struct tt_profile *take_profile) {
    if (!take_profile)
        return;
    free(take_profile->lengths);
    free(take_profile->latency_ns);
    free(take_profile->demand_ppm);
    free(take_profile);
}

void tt_profile_check(const struct tt_profile *self) {
    tt_assert(self->max_batch >= 1);
    tt_assert(self->max_batch <= TT_PROFILE_MAX_BATCH);
    tt_assert(self->length_count >= 1);
    for (int32_t row = 0; row < self->length_count; row++) {
        int64_t first = (int64_t)row * (self->max_batch + 1);
        tt_assert(row == 0 || self->lengths[row] > self->lengths[row - 1]);
        tt_assert(self->latency_ns[first] == 0);
        tt_assert(self->latency_ns[first + 1] > 0);
        for (int64_t i = first + 1; i <= first + self->max_batch; i++) {
            tt_assert(self->latency_ns[i] >= self->latency_ns[i - 1]);
            tt_assert(self->tail_ns[i] >= self->latency_ns[i]);
            tt_assert(self->demand_ppm[i] >= 1);
            tt_assert(self->demand_ppm[i] <= TT_DEMAND_WHOLE);
        }
    }
}

static enum tt_err check_max_batch(int32_t max_batch, struct tt_error *why) {
    if (max_batch >= 1 && max_batch <= TT_PROFILE_MAX_BATCH)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why, "the largest batch is %d; it must be 1 .. %d", max_batch,
                   TT_PROFILE_MAX_BATCH);
}

enum tt_err tt_profile_new_linear(int64_t alpha_ns, int64_t beta_ns, int32_t max_batch,
                                  struct tt_profile **out_profile, struct tt_error *why) {
    enum tt_err err = check_max_batch(max_batch, why);
    if (err)
        return err;
    if (alpha_ns < 0 || beta_ns < 0 || alpha_ns > INT64_MAX / 2 / TT_PROFILE_MAX_BATCH ||
        beta_ns > INT64_MAX / 4 || alpha_ns + beta_ns <= 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "l(b) = %lld b + %lld ns: both must be >= 0, at least one positive",
                       (long long)alpha_ns, (long long)beta_ns);
    struct tt_profile *self = profile_new(max_batch, 1);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile of %d batches",
                       max_batch);
    self->alpha_ns = alpha_ns;
    self->beta_ns = beta_ns;
    for (int32_t b = 1; b <= max_batch; b++) {
        self->latency_ns[b] = alpha_ns * b + beta_ns;
        self->demand_ppm[b] = TT_DEMAND_WHOLE;
    }
    *out_profile = self;
    return TT_OK;
}

static int compare_points(const void *a, const void *b) {
    const struct tt_profile_point *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* The value at `part` of `whole` on the line between two. */
static int64_t on_line(int64_t p_value, int64_t q_value, int64_t part, int64_t whole) {
    __int128 value = p_value + (__int128)(q_value - p_value) * part / whole;
    const int64_t most = INT64_MAX / 4; /* a steep last slope may lead far beyond the points */
    return value > most ? most : value < -most ? -most : (int64_t)value;
}

/* Fills the table row of one length from its sorted points. */
static void fill_row(struct tt_profile *self, int32_t row, const struct tt_profile_point *points,
                     int32_t count) {
    int64_t *latency = self->latency_ns + (int64_t)row * (self->max_batch + 1);
    int32_t *demands = self->demand_ppm + (int64_t)row * (self->max_batch + 1);
    int32_t right = 0;
    for (int32_t b = 1; b <= self->max_batch; b++) {
        while (right < count - 1 && points[right].batch < b)
            right++;
        const struct tt_profile_point *q = &points[right];
        const struct tt_profile_point *p = right > 0 ? q - 1 : q;
        int64_t value = q->latency_ns;
        int64_t demand = q->demand_ppm ? q->demand_ppm : TT_DEMAND_WHOLE;
        if (p != q) {
            int64_t p_demand = p->demand_ppm ? p->demand_ppm : TT_DEMAND_WHOLE;
            int32_t part = b - p->batch, whole = q->batch - p->batch;
            value = on_line(p->latency_ns, q->latency_ns, part, whole);
            demand = on_line(p_demand, demand, part, whole);
        }
        if (value < latency[b - 1])
            value = latency[b - 1];
        latency[b] = value;
        demands[b] = (int32_t)(demand < 1                 ? 1
                               : demand > TT_DEMAND_WHOLE ? TT_DEMAND_WHOLE
                                                          : demand);
    }
}

/* Least-squares line through the points of the first length, in integers. */
static void fit_line(struct tt_profile *self, const struct tt_profile_point *points,
                     int32_t count) {
    if (count < 2) {
        self->beta_ns = points[0].latency_ns;
        return;
    }
    __int128 n = count, sum_b = 0, sum_l = 0, sum_bb = 0, sum_bl = 0;
    for (int32_t i = 0; i < count; i++) {
        sum_b += points[i].batch;
        sum_l += points[i].latency_ns;
        sum_bb += (__int128)points[i].batch * points[i].batch;
        sum_bl += (__int128)points[i].batch * points[i].latency_ns;
    }
    __int128 alpha = (n * sum_bl - sum_b * sum_l) / (n * sum_bb - sum_b * sum_b);
    __int128 beta = (sum_l - alpha * sum_b) / n;
    self->alpha_ns = alpha > 0 ? (int64_t)alpha : 0;
    self->beta_ns = beta > 0 ? (int64_t)beta : 0;
}

static enum tt_err check_points(const struct tt_profile_point *points, int32_t count,
                                struct tt_error *why) {
    for (int32_t i = 0; i < count; i++) {
        const struct tt_profile_point *p = &points[i];
        if (p->batch < 1 || p->batch > TT_PROFILE_MAX_BATCH || p->latency_ns <= 0 ||
            p->latency_ns > INT64_MAX / 8 || p->length < 0 || p->demand_ppm < 0 ||
            p->demand_ppm > TT_DEMAND_WHOLE)
            return tt_fail(TT_ERR_INVALID, why,
                           "profile point length %d batch %d latency %lld ns demand %d ppm: want "
                           "batch 1 .. %d, latency > 0, demand 0 .. %d",
                           p->length, p->batch, (long long)p->latency_ns, p->demand_ppm,
                           TT_PROFILE_MAX_BATCH, TT_DEMAND_WHOLE);
        bool starts = i == 0 || p->length != points[i - 1].length;
        if (starts && p->batch != 1)
            return tt_fail(TT_ERR_INVALID, why,
                           "profile for length %d begins at batch %d; batch 1 is needed", p->length,
                           p->batch);
        if (!starts && p->batch == points[i - 1].batch)
            return tt_fail(TT_ERR_INVALID, why, "profile has length %d batch %d twice", p->length,
                           p->batch);
    }
    return TT_OK;
}

enum tt_err tt_profile_new_points(const struct tt_profile_point *points, int32_t count,
                                  int32_t max_batch, struct tt_profile **out_profile,
                                  struct tt_error *why) {
    enum tt_err err = check_max_batch(max_batch, why);
    if (err)
        return err;
    if (count < 1)
        return tt_fail(TT_ERR_INVALID, why, "a profile needs at least one point");
    struct tt_profile_point *sorted = malloc((size_t)count * sizeof(*sorted));
    if (!sorted)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile");
    memcpy(sorted, points, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_points);
    err = check_points(sorted, count, why);
    int32_t lengths = 0;
    bool knows_demand = false;
    for (int32_t i = 0; i < count; i++) {
        lengths += i == 0 || sorted[i].length != sorted[i - 1].length;
        knows_demand = knows_demand || sorted[i].demand_ppm > 0;
    }
    struct tt_profile *self = err ? NULL : profile_new(max_batch, lengths);
    if (!err && !self)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile");
    for (int32_t i = 0, row = 0; !err && i < count; row++) {
        int32_t end = i + 1;
        while (end < count && sorted[end].length == sorted[i].length)
            end++;
        self->lengths[row] = sorted[i].length;
        fill_row(self, row, sorted + i, end - i);
        if (row == 0)
            fit_line(self, sorted, end);
        i = end;
    }
    free(sorted);
    if (err)
        return err;
    self->knows_demand = knows_demand;
    *out_profile = self;
    return TT_OK;
}

static enum tt_err check_row(const struct tt_profile *table, int32_t row, struct tt_error *why) {
    const int64_t *latency = table->latency_ns + (int64_t)row * (table->max_batch + 1);
    if (table->lengths[row] < 0 || (row > 0 && table->lengths[row] <= table->lengths[row - 1]))
        return tt_fail(TT_ERR_INVALID, why, "a profile's lengths must ascend from 0, not %d",
                       table->lengths[row]);
    for (int32_t b = 1; b <= table->max_batch; b++)
        if (latency[b] < latency[b - 1] || latency[b] < 1 || latency[b] > INT64_MAX / 4)
            return tt_fail(TT_ERR_INVALID, why,
                           "a profile's latency at length %d batch %d is %lld ns: it must be "
                           "positive and not below that of the batch before",
                           table->lengths[row], b, (long long)latency[b]);
    const int32_t *demand = table->demand_ppm + (int64_t)row * (table->max_batch + 1);
    for (int32_t b = 1; b <= table->max_batch; b++)
        if (demand[b] < 1 || demand[b] > TT_DEMAND_WHOLE)
            return tt_fail(TT_ERR_INVALID, why,
                           "a profile's demand at length %d batch %d is %d ppm, not 1 .. %d",
                           table->lengths[row], b, demand[b], TT_DEMAND_WHOLE);
    return TT_OK;
}

static void copy_summary(struct tt_profile *to, const struct tt_profile *from) {
    to->alpha_ns = from->alpha_ns;
    to->beta_ns = from->beta_ns;
    to->knows_demand = from->knows_demand;
    to->static_bytes = from->static_bytes;
    to->dynamic_bytes = from->dynamic_bytes;
}

enum tt_err tt_profile_new_table(const struct tt_profile *table, struct tt_profile **out_profile,
                                 struct tt_error *why) {
    enum tt_err err = check_max_batch(table->max_batch, why);
    if (err)
        return err;
    if (table->length_count < 1)
        return tt_fail(TT_ERR_INVALID, why, "a profile needs at least one length");
    if (table->alpha_ns < 0 || table->beta_ns < 0)
        return tt_fail(TT_ERR_INVALID, why, "a profile's alpha and beta must not be negative");
    if (table->static_bytes < 0 || table->static_bytes > TT_PROFILE_MAX_BYTES ||
        table->dynamic_bytes < 0 || table->dynamic_bytes > TT_PROFILE_MAX_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "a profile's memory must be 0 .. %lld bytes",
                       (long long)TT_PROFILE_MAX_BYTES);
    for (int32_t row = 0; !err && row < table->length_count; row++)
        err = check_row(table, row, why);
    if (err)
        return err;
    struct tt_profile *self = profile_new(table->max_batch, table->length_count);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile");
    size_t batches = (size_t)table->max_batch + 1, lengths = (size_t)table->length_count;
    memcpy(self->lengths, table->lengths, lengths * sizeof(*self->lengths));
    memcpy(self->latency_ns, table->latency_ns, lengths * batches * sizeof(*self->latency_ns));
    memcpy(self->demand_ppm, table->demand_ppm, lengths * batches * sizeof(*self->demand_ppm));
    copy_summary(self, table);
    *out_profile = self;
    return TT_OK;
}

static int64_t length_after(int64_t length) {
    return length < LENGTH_PARTS ? length + 1 : length + length / LENGTH_PARTS;
}

/* How many rows stand for lengths from that of `row` up to that of the next one. */
static int32_t rows_between(const struct tt_profile *self, int32_t row) {
    int32_t count = 1;
    if (row == self->length_count - 1)
        return count;
    for (int64_t at = length_after(self->lengths[row]); at < self->lengths[row + 1];
         at = length_after(at))
        count++;
    return count;
}

static void fill_between(const struct tt_profile *self, int32_t row, int32_t length,
                         struct tt_profile *to, int32_t to_row) {
    int32_t batches = self->max_batch + 1, low = self->lengths[row];
    bool is_last = row == self->length_count - 1;
    int64_t from = (int64_t)row * batches, next = is_last ? from : from + batches;
    int64_t part = length - low, whole = is_last ? 1 : self->lengths[row + 1] - low;
    int64_t *latency = to->latency_ns + (int64_t)to_row * batches;
    int32_t *demand = to->demand_ppm + (int64_t)to_row * batches;
    to->lengths[to_row] = length;
    for (int32_t b = 1; b < batches; b++) {
        latency[b] = on_line(self->latency_ns[from + b], self->latency_ns[next + b], part, whole);
        if (latency[b] < latency[b - 1]) /* rounding may break the order of two batches by 1 ns */
            latency[b] = latency[b - 1];
        demand[b] =
            (int32_t)on_line(self->demand_ppm[from + b], self->demand_ppm[next + b], part, whole);
    }
}

enum tt_err tt_profile_new_between(const struct tt_profile *self, struct tt_profile **out_profile,
                                   struct tt_error *why) {
    int32_t count = 0;
    for (int32_t row = 0; row < self->length_count; row++)
        count += rows_between(self, row);
    struct tt_profile *dense = profile_new(self->max_batch, count);
    if (!dense)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile");
    for (int32_t row = 0, to_row = 0; row < self->length_count; row++) {
        int64_t length = self->lengths[row];
        for (int32_t i = rows_between(self, row); i > 0; i--) {
            fill_between(self, row, (int32_t)length, dense, to_row++);
            length = length_after(length);
        }
    }
    copy_summary(dense, self);
    *out_profile = dense;
    return TT_OK;
}

/* So many rows, in batches as large as the table has. */
static int64_t latency_of_rows(const int64_t *row_ns, int32_t max_batch, int64_t rows) {
    return rows / max_batch * row_ns[max_batch] + row_ns[rows % max_batch];
}

enum tt_err tt_profile_new_shared(const struct tt_profile *self, int32_t tasks,
                                  struct tt_profile **out_profile, struct tt_error *why) {
    struct tt_profile *shared;
    tt_assert(tasks >= 1);
    enum tt_err err = tt_profile_new_table(self, &shared, why);
    if (err)
        return err;
    for (int32_t l = 0; l < self->length_count; l++) {
        size_t first = (size_t)l * ((size_t)self->max_batch + 1);
        for (int32_t b = 1; b <= self->max_batch; b++)
            shared->latency_ns[first + (size_t)b] =
                latency_of_rows(self->latency_ns + first, self->max_batch, (int64_t)tasks * b);
    }
    shared->alpha_ns *= tasks;
    shared->knows_demand = false; /* it is about tasks below */
    *out_profile = shared;
    return TT_OK;
}

int32_t tt_profile_length_index(const struct tt_profile *self, int32_t length) {
    int32_t low = 0, high = self->length_count - 1;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (self->lengths[middle] >= length)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int32_t tt_profile_largest_batch(const struct tt_profile *self, int64_t budget_ns, int32_t length,
                                 int32_t limit) {
    int32_t high = limit < self->max_batch ? limit : self->max_batch;
    if (high < 1 || tt_profile_tail(self, 1, length) > budget_ns)
        return 0;
    if (tt_profile_tail(self, high, length) <= budget_ns)
        return high;
    int32_t low = 1; /* invariant: tail(low) fits, tail(high) does not */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (tt_profile_tail(self, middle, length) <= budget_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}
