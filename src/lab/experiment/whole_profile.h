/* How long a model in steps runs as a whole, where nobody has measured that: the sum of its steps,
 * recurrent ones as often as inputs are long, and outputs that nine in ten do not exceed; the
 * demand is what they have on average over it. */
#ifndef TT_LAB_EXPERIMENT_WHOLE_PROFILE_H
#define TT_LAB_EXPERIMENT_WHOLE_PROFILE_H

#include "lab/scenario/scenario.h"

/* Does it go by the input's length how often steps run? */
bool tt_whole_profile_walks_input(const struct tt_scenario_model *model);
/* The model's steps, profiles and lengths are there. Errors: NO_MEMORY, INVALID. */
TT_MUST_CHECK enum tt_err tt_whole_profile_sum(const struct tt_scenario_model *model,
                                               struct tt_profile **out_profile,
                                               struct tt_error *why);

#endif
