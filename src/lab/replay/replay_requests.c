#include "lab/replay/replay_requests.h"

#include "lab/scenario/allocate.h"

#include <stdlib.h>

static struct tt_replay_request *slot(const struct tt_replay_requests *self, int64_t number) {
    return &self->ring[number & (self->capacity - 1)];
}

void tt_replay_requests_add(struct tt_replay_requests *self, int64_t arrival) {
    if (self->high - self->low == self->capacity) {
        struct tt_replay_requests grown = {.capacity = self->capacity ? self->capacity * 2 : 1024,
                                           .low = self->low,
                                           .high = self->high};
        grown.ring = tt_allocate((size_t)grown.capacity, sizeof(*grown.ring));
        for (int64_t n = self->low; n < self->high; n++)
            *slot(&grown, n) = *slot(self, n);
        free(self->ring);
        *self = grown;
    }
    *slot(self, self->high++) =
        (struct tt_replay_request){.here = true, .started_at = -1, .arrival = arrival};
}

struct tt_replay_request *tt_replay_requests_find(const struct tt_replay_requests *self,
                                                  int64_t number) {
    if (number < self->low || number >= self->high)
        return NULL;
    struct tt_replay_request *found = slot(self, number);
    return found->here ? found : NULL;
}

void tt_replay_requests_remove(struct tt_replay_requests *self, int64_t number) {
    struct tt_replay_request *found = tt_replay_requests_find(self, number);
    if (found)
        found->here = false;
    while (self->low < self->high && !slot(self, self->low)->here)
        self->low++;
}

void tt_replay_requests_fini(struct tt_replay_requests *self) {
    free(self->ring);
    *self = (struct tt_replay_requests){0};
}
