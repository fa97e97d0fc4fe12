/* C4, C5: algorithm 1 on schedules worked out by hand: which type runs, how many tasks, which
 * requests share them, on which executor. Long sequences neither starve nor are starved. */
#include "unit/sim/step_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { UNIT = 10, E = 0, D = 1 }; /* every cell takes a unit; encoder and decoder */

static void arrives(struct step_world *world, int64_t at, int32_t length, int32_t output) {
    tt_assert(world->arrival_count < WORLD_REQUESTS);
    world->arrivals[world->arrival_count++] = (struct tt_sim_arrival){.at = at,
                                                                      .deadline_at = TT_NEVER,
                                                                      .cancel_at = TT_NEVER,
                                                                      .rows = 1,
                                                                      .length = length,
                                                                      .output_length = output,
                                                                      .exit_step = -1};
}

static struct step_world world_of(int32_t steps, int32_t max_batch, int32_t executors,
                                  const struct tt_option *options, int32_t option_count) {
    return (struct step_world){.models = {{.steps = steps,
                                           .kinds = {TT_STEP_ENCODER, TT_STEP_DECODER},
                                           .beta = {UNIT, UNIT},
                                           .slo_ns = TT_NEVER,
                                           .max_batch = max_batch,
                                           .output = steps > 1 ? 5 : 0}},
                               .model_count = 1,
                               .executors = executors,
                               .depth = 5,
                               .policy = "cellular",
                               .options = options,
                               .option_count = option_count};
}

/* One line per task: "start executor:step members". */
static void expect(struct step_world *world, const char *const *lines, int32_t count) {
    step_world_open(world);
    step_world_run(world);
    for (int32_t i = 0; i < world->log_count; i++) {
        const struct step_world_entry *entry = &world->log[i];
        char line[100];
        int at = snprintf(line, sizeof(line), "%lld %d:%s", (long long)entry->start_at,
                          entry->executor, entry->step == E ? "E" : "D");
        for (int32_t k = 0; k < entry->count; k++)
            at += snprintf(line + at, sizeof(line) - (size_t)at, " %lld",
                           (long long)entry->members[k]);
        if (i >= count)
            fail_msg("task %d, '%s', is one too many", i, line);
        assert_string_equal(line, lines[i]);
    }
    assert_int_equal(world->log_count, count);
    step_world_close(world);
}
#define EXPECT(world, ...)                                                                         \
    expect(world, (const char *const[]){__VA_ARGS__},                                              \
           (int32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

static const struct tt_option one_task[] = {{"max_tasks", "1"}};

/* (a) finds one type alone; then, at 20, (b) finds both, and the decoder is the later one. */
static void the_later_type_goes_first(void **state) {
    (void)state;
    struct step_world world = world_of(2, 2, 1, one_task, 1);
    arrives(&world, 0, 1, 2);
    arrives(&world, 0, 1, 1);
    arrives(&world, 0, 3, 1);
    EXPECT(&world, "0 0:E 0 1", "10 0:D 0 1", "20 0:D 0", "30 0:E 2", "40 0:E 2", "50 0:E 2",
           "60 0:D 2");
}

/* At 10 a decoder is ready, but encoders fill a batch. */
static void a_full_batch_goes_before_a_later_type(void **state) {
    (void)state;
    struct step_world world = world_of(2, 2, 1, one_task, 1);
    arrives(&world, 0, 1, 3);
    arrives(&world, 5, 1, 1);
    arrives(&world, 5, 1, 1);
    EXPECT(&world, "0 0:E 0", "10 0:E 1 2", "20 0:D 0 1", "30 0:D 0 2", "40 0:D 0");
}

/* At 15 a decoder of 2 is ready, but decoders run on executor 0: (b) takes the encoder. At 25 no
 * other type is ready: (c). The ready cells of 0 and 1 are pinned to executor 0, and do not count
 * on executor 1 at 15 or 25. Those of 2 are not pinned, and join them at 20. */
static void a_type_that_nobody_runs_goes_before_a_later_one(void **state) {
    (void)state;
    struct step_world world = world_of(2, 4, 2, one_task, 1);
    arrives(&world, 0, 1, 3);
    arrives(&world, 0, 1, 3);
    arrives(&world, 5, 1, 1);
    arrives(&world, 12, 1, 1);
    EXPECT(&world, "0 0:E 0 1", "5 1:E 2", "10 0:D 0 1", "15 1:E 3", "20 0:D 0 1 2", "25 1:D 3",
           "30 0:D 0 1");
}

/* Executor 1 is idle throughout: two ready cells, a full batch, are pinned to executor 0. */
static void ready_cells_pinned_elsewhere_do_not_count(void **state) {
    (void)state;
    struct step_world world = world_of(1, 2, 2, one_task, 1);
    arrives(&world, 0, 3, 0);
    arrives(&world, 0, 3, 0);
    EXPECT(&world, "0 0:E 0 1", "10 0:E 0 1", "20 0:E 0 1");
}

static void follow_up_tasks_below_the_minimum_are_not_submitted(void **state) {
    (void)state;
    static const struct tt_option two[] = {{"max_tasks", "3"}, {"min_batch", "2"}};
    /* None, the policy's, the type's own. */
    for (int variant = 0; variant < 3; variant++) {
        struct step_world world = world_of(1, 4, 1, two, variant == 1 ? 2 : 1);
        world.models[0].min_rows = variant == 2 ? 2 : 0;
        arrives(&world, 0, 3, 0);
        arrives(&world, 0, 1, 0);
        arrives(&world, 5, 2, 0);
        if (variant == 0) /* no minimum: 2 arrives too late for the submitted tasks */
            EXPECT(&world, "0 0:E 0 1", "10 0:E 0", "20 0:E 0", "30 0:E 2", "40 0:E 2");
        else /* 0 alone is too few for a follow-up; at 10 another joins */
            EXPECT(&world, "0 0:E 0 1", "10 0:E 0 2", "20 0:E 0 2");
    }
}

static void a_visit_is_of_so_many_tasks(void **state) {
    (void)state;
    static const struct tt_option two[] = {{"max_tasks", "2"}};
    struct step_world world = world_of(1, 4, 1, two, 1);
    arrives(&world, 0, 3, 0);
    arrives(&world, 5, 3, 0);
    EXPECT(&world, "0 0:E 0", "10 0:E 0", "20 0:E 0 1", "30 0:E 1", "40 0:E 1");
    world = world_of(1, 4, 1, NULL, 0); /* five, unless the option is given */
    arrives(&world, 0, 6, 0);
    arrives(&world, 5, 1, 0);
    EXPECT(&world, "0 0:E 0", "10 0:E 0", "20 0:E 0", "30 0:E 0", "40 0:E 0", "50 0:E 0 1");
}

/* The output ends at its second element: the three cells behind it run, and are discarded. */
static void cells_beyond_the_end_are_discarded(void **state) {
    (void)state;
    struct step_world world = world_of(2, 4, 1, NULL, 0);
    arrives(&world, 0, 1, 2);
    step_world_open(&world);
    step_world_run(&world);
    assert_int_equal(world.log_count, 6);
    assert_int_equal(world.ends[0].ended_at, 3 * UNIT);
    assert_int_equal(world.ends[0].ending, TT_ENDING_DONE);
    step_world_close(&world);
}

/* ---- long sequences ---- */

enum { LONG = 330, SHORT = 4, BATCH = 8, FLOOD = 2000 };

struct flood {
    int32_t next, burst; /* the number of short requests per unit */
    int64_t long_began, long_ended, worst_short;
};

static bool flood_next(void *context, struct tt_sim_arrival *out) {
    struct flood *self = context;
    if (self->next == FLOOD)
        return false;
    bool is_long = self->next == FLOOD / 4;
    *out = (struct tt_sim_arrival){.at = (int64_t)(self->next / self->burst) * 2 * UNIT,
                                   .deadline_at = TT_NEVER,
                                   .cancel_at = TT_NEVER,
                                   .rows = 1,
                                   .length = is_long ? LONG : SHORT,
                                   .exit_step = -1};
    self->next++;
    return true;
}

static void flood_ended(void *context, const struct tt_sim_ending *ending) {
    struct flood *self = context;
    int64_t took = ending->ended_at - ending->arrived_at;
    if (ending->number == FLOOD / 4) {
        self->long_began = ending->started_at - ending->arrived_at;
        self->long_ended = ending->ended_at - ending->started_at;
    } else if (took > self->worst_short) {
        self->worst_short = took;
    }
}

/* `burst` short requests every two units; one executor serves 4 of them. */
static struct flood flooded(int32_t burst, const struct tt_option *options, int32_t count) {
    struct flood flood = {.burst = burst};
    struct step_world world = world_of(1, BATCH, 1, options, count);
    step_world_make(&world, 0);
    struct tt_sim_model model = {.step_model = &world.step_models[0]};
    struct tt_sim_device device = {.executors = 1};
    struct tt_sim_options sim = {.models = &model,
                                 .model_count = 1,
                                 .devices = &device,
                                 .device_count = 1,
                                 .depth = 5,
                                 .check = true,
                                 .source = {.context = &flood, .next = flood_next},
                                 .observer = {.context = &flood, .ended = flood_ended},
                                 .create_policy = step_world_create,
                                 .create_context = &world};
    struct tt_simulation *simulation;
    struct tt_error why;
    assert_int_equal(tt_simulation_new(&sim, &simulation, &why), TT_OK);
    while (tt_simulation_run(simulation, 1000))
        continue;
    tt_simulation_free(simulation);
    tt_profile_free(world.profiles[0][0]);
    tt_profile_free(world.profiles[0][1]);
    return flood;
}

static void a_long_sequence_neither_starves_nor_is_starved(void **state) {
    (void)state;
    static const struct tt_option five[] = {{"max_tasks", "5"}};
    /* Once begun, it is in every task, however many others arrive, overload included. */
    for (int32_t burst = 1; burst <= 12; burst++) {
        struct flood one = flooded(burst, one_task, 1), many = flooded(burst, five, 1);
        assert_int_equal(one.long_ended, LONG * UNIT);
        assert_int_equal(many.long_ended, LONG * UNIT);
        if (burst > 3) /* 3 occupy 6 of 8 places; the long one takes the seventh */
            continue;
        /* It waits for the running task, or the visit. It takes no more than one place from other
         * requests, which wait no longer than that either. */
        assert_true(one.long_began <= 2 * UNIT);
        assert_true(many.long_began <= 6 * UNIT);
        assert_true(one.worst_short <= (SHORT + 2) * UNIT);
        assert_true(many.worst_short <= (SHORT + 2 * 5) * UNIT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_type_goes_first),
        cmocka_unit_test(a_full_batch_goes_before_a_later_type),
        cmocka_unit_test(a_type_that_nobody_runs_goes_before_a_later_one),
        cmocka_unit_test(ready_cells_pinned_elsewhere_do_not_count),
        cmocka_unit_test(follow_up_tasks_below_the_minimum_are_not_submitted),
        cmocka_unit_test(a_visit_is_of_so_many_tasks),
        cmocka_unit_test(cells_beyond_the_end_are_discarded),
        cmocka_unit_test(a_long_sequence_neither_starves_nor_is_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
