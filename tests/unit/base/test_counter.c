/* What one thread counts and raises, another sees. */
/* threaded */
#include "base/threads/counter.h"

#include "base/threads/flag.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ADDS = 100000 };

struct shared {
    struct tt_counter counter;
    struct tt_flag flag;
    int plain; /* written before the flag is raised, read after it was seen */
};

static void *writer(void *context) {
    struct shared *shared = context;
    for (int i = 0; i < ADDS; i++)
        tt_counter_add(&shared->counter, 3);
    tt_counter_add(&shared->counter, -5);
    shared->plain = 17;
    tt_flag_raise(&shared->flag);
    return NULL;
}

static void a_raised_flag_brings_what_came_before(void **state) {
    (void)state;
    struct shared shared = {0};
    assert_false(tt_flag_is_raised(&shared.flag));
    assert_int_equal(tt_counter_get(&shared.counter), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, writer, &shared), 0);
    int64_t seen = 0;
    while (!tt_flag_is_raised(&shared.flag)) {
        int64_t value = tt_counter_get(&shared.counter);
        if (value < seen - 5) /* only the last step goes down */
            fail_msg("went from %lld to %lld", (long long)seen, (long long)value);
        seen = value > seen ? value : seen;
    }
    assert_int_equal(shared.plain, 17);
    assert_int_equal(tt_counter_get(&shared.counter), 3 * ADDS - 5);
    pthread_join(thread, NULL);
    assert_true(tt_flag_is_raised(&shared.flag));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_raised_flag_brings_what_came_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
