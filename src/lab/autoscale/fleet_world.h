/* A fleet in virtual time: models, one policy, devices that come and go, and rates that change.
 *
 * It is a simulation (sim/simulation.h) with requests drawn at the rates in force. A caller runs a
 * span, reads what was counted in it, and changes rates or devices before the next span. Queues and
 * running batches carry over. So the same object is the trial of a fixed fleet, and the world in
 * which an autoscaler acts.
 *
 * Life: _new; _set_rates; _run, _take and _resize in any order; _free. The same options, rates and
 * sizes give the same counts. It reads no clock and prints nothing. One caller at a time.
 * Implemented in fleet_world.c. */
#ifndef TT_LAB_AUTOSCALE_FLEET_WORLD_H
#define TT_LAB_AUTOSCALE_FLEET_WORLD_H

#include "core/profile.h"

struct tt_fleet_world_model {
    const char *name;                 /* borrowed, as the profile */
    const struct tt_profile *profile; /* without lengths */
    int32_t max_batch;
    int64_t slo_ns;
};

struct tt_fleet_world_options {
    const struct tt_fleet_world_model *models; /* read during _new only */
    int32_t model_count;
    int32_t capacity; /* the most devices that there may be */
    int32_t devices;  /* that are there at the start */
    const char *policy;
    int64_t shape_ppm; /* of the gaps' Gamma distribution, in millionths; 0: Poisson */
    uint64_t seed;
};

/* What a span counted. */
struct tt_fleet_count {
    int64_t arrived; /* during the span */
    int64_t ok, bad; /* that ended during the span */
};
struct tt_fleet_span {
    struct tt_fleet_count total;
    const struct tt_fleet_count *models; /* [model_count], until the next _run */
    int64_t busy_ns;                     /* of batches that ended during the span */
    int64_t span_ns;
    int64_t batches, rows; /* that began in it */
    int32_t devices_used;  /* that began a batch in it */
};

struct tt_fleet_world;

/* Errors: those of the policy; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_fleet_world_new(const struct tt_fleet_world_options *options,
                                             struct tt_fleet_world **out_world,
                                             struct tt_error *why);
void tt_fleet_world_free(struct tt_fleet_world *take_self); /* NULL-safe */
/* Requests per second of each model, 0 or more, from now on. */
void tt_fleet_world_set_rates(struct tt_fleet_world *self, const double *per_s);
/* From now on so many devices are wanted, 1 .. capacity; new ones serve after the start-up time. */
void tt_fleet_world_resize(struct tt_fleet_world *self, int32_t devices, int64_t start_up_ns);
/* Devices that serve now, and those that start. */
int32_t tt_fleet_world_up(const struct tt_fleet_world *self);
int32_t tt_fleet_world_starting(const struct tt_fleet_world *self);
/* Requests that arrived and have not ended, at this instant. */
int32_t tt_fleet_world_in_system(const struct tt_fleet_world *self);
/* Runs `span_ns` and begins to count anew. */
struct tt_fleet_span tt_fleet_world_run(struct tt_fleet_world *self, int64_t span_ns);
/* bad / (ok + bad); 0 where nothing ended. */
double tt_fleet_bad_share(const struct tt_fleet_count *count);

#endif
