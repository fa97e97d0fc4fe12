#include "device/async_completions.h"

#include "base/threads/eventcount.h"
#include "base/threads/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_async_completions {
    struct tt_eventcount eventcount;
    struct tt_lock lock; /* guards: */
    struct tt_list added;
    bool closing;
    pthread_t thread;
};

/* The one that was added first; NULL: there is none. */
static struct tt_async_completion *take_first(struct tt_async_completions *self,
                                              bool *out_closing) {
    tt_lock_take(&self->lock);
    struct tt_list_node *first = tt_list_first(&self->added);
    if (first)
        tt_list_remove(first);
    *out_closing = self->closing;
    tt_lock_give(&self->lock);
    return first ? TT_CONTAINER_OF(first, struct tt_async_completion, node) : NULL;
}

static void *completions_main(void *context) {
    struct tt_async_completions *self = context;
    pthread_setname_np(pthread_self(), "tutti-ended");
    for (;;) {
        bool closing;
        struct tt_async_completion *completion = take_first(self, &closing);
        if (completion)
            completion->call(completion->context);
        else if (closing)
            return NULL;
        else
            (void)tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

enum tt_err tt_async_completions_open(struct tt_async_completions **out_self,
                                      struct tt_error *why) {
    struct tt_async_completions *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the completions of a device");
    tt_eventcount_init(&self->eventcount);
    tt_lock_init(&self->lock);
    tt_list_init(&self->added);
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

void tt_async_completions_add(struct tt_async_completions *self,
                              struct tt_async_completion *completion) {
    tt_lock_take(&self->lock);
    tt_list_push_back(&self->added, &completion->node);
    tt_eventcount_notify(&self->eventcount); /* within the lock: the caller may close it next */
    tt_lock_give(&self->lock);
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
