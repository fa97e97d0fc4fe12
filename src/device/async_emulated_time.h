/* The event simulation of an emulated device (device/async_emulated.h): what its streams do at
 * which instant.
 *
 * Everything is under one lock. A stream is in one state: ready to begin its next operation, in a
 * timer, blocked by an event, ending or idle. The timers are the heap of copies and the shared
 * device. An operation ends without the lock, since it may be code of the caller. This part knows
 * neither threads nor clocks: its caller says until when it settles. Implemented in
 * async_emulated_time.c. */
#ifndef TT_DEVICE_ASYNC_EMULATED_TIME_H
#define TT_DEVICE_ASYNC_EMULATED_TIME_H

#include "base/heap.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "core/device.h"
#include "device/async_arena.h"
#include "device/async_emulated.h"
#include "device/async_turns.h"

#include <pthread.h>

enum tt_async_emulated_state {
    TT_ASYNC_EMULATED_IDLE,
    TT_ASYNC_EMULATED_READY,
    TT_ASYNC_EMULATED_MOVING,
    TT_ASYNC_EMULATED_COMPUTING,
    TT_ASYNC_EMULATED_BLOCKED,
    TT_ASYNC_EMULATED_ENDING,
    TT_ASYNC_EMULATED_HUNG
};

struct tt_async_emulated_event {
    struct tt_async_turn_event base; /* first */
    struct tt_list blocked;          /* streams that wait for it */
};

struct tt_async_emulated_stream {
    struct tt_async_stream stream;
    enum tt_async_emulated_state state;
    struct tt_list_node link; /* READY: in the device's list; BLOCKED: in the event's */
    struct tt_async_op *ops;  /* [queue_depth], a ring */
    int32_t head, count;
};

struct tt_async_emulated {
    struct tt_async_device device;
    struct tt_async_emulated_options options;
    struct tt_async_arena arena;
    struct tt_async_turns turns;
    struct tt_lock lock; /* guards all below; taken before the lock of `turns` */
    struct tt_async_emulated_stream **streams;
    struct tt_list ready;   /* to begin at now_at */
    struct tt_list arrived; /* real time: to begin when the device's thread sees them */
    struct tt_heap moving;  /* stream -> end of its copy */
    struct tt_device compute;
    struct tt_copy_engine in, out, within;
    int64_t now_at;
    bool is_settling;
    pthread_t thread; /* real time */
    struct tt_eventcount eventcount;
    struct tt_flag closing;
};

/* The device that begins with `device`. */
static inline struct tt_async_emulated *tt_async_emulated_of(struct tt_async_device *device) {
    return TT_CONTAINER_OF(device, struct tt_async_emulated, device);
}

static inline struct tt_async_emulated_event *
tt_async_emulated_event_of(struct tt_async_event *event) {
    struct tt_async_turn_event *base = TT_CONTAINER_OF(event, struct tt_async_turn_event, event);
    return TT_CONTAINER_OF(base, struct tt_async_emulated_event, base);
}

/* Carries out all that is due by `now`. One thread at a time; a failed device stands still. Under
 * the lock, which it gives and takes. */
void tt_async_emulated_settle(struct tt_async_emulated *self, int64_t now);
/* The same, and moves the clock to `to`. */
void tt_async_emulated_move_clock(struct tt_async_emulated *self, int64_t to);
/* When the next operation ends; TT_NEVER. Under the lock. */
int64_t tt_async_emulated_next_end(const struct tt_async_emulated *self);

#endif
