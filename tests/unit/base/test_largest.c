/* threaded */
/* Which thread is asked, for how much, and that a thread that left is not woken. */
#include "base/threads/largest.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct tt_largest board;

static void count(void *context) { ++*(int *)context; }

static void test_the_largest_is_asked(void **state) {
    (void)state;
    int woken[3] = {0};
    int32_t places[3];
    tt_largest_init(&board);
    for (int i = 0; i < 3; i++)
        places[i] = tt_largest_join(&board, count, &woken[i]);
    assert_false(tt_largest_ask(&board, places[0], 0, 1)); /* no one holds anything */
    tt_largest_set(&board, places[1], 10);
    tt_largest_set(&board, places[2], 20);
    tt_largest_set(&board, places[0], 30); /* it asks; its own does not count */
    assert_false(tt_largest_ask(&board, places[0], 20, 1));
    assert_true(tt_largest_ask(&board, places[0], 19, 15));
    assert_int_equal(woken[2], 1);
    assert_false(tt_largest_ask(&board, places[0], 5, 6)); /* it has 5 left */
    assert_true(tt_largest_ask(&board, places[0], 5, 5));
    assert_int_equal(tt_largest_take(&board, places[2]), 20);
    assert_int_equal(tt_largest_take(&board, places[2]), 0);
    tt_largest_set(&board, places[2], 0);
    assert_true(tt_largest_ask(&board, places[0], 5, 10));
    assert_int_equal(woken[1], 1);
    tt_largest_leave(&board, places[1]);
    assert_false(tt_largest_ask(&board, places[0], 5, 1));
    assert_int_equal(tt_largest_join(&board, count, &woken[1]), places[1]);
    assert_int_equal(tt_largest_take(&board, places[1]), 0); /* what the former one was asked */
    assert_int_equal(woken[0], 0);
    tt_largest_fini(&board);
}

static void test_no_place_left(void **state) {
    (void)state;
    int woken = 0;
    tt_largest_init(&board);
    for (int i = 0; i < TT_LARGEST_THREADS; i++)
        assert_int_equal(tt_largest_join(&board, count, &woken), i);
    int32_t none = tt_largest_join(&board, count, &woken);
    assert_int_equal(none, -1);
    tt_largest_set(&board, none, 5);
    assert_int_equal(tt_largest_take(&board, none), 0);
    assert_false(tt_largest_ask(&board, none, 0, 1));
    tt_largest_leave(&board, none);
    tt_largest_fini(&board);
}

enum { THREADS = 3, ROUNDS = 20000 };

struct thread {
    _Atomic int is_joined;
    int64_t asked;
    uint64_t seed;
};

static void wake(void *context) { tt_assert(((struct thread *)context)->is_joined); }

/* Joins, offers, asks, takes and leaves. */
static void *take_part(void *context) {
    struct thread *self = context;
    for (int round = 0; round < ROUNDS; round++) {
        self->is_joined = 1;
        int32_t place = tt_largest_join(&board, wake, self);
        for (int i = 0; i < 4; i++) {
            self->seed = self->seed * 6364136223846793005u + 1442695040888963407u;
            tt_largest_set(&board, place, (int64_t)(self->seed >> 56));
            self->asked += tt_largest_ask(&board, place, 10, 1 + (int64_t)(self->seed >> 60));
            int64_t taken = tt_largest_take(&board, place);
            tt_assert(taken >= 0);
            tt_assert(taken <= 2 * 255);
        }
        tt_largest_leave(&board, place);
        self->is_joined = 0;
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    static struct thread parts[THREADS];
    tt_largest_init(&board);
    for (int i = 0; i < THREADS; i++) {
        parts[i] = (struct thread){.seed = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, take_part, &parts[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < TT_LARGEST_THREADS; i++)
        assert_false(board.places[i].is_used);
    tt_largest_fini(&board);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_is_asked),
        cmocka_unit_test(test_no_place_left),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
