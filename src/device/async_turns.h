/* Events of devices without hardware of their own, and the threads that wait for them.
 *
 * Each record of an event has a number, its turn. The event has happened up to `reached`. A thread
 * waits for a turn, or a waiter is parked and its function called; _reach and _wake_all end both.
 * One lock for all events of a device. Any thread. Implemented in async_turns.c. */
#ifndef TT_DEVICE_ASYNC_TURNS_H
#define TT_DEVICE_ASYNC_TURNS_H

#include "base/list.h"
#include "device/async_device.h"

/* First member of an event of these devices. */
struct tt_async_turn_event {
    struct tt_async_event event;
    bool is_timed;      /* constant: its instants are wanted */
    uint64_t reached;   /* under the lock, as: */
    int64_t reached_at; /* when that was */
};

/* What is called when a turn is reached, or the device has failed. */
struct tt_async_turn_waiter {
    struct tt_list_node link; /* all zero */
    const struct tt_async_turn_event *event;
    uint64_t turn;
    void (*over)(struct tt_async_turn_waiter *self); /* under the lock: no other call of these */
};

struct tt_async_turns {
    struct tt_lock lock;
    struct tt_list waiting;
};

void tt_async_turns_init(struct tt_async_turns *self);
void tt_async_turns_fini(struct tt_async_turns *self);
/* The record number `turn` of the event has happened, at `now`. */
void tt_async_turns_reach(struct tt_async_turns *self, struct tt_async_turn_event *event,
                          uint64_t turn, int64_t now);
/* When the event reached the turn. BUSY: it has not. */
enum tt_err tt_async_turns_instant(struct tt_async_turns *self, struct tt_async_turn_event *event,
                                   uint64_t turn, int64_t *out_at, struct tt_error *why);
bool tt_async_turns_reached(struct tt_async_turns *self, struct tt_async_turn_event *event,
                            uint64_t turn);
/* Until the turn is reached, the device has failed, or the instant of the monotonic clock. Errors:
 * TIMEOUT, UNAVAILABLE. */
enum tt_err tt_async_turns_wait(struct tt_async_turns *self, struct tt_async_turn_event *event,
                                uint64_t turn, int64_t until_at, struct tt_error *why);
/* False: the turn is reached, or the device has failed. True: `over` will be called, or was. */
bool tt_async_turns_park(struct tt_async_turns *self, struct tt_async_turn_waiter *waiter,
                         const struct tt_async_turn_event *event, uint64_t turn);
/* All that wait look again: the device has failed. */
void tt_async_turns_wake_all(struct tt_async_turns *self);

#endif
