/* E1: ranges are adjacent, never cross the end, never overlap, and are released in any order. */
#include "base/prng.h"
#include "core/slot_ring.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void ranges_lie_side_by_side_and_do_not_cross_the_end(void **state) {
    (void)state;
    struct tt_slot_ring ring;
    assert_int_equal(tt_slot_ring_init(&ring, 8), TT_OK);
    assert_int_equal(tt_slot_ring_take(&ring, 3), 0);
    assert_int_equal(tt_slot_ring_take(&ring, 3), 3);
    assert_int_equal(tt_slot_ring_take(&ring, 3), -1); /* two slots are left, at the end */
    tt_slot_ring_release(&ring, 3, 3);                 /* the younger first: none is free */
    assert_int_equal(tt_slot_ring_take(&ring, 3), -1);
    tt_slot_ring_release(&ring, 0, 3);
    assert_int_equal(tt_slot_ring_take(&ring, 3), 0); /* empty: from the beginning */
    assert_int_equal(tt_slot_ring_take(&ring, 5), 3);
    tt_slot_ring_release(&ring, 0, 3);
    assert_int_equal(tt_slot_ring_take(&ring, 2), 0);
    assert_int_equal(tt_slot_ring_take(&ring, 1), 2);
    assert_int_equal(tt_slot_ring_take(&ring, 1), -1);
    tt_slot_ring_check(&ring);
    tt_slot_ring_fini(&ring);
}

static void the_slots_before_the_end_are_skipped(void **state) {
    (void)state;
    struct tt_slot_ring ring;
    assert_int_equal(tt_slot_ring_init(&ring, 8), TT_OK);
    assert_int_equal(tt_slot_ring_take(&ring, 4), 0);
    assert_int_equal(tt_slot_ring_take(&ring, 2), 4);
    tt_slot_ring_release(&ring, 0, 4);
    assert_int_equal(tt_slot_ring_take(&ring, 3), 0); /* 6 and 7 are lost for this round */
    tt_slot_ring_release(&ring, 4, 2);
    assert_int_equal(tt_slot_ring_take(&ring, 5), 3); /* they are free again after the older ones */
    assert_int_equal(tt_slot_ring_take(&ring, 1), -1);
    tt_slot_ring_check(&ring);
    tt_slot_ring_fini(&ring);
}

/* Against a model that remembers only which slots are in use. */
static void agrees_with_a_naive_model(void **state) {
    (void)state;
    enum { SLOTS = 13, HELD = 64 };
    for (uint64_t seed = test_seed(1), end = seed + 50; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct tt_slot_ring ring;
        assert_int_equal(tt_slot_ring_init(&ring, SLOTS), TT_OK);
        bool used[SLOTS] = {false};
        struct {
            int32_t first, rows;
        } held[HELD];
        int32_t count = 0, refused = 0;
        for (int i = 0; i < 4000; i++) {
            int32_t rows = 1 + (int32_t)tt_prng_below(&prng, 4);
            if (count == 0 || tt_prng_below(&prng, 2) == 0) {
                int32_t first = tt_slot_ring_take(&ring, rows);
                refused += first < 0;
                if (first < 0 && count == 0)
                    fail_msg("seed %d: an empty ring refuses %d rows", (int)seed, rows);
                for (int32_t k = 0; first >= 0 && k < rows; k++) {
                    if (first + k >= SLOTS || used[first + k])
                        fail_msg("seed %d, step %d: slot %d given twice", (int)seed, i, first + k);
                    used[first + k] = true;
                }
                if (first >= 0) {
                    held[count].first = first;
                    held[count++].rows = rows;
                }
            } else {
                int32_t which = (int32_t)tt_prng_below(&prng, (uint64_t)count);
                for (int32_t k = 0; k < held[which].rows; k++)
                    used[held[which].first + k] = false;
                tt_slot_ring_release(&ring, held[which].first, held[which].rows);
                held[which] = held[--count];
            }
            tt_slot_ring_check(&ring);
        }
        assert_true(refused > 0);
        while (count > 0) {
            count--;
            tt_slot_ring_release(&ring, held[count].first, held[count].rows);
        }
        assert_int_equal(ring.used, 0);
        tt_slot_ring_fini(&ring);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_lie_side_by_side_and_do_not_cross_the_end),
        cmocka_unit_test(the_slots_before_the_end_are_skipped),
        cmocka_unit_test(agrees_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
