/* Random yields at the places where threads meet, to find interleavings that a quiet machine never
 * shows.
 *
 * Rings, registers, dirty sets and bells call `tt_perturb` before and after what they publish. It
 * does nothing until a test switches it on; then, once in so many calls, the thread gives its
 * processor away at that very point. Which places yield depends on a number per thread, so that a
 * run is different each time: it is the one thing in base that is not reproducible. */
#ifndef TT_BASE_PERTURB_H
#define TT_BASE_PERTURB_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t tt_perturb_one_in; /* 0: never */
void tt_perturb_now(uint32_t one_in);

/* Yields once in `one_in` meetings from now on, all threads; 0: never again. */
void tt_perturb_set(uint32_t one_in);

static inline void tt_perturb(void) {
    uint32_t one_in = atomic_load_explicit(&tt_perturb_one_in, memory_order_relaxed);
    if (__builtin_expect(one_in != 0, 0))
        tt_perturb_now(one_in);
}

#endif
