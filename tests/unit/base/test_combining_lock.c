/* threaded */
#include "base/err.h"
#include "base/threads/combining_lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20000 };

struct shared {
    struct tt_combining_lock lock;
    _Atomic int64_t brought; /* pieces of work */
    int64_t done;            /* plain: only the holder touches it */
    int32_t inside;
};

static void *bring(void *argument) {
    struct shared *self = argument;
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&self->brought, 1);
        tt_combining_lock_post(&self->lock);
        while (tt_combining_lock_take(&self->lock)) {
            while (tt_combining_lock_take_work(&self->lock)) {
                tt_assert(self->inside++ == 0);
                self->done = atomic_load(&self->brought);
                self->inside--;
            }
            tt_combining_lock_give(&self->lock);
        }
    }
    return NULL;
}

/* One holder at a time; when all threads have ended, no work is left. */
static void test_nothing_is_lost(void **state) {
    (void)state;
    struct shared shared = {.done = 0};
    pthread_t threads[THREADS];
    tt_combining_lock_init(&shared.lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bring, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.done, (int64_t)THREADS * ROUNDS);
    assert_false(tt_combining_lock_take(&shared.lock));
}

static void test_taking(void **state) {
    (void)state;
    struct tt_combining_lock lock;
    tt_combining_lock_init(&lock);
    assert_false(tt_combining_lock_take(&lock)); /* no work, no lock */
    tt_combining_lock_post(&lock);
    assert_true(tt_combining_lock_take(&lock));
    tt_combining_lock_post(&lock);
    assert_false(tt_combining_lock_take(&lock)); /* held */
    assert_true(tt_combining_lock_take_work(&lock));
    assert_false(tt_combining_lock_take_work(&lock));
    tt_combining_lock_give(&lock);
    assert_false(tt_combining_lock_take(&lock));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_taking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
