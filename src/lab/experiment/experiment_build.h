/* The parts of tt_experiment_build, for experiment_build.c: models (experiment_models.c), their
 * profiles (experiment_profiles.c), the search for workers (experiment_workers.c), a cluster
 * (experiment_cluster.c), and the limits of each world (experiment_world.c). */
#ifndef TT_LAB_EXPERIMENT_EXPERIMENT_BUILD_H
#define TT_LAB_EXPERIMENT_EXPERIMENT_BUILD_H

#include "lab/experiment/experiment.h"

/* A duration from a decimal number of `unit_ns`; false: it is not 0 .. 10^15 ns. */
bool tt_experiment_ns(double value, int64_t unit_ns, int64_t *out_ns);
/* Fills scenario->models. */
TT_MUST_CHECK enum tt_err tt_experiment_build_models(const struct tt_experiment *self,
                                                     struct tt_scenario *scenario,
                                                     struct tt_error *why);
/* Fills in the steps, profiles, lengths and cells of a model, from what `given` says of it.
 * `repository` may be NULL. INVALID with the line; IO, NO_MEMORY. What was filled in before an
 * error is the model's. */
TT_MUST_CHECK enum tt_err tt_experiment_build_profiles(const struct tt_experiment *self,
                                                       const char *repository,
                                                       const Tutti__ExperimentModel *given,
                                                       struct tt_scenario_model *model,
                                                       struct tt_error *why);
/* E5: adds the options that the policy's `workers` stand for, if it is given. Devices that state no
 * `executors` get one per worker. The models are built. INVALID with the line; IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_experiment_find_workers(const struct tt_experiment *self,
                                                     struct tt_scenario *scenario,
                                                     struct tt_error *why);
/* The layout of world CLUSTER, and whether such a cluster can run the scenario. INVALID, with the
 * line. In other worlds nothing is checked. */
TT_MUST_CHECK enum tt_err tt_experiment_build_cluster(const struct tt_experiment *self,
                                                      struct tt_scenario *scenario,
                                                      struct tt_error *why);
/* Whether the scenario has what its world needs, and nothing that this world cannot run. INVALID,
 * with the line. */
TT_MUST_CHECK enum tt_err tt_experiment_check_world(const struct tt_experiment *self,
                                                    const struct tt_scenario *scenario,
                                                    struct tt_error *why);

#endif
