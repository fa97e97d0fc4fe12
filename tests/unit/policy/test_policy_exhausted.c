/* slow */
/* S1, S2, S3, S4, S5, D9, L4: all small cases: every way in which a few requests can arrive. They
 * are of one or two models, at a few instants, with a few deadlines, for one or two executors. A
 * case is calm or disturbed: a request is cancelled, messages take time, or an executor or a model
 * is removed and added again. In each case every policy must act as its naive model.
 * TUTTI_TEST_EXHAUST=N runs all cases of up to N requests (4: minutes). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/policy/naive_variant.h"

enum { MAX_VARIANTS = 32, MAX_REQUESTS = 5, UNTIL = 100 };

/* Alone both take 3. So a second request may arrive before, at and after the end of the
 * first. Its deadline may be exactly at the end of one batch, of a later one or of a larger one. */
static const struct drive_model models[] = {
    {.alpha_ns = 1, .beta_ns = 2, .slo_ns = 9, .max_batch = 3},
    {.alpha_ns = 2, .beta_ns = 1, .slo_ns = 9, .max_batch = 2},
};
static const int64_t instants[] = {0, 1, 3, 4}, deadlines[] = {3, 5, 9};
static const int64_t cancel_after[] = {0, 1, 4};
static const int32_t preferred[] = {2};

/* ---- all policies ---- */

struct variants {
    struct variant list[MAX_VARIANTS];
    int32_t count;
};

static void add(struct variants *self, const struct variant *variant) {
    tt_assert(self->count < MAX_VARIANTS);
    self->list[self->count++] = *variant;
}

static void add_baselines(struct variants *self) {
    const struct naive_window windows[] = {
        {.delay_ns = 0},
        {.delay_ns = 2, .drop = true},
        {.delay_ns = -1, .round_robin = true},
        {.delay_ns = 3, .max_batch = 2, .round_robin = true, .drop = true},
        {.delay_ns = -1, .is_static = true},
    };
    struct variant v;
    for (int on = 0; on < 2; on++) {
        add(self, (v = variant_serial(on), &v));
        add(self, (v = variant_clockwork(on), &v));
        add(self, (v = variant_nexus(TT_MS, 1 + on), &v)); /* one epoch: these cases are short */
        add(self, (v = variant_shepherd(on, 3000, 0), &v));
        add(self, (v = variant_shepherd(on, 2000, 1), &v));
    }
    for (size_t i = 0; i < TT_COUNT(windows); i++)
        add(self, (v = variant_window(&windows[i]), &v));
}

static void add_deferred_family(struct variants *self) {
    struct tt_deferred_options default_value = {.defer = TT_DEFER_PARTIAL,
                                                .key = TT_KEY_LATEST,
                                                .reform_at_latest = true,
                                                .credit = true,
                                                .split = true,
                                                .gap_permille = 3000,
                                                .slack_permille = 500,
                                                .beta_permille = 1500,
                                                .credit_step_ns = 100 * TT_US};
    struct tt_deferred_options fixed = {.floor = TT_FLOOR_FIXED,
                                        .target = 2,
                                        .defer = TT_DEFER_FULL,
                                        .key = TT_KEY_DEADLINE,
                                        .credit = true,
                                        .lookahead = true,
                                        .credit_step_ns = 2};
    struct variant v = variant_deferred(&default_value);
    v.option_count = 0; /* the same; its minimum size is 1 while no rate is known */
    v.initial.deferred.options.lookahead = true;
    add(self, &v);
    v.policy = "adaptive";
    v.initial.deferred.options.by_load = true;
    add(self, &v);
    add(self, (v = variant_deferred(&fixed), &v));
    for (int reform = 0; reform < 2; reform++) {
        add(self, (v = variant_published("eager", reform, 0, 0), &v));
        add(self, (v = variant_published("symphony", reform, 0, 0), &v));
        add(self, (v = variant_published("timeout", reform, 2, 0), &v));
    }
}

/* ---- all cases ---- */

/* CANCEL + k stands for the k-th pair of a request and a moment. */
enum { CALM, MESSAGES, EXECUTOR, MODEL, CANCEL };

struct shape {
    int32_t models, executors, requests;
    bool disturbed;
};
struct small_case {
    struct shape shape;
    int32_t disturbance;
    uint64_t arrangement; /* in base (instants x deadlines x models), a digit per request */
};

static struct small_case current;
static int64_t cases, tasks, done, dropped, cancelled, aborted;

static void say_where(int number) {
    (void)number;
    fprintf(stderr, "%d models, %d executors, %d requests, disturbance %d, arrangement %llu\n",
            current.shape.models, current.shape.executors, current.shape.requests,
            current.disturbance, (unsigned long long)current.arrangement);
}

static uint64_t base_of(const struct shape *shape) {
    return TT_COUNT(instants) * TT_COUNT(deadlines) * (uint64_t)shape->models;
}

/* The arrivals of the case; false if they are not in order of time. */
static bool arrange(const struct small_case *self, struct drive_arrival *out) {
    uint64_t rest = self->arrangement;
    for (int32_t i = 0; i < self->shape.requests; i++) {
        int64_t at = instants[rest % TT_COUNT(instants)];
        rest /= TT_COUNT(instants);
        int64_t due = deadlines[rest % TT_COUNT(deadlines)];
        rest /= TT_COUNT(deadlines);
        int32_t model = (int32_t)(rest % (uint64_t)self->shape.models);
        rest /= (uint64_t)self->shape.models;
        if (i > 0 && at < out[i - 1].at)
            return false;
        out[i] = (struct drive_arrival){
            .at = at, .deadline_at = at + due, .cancel_at = TT_NEVER, .model = model};
    }
    int32_t pair = self->disturbance - CANCEL;
    if (pair >= 0) {
        struct drive_arrival *gone = &out[pair / (int32_t)TT_COUNT(cancel_after)];
        gone->cancel_at = gone->at + cancel_after[pair % (int32_t)TT_COUNT(cancel_after)];
    }
    return true;
}

static void tally(const struct drive *fast) {
    tasks += fast->task_count;
    for (int32_t t = 0; t < fast->task_count; t++)
        aborted += fast->tasks[t].outcome == TT_OUTCOME_ABORTED;
    for (int32_t r = 0; r < fast->arrival_count; r++) {
        const struct drive_outcome *outcome = &fast->outcomes[r];
        if (outcome->refused || outcome->ended_at == TT_NEVER)
            continue;
        done += outcome->ending == TT_ENDING_DONE;
        dropped += outcome->ending == TT_ENDING_DROPPED;
        cancelled += outcome->ending == TT_ENDING_CANCELLED;
    }
}

static void one_case(struct variants *variants) {
    struct drive_arrival arrivals[MAX_REQUESTS];
    if (!arrange(&current, arrivals))
        return;
    cases++;
    bool is_model = current.disturbance == MODEL;
    int32_t id = is_model ? 0 : current.shape.executors - 1;
    const struct drive_change changes[] = {
        {.at = 1, .is_model = is_model, .id = id}, /* drains */
        {.at = 3, .is_model = is_model, .id = id}, /* is removed, if empty */
        {.at = 4, .is_model = is_model, .id = id}, {.at = 7, .is_model = is_model, .id = id},
        {.at = 8, .is_model = is_model, .id = id}, /* is added again if it could be removed by then
                                                    */
    };
    struct drive_setup setup = {.models = models,
                                .model_count = current.shape.models,
                                .executors = current.shape.executors,
                                .abort_ns = 1,
                                .changes = changes,
                                .check = true};
    if (is_model || current.disturbance == EXECUTOR)
        setup.change_count = (int32_t)TT_COUNT(changes);
    if (current.disturbance == MESSAGES)
        setup.d_ctrl_ns = setup.d_data_ns = 1;
    for (int32_t i = 0; i < variants->count; i++) {
        struct drive fast;
        variant_setup(&variants->list[i], &setup);
        drive_open(&fast, &setup);
        fast.models[0].window_ns = 2;
        fast.models[0].preferred = preferred;
        fast.models[0].preferred_count = TT_COUNT(preferred);
        for (int32_t r = 0; r < current.shape.requests; r++) {
            struct drive_arrival *arrival = drive_arrival(&fast, arrivals[r].at, arrivals[r].model);
            arrival->deadline_at = arrivals[r].deadline_at;
            arrival->cancel_at = arrivals[r].cancel_at;
        }
        if (!variant_agrees(&variants->list[i], &fast, 1, UNTIL)) {
            say_where(0);
            fail_msg("%s differs from its naive model", variants->list[i].policy);
        }
        tally(&fast);
        drive_close(&fast);
    }
}

static void exhaust(struct variants *variants, const struct shape *shape) {
    int32_t disturbances = 1;
    uint64_t arrangements = 1;
    if (shape->disturbed)
        disturbances = CANCEL + shape->requests * (int32_t)TT_COUNT(cancel_after);
    for (int32_t i = 0; i < shape->requests; i++)
        arrangements *= base_of(shape);
    current.shape = *shape;
    for (current.disturbance = 0; current.disturbance < disturbances; current.disturbance++)
        for (current.arrangement = 0; current.arrangement < arrangements; current.arrangement++)
            one_case(variants);
}

static void every_small_case(void **state) {
    (void)state;
    static const struct shape default_value[] = {
        {.models = 1, .executors = 2, .requests = 2, .disturbed = true},
        {.models = 2, .executors = 1, .requests = 2, .disturbed = true},
        {.models = 2, .executors = 2, .requests = 2, .disturbed = true},
        {.models = 1, .executors = 1, .requests = 3},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        {.models = 1, .executors = 1, .requests = 3, .disturbed = true},
        {.models = 1, .executors = 2, .requests = 3},
        {.models = 2, .executors = 1, .requests = 3},
        {.models = 2, .executors = 2, .requests = 3},
        {.models = 1, .executors = 1, .requests = 4},
#endif
    };
    static struct variants variants;
    add_baselines(&variants);
    add_deferred_family(&variants);
    const char *given = getenv("TUTTI_TEST_EXHAUST");
    int32_t most = given ? atoi(given) : 0;
    assert_in_range(most, 0, MAX_REQUESTS);
    for (size_t i = 0; most == 0 && i < TT_COUNT(default_value); i++)
        exhaust(&variants, &default_value[i]);
    for (int32_t requests = 1; requests <= most; requests++)
        for (int32_t i = 0; i < 4; i++) {
            struct shape shape = {1 + i / 2, 1 + i % 2, requests, true};
            exhaust(&variants, &shape);
            print_message("up to %d requests, %d models, %d executors: %lld cases\n", requests,
                          shape.models, shape.executors, (long long)cases);
        }
    print_message("%lld cases, %d policies each: %lld tasks, %lld aborted; %lld requests done, "
                  "%lld dropped, %lld cancelled\n",
                  (long long)cases, variants.count, (long long)tasks, (long long)aborted,
                  (long long)done, (long long)dropped, (long long)cancelled);
    assert_true(done > 0 && dropped > 0 && cancelled > 0);
    assert_true(aborted > 0 || (most > 0 && most < 3)); /* two must wait while one runs */
}

int main(void) {
    signal(SIGABRT, say_where); /* a failed assertion of the fast policy */
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_small_case)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
