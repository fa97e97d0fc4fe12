/* The models of a plan: chosen from a repository, profiled where needed, and described as an
 * experiment, which the simulator and `tutti load` read alike.
 *
 * Life: _open chooses; _prepare profiles and links them into the trial's repository; _build makes
 * the scenario; _close. */
#ifndef TT_LAB_PLAN_PLAN_MODELS_H
#define TT_LAB_PLAN_PLAN_MODELS_H

#include "lab/experiment/experiment.h"
#include "lab/plan/contest.h"
#include "lab/plan/plan_trial.h"

struct tt_plan_model {
    const struct tt_repository_model *from; /* borrowed from the repository */
    struct tt_text settings;                /* its tutti.pbtxt as it is; empty: none */
    int64_t slo_ns;                         /* 0: none yet */
    bool slo_is_given;                      /* on the command line */
    bool slo_is_default;                    /* made up from the run time of one request */
    int32_t length;                         /* of requests; 0: the model has no variable length */
    double weight;
};

/* A model and its weight among the requests. */
struct tt_plan_choice {
    char name[256];
    double weight;
};

struct tt_plan_models {
    struct tt_repository *repository;
    struct tt_plan_model *items;
    int32_t count;
    char experiment_path[320];
    struct tt_scenario scenario; /* after _build; without load and policy of its own */
};

/* `choices` none: every model that can serve. `slo_ns` 0: as the models say. Errors: NOT_FOUND (no
 * such repository or model; the message lists the models), INVALID (a model cannot serve, or is
 * chosen twice), IO. */
TT_MUST_CHECK enum tt_err tt_plan_models_open(struct tt_plan_models *self, const char *path,
                                              const struct tt_plan_choice *choices,
                                              int32_t choice_count, int64_t slo_ns,
                                              struct tt_error *why);
void tt_plan_models_close(struct tt_plan_models *self);
/* Profiles models that have no valid profile (beside the model, as `tutti profile` does, or in the
 * trial's folder if that cannot be written), with progress on standard error. Errors: those of the
 * trial and of profiling. */
TT_MUST_CHECK enum tt_err tt_plan_models_prepare(struct tt_plan_models *self,
                                                 struct tt_plan_trial *trial, struct tt_error *why);
/* Makes the scenario, with `devices` devices; `length` > 0: of all requests. Sets objectives that
 * are missing. Errors: INVALID, IO. */
TT_MUST_CHECK enum tt_err tt_plan_models_build(struct tt_plan_models *self,
                                               struct tt_plan_trial *trial, int32_t devices,
                                               int32_t length, struct tt_error *why);
/* Writes the experiment file anew: with objectives or without. Errors: IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_plan_models_write(const struct tt_plan_models *self, int32_t devices,
                                               bool has_slos, struct tt_error *why);
/* The model's tutti.pbtxt under a candidate, or under none (NULL) and without objective. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_plan_models_settings(const struct tt_plan_model *model,
                                                  const struct tt_policy_candidate *candidate,
                                                  bool has_slo, struct tt_text *out_text,
                                                  struct tt_error *why);
/* Writes these settings of every model into the trial. */
TT_MUST_CHECK enum tt_err tt_plan_models_set(const struct tt_plan_models *self,
                                             struct tt_plan_trial *trial,
                                             const struct tt_policy_candidate *candidate,
                                             bool has_slo, struct tt_error *why);

#endif
