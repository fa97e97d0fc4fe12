/* C3, C5: the mechanism under a scripted policy that works by cells. When a request is answered,
 * when it is gone, and the counts while cells of it are in flight. */
#include "core/mechanism.h"

#include "base/instant.h"
#include "core/policy_ops.h"
#include "unit/breach.h"

#include <stdlib.h>

enum { EXECUTORS = 2, DEPTH = 4, LIMIT = 8, STEPS = 2, MAX_BATCH = 4, LOG = 64 };

struct world;

/* Keeps the released subgraphs; the test decides what runs. */
struct tt_policy {
    struct world *world;
    struct tt_list released; /* subgraphs */
    struct tt_list waiting;  /* requests that arrived */
    int arrived, cancelled, leaving;
};

struct world {
    struct tt_mechanism mechanism;
    struct tt_policy policy;
    struct tt_profile *whole, *step;
    struct tt_step steps[STEPS];
    struct tt_step_model model;
    struct tt_queue_rule rule;
    intptr_t ended[LOG], gone[LOG]; /* users, in order */
    enum tt_ending endings[LOG];
    int ended_count, gone_count, made_count;
    /* the next decision: cells of these, in one task */
    struct tt_cell_subgraph *run[MAX_BATCH];
    int32_t executor, run_count;
    struct tt_request *drop; /* or this */
};

/* ---- the policy ---- */

static void policy_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_list_push_back(&self->waiting, &request->link);
    self->arrived++;
}
static void policy_released(struct tt_policy *self, int64_t now,
                            struct tt_cell_subgraph *subgraph) {
    (void)now;
    assert_int_equal(subgraph->waits_for, 0);
    assert_false(subgraph->request->reported); /* its request has not left */
    tt_list_push_back(&self->released, &subgraph->link);
}
static void forget(struct tt_request *request) {
    for (int32_t i = 0; i < request->graph->subgraph_count; i++)
        if (tt_list_linked(&request->graph->subgraphs[i].link))
            tt_list_remove(&request->graph->subgraphs[i].link);
    if (tt_list_linked(&request->link))
        tt_list_remove(&request->link);
}
static void policy_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].ends) {
            self->leaving++;
            forget(task->items[i].request);
        }
}
static void policy_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    self->cancelled++;
    forget(request);
}
static void policy_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct world *world = self->world;
    if (world->drop) {
        struct tt_request *request = world->drop;
        world->drop = NULL;
        forget(request);
        tt_mechanism_drop(actions, request, TT_DROP_EARLY);
    }
    if (world->run_count == 0)
        return;
    tt_mechanism_run_begin(actions, world->executor, 0, world->run[0]->first_step,
                           world->run[0]->last_step);
    for (int32_t i = 0; i < world->run_count; i++) {
        if (tt_list_linked(&world->run[i]->request->link))
            tt_list_remove(&world->run[i]->request->link);
        tt_mechanism_run_add_cell(actions, world->run[i]);
    }
    world->run_count = 0;
    tt_mechanism_run_commit(actions, now);
}
static int64_t policy_next_at(const struct tt_policy *self) {
    (void)self;
    return TT_NEVER;
}
static void policy_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                    enum tt_change change) {
    (void)self;
    (void)now;
    (void)executor;
    (void)change;
}
static void policy_check(const struct tt_policy *self) { (void)self; }

static const struct tt_policy_traits traits = {.granularity = TT_GRANULARITY_CELL,
                                               .default_depth = 1};
static const struct tt_policy_ops ops = {
    .arrived = policy_arrived,
    .released = policy_released,
    .finished = policy_finished,
    .cancelled = policy_cancelled,
    .decide = policy_decide,
    .next_at = policy_next_at,
    .executor_changed = policy_executor_changed,
    .check = policy_check,
};

/* ---- the carrier ---- */

static void on_start(void *context, int64_t now, struct tt_task *task) {
    (void)context;
    (void)now;
    assert_int_equal(task->walk, TT_WALK_ONCE);
}
static void on_stop(void *context, int64_t now, int32_t executor) {
    (void)context;
    (void)now;
    (void)executor;
}
static bool was(const intptr_t *users, int count, intptr_t user) {
    for (int i = 0; i < count; i++)
        if (users[i] == user)
            return true;
    return false;
}
static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct world *world = context;
    (void)now;
    (void)reason;
    intptr_t user = (intptr_t)request->user;
    assert_false(was(world->ended, world->ended_count, user));
    assert_false(was(world->gone, world->gone_count, user));
    world->endings[world->ended_count] = ending;
    world->ended[world->ended_count++] = user;
}
static void on_gone(void *context, struct tt_request *request) {
    struct world *world = context;
    intptr_t user = (intptr_t)request->user;
    assert_false(was(world->gone, world->gone_count, user));
    world->gone[world->gone_count++] = user;
    tt_cell_graph_free(request->graph);
}

static void open_world(struct world *world, bool has_rules) {
    *world = (struct world){.rule = {.delay_late = true}};
    tt_list_init(&world->policy.released);
    tt_list_init(&world->policy.waiting);
    world->policy.world = world;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(4, 8, MAX_BATCH, &world->whole, &why), TT_OK);
    assert_int_equal(tt_profile_new_linear(1, 2, MAX_BATCH, &world->step, &why), TT_OK);
    for (int s = 0; s < STEPS; s++)
        world->steps[s] = (struct tt_step){.name = "step", .profile = world->step};
    struct tt_mechanism_options options = {.model_capacity = 1,
                                           .executor_capacity = EXECUTORS,
                                           .max_batch = MAX_BATCH,
                                           .depth = DEPTH,
                                           .request_limit = LIMIT,
                                           .has_rules = has_rules};
    struct tt_carrier carrier = {world, on_start, on_stop, on_stop, on_ended, on_gone};
    assert_int_equal(tt_mechanism_init(&world->mechanism, &options, &carrier, &why), TT_OK);
    tt_mechanism_attach(&world->mechanism, &ops, &traits, &world->policy);
    world->model = (struct tt_step_model){.name = "model",
                                          .step_count = STEPS,
                                          .steps = world->steps,
                                          .whole = world->whole,
                                          .slo_ns = TT_NEVER,
                                          .max_batch = MAX_BATCH,
                                          .rules = has_rules ? &world->rule : NULL,
                                          .rule_count = has_rules};
    tt_mechanism_add_model(&world->mechanism, 0, 0, &world->model);
    for (int e = 0; e < EXECUTORS; e++)
        tt_mechanism_add_executor(&world->mechanism, 0, e, 0);
}

static void close_world(struct world *world) {
    tt_mechanism_check(&world->mechanism);
    tt_mechanism_fini(&world->mechanism);
    assert_int_equal(world->gone_count, world->made_count); /* every graph, once */
    tt_profile_free(world->whole);
    tt_profile_free(world->step);
}

/* An encoder of `encoded` cells (0: none), then an open-ended decoder of at most `decoded`. */
static struct tt_request *arrive(struct world *world, int64_t now, int32_t encoded, int32_t decoded,
                                 int64_t deadline_at) {
    int32_t source = 0, count = 0;
    struct tt_cell_spec specs[2];
    if (encoded > 0)
        specs[count++] = (struct tt_cell_spec){.repeat = encoded};
    if (decoded > 0) {
        specs[count] = (struct tt_cell_spec){.first_step = 1,
                                             .last_step = 1,
                                             .repeat = decoded,
                                             .open_ended = true,
                                             .source_count = count,
                                             .sources = &source};
        count++;
    }
    struct tt_arrival arrival = {
        .rows = 1, .deadline_at = deadline_at, .user = (void *)(intptr_t)++world->made_count};
    struct tt_error why;
    assert_int_equal(tt_cell_graph_new(specs, count, STEPS, &arrival.graph, &why), TT_OK);
    struct tt_request *request = NULL;
    assert_int_equal(tt_mechanism_arrived(&world->mechanism, now, &arrival, &request), TT_OK);
    tt_mechanism_check(&world->mechanism);
    return request;
}

static void run(struct world *world, int64_t now, int32_t executor, struct tt_cell_subgraph *a,
                struct tt_cell_subgraph *b) {
    world->executor = executor;
    world->run[world->run_count++] = a;
    if (b)
        world->run[world->run_count++] = b;
    tt_mechanism_decide(&world->mechanism, now);
    tt_mechanism_check(&world->mechanism);
}

/* The oldest task of the executor ends; item 0 has this fate. */
static void finish(struct world *world, int64_t now, int32_t executor, enum tt_outcome outcome,
                   enum tt_fate fate) {
    struct tt_task *task = tt_mechanism_oldest(&world->mechanism, executor);
    task->outcome = outcome;
    task->last_step_done = task->last_step;
    task->items[0].fate = fate;
    tt_mechanism_finished(&world->mechanism, now, task);
    tt_mechanism_check(&world->mechanism);
}
static void done(struct world *world, int64_t now, int32_t executor) {
    finish(world, now, executor, TT_OUTCOME_DONE, TT_FATE_GOES_ON);
}

/* Numbers of requests: ended, gone from the mechanism, and still here although their end was
 * reported. */
static void expect(const struct world *world, int ended, int gone, int told) {
    assert_int_equal(world->ended_count, ended);
    assert_int_equal(world->gone_count, gone);
    assert_int_equal(world->mechanism.reported, told);
    assert_int_equal(world->mechanism.model_requests[0], world->made_count - gone);
    assert_int_equal(world->mechanism.requests.in_use, world->made_count - gone);
}

/* ---- allowed actions ---- */

static void it_is_answered_with_its_last_cell(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *request = arrive(&world, 0, 2, 0, TT_NEVER);
    struct tt_cell_subgraph *chain = &request->graph->subgraphs[0];
    assert_ptr_equal(tt_list_first(&world.policy.released), &chain->link);
    run(&world, 0, 0, chain, NULL);
    run(&world, 0, 0, chain, NULL); /* both in flight, in order */
    assert_int_equal(request->state, TT_REQUEST_RUNNING);
    assert_int_equal(request->cells_in_flight, 2);
    assert_int_equal(chain->executor, 0);
    done(&world, 3, 0);
    expect(&world, 0, 0, 0);
    assert_int_equal(chain->executor, 0); /* C5: pinned while one is in flight */
    done(&world, 6, 0);
    expect(&world, 1, 1, 0);
    assert_int_equal(world.endings[0], TT_ENDING_DONE);
    close_world(&world);
}

static void between_its_cells_it_is_queued_and_free_to_go_anywhere(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *request = arrive(&world, 0, 2, 3, TT_NEVER);
    struct tt_cell_subgraph *encoder = &request->graph->subgraphs[0];
    run(&world, 0, 0, encoder, NULL);
    done(&world, 3, 0);
    assert_int_equal(request->state, TT_REQUEST_QUEUED);
    assert_int_equal(encoder->executor, -1);
    run(&world, 3, 1, encoder, NULL);
    assert_false(tt_list_linked(&request->graph->subgraphs[1].link));
    done(&world, 6, 1);
    assert_true(tt_list_linked(&request->graph->subgraphs[1].link)); /* released at completion */
    expect(&world, 0, 0, 0);
    close_world(&world); /* gone with the mechanism, though it never ended */
    assert_int_equal(world.ended_count, 0);
}

/* The end is found with the second cell while a third and a fourth are in flight. */
static void an_open_end_is_answered_at_once_and_gone_with_the_last_cell(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *request = arrive(&world, 0, 0, 9, TT_NEVER);
    struct tt_cell_subgraph *decoder = &request->graph->subgraphs[0];
    for (int i = 0; i < 4; i++)
        run(&world, 0, 0, decoder, NULL);
    done(&world, 3, 0);
    finish(&world, 6, 0, TT_OUTCOME_DONE, TT_FATE_LEAVES);
    expect(&world, 1, 0, 1);
    assert_int_equal(world.endings[0], TT_ENDING_DONE);
    assert_int_equal(world.policy.leaving, 1);
    assert_int_equal(decoder->ready, 0);
    /* A cancellation after the end has no effect, and neither has the fate of a late cell. */
    tt_mechanism_cancelled(&world.mechanism, 7, request);
    assert_int_equal(world.policy.cancelled, 0);
    finish(&world, 9, 0, TT_OUTCOME_DONE, TT_FATE_LEAVES);
    expect(&world, 1, 0, 1);
    done(&world, 12, 0);
    expect(&world, 1, 1, 0);
    assert_int_equal(world.policy.leaving, 1);
    close_world(&world);
}

static void cancelled_while_cells_fly_it_ends_now_and_goes_later(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *gone = arrive(&world, 0, 1, 3, TT_NEVER);
    struct tt_request *stays = arrive(&world, 0, 1, 3, TT_NEVER);
    run(&world, 0, 0, &gone->graph->subgraphs[0], &stays->graph->subgraphs[0]);
    tt_mechanism_cancelled(&world.mechanism, 1, gone);
    expect(&world, 1, 0, 1);
    assert_int_equal(world.endings[0], TT_ENDING_CANCELLED);
    assert_int_equal(world.policy.cancelled, 1);
    tt_mechanism_cancelled(&world.mechanism, 1, gone); /* a second call has no effect */
    expect(&world, 1, 0, 1);
    done(&world, 3, 0);
    expect(&world, 1, 1, 0); /* its decoder was not released, the other one's was */
    assert_true(tt_list_linked(&stays->graph->subgraphs[1].link));
    /* A waiting request ends and is gone at once. */
    tt_mechanism_cancelled(&world.mechanism, 4, stays);
    expect(&world, 2, 2, 0);
    assert_true(tt_list_empty(&world.policy.released));
    close_world(&world);
}

static void a_failed_batch_fails_its_requests_once_and_nobody_else(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *a = arrive(&world, 0, 3, 0, TT_NEVER);
    struct tt_request *b = arrive(&world, 0, 3, 0, TT_NEVER);
    run(&world, 0, 0, &a->graph->subgraphs[0], NULL);
    run(&world, 0, 0, &a->graph->subgraphs[0], &b->graph->subgraphs[0]);
    run(&world, 0, 1, &(arrive(&world, 0, 1, 0, TT_NEVER)->graph->subgraphs[0]), NULL);
    finish(&world, 3, 0, TT_OUTCOME_FAILED, TT_FATE_GOES_ON);
    expect(&world, 1, 0, 1); /* request a, which still has a cell in flight */
    assert_int_equal(world.endings[0], TT_ENDING_FAILED);
    assert_int_equal(b->state, TT_REQUEST_RUNNING);
    finish(&world, 6, 0, TT_OUTCOME_FAILED, TT_FATE_GOES_ON);
    expect(&world, 2, 2, 0);
    assert_int_equal(world.ended[1], 2);
    assert_int_equal(world.endings[1], TT_ENDING_FAILED);
    done(&world, 7, 1);
    expect(&world, 3, 3, 0);
    assert_int_equal(world.endings[2], TT_ENDING_DONE);
    close_world(&world);
}

static void one_item_fails_alone(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *a = arrive(&world, 0, 2, 0, TT_NEVER);
    struct tt_request *b = arrive(&world, 0, 2, 0, TT_NEVER);
    run(&world, 0, 0, &a->graph->subgraphs[0], &b->graph->subgraphs[0]);
    finish(&world, 3, 0, TT_OUTCOME_DONE, TT_FATE_FAILS);
    expect(&world, 1, 1, 0);
    assert_int_equal(world.ended[0], 1);
    assert_int_equal(world.endings[0], TT_ENDING_FAILED);
    assert_int_equal(tt_cell_subgraph_done(&b->graph->subgraphs[0]), 1);
    assert_int_equal(b->state, TT_REQUEST_QUEUED);
    close_world(&world);
}

static void dropped_while_cells_fly_it_goes_with_the_last(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_request *request = arrive(&world, 0, 4, 0, TT_NEVER);
    run(&world, 0, 0, &request->graph->subgraphs[0], NULL);
    run(&world, 0, 0, &request->graph->subgraphs[0], NULL);
    done(&world, 3, 0);
    world.drop = request;
    tt_mechanism_decide(&world.mechanism, 4);
    expect(&world, 1, 0, 1);
    assert_int_equal(world.endings[0], TT_ENDING_DROPPED);
    done(&world, 6, 0);
    expect(&world, 1, 1, 0);
    close_world(&world);
}

/* Two leaves of a tree on two executors: one request in two tasks at once. */
static void a_request_is_on_two_executors_at_once(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    struct tt_cell_spec specs[] = {
        {.repeat = 1},
        {.repeat = 1},
        {.first_step = 1,
         .last_step = 1,
         .repeat = 1,
         .source_count = 2,
         .sources = (const int32_t[]){0, 1}},
    };
    struct tt_arrival arrival = {
        .rows = 1, .deadline_at = TT_NEVER, .user = (void *)(intptr_t)++world.made_count};
    struct tt_error why;
    assert_int_equal(tt_cell_graph_new(specs, 3, STEPS, &arrival.graph, &why), TT_OK);
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(&world.mechanism, 0, &arrival, &request), TT_OK);
    struct tt_cell_subgraph *parts = request->graph->subgraphs;
    run(&world, 0, 0, &parts[0], NULL);
    run(&world, 0, 1, &parts[1], NULL);
    done(&world, 3, 1);
    assert_int_equal(request->state, TT_REQUEST_RUNNING);
    assert_false(tt_list_linked(&parts[2].link));
    done(&world, 4, 0);
    assert_true(tt_list_linked(&parts[2].link));
    run(&world, 4, 1, &parts[2], NULL);
    done(&world, 7, 1);
    expect(&world, 1, 1, 0);
    close_world(&world);
}

/* A request that is dropped for its deadline, but may stay without one, is released again: after a
 * drop by the policy, or by the rule itself at its last instant. */
static void a_late_request_is_released_again(void **state) {
    (void)state;
    struct world world;
    open_world(&world, true);
    struct tt_request *request = arrive(&world, 0, 2, 2, 1000);
    world.drop = request;
    tt_mechanism_decide(&world.mechanism, 1);
    tt_mechanism_check(&world.mechanism);
    expect(&world, 0, 0, 0);
    assert_int_equal(world.policy.arrived, 2);
    assert_int_equal(request->deadline_at, TT_NEVER);
    assert_true(tt_list_linked(&request->graph->subgraphs[0].link));
    assert_false(tt_list_linked(&request->graph->subgraphs[1].link));
    struct tt_request *expires = arrive(&world, 2, 2, 0, 100);
    tt_mechanism_decide(&world.mechanism, tt_mechanism_next_at(&world.mechanism));
    tt_mechanism_check(&world.mechanism);
    assert_int_equal(world.policy.cancelled, 1);
    assert_int_equal(world.policy.arrived, 4);
    assert_int_equal(expires->deadline_at, TT_NEVER);
    assert_true(tt_list_linked(&expires->graph->subgraphs[0].link));
    /* A request whose first cell has run is not made late: it is dropped. */
    struct tt_request *begun = arrive(&world, 100, 2, 0, 1000);
    run(&world, 100, 0, &begun->graph->subgraphs[0], NULL);
    world.drop = begun;
    tt_mechanism_decide(&world.mechanism, 101);
    expect(&world, 1, 0, 1);
    done(&world, 103, 0);
    expect(&world, 1, 1, 0);
    close_world(&world);
}

static void a_full_house_leaves_the_graph_with_the_caller(void **state) {
    (void)state;
    struct world world;
    open_world(&world, false);
    for (int i = 0; i < LIMIT; i++)
        arrive(&world, 0, 1, 0, TT_NEVER);
    struct tt_cell_spec spec = {.repeat = 1};
    struct tt_arrival arrival = {.rows = 1, .deadline_at = TT_NEVER};
    struct tt_error why;
    assert_int_equal(tt_cell_graph_new(&spec, 1, STEPS, &arrival.graph, &why), TT_OK);
    assert_int_equal(tt_mechanism_arrived(&world.mechanism, 0, &arrival, NULL), TT_ERR_BUSY);
    tt_cell_graph_free(arrival.graph);
    close_world(&world);
}

/* ---- forbidden actions ---- */

static struct tt_request *pinned(struct world *world) {
    open_world(world, false);
    struct tt_request *request = arrive(world, 0, 2, 2, TT_NEVER);
    run(world, 0, 0, &request->graph->subgraphs[0], NULL);
    return request;
}
static void run_pinned_elsewhere(void) {
    struct world world;
    struct tt_request *request = pinned(&world);
    run(&world, 0, 1, &request->graph->subgraphs[0], NULL);
}
static void run_what_is_not_ready(void) {
    struct world world;
    struct tt_request *request = pinned(&world);
    run(&world, 0, 0, &request->graph->subgraphs[0], &request->graph->subgraphs[0]);
}
static void run_what_waits(void) {
    struct world world;
    struct tt_request *request = pinned(&world);
    run(&world, 0, 0, &request->graph->subgraphs[1], NULL);
}
static void run_what_has_left(void) {
    struct world world;
    struct tt_request *request = pinned(&world);
    tt_mechanism_cancelled(&world.mechanism, 0, request);
    run(&world, 0, 0, &request->graph->subgraphs[0], NULL);
}
static void abort_cells(void) {
    struct world world;
    pinned(&world);
    finish(&world, 1, 0, TT_OUTCOME_ABORTED, TT_FATE_GOES_ON);
}

static void broken_rules_end_the_program(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(run_pinned_elsewhere, "subgraph->executor < 0"),
        BREACH(run_what_is_not_ready, "subgraph->ready > 0"),
        BREACH(run_what_waits, "subgraph->waits_for == 0 && !subgraph->over"),
        BREACH(run_what_has_left,
               "request->state == TT_REQUEST_QUEUED || request->state == TT_REQUEST_RUNNING"),
        BREACH(abort_cells,
               "task->outcome == TT_OUTCOME_DONE || task->outcome == TT_OUTCOME_FAILED"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_answered_with_its_last_cell),
        cmocka_unit_test(between_its_cells_it_is_queued_and_free_to_go_anywhere),
        cmocka_unit_test(an_open_end_is_answered_at_once_and_gone_with_the_last_cell),
        cmocka_unit_test(cancelled_while_cells_fly_it_ends_now_and_goes_later),
        cmocka_unit_test(a_failed_batch_fails_its_requests_once_and_nobody_else),
        cmocka_unit_test(one_item_fails_alone),
        cmocka_unit_test(dropped_while_cells_fly_it_goes_with_the_last),
        cmocka_unit_test(a_request_is_on_two_executors_at_once),
        cmocka_unit_test(a_late_request_is_released_again),
        cmocka_unit_test(a_full_house_leaves_the_graph_with_the_caller),
        cmocka_unit_test(broken_rules_end_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
