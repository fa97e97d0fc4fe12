/* threaded */
#include "base/nap.h"
#include "base/ring.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

enum { MESSAGES = 100000, CAPACITY = 64 };

static struct tt_ring ring;
static struct tt_nap nap;
static sem_t bell;
static int64_t rung;

static void test_who_is_woken(void **state) {
    (void)state;
    tt_nap_init(&nap);
    assert_false(tt_nap_is_broken(&nap)); /* it is awake */
    tt_nap_begin(&nap);
    assert_true(tt_nap_is_broken(&nap));
    assert_false(tt_nap_is_broken(&nap)); /* once is enough */
    tt_nap_begin(&nap);
    tt_nap_end(&nap);
    tt_nap_end(&nap);
    assert_false(tt_nap_is_broken(&nap));
}

static void *bring(void *context) {
    static char message;
    for (int64_t i = 0; i < MESSAGES; i++) {
        while (!tt_ring_push(&ring, &message))
            sched_yield();
        if (tt_nap_is_broken(&nap)) {
            rung++;
            sem_post(&bell);
        }
    }
    return context;
}

/* The sleeper waits for the bell and nothing else: a lost wake would leave it there. */
static void test_no_wake_is_lost(void **state) {
    (void)state;
    tt_nap_init(&nap);
    rung = 0;
    assert_int_equal(tt_ring_init(&ring, CAPACITY), TT_OK);
    assert_int_equal(sem_init(&bell, 0, 0), 0);
    pthread_t bringer;
    assert_int_equal(pthread_create(&bringer, NULL, bring, NULL), 0);
    for (int64_t got = 0; got < MESSAGES;) {
        while (tt_ring_pop(&ring))
            got++;
        tt_nap_begin(&nap);
        if (got < MESSAGES && tt_ring_is_empty(&ring)) {
            struct timespec most;
            clock_gettime(CLOCK_REALTIME, &most);
            most.tv_sec += 60;
            assert_int_equal(sem_timedwait(&bell, &most), 0);
        }
        tt_nap_end(&nap);
    }
    pthread_join(bringer, NULL);
    assert_true(rung <= MESSAGES);
    assert_null(tt_ring_pop(&ring));
    sem_destroy(&bell);
    tt_ring_fini(&ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_woken),
        cmocka_unit_test(test_no_wake_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
