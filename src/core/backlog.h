/* How long, at the least, those take who wait already: what a newcomer can know of its wait.
 *
 * A line is a model's waiting requests of one priority. Policies serve those of one length in order
 * of arrival or of deadline: so the whole line is before whoever comes, or at least before who
 * comes with the latest deadline of all. What that takes is counted as if nothing were in the way:
 * rows in batches of the size that is cheapest per row (or one request after the other, where the
 * policy does so), on all executors at once, nothing running yet. It is more in truth; so who could
 * not make it behind such a line need not be kept waiting to hear that.
 *
 * Only models of one step: others may end before their last. It counts; who is let in, its owner
 * decides. */
#ifndef TT_CORE_BACKLOG_H
#define TT_CORE_BACKLOG_H

#include "core/request.h"
#include "core/step_model.h"

struct tt_backlog_line {
    int64_t work_ns;
    int64_t last_due_at; /* the latest deadline of who came since it was empty */
    int32_t count;
    int32_t length;
    bool mixed; /* of several lengths */
};

struct tt_backlog {
    struct tt_backlog_line *lines; /* [models][TT_QUEUE_MAX_LEVELS + 1] */
    int64_t *row_ns;               /* [models]; the cheapest row; 0: nothing is known */
    bool alone;                    /* requests run one by one */
    bool in_order;                 /* of arrival */
};

TT_MUST_CHECK enum tt_err tt_backlog_init(struct tt_backlog *self, int32_t models);
void tt_backlog_fini(struct tt_backlog *self);
/* `step_model` has come as number `model`. */
void tt_backlog_add_model(struct tt_backlog *self, int32_t model,
                          const struct tt_step_model *step_model);
/* The request waits from now on / does not any longer. */
void tt_backlog_begin(struct tt_backlog *self, const struct tt_step_model *step_model,
                      const struct tt_request *request);
void tt_backlog_end(struct tt_backlog *self, const struct tt_step_model *step_model,
                    const struct tt_request *request);
/* What is before the request, which is not in the line, on so many executors; 0: perhaps nothing.
 */
int64_t tt_backlog_ahead(const struct tt_backlog *self, const struct tt_request *request,
                         int32_t executors);

#endif
