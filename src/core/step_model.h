/* A model as the mechanism sees it: a row of steps, each with a profile, and what its requests are
 * promised.
 *
 * A whole graph is a model of one step. Stages and layers are steps run in order; a recurrent block
 * is a run of steps that a request walks several times. The policies read this and nothing else
 * about a model. Immutable while requests of it exist. */
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

struct tt_step {
    const char *name; /* borrowed; for traces */
    const struct tt_profile *profile;
    enum tt_step_kind kind;
};

struct tt_step_model {
    const char *name; /* borrowed */
    int32_t step_count;
    const struct tt_step *steps;
    const struct tt_profile *whole; /* of all steps in one go: what whole-graph policies go by */
    int64_t slo_ns;                 /* TT_NEVER: no promise */
    int32_t max_batch;              /* rows; <= whole->max_batch */
    /* What the configuration asks of a windowed batcher; 0 where it says nothing. */
    int64_t window_ns;
    int32_t preferred_count;
    const int32_t *preferred; /* ascending batch sizes */
};

#endif
