/* One assignment while it is searched: the sub-cluster of each model, the sums of each sub-cluster,
 * and an energy that follows the objective smoothly.
 *
 * The objective looks at the largest deviation only, so most moves do not change it. The energy
 * puts the L_p norm in its place: with p = 2 every deviation counts, and with larger p it nears the
 * largest. Broken limits add to it. A state starts from any assignment, and relocate() changes it
 * in O(1), or in O(models of the sub-cluster) where the largest dynamic memory leaves.
 *
 * Only IEEE operations that round in one way on every machine are used (no pow, no fused
 * multiply-add), so the same moves give the same numbers everywhere. Implemented in place_state.c.
 */
#ifndef TT_PLACE_PLACE_STATE_H
#define TT_PLACE_PLACE_STATE_H

#include "place/place_problem.h"

/* Of one sub-cluster. */
struct tt_place_cluster {
    int64_t rate, memory, dynamic;
    double rate_deviation, memory_deviation; /* relative, with their signs */
    double rate_term, memory_term;           /* |deviation|^p */
    double excess;                           /* over the limits, relative */
    int32_t first;                           /* of its models, -1: none */
};

struct tt_place_state {
    const struct tt_place_problem *problem;
    struct tt_place_cluster *clusters;
    int32_t *at;               /* of each model; NOWHERE only until it is put somewhere */
    int32_t *next, *before;    /* of each model: the list of its sub-cluster */
    int32_t *moved, *moved_at; /* the models that are not where they are now, and where each stands
                                  in that list (-1: not in it) */
    int32_t moved_count;
    int32_t doublings;    /* p = 2^doublings */
    double excess_weight; /* what a limit broken by the mean adds to the energy; may be set */
    int64_t cost;
    double mean_rate, mean_memory;
    double rate_sum, memory_sum, excess; /* of the terms of all sub-clusters */
};

/* All models NOWHERE. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_place_state_init(struct tt_place_state *self,
                                              const struct tt_place_problem *problem);
void tt_place_state_fini(struct tt_place_state *self);
/* Puts every model where `at` says. */
void tt_place_state_load(struct tt_place_state *self, const int32_t *at);
/* Moves the model to sub-cluster `to`. */
void tt_place_state_relocate(struct tt_place_state *self, int32_t model, int32_t to);
/* Sets p to 2^doublings (1 .. 6), and adds all sums up anew. */
void tt_place_state_sharpen(struct tt_place_state *self, int32_t doublings);
double tt_place_state_energy(const struct tt_place_state *self);
/* The objective itself; above 10^6 if limits are broken. O(cluster_count). */
double tt_place_state_objective(const struct tt_place_state *self);
/* Asserts that sums, lists and costs equal what the assignment gives. For tests; O(all). */
void tt_place_state_check(const struct tt_place_state *self);

#endif
