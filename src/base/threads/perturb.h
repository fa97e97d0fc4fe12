/* Random yields where threads meet, to find interleavings that a quiet machine never shows.
 *
 * Rings, registers, dirty sets and eventcounts call `tt_perturb` before and after they publish. It
 * does nothing until a test switches it on; then, once in so many calls, the thread yields its
 * processor. The number generator differs per thread and run: it is the one thing in base that is
 * not reproducible. Implemented in perturb.c. */
#ifndef TT_BASE_PERTURB_H
#define TT_BASE_PERTURB_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint32_t tt_perturb_one_in; /* 0: never */
void tt_perturb_now(uint32_t one_in);

/* All threads yield once in `one_in` meetings from now on; 0: never. */
void tt_perturb_set(uint32_t one_in);

static inline void tt_perturb(void) {
    uint32_t one_in = atomic_load_explicit(&tt_perturb_one_in, memory_order_relaxed);
    if (__builtin_expect(one_in != 0, 0))
        tt_perturb_now(one_in);
}

#endif
