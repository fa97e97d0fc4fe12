/* Every registered policy, and the baselines' option variants, under random load. Arrivals: models
 * of one step or several, bursts, rows, lengths, optional deadlines. Also cancellations, executors
 * that drain and return, and a model that is removed and added. The internal checks run after every
 * instant. Every request leaves exactly once (drive.h asserts it), and a waiting request is served
 * once it can be. */
#include "base/prng.h"
#include "unit/policy/drive.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MODELS = 4, EXECUTORS = 5, ROUNDS = 40 };

static struct drive_model random_model(struct tt_prng *prng) {
    int64_t alpha = (int64_t)(1 + tt_prng_below(prng, 3)) * TT_MS;
    int64_t beta = (int64_t)tt_prng_below(prng, 12) * TT_MS;
    return (struct drive_model){.alpha_ns = alpha,
                                .beta_ns = beta,
                                .slo_ns = 2 * (4 * alpha + beta) +
                                          (int64_t)tt_prng_below(prng, 20) * TT_MS,
                                .max_batch = 1 + (int32_t)tt_prng_below(prng, 24),
                                .steps = 1 << tt_prng_below(prng, 3),
                                .slots = (int32_t)tt_prng_below(prng, 9)};
}

static int64_t add_arrivals(struct drive *drive, struct tt_prng *prng, int64_t at, int32_t count) {
    int64_t mean = (int64_t)(1 + tt_prng_below(prng, 4000)) * TT_US;
    for (int32_t i = 0; i < count; i++) {
        if (tt_prng_below(prng, 3) > 0)
            at += (int64_t)tt_prng_below(prng, (uint64_t)mean);
        int32_t model = (int32_t)tt_prng_below(prng, MODELS);
        struct drive_arrival *arrival = drive_arrival(drive, at, model);
        int32_t most = drive->models[model].max_batch < 3 ? drive->models[model].max_batch : 3;
        arrival->rows = 1 + (int32_t)tt_prng_below(prng, (uint64_t)most);
        arrival->length = (int32_t)tt_prng_below(prng, 3);
        if (tt_prng_below(prng, 16) == 0)
            arrival->deadline_at = TT_NEVER;
        else if (tt_prng_below(prng, 8) == 0)
            arrival->deadline_at = at + (int64_t)tt_prng_below(prng, 60) * TT_MS;
        if (tt_prng_below(prng, 10) == 0)
            arrival->cancel_at = at + (int64_t)tt_prng_below(prng, 30) * TT_MS;
    }
    return at;
}

static void decide(struct drive *drive, int64_t now) {
    drive->now = now;
    tt_mechanism_decide(&drive->mechanism, now);
    tt_mechanism_check(&drive->mechanism);
}

/* An executor drains, is removed when empty, or is added again. */
static void change_executor(struct drive *drive, struct tt_prng *prng, int64_t now) {
    drive_change_executor(drive, now, (int32_t)tt_prng_below(prng, EXECUTORS));
    decide(drive, now);
}

static void bring_all_back(struct drive *drive, int64_t now) {
    for (int32_t e = 0; e < EXECUTORS; e++) {
        struct tt_executor *executor = &drive->mechanism.executors[e];
        if (executor->state == TT_EXECUTOR_DRAINING && executor->queued == 0)
            tt_mechanism_remove_executor(&drive->mechanism, now, e);
        if (executor->state == TT_EXECUTOR_GONE)
            tt_mechanism_add_executor(&drive->mechanism, now, e, e);
    }
    decide(drive, now);
}

static void model_goes_and_comes(struct drive *drive, int64_t now) {
    tt_mechanism_drain_model(&drive->mechanism, now, 1);
    decide(drive, now);
    tt_mechanism_remove_model(&drive->mechanism, now, 1);
    decide(drive, now);
    tt_mechanism_add_model(&drive->mechanism, now, 1, &drive->models[1]);
    decide(drive, now);
}

static void stress(const char *policy, const struct tt_option *options, int32_t option_count,
                   uint64_t seed) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    struct drive_model models[MODELS];
    for (int32_t m = 0; m < MODELS; m++)
        models[m] = random_model(&prng);
    struct drive_setup setup = {.models = models,
                                .model_count = MODELS,
                                .executors = EXECUTORS,
                                .policy = policy,
                                .options = options,
                                .option_count = option_count,
                                .d_ctrl_ns = tt_prng_below(&prng, 2) ? 100 * TT_US : 0,
                                .d_data_ns = tt_prng_below(&prng, 2) ? 20 * TT_US : 0,
                                .abort_ns = 1 + (int64_t)tt_prng_below(&prng, 5000000),
                                .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    int64_t at = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        at = add_arrivals(&drive, &prng, at, 20);
        int64_t until = at - (int64_t)tt_prng_below(&prng, 3) * TT_MS;
        drive_run(&drive, until);
        int64_t now = tt_instant_max(until, drive.now);
        change_executor(&drive, &prng, now);
        at = tt_instant_max(at, now + 1);
        if (round % 20 != 19)
            continue;
        drive_run(&drive, now + 500 * TT_MS);
        now = tt_instant_max(now + 500 * TT_MS, drive.now);
        bring_all_back(&drive, now);
        drive_run(&drive, now + 10 * TT_S);
        /* All requests could have been served or dropped long before. */
        assert_int_equal(drive.mechanism.requests.in_use, 0);
        model_goes_and_comes(&drive, now + 10 * TT_S);
        at = now + 10 * TT_S + 1;
    }
    drive_close(&drive);
}

static void every_policy_keeps_the_books(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++)
        for (uint64_t seed = test_seed(1), end = seed + 12; seed < end; seed++) {
            print_message("policy %s seed %d\n", tt_policy_at(i)->name, (int)seed);
            stress(tt_policy_at(i)->name, NULL, 0, seed);
        }
}

static void every_variant_keeps_the_books(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        struct tt_option options[4];
        int32_t count;
    } variants[] = {
        {"serial", {{"drop", "deadline"}}, 1},
        {"window", {{"max_delay", "3ms"}, {"order", "round_robin"}, {"drop", "deadline"}}, 3},
        {"window", {{"max_delay", "5ms"}, {"same_length", "on"}, {"max_batch", "4"}}, 3},
        {"window", {{"static", "on"}, {"max_delay", "20ms"}}, 2},
        {"diversity", {{"input", "pays"}, {"width", "1"}, {"window", "2ms"}}, 3},
        {"diversity", {{"stretch", "pays"}, {"beside", "pays"}, {"window", "3ms"}}, 3},
        {"clockwork", {{"reading", "batch_of_one"}}, 1},
        {"lazy", {{"slack", "curves"}, {"patience", "1"}}, 2},
        {"lazy",
         {{"slack", "published"}, {"foreign", "slack"}, {"votes", "all"}, {"drop", "deadline"}},
         4},
        {"lazy", {{"patience", "0.5"}, {"foreign", "never"}, {"max_batch", "4"}}, 3},
        {"nexus", {{"epoch", "20ms"}, {"frontends", "3"}}, 2},
        {"shepherd", {{"threshold", "1.5"}, {"abort_cost", "1ms"}}, 2},
        {"shepherd", {{"threshold", "2"}, {"candidate", "largest"}}, 2},
    };
    for (size_t i = 0; i < TT_COUNT(variants); i++)
        for (uint64_t seed = test_seed(100), end = seed + 12; seed < end; seed++) {
            print_message("policy %s variant %d seed %d\n", variants[i].policy, (int)i, (int)seed);
            stress(variants[i].policy, variants[i].options, variants[i].count, seed);
        }
}

static void names_are_sorted_and_found(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        assert_ptr_equal(tt_policy_find(kind->name), kind);
        assert_true(strlen(kind->summary) > 0);
        if (i > 0)
            assert_true(strcmp(tt_policy_at(i - 1)->name, kind->name) < 0);
        for (int32_t k = 0; k < kind->option_count; k++)
            assert_true(strlen(kind->options[k].help) > 0);
    }
    assert_null(tt_policy_find("no such policy"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_sorted_and_found),
        cmocka_unit_test(every_policy_keeps_the_books),
        cmocka_unit_test(every_variant_keeps_the_books),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
