#include "policy/lazy_times.h"

#include <stdlib.h>

static int64_t *line(const struct tt_lazy_times *self, int32_t index, int32_t rows) {
    int64_t lines = (int64_t)index * (self->model->max_batch + 1) + rows;
    return &self->before_ns[lines * (self->model->step_count + 1)];
}

/* The prefix sums for a batch. */
static const int64_t *sums(const struct tt_lazy_times *self, int32_t rows, int32_t length) {
    tt_assert(rows >= 0 && rows <= self->model->max_batch);
    bool one = self->lengths->length_count == 1;
    return line(self, one ? 0 : tt_profile_length_index(self->lengths, length), rows);
}

static void fill(struct tt_lazy_times *self) {
    const struct tt_step_model *model = self->model;
    for (int32_t i = 0; i < self->lengths->length_count; i++)
        for (int32_t rows = 0; rows <= model->max_batch; rows++) {
            int64_t *before = line(self, i, rows);
            for (int32_t s = 0; s < model->step_count; s++)
                before[s + 1] = before[s] + tt_profile_latency(model->steps[s].profile, rows,
                                                               self->lengths->lengths[i]);
        }
    for (int32_t s = 0; s < model->step_count; s++) {
        bool same = s > 0 && model->steps[s].kind == model->steps[s - 1].kind;
        int32_t first = same ? self->rows[s - 1].first : s;
        self->rows[s] = (struct tt_lazy_row){.first = first, .kind = model->steps[s].kind};
        for (int32_t i = first; i <= s; i++)
            self->rows[i].last = s;
    }
}

/* Outputs that went on after `round` rounds: how many more they had on average, rounded up. */
static int32_t residual(const int32_t *quantiles, int32_t round) {
    int64_t sum = 0, count = 0;
    for (int32_t p = 1; p < TT_QUANTILES; p++)
        if (quantiles[p] > round) {
            sum += quantiles[p] - round;
            count++;
        }
    return count ? (int32_t)((sum + count - 1) / count) : 1;
}

static void predict(struct tt_lazy_times *self, int32_t output, bool by_hand) {
    const int32_t *quantiles = by_hand ? NULL : self->model->output_quantiles;
    for (int32_t r = 0; r < self->left_count; r++) {
        int32_t left = output - r > 1 ? output - r : 1;
        int32_t mean = quantiles ? residual(quantiles, r) : 1;
        self->left[r] = left > mean ? left : mean;
    }
}

enum tt_err tt_lazy_times_init(struct tt_lazy_times *self, const struct tt_step_model *model,
                               int32_t output, bool by_hand) {
    tt_assert(output >= 1);
    *self = (struct tt_lazy_times){
        .model = model, .lengths = model->steps[0].profile, .left_count = output};
    if (model->output_quantiles && model->output_quantiles[TT_QUANTILES - 1] > output)
        self->left_count = model->output_quantiles[TT_QUANTILES - 1];
    for (int32_t s = 1; s < model->step_count; s++)
        if (model->steps[s].profile->length_count > self->lengths->length_count)
            self->lengths = model->steps[s].profile;
    size_t lines = (size_t)self->lengths->length_count * (size_t)(model->max_batch + 1);
    self->before_ns = calloc(lines * (size_t)(model->step_count + 1), sizeof(*self->before_ns));
    self->rows = calloc((size_t)model->step_count, sizeof(*self->rows));
    self->left = calloc((size_t)self->left_count, sizeof(*self->left));
    if (!self->before_ns || !self->rows || !self->left) {
        tt_lazy_times_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    fill(self);
    predict(self, output, by_hand);
    return TT_OK;
}

void tt_lazy_times_fini(struct tt_lazy_times *self) {
    free(self->before_ns);
    free(self->rows);
    free(self->left);
    *self = (struct tt_lazy_times){0};
}

/* Rounds that are left of the row where the batch stands, the one it is in included; 1 for static
 * steps. */
static int64_t rounds_left(const struct tt_lazy_times *self, const struct tt_lazy_row *row,
                           int32_t length, int32_t round) {
    if (row->kind == TT_STEP_STATIC)
        return 1;
    if (row->kind == TT_STEP_DECODER)
        return round < self->left_count ? self->left[round] : 1;
    return length - round > 1 ? length - round : 1;
}

int64_t tt_lazy_times_span(const struct tt_lazy_times *self, int32_t rows, int32_t length,
                           struct tt_lazy_place place, int32_t to) {
    const int64_t *before = sums(self, rows, length);
    int32_t step = place.step, round = place.round;
    tt_assert(to >= step && to <= self->model->step_count);
    int64_t sum_ns = 0;
    while (step < to) {
        const struct tt_lazy_row *row = &self->rows[step];
        if (to <= row->last) /* the first time there is without another round */
            return sum_ns + before[to] - before[step];
        int64_t left = rounds_left(self, row, length, round);
        sum_ns += (left - 1) * (before[row->last + 1] - before[row->first]) +
                  before[row->last + 1] - before[step];
        step = row->last + 1;
        round = 0;
    }
    return sum_ns;
}

/* The first step behind `step`, up to `last + 1`, with before[.] > target. */
static int32_t boundary_after(const int64_t *before, int32_t step, int32_t last, int64_t target) {
    int32_t low = step + 1, high = last + 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (before[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct tt_lazy_place tt_lazy_times_reach(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place,
                                         int64_t elapsed_ns, int64_t *out_after_ns) {
    const int64_t *before = sums(self, rows, length);
    struct tt_lazy_place at = place;
    int64_t past_ns = 0; /* until the batch stood at `at` */
    while (at.step < self->model->step_count) {
        const struct tt_lazy_row *row = &self->rows[at.step];
        int64_t left = rounds_left(self, row, length, at.round);
        int64_t round_ns = before[row->last + 1] - before[row->first];
        int64_t first_ns = before[row->last + 1] - before[at.step];
        int64_t all_ns = first_ns + (left - 1) * round_ns;
        if (past_ns + all_ns <= elapsed_ns) {
            past_ns += all_ns;
            at = (struct tt_lazy_place){.step = row->last + 1};
            continue;
        }
        int64_t inside_ns = elapsed_ns - past_ns;
        if (inside_ns >= first_ns && round_ns > 0) { /* whole rounds have passed */
            int64_t passed = 1 + (inside_ns - first_ns) / round_ns;
            past_ns += first_ns + (passed - 1) * round_ns;
            at = (struct tt_lazy_place){.step = row->first, .round = at.round + (int32_t)passed};
            inside_ns = elapsed_ns - past_ns;
            left -= passed;
        }
        int32_t step = boundary_after(before, at.step, row->last, before[at.step] + inside_ns);
        *out_after_ns = past_ns + before[step] - before[at.step];
        if (step <= row->last)
            return (struct tt_lazy_place){.step = step, .round = at.round};
        if (left > 1)
            return (struct tt_lazy_place){.step = row->first, .round = at.round + 1};
        return (struct tt_lazy_place){.step = step};
    }
    *out_after_ns = past_ns;
    return at;
}
