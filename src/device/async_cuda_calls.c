#include "device/async_cuda_calls.h"

#include "base/array.h"
#include "base/list.h"

#include <sched.h>
#include <stdlib.h>

struct tt_async_cuda_call {
    struct tt_list_node node; /* of the free ones */
    struct tt_async_cuda_calls *owner;
    struct tt_async_cuda_call *next; /* of all */
    void (*call)(void *context);
    void *context;
};

struct tt_async_cuda_calls {
    struct tt_async_cuda_calls *next;     /* in quarantine */
    const struct tt_async_device *device; /* not read once they are muted */
    struct tt_lock lock;                  /* guards: */
    struct tt_list free_calls;
    struct tt_async_cuda_call *all;
    bool is_muted, is_in_call;
};

enum tt_err tt_async_cuda_calls_new(const struct tt_async_device *device,
                                    struct tt_async_cuda_calls **out_calls, struct tt_error *why) {
    struct tt_async_cuda_calls *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a stream");
    self->device = device;
    tt_lock_init(&self->lock);
    tt_list_init(&self->free_calls);
    *out_calls = self;
    return TT_OK;
}

void tt_async_cuda_calls_free(struct tt_async_cuda_calls *take_self) {
    if (!take_self)
        return;
    for (struct tt_async_cuda_call *call = take_self->all, *next; call; call = next) {
        next = call->next;
        free(call);
    }
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

struct tt_async_cuda_call *tt_async_cuda_calls_take(struct tt_async_cuda_calls *self,
                                                    void (*call)(void *context), void *context) {
    tt_lock_take(&self->lock);
    struct tt_list_node *node = tt_list_first(&self->free_calls);
    struct tt_async_cuda_call *taken =
        node ? TT_CONTAINER_OF(node, struct tt_async_cuda_call, node) : NULL;
    if (node)
        tt_list_remove(node);
    if (!taken && (taken = calloc(1, sizeof(*taken))) != NULL) {
        taken->owner = self;
        taken->next = self->all;
        self->all = taken;
    }
    if (taken) {
        taken->call = call;
        taken->context = context;
    }
    tt_lock_give(&self->lock);
    return taken;
}

void tt_async_cuda_calls_give(struct tt_async_cuda_call *take_call) {
    struct tt_async_cuda_calls *self = take_call->owner;
    tt_lock_take(&self->lock);
    tt_list_push_back(&self->free_calls, &take_call->node);
    tt_lock_give(&self->lock);
}

void tt_async_cuda_calls_run(void *context) {
    struct tt_async_cuda_call *call = context;
    struct tt_async_cuda_calls *self = call->owner;
    tt_lock_take(&self->lock);
    bool makes = self->is_in_call =
        !self->is_muted && tt_counter_get(&self->device->has_failed) == 0;
    tt_lock_give(&self->lock);
    if (makes)
        call->call(call->context);
    tt_lock_take(&self->lock);
    tt_list_push_back(&self->free_calls, &call->node);
    self->is_in_call = false;
    tt_lock_give(&self->lock);
}

void tt_async_cuda_calls_mute(struct tt_async_cuda_calls *self) {
    tt_lock_take(&self->lock);
    self->is_muted = true;
    while (self->is_in_call) { /* it neither submits nor waits, so it ends soon */
        tt_lock_give(&self->lock);
        sched_yield();
        tt_lock_take(&self->lock);
    }
    tt_lock_give(&self->lock);
}

/* ---- quarantine ---- */

/* Until the process ends. */
static struct tt_async_cuda_kept for_good = {.lock = {PTHREAD_MUTEX_INITIALIZER}};

void tt_async_cuda_kept_init(struct tt_async_cuda_kept *self) {
    *self = (struct tt_async_cuda_kept){0};
    tt_lock_init(&self->lock);
}

void tt_async_cuda_kept_fini(struct tt_async_cuda_kept *self) {
    tt_assert(!self->calls && self->count == 0);
    free(self->things);
    tt_lock_fini(&self->lock);
}

void tt_async_cuda_keep_calls(struct tt_async_cuda_kept *self,
                              struct tt_async_cuda_calls *take_calls) {
    tt_lock_take(&self->lock);
    take_calls->next = self->calls;
    self->calls = take_calls;
    tt_lock_give(&self->lock);
}

void tt_async_cuda_keep(struct tt_async_cuda_kept *self, void *thing) {
    tt_lock_take(&self->lock);
    if (TT_ARRAY_RESERVE(self->things, &self->capacity, self->count + 1))
        self->things[self->count++] = thing;
    tt_lock_give(&self->lock);
}

static void take_things(struct tt_async_cuda_kept *self) {
    for (int32_t i = 0; i < self->count; i++)
        tt_async_cuda_keep(&for_good, self->things[i]);
    self->count = 0;
}

void tt_async_cuda_kept_release(struct tt_async_cuda_kept *self) {
    for (struct tt_async_cuda_calls *calls = self->calls, *next; calls; calls = next) {
        next = calls->next;
        tt_async_cuda_calls_free(calls);
    }
    self->calls = NULL;
    take_things(self);
}

void tt_async_cuda_kept_for_good(struct tt_async_cuda_kept *self) {
    for (struct tt_async_cuda_calls *calls = self->calls, *next; calls; calls = next) {
        next = calls->next;
        tt_async_cuda_keep_calls(&for_good, calls);
    }
    self->calls = NULL;
    take_things(self);
}
