#include "rt/model_stats.h"

#include <stdlib.h>

struct tt_model_stats *tt_model_stats_new(void) {
    struct tt_model_stats *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->by_size = calloc(TT_STATS_MAX_BATCH + 1, sizeof(*self->by_size));
    if (!self->by_size) {
        free(self);
        return NULL;
    }
    tt_refcount_init(&self->users, 1);
    return self;
}

struct tt_model_stats *tt_model_stats_ref(struct tt_model_stats *self) {
    tt_refcount_ref(&self->users);
    return self;
}

void tt_model_stats_unref(struct tt_model_stats *take_self) {
    if (!take_self || !tt_refcount_unref(&take_self->users))
        return;
    free(take_self->by_size);
    free(take_self);
}

int64_t tt_model_stats_dropped(const struct tt_model_stats *self) {
    int64_t sum = 0;
    for (size_t i = 0; i < TT_COUNT(self->dropped); i++)
        sum += tt_counter_get(&self->dropped[i]);
    return sum;
}

int64_t tt_model_stats_in_flight(const struct tt_model_stats *self) {
    int64_t gone = tt_counter_get(&self->succeeded) + tt_counter_get(&self->failed) +
                   tt_model_stats_dropped(self) + tt_counter_get(&self->cancelled) +
                   tt_counter_get(&self->rejected);
    int64_t came = tt_counter_get(&self->accepted);
    return came > gone ? came - gone : 0; /* the scheduler may count on while we read */
}
