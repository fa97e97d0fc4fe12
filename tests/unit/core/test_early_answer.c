/* E7: requests that are answered before their task ends: what is reported when, that the policy is
 * notified once, and how they leave whatever becomes of the task. */
#include "core/early_answer.h"
#include "core/follow.h"

#include "unit/core/mechanism_world.h"

static struct tt_request *answered, *other;

/* Two requests in one task; the first is answered at 12. */
static void answer_first(struct world *world) {
    answered = arrive(world, 0, 0, 1, 1);
    other = arrive(world, 0, 0, 2, 2);
    decide(world, 0, run_all_steps);
    tt_mechanism_answered(&world->mechanism, 12, answered);
    tt_mechanism_check(&world->mechanism);
}

static void an_answer_before_the_end(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    answer_first(&world);
    expect_ending(&world, 0, 12, 1, TT_ENDING_DONE);
    assert_int_equal(answered->state, TT_REQUEST_RUNNING);
    assert_int_equal(world.policy.finished, 0);
    assert_int_equal(world.mechanism.requests.in_use, 2);
    tt_mechanism_cancelled(&world.mechanism, 13, answered); /* it comes too late */
    finish(&world, 20, 0, TT_OUTCOME_DONE, STEPS - 1);
    assert_int_equal(world.policy.finished, 1);
    assert_int_equal(world.policy.leaving, 2);
    assert_int_equal(world.ending_count, 2);
    expect_ending(&world, 1, 20, 2, TT_ENDING_DONE);
    assert_int_equal(world.mechanism.requests.in_use, 0);
    close_world(&world);
}

static void answers_to_all(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    answer_first(&world);
    tt_mechanism_answered(&world.mechanism, 14, other);
    expect_ending(&world, 1, 14, 2, TT_ENDING_DONE);
    finish(&world, 20, 0, TT_OUTCOME_DONE, STEPS - 1);
    assert_int_equal(world.ending_count, 2);
    assert_int_equal(world.policy.leaving, 2);
    close_world(&world);
}

/* The device fails between two answers: what was answered stays answered. */
static void a_task_that_fails_later(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    answer_first(&world);
    finish(&world, 20, 0, TT_OUTCOME_FAILED, -1);
    assert_int_equal(world.ending_count, 2);
    expect_ending(&world, 1, 20, 2, TT_ENDING_FAILED);
    assert_int_equal(world.mechanism.requests.in_use, 0);
    close_world(&world);
}

static void an_aborted_task(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    answer_first(&world);
    finish(&world, 20, 0, TT_OUTCOME_ABORTED, -1);
    assert_int_equal(world.ending_count, 1);
    assert_int_equal(world.policy.leaving, 1);
    assert_int_equal(other->state, TT_REQUEST_QUEUED);
    assert_int_equal(world.mechanism.requests.in_use, 1);
    close_world(&world);
}

/* ---- breaches ---- */

static void answered_twice(struct world *world) {
    answer_first(world);
    tt_mechanism_answered(&world->mechanism, 13, answered);
}
static void answered_while_it_waits(struct world *world) {
    tt_mechanism_answered(&world->mechanism, 1, arrive(world, 0, 0, 1, 1));
}
static void run_one_step(struct world *world, int64_t now) { run_on(world, 0, 0, now); }
static void answered_between_steps(struct world *world) {
    struct tt_request *request = arrive(world, 0, 0, 1, 1);
    decide(world, 0, run_one_step);
    tt_mechanism_answered(&world->mechanism, 1, request);
}
static void answered_after_a_cancellation(struct world *world) {
    struct tt_request *request = arrive(world, 0, 0, 1, 1);
    decide(world, 0, run_all_steps);
    tt_mechanism_cancelled(&world->mechanism, 1, request);
    tt_mechanism_answered(&world->mechanism, 2, request);
}
static void answered_and_between_steps(struct world *world) {
    answer_first(world);
    answered->task->last_step--;
    tt_mechanism_check(&world->mechanism);
}
static void answered_and_not_counted(struct world *world) {
    answer_first(world);
    world->mechanism.reported--;
    tt_mechanism_check(&world->mechanism);
}
static void nothing_wrong(struct world *world) {
    answer_first(world);
    finish(world, 20, 0, TT_OUTCOME_DONE, STEPS - 1);
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
        {"answered twice", answered_twice, "!request->reported"},
        {"answered while it waits", answered_while_it_waits, "TT_REQUEST_RUNNING"},
        {"answered between steps", answered_between_steps, "step_count - 1"},
        {"answered after a cancellation", answered_after_a_cancellation, "!request->cancelled"},
        {"answered, and steps to come", answered_and_between_steps, "step_count - 1"},
        {"answered, and not counted", answered_and_not_counted, "self->reported"},
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
        cmocka_unit_test(an_answer_before_the_end), cmocka_unit_test(answers_to_all),
        cmocka_unit_test(a_task_that_fails_later),  cmocka_unit_test(an_aborted_task),
        cmocka_unit_test(breaches_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
