#include "engine/emulated/emulated_device.h"

#include "base/instant.h"

#include <stdlib.h>

struct tt_emulated_place {
    struct tt_eventcount *eventcount;
    bool runs;
    int64_t ended_at;
};

enum tt_err tt_emulated_device_init(struct tt_emulated_device *self, int32_t executors) {
    *self = (struct tt_emulated_device){.executors = executors};
    self->places = calloc((size_t)executors, sizeof(*self->places));
    if (!self->places || tt_device_init(&self->device, executors) != TT_OK) {
        free(self->places);
        return TT_ERR_NO_MEMORY;
    }
    tt_lock_init(&self->lock);
    return TT_OK;
}

void tt_emulated_device_fini(struct tt_emulated_device *self) {
    tt_device_fini(&self->device);
    tt_lock_fini(&self->lock);
    free(self->places);
}

/* Ends all work that is due by `now`, each at its own instant: what remains runs faster from then
 * on. */
static void settle(struct tt_emulated_device *self, int64_t now) {
    int64_t at;
    while ((at = tt_device_next_at(&self->device)) <= now) {
        int32_t place = tt_device_take_ended(&self->device, at);
        if (place < 0)
            continue;
        self->places[place].runs = false;
        self->places[place].ended_at = at;
    }
}

void tt_emulated_device_begin(struct tt_emulated_device *self, int32_t place,
                              struct tt_eventcount *eventcount, int64_t at, int64_t work_ns,
                              int32_t demand_ppm) {
    tt_lock_take(&self->lock);
    at = tt_instant_max(at, self->device.real_at);
    settle(self, at);
    self->places[place] = (struct tt_emulated_place){.eventcount = eventcount, .runs = true};
    tt_device_start(&self->device, at, place, work_ns > 0 ? work_ns : 1, demand_ppm);
    tt_lock_give(&self->lock);
}

bool tt_emulated_device_ended(struct tt_emulated_device *self, int32_t place, int64_t now,
                              int64_t *out_at) {
    tt_lock_take(&self->lock);
    settle(self, now);
    bool ended = !self->places[place].runs;
    *out_at = ended ? self->places[place].ended_at : tt_device_next_at(&self->device);
    tt_lock_give(&self->lock);
    return ended;
}

void tt_emulated_device_stop(struct tt_emulated_device *self, int32_t place, int64_t now) {
    tt_lock_take(&self->lock);
    settle(self, now);
    if (self->places[place].runs)
        tt_device_stop(&self->device, tt_instant_max(now, self->device.real_at), place);
    self->places[place].runs = false;
    for (int32_t p = 0; p < self->executors; p++)
        if (self->places[p].runs)
            tt_eventcount_notify(self->places[p].eventcount);
    tt_lock_give(&self->lock);
}

int64_t tt_emulated_device_copy(struct tt_emulated_device *self, struct tt_copy_engine *engine,
                                int64_t now, int64_t bytes) {
    tt_lock_take(&self->lock);
    int64_t done_at = tt_copy_engine_add(engine, now, bytes);
    tt_lock_give(&self->lock);
    return done_at;
}
