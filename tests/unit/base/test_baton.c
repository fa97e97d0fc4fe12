/* threaded */
#include "base/alarm.h"
#include "base/baton.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20000 };

struct shared {
    struct tt_baton baton;
    _Atomic int64_t brought; /* pieces of work */
    int64_t done;            /* plain: the baton's holder alone touches it */
    int32_t inside;
};

static void *bring(void *argument) {
    struct shared *self = argument;
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&self->brought, 1);
        tt_baton_tell(&self->baton);
        while (tt_baton_take(&self->baton)) {
            while (tt_baton_news(&self->baton)) {
                tt_assert(self->inside++ == 0);
                self->done = atomic_load(&self->brought);
                self->inside--;
            }
            tt_baton_give(&self->baton);
        }
    }
    return NULL;
}

/* One at a time, and when all have gone nothing is left undone. */
static void test_nothing_is_lost(void **state) {
    (void)state;
    struct shared shared = {.done = 0};
    pthread_t threads[THREADS];
    tt_baton_init(&shared.baton);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bring, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.done, (int64_t)THREADS * ROUNDS);
    assert_false(tt_baton_take(&shared.baton));
}

static void test_taking(void **state) {
    (void)state;
    struct tt_baton baton;
    tt_baton_init(&baton);
    assert_false(tt_baton_take(&baton)); /* no news, no baton */
    tt_baton_tell(&baton);
    assert_true(tt_baton_take(&baton));
    tt_baton_tell(&baton);
    assert_false(tt_baton_take(&baton)); /* held */
    assert_true(tt_baton_news(&baton));
    assert_false(tt_baton_news(&baton));
    tt_baton_give(&baton);
    assert_false(tt_baton_take(&baton));
}

struct sleeper {
    struct tt_alarm alarm;
    struct tt_parker parker;
    _Atomic bool rang;
};

static void *sleep_until_rung(void *argument) {
    struct sleeper *self = argument;
    for (;;) {
        tt_alarm_get_up(&self->alarm);
        if (tt_clock_now() >= tt_alarm_due_at(&self->alarm))
            break;
        tt_parker_park(&self->parker, tt_alarm_lie_down(&self->alarm));
    }
    atomic_store(&self->rang, true);
    return NULL;
}

/* An alarm that is set to now while the sleeper lies down for ever is never slept through. */
static void test_alarm(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct sleeper sleeper;
        pthread_t thread;
        tt_alarm_init(&sleeper.alarm);
        tt_parker_init(&sleeper.parker);
        atomic_init(&sleeper.rang, false);
        assert_int_equal(pthread_create(&thread, NULL, sleep_until_rung, &sleeper), 0);
        for (volatile int wait = 0; wait < round * 20; wait++)
            continue;
        if (tt_alarm_set(&sleeper.alarm, tt_clock_now()))
            tt_parker_unpark(&sleeper.parker);
        pthread_join(thread, NULL);
        assert_true(atomic_load(&sleeper.rang));
    }
}

static void test_alarm_tells_whom_to_wake(void **state) {
    (void)state;
    struct tt_alarm alarm;
    tt_alarm_init(&alarm);
    assert_false(tt_alarm_set(&alarm, 50)); /* awake: it will look */
    assert_int_equal(tt_alarm_lie_down(&alarm), 50);
    assert_false(tt_alarm_set(&alarm, 60)); /* later: it gets up at 50 and looks */
    assert_true(tt_alarm_set(&alarm, 49));
    tt_alarm_get_up(&alarm);
    assert_false(tt_alarm_set(&alarm, 1));
    assert_int_equal(tt_alarm_due_at(&alarm), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_taking),
        cmocka_unit_test(test_alarm),
        cmocka_unit_test(test_alarm_tells_whom_to_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
