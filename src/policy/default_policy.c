#include "policy/default_policy.h"

static const char *name_of(const struct tt_policy_facts *facts) {
    if (facts->is_cells)
        return "cellular";
    bool mixes_shapes = facts->shapes_vary && !facts->is_padded;
    if (facts->has_objective)
        return mixes_shapes ? "window" : "adaptive"; /* of the two only window has `same_shape` */
    return facts->has_dynamic_batching ? "window" : "serial";
}

const struct tt_policy_kind *tt_policy_default(const struct tt_policy_facts *facts) {
    const struct tt_policy_kind *kind = tt_policy_find(name_of(facts));
    tt_assert(kind != NULL);
    return kind;
}
