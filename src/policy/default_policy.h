/* The policy of a model whose configuration names none. The only place that chooses one. */
#ifndef TT_POLICY_DEFAULT_POLICY_H
#define TT_POLICY_DEFAULT_POLICY_H

#include "policy/policy.h"

/* What is known of the model. */
struct tt_policy_facts {
    bool is_cells;             /* a model of cells, not of one graph */
    bool has_objective;        /* its requests have deadlines */
    bool has_dynamic_batching; /* its configuration asks for dynamic batching */
    bool shapes_vary;          /* inputs of its requests differ in shape */
    bool is_padded;            /* the server pads them to one shape */
};

/* Never NULL. */
const struct tt_policy_kind *tt_policy_default(const struct tt_policy_facts *facts);

#endif
