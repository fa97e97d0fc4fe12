/* An eventcount: where one thread waits for work that other threads bring.
 *
 * One thread waits; any thread notifies. A notification before the wait is kept, so none is lost;
 * several become one, so the waiter looks at its inputs until it finds nothing. Four uses share the
 * one type, because they differ only in what the waiter announces:
 *
 * 1. The waiter announces nothing. It calls _wait() (or _sleep()); a thread that brings work makes
 *    it visible and calls _notify(). Engine threads and the recorder use this.
 * 2. The waiter announces until when it sleeps: _prepare(), then it looks at all inputs once more,
 *    then _cancel() or _commit(). A thread that brings work makes it visible and calls
 *    _notify_by(due_at), which makes a system call only if the waiter would look too late. Work
 *    that can wait (arrivals) is found by a waiter that rests between looks; work that cannot (a
 *    grant) wakes it. The scheduler's model and rank threads use this.
 * 3. The waiter sleeps elsewhere, in an event loop, and waking it is expensive (a write to a pipe).
 *    It calls _prepare(TT_NEVER), looks again, and calls _cancel_relaxed() when it is awake. A
 *    thread that brings work makes it visible and calls _claim(); if true, it wakes the waiter by
 *    its own means. Of several such threads one gets true. A port's thread uses this.
 * 4. The instant of the next look changes while the waiter sleeps. One thread at a time (the holder
 *    of a lock) calls _set_due(); the waiter sleeps until _prepare_due(). An instant that moves
 * into the future costs no wake: the waiter wakes at the old one and reads the new one. The
 * server's scheduler thread uses this.
 *
 * Memory order: what a thread wrote before it notifies is visible to the waiter after the wait, and
 * after the _prepare() that precedes its last look. The announcement and the notification are
 * read-modify-writes of one word (uses 2 and 3), or sequentially consistent stores and loads of two
 * words (use 4), so whichever comes second sees the other: either the waiter finds the work, or the
 * notifier finds the waiter. A waiter that is awake is never woken: it looks before it sleeps.
 *
 * A waiter belongs to one use at a time. Implemented in eventcount.c. */
#ifndef TT_BASE_EVENTCOUNT_H
#define TT_BASE_EVENTCOUNT_H

#include "base/instant.h"
#include "base/threads/perturb.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TT_EVENTCOUNT_AT_ONCE INT64_MIN /* a due instant: the waiter must look immediately */
#define TT_EVENTCOUNT_AWAKE INT64_MIN   /* a value of sleeps_until: the waiter is awake */

struct tt_eventcount {
    _Atomic int64_t sleeps_until; /* announced by the waiter; TT_EVENTCOUNT_AWAKE: it is awake */
    _Atomic int64_t due_at;       /* use 4: when the waiter must look; TT_NEVER: no such instant */
    _Atomic uint32_t state;       /* the futex word: empty, notified or waiting */
};

void tt_eventcount_init(struct tt_eventcount *self);

/* ---- waiting and notifying ---- */

/* Waits until notified, or until the instant `until_at` of the monotonic clock (TT_NEVER: no
 * limit). Spins for about 5 us before it sleeps, because one batch often follows another at once.
 * True: notified; false: the time has come, or the wait ended for no reason. The waiter. */
bool tt_eventcount_wait(struct tt_eventcount *self, int64_t until_at);
/* The same without spinning. */
bool tt_eventcount_sleep(struct tt_eventcount *self, int64_t until_at);
/* Any thread. */
void tt_eventcount_notify(struct tt_eventcount *self);
/* From now on the calling thread's waits end as exactly as the kernel can; by default they may last
 * 50 us longer. */
void tt_eventcount_be_punctual(void);

/* ---- the waiter announces until when it sleeps ---- */

/* "I look again at `until_at`." The waiter must look at all its inputs after this, and then cancel
 * or commit. */
static inline void tt_eventcount_prepare(struct tt_eventcount *self, int64_t until_at) {
    tt_perturb();
    atomic_exchange(&self->sleeps_until, until_at);
    tt_perturb();
}
/* The waiter found work after all; it is awake. */
static inline void tt_eventcount_cancel(struct tt_eventcount *self) {
    atomic_exchange(&self->sleeps_until, TT_EVENTCOUNT_AWAKE);
}
/* The same where the waiter looks at its inputs anyway; costs a load if it is awake already. */
static inline void tt_eventcount_cancel_relaxed(struct tt_eventcount *self) {
    if (atomic_load_explicit(&self->sleeps_until, memory_order_relaxed) != TT_EVENTCOUNT_AWAKE)
        atomic_store_explicit(&self->sleeps_until, TT_EVENTCOUNT_AWAKE, memory_order_relaxed);
}
/* Sleeps as announced; the waiter is awake afterwards. */
void tt_eventcount_commit(struct tt_eventcount *self, int64_t until_at);
/* Work is visible that must be looked at by `due_at` (TT_EVENTCOUNT_AT_ONCE: now). Any thread. */
void tt_eventcount_notify_by(struct tt_eventcount *self, int64_t due_at);
/* Work is visible. True: the waiter sleeps, and the caller must wake it by its own means. Any
 * thread. */
static inline bool tt_eventcount_claim(struct tt_eventcount *self) {
    return atomic_exchange_explicit(&self->sleeps_until, TT_EVENTCOUNT_AWAKE,
                                    memory_order_acq_rel) != TT_EVENTCOUNT_AWAKE;
}

/* ---- others set the instant of the next look ---- */

/* True: the waiter would oversleep `due_at`, and the caller must notify it. One thread at a time.
 */
static inline bool tt_eventcount_set_due(struct tt_eventcount *self, int64_t due_at) {
    atomic_store(&self->due_at, due_at);
    return due_at < atomic_load(&self->sleeps_until);
}
/* Any thread. */
static inline int64_t tt_eventcount_due_at(const struct tt_eventcount *self) {
    return atomic_load(&self->due_at);
}
/* Announces sleep until the due instant, and returns it. The waiter, before it waits. */
static inline int64_t tt_eventcount_prepare_due(struct tt_eventcount *self) {
    int64_t due_at = atomic_load(&self->due_at), announced;
    do {
        announced = due_at;
        atomic_store(&self->sleeps_until, announced);
        due_at = atomic_load(&self->due_at);
    } while (due_at != announced);
    return announced;
}

#endif
