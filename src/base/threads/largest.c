#include "base/threads/largest.h"

#include <string.h>

void tt_largest_init(struct tt_largest *self) {
    memset(self, 0, sizeof(*self));
    tt_lock_init(&self->lock);
}

void tt_largest_fini(struct tt_largest *self) { tt_lock_fini(&self->lock); }

int32_t tt_largest_join(struct tt_largest *self, void (*wake)(void *context), void *context) {
    int32_t found = -1;
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < TT_LARGEST_THREADS && found < 0; i++) {
        struct tt_largest_place *place = &self->places[i];
        if (place->is_used)
            continue;
        place->is_used = true;
        place->wake = wake;
        place->context = context;
        atomic_store_explicit(&place->value, 0, memory_order_relaxed);
        atomic_store_explicit(&place->asked, 0, memory_order_relaxed);
        found = i;
    }
    tt_lock_give(&self->lock);
    return found;
}

void tt_largest_leave(struct tt_largest *self, int32_t place) {
    if (place < 0)
        return;
    tt_lock_take(&self->lock);
    tt_assert(self->places[place].is_used);
    self->places[place].is_used = false;
    tt_lock_give(&self->lock);
}

bool tt_largest_ask(struct tt_largest *self, int32_t place, int64_t bound, int64_t amount) {
    struct tt_largest_place *largest = NULL;
    int64_t most = bound;
    bool is_asked = false;
    tt_assert(amount > 0);
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < TT_LARGEST_THREADS; i++) {
        int64_t value = atomic_load_explicit(&self->places[i].value, memory_order_relaxed);
        if (i == place || !self->places[i].is_used || value <= most)
            continue;
        largest = &self->places[i];
        most = value;
    }
    if (largest) {
        int64_t asked = atomic_load_explicit(&largest->asked, memory_order_relaxed);
        is_asked = amount <= most - asked;
        if (is_asked) {
            atomic_fetch_add_explicit(&largest->asked, amount, memory_order_relaxed);
            largest->wake(largest->context);
        }
    }
    tt_lock_give(&self->lock);
    return is_asked;
}
