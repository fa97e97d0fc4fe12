/* D4: tasks that take up the members of a task that has not ended: what is accepted, which task has
 * the requests at which moment, and how they leave. */
#include "core/follow.h"

#include "unit/core/mechanism_world.h"

/* Steps 0 and 1 of all waiting requests on executor 0, and steps 2 and 3 behind it on executor 1.
 */
static void run_and_follow(struct world *world, int64_t now) {
    run_on(world, 0, 1, now);
    tt_mechanism_run_begin(&world->mechanism, 1, 0, 2, 3);
    tt_mechanism_run_follow(&world->mechanism, world->started[0]);
    tt_mechanism_run_commit(&world->mechanism, now);
}

static void requests_go_from_task_to_task(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *a = arrive(&world, 0, 0, 1, 1), *b = arrive(&world, 0, 0, 2, 2);
    decide(&world, 0, run_and_follow);
    assert_int_equal(world.start_count, 2);
    struct tt_task *first = world.started[0], *second = world.started[1];
    assert_ptr_equal(second->after, first);
    assert_ptr_equal(first->follower, second);
    assert_int_equal(second->rows, 3);
    assert_ptr_equal(second->items[0].request, a);
    assert_ptr_equal(second->items[1].request, b);
    assert_int_equal(second->begin_count, 0);
    assert_ptr_equal(a->task, first);
    finish(&world, 20, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(world.policy.finished, 1);
    assert_int_equal(a->state, TT_REQUEST_RUNNING);
    assert_int_equal(a->step, 2);
    assert_ptr_equal(a->task, second);
    assert_null(second->after);
    assert_int_equal(second->start_at, 20);
    assert_int_equal(world.ending_count, 0);
    finish(&world, 31, 1, TT_OUTCOME_DONE, 3);
    expect_ending(&world, 0, 31, 1, TT_ENDING_DONE);
    expect_ending(&world, 1, 31, 2, TT_ENDING_DONE);
    assert_int_equal(world.mechanism.requests.in_use, 0);
    /* The memory of both tasks does not keep the relation. */
    arrive(&world, 40, 0, 1, 3);
    decide(&world, 40, run_all_steps);
    assert_null(world.started[2]->follower);
    finish(&world, 50, 0, TT_OUTCOME_DONE, STEPS - 1);
    close_world(&world);
}

/* Both steps 0 .. 1 and a follower with step 2, which gets a follower with step 3 in the second
 * decision. */
static void run_and_follow_one(struct world *world, int64_t now) {
    run_on(world, 0, 1, now);
    tt_mechanism_run_begin(&world->mechanism, 1, 0, 2, 2);
    tt_mechanism_run_follow(&world->mechanism, world->started[0]);
    tt_mechanism_run_commit(&world->mechanism, now);
}
static void follow_the_follower(struct world *world, int64_t now) {
    tt_mechanism_run_begin(&world->mechanism, 0, 0, 3, 3);
    tt_mechanism_run_follow(&world->mechanism, world->started[1]);
    tt_mechanism_run_commit(&world->mechanism, now);
}

static void a_chain_of_three(void **state) {
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct world world;
        open_world(&world);
        struct tt_request *a = arrive(&world, 0, 0, 1, 1);
        decide(&world, 0, run_and_follow_one);
        if (early) /* while the first of the three still runs */
            decide(&world, 5, follow_the_follower);
        finish(&world, 10, 0, TT_OUTCOME_DONE, 1);
        if (!early)
            decide(&world, 15, follow_the_follower);
        assert_ptr_equal(a->task, world.started[1]);
        finish(&world, 20, 1, TT_OUTCOME_DONE, 2);
        assert_ptr_equal(a->task, world.started[2]);
        finish(&world, 30, 0, TT_OUTCOME_DONE, 3);
        expect_ending(&world, 0, 30, 1, TT_ENDING_DONE);
        close_world(&world);
    }
}

static void failures_leave_with_the_follower(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct world world;
        open_world(&world);
        struct tt_request *a = arrive(&world, 0, 0, 1, 1);
        arrive(&world, 0, 0, 1, 2);
        decide(&world, 0, run_and_follow);
        if (!all)
            world.started[0]->items[0].fate = TT_FATE_FAILS;
        finish(&world, 9, 0, all ? TT_OUTCOME_FAILED : TT_OUTCOME_DONE, all ? -1 : 1);
        assert_int_equal(world.ending_count, 0); /* the follower still has both */
        assert_int_equal(a->state, TT_REQUEST_RUNNING);
        finish(&world, 19, 1, TT_OUTCOME_DONE, 3);
        expect_ending(&world, 0, 19, 1, TT_ENDING_FAILED);
        expect_ending(&world, 1, 19, 2, all ? TT_ENDING_FAILED : TT_ENDING_DONE);
        close_world(&world);
    }
}

/* A device gives back what followed a failed task as ABORTED: it never ran. The requests do not
 * return to the queue. */
static void an_aborted_follower_of_a_failed_task(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    arrive(&world, 0, 0, 1, 1);
    decide(&world, 0, run_and_follow);
    finish(&world, 9, 0, TT_OUTCOME_FAILED, -1);
    finish(&world, 9, 1, TT_OUTCOME_ABORTED, 1);
    expect_ending(&world, 0, 9, 1, TT_ENDING_FAILED);
    assert_true(tt_list_empty(&world.policy.queue));
    close_world(&world);
}

static void cancellation_waits_for_the_follower(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *a = arrive(&world, 0, 0, 1, 1);
    arrive(&world, 0, 0, 1, 2);
    decide(&world, 0, run_and_follow);
    tt_mechanism_cancelled(&world.mechanism, 3, a);
    finish(&world, 9, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(world.ending_count, 0);
    finish(&world, 19, 1, TT_OUTCOME_DONE, 3);
    expect_ending(&world, 0, 19, 1, TT_ENDING_CANCELLED);
    expect_ending(&world, 1, 19, 2, TT_ENDING_DONE);
    close_world(&world);
}

/* Slots between the steps: the follower needs no more than the first task took. */
static void the_follower_keeps_the_slots(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    world.models[0].slots = 3;
    arrive(&world, 0, 0, 3, 1);
    decide(&world, 0, run_and_follow_one);
    assert_int_equal(world.mechanism.kept_rows[0], 3);
    finish(&world, 9, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(world.mechanism.kept_rows[0], 3);
    decide(&world, 10, follow_the_follower);
    finish(&world, 19, 1, TT_OUTCOME_DONE, 2);
    finish(&world, 29, 0, TT_OUTCOME_DONE, 3);
    assert_int_equal(world.mechanism.kept_rows[0], 0);
    close_world(&world);
}

/* ---- forbidden actions ---- */

static void a_and_follow(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, run_and_follow);
}
static void script_follow_again(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_run_begin(&world->mechanism, 0, 0, 2, 3);
    tt_mechanism_run_follow(&world->mechanism, world->started[0]);
}
static void two_followers(struct world *world) {
    a_and_follow(world);
    decide(world, 1, script_follow_again);
}
static void script_follow_step_3(struct world *world, int64_t now) {
    run_on(world, 0, 1, now);
    tt_mechanism_run_begin(&world->mechanism, 1, 0, 3, 3);
    tt_mechanism_run_follow(&world->mechanism, world->started[0]);
}
static void a_step_left_out(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, script_follow_step_3);
}
static void the_follower_first(struct world *world) {
    a_and_follow(world);
    finish(world, 1, 1, TT_OUTCOME_DONE, 3);
}
static void a_member_that_leaves_early(struct world *world) {
    a_and_follow(world);
    world->started[0]->items[0].fate = TT_FATE_LEAVES;
    finish(world, 1, 0, TT_OUTCOME_DONE, 1);
}
static void yield_of_a_followed_task(struct world *world) {
    a_and_follow(world);
    decide(world, 1, yield_0);
}
static void script_abort_1(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_abort(&world->mechanism, 1);
}
static void abort_of_a_follower(struct world *world) {
    a_and_follow(world);
    decide(world, 1, script_abort_1);
}
static void a_relation_of_one_side(struct world *world) {
    a_and_follow(world);
    world->started[1]->after = NULL;
    tt_mechanism_check(&world->mechanism);
}
static void nothing_wrong(struct world *world) {
    a_and_follow(world);
    finish(world, 9, 0, TT_OUTCOME_DONE, 1);
    finish(world, 19, 1, TT_OUTCOME_DONE, 3);
}

static void (*scenario)(struct world *world);

static void in_a_world(void) {
    struct world world;
    open_world(&world);
    scenario(&world);
    close_world(&world);
}

static void breaches_abort(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*scenario)(struct world *world);
        const char *condition;
    } breaches[] = {
        {"two followers", two_followers, "before->follower == NULL"},
        {"a step left out", a_step_left_out, "before->last_step + 1 == task->first_step"},
        {"the follower first", the_follower_first, "task->after == NULL"},
        {"a member that leaves", a_member_that_leaves_early, "item->fate == TT_FATE_GOES_ON"},
        {"yield of a followed task", yield_of_a_followed_task, "follower == NULL"},
        {"abort of a follower", abort_of_a_follower, "after == NULL"},
        {"a relation of one side", a_relation_of_one_side, "task->follower->after == task"},
    };
    scenario = nothing_wrong;
    assert_holds(in_a_world);
    for (size_t i = 0; i < TT_COUNT(breaches); i++) {
        scenario = breaches[i].scenario;
        assert_breaks(in_a_world, breaches[i].name, breaches[i].condition);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_from_task_to_task),
        cmocka_unit_test(a_chain_of_three),
        cmocka_unit_test(failures_leave_with_the_follower),
        cmocka_unit_test(an_aborted_follower_of_a_failed_task),
        cmocka_unit_test(cancellation_waits_for_the_follower),
        cmocka_unit_test(the_follower_keeps_the_slots),
        cmocka_unit_test(breaches_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
