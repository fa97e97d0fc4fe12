#include "base/parker.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EMPTY, WOKEN, PARKED };
enum { SPINS = 100 }; /* about 5 microseconds: a wake from the kernel costs more */

void tt_parker_init(struct tt_parker *self) { atomic_init(&self->state, EMPTY); }

/* Takes the wake, if there is one. */
static bool take(struct tt_parker *self) {
    uint32_t expected = WOKEN;
    return atomic_compare_exchange_strong_explicit(&self->state, &expected, EMPTY,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

static void futex_wait_until(struct tt_parker *self, int64_t until_at) {
    struct timespec until = {.tv_sec = until_at / TT_S, .tv_nsec = until_at % TT_S};
    /* The bitset form takes an absolute time. Whatever it returns, the caller looks at the state.
     */
    syscall(SYS_futex, &self->state, FUTEX_WAIT_BITSET_PRIVATE, PARKED,
            until_at == TT_NEVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

bool tt_parker_park(struct tt_parker *self, int64_t until_at) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&self->state, memory_order_relaxed) == WOKEN)
            break;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
    return tt_parker_sleep(self, until_at);
}

bool tt_parker_sleep(struct tt_parker *self, int64_t until_at) {
    uint32_t expected = EMPTY;
    if (!atomic_compare_exchange_strong_explicit(&self->state, &expected, PARKED,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return take(self);
    futex_wait_until(self, until_at < 0 ? 0 : until_at);
    return atomic_exchange_explicit(&self->state, EMPTY, memory_order_acq_rel) == WOKEN;
}

void tt_parker_unpark(struct tt_parker *self) {
    if (atomic_exchange_explicit(&self->state, WOKEN, memory_order_acq_rel) == PARKED)
        syscall(SYS_futex, &self->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void tt_parker_be_punctual(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }
