/* Records arrive whole, in order and once; full and empty are answers. */
#include "base/threads/record_ring.h"

#include "base/prng.h"
#include "base/threads/perturb.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

struct record {
    uint64_t number, copy, inverse;
};
_Static_assert(sizeof(struct record) == 24, "no power of two, on purpose");

static void test_one_by_one(void **state) {
    (void)state;
    struct tt_record_ring ring;
    assert_int_equal(tt_record_ring_init(&ring, 1, sizeof(struct record)), TT_OK);
    for (uint64_t i = 0; i < 5; i++) { /* the smallest ring goes round and round */
        struct record in = {i, i, ~i};
        int32_t count;
        assert_false(tt_record_ring_look(&ring));
        assert_true(tt_record_ring_push(&ring, &in));
        assert_false(tt_record_ring_push(&ring, &in));
        tt_record_ring_peek(&ring, &count);
        assert_int_equal(count, 0); /* not looked yet */
        assert_true(tt_record_ring_look(&ring));
        const struct record *out = tt_record_ring_peek(&ring, &count);
        assert_int_equal(count, 1);
        assert_int_equal(out->number, i);
        tt_record_ring_take(&ring, 1);
    }
    tt_record_ring_fini(&ring);
}

static void test_room_ends_where_the_memory_does(void **state) {
    (void)state;
    struct tt_record_ring ring;
    int32_t count;
    assert_int_equal(tt_record_ring_init(&ring, 8, sizeof(struct record)), TT_OK);
    tt_record_ring_room(&ring, &count);
    assert_int_equal(count, 8);
    tt_record_ring_commit(&ring, 6);
    tt_record_ring_room(&ring, &count);
    assert_int_equal(count, 2);
    assert_true(tt_record_ring_look(&ring));
    tt_record_ring_peek(&ring, &count);
    assert_int_equal(count, 6);
    tt_record_ring_take(&ring, 5);
    tt_record_ring_room(&ring, &count);
    assert_int_equal(count, 2);
    tt_record_ring_commit(&ring, 2);
    tt_record_ring_room(&ring, &count);
    assert_int_equal(count, 5);
    tt_record_ring_fini(&ring);
}

static void test_added_records_are_seen_together(void **state) {
    (void)state;
    struct tt_record_ring ring;
    assert_int_equal(tt_record_ring_init(&ring, 4, sizeof(struct record)), TT_OK);
    for (uint64_t from = 0; from < 30; from += 3) { /* across the end of the memory, too */
        for (uint64_t i = from; i < from + 3; i++)
            assert_true(tt_record_ring_add(&ring, &(struct record){i, i, ~i}));
        assert_false(tt_record_ring_look(&ring));
        assert_true(tt_record_ring_push(&ring, &(struct record){99, 99, 99}));
        assert_false(tt_record_ring_add(&ring, &(struct record){0}));
        tt_record_ring_publish(&ring);
        assert_false(tt_record_ring_look_for(&ring, 5));
        assert_false(tt_record_ring_look_for(&ring, -1));
        assert_true(tt_record_ring_look_for(&ring, 3));
        assert_int_equal(tt_record_ring_seen(&ring), 3);
        for (uint64_t i = from; i < from + 3; i++) {
            int32_t count;
            const struct record *out = tt_record_ring_peek(&ring, &count);
            assert_true(count > 0);
            assert_int_equal(out->number, i);
            tt_record_ring_take(&ring, 1);
        }
        assert_int_equal(tt_record_ring_seen(&ring), 0); /* not looked for */
        assert_true(tt_record_ring_look(&ring));
        tt_record_ring_take(&ring, 1);
    }
    tt_record_ring_fini(&ring);
}

enum { TOTAL = 400000 };

static void *produce(void *context) {
    struct tt_record_ring *ring = context;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(11), 1);
    for (uint64_t next = 0; next < TOTAL;) {
        int32_t room;
        struct record *records = tt_record_ring_room(ring, &room);
        int32_t count = 0, want = (int32_t)tt_prng_below(&prng, 50);
        for (; count < room && count < want && next < TOTAL; count++, next++)
            records[count] = (struct record){next, next, ~next};
        tt_record_ring_commit(ring, count);
    }
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    for (uint32_t one_in = 0; one_in <= 100; one_in += 100) { /* also with random yields */
        struct tt_record_ring ring;
        pthread_t producer;
        tt_perturb_set(one_in);
        assert_int_equal(tt_record_ring_init(&ring, 64, sizeof(struct record)), TT_OK);
        assert_int_equal(pthread_create(&producer, NULL, produce, &ring), 0);
        for (uint64_t next = 0; next < TOTAL;) {
            int32_t count;
            tt_record_ring_look(&ring);
            const struct record *records = tt_record_ring_peek(&ring, &count);
            for (int32_t i = 0; i < count; i++, next++) {
                assert_int_equal(records[i].number, next);
                assert_int_equal(records[i].copy, next);
                assert_int_equal(records[i].inverse, ~next);
            }
            tt_record_ring_take(&ring, count);
        }
        pthread_join(producer, NULL);
        assert_false(tt_record_ring_look(&ring));
        tt_record_ring_fini(&ring);
    }
    tt_perturb_set(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_added_records_are_seen_together),
        cmocka_unit_test(test_room_ends_where_the_memory_does),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
