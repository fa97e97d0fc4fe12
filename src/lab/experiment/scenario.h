/* Everything one run needs, checked and in whole numbers: models with profiles, devices, load,
 * policy, and the world that carries it.
 *
 * Built from an experiment's file, or by hand in tests; then run any number of times. It owns what
 * it points to. A run makes its own simulation, or its own server (lab/run/live_run.h), so
 * scenarios share nothing and may be simulated on several threads; in real time they would share
 * the machine. */
#ifndef TT_LAB_EXPERIMENT_SCENARIO_H
#define TT_LAB_EXPERIMENT_SCENARIO_H

#include "lab/experiment/measure.h"
#include "lab/load/arrival_file.h"
#include "lab/load/arrivals.h"
#include "lab/load/lengths.h"
#include "lab/run/live_figures.h"
#include "policy/policy.h"
#include "record/trace.h"

#include <signal.h>

/* Who carries a scenario. */
enum tt_world {
    TT_WORLD_SIMULATED, /* virtual time */
    TT_WORLD_EMULATED,  /* the real-time loop, devices that wait as long as the profiles say */
    TT_WORLD_REAL,      /* the real-time loop, models of the repository on this machine */
    TT_WORLDS,          /* in which one can be run */
    TT_WORLD_RECORDED = TT_WORLDS, /* it ran; its figures are at hand */
};
/* "simulated", "emulated", "real", "recorded"; static storage. */
const char *tt_world_name(enum tt_world world);

struct tt_scenario_model {
    char *name;
    char *source; /* its name in the repository; NULL: it is not from there */
    struct tt_step_model step_model;
    struct tt_step *steps;
    int32_t *quantiles;           /* the step model's; NULL: borrowed */
    struct tt_profile **profiles; /* of the steps; NULL: borrowed, and so is the whole's */
    int32_t *preferred;
    int64_t weight;
    int32_t rows, length, output_length;
    struct tt_lengths *lengths; /* of inputs and outputs, instead; NULL: as above */
    int64_t input_bytes, output_bytes;
    enum tt_tree tree;
    struct tt_cell_rates cell_rates;
};

struct tt_scenario {
    enum tt_world world;
    char *repository; /* of models; NULL: none */
    struct tt_scenario_model *models;
    int32_t model_count;
    struct tt_sim_device *devices;
    int32_t device_count;
    int32_t depth;
    int64_t d_ctrl_ns, d_data_ns, abort_ns;
    int32_t jitter_permille;
    uint64_t seed;
    int64_t duration_ns, warm_up_ns; /* duration TT_NEVER: until the arrivals end */
    enum tt_process process;
    int64_t shape_ppm, rate, interval_ns, request_limit;
    struct tt_rate_segment *segments;
    int32_t segment_count;
    int64_t step_rate, step_every, step_maximum;
    char *arrivals_path;                   /* instead of the above; NULL: none */
    const struct tt_sim_arrival *arrivals; /* the same from memory, borrowed; NULL: none */
    int64_t arrival_count;
    /* What of these is made of given cells, as a simulation's source; NULL: none. */
    bool (*given)(void *context, int64_t number, struct tt_sim_given *out_given);
    void *given_context;
    char *policy;
    char **option_texts; /* key, value, key, value ... */
    int32_t option_count;
};

void tt_scenario_fini(struct tt_scenario *self);

/* What a run leaves besides its figures; any path may be NULL. */
struct tt_scenario_outputs {
    const char *tasks_path, *outcomes_path;
    struct tt_sim_observer also; /* hears everything too */
    struct tt_trace *trace;      /* its last records are kept there; NULL: no trace */
    /* The run is cut short when more requests than this were bad; 0: never. For who only asks
     * whether there are that many. */
    int64_t bad_limit;
    /* In real time only; either may be NULL. `progress` now and then, on the caller's thread; `say`
     * a line for people, while models are loaded. */
    void (*progress)(void *context, int32_t finished, int32_t all);
    void (*say)(void *context, const char *line);
    void *progress_context;
};

struct tt_scenario_result {
    struct tt_measure measure; /* to be freed with tt_measure_fini */
    int64_t events;            /* arrivals, endings, finished tasks */
    int64_t simulated_ns;      /* where the run ended */
    bool interrupted;
    struct tt_live_figures live;
    bool cut; /* by bad_limit: the figures are those of the beginning */
};

/* Runs it in its world. `stop` (may be NULL) is looked at now and then: when not 0, the run ends
 * with what is known so far. Errors: the policy refuses its options, a file cannot be read or
 * written. */
TT_MUST_CHECK enum tt_err tt_scenario_run(const struct tt_scenario *self, bool check,
                                          const struct tt_scenario_outputs *outputs,
                                          const volatile sig_atomic_t *stop,
                                          struct tt_scenario_result *out_result,
                                          struct tt_error *why);

#endif
