/* The models of a scenario, ready to be asked in real time: a server without sockets, with one
 * domain under the scenario's policy, on emulated devices or on this machine's own.
 *
 * Life: _open makes the server and brings every model into it (in the REAL world each is loaded,
 * and run a few times, so that the first request of an experiment is not the first of the model);
 * the domain then listens to whoever is to hear it; _start lets the scheduler go; _close takes
 * everything down, when the ports are closed. Model m of the scenario is models[m]. */
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
    bool *says_lengths; /* [model_count]: requests say how long their output is (emulated cells) */
    struct tt_domain *domain;
    struct tt_serving_policy policy;
    struct tt_option options[TT_MAX_OPTIONS];
    int32_t *devices; /* of each executor */
    int32_t executor_count, next_executor;
    int32_t max_batch; /* the largest of the models */
    const struct tt_scenario_outputs *outputs;
};

/* Does it run as a model of cells? Those whose steps are walked more than once do, and, on emulated
 * devices, all of them where the policy works by cells. */
bool tt_live_models_is_of_cells(const struct tt_scenario *scenario,
                                const struct tt_scenario_model *model);
/* Errors: what a policy says of its options, what a model cannot do, those of loading. `outputs`
 * hears lines for people; `stop` (may be NULL) ends it with CANCELLED between two models. */
TT_MUST_CHECK enum tt_err tt_live_models_open(struct tt_live_models *self,
                                              const struct tt_scenario *scenario,
                                              const struct tt_scenario_outputs *outputs,
                                              const volatile sig_atomic_t *stop,
                                              struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_live_models_start(struct tt_live_models *self, struct tt_error *why);
/* Also after a failed open. */
void tt_live_models_close(struct tt_live_models *self);

#endif
