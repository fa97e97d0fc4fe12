/* A model as the mechanism sees it: a row of steps, each with a profile, and what its requests are
 * promised.
 *
 * A whole graph is a model of one step. Stages and layers are steps run in order. A recurrent block
 * is a longest row of neighbouring ENCODER steps, or of DECODER steps: a request walks all of it,
 * from the first step to the last, once per element of its input or output, and then goes on behind
 * it. All rounds use the same weights, so requests at the same step of a block may share a batch
 * whatever their rounds. The policies read this and nothing else about a model. Immutable while
 * requests of it exist. */
#ifndef TT_CORE_STEP_MODEL_H
#define TT_CORE_STEP_MODEL_H

#include "core/profile.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_step_kind {
    TT_STEP_STATIC,  /* once per request */
    TT_STEP_ENCODER, /* once per input element */
    TT_STEP_DECODER, /* once per output element; how many is known to the world only */
};

enum { TT_QUANTILES = 101 };

struct tt_step {
    const char *name; /* borrowed; for traces */
    const struct tt_profile *profile;
    enum tt_step_kind kind;
    int32_t min_rows; /* by cells: fewer are not submitted behind another task at once; 0: any */
};

enum { TT_QUEUE_MAX_LEVELS = 32 }; /* of priority, 1 .. */

/* How long and how many of a model's requests may wait for their first step. */
struct tt_queue_rule {
    int64_t timeout_ns;  /* 0: none */
    int64_t max_count;   /* 0: no limit */
    bool delay_late;     /* who cannot make it goes behind the others, instead of being refused */
    bool compute_late;   /* who cannot make it is no concern of the rule */
    bool allow_override; /* a request may bring its own, shorter timeout */
};

struct tt_step_model {
    const char *name; /* borrowed */
    int32_t step_count;
    const struct tt_step *steps;
    /* Of all steps in one go, encoders as often as the input is long, decoders for an output that
     * nine in ten do not exceed: what whole-graph policies go by. */
    const struct tt_profile *whole;
    int64_t slo_ns;    /* TT_NEVER: no promise */
    int32_t max_batch; /* rows; <= whole->max_batch */
    /* Inputs are padded to the longest of the batch that runs the first step; from then on only
     * batches that were padded alike can be joined. False: any lengths can. */
    bool padded;
    /* D2: rows of requests that may be between two steps at once, for what is left of them there
     * needs memory; 0: any number. A single request may always be. */
    int32_t slots;
    /* With DECODER steps: of the outputs seen when the model was profiled, p percent had at most
     * output_quantiles[p] elements; ascending, [TT_QUANTILES]. No output has more than the last.
     * NULL without. */
    const int32_t *output_quantiles;
    /* What the configuration asks of a windowed batcher; 0 where it says nothing. */
    int64_t window_ns;
    int32_t preferred_count;
    const int32_t *preferred; /* ascending batch sizes */
    /* By priority, [0] where there are no levels; the mechanism keeps them whatever the policy, and
     * gives up who cannot meet its deadline any more. NULL: everybody may wait as long as the
     * policy lets it. */
    int32_t rule_count;
    const struct tt_queue_rule *rules;
};

/* Steps first .. last of one recurrent block; first = -1: the step is in none. */
struct tt_step_block {
    int32_t first, last;
};

static inline struct tt_step_block tt_step_block_of(const struct tt_step_model *self,
                                                    int32_t step) {
    enum tt_step_kind kind = self->steps[step].kind;
    if (kind == TT_STEP_STATIC)
        return (struct tt_step_block){.first = -1, .last = -1};
    struct tt_step_block block = {.first = step, .last = step};
    while (block.first > 0 && self->steps[block.first - 1].kind == kind)
        block.first--;
    while (block.last + 1 < self->step_count && self->steps[block.last + 1].kind == kind)
        block.last++;
    return block;
}

/* The last of the steps that run as one from `step` on: of its block, or itself. */
static inline int32_t tt_step_last_of(const struct tt_step_model *self, int32_t step) {
    struct tt_step_block block = tt_step_block_of(self, step);
    return block.first < 0 ? step : block.last;
}

/* The most rows of one cell's batch: a row of steps that runs as one (core/cell_graph.h), which may
 * take more or fewer than the whole model does. */
static inline int32_t tt_step_max_rows(const struct tt_step_model *self, int32_t first_step,
                                       int32_t last_step) {
    int32_t rows = self->steps[first_step].profile->max_batch;
    for (int32_t step = first_step + 1; step <= last_step; step++)
        if (self->steps[step].profile->max_batch < rows)
            rows = self->steps[step].profile->max_batch;
    return rows;
}

#endif
