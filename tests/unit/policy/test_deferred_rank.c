/* S3, S4: the rank half alone: which executor a message that takes time reaches, and broken states.
 */
#include "policy/deferred/deferred_rank.h"

#include "unit/breach.h"

enum { MODELS = 3, EXECUTORS = 2 };

/* Two executors that take messages ahead, busy until 100 and 120. */
static struct tt_deferred_rank busy_rank(void) {
    struct tt_deferred_rank rank;
    if (tt_deferred_rank_init(&rank, MODELS, EXECUTORS, true))
        _exit(3);
    for (int32_t e = 0; e < EXECUTORS; e++) {
        struct tt_deferred_candidate c = {.model = 0, .size = 1, .latest_at = 50, .key = 50};
        struct tt_deferred_grant grant;
        tt_deferred_rank_add(&rank, 0, e, 2);
        tt_deferred_rank_candidate(&rank, 0, &c);
        if (!tt_deferred_rank_next(&rank, 0, &grant) || grant.executor != e)
            _exit(4);
        tt_deferred_rank_dispatched(
            &rank, 0,
            &(struct tt_deferred_dispatched){
                .executor = e, .taken = true, .start_at = 0, .free_at = 100 + 20 * e});
        tt_deferred_rank_candidate(&rank, 0, &(struct tt_deferred_candidate){.model = 0});
    }
    tt_deferred_rank_check(&rank);
    return rank;
}

static void offer(struct tt_deferred_rank *rank, int64_t now, int32_t model, int64_t lead_ns,
                  int64_t latest_at) {
    struct tt_deferred_candidate c = {.model = model,
                                      .size = 1,
                                      .exec_at = now + lead_ns,
                                      .latest_at = latest_at,
                                      .key = latest_at,
                                      .lead_ns = lead_ns};
    tt_deferred_rank_candidate(rank, now, &c);
}

/* The next grant at `now` as model * 10 + executor; -1: none. */
static int32_t granted(struct tt_deferred_rank *rank, int64_t now) {
    struct tt_deferred_grant grant;
    bool any = tt_deferred_rank_next(rank, now, &grant);
    tt_deferred_rank_check(rank);
    return any ? grant.model * 10 + grant.executor : -1;
}

/* Appendix D: an executor is granted from the longest lead before it is free. */
static void test_the_longest_lead_sets_the_time(void **state) {
    (void)state;
    struct tt_deferred_rank rank = busy_rank();
    offer(&rank, 10, 1, 5, 300);
    assert_int_equal(granted(&rank, 10), -1);
    assert_int_equal(tt_deferred_rank_next_at(&rank), 95);
    offer(&rank, 11, 2, 30, 400);
    assert_int_equal(granted(&rank, 11), -1);
    assert_int_equal(tt_deferred_rank_next_at(&rank), 70);
    assert_int_equal(granted(&rank, 69), -1);
    assert_int_equal(granted(&rank, 70), 10); /* model 1 has the smaller key */
    tt_deferred_rank_fini(&rank);
}

/* An executor whose task should long have ended is taken only if no other can be. */
static void test_a_late_executor_comes_last(void **state) {
    (void)state;
    struct tt_deferred_rank rank = busy_rank();
    tt_deferred_rank_finished(&rank, 105, 1);
    offer(&rank, 105, 1, 5, 300);
    assert_int_equal(granted(&rank, 105), 10); /* its end may be under way to here */
    tt_deferred_rank_fini(&rank);
    rank = busy_rank();
    tt_deferred_rank_finished(&rank, 106, 1);
    offer(&rank, 106, 1, 5, 300);
    assert_int_equal(granted(&rank, 106), 11);
    tt_deferred_rank_fini(&rank);
    rank = busy_rank();
    offer(&rank, 200, 1, 5, 300);
    assert_int_equal(granted(&rank, 200), 10);
    tt_deferred_rank_fini(&rank);
}

/* Between threads the task of an executor may end before a grant that was made ahead of that is
 * answered: the executor is not granted a second time. */
static void test_a_task_ends_before_the_answer(void **state) {
    (void)state;
    struct tt_deferred_rank rank = busy_rank();
    offer(&rank, 70, 1, 30, 400);
    assert_int_equal(granted(&rank, 70), 10);
    tt_deferred_rank_finished(&rank, 80, 0);
    tt_deferred_rank_check(&rank);
    offer(&rank, 80, 2, 5, 400);
    assert_int_equal(granted(&rank, 80), -1);
    const struct tt_deferred_dispatched taken = {
        .executor = 0, .taken = true, .start_at = 100, .free_at = 200};
    tt_deferred_rank_dispatched(&rank, 81, &taken);
    assert_int_equal(granted(&rank, 81), -1);
    assert_int_equal(granted(&rank, 115), 21); /* the other one is free at 120 */
    tt_deferred_rank_fini(&rank);
}

/* What no executor reaches in time holds up no other, and returns if one is free earlier. */
static void test_a_candidate_is_passed(void **state) {
    (void)state;
    struct tt_deferred_rank rank = busy_rank();
    offer(&rank, 10, 1, 5, 99);
    offer(&rank, 10, 2, 30, 400);
    assert_int_equal(granted(&rank, 10), -1);
    assert_int_equal(tt_deferred_rank_next_at(&rank), 70);
    tt_deferred_rank_finished(&rank, 40, 1); /* earlier than predicted */
    assert_int_equal(granted(&rank, 40), 11);
    tt_deferred_rank_fini(&rank);
}

/* An executor that a long message reaches is not free for a short one. */
static void test_a_short_message_waits(void **state) {
    (void)state;
    struct tt_deferred_rank rank = busy_rank();
    offer(&rank, 90, 1, 40, 300);
    assert_int_equal(granted(&rank, 90), 10);
    tt_deferred_rank_dispatched(&rank, 90,
                                &(struct tt_deferred_dispatched){
                                    .executor = 0, .taken = true, .start_at = 130, .free_at = 200});
    tt_deferred_rank_candidate(&rank, 90, &(struct tt_deferred_candidate){.model = 1});
    offer(&rank, 91, 2, 10, 300);
    assert_int_equal(granted(&rank, 91), -1);
    assert_int_equal(tt_deferred_rank_next_at(&rank), 110);
    assert_int_equal(granted(&rank, 110), 21);
    tt_deferred_rank_fini(&rank);
}

/* ---- broken states ---- */

static struct tt_deferred_rank ready_rank(void) {
    struct tt_deferred_rank rank = busy_rank();
    offer(&rank, 10, 1, 5, 300);
    offer(&rank, 10, 2, 5, 99);
    if (granted(&rank, 10) != -1)
        _exit(5);
    return rank;
}
static void sound(void) {
    struct tt_deferred_rank rank = ready_rank();
    tt_deferred_rank_check(&rank);
}
static void a_ready_model_without_lead(void) {
    struct tt_deferred_rank rank = ready_rank();
    tt_heap_remove(&rank.leads, 1);
    tt_deferred_rank_check(&rank);
}
static void another_lead(void) {
    struct tt_deferred_rank rank = ready_rank();
    rank.candidates[1].lead_ns++;
    tt_deferred_rank_check(&rank);
}
static void passed_and_ready(void) {
    struct tt_deferred_rank rank = ready_rank();
    tt_heap_set(&rank.passed, 1, -300, 1);
    tt_deferred_rank_check(&rank);
}
static void nothing_is_passed(void) {
    struct tt_deferred_rank rank = ready_rank();
    rank.candidates[2].size = 0;
    tt_deferred_rank_check(&rank);
}

static void test_broken_states_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(a_ready_model_without_lead, "tt_heap_contains(&self->leads, m) == ready"),
        BREACH(another_lead, "tt_heap_key(&self->leads, m)"),
        BREACH(passed_and_ready, "!(passed && (waits || ready))"),
        BREACH(nothing_is_passed, "|| !passed"),
    };
    assert_holds(sound);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_lead_sets_the_time),
        cmocka_unit_test(test_a_late_executor_comes_last),
        cmocka_unit_test(test_a_task_ends_before_the_answer),
        cmocka_unit_test(test_a_candidate_is_passed),
        cmocka_unit_test(test_a_short_message_waits),
        cmocka_unit_test(test_broken_states_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
