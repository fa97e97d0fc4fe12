/* The parts of tt_experiment_build: models (profiles from lines, points, files and repositories,
 * copies, tables), and what a world demands. Only experiment_build.c calls it. */
#ifndef TT_LAB_EXPERIMENT_EXPERIMENT_BUILD_H
#define TT_LAB_EXPERIMENT_EXPERIMENT_BUILD_H

#include "lab/experiment/experiment.h"

/* A duration given as a decimal in some unit; false: not 0 .. about 10^15 ns. */
bool tt_experiment_ns(double value, int64_t unit_ns, int64_t *out_ns);
/* Fills scenario->models. */
TT_MUST_CHECK enum tt_err tt_experiment_build_models(const struct tt_experiment *self,
                                                     struct tt_scenario *scenario,
                                                     struct tt_error *why);
/* Is everything there that its world needs, and nothing that this world cannot carry? INVALID, with
 * the line. */
TT_MUST_CHECK enum tt_err tt_experiment_check_world(const struct tt_experiment *self,
                                                    const struct tt_scenario *scenario,
                                                    struct tt_error *why);

#endif
