/* threaded */
#include "base/clock.h"
#include "base/err.h"
#include "base/threads/eventcount.h"
#include "base/threads/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

/* ---- use 1: the waiter announces nothing ---- */

static void test_notification_before_wait_is_kept(void **state) {
    (void)state;
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    tt_eventcount_notify(&eventcount);
    tt_eventcount_notify(&eventcount);
    assert_true(tt_eventcount_wait(&eventcount, TT_NEVER));
    /* Two notifications became one. */
    assert_false(tt_eventcount_wait(&eventcount, tt_clock_now() + TT_MS));
}

static void test_time_passes(void **state) {
    (void)state;
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    int64_t until_at = tt_clock_now() + 3 * TT_MS;
    while (tt_clock_now() < until_at)
        assert_false(tt_eventcount_wait(&eventcount, until_at));
    /* An instant that has passed, and one that never was. */
    assert_false(tt_eventcount_wait(&eventcount, until_at));
    assert_false(tt_eventcount_wait(&eventcount, -1));
}

struct pair {
    struct tt_eventcount ping, pong;
    int turns;
};

static void *answer(void *argument) {
    struct pair *self = argument;
    for (int i = 0; i < 20000; i++) {
        while (!tt_eventcount_wait(&self->ping, TT_NEVER)) {
        }
        self->turns++;
        tt_eventcount_notify(&self->pong);
    }
    return NULL;
}

/* Every turn is a wake that must not be lost; `turns` is plain memory that only the eventcounts
 * hand over. */
static void test_ping_pong(void **state) {
    (void)state;
    struct pair self = {.turns = 0};
    tt_eventcount_init(&self.ping);
    tt_eventcount_init(&self.pong);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer, &self), 0);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(self.turns, i);
        tt_eventcount_notify(&self.ping);
        while (!tt_eventcount_wait(&self.pong, TT_NEVER)) {
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(self.turns, 20000);
}

/* ---- use 2: the waiter announces until when it sleeps ---- */

/* Only a waiter that would look too late by itself is notified. */
static void test_notifying_by(void **state) {
    (void)state;
    struct tt_eventcount eventcount;
    int64_t now = tt_clock_now();
    tt_eventcount_init(&eventcount);
    tt_eventcount_notify_by(&eventcount, TT_EVENTCOUNT_AT_ONCE); /* awake: nothing to do */
    tt_eventcount_prepare(&eventcount, now + TT_S);
    tt_eventcount_notify_by(&eventcount, now + 2 * TT_S); /* it looks earlier */
    assert_int_equal(atomic_load(&eventcount.state), 0);
    tt_eventcount_notify_by(&eventcount, now);
    assert_int_not_equal(atomic_load(&eventcount.state), 0);
    tt_eventcount_commit(&eventcount, TT_NEVER); /* returns at once, or the test hangs */
    assert_true(atomic_load(&eventcount.sleeps_until) == INT64_MIN);
}

/* ---- use 3: the waiter sleeps elsewhere ---- */

enum { MESSAGES = 100000, CAPACITY = 64 };

static struct tt_ring ring;
static struct tt_eventcount claimed;
static sem_t wake;
static int64_t woken;

static void test_claiming(void **state) {
    (void)state;
    tt_eventcount_init(&claimed);
    assert_false(tt_eventcount_claim(&claimed)); /* the waiter is awake */
    tt_eventcount_prepare(&claimed, TT_NEVER);
    assert_true(tt_eventcount_claim(&claimed));
    assert_false(tt_eventcount_claim(&claimed)); /* once is enough */
    tt_eventcount_prepare(&claimed, TT_NEVER);
    tt_eventcount_cancel_relaxed(&claimed);
    tt_eventcount_cancel_relaxed(&claimed);
    assert_false(tt_eventcount_claim(&claimed));
}

static void *bring(void *context) {
    static char message;
    for (int64_t i = 0; i < MESSAGES; i++) {
        while (!tt_ring_push(&ring, &message))
            sched_yield();
        if (tt_eventcount_claim(&claimed)) {
            woken++;
            sem_post(&wake);
        }
    }
    return context;
}

/* The waiter sleeps on the semaphore and nothing else: a lost wake would hang the test. */
static void test_no_claim_is_lost(void **state) {
    (void)state;
    tt_eventcount_init(&claimed);
    woken = 0;
    assert_int_equal(tt_ring_init(&ring, CAPACITY), TT_OK);
    assert_int_equal(sem_init(&wake, 0, 0), 0);
    pthread_t bringer;
    assert_int_equal(pthread_create(&bringer, NULL, bring, NULL), 0);
    for (int64_t got = 0; got < MESSAGES;) {
        while (tt_ring_pop(&ring))
            got++;
        tt_eventcount_prepare(&claimed, TT_NEVER);
        if (got < MESSAGES && tt_ring_is_empty(&ring)) {
            struct timespec limit;
            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_sec += 60;
            assert_int_equal(sem_timedwait(&wake, &limit), 0);
        }
        tt_eventcount_cancel_relaxed(&claimed);
    }
    pthread_join(bringer, NULL);
    assert_true(woken <= MESSAGES);
    assert_null(tt_ring_pop(&ring));
    sem_destroy(&wake);
    tt_ring_fini(&ring);
}

/* ---- use 4: others set the instant of the next look ---- */

struct sleeper {
    struct tt_eventcount eventcount;
    _Atomic bool woke;
};

static void *sleep_until_due(void *argument) {
    struct sleeper *self = argument;
    for (;;) {
        tt_eventcount_cancel(&self->eventcount);
        if (tt_clock_now() >= tt_eventcount_due_at(&self->eventcount))
            break;
        tt_eventcount_wait(&self->eventcount, tt_eventcount_prepare_due(&self->eventcount));
    }
    atomic_store(&self->woke, true);
    return NULL;
}

/* A due instant that becomes now while the waiter announces endless sleep is never overslept. */
static void test_due_instant_is_never_overslept(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        struct sleeper sleeper;
        pthread_t thread;
        tt_eventcount_init(&sleeper.eventcount);
        atomic_init(&sleeper.woke, false);
        assert_int_equal(pthread_create(&thread, NULL, sleep_until_due, &sleeper), 0);
        for (volatile int wait = 0; wait < round * 20; wait++)
            continue;
        if (tt_eventcount_set_due(&sleeper.eventcount, tt_clock_now()))
            tt_eventcount_notify(&sleeper.eventcount);
        pthread_join(thread, NULL);
        assert_true(atomic_load(&sleeper.woke));
    }
}

static void test_setting_the_due_instant(void **state) {
    (void)state;
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    assert_false(tt_eventcount_set_due(&eventcount, 50)); /* awake: it will look */
    assert_int_equal(tt_eventcount_prepare_due(&eventcount), 50);
    assert_false(tt_eventcount_set_due(&eventcount, 60)); /* later: it wakes at 50 and looks */
    assert_true(tt_eventcount_set_due(&eventcount, 49));
    tt_eventcount_cancel(&eventcount);
    assert_false(tt_eventcount_set_due(&eventcount, 1));
    assert_int_equal(tt_eventcount_due_at(&eventcount), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notification_before_wait_is_kept),
        cmocka_unit_test(test_time_passes),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_notifying_by),
        cmocka_unit_test(test_claiming),
        cmocka_unit_test(test_no_claim_is_lost),
        cmocka_unit_test(test_due_instant_is_never_overslept),
        cmocka_unit_test(test_setting_the_due_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
