/* How one model is placed: under which policy, with which options, on how many executors. That is
 * what the model's configuration asks for, or what whoever opened the loader imposes on all; where
 * nobody says, the model chooses: `deferred` with an objective, `window` with dynamic batching,
 * else `serial`, and `cellular` for cells. To it comes what was measured of elastic's workers.
 *
 * Its strings are those of the repository, of the options, literals, or lie in itself: it is not
 * moved, and outlives none of these; a copy has its own. Models whose placings are the same may
 * share a domain. Nothing here loads or runs anything but the measurement of workers; whether the
 * model can be served so is asked of control/placing_check.h. */
#ifndef TT_CONTROL_PLACING_H
#define TT_CONTROL_PLACING_H

#include "model/repository/repository.h"
#include "profile/find_workers.h"
#include "serve/serving_options.h"

struct tt_placing {
    bool is_imposed;                 /* not what the model asks for */
    struct tt_serving_policy policy; /* its options are those below */
    struct tt_option options[TT_MAX_OPTIONS];
    struct tt_worker_options found; /* what some of them are, beside */
};

/* What the model's configuration says, and what stands for what it does not; *self is zeroed. */
void tt_placing_choose(struct tt_placing *self, const struct tt_repository_model *model);
/* What whoever opened the loader says; likewise. */
void tt_placing_impose(struct tt_placing *self, const struct tt_serving_policy *policy);
/* E5: elastic's enhanced variant goes by what was measured of its workers on this machine: measures
 * them, where that was not done. `options` but for `given`. Errors: those of tt_find_workers. */
TT_MUST_CHECK enum tt_err tt_placing_find_workers(struct tt_placing *self,
                                                  const struct tt_find_workers_options *options,
                                                  struct tt_error *why);
/* As it is written; NULL: not given. */
const char *tt_placing_option(const struct tt_placing *self, const char *key);
bool tt_placing_has(const struct tt_placing *self, const char *key, const char *value);
/* E2: an executor for each worker that is named; else `standard`. */
int32_t tt_placing_executors(const struct tt_placing *self, int32_t default_value);
/* How many instances the configuration asks for; 0: it does not say. */
int32_t tt_placing_instances(const struct tt_model_config *config);

bool tt_placing_same(const struct tt_placing *a, const struct tt_placing *b);
/* With strings of its own. On NO_MEMORY there is something to free, too. */
TT_MUST_CHECK enum tt_err tt_placing_copy(const struct tt_placing *from,
                                          struct tt_placing *out_copy);
/* Of a copy only. */
void tt_placing_fini(struct tt_placing *self);

#endif
