#include "device/async_completions.h"

#include "base/threads/eventcount.h"
#include "base/threads/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_async_completions {
    tt_device_done_fn *done;
    void *done_context;
    struct tt_eventcount eventcount;
    struct tt_lock lock; /* guards: */
    struct tt_list ended;
    bool closing;
    pthread_t thread;
};

/* The task that ended first; NULL: there is none. */
static struct tt_async_task *take_first(struct tt_async_completions *self, bool *out_closing) {
    tt_lock_take(&self->lock);
    struct tt_list_node *first = tt_list_first(&self->ended);
    if (first)
        tt_list_remove(first);
    *out_closing = self->closing;
    tt_lock_give(&self->lock);
    return first ? TT_CONTAINER_OF(first, struct tt_async_task, in_ended) : NULL;
}

static void *completions_main(void *context) {
    struct tt_async_completions *self = context;
    pthread_setname_np(pthread_self(), "tutti-ended");
    for (;;) {
        bool closing;
        struct tt_async_task *task = take_first(self, &closing);
        if (task)
            self->done(self->done_context, &task->head);
        else if (closing)
            return NULL;
        else
            (void)tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

enum tt_err tt_async_completions_open(tt_device_done_fn *done, void *done_context,
                                      struct tt_async_completions **out_self,
                                      struct tt_error *why) {
    struct tt_async_completions *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the completions of a device");
    self->done = done;
    self->done_context = done_context;
    tt_eventcount_init(&self->eventcount);
    tt_lock_init(&self->lock);
    tt_list_init(&self->ended);
    int failed = pthread_create(&self->thread, NULL, completions_main, self);
    if (failed) {
        tt_lock_fini(&self->lock);
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot start a thread for the completions of a device: %s",
                       strerror(failed));
    }
    *out_self = self;
    return TT_OK;
}

void tt_async_completions_add(struct tt_async_completions *self, struct tt_async_task *task) {
    tt_lock_take(&self->lock);
    tt_list_push_back(&self->ended, &task->in_ended);
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

void tt_async_completions_close(struct tt_async_completions *take_self) {
    if (!take_self)
        return;
    tt_lock_take(&take_self->lock);
    take_self->closing = true;
    tt_lock_give(&take_self->lock);
    tt_eventcount_notify(&take_self->eventcount);
    int failed = pthread_join(take_self->thread, NULL);
    tt_assert(failed == 0);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}
