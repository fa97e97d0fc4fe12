/* Who waits for its first step: the mechanism's books of it, where a model has rules.
 *
 * A request begins to wait when it is let in, and does not any longer when it runs, is dropped or
 * its client has gone. While it waits it counts in its level, in the backlog that newcomers find,
 * and among those that come to the last instant at which they may start. Who is made late loses
 * its deadline, and its place to all others of its level. Only the mechanism calls this. */
#ifndef TT_CORE_WAITING_H
#define TT_CORE_WAITING_H

#include "core/mechanism.h"

/* The rule for the request; NULL: none. */
const struct tt_queue_rule *tt_waiting_rule(const struct tt_mechanism *self,
                                            const struct tt_request *request);
/* How many wait in the request's level; with rules only. */
int32_t *tt_waiting_count(const struct tt_mechanism *self, const struct tt_request *request);
/* The last instant at which the request, alone, may start in time; TT_NEVER where nobody asks. */
int64_t tt_waiting_latest_alone(const struct tt_mechanism *self, const struct tt_request *request);
void tt_waiting_begin(struct tt_mechanism *self, struct tt_request *request);
/* It waits, and does not any longer. */
void tt_waiting_leave(struct tt_mechanism *self, struct tt_request *request);
void tt_waiting_make_late(struct tt_mechanism *self, struct tt_request *request);

/* It has lost its deadline, and stands behind all others. */
static inline bool tt_waiting_is_late(const struct tt_request *request) {
    return request->number & TT_REQUEST_LATE;
}

static inline void tt_waiting_end(struct tt_mechanism *self, struct tt_request *request) {
    if (request->waits) /* mostly nobody has rules: no call then */
        tt_waiting_leave(self, request);
}

#endif
