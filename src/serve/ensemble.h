/* An ensemble: a model whose steps are requests to other models, with the tensors that go between
 * them.
 *
 * Life: made from the parts that it reads, attached to its served model (serve/ensemble_run.h), and
 * freed with it. It holds a reference to each part. Nothing in it changes.
 *
 * One deadline is for all steps. A step that begins at `now` gets the time that one row takes its
 * model alone, and a share of the slack: of the time that is left beyond the longest path from this
 * step, it included, to the end. The share is its part of that path. There a step counts as half of
 * the ensemble's longest path at least, or as a quarter in the shares of earlier steps: what is
 * short to run may wait as long as all others for an executor. What a step saves goes to later
 * ones, and the last one has all that is left. Without slack each has its part of what is left. Of
 * a part without a profile no time is known: it gets none before the slack, and there counts as the
 * longest one.
 *
 * It never runs anything. Implemented in ensemble.c. */
#ifndef TT_SERVE_ENSEMBLE_H
#define TT_SERVE_ENSEMBLE_H

#include "base/err.h"
#include "core/tensor.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_inference;
struct tt_inference_step;
struct tt_served_model;
struct tt_tensor_view;

enum { TT_ENSEMBLE_MAX_STEPS = 64 }; /* sets of steps are bits */

/* Where a tensor comes from. */
struct tt_ensemble_source {
    int32_t step;   /* -1: an input of the ensemble */
    int32_t tensor; /* output of the step's model, or input of the ensemble */
};

struct tt_ensemble_step_spec {
    struct tt_served_model *model;
    int32_t number;                          /* from 1, in the configuration; for messages */
    const struct tt_ensemble_source *inputs; /* per input of the model's signature */
};

/* Steps are in an order in which each reads only earlier ones. */
struct tt_ensemble_spec {
    int32_t step_count; /* 1 .. TT_ENSEMBLE_MAX_STEPS */
    const struct tt_ensemble_step_spec *steps;
    int32_t output_count;
    const struct tt_ensemble_source *outputs; /* of steps */
};

struct tt_ensemble_step {
    struct tt_served_model *model; /* a reference */
    int32_t number;
    int32_t share_ppm; /* of the slack, in millionths */
    int64_t alone_ns;  /* of one row; 0: not known */
    int64_t path_ns;   /* the longest from here to the end, this step included */
    struct tt_ensemble_source inputs[TT_MAX_TENSORS];
    uint64_t sources, readers; /* the steps that it reads, and that read it */
    bool is_shown;             /* an output of the ensemble is its */
};

/* How requests to it run (serve/ensemble_run.h). `whole` is the client's inference. */
struct tt_ensemble_ops {
    /* Begins the steps that read inputs of the ensemble only. On an error `release` follows. */
    enum tt_err (*begin)(struct tt_inference *whole, struct tt_error *why);
    void (*submit)(struct tt_inference *whole);
    void (*cancel)(struct tt_inference *whole);
    void (*output)(const struct tt_inference *whole, int32_t output,
                   struct tt_tensor_view *out_view);
    /* See tt_inference_step(). */
    bool (*step)(const struct tt_inference *whole, int32_t index,
                 struct tt_inference_step *out_step);
    void (*release)(struct tt_inference *whole);
};

struct tt_ensemble {
    const struct tt_ensemble_ops *ops; /* set when it is attached */
    int32_t step_count, output_count;
    struct tt_ensemble_step *steps;
    struct tt_ensemble_source *outputs;
    int32_t quota;    /* maximum of requests that its steps have in flight at once */
    int64_t alone_ns; /* the longest path */
};

/* Takes references to the parts, which are loaded. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ensemble_new(const struct tt_ensemble_spec *spec,
                                          struct tt_ensemble **out_ensemble);
void tt_ensemble_free(struct tt_ensemble *take_self); /* NULL-safe */
/* The set of all its steps. */
static inline uint64_t tt_ensemble_all(const struct tt_ensemble *self) {
    return ~UINT64_C(0) >> (TT_ENSEMBLE_MAX_STEPS - self->step_count);
}
/* How long a step that begins at `now` may take: at least 1 ns; 0: `deadline_at` is TT_NEVER. */
int64_t tt_ensemble_patience(const struct tt_ensemble_step *step, int64_t now, int64_t deadline_at);
/* Asserts that sources and readers agree, that steps are in order, and that shares are fractions.
 */
void tt_ensemble_check(const struct tt_ensemble *self);

#endif
