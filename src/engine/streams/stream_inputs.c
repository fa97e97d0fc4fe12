#include "engine/streams/stream_inputs.h"

#include "base/instant.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 1000 };

/* The copy that was sent from a slot last. */
struct slot {
    struct tt_stream_inputs *owner;
    struct tt_async_event *came; /* behind the copy whose last row is here */
    uint64_t number;             /* of the copy; 0: none was sent */
    int32_t last;                /* the last slot of the copy */
    int64_t begin_at, end_at;    /* of the copy whose last row is here; 0: not yet; notes */
};

struct tt_stream_inputs {
    struct tt_stream_arrivals *arrivals;
    struct tt_async_device *device;
    int32_t count, slot_count;
    size_t row_bytes[TT_MAX_TENSORS], at[TT_MAX_TENSORS];
    size_t bytes; /* of all slots of all inputs */
    char *pinned;
    uint64_t reserved;
    struct slot *slots;           /* [slot_count] */
    struct tt_async_event *ended; /* behind all that was sent, when it is freed */
    uint64_t sent, arrived;       /* numbers of the last copies; under the lock; notes */
};

/* ---- making ---- */

static enum tt_err take_memory(struct tt_stream_inputs *self, struct tt_error *why) {
    void *pinned = NULL;
    enum tt_err err = tt_async_reserve(self->device, self->bytes, &self->reserved, why);
    if (!err)
        err = tt_async_pin(self->device, self->bytes, &pinned, why);
    self->pinned = pinned;
    if (!err)
        memset(pinned, 0, self->bytes); /* holes must hold finite values */
    if (!err)
        err = tt_async_event_open(self->device, &self->ended, why);
    for (int32_t i = 0; !err && i < self->slot_count; i++) {
        self->slots[i].owner = self;
        err = tt_async_event_open(self->device, &self->slots[i].came, why);
    }
    return err;
}

enum tt_err tt_stream_inputs_new(struct tt_stream_arrivals *arrivals, const size_t *row_bytes,
                                 int32_t count, int32_t slots, struct tt_stream_inputs **out_inputs,
                                 struct tt_error *why) {
    enum { ALIGNMENT = 256 };
    tt_assert(arrivals->is_used);
    tt_assert(slots >= 1 && count >= 1);
    struct tt_stream_inputs *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d slots of inputs", slots);
    self->arrivals = arrivals;
    self->device = arrivals->device;
    self->count = count;
    self->slot_count = slots;
    for (int32_t i = 0; i < count; i++) {
        self->row_bytes[i] = row_bytes[i];
        self->at[i] = self->bytes;
        size_t bytes = row_bytes[i] * (size_t)slots;
        self->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    self->slots = calloc((size_t)slots, sizeof(*self->slots));
    enum tt_err err =
        self->slots ? take_memory(self, why)
                    : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d slots of inputs", slots);
    if (err) {
        tt_stream_inputs_free(self);
        return err;
    }
    *out_inputs = self;
    return TT_OK;
}

void tt_stream_arrivals_stop(struct tt_stream_arrivals *self) {
    tt_lock_take(&self->lock);
    struct tt_async_stream *stream = self->stream;
    self->stream = NULL;
    tt_lock_give(&self->lock);
    if (stream)
        tt_async_stream_close(stream); /* its calls take the lock */
}

/* Behind the copies' events come calls, which note their ends in the slots. */
static bool await_calls(const struct tt_stream_inputs *self) {
    enum tt_err err = TT_ERR_BUSY;
    for (bool waits = false; err == TT_ERR_BUSY; waits = true) { /* copies of other models */
        if (waits)
            poll(NULL, 0, 1);
        tt_lock_take(&self->arrivals->lock);
        err = self->arrivals->stream ? tt_async_record(self->arrivals->stream, self->ended, NULL)
                                     : TT_ERR_UNAVAILABLE;
        tt_lock_give(&self->arrivals->lock);
    }
    if (!err)
        err = tt_async_event_wait(self->ended, TT_NEVER, NULL);
    if (err) /* it cannot be known when they end */
        tt_async_device_fail(self->device, "it cannot wait for the calls behind copies");
    return !err && tt_async_device_status(self->device, NULL) == TT_OK;
}

/* False: the device has failed, and events do not tell when its streams stop. */
static bool await_copies(const struct tt_stream_inputs *self) {
    for (int32_t i = 0; self->slots && i < self->slot_count; i++) {
        struct tt_async_event *came = self->slots[i].came;
        enum tt_err err = came ? tt_async_event_wait(came, TT_NEVER, NULL) : TT_OK;
        tt_assert(!err || err == TT_ERR_UNAVAILABLE);
        if (err)
            return false;
    }
    return self->ended ? await_calls(self) : tt_async_device_status(self->device, NULL) == TT_OK;
}

void tt_stream_inputs_free(struct tt_stream_inputs *take_self) {
    if (!take_self)
        return;
    if (!await_copies(take_self))
        tt_stream_arrivals_stop(take_self->arrivals);
    for (int32_t i = 0; take_self->slots && i < take_self->slot_count; i++) {
        struct tt_async_event *came = take_self->slots[i].came;
        if (came)
            tt_async_event_close(came);
    }
    if (take_self->ended)
        tt_async_event_close(take_self->ended);
    if (take_self->pinned)
        tt_async_unpin(take_self->device, take_self->pinned);
    if (take_self->reserved)
        tt_async_release(take_self->device, take_self->reserved, take_self->bytes);
    free(take_self->slots);
    free(take_self);
}

char *tt_stream_inputs_bytes(const struct tt_stream_inputs *self, int32_t input) {
    return self->pinned + self->at[input];
}

uint64_t tt_stream_inputs_address(const struct tt_stream_inputs *self, int32_t input,
                                  int32_t slot) {
    tt_assert(slot >= 0 && slot < self->slot_count);
    return self->reserved + self->at[input] + (size_t)slot * self->row_bytes[input];
}

/* ---- copies ---- */

/* On the stream, before a copy. */
static void begun(void *context) {
    struct slot *slot = context;
    struct tt_stream_inputs *self = slot->owner;
    int64_t now = tt_async_device_now(self->device);
    tt_lock_take(&self->arrivals->notes);
    slot->begin_at = now;
    tt_lock_give(&self->arrivals->notes);
}

/* A copy per input, two calls, and an event. */
static int32_t operations_of(const struct tt_stream_inputs *self) { return self->count + 3; }

/* On the stream, behind it. */
static void arrived(void *context) {
    struct slot *slot = context;
    struct tt_stream_inputs *self = slot->owner;
    int64_t now = tt_async_device_now(self->device);
    tt_lock_take(&self->arrivals->notes);
    slot->end_at = now;
    self->arrived++;
    self->arrivals->under_way -= operations_of(self);
    tt_lock_give(&self->arrivals->notes);
}

/* Counts the copy that follows. False: the stream has no room. */
static bool find_room(struct tt_stream_inputs *self, struct slot *last) {
    struct tt_stream_arrivals *arrivals = self->arrivals;
    tt_lock_take(&arrivals->notes);
    bool has_room = arrivals->queue_depth == 0 ||
                    operations_of(self) <= arrivals->queue_depth - arrivals->under_way;
    arrivals->under_way += has_room ? operations_of(self) : 0;
    last->begin_at = last->end_at = 0;
    tt_lock_give(&arrivals->notes);
    return has_room;
}

/* False: the stream has no room, or the device has failed. */
static bool copy(struct tt_stream_inputs *self, int32_t first, int32_t rows) {
    struct tt_async_stream *stream = self->arrivals->stream;
    struct slot *last = &self->slots[first + rows - 1];
    if (!stream || !find_room(self, last))
        return false;
    enum tt_err err = tt_async_call_note(stream, begun, last, NULL);
    for (int32_t i = 0; !err && i < self->count; i++) {
        size_t offset = self->at[i] + (size_t)first * self->row_bytes[i];
        err = tt_async_copy_in(stream, self->reserved + offset, self->pinned + offset,
                               self->row_bytes[i] * (size_t)rows, NULL);
    }
    if (!err)
        err = tt_async_record(stream, last->came, NULL);
    if (!err)
        err = tt_async_call_note(stream, arrived, last, NULL);
    tt_assert(err != TT_ERR_BUSY);
    return err == TT_OK;
}

void tt_stream_inputs_send(struct tt_stream_inputs *self, int32_t first_slot, int32_t rows) {
    tt_assert(first_slot >= 0 && rows >= 1 && rows <= self->slot_count - first_slot);
    tt_lock_take(&self->arrivals->lock);
    uint64_t number = copy(self, first_slot, rows) ? ++self->sent : 0;
    for (int32_t i = first_slot; i < first_slot + rows; i++) {
        self->slots[i].number = number;
        self->slots[i].last = first_slot + rows - 1;
    }
    tt_lock_give(&self->arrivals->lock);
}

static bool has_settled(struct tt_stream_inputs *self, int32_t first_slot, int32_t rows) {
    uint64_t newest = 0;
    tt_lock_take(&self->arrivals->lock);
    for (int32_t i = first_slot; i < first_slot + rows; i++)
        newest = self->slots[i].number > newest ? self->slots[i].number : newest;
    tt_lock_take(&self->arrivals->notes);
    bool settled = newest <= self->arrived;
    tt_lock_give(&self->arrivals->notes);
    tt_lock_give(&self->arrivals->lock);
    return settled;
}

void tt_stream_inputs_settle(struct tt_stream_inputs *self, int32_t first_slot, int32_t rows) {
    for (int ms = 0; ms < PATIENCE_MS && !has_settled(self, first_slot, rows) &&
                     tt_async_device_status(self->device, NULL) == TT_OK;
         ms++)
        poll(NULL, 0, 1);
}

/* ---- tasks ---- */

/* Where its first input lies; -1: elsewhere. */
static int32_t slot_of(const struct tt_stream_inputs *self, const struct tt_engine_member *member) {
    uintptr_t bytes = (uintptr_t)member->inputs[0].bytes;
    uintptr_t ring = (uintptr_t)tt_stream_inputs_bytes(self, 0);
    bool is_here = bytes >= ring && bytes < ring + self->row_bytes[0] * (size_t)self->slot_count;
    return is_here ? (int32_t)((bytes - ring) / self->row_bytes[0]) : -1;
}

int32_t tt_stream_inputs_find(struct tt_stream_inputs *self, const struct tt_engine_member *member,
                              uint64_t *out_number) {
    int32_t slot = slot_of(self, member);
    for (int32_t i = 0; slot >= 0 && i < self->count; i++)
        if (member->inputs[i].bytes !=
            tt_stream_inputs_bytes(self, i) + (size_t)slot * self->row_bytes[i])
            return -1;
    if (slot < 0)
        return -1;
    tt_lock_take(&self->arrivals->lock);
    *out_number = self->slots[slot].number;
    tt_lock_give(&self->arrivals->lock);
    return *out_number > 0 ? slot : -1;
}

enum tt_err tt_stream_inputs_wait(struct tt_stream_inputs *self, int32_t first_slot,
                                  struct tt_async_stream *stream, struct tt_error *why) {
    tt_lock_take(&self->arrivals->lock);
    enum tt_err err = tt_async_wait(stream, self->slots[self->slots[first_slot].last].came, why);
    tt_lock_give(&self->arrivals->lock);
    return err;
}

struct tt_engine_copies tt_stream_inputs_copies(struct tt_stream_inputs *self, int32_t first_slot) {
    tt_lock_take(&self->arrivals->lock);
    const struct slot *first = &self->slots[first_slot], *last = &self->slots[first->last];
    struct tt_engine_copies copies = {0};
    tt_lock_take(&self->arrivals->notes);
    if (first->number > 0)
        copies = (struct tt_engine_copies){last->begin_at, last->end_at};
    tt_lock_give(&self->arrivals->notes);
    tt_lock_give(&self->arrivals->lock);
    return copies;
}
