/* The models of a scenario, ready to serve in real time: a server without sockets, with one domain
 * under the scenario's policy, on emulated devices or on this machine.
 *
 * Life: _open creates the server and places every model; in the REAL world it loads each and runs
 * it a few times, so that the first request of an experiment is not the first of the model. The
 * caller then attaches observers to the domain. _start starts the scheduler. _close ends
 * everything, after the ports are closed. Model m of the scenario is models[m]. */
#ifndef TT_LAB_RUN_LIVE_MODELS_H
#define TT_LAB_RUN_LIVE_MODELS_H

#include "control/loader.h"
#include "engine/engine_kind.h"
#include "lab/run/live_inputs.h"
#include "lab/run/scenario_run.h"
#include "model/repository/repository.h"

struct tt_live_models {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_serving *serving;
    struct tt_engine_runtime runtime;    /* EMULATED */
    struct tt_engine *engine;            /* EMULATED */
    struct tt_loader *loader;            /* REAL */
    struct tt_repository **repositories; /* REAL: of each model; [model_count] */
    struct tt_served_model **models;     /* [model_count] */
    struct tt_live_inputs *inputs;       /* [model_count] */
    bool *says_lengths; /* [model_count]: requests state their output length (emulated cells) */
    struct tt_domain *domain;
    struct tt_serving_policy policy;
    struct tt_option options[TT_MAX_OPTIONS];
    int32_t *devices; /* of each executor */
    int32_t executor_count, next_executor;
    int32_t max_batch; /* the largest of the models */
    const struct tt_scenario_outputs *outputs;
};

/* Whether the model runs as a model of cells: if a step runs more than once per request, or, on
 * emulated devices, if the policy works by cells. */
bool tt_live_models_is_of_cells(const struct tt_scenario *scenario,
                                const struct tt_scenario_model *model);
/* Errors: the policy rejects its options, a model cannot run the scenario's requests, those of
 * loading. `outputs` receives lines of text; `stop` (may be NULL) ends it with CANCELLED between
 * two models. */
TT_MUST_CHECK enum tt_err tt_live_models_open(struct tt_live_models *self,
                                              const struct tt_scenario *scenario,
                                              const struct tt_scenario_outputs *outputs,
                                              const volatile sig_atomic_t *stop,
                                              struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_live_models_start(struct tt_live_models *self, struct tt_error *why);
/* Valid after a failed _open too. */
void tt_live_models_close(struct tt_live_models *self);

#endif
