/* S9: scaling at a scheduler: it sees which backends of each pool serve, asks how many devices the
 * load of each pool needs, and lets a provider run so many (scale/pool_scaler.h decides, and
 * actuate/scale_provider.h is asked).
 *
 * The advice alone grows a pool if it is sure. Where requests are dropped or late although all
 * devices in force serve, it need not be; and the pool learns how much more than the model it needs
 * (scale/devices_wanted.h), whatever the reason: bursts, or devices that end their batches late.
 *
 * Only a primary acts. Two that both believe to be primary cannot both act: a drain has the epoch,
 * and a backend that obeys a later one refuses; before a call most nodes must answer that they obey
 * this epoch; see each provider for what it compares beyond that.
 *
 * Commands: "show", "stop POOL", "resume POOL" (POOL "": all pools), "pin POOL DEVICES",
 * "preempt NODE". All are answered with the scaling as it is then. stop, pin and resume are for
 * spares too, so that they hold after a takeover; they end with the process. No pool shrinks while
 * a plan of the placement is under way.
 *
 * Blocking work is done by jobs (fleet/scaling_jobs.h): one call and one drain at a time. One
 * thread, the node's. Implemented in scaling_service.c (life, ticks, jobs), scaling_commands.c. */
#ifndef TT_FLEET_SCALING_SERVICE_H
#define TT_FLEET_SCALING_SERVICE_H

#include "cluster/scheduler_role.h"
#include "fleet/scaling_jobs.h"
#include "fleet/scaling_options.h"
#include "scale/pool_scaler.h"
#include "serve/rate_window.h"

struct tt_scaling_pool {
    struct tt_pool_scaler scaler;
    uint16_t number;
    uint16_t *nodes;     /* [scaler.settings.node_count]: their numbers in the cluster */
    struct tt_text last; /* what happened last */
    bool looks;          /* the provider is asked what runs */
    int64_t look_at;     /* when it is asked, if it was not */
    /* What the scheduler had counted at the latest looks while the pool was settled; a ring. */
    struct {
        int64_t came, bad;
    } counted[TT_RATE_WINDOW_S];
    int32_t counts; /* since the pool is settled */
    struct tt_devices_feedback feedback;
};

enum { TT_SCALING_LANES = 2 }; /* drains, calls */

struct tt_scaling_lane {
    struct tt_scaling_job *first, *last; /* the first one runs */
};

struct tt_scaling_service {
    struct tt_fleet_node *node;
    struct tt_scheduler_role *role;
    struct tt_cluster_demand *demand;
    const struct tt_scaling_options *options; /* NULL: there is no provider; nothing is done */
    struct tt_scaling_pool *pools;            /* [pool_count] */
    int32_t pool_count;
    bool *was_linked; /* [node_count]: reached, and not seen to end */
    uint64_t epoch;   /* that it acts in; 0: a spare */
    int64_t began_at, look_at;
    struct tt_scaling_job *advice; /* NULL: none is computed */
    struct tt_scaling_lane lanes[TT_SCALING_LANES];
};

/* All of these are borrowed. Errors: INVALID: the limits; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_scaling_service_init(struct tt_scaling_service *self,
                                                  struct tt_fleet_node *node,
                                                  struct tt_scheduler_role *role,
                                                  struct tt_cluster_demand *demand,
                                                  struct tt_error *why);
/* Jobs that run are abandoned. Also after a failed _init. */
void tt_scaling_service_fini(struct tt_scaling_service *self);
void tt_scaling_service_linked(struct tt_scaling_service *self, uint16_t peer, enum tt_link link);
void tt_scaling_service_tick(struct tt_scaling_service *self, int64_t now);
int64_t tt_scaling_service_next_at(const struct tt_scaling_service *self);
void tt_scaling_service_check(const struct tt_scaling_service *self);

/* ---- scaling_commands.c ---- */

/* Errors: those of the commands; UNSUPPORTED: there is no provider. */
TT_MUST_CHECK enum tt_err tt_scaling_service_command(struct tt_scaling_service *self, int64_t now,
                                                     const char *command,
                                                     struct tt_text *out_answer,
                                                     struct tt_error *why);
/* Appends the pools as a JSON array. */
void tt_scaling_service_show(const struct tt_scaling_service *self, struct tt_text *out_json);

#endif
