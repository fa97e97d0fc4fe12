/* The description of one run, checked and in whole numbers: models with profiles, devices, load,
 * policy, and the world that runs it.
 *
 * Built from an experiment file (lab/experiment) or from a recording (lab/replay), or by hand in
 * tests. It is data and runs nothing: lab/run/scenario_run.h runs it, any number of times. It owns
 * what it points to unless a field says "borrowed". Runs do not modify it, so several threads may
 * simulate one scenario; in real time they would share the machine. */
#ifndef TT_LAB_SCENARIO_SCENARIO_H
#define TT_LAB_SCENARIO_SCENARIO_H

#include "lab/scenario/lengths.h"
#include "lab/scenario/rate.h"
#include "lab/scenario/server_cost.h"
#include "policy/policy.h"
#include "sim/simulation.h"

enum tt_world {
    TT_WORLD_SIMULATED,            /* virtual time */
    TT_WORLD_EMULATED,             /* real time; devices wait as long as the profiles say */
    TT_WORLD_REAL,                 /* real time; models of a repository on this machine */
    TT_WORLD_CLUSTER,              /* real time; processes of this machine, emulated devices */
    TT_WORLDS,                     /* the number of worlds that can run a scenario */
    TT_WORLD_RECORDED = TT_WORLDS, /* of a recording's figures; nothing runs */
};
/* "simulated", "emulated", "real", "cluster", "recorded"; static storage. */
const char *tt_world_name(enum tt_world world);

struct tt_kept_gaps;

struct tt_scenario_model {
    char *name;
    char *source; /* its name in the repository; NULL: it is not from there */
    struct tt_step_model step_model;
    struct tt_step *steps;
    int32_t *quantiles;           /* the step model's; NULL: borrowed */
    struct tt_profile **profiles; /* of the steps; NULL: borrowed, and so is the whole's */
    int32_t *preferred;
    int32_t *executors;
    int64_t weight; /* its share of the load, relative to the sum */
    int32_t rows, length, output_length;
    struct tt_lengths *lengths; /* of inputs and outputs; NULL: the fixed ones above */
    int64_t input_bytes, output_bytes;
    enum tt_tree tree;
    struct tt_cell_rates cell_rates;
};

/* Of world CLUSTER; the others do not read it. */
struct tt_scenario_cluster {
    int32_t frontends, backends;
    int64_t reply_ns; /* of each objective, for the way to a frontend and back */
};

/* Composition (sim/sim_inside.h): the policy of each device, under which it runs what it is
 * granted. */
struct tt_scenario_inside {
    char *policy; /* NULL: devices run what the scenario's policy says */
    char **option_texts;
    int32_t option_count;
    int32_t executors, depth; /* of a device */
};

struct tt_scenario {
    enum tt_world world;
    struct tt_scenario_cluster cluster;
    char *repository; /* of models; NULL: none */
    struct tt_scenario_model *models;
    int32_t model_count;
    struct tt_sim_device *devices;
    int32_t device_count;
    int32_t depth; /* batches queued per executor */
    int64_t d_ctrl_ns, d_data_ns, abort_ns;
    int32_t jitter_permille;
    struct tt_noise noise;
    struct tt_server_cost server; /* of simulated worlds */
    bool learns_delays; /* policies believe in no delays at first, and learn d_ctrl_ns and d_data_ns
                         */
    bool learns;        /* what is believed of the models follows from what batches take */
    struct tt_perturbation *perturbations; /* of simulated devices, ascending */
    int32_t perturbation_count;
    uint64_t seed;
    int64_t duration_ns; /* TT_NEVER: until the arrivals end */
    int64_t warm_up_ns;  /* requests that arrive earlier are not counted */
    /* The load, drawn by lab/load/arrivals.h, unless arrivals_path or arrivals is set. */
    enum tt_process process;
    int64_t shape_ppm, rate, interval_ns, request_limit;
    struct tt_rate_segment *segments;
    int32_t segment_count;
    int64_t step_rate, step_every, step_maximum;
    /* Gaps that runs which differ only in the rate share (lab/load/kept_gaps.h). They are changed
     * by runs, so these must not be several at once. NULL: none; borrowed. */
    struct tt_kept_gaps *kept_gaps;
    char *arrivals_path;                   /* a CSV of arrivals; NULL: none */
    const struct tt_sim_arrival *arrivals; /* arrivals in memory, borrowed; NULL: none */
    int64_t arrival_count;
    /* The given cells of request `number`, for a simulation's source; NULL: none. */
    bool (*given)(void *context, int64_t number, struct tt_sim_given *out_given);
    void *given_context;
    char *policy;
    char **option_texts; /* key, value, key, value ...; see tt_scenario_option */
    int32_t option_count;
    struct tt_scenario_inside inside;
    bool found_workers; /* a search for workers added options */
};

void tt_scenario_fini(struct tt_scenario *self);
/* Option `index` of the policy; the strings are borrowed. */
static inline struct tt_option tt_scenario_option(const struct tt_scenario *self, int32_t index) {
    tt_assert(index >= 0);
    tt_assert(index < self->option_count);
    char *const *pair = &self->option_texts[2 * (ptrdiff_t)index];
    return (struct tt_option){.key = pair[0], .value = pair[1]};
}

#endif
