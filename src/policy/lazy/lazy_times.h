/* L2, L3: the time that requests of a model still need, from the profiles of its steps.
 *
 * Algorithm 1 of the paper: static steps count once. The steps of an encoder block count once per
 * input element. Those of a decoder block count once per element of the predicted output, whose
 * length the chosen share of the profiled outputs do not exceed. After r
 * rounds the further rounds of an output are the larger of two numbers: what the prediction leaves
 * (at least 1), and the mean of the further rounds that the profiled outputs longer than r had. The
 * second is an extension of the paper. It does not apply if an option gives the length.
 *
 * For every batch size and profiled length there is a line of sums over the steps. So the remaining
 * time of a batch, from any step, is two products and two sums, whatever the number of steps and
 * blocks.
 *
 * A table is made when its model is added (size: steps x batch sizes x lengths). It is filled again
 * when other latencies, or lengths of outputs, are believed. After more rounds than the longest
 * output of the model that was added, one is left. Times are tails (core/profile.h), since they
 * answer whether requests end in time. */
#ifndef TT_POLICY_LAZY_LAZY_TIMES_H
#define TT_POLICY_LAZY_LAZY_TIMES_H

#include "core/step_model.h"

/* The adjacent steps of one kind around a step. Encoder and decoder steps run in rounds. */
struct tt_lazy_row {
    int32_t first, last;
    enum tt_step_kind kind;
};

/* Sums at a step, for one batch size and one longest input length. */
struct tt_lazy_sum {
    int64_t before_ns; /* of steps 0 .. this - 1, each once */
    int64_t fixed_ns;  /* from here to the end, without further rounds of the block that it is in */
    int64_t per_input_ns; /* time per input element, for the encoder blocks behind it */
    int64_t round_ns;     /* one round of the block that it is in; 0: a static step, or the end */
};

struct tt_lazy_times {
    const struct tt_step_model *model;
    const struct tt_profile *lengths; /* the profile with the most input lengths */
    struct tt_lazy_sum *sums;         /* [lengths][max_batch + 1][step_count + 1] */
    const struct tt_lazy_sum *one;    /* of these, for one row; NULL: there are several lengths */
    struct tt_lazy_row *rows;         /* [step_count + 1]; the end counts as a static step */
    int32_t *left;      /* [left_count + 1]: rounds left of an output after so many rounds */
    int32_t left_count; /* from this round on the last entry holds */
    int32_t step_count, line_count; /* of the model; lines per length */
};

/* The position of a batch: at `step`, after `round` rounds of its block. */
struct tt_lazy_place {
    int32_t step, round;
};

/* The length that this share of the profiled outputs does not exceed; 1 without decoders. */
static inline int32_t tt_lazy_times_output(const struct tt_step_model *model,
                                           int64_t coverage_permille) {
    if (!model->output_quantiles)
        return 1;
    int32_t length = model->output_quantiles[(coverage_permille + 9) / 10];
    return length > 1 ? length : 1;
}

/* `output`: the predicted length, 1 or more. `by_hand`: the option gives it, so the profiled
 * outputs do not count. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_lazy_times_init(struct tt_lazy_times *self,
                                             const struct tt_step_model *model, int32_t output,
                                             bool by_hand);
/* Predicts the rounds of decoders again; then call _fill. Parameters as for _init. O(longest
 * output).
 */
void tt_lazy_times_predict(struct tt_lazy_times *self, int32_t output, bool by_hand);
/* Computes all sums again, from the model's latencies and the predicted rounds. */
void tt_lazy_times_fill(struct tt_lazy_times *self);
void tt_lazy_times_fini(struct tt_lazy_times *self);
/* The time in ns from `place` until the batch reaches the step `to` for the first time (to >=
 * place.step; step_count: its end). `length`: its longest input. O(1). */
int64_t tt_lazy_times_span(const struct tt_lazy_times *self, int32_t rows, int32_t length,
                           struct tt_lazy_place place, int32_t to);
/* The sums at `step`, which may be the end, for a batch of `rows` rows, or for requests of `rows`
 * rows each. */
const struct tt_lazy_sum *tt_lazy_times_sums(const struct tt_lazy_times *self, int32_t rows,
                                             int32_t length, int32_t step);
static inline const struct tt_lazy_sum *
tt_lazy_times_at(const struct tt_lazy_times *self, int32_t rows, int32_t length, int32_t step) {
    if (rows == 1 && self->one)
        return &self->one[step]; /* the usual case */
    return tt_lazy_times_sums(self, rows, length, step);
}
/* The number of elements of an input of this length, at least 1. */
static inline int64_t tt_lazy_elements(int32_t length) { return length > 1 ? length : 1; }
/* The rounds of a decoder that are left after `round` rounds, the next one included: 1 or more. */
static inline int32_t tt_lazy_times_left(const struct tt_lazy_times *self, int32_t round) {
    return self->left[round < self->left_count ? round : self->left_count];
}
/* The rounds left of the block of `step`, the present one included; 1 for static steps. */
static inline int64_t tt_lazy_times_rounds(const struct tt_lazy_times *self, int32_t step,
                                           int32_t length, int32_t round) {
    enum tt_step_kind kind = self->rows[step].kind;
    if (kind == TT_STEP_STATIC)
        return 1;
    return kind == TT_STEP_DECODER ? tt_lazy_times_left(self, round)
                                   : tt_lazy_elements(length - round);
}
/* The time in ns from `step` to the end. `at`: the sums at that step; `round`: the rounds of its
 * block that are done. */
static inline int64_t tt_lazy_sum_rest(const struct tt_lazy_times *self,
                                       const struct tt_lazy_sum *at, int32_t step, int32_t length,
                                       int32_t round) {
    int64_t rounds = tt_lazy_times_rounds(self, step, length, round);
    return at->fixed_ns + tt_lazy_elements(length) * at->per_input_ns + (rounds - 1) * at->round_ns;
}
/* The time in ns from `place` to the end. */
static inline int64_t tt_lazy_times_rest(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place) {
    const struct tt_lazy_sum *at = tt_lazy_times_at(self, rows, length, place.step);
    return tt_lazy_sum_rest(self, at, place.step, length, place.round);
}
/* The next boundary of a batch that left `place` `elapsed_ns` ago: a later one than `place`,
 * possibly at this instant. *out_after_ns is its time after `place`. At the end: step_count. */
struct tt_lazy_place tt_lazy_times_reach(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place,
                                         int64_t elapsed_ns, int64_t *out_after_ns);

#endif
