#include "base/threads/perturb.h"

#include "base/clock.h"
#include "base/prng.h"

#include <sched.h>
#include <stdbool.h>

_Atomic uint32_t tt_perturb_one_in;

void tt_perturb_set(uint32_t one_in) {
    atomic_store_explicit(&tt_perturb_one_in, one_in, memory_order_relaxed);
}

void tt_perturb_now(uint32_t one_in) {
    static _Thread_local struct tt_prng prng;
    static _Thread_local bool seeded;
    if (!seeded) {
        tt_prng_init(&prng, (uint64_t)tt_clock_now(), (uintptr_t)&prng);
        seeded = true;
    }
    if (tt_prng_below(&prng, one_in) == 0)
        sched_yield();
}
