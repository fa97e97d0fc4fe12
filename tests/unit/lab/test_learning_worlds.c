/* slow */
/* A thousand random worlds with learning on, whose devices are slow, then fast, then stop: every
 * policy, with the checks of mechanism, beliefs and policy after every instant. Every request
 * leaves once. */
#include "unit/lab/recorded_world.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { WORLDS = 200, REQUESTS = 250 };
#else
enum { WORLDS = 1000, REQUESTS = 250 };
#endif

static void random_worlds(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    int64_t moves = 0, delay_moves = 0;
    for (int32_t i = 0; i < WORLDS; i++, seed++) {
        struct recorded_world world;
        const char *policy = tt_policy_at(i % tt_policy_count())->name;
        learning_world_run(&world, seed, REQUESTS, policy, NULL, 0, NULL,
                           50 + (int32_t)(seed % 51));
        int64_t left = 0;
        for (int32_t ending = 0; ending <= TT_ENDING_CANCELLED; ending++)
            left += world.ended[ending];
        if (left != REQUESTS)
            print_message("policy %s, TUTTI_SEED=%llu\n", policy, (unsigned long long)seed);
        assert_int_equal(left, REQUESTS);
        moves += world.moves;
        delay_moves += world.delay_moves;
    }
    assert_true(moves > WORLDS);
    assert_true(delay_moves > WORLDS / 4); /* two in three worlds have a device with a delay */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_worlds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
