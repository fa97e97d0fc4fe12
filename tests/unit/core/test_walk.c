/* How tasks go through recurrent blocks: S E0 E1 S D, in every way of walking (C2, L3). */
#include "core/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_step steps[] = {{.name = "in", .kind = TT_STEP_STATIC},
                                       {.name = "encode 0", .kind = TT_STEP_ENCODER},
                                       {.name = "encode 1", .kind = TT_STEP_ENCODER},
                                       {.name = "between", .kind = TT_STEP_STATIC},
                                       {.name = "decode", .kind = TT_STEP_DECODER}};
static const struct tt_step_model model = {
    .name = "model", .step_count = TT_COUNT(steps), .steps = steps};

/* A request's rounds: input length n in `length`, output length m in `priority`. */
struct bench {
    struct tt_request requests[2];
    struct tt_walk_route route;
    struct tt_walk_members members;
    struct tt_walk walk;
};

static int32_t rounds(void *context, int32_t member, enum tt_step_kind kind) {
    const struct bench *b = context;
    const struct tt_request *request = &b->requests[member];
    return kind == TT_STEP_ENCODER ? request->length : request->priority;
}

static int32_t behind_it(void *context, int32_t member) {
    const struct bench *b = context;
    return b->requests[member].round;
}

/* Two requests (n, m) at `step`, with this number of rounds done. */
static void set(struct bench *b, enum tt_task_walk walk, int32_t first, int32_t last,
                const int32_t nm[4], const int32_t behind[2]) {
    memset(b, 0, sizeof(*b));
    for (int32_t i = 0; i < 2; i++)
        b->requests[i] = (struct tt_request){.length = nm[2 * i],
                                             .priority = nm[2 * i + 1],
                                             .step = first,
                                             .round = behind ? behind[i] : 0};
    b->route =
        (struct tt_walk_route){.first_step = first, .last_step = last, .repeat = 1, .walk = walk};
    b->members = (struct tt_walk_members){
        .context = b, .count = 2, .rounds = rounds, .rounds_done = behind_it};
}

/* Walks until it ends, diverges, or `stop_after` steps have ended; `expected` has the steps as
 * digits. */
static enum tt_walk_next walk(struct bench *b, int32_t stop_after, const char *expected) {
    char seen[64] = "";
    size_t count = 0;
    enum tt_walk_next next;
    tt_walk_begin(&b->walk, &model, &b->route, &b->members);
    for (;;) {
        seen[count++] = (char)('0' + b->walk.step);
        next = tt_walk_step_done(&b->walk);
        if (next != TT_WALK_GOES_ON || (int32_t)count == stop_after)
            break;
        tt_walk_go_on(&b->walk, &b->members);
    }
    seen[count] = '\0';
    assert_string_equal(seen, expected);
    return next;
}

static void expect(const struct bench *b, int32_t item, int32_t step, int32_t round) {
    struct tt_walk_place place = tt_walk_place_of(&b->walk, &b->members, item);
    assert_int_equal(place.step, step);
    assert_int_equal(place.round, round);
}

static void test_together_to_the_longest(void **state) {
    (void)state;
    struct bench b;
    set(&b, TT_WALK_TOGETHER, 0, 4, (int32_t[]){1, 3, 3, 2}, NULL);
    assert_int_equal(walk(&b, 99, "01212123444"), TT_WALK_ENDS);
    expect(&b, 0, 5, 0);
    expect(&b, 1, 5, 0);
}

static void test_parting_at_the_shortest(void **state) {
    (void)state;
    struct bench b;
    set(&b, TT_WALK_DIVERGING, 0, 4, (int32_t[]){1, 3, 3, 2}, NULL);
    assert_int_equal(walk(&b, 99, "012"), TT_WALK_DIVERGES);
    expect(&b, 0, 3, 0);
    expect(&b, 1, 1, 1);
    set(&b, TT_WALK_DIVERGING, 3, 4, (int32_t[]){1, 3, 3, 2}, NULL);
    assert_int_equal(walk(&b, 99, "344"), TT_WALK_DIVERGES);
    expect(&b, 0, 4, 2);
    expect(&b, 1, 5, 0);
}

/* The task begins in the middle of a block, its members at different rounds. */
static void test_begins_inside_a_block(void **state) {
    (void)state;
    struct bench b;
    set(&b, TT_WALK_DIVERGING, 2, 4, (int32_t[]){4, 1, 2, 1}, (int32_t[]){3, 1});
    assert_int_equal(walk(&b, 99, "234"), TT_WALK_ENDS);
    expect(&b, 0, 5, 0);
    set(&b, TT_WALK_DIVERGING, 2, 4, (int32_t[]){4, 1, 3, 1}, (int32_t[]){1, 1});
    assert_int_equal(walk(&b, 99, "212"), TT_WALK_DIVERGES);
    expect(&b, 0, 1, 3);
    expect(&b, 1, 3, 0);
}

/* A task that ends in the middle of a block runs the first part of it once. */
static void test_ends_inside_a_block(void **state) {
    (void)state;
    struct bench b;
    set(&b, TT_WALK_DIVERGING, 0, 1, (int32_t[]){4, 1, 2, 1}, NULL);
    assert_int_equal(walk(&b, 99, "01"), TT_WALK_ENDS);
    expect(&b, 0, 2, 0);
    expect(&b, 1, 2, 0);
}

static void test_stopped_at_boundaries(void **state) {
    (void)state;
    struct bench b;
    int32_t nm[] = {3, 1, 1, 1};
    set(&b, TT_WALK_TOGETHER, 0, 4, nm, NULL);
    assert_int_equal(walk(&b, 4, "0121"), TT_WALK_GOES_ON);
    expect(&b, 0, 2, 1); /* in its second round */
    expect(&b, 1, 3, 0); /* it was through, and was carried along */
    set(&b, TT_WALK_TOGETHER, 0, 4, nm, NULL);
    assert_int_equal(walk(&b, 3, "012"), TT_WALK_GOES_ON);
    expect(&b, 0, 1, 1);
    expect(&b, 1, 3, 0);
    set(&b, TT_WALK_TOGETHER, 0, 4, nm, NULL);
    assert_int_equal(walk(&b, 1, "0"), TT_WALK_GOES_ON);
    expect(&b, 0, 1, 0);
}

/* One cell, once or several times in a row: a member with rounds left comes back. */
static void test_once(void **state) {
    (void)state;
    struct bench b;
    set(&b, TT_WALK_ONCE, 4, 4, (int32_t[]){1, 3, 1, 2}, (int32_t[]){1, 1});
    assert_int_equal(walk(&b, 99, "4"), TT_WALK_ENDS);
    expect(&b, 0, 4, 2);
    expect(&b, 1, 5, 0);
    set(&b, TT_WALK_ONCE, 4, 4, (int32_t[]){1, 3, 1, 2}, NULL);
    b.route.repeat = 2;
    assert_int_equal(walk(&b, 99, "44"), TT_WALK_ENDS);
    expect(&b, 0, 4, 2);
    expect(&b, 1, 5, 0);
}

static void test_blocks(void **state) {
    (void)state;
    assert_int_equal(tt_step_block_of(&model, 0).first, -1);
    assert_int_equal(tt_step_block_of(&model, 2).first, 1);
    assert_int_equal(tt_step_block_of(&model, 1).last, 2);
    assert_int_equal(tt_step_block_of(&model, 4).first, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_to_the_longest),
        cmocka_unit_test(test_parting_at_the_shortest),
        cmocka_unit_test(test_begins_inside_a_block),
        cmocka_unit_test(test_ends_inside_a_block),
        cmocka_unit_test(test_stopped_at_boundaries),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
