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
#ifndef TT_POLICY_LAZY_TIMES_H
#define TT_POLICY_LAZY_TIMES_H

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
};

struct tt_lazy_times {
    const struct tt_step_model *model;
    const struct tt_profile *lengths; /* the profile that knows the most input lengths */
    struct tt_lazy_sum *sums;         /* [lengths][max_batch + 1][step_count + 1] */
    struct tt_lazy_row *rows;         /* [step_count] */
    int32_t *left;                    /* [left_count]: of an output after so many rounds */
    int32_t left_count;               /* beyond: its last */
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
/* From `place` to its end. */
int64_t tt_lazy_times_rest(const struct tt_lazy_times *self, int32_t rows, int32_t length,
                           struct tt_lazy_place place);
/* What is the same for all requests at one step that have as many rows: what they still need is
 * then a matter of how long they are and how many rounds they have behind them. */
struct tt_lazy_line {
    int64_t fixed_ns, per_input_ns;
    int64_t round_ns;    /* of the step's block; 0: a static step */
    const int32_t *left; /* rounds left after so many; NULL: as many as their length says */
    int32_t left_count;
    bool any_length; /* else it is for requests of one length only */
};
/* For requests of so many rows and of this length at `step`, which may be the end. */
struct tt_lazy_line tt_lazy_times_line(const struct tt_lazy_times *self, int32_t rows,
                                       int32_t length, int32_t step);
/* From the line's step, with so many rounds behind, to the end. */
static inline int64_t tt_lazy_line_rest(const struct tt_lazy_line *self, int32_t length,
                                        int32_t round) {
    int64_t elements = length > 1 ? length : 1;
    int32_t left = length - round;
    if (self->left)
        left = round < self->left_count ? self->left[round] : 1;
    return self->fixed_ns + self->per_input_ns * elements +
           (left > 1 ? left - 1 : 0) * self->round_ns;
}
/* Where a batch that left `place` `elapsed_ns` ago stands at the next boundary, and in
 * *out_after_ns how long after `place` that is. At the end: step_count. */
struct tt_lazy_place tt_lazy_times_reach(const struct tt_lazy_times *self, int32_t rows,
                                         int32_t length, struct tt_lazy_place place,
                                         int64_t elapsed_ns, int64_t *out_after_ns);

#endif
