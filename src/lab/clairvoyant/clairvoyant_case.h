/* A load whose whole future is known: what a clairvoyant scheduler is given.
 *
 * D devices run one batch at a time, without preemption. A batch holds 1 .. max_batch requests of
 * one model. A batch of b that starts at s occupies its device during [s, s + l(b)). Each member
 * has arrived by s, and has its deadline at s + l(b) or later. A request that is in such a batch is
 * in time; all others are bad. A batch that holds others besides takes no less time, so bounds need
 * not know them.
 *
 * Life: _init takes it from a scenario, or a test fills it in; clairvoyant_bound.h and
 * clairvoyant_plan.h read it; _fini. It holds no policy and runs nothing. */
#ifndef TT_LAB_CLAIRVOYANT_CLAIRVOYANT_CASE_H
#define TT_LAB_CLAIRVOYANT_CLAIRVOYANT_CASE_H

#include "lab/scenario/scenario.h"

enum { TT_CLAIRVOYANT_MAX_REQUESTS = 1 << 21 }; /* of all models */

struct tt_clairvoyant_model {
    /* Of its requests, in order of the deadline: [count]. _order makes both ascend. */
    int64_t *arrived_at, *deadline_at;
    int32_t count;
    int32_t max_batch;   /* requests */
    int64_t *latency_ns; /* l(b): [max_batch + 1], never decreasing; entry 0 is 0 */
    bool relaxed;        /* _order let requests arrive earlier: only bounds hold, no plan */
};

struct tt_clairvoyant_case {
    struct tt_clairvoyant_model *models;
    int32_t model_count;
    int32_t device_count;
};

/* What of a run, or of one of its requests, no bound describes; NULL: nothing. */
const char *tt_clairvoyant_unknown_run(const struct tt_scenario *scenario);
const char *tt_clairvoyant_unknown_request(const struct tt_scenario *scenario,
                                           const struct tt_sim_arrival *request);
/* Whether a case describes such runs; INVALID: the message says what it does not describe. */
TT_MUST_CHECK enum tt_err tt_clairvoyant_case_covers(const struct tt_scenario *scenario,
                                                     struct tt_error *why);
/* The requests that the scenario's figures count: those that arrive after the warm-up. The
 * errors of _covers, also of single requests; NO_MEMORY; those of the arrivals. */
TT_MUST_CHECK enum tt_err tt_clairvoyant_case_init(struct tt_clairvoyant_case *self,
                                                   const struct tt_scenario *scenario,
                                                   struct tt_error *why);
void tt_clairvoyant_case_fini(struct tt_clairvoyant_case *self);
/* Sorts the requests by deadline, and sets `relaxed`. Where a later deadline belongs to an earlier
 * arrival, requests with earlier deadlines arrive then, too: both ascend, and every batch that was
 * possible stays possible. With one SLO per model nothing moves. */
void tt_clairvoyant_model_order(struct tt_clairvoyant_model *model);
/* True if a batch of `count` requests, of which the first is number `first`, can be in time. */
static inline bool tt_clairvoyant_model_fits(const struct tt_clairvoyant_model *model,
                                             int32_t first, int32_t count) {
    return first + count <= model->count && count <= model->max_batch &&
           model->arrived_at[first + count - 1] + model->latency_ns[count] <=
               model->deadline_at[first];
}
/* The size of the largest batch that can be in time; 0: none. */
int32_t tt_clairvoyant_model_largest(const struct tt_clairvoyant_model *model);
/* Asserts what the bound and the plan take for granted. */
void tt_clairvoyant_case_check(const struct tt_clairvoyant_case *self);
/* FNV-1a of everything above: equal for equal cases. */
uint64_t tt_clairvoyant_case_identity(const struct tt_clairvoyant_case *self);
/* Of all models. */
int64_t tt_clairvoyant_case_requests(const struct tt_clairvoyant_case *self);

#endif
