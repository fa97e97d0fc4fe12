/* The mechanism under a scripted policy: its calls, what it accepts, its counts. Every broken rule
 * must end the program. */
#include "unit/core/mechanism_world.h"

/* ---- allowed actions ---- */

static void a_request_walks_its_steps(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *a = arrive(&world, 5, 1, 1, 1);
    struct tt_request *b = arrive(&world, 5, 1, 3, 2);
    assert_int_equal(a->number, 0);
    assert_int_equal(b->number, 1);
    assert_int_equal(a->length, 3);
    assert_int_equal(a->priority, 2);
    assert_int_equal(a->deadline_at, 1005);
    assert_int_equal(world.mechanism.model_requests[1], 2);
    tt_mechanism_ready(&world.mechanism, 6, b);
    assert_int_equal(world.policy.ready, 1);
    decide(&world, 7, run_two_steps);
    assert_int_equal(world.start_count, 1);
    struct tt_task *task = world.started[0];
    assert_int_equal(task->number, 0);
    assert_int_equal(task->rows, 4);
    assert_int_equal(task->count, 2);
    assert_int_equal(task->start_at, 7);
    assert_int_equal(task->first_step, 0);
    assert_int_equal(task->last_step, 1);
    assert_int_equal(a->state, TT_REQUEST_RUNNING);
    assert_ptr_equal(b->task, task);
    finish(&world, 20, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(a->state, TT_REQUEST_QUEUED);
    assert_int_equal(a->step, 2);
    assert_int_equal(world.ending_count, 0);
    decide(&world, 20, run_two_steps);
    assert_int_equal(world.started[1]->number, 1);
    assert_int_equal(world.started[1]->first_step, 2);
    finish(&world, 31, 0, TT_OUTCOME_DONE, 3);
    assert_int_equal(world.policy.leaving, 2);
    expect_ending(&world, 0, 31, 1, TT_ENDING_DONE);
    expect_ending(&world, 1, 31, 2, TT_ENDING_DONE);
    assert_int_equal(world.mechanism.ended[TT_ENDING_DONE], 2);
    assert_int_equal(world.mechanism.arrivals, 2);
    assert_int_equal(world.mechanism.runs, 2);
    assert_int_equal(world.mechanism.requests.in_use, 0);
    assert_int_equal(world.mechanism.model_requests[1], 0);
    world.policy.next_at = 77;
    assert_int_equal(tt_mechanism_next_at(&world.mechanism), 77);
    close_world(&world);
}

/* Each item has its own fate: one leaves early, one jumps, one fails, one continues. */
static void fates_are_told_apart(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *request[4];
    for (int i = 0; i < 4; i++)
        request[i] = arrive(&world, 0, 0, 1, i);
    decide(&world, 0, run_two_steps);
    struct tt_task *task = tt_mechanism_oldest(&world.mechanism, 0);
    task->items[0].fate = TT_FATE_LEAVES;
    task->items[1].fate = TT_FATE_JUMPS;
    task->items[1].jump = 0;
    task->items[2].fate = TT_FATE_FAILS;
    finish(&world, 9, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(world.ending_count, 2);
    expect_ending(&world, 0, 9, 0, TT_ENDING_DONE);
    expect_ending(&world, 1, 9, 2, TT_ENDING_FAILED);
    assert_int_equal(request[1]->step, 0);
    assert_int_equal(request[3]->step, 2);
    /* A jump beyond the last step leaves the model. A task's memory does not keep old fates. */
    tt_list_remove(&request[3]->link);
    decide(&world, 10, run_two_steps);
    task = tt_mechanism_oldest(&world.mechanism, 0);
    assert_int_equal(task->items[0].fate, TT_FATE_GOES_ON);
    task->items[0].fate = TT_FATE_JUMPS;
    task->items[0].jump = STEPS;
    finish(&world, 12, 0, TT_OUTCOME_DONE, 1);
    expect_ending(&world, 2, 12, 1, TT_ENDING_DONE);
    assert_int_equal(world.mechanism.ended[TT_ENDING_FAILED], 1);
    assert_int_equal(world.mechanism.ended[TT_ENDING_DONE], 2);
    close_world(&world);
}

static void tasks_end_early(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *a = arrive(&world, 0, 0, 1, 1);
    struct tt_request *b = arrive(&world, 0, 0, 1, 2);
    decide(&world, 0, run_all_steps);
    decide(&world, 3, yield_0);
    assert_int_equal(world.yields, 1);
    assert_int_equal(world.stopped, 0);
    assert_true(world.mechanism.executors[0].stopping);
    finish(&world, 4, 0, TT_OUTCOME_PREEMPTED, 0);
    assert_false(world.mechanism.executors[0].stopping);
    assert_int_equal(a->step, 1);
    assert_int_equal(a->state, TT_REQUEST_QUEUED);
    decide(&world, 5, run_all_steps);
    assert_int_equal(world.started[1]->first_step, 1);
    decide(&world, 6, abort_0);
    assert_int_equal(world.aborts, 1);
    finish(&world, 7, 0, TT_OUTCOME_ABORTED, 0);
    assert_int_equal(a->step, 1); /* none of its results count */
    assert_int_equal(b->step, 1);
    assert_int_equal(world.ending_count, 0);
    decide(&world, 8, run_all_steps);
    finish(&world, 9, 0, TT_OUTCOME_FAILED, 2);
    assert_int_equal(world.mechanism.ended[TT_ENDING_FAILED], 2);
    expect_ending(&world, 1, 9, 2, TT_ENDING_FAILED);
    /* Stopped at a boundary that was its last step: it is done. */
    arrive(&world, 10, 0, 1, 3);
    decide(&world, 10, run_all_steps);
    decide(&world, 11, yield_0);
    finish(&world, 12, 0, TT_OUTCOME_PREEMPTED, STEPS - 1);
    expect_ending(&world, 2, 12, 3, TT_ENDING_DONE);
    close_world(&world);
}

static void cancellation_takes_what_waits_and_marks_what_runs(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_request *waits = arrive(&world, 0, 0, 1, 1);
    tt_mechanism_cancelled(&world.mechanism, 1, waits);
    expect_ending(&world, 0, 1, 1, TT_ENDING_CANCELLED);
    assert_int_equal(world.policy.cancelled, 1);
    assert_true(tt_list_empty(&world.policy.queue));
    struct tt_request *runs = arrive(&world, 2, 0, 1, 2);
    struct tt_request *stays = arrive(&world, 2, 0, 1, 3);
    decide(&world, 2, run_two_steps);
    tt_mechanism_cancelled(&world.mechanism, 3, runs);
    tt_mechanism_cancelled(&world.mechanism, 3, runs); /* a second call has no effect */
    assert_int_equal(world.ending_count, 1);
    assert_int_equal(world.policy.cancelled, 1); /* the policy is notified when the task ends */
    finish(&world, 8, 0, TT_OUTCOME_DONE, 1);
    assert_int_equal(world.policy.leaving, 1);
    expect_ending(&world, 1, 8, 2, TT_ENDING_CANCELLED);
    assert_int_equal(stays->state, TT_REQUEST_QUEUED);
    /* A cancellation overrides an abort (after which it would be queued) and a failure. */
    decide(&world, 9, run_all_steps);
    tt_mechanism_cancelled(&world.mechanism, 9, stays);
    decide(&world, 10, abort_0);
    finish(&world, 11, 0, TT_OUTCOME_ABORTED, 1);
    expect_ending(&world, 2, 11, 3, TT_ENDING_CANCELLED);
    struct tt_request *fails = arrive(&world, 12, 1, 1, 4);
    decide(&world, 12, run_all_steps);
    tt_mechanism_cancelled(&world.mechanism, 13, fails);
    finish(&world, 14, 0, TT_OUTCOME_FAILED, -1);
    expect_ending(&world, 3, 14, 4, TT_ENDING_CANCELLED);
    assert_int_equal(world.mechanism.ended[TT_ENDING_CANCELLED], 4);
    assert_int_equal(world.mechanism.requests.in_use, 0);
    close_world(&world);
}

static void the_limit_is_busy_and_changes_nothing(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < LIMIT; i++)
        arrive(&world, 1, i % MODELS, 1, i);
    struct tt_arrival arrival = {.model = 0, .rows = 1, .deadline_at = TT_NEVER};
    struct tt_request *untouched = (struct tt_request *)&world;
    assert_int_equal(tt_mechanism_arrived(&world.mechanism, 2, &arrival, &untouched), TT_ERR_BUSY);
    assert_ptr_equal(untouched, &world);
    assert_int_equal(world.policy.arrived, LIMIT);
    assert_int_equal(world.mechanism.arrivals, LIMIT);
    assert_int_equal(world.mechanism.model_requests[0], LIMIT / 2);
    tt_mechanism_check(&world.mechanism);
    decide(&world, 3, drop_first);
    expect_ending(&world, 0, 3, 0, TT_ENDING_DROPPED);
    assert_int_equal(world.endings[0].reason, TT_DROP_EARLY);
    assert_int_equal(world.mechanism.ended[TT_ENDING_DROPPED], 1);
    assert_int_equal(arrive(&world, 4, 0, 1, 9)->number, LIMIT);
    close_world(&world);
}

static void executors_queue_up_to_their_depth_and_start_times_hold(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    for (int i = 0; i < 3; i++)
        arrive(&world, 10, 0, 1, i);
    decide(&world, 10, run_on_both);
    assert_int_equal(world.started[0]->executor, 1);
    assert_int_equal(world.started[0]->start_at, 60);
    assert_int_equal(world.started[1]->executor, 0);
    assert_int_equal(world.started[1]->start_at, 10); /* a start in the past is now */
    assert_true(tt_mechanism_has_room(&world.mechanism, 0));
    arrive(&world, 11, 0, 1, 3);
    decide(&world, 11, run_all_steps);
    assert_false(tt_mechanism_has_room(&world.mechanism, 0));
    assert_ptr_equal(tt_mechanism_oldest(&world.mechanism, 0), world.started[1]);
    finish(&world, 20, 0, TT_OUTCOME_DONE, STEPS - 1);
    expect_ending(&world, 0, 20, 2, TT_ENDING_DONE);
    assert_ptr_equal(tt_mechanism_oldest(&world.mechanism, 0), world.started[2]);
    arrive(&world, 21, 0, 1, 4); /* the ring wraps around */
    decide(&world, 21, run_all_steps);
    finish(&world, 30, 0, TT_OUTCOME_DONE, STEPS - 1);
    finish(&world, 40, 0, TT_OUTCOME_DONE, STEPS - 1);
    expect_ending(&world, 1, 30, 3, TT_ENDING_DONE);
    expect_ending(&world, 2, 40, 4, TT_ENDING_DONE);
    assert_null(tt_mechanism_oldest(&world.mechanism, 0));
    finish(&world, 90, 1, TT_OUTCOME_DONE, STEPS - 1);
    assert_int_equal(world.mechanism.ended[TT_ENDING_DONE], 5);
    close_world(&world);
}

static void models_and_executors_come_and_go(void **state) {
    (void)state;
    struct world world;
    open_world(&world);
    struct tt_mechanism *mechanism = &world.mechanism;
    assert_int_equal(world.policy.model_changes, MODELS);
    assert_int_equal(mechanism->executors[1].device, 11);
    arrive(&world, 1, 0, 1, 1);
    decide(&world, 1, run_all_steps);
    tt_mechanism_drain_executor(mechanism, 2, 0);
    assert_false(tt_mechanism_has_room(mechanism, 0));
    assert_int_equal(mechanism->executors[0].state, TT_EXECUTOR_DRAINING);
    tt_mechanism_drain_model(mechanism, 2, 0);
    finish(&world, 9, 0, TT_OUTCOME_DONE, STEPS - 1); /* it finishes its task */
    tt_mechanism_remove_executor(mechanism, 9, 0);
    tt_mechanism_remove_model(mechanism, 9, 0);
    assert_null(mechanism->models[0]);
    tt_mechanism_check(mechanism);
    tt_mechanism_add_model(mechanism, 10, 0, &world.models[0]);
    tt_mechanism_add_executor(mechanism, 10, 0, 7);
    assert_int_equal(mechanism->executors[0].device, 7);
    arrive(&world, 11, 0, 1, 2);
    decide(&world, 11, run_all_steps);
    finish(&world, 15, 0, TT_OUTCOME_DONE, STEPS - 1);
    static const struct change models[] = {{0, TT_CHANGE_ADDED},
                                           {1, TT_CHANGE_ADDED},
                                           {0, TT_CHANGE_DRAINING},
                                           {0, TT_CHANGE_GONE},
                                           {0, TT_CHANGE_ADDED}};
    assert_int_equal(world.policy.model_changes, TT_COUNT(models));
    assert_memory_equal(world.policy.models, models, sizeof(models));
    assert_int_equal(world.policy.executor_changes, TT_COUNT(models));
    assert_memory_equal(world.policy.executors, models, sizeof(models));
    /* An idle executor may be removed without draining. */
    tt_mechanism_remove_executor(mechanism, 16, 1);
    assert_int_equal(mechanism->executors[1].state, TT_EXECUTOR_GONE);
    close_world(&world);
}

static void drop_reasons_have_names(void **state) {
    (void)state;
    assert_string_equal(tt_drop_reason_name(TT_DROP_NONE), "");
    assert_string_equal(tt_drop_reason_name(TT_DROP_DEADLINE), "deadline");
    assert_string_equal(tt_drop_reason_name(TT_DROP_EARLY), "early");
    assert_string_equal(tt_drop_reason_name(TT_DROP_QUEUE_FULL), "queue_full");
    assert_string_equal(tt_drop_reason_name(TT_DROP_WITHDRAWN), "withdrawn");
}

/* ---- forbidden actions: each runs in a child, which must abort with the named condition ---- */

static struct tt_request *take(struct world *world) {
    struct tt_list_node *node = tt_list_first(&world->policy.queue);
    tt_list_remove(node);
    return TT_CONTAINER_OF(node, struct tt_request, link);
}
static void start(struct world *world, int64_t now) {
    arrive(world, now, 0, 1, 1);
    decide(world, now, run_all_steps);
}

static void without_room(struct world *world) {
    for (int i = 0; i <= DEPTH; i++)
        start(world, i);
}
static void on_a_draining_executor(struct world *world) {
    tt_mechanism_drain_executor(&world->mechanism, 1, 0);
    start(world, 2);
}
static void script_run_it_twice(struct world *world, int64_t now) {
    struct tt_request *request = take(world);
    for (int e = 0; e < 2; e++) {
        tt_mechanism_run_begin(&world->mechanism, e, 0, 0, 0);
        tt_mechanism_run_add(&world->mechanism, request);
        tt_mechanism_run_commit(&world->mechanism, now);
    }
}
static void in_two_tasks(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, script_run_it_twice);
}
static void script_drop_running(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_drop(&world->mechanism, world->started[0]->items[0].request, TT_DROP_EARLY);
}
static void drop_of_what_runs(struct world *world) {
    start(world, 0);
    decide(world, 1, script_drop_running);
}
static void script_drop_queued(struct world *world, int64_t now) {
    (void)now;
    struct tt_list_node *node = tt_list_first(&world->policy.queue);
    tt_mechanism_drop(&world->mechanism, TT_CONTAINER_OF(node, struct tt_request, link),
                      TT_DROP_EARLY);
}
static void drop_of_what_is_still_in_a_queue(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, script_drop_queued);
}
static void script_begin_at_step_1(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_run_begin(&world->mechanism, 0, 0, 1, 1);
    tt_mechanism_run_add(&world->mechanism, take(world));
}
static void at_the_wrong_step(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, script_begin_at_step_1);
}
static void script_run_too_far(struct world *world, int64_t now) { run_on(world, 0, STEPS, now); }
static void beyond_the_last_step(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    decide(world, 0, script_run_too_far);
}
static void of_two_models(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    arrive(world, 0, 1, 1, 1);
    decide(world, 0, run_all_steps);
}
static void too_many_rows(struct world *world) {
    arrive(world, 0, 0, MAX_BATCH, 1);
    arrive(world, 0, 0, 1, 2);
    decide(world, 0, run_all_steps);
}
static void too_many_rows_in_one(struct world *world) { arrive(world, 0, 0, MAX_BATCH + 1, 1); }
static void script_empty(struct world *world, int64_t now) {
    tt_mechanism_run_begin(&world->mechanism, 0, 0, 0, 0);
    tt_mechanism_run_commit(&world->mechanism, now);
}
static void an_empty_task(struct world *world) { decide(world, 0, script_empty); }
static void script_begin_only(struct world *world, int64_t now) {
    (void)now;
    tt_mechanism_run_begin(&world->mechanism, 0, 0, 0, 0);
}
static void a_task_never_committed(struct world *world) { decide(world, 0, script_begin_only); }
static void double_yield(struct world *world) {
    start(world, 0);
    decide(world, 1, yield_0);
    decide(world, 2, yield_0);
}
static void abort_after_yield(struct world *world) {
    start(world, 0);
    decide(world, 1, yield_0);
    decide(world, 2, abort_0);
}
static void yield_of_an_idle_executor(struct world *world) { decide(world, 0, yield_0); }
static void run_outside_decide(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    run_all_steps(world, 0);
}
static void drop_outside_decide(struct world *world) {
    arrive(world, 0, 0, 1, 1);
    drop_first(world, 0);
}
static void yield_outside_decide(struct world *world) {
    start(world, 0);
    tt_mechanism_yield(&world->mechanism, 0);
}
static void script_arrive(struct world *world, int64_t now) { arrive(world, now, 0, 1, 1); }
static void telling_inside_decide(struct world *world) { decide(world, 0, script_arrive); }
static void time_going_back(struct world *world) {
    arrive(world, 5, 0, 1, 1);
    arrive(world, 4, 0, 1, 1);
}
static void finished_out_of_order(struct world *world) {
    start(world, 0);
    start(world, 1);
    struct tt_task *second = world->started[1];
    second->last_step_done = second->last_step;
    tt_mechanism_finished(&world->mechanism, 2, second);
}
static void done_but_not_all_steps(struct world *world) {
    start(world, 0);
    finish(world, 1, 0, TT_OUTCOME_DONE, 1);
}
static void arrival_for_no_model(struct world *world) {
    tt_mechanism_remove_model(&world->mechanism, 1, 0);
    arrive(world, 2, 0, 1, 1);
}
static void removing_a_model_with_a_queue(struct world *world) {
    arrive(world, 0, 1, 1, 1);
    tt_mechanism_remove_model(&world->mechanism, 1, 1);
}
static void removing_a_model_that_runs(struct world *world) {
    start(world, 0);
    tt_mechanism_drain_model(&world->mechanism, 1, 0);
    tt_mechanism_remove_model(&world->mechanism, 1, 0);
}
static void removing_a_busy_executor(struct world *world) {
    start(world, 0);
    tt_mechanism_remove_executor(&world->mechanism, 1, 0);
}
static void adding_a_model_twice(struct world *world) {
    tt_mechanism_add_model(&world->mechanism, 1, 0, &world->models[0]);
}
static void adding_an_executor_twice(struct world *world) {
    tt_mechanism_add_executor(&world->mechanism, 1, 0, 0);
}
static void nothing_wrong(struct world *world) {
    start(world, 0);
    finish(world, 1, 0, TT_OUTCOME_DONE, STEPS - 1);
}

static void (*script)(struct world *world);
static void in_a_world(void) {
    struct world world;
    open_world(&world);
    script(&world);
}

static void breaches_abort(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*scenario)(struct world *world);
        const char *condition;
    } breaches[] = {
        BREACH(without_room, "tt_mechanism_has_room(self, executor)"),
        BREACH(on_a_draining_executor, "tt_mechanism_has_room(self, executor)"),
        BREACH(in_two_tasks, "request->state == TT_REQUEST_QUEUED"),
        BREACH(drop_of_what_runs, "request->state == TT_REQUEST_QUEUED"),
        BREACH(drop_of_what_is_still_in_a_queue, "!tt_list_linked("),
        BREACH(at_the_wrong_step, "request->step == task->first_step"),
        BREACH(beyond_the_last_step, "last_step < self->models[model]->step_count"),
        BREACH(of_two_models, "request->model == task->model"),
        BREACH(too_many_rows, "task->rows <= self->models[task->model]->max_batch"),
        BREACH(too_many_rows_in_one, "arrival->rows <= model->max_batch"),
        BREACH(an_empty_task, "task->count > 0"),
        BREACH(a_task_never_committed, "self->building == NULL"),
        BREACH(double_yield, "!e->stopping"),
        BREACH(abort_after_yield, "!e->stopping"),
        BREACH(yield_of_an_idle_executor, "e->queued > 0"),
        BREACH(run_outside_decide, "self->deciding"),
        BREACH(drop_outside_decide, "self->deciding"),
        BREACH(yield_outside_decide, "self->deciding"),
        BREACH(telling_inside_decide, "!self->deciding"),
        BREACH(time_going_back, "now >= self->now"),
        BREACH(finished_out_of_order, "task == &executor->tasks[executor->oldest]"),
        BREACH(done_but_not_all_steps, "task->last_step_done == task->last_step"),
        BREACH(arrival_for_no_model, "model != NULL"),
        BREACH(removing_a_model_with_a_queue, "self->model_requests[model] == 0"),
        BREACH(removing_a_model_that_runs, "self->model_requests[model] == 0"),
        BREACH(removing_a_busy_executor, "e->queued == 0"),
        BREACH(adding_a_model_twice, "self->models[model] == NULL"),
        BREACH(adding_an_executor_twice, "e->state == TT_EXECUTOR_GONE"),
    };
    script = nothing_wrong;
    assert_holds(in_a_world);
    for (size_t i = 0; i < TT_COUNT(breaches); i++) {
        script = breaches[i].scenario;
        assert_breaks(in_a_world, breaches[i].name, breaches[i].condition);
    }
}

/* S4: what is learnt of messages to a device holds for each of its executors, and for no other. */
static void executors_of_a_device_share_its_delay(void **state) {
    (void)state;
    struct world world;
    static const struct tt_network_delay prior = {20 * TT_US, 0};
    open_world_with(&world, (struct tt_mechanism_options){.learns_delays = true, .delay = prior});
    struct tt_mechanism *mechanism = &world.mechanism;
    tt_mechanism_remove_executor(mechanism, 0, 1);
    tt_mechanism_add_executor(mechanism, 0, 1, 10); /* beside executor 0 */
    world.policy.executor_changes = 0;
    for (int64_t i = 0; i < 4; i++) {
        arrive(&world, i * TT_S, 0, 1, i);
        decide(&world, i * TT_S, run_all_steps);
        tt_mechanism_oldest(mechanism, 0)->received_at = i * TT_S + 900 * TT_US;
        finish(&world, i * TT_S + TT_MS, 0, TT_OUTCOME_DONE, STEPS - 1);
    }
    static const struct change changes[] = {{0, TT_CHANGE_BELIEF}, {1, TT_CHANGE_BELIEF}};
    assert_int_equal(world.policy.executor_changes, TT_COUNT(changes));
    assert_memory_equal(world.policy.executors, changes, sizeof(changes));
    assert_int_equal(tt_mechanism_delay(mechanism, 1, prior).control_ns, 900 * TT_US);
    /* Another device in its place has the given delay; the first one keeps what was learnt. */
    tt_mechanism_remove_executor(mechanism, 4 * TT_S, 1);
    tt_mechanism_add_executor(mechanism, 4 * TT_S, 1, 11);
    tt_mechanism_check(mechanism);
    assert_int_equal(tt_mechanism_delay(mechanism, 1, prior).control_ns, prior.control_ns);
    assert_int_equal(tt_mechanism_delay(mechanism, 0, prior).control_ns, 900 * TT_US);
    assert_int_equal(tt_mechanism_longest_delay(mechanism, prior).control_ns, 900 * TT_US);
    tt_mechanism_remove_executor(mechanism, 4 * TT_S, 0);
    assert_int_equal(tt_mechanism_longest_delay(mechanism, prior).control_ns, prior.control_ns);
    tt_mechanism_add_executor(mechanism, 4 * TT_S, 0, 10); /* it comes back */
    assert_int_equal(tt_mechanism_delay(mechanism, 0, prior).control_ns, 900 * TT_US);
    /* What the carrier does not know teaches nothing. */
    arrive(&world, 5 * TT_S, 0, 1, 9);
    decide(&world, 5 * TT_S, run_all_steps);
    finish(&world, 6 * TT_S, 0, TT_OUTCOME_DONE, STEPS - 1);
    assert_int_equal(mechanism->delays[mechanism->executors[0].network].count, 4);
    /* Executor 0 is of the device that 1 has, and then of its own again: each device keeps what was
     * learnt. Its task goes on. */
    tt_mechanism_move_executor(mechanism, 7 * TT_S, 0, 11);
    tt_mechanism_check(mechanism);
    assert_int_equal(mechanism->executors[0].network, mechanism->executors[1].network);
    assert_int_equal(tt_mechanism_longest_delay(mechanism, prior).control_ns, prior.control_ns);
    world.policy.executor_changes = 0;
    tt_mechanism_move_executor(mechanism, 7 * TT_S, 0, 10);
    assert_int_equal(world.policy.executor_changes, 1);
    assert_memory_equal(world.policy.executors, &changes[0], sizeof(changes[0]));
    assert_int_equal(tt_mechanism_delay(mechanism, 0, prior).control_ns, 900 * TT_US);
    assert_int_equal(tt_mechanism_longest_delay(mechanism, prior).control_ns, 900 * TT_US);
    close_world(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executors_of_a_device_share_its_delay),
        cmocka_unit_test(a_request_walks_its_steps),
        cmocka_unit_test(fates_are_told_apart),
        cmocka_unit_test(tasks_end_early),
        cmocka_unit_test(cancellation_takes_what_waits_and_marks_what_runs),
        cmocka_unit_test(the_limit_is_busy_and_changes_nothing),
        cmocka_unit_test(executors_queue_up_to_their_depth_and_start_times_hold),
        cmocka_unit_test(models_and_executors_come_and_go),
        cmocka_unit_test(drop_reasons_have_names),
        cmocka_unit_test(breaches_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
