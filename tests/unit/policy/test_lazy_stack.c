/* L1: the entries after the running entry's members have moved to any steps. Members that left are
 * removed. An entry for each step holds the others, in the order in which they were admitted. */
#include "policy/lazy/lazy_stack.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CAPACITY = 24, CASES = 20000 };

static struct tt_request requests[CAPACITY];
static struct tt_lazy_stack stack;

static void add(int32_t number, int32_t step, int32_t length) {
    requests[number] = (struct tt_request){.number = number,
                                           .rows = 1 + number % 3,
                                           .length = length,
                                           .step = step,
                                           .state = TT_REQUEST_QUEUED};
    struct tt_lazy_member member = {.request = &requests[number], .full_ns = 10 + number};
    tt_lazy_stack_add(&stack, &member);
}

/* Moves the request to `step`, after `round` rounds of its block; -1: it has left. */
static void move(int32_t number, int32_t step, int32_t round) {
    requests[number].state = step < 0 ? TT_REQUEST_LEAVING : TT_REQUEST_QUEUED;
    requests[number].step = step;
    requests[number].round = round;
}

static void demand_entry(int32_t index, int32_t step, int32_t count, const int32_t *numbers) {
    const struct tt_lazy_entry *entry = &stack.entries[index];
    assert_int_equal(entry->place.step, step);
    assert_int_equal(entry->count, count);
    for (int32_t i = 0; i < count; i++)
        assert_int_equal(stack.members[entry->first + i].request->number, numbers[i]);
}

static void test_three_steps(void **state) {
    (void)state;
    assert_int_equal(tt_lazy_stack_init(&stack, CAPACITY, 1), TT_OK);
    tt_lazy_stack_push(&stack, 0, 2);
    add(9, 2, 5);
    tt_lazy_stack_push(&stack, 0, 0);
    for (int32_t i = 0; i < 8; i++)
        add(i, 0, i);
    tt_lazy_stack_top(&stack)->padded = 7;
    move(0, -1, 0);
    move(1, 1, 3);
    move(2, 2, 0);
    move(3, 0, 4);
    move(4, 1, 1);
    move(5, 2, 0);
    move(6, 0, 6);
    move(7, -1, 0);
    tt_lazy_stack_settle(&stack);
    tt_lazy_stack_check(&stack);
    assert_int_equal(stack.depth, 4);
    demand_entry(0, 2, 1, (int32_t[]){9});
    demand_entry(1, 2, 2, (int32_t[]){2, 5});
    demand_entry(2, 1, 2, (int32_t[]){1, 4});
    demand_entry(3, 0, 2, (int32_t[]){3, 6});
    assert_int_equal(stack.entries[2].place.round, 1);
    assert_int_equal(stack.entries[3].length, 6);
    assert_int_equal(stack.entries[3].padded, 7);
    tt_lazy_stack_fini(&stack);
}

static void test_all_left(void **state) {
    (void)state;
    assert_int_equal(tt_lazy_stack_init(&stack, CAPACITY, 1), TT_OK);
    tt_lazy_stack_push(&stack, 0, 0);
    for (int32_t i = 0; i < 3; i++) {
        add(i, 0, 1);
        move(i, -1, 0);
    }
    tt_lazy_stack_settle(&stack);
    tt_lazy_stack_check(&stack);
    assert_int_equal(stack.depth, 0);
    assert_int_equal(stack.rows_of_model[0], 0);
    tt_lazy_stack_fini(&stack);
}

/* The entries from `base` on: larger steps below smaller ones, each in the former order. */
static void demand_order(int32_t base, const int32_t *place_before) {
    for (int32_t e = base; e < stack.depth; e++) {
        const struct tt_lazy_entry *entry = &stack.entries[e];
        if (e > base)
            assert_true(entry->place.step < stack.entries[e - 1].place.step);
        for (int32_t i = entry->first + 1; i < entry->first + entry->count; i++)
            assert_true(place_before[stack.members[i].request->number] >
                        place_before[stack.members[i - 1].request->number]);
    }
}

static int32_t rows_here(int32_t count) {
    int32_t rows = 0;
    for (int32_t i = 0; i < count; i++)
        rows += requests[i].state == TT_REQUEST_QUEUED ? requests[i].rows : 0;
    return rows;
}

/* Tasks that end at any step; the two topmost entries merge where they meet. */
static void test_any_steps(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(4), 0);
    for (int32_t c = 0; c < CASES; c++) {
        assert_int_equal(tt_lazy_stack_init(&stack, CAPACITY, 1), TT_OK);
        tt_lazy_stack_push(&stack, 0, 0);
        int32_t count = 1 + (int32_t)tt_prng_below(&prng, CAPACITY);
        for (int32_t i = 0; i < count; i++)
            add(i, 0, (int32_t)tt_prng_below(&prng, 6));
        uint64_t steps = 1 + tt_prng_below(&prng, 4);
        while (stack.depth > 0) {
            int32_t place_before[CAPACITY], base = stack.depth - 1;
            for (int32_t i = tt_lazy_stack_top(&stack)->first; i < stack.count; i++) {
                int32_t number = (int32_t)stack.members[i].request->number;
                place_before[number] = i;
                move(number, (int32_t)tt_prng_below(&prng, steps + 1) - 1,
                     (int32_t)tt_prng_below(&prng, 5));
            }
            tt_lazy_stack_settle(&stack);
            tt_lazy_stack_check(&stack);
            demand_order(base, place_before);
            assert_int_equal(stack.rows_of_model[0], rows_here(count));
            const struct tt_lazy_entry *top = tt_lazy_stack_top(&stack);
            if (stack.depth > 1 && top[-1].place.step == top->place.step)
                tt_lazy_stack_merge(&stack);
            tt_lazy_stack_check(&stack);
        }
        assert_int_equal(rows_here(count), 0);
        tt_lazy_stack_fini(&stack);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_steps),
        cmocka_unit_test(test_all_left),
        cmocka_unit_test(test_any_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
