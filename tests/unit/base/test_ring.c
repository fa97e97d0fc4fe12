/* threaded */
#include "base/threads/eventcount.h"
#include "base/threads/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

static void test_order_and_capacity(void **state) {
    (void)state;
    struct tt_ring ring;
    int items[7];
    /* 5 is no power of two: the capacity asked for holds, not the one of the memory. */
    assert_int_equal(tt_ring_init(&ring, 5), TT_OK);
    assert_null(tt_ring_pop(&ring));
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 5; i++)
            assert_true(tt_ring_push(&ring, &items[i]));
        assert_false(tt_ring_push(&ring, &items[5]));
        assert_ptr_equal(tt_ring_pop(&ring), &items[0]);
        assert_true(tt_ring_push(&ring, &items[6]));
        assert_false(tt_ring_push(&ring, &items[5]));
        for (int i = 1; i < 5; i++)
            assert_ptr_equal(tt_ring_pop(&ring), &items[i]);
        assert_ptr_equal(tt_ring_pop(&ring), &items[6]);
        assert_null(tt_ring_pop(&ring));
    }
    tt_ring_fini(&ring);
}

enum { ITEMS = 200000 };

struct stream {
    struct tt_ring ring;
    struct tt_eventcount items, room;
    uint64_t values[64];
};

/* Values are plain memory: only the ring orders them between the threads. */
static void *produce(void *argument) {
    struct stream *self = argument;
    for (uint64_t i = 0; i < ITEMS; i++) {
        /* 64 places, at most 32 in the ring and one with the consumer: this place is free again. */
        uint64_t *value = &self->values[i % 64];
        *value = i;
        while (!tt_ring_push(&self->ring, value))
            tt_eventcount_wait(&self->room, TT_NEVER);
        tt_eventcount_notify(&self->items);
    }
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    struct stream self;
    assert_int_equal(tt_ring_init(&self.ring, 32), TT_OK);
    tt_eventcount_init(&self.items);
    tt_eventcount_init(&self.room);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &self), 0);
    for (uint64_t i = 0; i < ITEMS; i++) {
        uint64_t *value;
        while (!(value = tt_ring_pop(&self.ring)))
            tt_eventcount_wait(&self.items, TT_NEVER);
        assert_int_equal(*value, i);
        tt_eventcount_notify(&self.room);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    tt_ring_fini(&self.ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_capacity),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
