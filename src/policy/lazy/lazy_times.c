#include "policy/lazy/lazy_times.h"

#include <stdlib.h>

static void find_rows(struct tt_lazy_times *self) {
    const struct tt_step_model *model = self->model;
    for (int32_t s = 0; s < model->step_count; s++) {
        bool same = s > 0 && model->steps[s].kind == model->steps[s - 1].kind;
        int32_t first = same ? self->rows[s - 1].first : s;
        self->rows[s] = (struct tt_lazy_row){.first = first, .kind = model->steps[s].kind};
        for (int32_t i = first; i <= s; i++)
            self->rows[i].last = s;
    }
    self->rows[model->step_count] = (struct tt_lazy_row){.kind = TT_STEP_STATIC};
}

/* The rounds of a block that a batch reaches for the first time, if they do not depend on its
 * input; else 0. */
static int64_t fixed_rounds(const struct tt_lazy_times *self, enum tt_step_kind kind) {
    return kind == TT_STEP_STATIC ? 1 : kind == TT_STEP_DECODER ? self->left[0] : 0;
}

static void fill_line(const struct tt_lazy_times *self, struct tt_lazy_sum *sums, int32_t rows,
                      int32_t length) {
    int32_t count = self->step_count;
    for (int32_t s = 0; s < count; s++)
        sums[s + 1].before_ns =
            sums[s].before_ns + tt_profile_tail(self->model->steps[s].profile, rows, length);
    for (int32_t s = count - 1; s >= 0; s--) {
        const struct tt_lazy_row *row = &self->rows[s];
        int32_t next = row->last + 1;
        if (row->kind != TT_STEP_STATIC)
            sums[s].round_ns = sums[next].before_ns - sums[row->first].before_ns;
        int64_t behind_ns = sums[next].fixed_ns, per_input_ns = sums[next].per_input_ns;
        if (next < count) { /* fixed_ns includes one round of the block behind */
            const struct tt_lazy_row *other = &self->rows[next];
            int64_t round_ns = sums[other->last + 1].before_ns - sums[next].before_ns;
            behind_ns += (fixed_rounds(self, other->kind) - 1) * round_ns;
            per_input_ns += other->kind == TT_STEP_ENCODER ? round_ns : 0;
        }
        sums[s].fixed_ns = sums[next].before_ns - sums[s].before_ns + behind_ns;
        sums[s].per_input_ns = per_input_ns;
    }
}

/* The outputs that are longer than so many rounds: percents `from` .. 100. */
struct longer {
    const int32_t *quantiles;
    int32_t from;
    int64_t sum; /* of their lengths */
};

static void longer_begin(struct longer *self, const int32_t *quantiles) {
    *self = (struct longer){.quantiles = quantiles, .from = 1};
    for (int32_t p = 1; p < TT_QUANTILES; p++)
        self->sum += quantiles[p];
}

/* The mean number of further rounds, rounded up, of outputs that continued after `round` rounds.
 * `round` does not descend from call to call. */
static int32_t residual(struct longer *self, int32_t round) {
    while (self->from < TT_QUANTILES && self->quantiles[self->from] <= round)
        self->sum -= self->quantiles[self->from++];
    int64_t count = TT_QUANTILES - self->from;
    return count ? (int32_t)((self->sum - count * round + count - 1) / count) : 1;
}

void tt_lazy_times_predict(struct tt_lazy_times *self, int32_t output, bool by_hand) {
    const int32_t *quantiles = by_hand ? NULL : self->model->output_quantiles;
    struct longer longer;
    if (quantiles)
        longer_begin(&longer, quantiles);
    self->left[self->left_count] = 1;
    for (int32_t r = 0; r < self->left_count; r++) {
        int32_t left = output - r > 1 ? output - r : 1;
        int32_t mean = quantiles ? residual(&longer, r) : 1;
        self->left[r] = left > mean ? left : mean;
    }
}

enum tt_err tt_lazy_times_init(struct tt_lazy_times *self, const struct tt_step_model *model,
                               int32_t output, bool by_hand) {
    tt_assert(output >= 1);
    *self = (struct tt_lazy_times){.model = model,
                                   .lengths = model->steps[0].profile,
                                   .left_count = output,
                                   .step_count = model->step_count,
                                   .line_count = model->max_batch + 1};
    if (model->output_quantiles && model->output_quantiles[TT_QUANTILES - 1] > output)
        self->left_count = model->output_quantiles[TT_QUANTILES - 1];
    for (int32_t s = 1; s < model->step_count; s++)
        if (model->steps[s].profile->length_count > self->lengths->length_count)
            self->lengths = model->steps[s].profile;
    size_t lines = (size_t)self->lengths->length_count * (size_t)self->line_count;
    self->sums = calloc(lines * (size_t)(model->step_count + 1), sizeof(*self->sums));
    self->rows = calloc((size_t)model->step_count + 1, sizeof(*self->rows));
    self->left = calloc((size_t)self->left_count + 1, sizeof(*self->left));
    if (!self->sums || !self->rows || !self->left) {
        tt_lazy_times_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    if (self->lengths->length_count == 1)
        self->one = &self->sums[model->step_count + 1];
    tt_lazy_times_predict(self, output, by_hand);
    find_rows(self);
    tt_lazy_times_fill(self);
    return TT_OK;
}

void tt_lazy_times_fill(struct tt_lazy_times *self) {
    int32_t width = self->step_count + 1;
    for (int32_t i = 0; i < self->lengths->length_count; i++)
        for (int32_t rows = 0; rows < self->line_count; rows++)
            fill_line(self, &self->sums[((int64_t)i * self->line_count + rows) * width], rows,
                      self->lengths->lengths[i]);
}

void tt_lazy_times_fini(struct tt_lazy_times *self) {
    free(self->sums);
    free(self->rows);
    free(self->left);
    *self = (struct tt_lazy_times){0};
}

const struct tt_lazy_sum *tt_lazy_times_sums(const struct tt_lazy_times *self, int32_t rows,
                                             int32_t length, int32_t step) {
    tt_assert(rows >= 0 && rows < self->line_count);
    int64_t index = self->one ? 0 : tt_profile_length_index(self->lengths, length);
    return &self->sums[(index * self->line_count + rows) * (self->step_count + 1) + step];
}

int64_t tt_lazy_times_span(const struct tt_lazy_times *self, int32_t rows, int32_t length,
                           struct tt_lazy_place place, int32_t to) {
    tt_assert(to >= place.step && to <= self->step_count);
    const struct tt_lazy_sum *at = tt_lazy_times_at(self, rows, length, 0);
    if (place.step < self->step_count && to <= self->rows[place.step].last)
        return at[to].before_ns - at[place.step].before_ns; /* no further round */
    int64_t rest_ns = tt_lazy_sum_rest(self, &at[place.step], place.step, length, place.round);
    return to == self->step_count ? rest_ns
                                  : rest_ns - tt_lazy_sum_rest(self, &at[to], to, length, 0);
}

/* The first step behind `step`, at most `last + 1`, that has more than `target` ns before it. */
static int32_t boundary_after(const struct tt_lazy_sum *sums, int32_t step, int32_t last,
                              int64_t target) {
    int32_t low = step + 1, high = last + 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (sums[middle].before_ns > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct tt_lazy_place tt_lazy_times_reach(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place,
                                         int64_t elapsed_ns, int64_t *out_after_ns) {
    const struct tt_lazy_sum *sums = tt_lazy_times_at(self, rows, length, 0);
    struct tt_lazy_place at = place;
    int64_t past_ns = 0; /* the time at which the batch stood at `at` */
    elapsed_ns -=
        elapsed_ns > 0; /* from here on: searches the first boundary later than elapsed_ns */
    while (at.step < self->step_count) {
        const struct tt_lazy_row *row = &self->rows[at.step];
        int64_t left = tt_lazy_times_rounds(self, at.step, length, at.round);
        int64_t round_ns = sums[row->last + 1].before_ns - sums[row->first].before_ns;
        int64_t first_ns = sums[row->last + 1].before_ns - sums[at.step].before_ns;
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
        int32_t step =
            boundary_after(sums, at.step, row->last, sums[at.step].before_ns + inside_ns);
        *out_after_ns = past_ns + sums[step].before_ns - sums[at.step].before_ns;
        if (step <= row->last)
            return (struct tt_lazy_place){.step = step, .round = at.round};
        if (left > 1)
            return (struct tt_lazy_place){.step = row->first, .round = at.round + 1};
        return (struct tt_lazy_place){.step = step};
    }
    *out_after_ns = past_ns;
    return at;
}
