/* The placing of a model: its policy, the policy's options, and the number of executors.
 *
 * The model's configuration states it (_choose), or the loader's options impose one policy on all
 * models (_impose). If the configuration names no policy, policy/default_policy.h chooses one. The
 * policy's kind supplies defaults of its options; measured workers are added to these
 * (_find_workers). This module knows no policy by name. A model with policy auto shares a domain
 * only with others of auto, so that their requests alone decide on its policy.
 *
 * A placing borrows its strings from the repository, the options and itself. So it must not be
 * moved, and must not outlive these. A copy (_copy) has its own strings. Models with equal placings
 * may share a domain. Nothing is loaded or run here, except for the measurement of workers.
 * control/placing_check.h checks that the model can be served with its placing. */
#ifndef TT_CONTROL_PLACING_H
#define TT_CONTROL_PLACING_H

#include "model/repository/repository.h"
#include "policy/policy_candidates.h"
#include "profile/find_workers.h"
#include "serve/serving.h"

struct tt_placing {
    bool is_imposed;                 /* the model's configuration was ignored */
    bool is_auto;                    /* the configuration leaves the policy to the server */
    struct tt_serving_policy policy; /* its options are those below */
    struct tt_option options[TT_MAX_OPTIONS];
    struct tt_worker_options found;      /* the strings of measured options */
    struct tt_model_emulation emulation; /* its devices, as the model states them */
    struct tt_model_device device;       /* the one whose streams run it */
    bool runs_whole; /* its engine does (core/engine_traits.h): another process batches */
};

/* The policy that the configuration states, or the default one, composes
 * (core/policy_traits.h). */
bool tt_placing_composes(const struct tt_repository_model *model);

/* Sets what the model's configuration states, and defaults for the rest. *self must be zero.
 * `chosen`: where the configuration says auto; NULL: the default policy. */
void tt_placing_choose(struct tt_placing *self, const struct tt_repository_model *model,
                       const struct tt_policy_candidate *chosen);
/* Sets what the loader's options state. *self must be zero. */
void tt_placing_impose(struct tt_placing *self, const struct tt_serving_policy *policy);
/* E5: measured workers (policy.h, struct tt_policy_workers). Reads the measurements of the model's
 * workers on this machine, and adds the options that they determine. Does nothing for other
 * policies. Reads all of `options` except `given`. Errors: those of tt_find_workers. */
TT_MUST_CHECK enum tt_err tt_placing_find_workers(struct tt_placing *self,
                                                  const struct tt_find_workers_options *options,
                                                  struct tt_error *why);
/* The kind of its policy; NULL: no policy has that name. */
const struct tt_policy_kind *tt_placing_kind(const struct tt_placing *self);
/* True if the option is given with exactly this value. */
bool tt_placing_has(const struct tt_placing *self, struct tt_option option);
/* E2: the number of workers that the options name, each of which needs an executor; 0: none. */
int32_t tt_placing_workers(const struct tt_placing *self);
/* The number of instances that the configuration states; 0: none. */
int32_t tt_placing_instances(const struct tt_model_config *config);

bool tt_placing_same(const struct tt_placing *a, const struct tt_placing *b);
/* Makes a copy with strings of its own. The caller calls _fini, also after NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_placing_copy(const struct tt_placing *from,
                                          struct tt_placing *out_copy);
/* For copies only. */
void tt_placing_fini(struct tt_placing *self);

#endif
