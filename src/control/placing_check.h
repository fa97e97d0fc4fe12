/* Can a model be served as it is placed? What cannot is refused where it is loaded, with the
 * sentence that tells its owner what to change; a request never meets it. Some of that the
 * configuration tells, before anything is loaded; the rest the model itself does. */
#ifndef TT_CONTROL_PLACING_CHECK_H
#define TT_CONTROL_PLACING_CHECK_H

#include "control/placing.h"
#include "serve/served_model.h"

/* Before it is loaded. UNSUPPORTED: tensors that the configuration reshapes; a policy that works by
 * cells for a model that has none, or one that cannot run this model's. */
TT_MUST_CHECK enum tt_err tt_placing_check_model(const struct tt_placing *self,
                                                 const struct tt_repository_model *model,
                                                 struct tt_error *why);
/* Once it is, its signature narrowed. UNSUPPORTED: requests that the policy would put into one
 * batch have no one shape. INVALID: a ring of inputs that nobody would wait for, or that cannot be.
 */
TT_MUST_CHECK enum tt_err tt_placing_check_served(const struct tt_placing *self,
                                                  const struct tt_served_model *served,
                                                  const struct tt_model_settings *settings,
                                                  struct tt_error *why);

#endif
