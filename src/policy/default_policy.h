/* Chooses the policy of a model whose configuration names none. No other code makes this choice. */
#ifndef TT_POLICY_DEFAULT_POLICY_H
#define TT_POLICY_DEFAULT_POLICY_H

#include "policy/policy.h"

/* The properties of a model that decide. */
struct tt_policy_facts {
    bool is_cells;             /* a model of cells, not of one graph */
    bool has_objective;        /* its requests have deadlines */
    bool has_dynamic_batching; /* its configuration asks for dynamic batching */
    bool shapes_vary;          /* the inputs of its requests differ in shape */
    bool is_padded;            /* the server pads its inputs to one shape */
};

/* Never NULL. */
const struct tt_policy_kind *tt_policy_default(const struct tt_policy_facts *facts);

#endif
