/* Independent servers of one device each, a pool per model, behind a proxy that spreads the model's
 * requests over them at random. Each pool has an autoscaler of the usual kind: it keeps the mean
 * queue of a server at a target, with as many servers as the queue over its target says, without
 * change within 10 %, and down only after a hold. All pools share the devices.
 *
 * A pool per model is the kindest arrangement: a server of all models would see so few requests of
 * each that it hardly batches. Servers under a random split are alike, so one or two of a pool are
 * simulated and stand for all. The target is the queue of one server at 80 % of the highest rate at
 * which 1 % of its requests are bad.
 *
 * Life: _init; _step with ascending instants; _fini. Implemented in proxy_servers.c. */
#ifndef TT_LAB_AUTOSCALE_PROXY_SERVERS_H
#define TT_LAB_AUTOSCALE_PROXY_SERVERS_H

#include "lab/autoscale/fleet_world.h"

enum { TT_PROXY_SAMPLED = 2 }; /* servers of a pool that are simulated */

struct tt_proxy_pool {
    struct tt_fleet_world *worlds[TT_PROXY_SAMPLED];
    double target_queue, highest_per_s; /* of one server */
    int32_t up;
    int32_t starting; /* that serve at starts_at_s */
    double starts_at_s, below_since_s;
    int32_t highest;
};

struct tt_proxy_options {
    struct tt_fleet_world_options world; /* capacity and devices are not read */
    const double *per_s;                 /* of the models at the start */
    int32_t most;                        /* devices */
    double start_up_s, hold_s;
};

struct tt_proxy_servers {
    struct tt_proxy_pool *pools; /* [pool_count], owned */
    int32_t pool_count, most;
    double start_up_s, hold_s;
};

struct tt_proxy_step {
    double good_per_s, bad; /* bad: the share of all requests */
    int32_t servers;
};

/* Errors: those of the policy. */
TT_MUST_CHECK enum tt_err tt_proxy_servers_init(struct tt_proxy_servers *self,
                                                const struct tt_proxy_options *options,
                                                struct tt_error *why);
void tt_proxy_servers_fini(struct tt_proxy_servers *self);
/* A step at `now_s` with these rates of the models; then the autoscalers look. */
struct tt_proxy_step tt_proxy_servers_step(struct tt_proxy_servers *self, double now_s,
                                           const double *per_s, int64_t sample_ns);

#endif
