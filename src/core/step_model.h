/* A model as the mechanism sees it: a sequence of steps, each with a profile, and what its requests
 * are promised.
 *
 * A whole graph is a model of one step. Stages and layers are steps that run in order. A recurrent
 * block is a maximal run of neighbouring ENCODER steps, or of DECODER steps. A request walks the
 * whole block, from its first step to its last, once per element of its input or output. Then it
 * continues after the block. All rounds use the same weights, so requests at the same step of a
 * block may share a batch whatever their rounds.
 *
 * Policies read this struct and nothing else about a model. It is immutable while requests of the
 * model exist. */
#ifndef TT_CORE_STEP_MODEL_H
#define TT_CORE_STEP_MODEL_H

#include "core/profile.h"
#include "core/token_slo.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_step_kind {
    TT_STEP_STATIC,  /* once per request */
    TT_STEP_ENCODER, /* once per input element */
    TT_STEP_DECODER, /* once per output element; only the world knows how many */
};

enum { TT_QUANTILES = 101 };

struct tt_step {
    const char *name; /* borrowed; for traces */
    const struct tt_profile *profile;
    enum tt_step_kind kind;
    int32_t min_rows; /* by cells: least rows of a task behind another one; 0: no minimum */
    /* C1: by cells: what the cell computes. Cells of equal values, in several models of a domain,
     * are one type and share its batches. 0: it is like no other. */
    uint64_t cell;
    bool may_exit; /* D8: behind it requests may leave the model or skip steps */
};

enum { TT_QUEUE_MAX_LEVELS = 32 }; /* priority levels, from 1 */

enum { TT_QUEUE_LATE_EVERY = 8 }; /* the usual late_every */

/* How long, and how many, requests of one level may wait for their first step. */
struct tt_queue_rule {
    int64_t timeout_ns;  /* 0: none */
    int64_t max_count;   /* 0: no limit */
    bool delay_late;     /* a late request goes behind all others instead of being dropped */
    int32_t late_every;  /* then: turns for the late ones (core/mechanism.h); 0: none */
    bool compute_late;   /* no request is dropped for its deadline */
    bool allow_override; /* a request may bring its own, shorter timeout */
};

struct tt_step_model {
    const char *name; /* borrowed */
    int32_t step_count;
    const struct tt_step *steps;
    /* All steps in one run: encoders as often as the input is long, decoders for an output length
     * that nine in ten do not exceed. Whole-graph policies use this profile. */
    const struct tt_profile *whole;
    int64_t slo_ns;             /* TT_NEVER: no promise */
    struct tt_token_slo tokens; /* only with DECODER steps */
    int32_t max_batch;          /* rows; <= whole->max_batch */
    /* True: inputs are padded to the longest in the batch that runs the first step, and from then
     * on only batches padded to the same length can be joined. False: any lengths can. */
    bool padded;
    bool pins_outputs; /* output_quantiles are believed, whatever outputs are seen */
    /* D2: maximum number of rows between two steps at once, since their results need memory there;
     * 0: no limit. A single request may always be there. */
    int32_t slots;
    /* With DECODER steps, else NULL: p percent of the outputs seen in profiling had at most
     * output_quantiles[p] elements. Ascending, [TT_QUANTILES]. No output is longer than the last.
     */
    const int32_t *output_quantiles;
    /* Settings of a windowed batcher; 0: the configuration does not say. */
    int64_t window_ns;
    int32_t preferred_count;
    const int32_t *preferred; /* ascending batch sizes */
    /* In place of the policy's option of the same name; 0: the option's. For `timeout`, for
     * `deferred` with a fixed minimum size, for `lazy`. */
    int64_t delay_ns;
    int32_t target, dec_timesteps;
    /* For `nexus`: the executors that serve it, ascending, by their position among those that are
     * up; 0: the policy plans. All models of a domain have them, or none. */
    int32_t executor_count;
    const int32_t *executors;
    /* By priority; [0] where there are no levels. The mechanism applies them under every policy,
     * and drops requests that cannot meet their deadline. NULL: only the policy limits waiting. */
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

/* The last of the steps that run as one from `step` on: the end of its block, or `step` itself. */
static inline int32_t tt_step_last_of(const struct tt_step_model *self, int32_t step) {
    struct tt_step_block block = tt_step_block_of(self, step);
    return block.first < 0 ? step : block.last;
}

/* The tail of the time until `rows` rows have their first output element if they run without a
 * pause: all steps to the end of the first round of the DECODER block. O(steps). */
static inline int64_t tt_step_first_ns(const struct tt_step_model *self, int32_t rows,
                                       int32_t length) {
    int64_t sum_ns = 0;
    enum tt_step_kind before = TT_STEP_STATIC;
    for (int32_t s = 0; s < self->step_count; s++) {
        const struct tt_step *step = &self->steps[s];
        if (before == TT_STEP_DECODER && step->kind != TT_STEP_DECODER)
            break;
        int32_t most = step->profile->max_batch;
        int64_t once_ns = tt_profile_tail(step->profile, rows < most ? rows : most, length);
        sum_ns += step->kind == TT_STEP_ENCODER ? once_ns * (length > 0 ? length : 1) : once_ns;
        before = step->kind;
    }
    return sum_ns;
}

/* The last instant at which a batch may start so that a request in it has its first token by
 * `first_by_at`, by the tail, and ends by `deadline_at`, by the centre or the tail; TT_NEVER:
 * neither is given. */
static inline int64_t tt_step_latest(const struct tt_step_model *self, int64_t deadline_at,
                                     int64_t first_by_at, int32_t rows, int32_t length,
                                     bool by_centre) {
    int64_t latest_at = TT_NEVER;
    if (deadline_at != TT_NEVER)
        latest_at = deadline_at - tt_profile_run(self->whole, rows, length, by_centre);
    if (first_by_at != TT_NEVER)
        latest_at = tt_instant_min(latest_at, first_by_at - tt_step_first_ns(self, rows, length));
    return latest_at;
}

/* D8: true if requests may leave the model or skip steps behind one of these steps. */
static inline bool tt_step_may_exit(const struct tt_step_model *self, int32_t first_step,
                                    int32_t last_step) {
    for (int32_t step = first_step; step <= last_step; step++)
        if (self->steps[step].may_exit)
            return true;
    return false;
}

/* Maximum number of rows in one batch of a cell: a row of steps that runs as one
 * (core/cell_graph.h). It may differ from the maximum of the whole model. */
static inline int32_t tt_step_max_rows(const struct tt_step_model *self, int32_t first_step,
                                       int32_t last_step) {
    int32_t rows = self->steps[first_step].profile->max_batch;
    for (int32_t step = first_step + 1; step <= last_step; step++)
        if (self->steps[step].profile->max_batch < rows)
            rows = self->steps[step].profile->max_batch;
    return rows;
}

/* C1: true if cells of these steps are of one type: they compute the same, and the limits of their
 * batches are equal. */
static inline bool tt_step_same_cell(const struct tt_step_model *a, int32_t first_a, int32_t last_a,
                                     const struct tt_step_model *b, int32_t first_b,
                                     int32_t last_b) {
    if (last_a - first_a != last_b - first_b ||
        tt_step_max_rows(a, first_a, last_a) != tt_step_max_rows(b, first_b, last_b))
        return false;
    for (int32_t s = 0; s <= last_a - first_a; s++) {
        const struct tt_step *one = &a->steps[first_a + s], *other = &b->steps[first_b + s];
        if (one->cell == 0 || one->cell != other->cell || one->min_rows != other->min_rows)
            return false;
    }
    return true;
}

#endif
