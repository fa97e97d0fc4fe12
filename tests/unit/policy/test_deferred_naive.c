/* S1-S5: on random small cases the deferred family decides exactly as the naive model does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "unit/policy/naive_deferred.h"

enum { UNTIL = 700 };

static int32_t between(struct tt_prng *prng, int32_t low, int32_t high) {
    return low + (int32_t)tt_prng_below(prng, (uint64_t)(high - low + 1));
}

struct texts {
    struct tt_option options[TT_MAX_OPTIONS];
    char values[TT_MAX_OPTIONS][32];
    int32_t count;
};

static void put(struct texts *self, const char *key, const char *format, int64_t value) {
    snprintf(self->values[self->count], sizeof(self->values[0]), format, (long long)value);
    self->options[self->count] = (struct tt_option){key, self->values[self->count]};
    self->count++;
}
static void put_switch(struct texts *self, const char *key, bool on) {
    put(self, key, on ? "on" : "off", 0);
}

/* A random member of the family, in words for the fast one and in numbers for the slow one. */
static const char *draw_policy(struct tt_prng *prng, struct texts *texts,
                               struct tt_deferred_options *o) {
    static const char *const published[] = {"eager", "symphony", "timeout"};
    static const enum tt_deferred_defer rules[] = {TT_DEFER_NONE, TT_DEFER_FULL, TT_DEFER_TIMEOUT};
    *o = (struct tt_deferred_options){.key = TT_KEY_LATEST, .floor = TT_FLOOR_OFF};
    o->reform_at_latest = between(prng, 0, 1);
    put_switch(texts, "reform_at_latest", o->reform_at_latest);
    if (between(prng, 0, 1)) {
        int kind = between(prng, 0, 2);
        o->defer = rules[kind];
        if (o->defer == TT_DEFER_TIMEOUT) {
            o->delay_ns = between(prng, 0, 40);
            put(texts, "delay", "%lldns", o->delay_ns);
        }
        return published[kind];
    }
    static const char *const defer_names[] = {"none", "partial", "full"};
    o->defer = (enum tt_deferred_defer)between(prng, 0, 2);
    put(texts, "defer", defer_names[o->defer], 0);
    bool fixed = between(prng, 0, 3) > 0;
    o->floor = fixed ? TT_FLOOR_FIXED : TT_FLOOR_OFF;
    put(texts, "floor", fixed ? "fixed" : "off", 0);
    o->target = between(prng, 1, 9);
    put(texts, "target", "%lld", o->target);
    o->key = (enum tt_deferred_key)between(prng, 0, 1);
    put(texts, "key", o->key == TT_KEY_LATEST ? "latest" : "deadline", 0);
    o->credit = between(prng, 0, 1);
    put_switch(texts, "credit", o->credit);
    o->credit_step_ns = between(prng, 0, 9);
    put(texts, "credit_step", "%lldns", o->credit_step_ns);
    o->split = between(prng, 0, 1);
    put_switch(texts, "split", o->split);
    o->gap_permille = 1000 * between(prng, 0, 4);
    put(texts, "gap_factor", "%lld", o->gap_permille / 1000);
    o->slack_permille = 250 * between(prng, 0, 4);
    put(texts, "slack_limit", o->slack_permille % 1000 ? "0.%lld" : "%lld",
        o->slack_permille % 1000 ? o->slack_permille : o->slack_permille / 1000);
    o->beta_permille = 1000 * between(prng, 0, 3);
    put(texts, "beta_limit", "%lld", o->beta_permille / 1000);
    return "deferred";
}

static void draw_models(struct tt_prng *prng, struct drive_model *models, int32_t count) {
    for (int32_t m = 0; m < count; m++) {
        models[m].alpha_ns = between(prng, 0, 4);
        models[m].beta_ns = between(prng, 1, 12);
        models[m].max_batch = between(prng, 3, 14);
        models[m].slo_ns = models[m].alpha_ns + models[m].beta_ns + between(prng, 0, 40);
    }
}

static void draw_arrivals(struct tt_prng *prng, struct drive *drive, int32_t models) {
    int32_t count = between(prng, 1, 40), spread = between(prng, 0, 8);
    bool rows = between(prng, 0, 2) == 0, deadlines = between(prng, 0, 3) == 0;
    bool cancels = between(prng, 0, 3) == 0;
    int64_t at = 0;
    for (int32_t i = 0; i < count; i++) {
        at += between(prng, 0, spread);
        struct drive_arrival *a = drive_arrival(drive, at, between(prng, 0, models - 1));
        if (rows)
            a->rows = between(prng, 1, 3);
        if (deadlines)
            a->deadline_at = at + between(prng, 1, 60);
        if (cancels && between(prng, 0, 3) == 0)
            a->cancel_at = at + between(prng, 0, 30);
    }
}

static void compare(const struct drive *fast, const struct naive *slow) {
    for (int32_t i = 0; i < fast->task_count && i < slow->task_count; i++) {
        const struct drive_task *a = &fast->tasks[i];
        const struct naive_task *b = &slow->tasks[i];
        assert_int_equal(a->executor, b->executor);
        assert_int_equal(a->start_at, b->start_at);
        assert_int_equal(a->count, b->count);
        for (int32_t k = 0; k < a->count; k++)
            assert_int_equal(fast->members[a->first + k], b->members[k]);
    }
    assert_int_equal(fast->task_count, slow->task_count);
    for (int32_t r = 0; r < fast->arrival_count; r++) {
        const struct drive_outcome *a = &fast->outcomes[r];
        const struct naive_request *b = &slow->requests[r];
        assert_true(b->gone);
        assert_int_equal(a->ended_at, b->ended_at);
        assert_int_equal(a->reason, b->dropped);
        if (a->ending == TT_ENDING_DONE) /* nothing that was run is late */
            assert_true(a->ended_at <= fast->arrivals[r].deadline_at);
    }
}

static void one_case(uint64_t seed, uint64_t number, int64_t *tasks) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, number);
    struct texts texts = {.count = 0};
    struct drive_model models[NAIVE_MODELS] = {0};
    struct naive slow = {.models = models};
    struct drive_setup setup = {.models = models, .options = texts.options, .check = true};
    setup.policy = draw_policy(&prng, &texts, &slow.options);
    setup.option_count = texts.count;
    setup.model_count = slow.model_count = between(&prng, 1, NAIVE_MODELS);
    setup.executors = slow.executor_count = between(&prng, 1, NAIVE_EXECUTORS);
    draw_models(&prng, models, setup.model_count);
    if (between(&prng, 0, 3) == 0) {
        setup.d_ctrl_ns = slow.options.d_ctrl_ns = between(&prng, 0, 6);
        setup.d_data_ns = slow.options.d_data_ns = between(&prng, 0, 2);
    }
    struct drive fast;
    drive_open(&fast, &setup);
    draw_arrivals(&prng, &fast, setup.model_count);
    slow.arrivals = fast.arrivals;
    slow.request_count = fast.arrival_count;
    naive_run(&slow, UNTIL); /* first: the drive takes note of what it has cancelled */
    drive_run(&fast, UNTIL);
    compare(&fast, &slow);
    *tasks += fast.task_count;
    drive_close(&fast);
}

static uint64_t current_case;

static int say_where(void **state) {
    (void)state;
    print_message("last case: %llu\n", (unsigned long long)current_case);
    return 0;
}

static void test_agrees_with_the_naive_model(void **state) {
    (void)state;
    const char *given = getenv("TUTTI_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20230814;
    const char *length = getenv("TUTTI_TEST_CASES");
    uint64_t cases = length ? strtoull(length, NULL, 10) : 6000;
    int64_t tasks = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < cases; i++) {
        current_case = i;
        one_case(seed, i, &tasks);
    }
    print_message("%lld tasks compared\n", (long long)tasks);
    assert_true(tasks > (int64_t)cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_agrees_with_the_naive_model, say_where)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
