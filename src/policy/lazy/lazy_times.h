/* L2, L3: how long requests of a model still need, from the profiles of its steps.
 *
 * Algorithm 1 of the paper: static steps count once, the steps of an encoder block as often as the
 * input is long, those of a decoder block as often as the predicted output: a length that the
 * chosen share of the profiled outputs do not exceed. An output that has come so far that longer
 * ones are likely is expected to go on as long as those did on average (beyond the paper, which
 * would let it end at once), unless the length is given by hand. For every batch size and profiled
 * length there is a line of sums over the steps, so that what a batch still needs, from wherever it
 * stands, is two products and two sums, however many steps and blocks are before it.
 *
 * A table is made when its model comes (its size follows from the model: steps x batch x lengths)
 * and never changes. */
#ifndef TT_POLICY_LAZY_LAZY_TIMES_H
#define TT_POLICY_LAZY_LAZY_TIMES_H

#include "core/step_model.h"

/* The neighbouring steps of one kind around a step; `rounds`: walked more than once. */
struct tt_lazy_row {
    int32_t first, last;
    enum tt_step_kind kind;
};

/* At a step, for a batch of some size whose longest input has some length. */
struct tt_lazy_sum {
    int64_t before_ns; /* steps 0 .. this - 1, each once */
    int64_t fixed_ns;  /* from here to the end, but for more rounds of the block that it is in, */
    int64_t per_input_ns; /* and for the encoder blocks behind it: so much per input element */
    int64_t round_ns;     /* of the block that it is in, once; 0: a static step, or the end */
};

struct tt_lazy_times {
    const struct tt_step_model *model;
    const struct tt_profile *lengths; /* the profile that knows the most input lengths */
    struct tt_lazy_sum *sums;         /* [lengths][max_batch + 1][step_count + 1] */
    const struct tt_lazy_sum *one;    /* of those, for one row; NULL: there are several lengths */
    struct tt_lazy_row *rows;         /* [step_count + 1]; the end is a static step */
    int32_t *left;                    /* [left_count + 1]: of an output after so many rounds; */
    int32_t left_count;               /* then and beyond: its last */
    int32_t step_count, line_count;   /* of the model; lines per length */
};

/* Where a batch stands: at `step`, with `round` rounds of its block behind it. */
struct tt_lazy_place {
    int32_t step, round;
};

/* `output`: the predicted length, 1 or more; `by_hand`: and nothing else. NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_lazy_times_init(struct tt_lazy_times *self,
                                             const struct tt_step_model *model, int32_t output,
                                             bool by_hand);
void tt_lazy_times_fini(struct tt_lazy_times *self);
/* From `place` until the batch stands at the step `to` for the first time (to >= place.step;
 * step_count: its end). `length`: its longest input. O(1). */
int64_t tt_lazy_times_span(const struct tt_lazy_times *self, int32_t rows, int32_t length,
                           struct tt_lazy_place place, int32_t to);
/* The sums for a batch, or requests that have as many rows each, at `step`, which may be the end.
 */
const struct tt_lazy_sum *tt_lazy_times_sums(const struct tt_lazy_times *self, int32_t rows,
                                             int32_t length, int32_t step);
static inline const struct tt_lazy_sum *
tt_lazy_times_at(const struct tt_lazy_times *self, int32_t rows, int32_t length, int32_t step) {
    if (rows == 1 && self->one)
        return &self->one[step]; /* mostly */
    return tt_lazy_times_sums(self, rows, length, step);
}
/* Elements of an input of this length, as far as they count. */
static inline int64_t tt_lazy_elements(int32_t length) { return length > 1 ? length : 1; }
/* Rounds of a decoder that are left after so many, the one that follows included: 1 or more. */
static inline int32_t tt_lazy_times_left(const struct tt_lazy_times *self, int32_t round) {
    return self->left[round < self->left_count ? round : self->left_count];
}
/* Rounds that are left of the block that `step` is in, the one that it is in included; 1 for static
 * steps. */
static inline int64_t tt_lazy_times_rounds(const struct tt_lazy_times *self, int32_t step,
                                           int32_t length, int32_t round) {
    enum tt_step_kind kind = self->rows[step].kind;
    if (kind == TT_STEP_STATIC)
        return 1;
    return kind == TT_STEP_DECODER ? tt_lazy_times_left(self, round)
                                   : tt_lazy_elements(length - round);
}
/* From `step`, where the sums are those of _at, with so many rounds behind, to the end. */
static inline int64_t tt_lazy_sum_rest(const struct tt_lazy_times *self,
                                       const struct tt_lazy_sum *at, int32_t step, int32_t length,
                                       int32_t round) {
    int64_t rounds = tt_lazy_times_rounds(self, step, length, round);
    return at->fixed_ns + tt_lazy_elements(length) * at->per_input_ns + (rounds - 1) * at->round_ns;
}
/* From `place` to its end. */
static inline int64_t tt_lazy_times_rest(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place) {
    const struct tt_lazy_sum *at = tt_lazy_times_at(self, rows, length, place.step);
    return tt_lazy_sum_rest(self, at, place.step, length, place.round);
}
/* Where a batch that left `place` `elapsed_ns` ago stands at the next boundary (a later one than
 * `place`; it may be now), and in *out_after_ns how long after `place` that is. At the end:
 * step_count. */
struct tt_lazy_place tt_lazy_times_reach(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place,
                                         int64_t elapsed_ns, int64_t *out_after_ns);

#endif
