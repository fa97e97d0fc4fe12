/* How one model is placed: its policy, the policy's options, and the number of executors.
 *
 * The model's configuration says it (_choose), or the opener of the loader imposes one policy on
 * all models (_impose). Where the configuration names no policy, policy/default_policy.h chooses.
 * The policy's kind supplies defaults for its options; measured workers come to these
 * (_find_workers). This module knows no policy by name.
 *
 * Its strings are those of the repository, of the options, literals, or lie in itself: it must not
 * be moved, and must not outlive any of these; a copy (_copy) has its own strings. Models whose
 * placings are the same may share a domain. Nothing here loads or runs anything but the measurement
 * of workers. control/placing_check.h checks that the model can be served so. */
#ifndef TT_CONTROL_PLACING_H
#define TT_CONTROL_PLACING_H

#include "model/repository/repository.h"
#include "policy/policy.h"
#include "profile/find_workers.h"
#include "serve/serving.h"

struct tt_placing {
    bool is_imposed;                 /* the model's configuration was not asked */
    struct tt_serving_policy policy; /* its options are those below */
    struct tt_option options[TT_MAX_OPTIONS];
    struct tt_worker_options found; /* the strings of measured options */
};

/* As the model's configuration says, with defaults for the rest. *self is zeroed. */
void tt_placing_choose(struct tt_placing *self, const struct tt_repository_model *model);
/* As the opener of the loader says. *self is zeroed. */
void tt_placing_impose(struct tt_placing *self, const struct tt_serving_policy *policy);
/* E5: measured workers (policy.h, struct tt_policy_workers): reads what was measured of the model's
 * workers on this machine and adds the options that follow. Does nothing for other policies.
 * `options` but for `given`. Errors: those of tt_find_workers. */
TT_MUST_CHECK enum tt_err tt_placing_find_workers(struct tt_placing *self,
                                                  const struct tt_find_workers_options *options,
                                                  struct tt_error *why);
/* The kind of its policy; NULL where no policy has that name. */
const struct tt_policy_kind *tt_placing_kind(const struct tt_placing *self);
/* True if the option is given with just this value. */
bool tt_placing_has(const struct tt_placing *self, struct tt_option option);
/* E2: an executor for each worker that the options name; else `default_value`. */
int32_t tt_placing_executors(const struct tt_placing *self, int32_t default_value);
/* The number of instances that the configuration asks for; 0: it does not say. */
int32_t tt_placing_instances(const struct tt_model_config *config);

bool tt_placing_same(const struct tt_placing *a, const struct tt_placing *b);
/* With strings of its own. The caller calls _fini after NO_MEMORY, too. */
TT_MUST_CHECK enum tt_err tt_placing_copy(const struct tt_placing *from,
                                          struct tt_placing *out_copy);
/* Of a copy only. */
void tt_placing_fini(struct tt_placing *self);

#endif
