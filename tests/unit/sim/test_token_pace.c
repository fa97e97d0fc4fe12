/* TTFT and TPOT (policy/token_pace.h): schedules worked out by hand, and the promise that a request
 * which begins keeps both if tasks take as long as the profiles say. Random cases have one model or
 * two, prompts of several lengths, and too much load; the same load without the rules breaks the
 * objectives. */
#include "base/prng.h"
#include "unit/seed.h"
#include "unit/sim/step_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { READ = 0, WRITE = 1 };

static const struct tt_option drops[] = {{"drop", "deadline"}};
static struct step_world world;

/* A prompt takes 20 alone, plus 10 per further row; a round of tokens takes 10 plus 1 per row. */
static struct step_world_model decoder_of(int64_t ttft, int64_t tpot) {
    return (struct step_world_model){.steps = 2,
                                     .kinds = {TT_STEP_STATIC, TT_STEP_DECODER},
                                     .alpha = {10, 1},
                                     .beta = {10, 10},
                                     .slo_ns = TT_NEVER,
                                     .tokens = {ttft, tpot},
                                     .max_batch = 8,
                                     .output = 16};
}

static void begin(const char *policy, const struct tt_option *options, int32_t option_count) {
    world = (struct step_world){.model_count = 1,
                                .executors = 1,
                                .policy = policy,
                                .options = options,
                                .option_count = option_count};
}

static void arrives(int64_t at, int32_t output) {
    step_world_arrival(&world, at, 0)->output_length = output;
}

/* One line per task: "start P|D members". */
static void expect(const char *const *lines, int32_t count) {
    step_world_open(&world);
    step_world_run(&world);
    for (int32_t i = 0; i < world.log_count; i++) {
        char line[100];
        int at = snprintf(line, sizeof(line), "%lld %s", (long long)world.log[i].start_at,
                          world.log[i].step == READ ? "P" : "D");
        for (int32_t k = 0; k < world.log[i].count; k++)
            at += snprintf(line + at, sizeof(line) - (size_t)at, " %lld",
                           (long long)world.log[i].members[k]);
        if (i >= count)
            fail_msg("task %d, '%s', is one too many", i, line);
        assert_string_equal(line, lines[i]);
    }
    assert_int_equal(world.log_count, count);
    step_world_close(&world);
}
#define EXPECT(...)                                                                                \
    expect((const char *const[]){__VA_ARGS__},                                                     \
           (int32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

static void expect_tokens(int32_t request, int64_t first_at, int64_t last_at, int32_t count,
                          bool late) {
    const struct tt_sim_ending *end = &world.ends[request];
    assert_int_equal(end->ending, TT_ENDING_DONE);
    assert_int_equal(end->tokens.count, count);
    assert_int_equal(end->tokens.first_at, first_at);
    assert_int_equal(end->tokens.last_at, last_at);
    assert_int_equal(end->tokens_late, late);
    assert_int_equal(tt_sim_ending_in_time(end), !late);
}

/* Token k of request 0 is due at 31 + 16 (k - 1); a prompt and a round of both take 20 + 12. At 42
 * they would end at 74, but the third token is due at 63. At 75 they end by the due of the sixth,
 * 111. */
static void a_prompt_waits_until_tokens_are_ahead(void **state) {
    (void)state;
    begin("cellular", NULL, 0);
    world.models[0] = decoder_of(1000, 16);
    arrives(0, 8);
    arrives(40, 2);
    EXPECT("0 P 0", "20 D 0", "31 D 0", "42 D 0", "53 D 0", "64 D 0", "75 P 1", "95 D 0 1",
           "107 D 0 1", "119 D 0");
    expect_tokens(0, 31, 130, 8, false);
    expect_tokens(1, 107, 119, 2, false);
}

/* A round of three takes 13, which is too long. At 54 request 0 has ended, but the prompt of 2 and
 * a round would end at 86, and a token of 1 is due at 66: 1 ends first. */
static void a_round_takes_no_longer_than_the_objective(void **state) {
    (void)state;
    begin("cellular", NULL, 0);
    world.models[0] = decoder_of(1000, 12);
    for (int32_t i = 0; i < 3; i++)
        arrives(0, i == 0 ? 2 : 3);
    EXPECT("0 P 0 1", "30 D 0 1", "42 D 0 1", "54 D 1", "65 P 2", "85 D 2", "96 D 2", "107 D 2");
}

static void objectives_are_told_apart_at_the_end(void **state) {
    (void)state;
    const struct tt_option one[] = {{"max_tasks", "1"}};
    begin("cellular", one, 1);
    world.models[0] = decoder_of(31, 11);
    arrives(0, 3);
    EXPECT("0 P 0", "20 D 0", "31 D 0", "42 D 0");
    expect_tokens(0, 31, 53, 3, false);
    begin("padded", NULL, 0); /* static: 1 waits for the batch of 0, whose tokens come meanwhile */
    world.models[0] = decoder_of(40, 11);
    arrives(0, 3);
    arrives(1, 1);
    EXPECT("0 P 0", "20 D 0", "31 D 0", "42 D 0", "53 P 1", "73 D 1");
    expect_tokens(0, 31, 53, 3, false);
    expect_tokens(1, 84, 84, 1, true);
}

/* In a batch that runs to its longest answer, the short one has no tokens from padding. */
static void padding_is_no_token(void **state) {
    (void)state;
    begin("padded", NULL, 0);
    world.models[0] = decoder_of(100, 12);
    arrives(0, 3);
    arrives(0, 1);
    EXPECT("0 P 0 1", "30 D 0 1", "42 D 0 1", "54 D 0 1");
    expect_tokens(0, 42, 66, 3, false);
    expect_tokens(1, 42, 42, 1, false);
    assert_int_equal(world.ends[1].ended_at, 66);
}

/* At 31 the first token of 1 would come at 62 at the earliest; it is due at 61. */
static void a_request_without_hope_for_its_first_token_is_dropped(void **state) {
    (void)state;
    begin("cellular", drops, 1);
    world.models[0] = decoder_of(41, 1000);
    arrives(0, 1);
    arrives(20, 1);
    EXPECT("0 P 0", "20 D 0");
    assert_int_equal(world.ends[1].ending, TT_ENDING_DROPPED);
    assert_int_equal(world.ends[1].reason, TT_DROP_DEADLINE);
    begin("cellular", drops, 1);
    world.models[0] = decoder_of(42, 1000);
    arrives(0, 1);
    arrives(20, 1);
    EXPECT("0 P 0", "20 D 0", "31 P 1", "51 D 1");
    expect_tokens(1, 62, 62, 1, false);
}

/* Prompts of two models are read element by element, then in one cell of 50. At 30 request 0 is due
 * at 105 - 50 and 1 at 125 - 70, each less 22 for the round of both: a task of either delays the
 * other, and no decoder can run. */
static void prompts_do_not_wait_for_each_other(void **state) {
    (void)state;
    begin("cellular", NULL, 0);
    world.model_count = 2;
    for (int32_t m = 0; m < 2; m++) {
        world.models[m] =
            (struct step_world_model){.steps = 3,
                                      .kinds = {TT_STEP_ENCODER, TT_STEP_STATIC, TT_STEP_DECODER},
                                      .alpha = {0, 0, 1},
                                      .beta = {10, 50, 10},
                                      .slo_ns = TT_NEVER,
                                      .tokens = {m == 0 ? 105 : 110, 0},
                                      .max_batch = 8,
                                      .output = 16};
        struct tt_sim_arrival *arrival = step_world_arrival(&world, m * 15, m);
        arrival->length = 2 + m;
        arrival->output_length = 1;
    }
    step_world_open(&world);
    step_world_run(&world);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(world.ends[i].ending, TT_ENDING_DONE);
    step_world_close(&world);
}

/* Request 1 goes first, but may not begin: a round of two takes longer than the objective. The
 * prompt of 0, half read, is behind it in the queue. */
static void a_prompt_ends_behind_one_that_may_not_begin(void **state) {
    (void)state;
    begin("cellular", NULL, 0);
    world.models[0] = (struct step_world_model){.steps = 2,
                                                .kinds = {TT_STEP_ENCODER, TT_STEP_DECODER},
                                                .alpha = {0, 1},
                                                .beta = {10, 10},
                                                .slo_ns = TT_NEVER,
                                                .tokens = {0, 11},
                                                .max_batch = 8,
                                                .output = 16};
    for (int32_t i = 0; i < 2; i++) {
        struct tt_sim_arrival *arrival = step_world_arrival(&world, i * 5, 0);
        arrival->length = 2;
        arrival->output_length = 1;
        arrival->priority = 2 - i;
    }
    step_world_open(&world);
    step_world_run(&world);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(world.ends[i].ending, TT_ENDING_DONE);
    step_world_close(&world);
}

/* ---- random cases ---- */

static int32_t between(struct tt_prng *prng, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

static void draw_model(struct tt_prng *prng, struct step_world_model *m) {
    *m = (struct step_world_model){.steps = 2,
                                   .kinds = {TT_STEP_STATIC, TT_STEP_DECODER},
                                   .alpha = {between(prng, 1, 10), between(prng, 0, 3)},
                                   .beta = {between(prng, 1, 20), between(prng, 5, 20)},
                                   .gamma = {between(prng, 1, 6), between(prng, 0, 1)},
                                   .slo_ns = TT_NEVER,
                                   .max_batch = between(prng, 2, 12),
                                   .output = between(prng, 1, 20)};
    int64_t one = m->alpha[WRITE] + m->beta[WRITE] + WORLD_LENGTH * m->gamma[WRITE];
    m->tokens.ttft_ns = 60 + between(prng, 0, 400);
    m->tokens.tpot_ns = one + between(prng, 0, 40);
}

static void draw_case(struct tt_prng *prng) {
    memset(&world, 0, sizeof(world));
    world.model_count = between(prng, 1, 2);
    world.executors = 1;
    world.depth = 1;
    world.options = drops;
    world.option_count = 1;
    for (int32_t m = 0; m < world.model_count; m++)
        draw_model(prng, &world.models[m]);
    /* Rounds of both decoders are to be possible. */
    for (int32_t m = 0; world.model_count > 1 && m < 2; m++)
        world.models[m].tokens.tpot_ns += 40;
    int64_t at = 0;
    int32_t spread = between(prng, 0, 60);
    for (int32_t i = between(prng, 8, WORLD_REQUESTS); i > 0; i--) {
        at += between(prng, 0, spread);
        struct tt_sim_arrival *a =
            step_world_arrival(&world, at, between(prng, 0, world.model_count - 1));
        a->length = between(prng, 1, WORLD_LENGTH);
        a->output_length = between(prng, 1, 20);
        if (between(prng, 0, 9) == 0)
            a->cancel_at = at + between(prng, 0, 300);
    }
}

/* The least time from the beginning of a request to its first token. */
static int64_t alone_of(int32_t request) {
    const struct tt_sim_arrival *a = &world.arrivals[request];
    return tt_step_first_ns(&world.step_models[a->model], 1, a->length);
}

static int64_t longest_task(void) {
    int64_t longest_ns = 0;
    for (int32_t m = 0; m < world.model_count; m++)
        for (int32_t s = 0; s < world.step_models[m].step_count; s++) {
            const struct tt_profile *profile = world.step_models[m].steps[s].profile;
            int64_t run_ns = tt_profile_latency(profile, world.models[m].max_batch, WORLD_LENGTH);
            longest_ns = run_ns > longest_ns ? run_ns : longest_ns;
        }
    return longest_ns;
}

/* What others can take from a request that waits: a task that runs, and, if any of them have begun
 * and not ended, a round in which each decoder keeps its TPOT. Tasks of cancelled ones go on. */
static int64_t most_beside(int32_t request) {
    int64_t at = world.ends[request].ended_at, round_ns = 0, run_ns = 0;
    for (int32_t m = 0; m < world.model_count; m++)
        round_ns += world.models[m].tokens.tpot_ns;
    for (int32_t i = 0; i < world.arrival_count; i++) {
        const struct tt_sim_ending *end = &world.ends[i];
        if (i == request || end->started_at < 0 || end->started_at > at)
            continue;
        if (end->ended_at + longest_task() >= at)
            run_ns = longest_task();
        if (end->ended_at >= at)
            return longest_task() + round_ns;
    }
    return run_ns;
}

/* It had not begun, and had no hope. */
static void check_dropped(int32_t request) {
    const struct tt_sim_ending *end = &world.ends[request];
    assert_int_equal(end->started_at, -1);
    assert_true(end->ended_at + alone_of(request) + most_beside(request) >
                end->arrived_at + world.models[end->model].tokens.ttft_ns);
}

struct sums {
    int64_t done, late, dropped;
};

static void count_ends(bool promises, struct sums *sums) {
    for (int32_t i = 0; i < world.arrival_count; i++) {
        const struct tt_sim_ending *end = &world.ends[i];
        assert_true(end->ended_at != TT_NEVER);
        sums->done += end->ending == TT_ENDING_DONE;
        sums->late += end->ending == TT_ENDING_DONE && end->tokens_late;
        sums->dropped += end->ending == TT_ENDING_DROPPED;
        if (!promises)
            continue;
        assert_false(end->tokens_late);
        if (end->ending == TT_ENDING_DROPPED)
            check_dropped(i);
    }
}

static void run_case(uint64_t seed, uint64_t number, const char *policy, struct sums *sums) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, number);
    draw_case(&prng);
    world.policy = policy;
    if (strcmp(policy, "cellular") != 0)
        world.option_count = 0;
    step_world_open(&world);
    step_world_run(&world);
    count_ends(strcmp(policy, "cellular") == 0, sums);
    step_world_close(&world);
}

static void requests_that_begin_keep_both(void **state) {
    (void)state;
    enum { CASES = 3000 };
    uint64_t seed = test_seed(27);
    struct sums ours = {0}, merged = {0};
    for (uint64_t i = 0; i < CASES; i++) {
        run_case(seed, i, "cellular", &ours);
        run_case(seed, i, "padded", &merged);
    }
    print_message("%lld done, %lld dropped; padded: %lld done, %lld of them late\n",
                  (long long)ours.done, (long long)ours.dropped, (long long)merged.done,
                  (long long)merged.late);
    assert_true(ours.done > CASES && ours.dropped > CASES && merged.late > CASES);
}

/* With tasks ahead nothing is promised, but requests that cannot begin in time any more are
 * dropped, and do not begin all the same. */
static void tasks_ahead_begin_nothing_that_is_lost(void **state) {
    (void)state;
    static const struct tt_option options[] = {{"ahead", "1"}, {"drop", "deadline"}};
    uint64_t seed = test_seed(29);
    int64_t done = 0, late = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, i);
        draw_case(&prng);
        world.policy = "cellular";
        world.depth = 4;
        world.options = options;
        world.option_count = 2;
        step_world_open(&world);
        step_world_run(&world);
        for (int32_t a = 0; a < world.arrival_count; a++) {
            const struct tt_sim_ending *end = &world.ends[a];
            int64_t ttft_ns = world.models[end->model].tokens.ttft_ns;
            bool is_done = end->ending == TT_ENDING_DONE;
            done += is_done;
            late += is_done && end->tokens_late;
            assert_true(!is_done || end->started_at + alone_of(a) <= end->arrived_at + ttft_ns);
        }
        step_world_close(&world);
    }
    print_message("%lld done, %lld of them late\n", (long long)done, (long long)late);
}

/* Several executors, tasks ahead, prompts of a cell per element, no dropping: no promise, but all
 * requests end, and the checks of mechanism and policy hold. */
static void all_requests_end_where_nothing_is_promised(void **state) {
    (void)state;
    uint64_t seed = test_seed(28);
    static const struct tt_option ahead[] = {{"ahead", "1"}, {"max_tasks", "2"}};
    for (uint64_t i = 0; i < 1500; i++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, i);
        draw_case(&prng);
        world.policy = "cellular";
        world.executors = between(&prng, 1, 3);
        world.depth = 4;
        world.options = ahead;
        world.option_count = between(&prng, 0, 1) ? 2 : 0;
        for (int32_t m = 0; m < world.model_count; m++) {
            struct step_world_model *model = &world.models[m];
            model->kinds[READ] = between(&prng, 0, 1) ? TT_STEP_ENCODER : TT_STEP_STATIC;
            if (between(&prng, 0, 3) == 0)
                model->tokens.ttft_ns = 0;
            else if (between(&prng, 0, 3) == 0)
                model->tokens.tpot_ns = between(&prng, 0, 1); /* none, or a hopeless one */
        }
        for (int32_t a = 0; a < world.arrival_count; a++)
            world.arrivals[a].rows = between(&prng, 0, 3) ? 1 : 2;
        step_world_open(&world);
        step_world_run(&world);
        for (int32_t a = 0; a < world.arrival_count; a++)
            assert_true(world.ends[a].ending == TT_ENDING_DONE ||
                        (world.ends[a].ending == TT_ENDING_CANCELLED &&
                         world.arrivals[a].cancel_at != TT_NEVER));
        step_world_close(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_waits_until_tokens_are_ahead),
        cmocka_unit_test(a_round_takes_no_longer_than_the_objective),
        cmocka_unit_test(objectives_are_told_apart_at_the_end),
        cmocka_unit_test(padding_is_no_token),
        cmocka_unit_test(a_request_without_hope_for_its_first_token_is_dropped),
        cmocka_unit_test(prompts_do_not_wait_for_each_other),
        cmocka_unit_test(a_prompt_ends_behind_one_that_may_not_begin),
        cmocka_unit_test(requests_that_begin_keep_both),
        cmocka_unit_test(tasks_ahead_begin_nothing_that_is_lost),
        cmocka_unit_test(all_requests_end_where_nothing_is_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
