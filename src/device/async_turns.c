#include "device/async_turns.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"

/* A thread that waits; on its stack. */
struct thread_waiter {
    struct tt_async_turn_waiter waiter;
    struct tt_eventcount eventcount;
};

static void notify(struct tt_async_turn_waiter *waiter) {
    struct thread_waiter *self = TT_CONTAINER_OF(waiter, struct thread_waiter, waiter);
    tt_eventcount_notify(&self->eventcount);
}

void tt_async_turns_init(struct tt_async_turns *self) {
    tt_lock_init(&self->lock);
    tt_list_init(&self->waiting);
}

void tt_async_turns_fini(struct tt_async_turns *self) {
    tt_assert(tt_list_empty(&self->waiting));
    tt_lock_fini(&self->lock);
}

/* Under the lock. */
static void add(struct tt_async_turns *self, struct tt_async_turn_waiter *waiter,
                const struct tt_async_turn_event *event, uint64_t turn) {
    waiter->event = event;
    waiter->turn = turn;
    tt_list_push_back(&self->waiting, &waiter->link);
}

/* Under the lock: ends the waiting for the event as far as it has happened; NULL: for all. */
static void end_waiting(struct tt_async_turns *self, const struct tt_async_turn_event *event) {
    for (struct tt_list_node *next, *node = tt_list_first(&self->waiting); node; node = next) {
        struct tt_async_turn_waiter *waiter =
            TT_CONTAINER_OF(node, struct tt_async_turn_waiter, link);
        next = tt_list_next(&self->waiting, node);
        if (event && (waiter->event != event || waiter->turn > event->reached))
            continue;
        tt_list_remove(node);
        waiter->over(waiter);
    }
}

void tt_async_turns_reach(struct tt_async_turns *self, struct tt_async_turn_event *event,
                          uint64_t turn, int64_t now) {
    tt_lock_take(&self->lock);
    tt_assert(turn > event->reached);
    event->reached = turn;
    event->reached_at = now;
    end_waiting(self, event);
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
    end_waiting(self, NULL);
    tt_lock_give(&self->lock);
}

bool tt_async_turns_park(struct tt_async_turns *self, struct tt_async_turn_waiter *waiter,
                         const struct tt_async_turn_event *event, uint64_t turn) {
    tt_lock_take(&self->lock);
    /* Before the wait: a thread that fails the device raises the flag and then takes the lock. */
    bool parks =
        event->reached < turn && tt_async_device_status(event->event.device, NULL) == TT_OK;
    if (parks)
        add(self, waiter, event, turn);
    tt_lock_give(&self->lock);
    return parks;
}

enum tt_err tt_async_turns_wait(struct tt_async_turns *self, struct tt_async_turn_event *event,
                                uint64_t turn, int64_t until_at, struct tt_error *why) {
    struct thread_waiter own = {.waiter.over = notify};
    tt_eventcount_init(&own.eventcount);
    tt_lock_take(&self->lock);
    bool reached = event->reached >= turn, is_late = false;
    enum tt_err failed = TT_OK;
    while (!reached && !failed && !is_late) {
        failed = tt_async_device_status(event->event.device, why); /* as above */
        if (failed)
            break;
        if (!tt_list_linked(&own.waiter.link))
            add(self, &own.waiter, event, turn);
        tt_lock_give(&self->lock);
        tt_eventcount_wait(&own.eventcount, until_at);
        tt_lock_take(&self->lock);
        reached = event->reached >= turn;
        is_late = !reached && until_at != TT_NEVER && tt_clock_now() >= until_at;
    }
    if (tt_list_linked(&own.waiter.link))
        tt_list_remove(&own.waiter.link);
    tt_lock_give(&self->lock);
    if (reached)
        return TT_OK;
    return failed ? failed : tt_fail(TT_ERR_TIMEOUT, why, "the event did not happen in time");
}
