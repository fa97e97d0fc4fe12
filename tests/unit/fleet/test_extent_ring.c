/* Extents never overlap, come back in any order, and the ring is whole again when all are back. */
#include "base/prng.h"
#include "fleet/extent_ring.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 64 * 32, CAPACITY = 20, STEPS = 20000 };

/* The bytes that are in use, and by which extent. */
struct naive {
    int32_t owner[SIZE]; /* number + 1; 0: free */
    size_t begin[CAPACITY], bytes[CAPACITY];
    int32_t live;
};

static void random_extents_do_not_overlap(void **state) {
    (void)state;
    static struct naive naive;
    struct tt_extent_ring ring;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    assert_int_equal(tt_extent_ring_init(&ring, SIZE, CAPACITY), TT_OK);
    int32_t refused = 0, taken = 0;
    for (int32_t step = 0; step < STEPS; step++) {
        int32_t number = (int32_t)tt_prng_below(&prng, CAPACITY);
        if (naive.bytes[number]) {
            tt_extent_ring_give(&ring, number);
            for (size_t i = 0; i < naive.bytes[number]; i++)
                naive.owner[naive.begin[number] + i] = 0;
            naive.bytes[number] = 0;
            naive.live--;
        } else {
            size_t begin, bytes = 1 + tt_prng_below(&prng, SIZE / 4);
            number = tt_extent_ring_take(&ring, bytes, &begin);
            refused += number == TT_NO_EXTENT;
            assert_true(number != TT_NO_EXTENT || naive.live > 0);
            for (size_t i = 0; number != TT_NO_EXTENT && i < bytes; i++) {
                assert_true(begin + i < SIZE && naive.owner[begin + i] == 0);
                naive.owner[begin + i] = number + 1;
            }
            if (number != TT_NO_EXTENT) {
                naive.begin[number] = begin;
                naive.bytes[number] = bytes;
                naive.live++;
                taken++;
            }
        }
        tt_extent_ring_check(&ring);
        assert_true((ring.count == 0) == (naive.live == 0));
    }
    assert_true(refused > 0 && taken > STEPS / 20);
    tt_extent_ring_fini(&ring);
}

static void an_empty_ring_begins_anew(void **state) {
    (void)state;
    struct tt_extent_ring ring;
    size_t begin;
    assert_int_equal(tt_extent_ring_init(&ring, SIZE, CAPACITY), TT_OK);
    for (int32_t i = 0; i < 100; i++) {
        int32_t first = tt_extent_ring_take(&ring, 100, &begin);
        assert_int_equal(begin, 0);
        assert_true(tt_extent_ring_take(&ring, 0, &begin) != TT_NO_EXTENT); /* one line */
        assert_int_equal(begin, 128);
        tt_extent_ring_give(&ring, first);
        tt_extent_ring_give_oldest(&ring);
    }
    assert_int_equal(tt_extent_ring_take(&ring, SIZE + 1, &begin), TT_NO_EXTENT);
    assert_int_equal(tt_extent_ring_take(&ring, SIZE_MAX, &begin), TT_NO_EXTENT);
    assert_true(tt_extent_ring_take(&ring, SIZE, &begin) != TT_NO_EXTENT);
    assert_int_equal(tt_extent_ring_take(&ring, 1, &begin), TT_NO_EXTENT);
    tt_extent_ring_fini(&ring);
}

static struct tt_extent_ring broken;

static void give_twice(void) {
    size_t begin;
    (void)tt_extent_ring_take(&broken, 1, &begin);
    int32_t second = tt_extent_ring_take(&broken, 1, &begin);
    tt_extent_ring_give(&broken, second);
    tt_extent_ring_give(&broken, second);
}

static void check_overlap(void) {
    size_t begin;
    (void)tt_extent_ring_take(&broken, 1, &begin);
    int32_t second = tt_extent_ring_take(&broken, 1, &begin);
    broken.extents[second].begin--;
    tt_extent_ring_check(&broken);
}

static void breaches_are_noticed(void **state) {
    (void)state;
    assert_int_equal(tt_extent_ring_init(&broken, SIZE, CAPACITY), TT_OK);
    assert_breaks(give_twice, "give_twice", "is_back");
    assert_breaks(check_overlap, "check_overlap", "begin == 0");
    tt_extent_ring_fini(&broken);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_extents_do_not_overlap),
        cmocka_unit_test(an_empty_ring_begins_anew),
        cmocka_unit_test(breaches_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
