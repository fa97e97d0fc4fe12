/* Checks that a model can be served as it is placed. Loading refuses a model that cannot, with an
 * error message that says what to change; no request meets the problem. The configuration alone
 * answers some questions before the model is loaded (_check_model), the loaded model the others
 * (_check_served). The checks read the traits of the policy's kind, never its name. */
#ifndef TT_CONTROL_PLACING_CHECK_H
#define TT_CONTROL_PLACING_CHECK_H

#include "control/placing.h"
#include "serve/served_model.h"

/* Before the model is loaded. UNSUPPORTED: tensors that the configuration reshapes; a policy by
 * cells for a model without cells, or a policy that cannot run the model's cells. */
TT_MUST_CHECK enum tt_err tt_placing_check_model(const struct tt_placing *self,
                                                 const struct tt_repository_model *model,
                                                 struct tt_error *why);
/* Errors: UNSUPPORTED (an instance group asks for a GPU, and the engine uses none). */
TT_MUST_CHECK enum tt_err tt_placing_check_gpus(const struct tt_repository_model *model,
                                                struct tt_error *why);
/* The same, of what the signature decides: as tt_placing_check_served(). `has_cells`: of a model of
 * cells. */
TT_MUST_CHECK enum tt_err tt_placing_check_signature(const struct tt_placing *self,
                                                     const struct tt_model_settings *settings,
                                                     const struct tt_signature *signature,
                                                     bool has_cells, struct tt_error *why);
/* After the model was loaded and its signature narrowed. UNSUPPORTED: the policy would put requests
 * of different shapes into one batch. INVALID: a ring of inputs that the policy would not use, or
 * that the model cannot have. */
TT_MUST_CHECK enum tt_err tt_placing_check_served(const struct tt_placing *self,
                                                  const struct tt_served_model *served,
                                                  const struct tt_model_settings *settings,
                                                  struct tt_error *why);

#endif
