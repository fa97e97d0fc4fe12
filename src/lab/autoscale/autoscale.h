/* Symphony, figure 15, in virtual time: a fleet that grows and shrinks by the advice
 * (scale/devices_wanted.h) while the rates of its models change for days. And beside it what is
 * usual: independent servers of one device each behind a proxy, whose number follows the length of
 * their queues (proxy_servers.h). They may be eight times as many as the devices.
 *
 * Time goes by in steps of a minute. Of each step a sample is simulated, with queues and batches
 * carried over from the last one; rates and devices are constant within a step. So 150 hours take
 * minutes, and what happens within a step, such as the exact instant at which a device serves, is
 * rounded to steps. The fleet sees only what it measured in the sample.
 *
 * A step is "settling" if the load's need rose faster than 5 % a step within the last start-up
 * time. No fleet that learns of a jump when it happens can serve it before new devices are up.
 *
 * The fewest devices of a step are searched by simulations of its rates on fixed fleets.
 *
 * Floats, and running out of memory ends the process (lab/scenario/allocate.h). It reads no clock
 * and prints nothing. Implemented in autoscale.c (the fleet), proxy_servers.c (the servers). */
#ifndef TT_LAB_AUTOSCALE_AUTOSCALE_H
#define TT_LAB_AUTOSCALE_AUTOSCALE_H

#include "lab/autoscale/fleet_world.h"
#include "lab/scenario/scenario.h"

#include <signal.h>
#include <stdbool.h>

enum { TT_AUTOSCALE_MODELS = 256 };

/* For a fleet of processes (process_run.h). A step takes step_s / pace of real time. */
struct tt_autoscale_processes {
    int32_t backends; /* that share the capacity evenly */
    double pace;      /* so much faster than the clock does the load's time go by */
    double slower;    /* so much longer are run times and objectives; rates are lower by as much */
};

struct tt_autoscale_options {
    const struct tt_fleet_world_model *models;
    int32_t model_count;
    int32_t capacity; /* the most devices */
    double peak;      /* the share of the capacity that the highest load needs, 0 .. 1 */
    int32_t step_count;
    double step_s, start_up_s, hold_s;
    double jumps_per_day; /* of each model */
    int64_t sample_ns;    /* simulated of each step */
    int32_t search_every; /* steps between two searches for the fewest devices; 0: none */
    bool with_servers;    /* also the servers behind a proxy */
    const char *policy;
    uint64_t seed;
    const struct tt_autoscale_processes *processes;             /* NULL: virtual time */
    const volatile sig_atomic_t *stop;                          /* may be NULL */
    void (*progress)(void *context, int32_t done, int32_t all); /* may be NULL */
    void *progress_context;
};

/* Of one step. */
struct tt_autoscale_point {
    double offered_per_s, good_per_s;
    double bad;
    int32_t up, target, wanted, used;
    double confidence;
    double busy_share;     /* of the devices that are up */
    double rows_per_batch; /* mean; 0: no batch began */
    double add, release;   /* the published advice, from the same sample */
    bool settling;
    int32_t fewest; /* 0: not searched */
    /* Of the servers behind a proxy. */
    double server_good_per_s, server_bad;
    int32_t servers;
};

struct tt_autoscale_result {
    struct tt_autoscale_point *points; /* [point_count], owned */
    float *good_per_s;                 /* [point_count][model_count], owned */
    int32_t point_count, model_count;
    int64_t arrived;                       /* requests that were simulated for the fleet */
    double bad, bad_settled, bad_settling; /* of all requests; of those of steps that are not, are
                                              settling */
    double settled_share;                  /* of the steps */
    double bad_steps;                      /* the share of settled steps with more than 1 % bad */
    double mean_up, mean_used;             /* devices */
    /* The same over the fewest, where they were searched; 0: nowhere. */
    double over_fewest, used_over_fewest;
    int32_t adjustments;
    int64_t suspected; /* processes: backends that paused so long that others got their requests */
    double server_bad, mean_servers, servers_over_fewest;
    bool interrupted;
};

/* The models of a scenario for a fleet; the caller frees the array, which refers to the scenario.
 * INVALID: a model has several steps or no objective. */
TT_MUST_CHECK enum tt_err tt_autoscale_models(const struct tt_scenario *scenario,
                                              struct tt_fleet_world_model **out_models,
                                              struct tt_error *why);
/* Errors: those of the policy. */
TT_MUST_CHECK enum tt_err tt_autoscale_run(const struct tt_autoscale_options *options,
                                           struct tt_autoscale_result *out_result,
                                           struct tt_error *why);
/* The fewest devices are searched in this step. */
bool tt_autoscale_is_searched(const struct tt_autoscale_options *options, int32_t step);
void tt_autoscale_result_fini(struct tt_autoscale_result *self);

#endif
