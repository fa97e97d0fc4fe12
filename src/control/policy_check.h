/* Checks the policy that a model's tutti.pbtxt names. It reads text only: the server calls it
 * before each load, `tutti models check` for each model. */
#ifndef TT_CONTROL_POLICY_CHECK_H
#define TT_CONTROL_POLICY_CHECK_H

#include "model/repository/repository.h"
#include "policy/policy.h"

enum { TT_POLICY_REMARK_BYTES = 320 };

/* Adds a problem, with file, line and column, for an unknown name, unknown options and wrong
 * values; a remark where the policy can do less than its name says: stages that are not written,
 * requests that share no batch because their shapes differ, priorities that it does not know. */
void tt_policy_check(const struct tt_repository_model *model, struct tt_findings *findings);
/* True: the model has priority levels, and this policy, which may be the default one, does not
 * order by them; the sentence says so, and which do. */
bool tt_policy_ignores_priorities(const struct tt_repository_model *model,
                                  const struct tt_policy_kind *kind,
                                  char out_sentence[TT_POLICY_REMARK_BYTES]);

#endif
