/* threaded */
#include "base/clock.h"
#include "base/parker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

static void test_wake_before_park_is_kept(void **state) {
    (void)state;
    struct tt_parker parker;
    tt_parker_init(&parker);
    tt_parker_unpark(&parker);
    tt_parker_unpark(&parker);
    assert_true(tt_parker_park(&parker, TT_NEVER));
    /* Two wakes were one. */
    assert_false(tt_parker_park(&parker, tt_clock_now() + TT_MS));
}

static void test_time_passes(void **state) {
    (void)state;
    struct tt_parker parker;
    tt_parker_init(&parker);
    int64_t until_at = tt_clock_now() + 3 * TT_MS;
    while (tt_clock_now() < until_at)
        assert_false(tt_parker_park(&parker, until_at));
    /* An instant that has passed, and one that never was. */
    assert_false(tt_parker_park(&parker, until_at));
    assert_false(tt_parker_park(&parker, -1));
}

struct pair {
    struct tt_parker ping, pong;
    int turns;
};

static void *answer(void *argument) {
    struct pair *self = argument;
    for (int i = 0; i < 20000; i++) {
        while (!tt_parker_park(&self->ping, TT_NEVER)) {
        }
        self->turns++;
        tt_parker_unpark(&self->pong);
    }
    return NULL;
}

/* Every turn is a wake that must not be lost; `turns` is plain memory that the parkers alone hand
 * over. */
static void test_ping_pong(void **state) {
    (void)state;
    struct pair self = {.turns = 0};
    tt_parker_init(&self.ping);
    tt_parker_init(&self.pong);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer, &self), 0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(self.turns, i);
        tt_parker_unpark(&self.ping);
        while (!tt_parker_park(&self.pong, TT_NEVER)) {
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(self.turns, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wake_before_park_is_kept),
        cmocka_unit_test(test_time_passes),
        cmocka_unit_test(test_ping_pong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
