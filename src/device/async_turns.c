#include "device/async_turns.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"

/* A thread that waits; on its stack, and linked under the lock. */
struct waiter {
    struct tt_list_node link;
    struct tt_async_turn_event *event;
    struct tt_eventcount eventcount;
};

void tt_async_turns_init(struct tt_async_turns *self) {
    tt_lock_init(&self->lock);
    tt_list_init(&self->waiting);
}

void tt_async_turns_fini(struct tt_async_turns *self) {
    tt_assert(tt_list_empty(&self->waiting));
    tt_lock_fini(&self->lock);
}

/* Wakes the threads that wait for the event; NULL: all. */
static void wake(struct tt_async_turns *self, const struct tt_async_turn_event *event) {
    struct tt_list_node *node = tt_list_first(&self->waiting);
    for (; node; node = tt_list_next(&self->waiting, node)) {
        struct waiter *waiter = TT_CONTAINER_OF(node, struct waiter, link);
        if (!event || waiter->event == event)
            tt_eventcount_notify(&waiter->eventcount);
    }
}

void tt_async_turns_reach(struct tt_async_turns *self, struct tt_async_turn_event *event,
                          uint64_t turn, int64_t now) {
    tt_lock_take(&self->lock);
    tt_assert(turn > event->reached);
    event->reached = turn;
    event->reached_at = now;
    wake(self, event);
    tt_lock_give(&self->lock);
}

bool tt_async_turns_reached(struct tt_async_turns *self, struct tt_async_turn_event *event,
                            uint64_t turn) {
    tt_lock_take(&self->lock);
    bool reached = event->reached >= turn;
    tt_lock_give(&self->lock);
    return reached;
}

enum tt_err tt_async_turns_instant(struct tt_async_turns *self, struct tt_async_turn_event *event,
                                   uint64_t turn, int64_t *out_at, struct tt_error *why) {
    tt_lock_take(&self->lock);
    bool reached = event->reached >= turn;
    if (reached)
        *out_at = event->reached_at;
    tt_lock_give(&self->lock);
    return reached ? TT_OK : tt_fail(TT_ERR_BUSY, why, "the event has not happened yet");
}

void tt_async_turns_wake_all(struct tt_async_turns *self) {
    tt_lock_take(&self->lock);
    wake(self, NULL);
    tt_lock_give(&self->lock);
}

enum tt_err tt_async_turns_wait(struct tt_async_turns *self, struct tt_async_turn_event *event,
                                uint64_t turn, int64_t until_at, struct tt_error *why) {
    struct waiter waiter = {.event = event};
    tt_eventcount_init(&waiter.eventcount);
    tt_lock_take(&self->lock);
    bool reached = event->reached >= turn, is_late = false;
    enum tt_err failed = TT_OK;
    if (!reached)
        tt_list_push_back(&self->waiting, &waiter.link);
    while (!reached && !failed && !is_late) {
        /* Before the wait: a thread that fails the device raises the flag and then takes the lock.
         */
        failed = tt_async_device_status(event->event.device, why);
        if (failed)
            break;
        tt_lock_give(&self->lock);
        tt_eventcount_wait(&waiter.eventcount, until_at);
        tt_lock_take(&self->lock);
        reached = event->reached >= turn;
        is_late = !reached && until_at != TT_NEVER && tt_clock_now() >= until_at;
    }
    if (tt_list_linked(&waiter.link))
        tt_list_remove(&waiter.link);
    tt_lock_give(&self->lock);
    if (reached)
        return TT_OK;
    return failed ? failed : tt_fail(TT_ERR_TIMEOUT, why, "the event did not happen in time");
}
