/* C6: a request that stays in a batch keeps its row. If a row cannot be filled yet, no request is
 * moved. What was borrowed is returned. */
#include "serve/cell_row_assignment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CAPACITY = 64, MOST = 8, EXECUTOR = 1 };

struct fixture {
    struct tt_cell_slots slots;
    struct tt_cell_row_assignment assignment;
};

static void fixture_init(struct fixture *self, int32_t reserved) {
    assert_int_equal(tt_cell_slots_init(&self->slots, CAPACITY), TT_OK);
    assert_int_equal(tt_cell_row_assignment_init(&self->assignment, MOST), TT_OK);
    assert_true(tt_cell_slots_reserve(&self->slots, reserved));
}

static void fixture_fini(struct fixture *self, int32_t reserved) {
    tt_cell_slots_unreserve(&self->slots, reserved);
    tt_cell_slots_fini(&self->slots);
    tt_cell_row_assignment_fini(&self->assignment);
}

static bool keep(struct fixture *self, int32_t base, int32_t count, const int32_t *sources) {
    memcpy(self->assignment.sources, sources, (size_t)count * sizeof(*sources));
    return tt_cell_row_assignment_keep(&self->assignment, &self->slots, EXECUTOR, base, count);
}

static void expect_items(const struct fixture *self, int32_t count, const int32_t *items) {
    for (int32_t i = 0; i < count; i++)
        assert_int_equal(self->assignment.items[i], items[i]);
}

/* Slots 0 - 4 were a batch; 1 and 3 have left, one is new. */
static void test_gap_filled(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, 5);
    int32_t slots[5];
    tt_cell_slots_take(&f.slots, 5, slots);
    assert_int_equal(slots[0], 0);
    tt_cell_slots_give(&f.slots, 1);
    tt_cell_slots_give(&f.slots, 3);
    assert_true(keep(&f, 0, 4, (int32_t[]){0, 2, 4, -1}));
    /* 4 is beyond the end of four rows: it and the new one take the rows between. */
    expect_items(&f, 1, (int32_t[]){0});
    assert_int_equal(f.assignment.items[2], 1);
    assert_int_equal(f.assignment.items[1] + f.assignment.items[3], 2 + 3);
    assert_int_equal(f.slots.in_use, 5);
    assert_int_equal(f.slots.reserved, 5 + 2);
    for (int32_t slot = 0; slot < 5; slot++)
        tt_cell_slots_give(&f.slots, slot);
    fixture_fini(&f, 5 + 2);
}

/* A cell still needs slot 1: the batch is gathered, in its own order. */
static void test_gap_needed(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, 3);
    int32_t slots[3];
    tt_cell_slots_take(&f.slots, 3, slots);
    assert_false(keep(&f, 0, 3, (int32_t[]){2, -1, 0}));
    expect_items(&f, 3, (int32_t[]){0, 1, 2});
    assert_int_equal(f.slots.reserved, 3);
    for (int32_t slot = 0; slot < 3; slot++)
        tt_cell_slots_give(&f.slots, slot);
    fixture_fini(&f, 3);
}

/* The same, but the writer of slot 1 has moved out: the slot changes hands with its reservation. */
static void test_orphan_taken(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, 3);
    int32_t slots[3];
    tt_cell_slots_take(&f.slots, 3, slots);
    tt_cell_slots_orphan(&f.slots, 1, EXECUTOR);
    assert_true(keep(&f, 0, 3, (int32_t[]){2, -1, 0}));
    expect_items(&f, 3, (int32_t[]){2, 1, 0});
    assert_int_equal(f.slots.reserved, 3);
    tt_cell_slots_end_orphan(&f.slots, 1); /* the writer is back: not its slot any more */
    assert_int_equal(f.slots.in_use, 3);
    tt_cell_slots_orphan(&f.slots, 1, EXECUTOR); /* an orphan that no cell takes */
    tt_cell_slots_end_orphan(&f.slots, 1);
    assert_int_equal(f.slots.in_use, 2);
    assert_int_equal(f.slots.reserved, 2);
    tt_cell_slots_give(&f.slots, 0);
    tt_cell_slots_give(&f.slots, 2);
    fixture_fini(&f, 2);
}

/* Another executor still writes it, before or after this one would: it must not be taken. */
static void test_orphan_of_another_executor(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, 3);
    int32_t slots[3];
    tt_cell_slots_take(&f.slots, 3, slots);
    tt_cell_slots_orphan(&f.slots, 1, EXECUTOR + 1);
    assert_false(keep(&f, 0, 3, (int32_t[]){2, -1, 0}));
    expect_items(&f, 3, (int32_t[]){0, 1, 2});
    assert_int_equal(f.slots.reserved, 3);
    tt_cell_slots_end_orphan(&f.slots, 1);
    assert_int_equal(f.slots.in_use, 2);
    tt_cell_slots_give(&f.slots, 0);
    tt_cell_slots_give(&f.slots, 2);
    fixture_fini(&f, 2);
}

/* Two cells of the same source: one of them keeps the row. */
static void test_same_source(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, 1);
    int32_t slot;
    tt_cell_slots_take(&f.slots, 1, &slot);
    assert_true(keep(&f, slot, 2, (int32_t[]){slot, slot}));
    expect_items(&f, 2, (int32_t[]){0, 1});
    tt_cell_slots_give(&f.slots, slot);
    tt_cell_slots_give(&f.slots, slot + 1);
    fixture_fini(&f, 2);
}

/* Half of the slots are promised, or the range would not end among them: nothing is borrowed. */
static void test_scarce(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f, CAPACITY / 2);
    int32_t slot;
    tt_cell_slots_take(&f.slots, 1, &slot);
    assert_false(keep(&f, slot, 2, (int32_t[]){slot, -1}));
    assert_true(keep(&f, slot, 1, (int32_t[]){slot})); /* which needs none */
    assert_false(tt_cell_row_assignment_borrow(&f.slots, 1));
    assert_false(keep(&f, CAPACITY - 1, 2, (int32_t[]){CAPACITY - 1, -1}));
    assert_int_equal(f.slots.in_use, 1);
    tt_cell_slots_give(&f.slots, slot);
    fixture_fini(&f, CAPACITY / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gap_filled),   cmocka_unit_test(test_gap_needed),
        cmocka_unit_test(test_orphan_taken), cmocka_unit_test(test_orphan_of_another_executor),
        cmocka_unit_test(test_same_source),  cmocka_unit_test(test_scarce),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
