#include "core/device.h"

#include "base/instant.h"
#include "core/profile.h"

#include <stdlib.h>

enum tt_err tt_device_init(struct tt_device *self, int32_t capacity) {
    tt_assert(capacity > 0);
    *self = (struct tt_device){.capacity = capacity};
    self->runs = calloc((size_t)capacity, sizeof(*self->runs));
    return self->runs ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_device_fini(struct tt_device *self) {
    free(self->runs);
    *self = (struct tt_device){0};
}

static void advance(struct tt_device *self, int64_t now) {
    tt_assert(now >= self->real_at);
    int64_t elapsed = now - self->real_at;
    self->real_at = now;
    if (self->count > 0)
        self->busy_ns += elapsed;
    if (self->demand_ppm <= TT_DEMAND_WHOLE) {
        self->virtual_at += elapsed;
        return;
    }
    __int128 scaled = (__int128)elapsed * TT_DEMAND_WHOLE + self->remainder;
    self->virtual_at += (int64_t)(scaled / self->demand_ppm);
    self->remainder = (int64_t)(scaled % self->demand_ppm);
}

void tt_device_start(struct tt_device *self, int64_t now, int32_t executor, int64_t work_ns,
                     int32_t demand_ppm) {
    tt_assert(work_ns > 0);
    tt_assert(demand_ppm > 0 && demand_ppm <= TT_DEMAND_WHOLE);
    tt_assert(self->count < self->capacity);
    advance(self, now);
    self->runs[self->count++] =
        (struct tt_device_run){.virtual_end_at = tt_instant_add(self->virtual_at, work_ns),
                               .executor = executor,
                               .demand_ppm = demand_ppm};
    self->demand_ppm += demand_ppm;
    self->remainder = 0;
}

void tt_device_pass(struct tt_device *self, int64_t now, int64_t work_ns) {
    tt_assert(work_ns > 0);
    tt_assert(self->count == 0 && now >= self->real_at);
    self->virtual_at += now - self->real_at + work_ns;
    self->real_at = now + work_ns;
    self->busy_ns += work_ns;
}

/* Index of the run that ends first; -1: none runs. */
static int32_t first_end(const struct tt_device *self) {
    int32_t first = self->count > 0 ? 0 : -1;
    for (int32_t i = 1; i < self->count; i++) {
        const struct tt_device_run *a = &self->runs[i], *b = &self->runs[first];
        if (a->virtual_end_at < b->virtual_end_at ||
            (a->virtual_end_at == b->virtual_end_at && a->executor < b->executor))
            first = i;
    }
    return first;
}

int64_t tt_device_next_at(const struct tt_device *self) {
    int32_t first = first_end(self);
    if (first < 0)
        return TT_NEVER;
    int64_t left = self->runs[first].virtual_end_at - self->virtual_at;
    if (left <= 0)
        return self->real_at;
    if (self->demand_ppm <= TT_DEMAND_WHOLE)
        return tt_instant_add(self->real_at, left);
    __int128 scaled = (__int128)left * self->demand_ppm - self->remainder;
    __int128 real = (scaled + TT_DEMAND_WHOLE - 1) / TT_DEMAND_WHOLE;
    return real > TT_NEVER ? TT_NEVER : tt_instant_add(self->real_at, (int64_t)real);
}

static void take_out(struct tt_device *self, int32_t at) {
    self->demand_ppm -= self->runs[at].demand_ppm;
    self->runs[at] = self->runs[--self->count];
    self->remainder = 0;
}

int32_t tt_device_take_ended(struct tt_device *self, int64_t now) {
    advance(self, now);
    int32_t first = first_end(self);
    if (first < 0 || self->runs[first].virtual_end_at > self->virtual_at)
        return -1;
    int32_t executor = self->runs[first].executor;
    take_out(self, first);
    return executor;
}

void tt_device_stop(struct tt_device *self, int64_t now, int32_t executor) {
    advance(self, now);
    for (int32_t i = 0; i < self->count; i++)
        if (self->runs[i].executor == executor) {
            take_out(self, i);
            return;
        }
    const bool runs_here = false;
    tt_assert(runs_here);
}

int64_t tt_copy_engine_add(struct tt_copy_engine *self, int64_t now, int64_t bytes) {
    tt_assert(bytes >= 0);
    int64_t takes_ns = self->fixed_ns;
    if (self->bytes_per_s > 0) {
        __int128 scaled = (__int128)bytes * TT_S + self->bytes_per_s - 1;
        takes_ns += (int64_t)(scaled / self->bytes_per_s);
    }
    int64_t start_at = tt_instant_max(now, self->free_at);
    self->free_at = tt_instant_add(start_at, takes_ns);
    self->busy_ns += takes_ns;
    return self->free_at;
}
