/* A lower bound of how long the waiting requests take: what an arrival can know of its own wait.
 *
 * A line is a model's waiting requests of one priority. Policies serve those of one length in order
 * of arrival or of deadline. So the whole line runs before a newcomer, or at least before one with
 * the latest deadline of all. The bound assumes that nothing else is in the way: rows run in
 * batches of the size that is cheapest per row (or one request after the other, if the policy
 * `runs_alone`), on all executors at once, and nothing runs yet. The true time is longer. So a
 * request that cannot be in time even behind this bound is rejected on arrival.
 *
 * Work is counted by the profile. Where another latency is believed, the bound is in proportion.
 *
 * Only for models of one step: requests of others may end before their last step. This module
 * counts; its owner decides on admission. */
#ifndef TT_CORE_BACKLOG_H
#define TT_CORE_BACKLOG_H

#include "core/request.h"
#include "core/step_model.h"

struct tt_backlog_line {
    int64_t work_ns;
    int64_t last_due_at; /* the latest deadline of all that arrived since it was empty */
    int32_t count;
    int32_t length;
    bool mixed; /* of several lengths */
};

struct tt_backlog {
    struct tt_backlog_line *lines; /* [models][TT_QUEUE_MAX_LEVELS + 1] */
    int64_t *row_ns;               /* [models]; the cheapest row; 0: unknown */
    int64_t *believed_row_ns;      /* [models]; the same as it is believed (tt_backlog_believe) */
    bool alone;                    /* requests run one by one */
    bool in_order;                 /* of arrival */
};

TT_MUST_CHECK enum tt_err tt_backlog_init(struct tt_backlog *self, int32_t models);
void tt_backlog_fini(struct tt_backlog *self);
/* Adds `step_model` as number `model`. */
void tt_backlog_add_model(struct tt_backlog *self, int32_t model,
                          const struct tt_step_model *step_model);
/* `believed` is what is believed now of the model that was added as `step_model`. O(max_batch). */
void tt_backlog_believe(struct tt_backlog *self, int32_t model,
                        const struct tt_step_model *believed,
                        const struct tt_step_model *step_model);
/* The request begins to wait / waits no more. */
void tt_backlog_begin(struct tt_backlog *self, const struct tt_step_model *step_model,
                      const struct tt_request *request);
void tt_backlog_end(struct tt_backlog *self, const struct tt_step_model *step_model,
                    const struct tt_request *request);
/* The bound for a request that is not in the line, on so many executors; 0: nothing is known to run
 * before it. */
int64_t tt_backlog_ahead(const struct tt_backlog *self, const struct tt_request *request,
                         int32_t executors);

#endif
