/* Which policies policy auto may choose for a model. */
#ifndef TT_CONTROL_AUTO_CANDIDATES_H
#define TT_CONTROL_AUTO_CANDIDATES_H

#include "model/repository/repository.h"
#include "policy/auto_policy.h"
#include "serve/served_model.h"

/* Fills served->choice and served->recent of a loaded model whose configuration says auto. The
 * candidates are those of policy/policy_candidates.h for what the model and its configuration need.
 * Errors: NO_MEMORY, those of the options. */
TT_MUST_CHECK enum tt_err tt_auto_candidates_find(const struct tt_repository_model *model,
                                                  const struct tt_auto_devices *devices,
                                                  struct tt_served_model *served,
                                                  struct tt_error *why);

#endif
