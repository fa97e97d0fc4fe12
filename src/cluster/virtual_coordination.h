/* The coordination service of a virtual cluster: leases, members, and the record of an epoch.
 *
 * Requests and answers take times drawn from a seed of their own, so they overtake each other, and
 * whether the service answers changes nothing else of a run. While a fault lasts, it takes no
 * request; leases go on running. Only the files of the virtual cluster include it. Implemented in
 * virtual_coordination.c. */
#ifndef TT_CLUSTER_VIRTUAL_COORDINATION_H
#define TT_CLUSTER_VIRTUAL_COORDINATION_H

#include "base/prng.h"
#include "cluster/membership.h"

struct tt_virtual_node;
struct tt_virtual_cluster;
struct tt_virtual_event;

struct tt_virtual_lease {
    uint64_t id;
    int64_t ends_at;
    bool has_joined;
};

struct tt_virtual_coordination {
    struct tt_prng prng;
    struct tt_virtual_lease *leases; /* [node_count]: the latest of each */
    uint64_t lease_count;            /* ever */
    uint64_t epoch[2];               /* by enum tt_coordination_key */
    int64_t revision[2];
    int32_t faults; /* that last */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_virtual_coordination_init(struct tt_virtual_coordination *self,
                                                       int32_t node_count, uint64_t seed);
void tt_virtual_coordination_fini(struct tt_virtual_coordination *self);
/* A node starts. */
void tt_virtual_member_start(struct tt_virtual_node *node, int64_t now);
/* Plans the node's next look at its membership. */
void tt_virtual_member_plan(struct tt_virtual_node *node);
/* The events ASKED, TOLD and MEMBER. */
void tt_virtual_coordination_asked(struct tt_virtual_cluster *cluster,
                                   const struct tt_virtual_event *event);
void tt_virtual_member_look(struct tt_virtual_node *node, int64_t now);
void tt_virtual_member_told(struct tt_virtual_node *node, int64_t now,
                            const struct tt_virtual_event *event);
/* How many members there are. */
int32_t tt_virtual_coordination_members(const struct tt_virtual_cluster *cluster, int64_t now);

#endif
