/* Whose turn it is: what is deferred goes on in order, in later turns, and never after it was
 * forgotten. */
#include "base/loop_turn.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CLIENTS = 3 };

struct client {
    struct tt_loop_behind behind;
    struct world *world;
    int left; /* requests */
};

static struct world {
    struct tt_loop_turn turn;
    struct client clients[CLIENTS];
    int order[16], count, woken;
} world;

static void wake(void *context) { ((struct world *)context)->woken++; }

static void go_on(struct tt_loop_behind *behind) {
    struct client *self = TT_CONTAINER_OF(behind, struct client, behind);
    world.order[world.count++] = (int)(self - world.clients);
    if (--self->left > 0)
        tt_loop_turn_defer(&world.turn, behind);
}

static void open_world(int64_t length_ns, int left) {
    world = (struct world){0};
    tt_loop_turn_init(&world.turn, wake, &world);
    world.turn.length_ns = length_ns;
    for (int i = 0; i < CLIENTS; i++) {
        world.clients[i] = (struct client){.behind = {.go_on = go_on}, .left = left};
        tt_loop_turn_defer(&world.turn, &world.clients[i].behind);
    }
}

static void expect_order(const int *order, int count) {
    assert_int_equal(world.count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(world.order[i], order[i]);
}

/* In a turn that is over at once one client goes on, and the next turn goes on with the next one.
 */
static void test_short_turns(void **state) {
    (void)state;
    static const int order[] = {0, 1, 2, 0, 1, 2};
    open_world(0, 2);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(world.count, i);
        world.woken = 0;
        tt_loop_turn_next(&world.turn);
        tt_loop_turn_go_on(&world.turn);
        assert_int_equal(world.woken > 0, i < 5);
    }
    expect_order(order, 6);
    tt_loop_turn_go_on(&world.turn);
    assert_int_equal(world.count, 6);
}

/* A long turn goes on with each client once: the loop reads its sockets before the second time. */
static void test_long_turn(void **state) {
    (void)state;
    static const int order[] = {0, 1, 2, 0, 1, 2};
    open_world(INT64_MAX / 4, 2);
    tt_loop_turn_go_on(&world.turn);
    expect_order(order, 3);
    tt_loop_turn_next(&world.turn);
    tt_loop_turn_go_on(&world.turn);
    expect_order(order, 6);
}

static void test_forgotten(void **state) {
    (void)state;
    static const int order[] = {0, 2};
    open_world(INT64_MAX / 4, 1);
    tt_loop_turn_defer(&world.turn, &world.clients[0].behind); /* it waits already */
    tt_loop_turn_forget(&world.clients[1].behind);
    tt_loop_turn_forget(&world.clients[1].behind);
    tt_loop_turn_go_on(&world.turn);
    expect_order(order, 2);
}

/* A turn begins with the first question, and not before the loop has read its sockets again. */
static void test_end_of_a_turn(void **state) {
    (void)state;
    tt_loop_turn_init(&world.turn, NULL, NULL);
    world.turn.length_ns = INT64_MAX / 4;
    assert_false(tt_loop_turn_is_over(&world.turn));
    world.turn.ends_at = 1; /* long ago */
    assert_true(tt_loop_turn_is_over(&world.turn));
    assert_true(tt_loop_turn_is_over(&world.turn));
    tt_loop_turn_next(&world.turn);
    assert_false(tt_loop_turn_is_over(&world.turn));
}

/* Lanes go on one after another, however many wait on each. */
static void test_lanes_go_on_in_turn(void **state) {
    (void)state;
    static const int order[] = {0, 2, 1};
    open_world(0, 1);
    for (int i = 0; i < CLIENTS; i++)
        tt_loop_turn_forget(&world.clients[i].behind);
    world.clients[2].behind.lane = 7 + TT_LOOP_LANES; /* the others are on lane 0 */
    for (int i = 0; i < CLIENTS; i++)
        tt_loop_turn_defer(&world.turn, &world.clients[i].behind);
    for (int i = 0; i < CLIENTS; i++) {
        tt_loop_turn_next(&world.turn);
        tt_loop_turn_go_on(&world.turn);
    }
    expect_order(order, 3);
    assert_int_equal(world.turn.behind_count, 0);
}

/* Once a turn is over each lane still reads once in it. */
static void test_who_must_wait(void **state) {
    (void)state;
    struct tt_loop_turn *turn = &world.turn;
    tt_loop_turn_init(turn, NULL, NULL);
    turn->length_ns = 0;
    for (int i = 0; i < 3; i++) /* one lane alone */
        assert_false(tt_loop_turn_must_wait(turn, 5, false));
    assert_true(tt_loop_turn_must_wait(turn, 5, true));
    assert_false(tt_loop_turn_must_wait(turn, 6, false));
    assert_true(tt_loop_turn_must_wait(turn, 6, false));
    assert_true(tt_loop_turn_must_wait(turn, 5, false));
    assert_false(tt_loop_turn_must_wait(turn, 7, false));
    tt_loop_turn_next(turn);
    assert_false(tt_loop_turn_must_wait(turn, 5, false));
    assert_true(tt_loop_turn_must_wait(turn, 5, false));
    turn->mixed_until = 0; /* a minute later */
    assert_false(tt_loop_turn_must_wait(turn, 5, false));

    turn->length_ns = INT64_MAX / 4;
    tt_loop_turn_next(turn);
    for (int i = 0; i < 3; i++) {
        assert_false(tt_loop_turn_must_wait(turn, 5, true));
        assert_false(tt_loop_turn_must_wait(turn, 6, false));
    }
}

/* What takes long by itself begins in the first quarter of a turn only. */
static void test_long_reads(void **state) {
    (void)state;
    struct tt_loop_turn *turn = &world.turn;
    open_world(INT64_MAX / 4, 1);
    assert_false(tt_loop_turn_must_wait(turn, 0, true));
    turn->ends_at -= turn->length_ns / 2;
    assert_true(tt_loop_turn_must_wait(turn, 0, true));
    assert_false(tt_loop_turn_must_wait(turn, 0, false));
    for (int i = 0; i < 3; i++)
        world.clients[i].behind.is_long = i == 1;
    tt_loop_turn_go_on(turn); /* no more after a long one */
    assert_int_equal(world.count, 2);
    tt_loop_turn_next(turn);
    tt_loop_turn_go_on(turn);
    assert_int_equal(world.count, 3);
}

static void read_in_turn(struct tt_loop_behind *behind) {
    assert_false(tt_loop_turn_must_wait(&world.turn, behind->lane, false));
    world.count++;
}

/* A connection does not pass those of its lane that wait. */
static void test_none_passes_its_lane(void **state) {
    (void)state;
    struct tt_loop_behind behind = {.lane = 5, .go_on = read_in_turn};
    open_world(INT64_MAX / 4, 1);
    assert_false(tt_loop_turn_must_wait(&world.turn, 5, false));
    assert_false(tt_loop_turn_must_wait(&world.turn, 6, false));
    tt_loop_turn_defer(&world.turn, &behind);
    assert_true(tt_loop_turn_must_wait(&world.turn, 5, false));
    assert_false(tt_loop_turn_must_wait(&world.turn, 6, false));
    tt_loop_turn_go_on(&world.turn);
    assert_int_equal(world.count, CLIENTS + 1);
    assert_false(tt_loop_turn_must_wait(&world.turn, 5, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_turns),         cmocka_unit_test(test_long_turn),
        cmocka_unit_test(test_forgotten),           cmocka_unit_test(test_end_of_a_turn),
        cmocka_unit_test(test_lanes_go_on_in_turn), cmocka_unit_test(test_who_must_wait),
        cmocka_unit_test(test_long_reads),          cmocka_unit_test(test_none_passes_its_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
