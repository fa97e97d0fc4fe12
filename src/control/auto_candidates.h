/* Which policies policy auto may choose for a model. */
#ifndef TT_CONTROL_AUTO_CANDIDATES_H
#define TT_CONTROL_AUTO_CANDIDATES_H

#include "control/placing.h"
#include "serve/served_model.h"

/* Fills served->choice and served->recent of a loaded model whose configuration says auto. The
 * candidates are the policies that can run the model as its configuration is (placing_check.h), and
 * that a trial can simulate: none by cells, none that waits for inputs on the device, and those of
 * stages only where the model has some. Errors: NO_MEMORY, those of the options. */
TT_MUST_CHECK enum tt_err tt_auto_candidates_find(const struct tt_repository_model *model,
                                                  struct tt_served_model *served,
                                                  struct tt_error *why);

#endif
