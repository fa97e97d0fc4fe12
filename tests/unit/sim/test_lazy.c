/* L1, L2, L3, L5: the lazy policy on schedules worked out by hand: the paper's figures 8 and 10
 * with the contents of the stack, recurrent blocks, refusals, co-location, cancellation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/lazy/lazy.h"
#include "unit/sim/step_world.h"

#include <string.h>

enum { SECOND = 1000 }; /* one unit of the paper's figures, so that arrivals can lie inside */

/* Nodes of one unit at any batch size. */
static void even_model(struct step_world *w, int32_t m, int32_t steps, int64_t slo) {
    w->models[m] = (struct step_world_model){.steps = steps, .slo_ns = slo, .max_batch = 8};
    for (int32_t s = 0; s < steps; s++)
        w->models[m].beta[s] = SECOND;
    if (w->model_count <= m)
        w->model_count = m + 1;
}

/* The stack from the bottom: "C(1) B(2 3)", requests by the paper's numbers (from 1). */
static const char *stack_text(const struct step_world *w) {
    static char text[256];
    const struct tt_lazy_stack *stack = tt_lazy_stack_of(step_world_policy(w), 0);
    size_t used = 0;
    text[0] = '\0';
    for (int32_t e = 0; e < stack->depth; e++) {
        const struct tt_lazy_entry *entry = &stack->entries[e];
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c(", e ? " " : "",
                                 'A' + entry->place.step);
        for (int32_t i = 0; i < entry->count; i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, i ? " %d" : "%d",
                                     (int)stack->members[entry->first + i].request->number + 1);
        used += (size_t)snprintf(text + used, sizeof(text) - used, ")");
    }
    return text;
}

/* Runs all events up to and at `at`, then compares the stack. */
static void expect_stack(struct step_world *w, int64_t at, const char *expected) {
    while (tt_simulation_now(w->simulation) < at || tt_simulation_events(w->simulation) == 0)
        assert_true(step_world_instant(w));
    assert_int_equal(tt_simulation_now(w->simulation), at);
    assert_string_equal(stack_text(w), expected);
}

struct expected_step {
    int64_t start, end;
    int32_t step;
    const char *members; /* by the paper's numbers */
};

static void expect_log(const struct step_world *w, const struct expected_step *expected,
                       int32_t count) {
    for (int32_t i = 0; i < count && i < w->log_count; i++) {
        const struct step_world_entry *entry = &w->log[i];
        char members[128] = "";
        for (int32_t k = 0, used = 0; k < entry->count; k++)
            used += snprintf(members + used, sizeof(members) - (size_t)used, k ? " %d" : "%d",
                             (int)entry->members[k] + 1);
        assert_int_equal(entry->start_at, expected[i].start);
        assert_int_equal(entry->end_at, expected[i].end);
        assert_int_equal(entry->step, expected[i].step);
        assert_string_equal(members, expected[i].members);
    }
    assert_int_equal(w->log_count, count);
}

static const struct expected_step figure_10[] = {
    {2000, 3000, 0, "1"},       {3000, 4000, 1, "1"},       {4000, 5000, 0, "2"},
    {5000, 6000, 0, "3"},       {6000, 7000, 1, "2 3"},     {7000, 8000, 2, "1 2 3"},
    {8000, 9000, 3, "1 2 3"},   {9000, 10000, 4, "1 2 3"},  {10000, 11000, 5, "1 2 3"},
    {11000, 12000, 6, "1 2 3"}, {12000, 13000, 7, "1 2 3"},
};

/* Figure 10: 8 nodes; the device is busy until 2; Req2 arrives during B, Req3 during Req2's A. */
static void test_figure_10(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .busy_until_at = 2 * SECOND};
    even_model(&w, 0, 8, 30 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 3500, 0);
    step_world_arrival(&w, 4500, 0);
    step_world_open(&w);
    expect_stack(&w, 0, "");
    expect_stack(&w, 2 * SECOND, "A(1)");
    expect_stack(&w, 3 * SECOND, "A(1)"); /* B begins within the task that was issued at A */
    expect_stack(&w, 4 * SECOND, "C(1) A(2)");
    expect_stack(&w, 5 * SECOND, "C(1) B(2) A(3)");
    expect_stack(&w, 6 * SECOND, "C(1) B(2 3)");
    expect_stack(&w, 7 * SECOND, "C(1 2 3)");
    while (step_world_instant(&w))
        continue;
    expect_log(&w, figure_10, TT_COUNT(figure_10));
    step_world_close(&w);
}

/* Figure 10 with Req2 and Req3 at the exact instants at which B and Req2's A end. At one instant
 * arrivals come before the decision, and only then does a task continue with its next step. */
static void test_arrivals_at_boundaries(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .busy_until_at = 2 * SECOND};
    even_model(&w, 0, 8, 30 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 4 * SECOND, 0);
    step_world_arrival(&w, 5 * SECOND, 0);
    step_world_open(&w);
    step_world_run(&w);
    expect_log(&w, figure_10, TT_COUNT(figure_10));
    step_world_close(&w);
}

/* Figure 8: 5 nodes; Req1-2 run from 4 on, are preempted at 6 by Req3-5, which catch up by 8. */
static void test_figure_8(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .busy_until_at = 4 * SECOND};
    even_model(&w, 0, 5, 30 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 2000, 0);
    step_world_arrival(&w, 5200, 0);
    step_world_arrival(&w, 5500, 0);
    step_world_arrival(&w, 5800, 0);
    step_world_open(&w);
    expect_stack(&w, 4 * SECOND, "A(1 2)");
    expect_stack(&w, 6 * SECOND, "C(1 2) A(3 4 5)");
    expect_stack(&w, 8 * SECOND, "C(1 2 3 4 5)");
    while (step_world_instant(&w))
        continue;
    static const struct expected_step steps[] = {
        {4000, 5000, 0, "1 2"},        {5000, 6000, 1, "1 2"},       {6000, 7000, 0, "3 4 5"},
        {7000, 8000, 1, "3 4 5"},      {8000, 9000, 2, "1 2 3 4 5"}, {9000, 10000, 3, "1 2 3 4 5"},
        {10000, 11000, 4, "1 2 3 4 5"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
}

/* An SLA without slack for a second request: served one after the other, no preemption. */
static void test_no_slack_no_preemption(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy"};
    even_model(&w, 0, 4, 7 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 500, 0); /* alone 4 + 4 units; Req1 has 7 */
    step_world_open(&w);
    step_world_run(&w);
    static const struct expected_step steps[] = {
        {0, 1000, 0, "1"},    {1000, 2000, 1, "1"}, {2000, 3000, 2, "1"}, {3000, 4000, 3, "1"},
        {4000, 5000, 0, "2"}, {5000, 6000, 1, "2"}, {6000, 7000, 2, "2"}, {7000, 8000, 3, "2"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
}

/* L4, Oracle: the same with the true times of batches: merged nodes cost one unit for both. */
static void test_curves_see_that_batches_are_cheap(void **state) {
    (void)state;
    static const struct tt_option curves[] = {{"slack", "curves"}};
    struct step_world w = {.executors = 1, .policy = "lazy", .options = curves, .option_count = 1};
    even_model(&w, 0, 4, 7 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 500, 0);
    step_world_open(&w);
    step_world_run(&w);
    static const struct expected_step steps[] = {{0, 1000, 0, "1"},
                                                 {1000, 2000, 0, "2"},
                                                 {2000, 3000, 1, "1 2"},
                                                 {3000, 4000, 2, "1 2"},
                                                 {4000, 5000, 3, "1 2"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
}

/* Equation 2 as published counts whole graphs: when Req3 arrives, two requests need a unit and a
 * half more each, but count with four each. */
static void test_published_counts_whole_graphs(void **state) {
    (void)state;
    static const struct tt_option published[] = {{"slack", "published"}};
    for (int32_t letter = 0; letter < 2; letter++) {
        struct step_world w = {
            .executors = 1, .policy = "lazy", .options = published, .option_count = letter};
        even_model(&w, 0, 4, 10 * SECOND);
        step_world_arrival(&w, 0, 0);
        step_world_arrival(&w, 0, 0);
        step_world_arrival(&w, 2500, 0);
        step_world_open(&w);
        step_world_run(&w);
        assert_int_equal(w.ends[2].started_at, letter ? 4000 : 3000);
        step_world_close(&w);
    }
}

/* L3: encoder of length n, decoder of unknown m. Two requests of different n separate after the
 * encoder (the one behind on top), meet again, and leave the decoder one by one. */
static void test_recurrent_blocks_part_and_merge(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .model_count = 1};
    w.models[0] = (struct step_world_model){
        .steps = 4,
        .kinds = {TT_STEP_STATIC, TT_STEP_ENCODER, TT_STEP_STATIC, TT_STEP_DECODER},
        .beta = {1000, 1000, 1000, 1000},
        .slo_ns = 100 * SECOND,
        .max_batch = 8,
        .output = 4,
        .output_limit = 9};
    struct tt_sim_arrival *one = step_world_arrival(&w, 0, 0);
    one->length = 1;
    one->output_length = 3;
    struct tt_sim_arrival *two = step_world_arrival(&w, 0, 0);
    two->length = 3;
    two->output_length = 1;
    step_world_open(&w);
    expect_stack(&w, 0, "A(1 2)");
    expect_stack(&w, 2 * SECOND, "C(1) B(2)");
    expect_stack(&w, 4 * SECOND, "C(1 2)");
    expect_stack(&w, 6 * SECOND, "D(1)");
    while (step_world_instant(&w))
        continue;
    static const struct expected_step steps[] = {
        {0, 1000, 0, "1 2"},    {1000, 2000, 1, "1 2"}, {2000, 3000, 1, "2"}, {3000, 4000, 1, "2"},
        {4000, 5000, 2, "1 2"}, {5000, 6000, 3, "1 2"}, {6000, 7000, 3, "1"}, {7000, 8000, 3, "1"}};
    expect_log(&w, steps, TT_COUNT(steps));
    assert_int_equal(w.ends[1].ended_at, 6000);
    assert_int_equal(w.ends[0].ended_at, 8000);
    step_world_close(&w);
}

/* A newcomer catches up with a decoder that is at a later round: the weights are the same. */
static void test_merges_at_another_timestep(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .model_count = 1};
    w.models[0] = (struct step_world_model){.steps = 2,
                                            .kinds = {TT_STEP_STATIC, TT_STEP_DECODER},
                                            .beta = {1000, 1000},
                                            .slo_ns = 100 * SECOND,
                                            .max_batch = 8,
                                            .output = 4,
                                            .output_limit = 9};
    step_world_arrival(&w, 0, 0)->output_length = 4;
    step_world_arrival(&w, 2500, 0)->output_length = 2;
    step_world_open(&w);
    step_world_run(&w);
    static const struct expected_step steps[] = {{0, 1000, 0, "1"},      {1000, 2000, 1, "1"},
                                                 {2000, 3000, 1, "1"},   {3000, 4000, 0, "2"},
                                                 {4000, 5000, 1, "1 2"}, {5000, 6000, 1, "1 2"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
}

/* L4, GraphB: a whole-graph policy runs each block as often as the longest member needs, and
 * answers all at the end. */
static void test_graph_batches_pad(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "window", .model_count = 1};
    w.models[0] = (struct step_world_model){.steps = 2,
                                            .kinds = {TT_STEP_ENCODER, TT_STEP_DECODER},
                                            .beta = {1000, 1000},
                                            .slo_ns = 100 * SECOND,
                                            .max_batch = 8,
                                            .output = 4,
                                            .output_limit = 3};
    struct tt_sim_arrival *one = step_world_arrival(&w, 0, 0);
    one->length = 2;
    one->output_length = 99; /* a decoder that never ends is stopped at the limit, 4 */
    step_world_arrival(&w, 0, 0);
    step_world_open(&w);
    step_world_run(&w);
    assert_int_equal(w.log_count, 6);
    assert_int_equal(w.ends[0].ended_at, 6000);
    assert_int_equal(w.ends[1].ended_at, 6000);
    step_world_close(&w);
}

/* L3: the predicted length of an output covers the chosen share of the profiled ones, and can be
 * given by an option. One static step and a decoder, a unit each; 99 outputs of 100 have 3 words,
 * one has 9. By eq. 2 the second request is admitted if both of them alone (algorithm 1, twice)
 * take no more than the SLA of 15 units. */
static void test_predicted_outputs(void **state) {
    (void)state;
    static const struct {
        struct tt_option how;
        bool comes_in;
    } cases[] = {
        {{"coverage", "90%"}, true},   /* (1 + 4) * 2: 3, but they have 3.06 on average */
        {{"coverage", "99%"}, true},   /* the same */
        {{"coverage", "100%"}, false}, /* (1 + 9) * 2 */
        {{"dec_timesteps", "6"}, true}, {{"dec_timesteps", "7"}, false}, /* (1 + 7) * 2 */
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_option options[] = {{"slack", "published"}, cases[i].how};
        struct step_world w = {
            .executors = 1, .policy = "lazy", .options = options, .option_count = 2};
        even_model(&w, 0, 2, 15 * SECOND);
        w.models[0].kinds[1] = TT_STEP_DECODER;
        w.models[0].output = 3;
        w.models[0].output_limit = 9;
        step_world_arrival(&w, 0, 0)->output_length = 2;
        step_world_arrival(&w, 500, 0)->output_length = 2;
        step_world_open(&w);
        step_world_run(&w);
        static const struct expected_step in[] = {{0, 1000, 0, "1"},
                                                  {1000, 2000, 0, "2"},
                                                  {2000, 3000, 1, "1 2"},
                                                  {3000, 4000, 1, "1 2"}};
        static const struct expected_step out[] = {{0, 1000, 0, "1"},    {1000, 2000, 1, "1"},
                                                   {2000, 3000, 1, "1"}, {3000, 4000, 0, "2"},
                                                   {4000, 5000, 1, "2"}, {5000, 6000, 1, "2"}};
        if (cases[i].comes_in)
            expect_log(&w, in, TT_COUNT(in));
        else
            expect_log(&w, out, TT_COUNT(out));
        step_world_close(&w);
    }
}

/* The maximum batch limits the rows on the stack; the rest waits. */
static void test_max_batch_bounds_the_stack(void **state) {
    (void)state;
    static const struct tt_option two[] = {{"max_batch", "2"}};
    struct step_world w = {.executors = 1, .policy = "lazy", .options = two, .option_count = 1};
    even_model(&w, 0, 3, 100 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 500, 0);
    step_world_arrival(&w, 600, 0);
    step_world_open(&w);
    step_world_run(&w);
    static const struct expected_step steps[] = {
        {0, 1000, 0, "1"},    {1000, 2000, 0, "2"}, {2000, 3000, 1, "1 2"}, {3000, 4000, 2, "1 2"},
        {4000, 5000, 0, "3"}, {5000, 6000, 1, "3"}, {6000, 7000, 2, "3"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
}

/* D2: a request that finds no slot beside those under way does not preempt them. With two slots the
 * third request has none. With one slot not even the first has one, and so runs through. */
static void test_slots_bound_who_meets(void **state) {
    (void)state;
    static const struct expected_step two[] = {
        {0, 1000, 0, "1"},    {1000, 2000, 0, "2"}, {2000, 3000, 1, "1 2"}, {3000, 4000, 2, "1 2"},
        {4000, 5000, 0, "3"}, {5000, 6000, 1, "3"}, {6000, 7000, 2, "3"}};
    static const struct expected_step one[] = {{0, 1000, 0, "1"},      {1000, 2000, 1, "1"},
                                               {2000, 3000, 2, "1"},   {3000, 4000, 0, "2 3"},
                                               {4000, 5000, 1, "2 3"}, {5000, 6000, 2, "2 3"}};
    for (int32_t slots = 1; slots <= 2; slots++) {
        struct step_world w = {.executors = 1, .policy = "lazy"};
        even_model(&w, 0, 3, 100 * SECOND);
        w.models[0].slots = slots;
        step_world_arrival(&w, 0, 0);
        step_world_arrival(&w, 500, 0);
        step_world_arrival(&w, 600, 0);
        step_world_open(&w);
        step_world_run(&w);
        expect_log(&w, slots == 2 ? two : one,
                   slots == 2 ? (int32_t)TT_COUNT(two) : (int32_t)TT_COUNT(one));
        step_world_close(&w);
    }
}

/* L5: a short request of another model preempts, a long one waits; the check covers both. */
static void test_models_share_an_executor(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy"};
    even_model(&w, 0, 5, 8 * SECOND);
    even_model(&w, 1, 2, 8 * SECOND);
    even_model(&w, 2, 7, 60 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 500, 2); /* longer than the remaining time: waits */
    step_world_arrival(&w, 1500, 1);
    step_world_open(&w);
    step_world_run(&w);
    assert_int_equal(w.ends[2].ended_at, 4000);
    assert_int_equal(w.ends[0].ended_at, 7000);
    assert_int_equal(w.ends[1].ended_at, 14000);
    step_world_close(&w);
    /* With 6 units the first one could not wait for the second. */
    struct step_world tight = {.executors = 1, .policy = "lazy"};
    even_model(&tight, 0, 5, 6 * SECOND);
    even_model(&tight, 1, 2, 60 * SECOND);
    step_world_arrival(&tight, 0, 0);
    step_world_arrival(&tight, 1500, 1);
    step_world_open(&tight);
    step_world_run(&tight);
    assert_int_equal(tight.ends[0].ended_at, 5000);
    step_world_close(&tight);
}

/* A client in the middle of the stack cancels: the others continue as if it had never been. */
static void test_cancellation_in_the_stack(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy", .busy_until_at = 2 * SECOND};
    even_model(&w, 0, 8, 30 * SECOND);
    step_world_arrival(&w, 0, 0);
    step_world_arrival(&w, 3500, 0)->cancel_at = 5500;
    step_world_arrival(&w, 4500, 0);
    step_world_open(&w);
    expect_stack(&w, 5 * SECOND, "C(1) B(2) A(3)");
    expect_stack(&w, 5500, "C(1) A(3)");
    expect_stack(&w, 6 * SECOND, "C(1) B(3)");
    expect_stack(&w, 7 * SECOND, "C(1 3)");
    while (step_world_instant(&w))
        continue;
    assert_int_equal(w.ends[1].ending, TT_ENDING_CANCELLED);
    assert_int_equal(w.ends[0].ended_at, 13000);
    assert_int_equal(w.ends[2].ended_at, 13000);
    step_world_close(&w);
}

/* L6: the padded length cannot change in the middle. A shorter request is padded like those with
 * which it catches up; a longer one waits until they have ended. */
static void test_padded_inputs(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy"};
    even_model(&w, 0, 3, 100 * SECOND);
    w.models[0].padded = true;
    step_world_arrival(&w, 0, 0)->length = 5;
    step_world_arrival(&w, 500, 0)->length = 3;
    step_world_arrival(&w, 600, 0)->length = 6;
    step_world_arrival(&w, 700, 0)->length = 2;
    step_world_open(&w);
    expect_stack(&w, SECOND, "B(1) A(2)");
    assert_int_equal(tt_lazy_stack_top(tt_lazy_stack_of(step_world_policy(&w), 0))->padded, 5);
    step_world_run(&w);
    static const struct expected_step steps[] = {{0, 1000, 0, "1"},      {1000, 2000, 0, "2"},
                                                 {2000, 3000, 1, "1 2"}, {3000, 4000, 2, "1 2"},
                                                 {4000, 5000, 0, "3 4"}, {5000, 6000, 1, "3 4"},
                                                 {6000, 7000, 2, "3 4"}};
    expect_log(&w, steps, TT_COUNT(steps));
    step_world_close(&w);
    /* No step of the longer one has run yet. */
    struct step_world fresh = {.executors = 1, .policy = "lazy", .busy_until_at = SECOND};
    even_model(&fresh, 0, 2, 100 * SECOND);
    fresh.models[0].padded = true;
    step_world_arrival(&fresh, 0, 0)->length = 2;
    step_world_arrival(&fresh, 500, 0)->length = 9;
    step_world_open(&fresh);
    step_world_run(&fresh);
    assert_int_equal(fresh.log_count, 2);
    assert_int_equal(fresh.log[0].count, 2);
    step_world_close(&fresh);
}

/* L2: with an SLO below the time of one request alone every request is hopeless on arrival, and has
 * no vote. All are served as without deadlines, and every one is late. */
static void test_an_objective_nobody_can_meet(void **state) {
    (void)state;
    static const char *const forms[] = {"remaining", "published", "curves"};
    for (int32_t form = 0; form < 3; form++) {
        struct tt_option options[] = {{"slack", forms[form]}};
        struct step_world w = {
            .executors = 1, .policy = "lazy", .options = options, .option_count = 1};
        even_model(&w, 0, 4, 3 * SECOND);
        for (int32_t i = 0; i < 5; i++)
            step_world_arrival(&w, 500 + i * 700, 0);
        step_world_open(&w);
        step_world_run(&w);
        for (int32_t i = 0; i < 5; i++) {
            assert_int_equal(w.ends[i].ending, TT_ENDING_DONE);
            assert_true(w.ends[i].ended_at > w.ends[i].deadline_at);
        }
        int32_t largest = 0;
        for (int32_t i = 0; i < w.log_count; i++)
            largest = w.log[i].count > largest ? w.log[i].count : largest;
        assert_int_equal(largest, 5); /* they catch up and merge as usual */
        step_world_close(&w);
    }
}

/* L3: an output that would never end is stopped at the maximum that the model states, and is marked
 * so. It does not delay the end of requests that shared its batches. */
static void test_a_decoder_that_never_ends(void **state) {
    (void)state;
    struct step_world w = {.executors = 1, .policy = "lazy"};
    w.models[0] = (struct step_world_model){
        .steps = 2,
        .kinds = {TT_STEP_STATIC, TT_STEP_DECODER},
        .beta = {SECOND, SECOND},
        .slo_ns = 100 * SECOND,
        .max_batch = 4,
        .output = 3,
        .output_limit = 9,
    };
    w.model_count = 1;
    step_world_arrival(&w, 0, 0)->output_length = INT32_MAX;
    step_world_arrival(&w, 0, 0)->output_length = 2;
    step_world_arrival(&w, 0, 0)->output_length = 9;
    step_world_open(&w);
    step_world_run(&w);
    assert_int_equal(w.ends[0].ended_at, (1 + 9) * SECOND);
    assert_true(w.ends[0].cut_short);
    assert_int_equal(w.ends[1].ended_at, (1 + 2) * SECOND);
    assert_false(w.ends[1].cut_short);
    assert_int_equal(w.ends[2].ended_at, (1 + 9) * SECOND);
    assert_false(w.ends[2].cut_short);
    step_world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_10),
        cmocka_unit_test(test_arrivals_at_boundaries),
        cmocka_unit_test(test_figure_8),
        cmocka_unit_test(test_predicted_outputs),
        cmocka_unit_test(test_no_slack_no_preemption),
        cmocka_unit_test(test_curves_see_that_batches_are_cheap),
        cmocka_unit_test(test_published_counts_whole_graphs),
        cmocka_unit_test(test_recurrent_blocks_part_and_merge),
        cmocka_unit_test(test_merges_at_another_timestep),
        cmocka_unit_test(test_graph_batches_pad),
        cmocka_unit_test(test_max_batch_bounds_the_stack),
        cmocka_unit_test(test_slots_bound_who_meets),
        cmocka_unit_test(test_models_share_an_executor),
        cmocka_unit_test(test_cancellation_in_the_stack),
        cmocka_unit_test(test_padded_inputs),
        cmocka_unit_test(test_an_objective_nobody_can_meet),
        cmocka_unit_test(test_a_decoder_that_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
