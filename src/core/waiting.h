/* Requests that wait for their first step: the mechanism's state of them, for models with queue
 * rules.
 *
 * A request begins to wait when it is admitted. It stops when it runs, is dropped or is cancelled.
 * While it waits it counts in three places: in its level, in the backlog that arrivals find, and in
 * the heap by the last instant at which it may start. A request that is made late loses its
 * deadline and moves behind all others of its level; if its rule gives
 * turns, it then counts in the heap by age.
 *
 * Only the mechanism calls these functions. */
#ifndef TT_CORE_WAITING_H
#define TT_CORE_WAITING_H

#include "core/mechanism.h"

/* The rule for the request; NULL: its model has none. */
static inline const struct tt_queue_rule *tt_waiting_rule(const struct tt_mechanism *self,
                                                          const struct tt_request *request) {
    const struct tt_step_model *model = self->models[request->model];
    if (!model->rules)
        return NULL;
    tt_assert(request->priority >= 0 && request->priority < model->rule_count);
    return &model->rules[request->priority];
}
/* The number of requests that wait in the request's level. Only with rules. */
int32_t *tt_waiting_count(const struct tt_mechanism *self, const struct tt_request *request);
/* The last instant at which the request may start in time if it runs alone; TT_NEVER: it has no
 * deadline, or its rule ignores it. */
int64_t tt_waiting_latest_alone(const struct tt_mechanism *self, const struct tt_request *request);
/* The same in the batch that it must share: with early refusal a batch of the model's target, or of
 * what waits if that is less (core/overload.h). At most the former. */
int64_t tt_waiting_latest(const struct tt_mechanism *self, const struct tt_request *request);
/* The request is in time as things stand: watches it further. */
void tt_waiting_look_again(struct tt_mechanism *self, int64_t now,
                           const struct tt_request *request);
void tt_waiting_begin(struct tt_mechanism *self, struct tt_request *request);
/* Removes a waiting request from all three. */
void tt_waiting_leave(struct tt_mechanism *self, struct tt_request *request);
void tt_waiting_make_late(struct tt_mechanism *self, struct tt_request *request);
/* Gives a late waiting request its place by arrival back, and the time that it had on arrival. */
void tt_waiting_renew(struct tt_mechanism *self, struct tt_request *request);

/* True if the request has lost its deadline and stands behind all others. */
static inline bool tt_waiting_is_late(const struct tt_request *request) {
    return request->number & TT_REQUEST_LATE;
}

/* It begins to run. */
static inline void tt_waiting_start(struct tt_mechanism *self, struct tt_request *request) {
    if (!request->waits) /* inline, since most models have no rules */
        return;
    if (self->by_age.count > 0 && !tt_waiting_is_late(request))
        self->passed_rows += request->rows;
    tt_waiting_leave(self, request);
}

static inline void tt_waiting_end(struct tt_mechanism *self, struct tt_request *request) {
    if (request->waits) /* inline, since most models have no rules */
        tt_waiting_leave(self, request);
}

#endif
