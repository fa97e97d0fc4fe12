#include "device/async_threads.h"

#include "base/line.h"
#include "base/threads/eventcount.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_async_thread {
    struct tt_async_threads *owner;
    struct tt_async_thread *next;
    struct tt_list_node idle; /* under the lock; linked: it has found nothing to run */
    struct tt_eventcount eventcount;
    pthread_t id;
    int32_t number;
};

/* The set that the calling thread belongs to; NULL: none, or it is in a long operation. */
static _Thread_local struct tt_async_threads *brief_in;
/* Between _hold and _release of the calling thread. */
static _Thread_local struct tt_async_threads *held;
static _Thread_local int32_t held_depth;

/* ---- under the lock ---- */

/* NULL: there is none. */
static struct tt_async_runnable *take(struct tt_async_threads *self, bool takes_left) {
    struct tt_list_node *node = takes_left ? tt_list_first(&self->left) : NULL;
    if (node) {
        self->left_count--;
    } else if ((node = tt_list_first(&self->ready)) != NULL) {
        tt_counter_add(&self->ready_count, -1);
    } else {
        return NULL;
    }
    tt_list_remove(node);
    return TT_CONTAINER_OF(node, struct tt_async_runnable, node);
}

/* The thread that the caller notifies, without the lock; NULL: none is idle. */
static struct tt_async_thread *take_idle(struct tt_async_threads *self) {
    struct tt_list_node *node = tt_list_first(&self->idle);
    if (!node)
        return NULL;
    tt_list_remove(node);
    self->brief_count++;
    return TT_CONTAINER_OF(node, struct tt_async_thread, idle);
}

/* The same, if what is ready would have to wait: `brief` threads look for it soon. */
static struct tt_async_thread *take_wanted(struct tt_async_threads *self, int32_t brief) {
    bool waits = brief == 0 ? !tt_list_empty(&self->ready) : false;
    return waits || self->left_count > brief ? take_idle(self) : NULL;
}

/* Threads live as long as the set. */
static void wake(struct tt_async_thread *thread) {
    if (thread)
        tt_eventcount_notify(&thread->eventcount);
}

/* ---- threads ---- */

static void *thread_main(void *argument) {
    struct tt_async_thread *self = argument;
    struct tt_async_threads *owner = self->owner;
    char name[16];
    snprintf(name, sizeof(name), "tutti-strm-%d", self->number % 1000);
    pthread_setname_np(pthread_self(), name);
    brief_in = owner;
    for (;;) {
        tt_lock_take(&owner->lock);
        struct tt_async_runnable *stream = take(owner, true);
        bool ends = !stream && owner->is_closing;
        bool is_idle = tt_list_linked(&self->idle); /* it woke for no reason */
        if (!stream && !ends && !is_idle) {
            tt_list_push_front(&owner->idle, &self->idle);
            owner->brief_count--;
        } else if (stream && is_idle) {
            tt_list_remove(&self->idle);
            owner->brief_count++;
        }
        tt_lock_give(&owner->lock);
        if (ends)
            return NULL;
        if (stream)
            owner->run(stream, false);
        else
            tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

static enum tt_err start(struct tt_async_threads *self, struct tt_error *why) {
    struct tt_async_thread *thread = tt_line_alloc(sizeof(*thread));
    if (!thread)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the thread of a stream");
    thread->owner = self;
    thread->number = self->count;
    tt_eventcount_init(&thread->eventcount);
    int failed = pthread_create(&thread->id, NULL, thread_main, thread);
    if (failed) {
        free(thread);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread of a stream: %s", strerror(failed));
    }
    self->brief_count++; /* it looks for streams first */
    thread->next = self->threads;
    self->threads = thread;
    self->count++;
    return TT_OK;
}

void tt_async_threads_init(struct tt_async_threads *self,
                           bool (*run)(struct tt_async_runnable *stream, bool only_short)) {
    *self = (struct tt_async_threads){.run = run};
    tt_lock_init(&self->lock);
    tt_list_init(&self->ready);
    tt_list_init(&self->left);
    tt_list_init(&self->idle);
}

void tt_async_threads_fini(struct tt_async_threads *self) {
    tt_lock_take(&self->lock);
    tt_assert(tt_list_empty(&self->ready));
    tt_assert(tt_list_empty(&self->left));
    tt_assert(self->stream_count == 0);
    self->is_closing = true;
    while (!tt_list_empty(&self->idle))
        wake(take_idle(self));
    tt_lock_give(&self->lock);
    for (struct tt_async_thread *next, *thread = self->threads; thread; thread = next) {
        next = thread->next;
        int failed = pthread_join(thread->id, NULL);
        tt_assert(failed == 0);
        free(thread);
    }
    tt_lock_fini(&self->lock);
}

enum tt_err tt_async_threads_open(struct tt_async_threads *self, struct tt_error *why) {
    tt_lock_take(&self->lock);
    enum tt_err err = self->stream_count < self->count ? TT_OK : start(self, why);
    self->stream_count += err ? 0 : 1;
    tt_lock_give(&self->lock);
    return err;
}

void tt_async_threads_close(struct tt_async_threads *self) {
    tt_lock_take(&self->lock);
    self->stream_count--;
    tt_lock_give(&self->lock);
}

/* ---- streams ---- */

void tt_async_threads_add(struct tt_async_threads *self, struct tt_async_runnable *stream) {
    struct tt_async_thread *woken = NULL;
    tt_lock_take(&self->lock);
    tt_list_push_back(&self->ready, &stream->node);
    tt_counter_add(&self->ready_count, 1);
    if (held != self)
        woken = take_wanted(self, self->brief_count);
    tt_lock_give(&self->lock);
    wake(woken);
}

/* Of the streams that are ready, runs what is short. */
static void run_short(struct tt_async_threads *self) {
    enum { MOST = 8 }; /* they may make each other ready */
    for (int32_t i = 0; i < MOST && tt_counter_get(&self->ready_count) > 0; i++) {
        tt_lock_take(&self->lock);
        struct tt_async_runnable *stream = take(self, false);
        tt_lock_give(&self->lock);
        if (!stream || !self->run(stream, true))
            continue;
        tt_lock_take(&self->lock);
        tt_list_push_back(&self->left, &stream->node);
        self->left_count++;
        tt_lock_give(&self->lock);
    }
}

bool tt_async_threads_begin_long(struct tt_async_threads *self, bool runs_short) {
    if (brief_in != self)
        return false;
    if (runs_short)
        run_short(self);
    tt_lock_take(&self->lock);
    struct tt_async_thread *woken = take_wanted(self, --self->brief_count);
    tt_lock_give(&self->lock);
    wake(woken);
    brief_in = NULL;
    return true;
}

void tt_async_threads_end_long(struct tt_async_threads *self) {
    tt_lock_take(&self->lock);
    self->brief_count++;
    tt_lock_give(&self->lock);
    brief_in = self;
}

void tt_async_threads_offer(struct tt_async_threads *self) {
    if (tt_counter_get(&self->ready_count) == 0)
        return;
    tt_lock_take(&self->lock);
    struct tt_async_thread *woken = take_wanted(self, self->brief_count - (brief_in == self));
    tt_lock_give(&self->lock);
    wake(woken);
}

void tt_async_threads_hold(struct tt_async_threads *self) {
    if (held && held != self)
        return;
    held = self;
    held_depth++;
}

void tt_async_threads_release(struct tt_async_threads *self) {
    if (held != self || --held_depth > 0)
        return;
    held = NULL;
    if (brief_in != self)
        tt_async_threads_offer(self);
}
