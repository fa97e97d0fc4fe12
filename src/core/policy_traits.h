/* What a policy is, as data.
 *
 * The mechanism and its carriers ask these questions about every policy. They read the answers
 * here, and never derive one from a policy's name or from which callbacks it has. A const value in
 * the policy's kind (policy/policy.h); the mechanism borrows it (tt_mechanism_attach). */
#ifndef TT_CORE_POLICY_TRAITS_H
#define TT_CORE_POLICY_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

/* Where a task of the policy may begin and end. It decides which models the policy can run. */
enum tt_granularity {
    /* A task runs all steps that a request has left. A model of cells runs as whole sequences. */
    TT_GRANULARITY_GRAPH,
    /* Between stages of a model. A model of cells is refused. */
    TT_GRANULARITY_STAGE,
    /* Between any two steps. A model of cells runs one step of a sequence at a time. */
    TT_GRANULARITY_NODE,
    /* Between cells: the unit of work is the cell, not the request (tt_policy_ops.released). Every
     * request comes with its cell graph. Only these policies run trees. */
    TT_GRANULARITY_CELL,
};

struct tt_policy_traits {
    enum tt_granularity granularity;
    bool runs_alone;         /* each request is a task by itself, so requests never share a batch */
    bool runs_as_they_came;  /* one model, priority and length: in order of arrival */
    bool orders_by_priority; /* of those that wait, the most urgent priority goes first */
    bool first_step_only;    /* a request that a task leaves between two steps begins again */
    bool needs_profiles;     /* the server measures the run times of models without a profile */
    bool waits_for_inputs;   /* runs a request after its input is in the device's memory */
    bool drops_early;        /* under overload it gives requests up so that batches stay large */
    bool stage_per_executor; /* executor e runs the stages s of S with e mod S = s only */
    bool composes; /* a scheduler before it, which batches whole requests, leaves it something to
                      decide: what runs within them, or on which part of a device */
    int32_t default_depth; /* tasks queued on an executor at once where no configuration says it */
};

static inline bool tt_policy_runs_cells(const struct tt_policy_traits *self) {
    return self->granularity == TT_GRANULARITY_CELL;
}

#endif
