/* S9: the load that a primary scheduler sees, and how many devices it needs
 * (scale/devices_wanted.h).
 *
 * The node's thread counts the rows of tickets and, once a second, copies the rates into the load.
 * Any thread asks for the advice; it computes on a copy, so a scheduler never waits for it. There
 * is no advice before the primary has seen requests for the whole window of the rates: a scheduler
 * that took over a moment ago must not shrink the cluster.
 *
 * What a pool's advice teaches (struct tt_devices_feedback) is kept where devices are asked for
 * (fleet/scaling_service.h). Implemented in cluster_demand.c. */
#ifndef TT_FLEET_CLUSTER_DEMAND_H
#define TT_FLEET_CLUSTER_DEMAND_H

#include "base/text.h"
#include "base/threads/lock.h"
#include "cluster/cluster.h"
#include "scale/devices_wanted.h"
#include "serve/rate_window.h"

struct tt_cluster_demand {
    struct tt_rate_window *windows; /* [capacity]; the node's thread, as `model_count` */
    int32_t model_count, capacity;
    int64_t note_at; /* of the next _note; TT_NEVER: it is a spare */
    struct tt_lock lock;
    struct tt_devices_model *models; /* [capacity]; under the lock, as all that follows */
    struct tt_devices_load load;
    struct tt_devices_feedback feedback; /* of the pool that needs the most reserve */
    int32_t devices;
    bool is_primary;
};

struct tt_cluster_advice {
    int32_t devices; /* that the primary grants batches to */
    bool is_primary, is_known;
    struct tt_devices_wanted wanted; /* if is_known */
};

/* What is asked about a pool, and the answer. */
struct tt_pool_advice {
    double start_up_s;                   /* of its devices; 0: not known */
    struct tt_devices_feedback feedback; /* the pool's; it is changed */
    /* Learnt from: `in_force` devices served for `span_s`, and so many rows were bad. span_s 0:
     * there is nothing to learn. */
    int32_t in_force;
    double bad, span_s;
    struct tt_devices_wanted wanted; /* the answer */
};

/* The load at one instant, to be read without the lock. */
struct tt_demand_copy {
    struct tt_devices_model *models; /* [load.model_count]; the copy's */
    struct tt_devices_load load;
    bool is_known; /* it was measured for the whole window */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cluster_demand_init(struct tt_cluster_demand *self,
                                                 const struct tt_cluster_settings *settings);
/* Also on zeroed memory. */
void tt_cluster_demand_fini(struct tt_cluster_demand *self);

/* ---- the node's thread ---- */

/* A model has come. */
void tt_cluster_demand_add(struct tt_cluster_demand *self, const struct tt_step_model *model);
/* The profiles of the models have changed. */
void tt_cluster_demand_retime(struct tt_cluster_demand *self,
                              const struct tt_cluster_settings *settings);
/* The first attempt of a request came. */
static inline void tt_cluster_demand_arrived(struct tt_cluster_demand *self, int64_t now,
                                             uint16_t model, uint16_t rows) {
    if (model < self->model_count)
        tt_rate_window_arrived(&self->windows[model], now, rows);
}
/* The scheduler became primary, or a spare. */
void tt_cluster_demand_begin(struct tt_cluster_demand *self, int64_t now, bool is_primary);
/* Copies the rates, if note_at has come. `devices`: that are usable now. */
void tt_cluster_demand_note(struct tt_cluster_demand *self, int64_t now, int32_t devices);

/* ---- any thread ---- */

/* The longest time from the order of a device until it serves, 0: not known; and what the pool that
 * needs the most reserve has learnt. */
void tt_cluster_demand_starts(struct tt_cluster_demand *self, double start_up_s,
                              struct tt_devices_feedback feedback);

/* is_known is false without memory, too. */
struct tt_demand_copy tt_cluster_demand_copy(struct tt_cluster_demand *self);
void tt_demand_copy_fini(struct tt_demand_copy *self); /* also of zeroed memory */
/* What the models of one pool need, if is_known. `homes`[model_count]: the pool of each. First the
 * feedback learns. */
void tt_demand_copy_advise(const struct tt_demand_copy *self, const uint16_t *homes, uint16_t pool,
                           struct tt_pool_advice *advice);

/* is_known is false without memory, too. */
struct tt_cluster_advice tt_cluster_demand_advise(struct tt_cluster_demand *self);
/* Appends the families of a metrics page. Returns if the scheduler is primary. */
bool tt_cluster_demand_metrics(struct tt_cluster_demand *self, struct tt_text *page);

#endif
