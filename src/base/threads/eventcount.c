#include "base/threads/eventcount.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EMPTY, NOTIFIED, WAITING };
enum { SPINS = 100 }; /* about 5 us; a wake by the kernel costs more */

void tt_eventcount_init(struct tt_eventcount *self) {
    atomic_init(&self->sleeps_until, TT_EVENTCOUNT_AWAKE);
    atomic_init(&self->due_at, TT_NEVER);
    atomic_init(&self->state, EMPTY);
}

/* Takes the notification, if there is one. */
static bool take(struct tt_eventcount *self) {
    uint32_t expected = NOTIFIED;
    return atomic_compare_exchange_strong_explicit(&self->state, &expected, EMPTY,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

static void futex_wait_until(struct tt_eventcount *self, int64_t until_at) {
    struct timespec until = {.tv_sec = until_at / TT_S, .tv_nsec = until_at % TT_S};
    /* The bitset form takes an absolute time. The caller looks at the state, so the result does not
     * matter. */
    syscall(SYS_futex, &self->state, FUTEX_WAIT_BITSET_PRIVATE, WAITING,
            until_at == TT_NEVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

bool tt_eventcount_wait(struct tt_eventcount *self, int64_t until_at) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&self->state, memory_order_relaxed) == NOTIFIED)
            break;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    return tt_eventcount_sleep(self, until_at);
}

bool tt_eventcount_sleep(struct tt_eventcount *self, int64_t until_at) {
    uint32_t expected = EMPTY;
    if (!atomic_compare_exchange_strong_explicit(&self->state, &expected, WAITING,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return take(self);
    futex_wait_until(self, until_at < 0 ? 0 : until_at);
    return atomic_exchange_explicit(&self->state, EMPTY, memory_order_acq_rel) == NOTIFIED;
}

void tt_eventcount_notify(struct tt_eventcount *self) {
    if (atomic_exchange_explicit(&self->state, NOTIFIED, memory_order_acq_rel) == WAITING)
        syscall(SYS_futex, &self->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void tt_eventcount_be_punctual(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

void tt_eventcount_commit(struct tt_eventcount *self, int64_t until_at) {
    tt_eventcount_sleep(self, until_at);
    tt_eventcount_cancel(self);
}

void tt_eventcount_notify_by(struct tt_eventcount *self, int64_t due_at) {
    tt_perturb();
    /* A read-modify-write, as _prepare() is: see the header. */
    int64_t sleeps_until = atomic_fetch_add_explicit(&self->sleeps_until, 0, memory_order_acq_rel);
    if (sleeps_until > due_at)
        tt_eventcount_notify(self);
}
