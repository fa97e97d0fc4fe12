/* Where a random test gets its seed. */
#ifndef TUTTI_TESTS_UNIT_SEED_H
#define TUTTI_TESTS_UNIT_SEED_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* TUTTI_SEED where the environment sets it, else `fallback`. Prints the seed, so that a failure can
 * be run again: TUTTI_SEED=N build/test_x. */
static inline uint64_t test_seed(uint64_t fallback) {
    const char *given = getenv("TUTTI_SEED");
    uint64_t seed = given && *given ? strtoull(given, NULL, 0) : fallback;
    printf("TUTTI_SEED=%" PRIu64 "\n", seed);
    return seed;
}

#endif
