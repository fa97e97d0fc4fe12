/* What a primary's metrics page says of plans of the placement, of scaling, and of its backends.
 *
 * The node's thread copies the figures once a second; any thread writes the page from the copy. So
 * a page may be a second old, and a scheduler never waits for a reader.
 * Implemented in cluster_figures.c. */
#ifndef TT_FLEET_CLUSTER_FIGURES_H
#define TT_FLEET_CLUSTER_FIGURES_H

#include "base/threads/lock.h"
#include "fleet/placement_service.h"
#include "fleet/scaling_service.h"

struct tt_pool_figures {
    const char *name; /* borrowed */
    const char *stage, *mode;
    bool is_advised, is_known;
    int32_t wanted, asked, ready, most; /* devices */
    struct tt_start_up_estimate start_up;
    int64_t calls, failures, late, preempted;
};

/* A model that takes another time than the scheduler plans with: on a backend, as that one states,
 * or on a pool's devices, as the primary believes. */
struct tt_pace_figure {
    const char *model, *version, *place; /* borrowed; the node or the pool */
    int32_t permille;
};

/* S4: how long messages to a backend take, as its primary believes. */
struct tt_delay_figure {
    const char *node; /* borrowed */
    struct tt_network_delay delay;
    int32_t count; /* messages that say so; 0: it is given */
};

struct tt_cluster_figures {
    struct tt_lock lock; /* of all that follows */
    bool has_lock;
    const char *plan_stage;
    uint64_t version;
    int32_t moves, moves_left;
    int64_t plans_done, plans_dropped;
    struct tt_pool_figures *pools; /* [pool_count] */
    int32_t pool_count;
    struct tt_pace_figure *paces; /* [pace_count] */
    int64_t pace_capacity;
    int32_t pace_count;
    struct tt_pace_figure *beliefs; /* [belief_count] */
    int64_t belief_capacity;
    int32_t belief_count;
    struct tt_delay_figure *delays; /* [delay_count] */
    int64_t delay_capacity;
    int32_t delay_count;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cluster_figures_init(struct tt_cluster_figures *self,
                                                  const struct tt_scaling_service *scaling);
void tt_cluster_figures_fini(struct tt_cluster_figures *self); /* also of zeroed memory */
/* The node's thread. */
void tt_cluster_figures_note(struct tt_cluster_figures *self,
                             const struct tt_placement_service *placement,
                             const struct tt_scaling_service *scaling);
/* The node's thread: a backend states it; names live as long as this. */
void tt_cluster_figures_pace(struct tt_cluster_figures *self, const struct tt_pace_figure *pace);
/* The node's thread: the scheduler plans with the slowest ones now. None takes longer, and how much
 * faster the others are is not known before they state it again. */
void tt_cluster_figures_adopted(struct tt_cluster_figures *self);
/* The node's thread: appends ", \"paces\": [...]". */
void tt_cluster_figures_show_paces(const struct tt_cluster_figures *self, struct tt_text *out_json);
/* The node's thread: takes the role's delays of now, and appends ", \"delays\": [...]". */
void tt_cluster_figures_show_delays(struct tt_cluster_figures *self,
                                    const struct tt_scheduler_role *role, struct tt_text *out_json);
/* Any thread. */
void tt_cluster_figures_put(struct tt_cluster_figures *self, struct tt_text *page);

#endif
