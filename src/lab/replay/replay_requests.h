/* The requests of a replayed domain by their numbers: a window from the oldest one that is still
 * there to the newest. */
#ifndef TT_LAB_REPLAY_REPLAY_REQUESTS_H
#define TT_LAB_REPLAY_REPLAY_REQUESTS_H

#include "core/request.h"

#include <stdbool.h>

struct tt_replay_request {
    bool here;
    struct tt_request *request; /* set by the caller; NULL until it is known */
    int64_t started_at;         /* of its first execution; -1: none yet */
    int64_t arrival;            /* an index of the caller's */
};

struct tt_replay_requests {
    struct tt_replay_request *ring; /* [capacity], a power of two, by number */
    int64_t capacity;
    int64_t low, high; /* the window: low <= number < high */
};

/* Adds a request under the next number. */
void tt_replay_requests_add(struct tt_replay_requests *self, int64_t arrival);
/* NULL: it is not there. Valid until the next _add. */
struct tt_replay_request *tt_replay_requests_find(const struct tt_replay_requests *self,
                                                  int64_t number);
void tt_replay_requests_remove(struct tt_replay_requests *self, int64_t number);
void tt_replay_requests_fini(struct tt_replay_requests *self);

#endif
