/* slow */
/* S1, S2, S3, S4, S5, D9, L4: on random small cases every policy decides exactly as its naive
 * model. Cases have rows, lengths, priorities, optional deadlines, messages that take time,
 * cancellations, and executors and models that are removed and added. TUTTI_SEED and
 * TUTTI_TEST_CASES select other seeds and more cases; an argument selects the tests whose names
 * match it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "policy/deferred/nexus_plan.h"
#include "unit/policy/naive_variant.h"
#include "unit/seed.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASES = 600 };
#else
enum { CASES = 4000 };
#endif
enum { UNTIL = 700, CHANGES = 9 };

static int32_t between(struct tt_prng *prng, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

/* ---- random variants; durations in units ---- */

static struct variant draw_serial(struct tt_prng *prng, int64_t unit_ns) {
    (void)unit_ns;
    return variant_serial(between(prng, 0, 1));
}
static struct variant draw_window(struct tt_prng *prng, int64_t unit_ns) {
    struct naive_window window = {.drop = between(prng, 0, 1),
                                  .is_static = between(prng, 0, 3) == 0,
                                  .same_length = between(prng, 0, 2) == 0,
                                  .round_robin = between(prng, 0, 1)};
    window.delay_ns = between(prng, 0, 2) ? between(prng, 0, 30) * unit_ns : -1;
    window.max_batch = between(prng, 0, 1) * between(prng, 1, 8);
    return variant_window(&window);
}
static struct variant draw_clockwork(struct tt_prng *prng, int64_t unit_ns) {
    (void)unit_ns;
    return variant_clockwork(between(prng, 0, 1));
}
static struct variant draw_shepherd(struct tt_prng *prng, int64_t unit_ns) {
    static const int64_t thresholds[] = {3000, 3000, 1001, 1500, 2000};
    bool largest = between(prng, 0, 1);
    int64_t threshold = thresholds[between(prng, 0, 4)];
    int64_t abort_cost = between(prng, 0, 1) * between(prng, 1, 12);
    return variant_shepherd(largest, threshold, abort_cost * unit_ns);
}
static struct variant draw_nexus(struct tt_prng *prng, int64_t unit_ns) {
    int64_t epoch = between(prng, 10, 100);
    return variant_nexus(epoch * unit_ns, between(prng, 1, NEXUS_FRONTENDS));
}
static struct variant draw_published(struct tt_prng *prng, int64_t unit_ns) {
    static const char *const names[] = {"eager", "symphony", "timeout"};
    const char *name = names[between(prng, 0, 2)];
    bool reform = between(prng, 0, 1);
    int64_t delay_ns = between(prng, 0, 40) * unit_ns;
    int64_t percent = between(prng, 0, 1) ? between(prng, 0, 100) : 0; /* of the SLO */
    return variant_published(name, reform, delay_ns, percent);
}
static struct variant draw_deferred(struct tt_prng *prng, int64_t unit_ns) {
    struct tt_deferred_options o = {.floor = TT_FLOOR_FIXED};
    o.defer = (enum tt_deferred_defer)between(prng, 0, 2);
    if (between(prng, 0, 3) == 0)
        o.floor = TT_FLOOR_OFF;
    o.target = between(prng, 1, 9);
    o.key = (enum tt_deferred_key)between(prng, 0, 1);
    o.reform_at_latest = between(prng, 0, 1);
    o.credit = between(prng, 0, 1);
    o.lookahead = between(prng, 0, 3) > 0;
    o.credit_step_ns = between(prng, 0, 9) * unit_ns;
    o.split = between(prng, 0, 1);
    o.gap_permille = 1000 * between(prng, 0, 4);
    o.slack_permille = 250 * between(prng, 0, 4);
    o.beta_permille = 1000 * between(prng, 0, 3);
    return variant_deferred(&o);
}
static struct variant draw_adaptive(struct tt_prng *prng, int64_t unit_ns) {
    struct variant drawn = draw_deferred(prng, unit_ns);
    struct tt_deferred_options o = drawn.initial.deferred.options;
    o.by_load = true;
    return variant_deferred(&o);
}

/* ---- random cases ---- */

static void draw_models(struct tt_prng *prng, struct drive_model *models, int32_t count,
                        int64_t unit_ns) {
    for (int32_t m = 0; m < count; m++) {
        models[m].alpha_ns = between(prng, 0, 4) * unit_ns;
        models[m].beta_ns = between(prng, 1, 12) * unit_ns;
        models[m].max_batch = between(prng, 3, 14);
        models[m].slo_ns = models[m].alpha_ns + models[m].beta_ns + between(prng, 0, 60) * unit_ns;
        if (between(prng, 0, 15) == 0)
            models[m].slo_ns = TT_NEVER;
    }
}

static void draw_arrivals(struct tt_prng *prng, struct drive *drive, int64_t unit_ns) {
    int32_t count = between(prng, 1, 40), spread = between(prng, 0, 8);
    bool rows = between(prng, 0, 2) == 0, deadlines = between(prng, 0, 3) == 0;
    bool cancels = between(prng, 0, 3) == 0, priorities = between(prng, 0, 3) == 0;
    int64_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        at += between(prng, 0, spread) * unit_ns;
        struct drive_arrival *a =
            drive_arrival(drive, at, between(prng, 0, drive->setup.model_count - 1));
        a->length = between(prng, 0, 2);
        if (rows)
            a->rows = between(prng, 1, 3);
        if (priorities)
            a->priority = between(prng, 0, 2);
        if (deadlines)
            a->deadline_at = between(prng, 0, 9) ? at + between(prng, 1, 60) * unit_ns : TT_NEVER;
        if (cancels && between(prng, 0, 3) == 0)
            a->cancel_at = at + between(prng, 0, 30) * unit_ns;
    }
}

/* Properties that only the window policy reads. */
static void draw_batcher(struct tt_prng *prng, struct tt_step_model *model, int64_t unit_ns) {
    static const int32_t sizes[][3] = {{2}, {1, 3}, {2, 4, 20}, {5, 6, 7}};
    static const int32_t counts[] = {1, 2, 3, 3};
    int32_t row = between(prng, 0, 7);
    model->preferred_count = row < 4 ? counts[row] : 0;
    model->preferred = row < 4 ? sizes[row] : NULL;
    model->window_ns = between(prng, 0, 1) * between(prng, 1, 20) * unit_ns;
}

static int32_t draw_changes(struct tt_prng *prng, const struct drive_setup *setup, int64_t unit_ns,
                            struct drive_change *changes) {
    int32_t count = between(prng, 0, 2) ? 0 : between(prng, 1, CHANGES);
    int64_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        struct drive_change *change = &changes[i];
        at += between(prng, 0, 25) * unit_ns;
        if (i > 0 && between(prng, 0, 3)) { /* usually the same again: it is removed, or returns */
            *change = changes[i - 1];
        } else {
            change->is_model = between(prng, 0, 1);
            change->id =
                between(prng, 0, (change->is_model ? setup->model_count : setup->executors) - 1);
        }
        change->at = at;
    }
    return count;
}

/* ---- the comparison ---- */

static struct {
    const char *what;
    uint64_t seed, number;
} current;

static void say_where(int number) {
    (void)number;
    fprintf(stderr, "%s: TUTTI_SEED=%llu, case %llu\n", current.what,
            (unsigned long long)current.seed, (unsigned long long)current.number);
}

struct tally {
    int64_t tasks, aborts, kept, plans, early, refused;
};

typedef struct variant draw_variant(struct tt_prng *prng, int64_t unit_ns);

static void one_case(draw_variant *draw, int64_t unit_ns, struct tally *tally) {
    struct tt_prng prng;
    tt_prng_init(&prng, current.seed, current.number);
    struct variant variant = draw(&prng, unit_ns);
    struct drive_model models[WORLD_MODELS] = {0};
    struct drive_change changes[CHANGES];
    struct drive_setup setup = {.models = models, .changes = changes, .check = true};
    variant_setup(&variant, &setup);
    setup.model_count = between(&prng, 1, WORLD_MODELS);
    setup.executors = between(&prng, 1, WORLD_EXECUTORS);
    setup.abort_ns = between(&prng, 1, 8) * unit_ns;
    draw_models(&prng, models, setup.model_count, unit_ns);
    if (between(&prng, 0, 3) == 0) {
        setup.d_ctrl_ns = between(&prng, 0, 6) * unit_ns;
        setup.d_data_ns = between(&prng, 0, 2) * unit_ns;
    }
    setup.change_count = draw_changes(&prng, &setup, unit_ns, changes);
    struct drive fast;
    drive_open(&fast, &setup);
    for (int32_t m = 0; m < setup.model_count; m++)
        draw_batcher(&prng, &fast.models[m], unit_ns);
    draw_arrivals(&prng, &fast, unit_ns);
    if (!variant_agrees(&variant, &fast, unit_ns, UNTIL * unit_ns)) {
        say_where(0);
        fail_msg("%s differs from its naive model", variant.policy);
    }
    tally->tasks += fast.task_count;
    for (int32_t r = 0; r < fast.arrival_count; r++)
        tally->refused += fast.outcomes[r].refused;
    if (variant.decide == naive_shepherd_decide) {
        tally->aborts += variant.memory.shepherd.aborts;
        tally->kept += variant.memory.shepherd.kept;
    } else if (variant.decide == naive_nexus_decide) {
        tally->plans += variant.memory.nexus.plans;
        tally->early += variant.memory.nexus.early;
    }
    drive_close(&fast);
}

static uint64_t given_number(const char *name, uint64_t otherwise) {
    const char *given = getenv(name);
    return given ? strtoull(given, NULL, 10) : otherwise;
}

static struct tally many_cases(const char *what, draw_variant *draw, int64_t unit_ns) {
    uint64_t cases = given_number("TUTTI_TEST_CASES", CASES);
    struct tally tally = {.tasks = 0};
    current.what = what;
    current.seed = test_seed(20230814);
    for (current.number = 0; current.number < cases; current.number++)
        one_case(draw, unit_ns, &tally);
    print_message("%s, seed %llu: %llu cases, %lld tasks compared\n", what,
                  (unsigned long long)current.seed, (unsigned long long)cases,
                  (long long)tally.tasks);
    assert_true(tally.tasks > (int64_t)cases && tally.refused > 0);
    return tally;
}

static void test_serial(void **state) {
    (void)state;
    many_cases("serial", draw_serial, 1);
}
static void test_window(void **state) {
    (void)state;
    many_cases("window", draw_window, 1);
}
static void test_clockwork(void **state) {
    (void)state;
    many_cases("clockwork", draw_clockwork, 1);
}
static void test_shepherd(void **state) {
    (void)state;
    struct tally tally = many_cases("shepherd", draw_shepherd, 1);
    assert_true(tally.aborts > 0 && tally.kept > 0);
}
/* Its epochs are at least milliseconds, so all its times are of that magnitude. */
static void test_nexus(void **state) {
    (void)state;
    struct tally tally = many_cases("nexus", draw_nexus, 100 * TT_US);
    assert_true(tally.plans > tally.tasks / 50 && tally.early > 0);
}
/* One random plan: larger clusters than the cases above have, and all kinds of rates. */
static void one_plan(struct tt_prng *prng, int64_t *sessions) {
    struct naive_nexus_plan slow = {.model_count = between(prng, 1, NEXUS_MODELS)};
    struct tt_profile *profiles[NEXUS_MODELS];
    struct tt_step_model models[NEXUS_MODELS] = {0};
    const struct tt_step_model *there[NEXUS_MODELS] = {NULL};
    int64_t rates[NEXUS_MODELS], d_ctrl_ns = between(prng, 0, 1) * between(prng, 0, TT_MS);
    int64_t d_data_ns = between(prng, 0, 1) * between(prng, 0, TT_MS / 10);
    int32_t nodes = between(prng, 0, NEXUS_NODES), top = between(prng, 2, 40);
    struct tt_error why;
    for (int32_t m = 0; m < slow.model_count; m++) {
        int64_t alpha_ns = between(prng, 0, 5) * TT_MS, beta_ns = between(prng, 1, 20) * TT_MS;
        int32_t max_batch = between(prng, 1, 40);
        assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, max_batch, &profiles[m], &why),
                         TT_OK);
        models[m] = (struct tt_step_model){.whole = profiles[m], .max_batch = max_batch};
        models[m].slo_ns = between(prng, 0, 9) ? between(prng, 1, 200) * TT_MS : TT_NEVER;
        there[m] = between(prng, 0, 9) ? &models[m] : NULL;
        rates[m] = 1 + (int64_t)tt_prng_below(prng, UINT64_C(1) << top);
        slow.models[m] = (struct naive_nexus_model){.exists = there[m] != NULL,
                                                    .alpha_ns = alpha_ns + d_data_ns,
                                                    .beta_ns = beta_ns + d_ctrl_ns,
                                                    .slo_ns = models[m].slo_ns,
                                                    .max_batch = max_batch};
    }
    struct tt_nexus_plan fast;
    assert_int_equal(tt_nexus_plan_init(&fast, slow.model_count, NEXUS_NODES,
                                        (struct tt_network_delay){d_ctrl_ns, d_data_ns}),
                     TT_OK);
    tt_nexus_plan_make(&fast, there, rates, nodes);
    naive_nexus_make(&slow, rates, nodes);
    assert_int_equal(fast.session_count, slow.session_count);
    assert_int_equal(fast.node_count, slow.node_count);
    for (int32_t s = 0; s < fast.session_count; s++) {
        assert_int_equal(fast.sessions[s].model, slow.sessions[s].model);
        assert_int_equal(fast.sessions[s].node, slow.sessions[s].node);
        assert_int_equal(fast.sessions[s].rate, slow.sessions[s].rate);
        assert_int_equal(fast.sessions[s].batch, naive_nexus_batch(&slow, s));
    }
    *sessions += fast.session_count;
    tt_nexus_plan_fini(&fast);
    for (int32_t m = 0; m < slow.model_count; m++)
        tt_profile_free(profiles[m]);
}
static void test_nexus_plans(void **state) {
    (void)state;
    int64_t sessions = 0;
    uint64_t cases = given_number("TUTTI_TEST_CASES", CASES) / 4;
    current.what = "nexus plan";
    current.seed = test_seed(20230814);
    print_message("nexus plans, seed %llu\n", (unsigned long long)current.seed);
    for (current.number = 0; current.number < cases; current.number++) {
        struct tt_prng prng;
        tt_prng_init(&prng, current.seed, current.number);
        one_plan(&prng, &sessions);
    }
    print_message("%lld sessions compared\n", (long long)sessions);
    assert_true(sessions > (int64_t)cases);
    current.what = NULL;
}
static int say_which_plan(void **state) {
    (void)state;
    if (current.what)
        say_where(0);
    return 0;
}
static void test_published(void **state) {
    (void)state;
    many_cases("eager, symphony, timeout", draw_published, 1);
}
static void test_deferred(void **state) {
    (void)state;
    many_cases("deferred", draw_deferred, 1);
}
static void test_adaptive(void **state) {
    (void)state;
    many_cases("adaptive", draw_adaptive, 1);
}

int main(int argc, char **argv) {
    signal(SIGABRT, say_where); /* a failed assertion of the fast policy */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serial),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_clockwork),
        cmocka_unit_test(test_shepherd),
        cmocka_unit_test(test_nexus),
        cmocka_unit_test_teardown(test_nexus_plans, say_which_plan),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_deferred),
        cmocka_unit_test(test_adaptive),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
