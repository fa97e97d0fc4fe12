/* S9: the advice of a primary scheduler: when it is known, what it counts, and reading it
 * meanwhile. */
#include "base/instant.h"
#include "core/profile.h"
#include "fleet/cluster_demand.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODELS = 3, MAX_BATCH = 8, DEVICES = 6 };

struct world {
    struct tt_profile *profiles[MODELS];
    struct tt_step steps[MODELS];
    struct tt_step_model models[MODELS];
    const struct tt_step_model *listed[MODELS];
    struct tt_cluster_settings settings;
    struct tt_cluster_demand demand;
};

static int set_up(void **state) {
    struct world *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    for (int32_t m = 0; m < MODELS; m++) {
        struct tt_error why;
        assert_int_equal(
            tt_profile_new_linear((m + 1) * TT_MS, 5 * TT_MS, MAX_BATCH, &self->profiles[m], &why),
            TT_OK);
        self->models[m] = (struct tt_step_model){.whole = self->profiles[m],
                                                 .max_batch = MAX_BATCH,
                                                 .slo_ns = m == 2 ? TT_NEVER : 100 * TT_MS};
        self->listed[m] = &self->models[m];
    }
    self->settings = (struct tt_cluster_settings){.model_count = MODELS, .models = self->listed};
    assert_int_equal(tt_cluster_demand_init(&self->demand, &self->settings), TT_OK);
    *state = self;
    return 0;
}

static int tear_down(void **state) {
    struct world *self = *state;
    tt_cluster_demand_fini(&self->demand);
    for (int32_t m = 0; m < MODELS; m++)
        tt_profile_free(self->profiles[m]);
    free(self);
    return 0;
}

/* Even arrivals from `from` to `to`, with a look whenever it is due. */
static void play(struct world *self, int64_t from, int64_t to, int32_t rows_per_s) {
    int64_t gap = TT_S / rows_per_s;
    for (int64_t now = from; now < to; now += gap) {
        for (uint16_t m = 0; m < MODELS; m++)
            tt_cluster_demand_arrived(&self->demand, now, m, 1);
        if (now >= self->demand.note_at)
            tt_cluster_demand_note(&self->demand, now, DEVICES);
    }
    tt_cluster_demand_arrived(&self->demand, to, UINT16_MAX, 1); /* no such model */
    tt_cluster_demand_note(&self->demand, to, DEVICES);
}

static void a_spare_has_no_advice(void **state) {
    struct world *self = *state;
    assert_int_equal(self->demand.note_at, TT_NEVER);
    play(self, TT_S, 20 * TT_S, 100);
    struct tt_cluster_advice advice = tt_cluster_demand_advise(&self->demand);
    assert_false(advice.is_primary || advice.is_known);
    assert_int_equal(advice.devices, 0);
}

static void a_primary_waits_for_its_window(void **state) {
    struct world *self = *state;
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    assert_false(tt_cluster_demand_advise(&self->demand).is_known);
    play(self, TT_S, 9 * TT_S, 100);
    struct tt_cluster_advice advice = tt_cluster_demand_advise(&self->demand);
    assert_true(advice.is_primary);
    assert_false(advice.is_known);
    assert_int_equal(advice.devices, DEVICES);
    play(self, 9 * TT_S, 14 * TT_S, 100);
    assert_true(tt_cluster_demand_advise(&self->demand).is_known);
    tt_cluster_demand_begin(&self->demand, 14 * TT_S, true); /* it took over again */
    assert_false(tt_cluster_demand_advise(&self->demand).is_known);
    play(self, 14 * TT_S, 30 * TT_S, 100);
    assert_true(tt_cluster_demand_advise(&self->demand).is_known);
    tt_cluster_demand_begin(&self->demand, 30 * TT_S, false);
    assert_false(tt_cluster_demand_advise(&self->demand).is_known);
}

static void slow_down(struct world *self) {
    for (int32_t m = 0; m < MODELS; m++)
        for (int32_t b = 1; b <= MAX_BATCH; b++)
            self->profiles[m]->latency_ns[b] += TT_MS;
    tt_cluster_demand_retime(&self->demand, &self->settings);
}

/* The same load, stated instead of measured, gives the same number, also when profiles change. */
static void it_is_the_advice_for_these_rates(void **state) {
    struct world *self = *state;
    static const int32_t rates[] = {10, 50, 250, 1000};
    int32_t former = 0;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        tt_cluster_demand_begin(&self->demand, TT_S, true);
        slow_down(self);
        play(self, TT_S, 21 * TT_S, rates[i]);
        struct tt_cluster_advice advice = tt_cluster_demand_advise(&self->demand);
        struct tt_devices_model models[MODELS];
        for (int32_t m = 0; m < MODELS; m++)
            models[m] = (struct tt_devices_model){
                .curve = tt_batch_curve_of(self->profiles[m], 0, MAX_BATCH),
                .slo_s = m == 2 ? 0 : 0.1,
                .rows_per_s = rates[i],
                .dispersion = self->demand.models[m].dispersion};
        const struct tt_devices_load load = {
            .models = models, .model_count = MODELS, .window_s = 10};
        struct tt_devices_wanted expected = tt_devices_wanted(&load, NULL);
        assert_true(advice.is_known);
        assert_int_equal(advice.wanted.count, expected.count);
        assert_int_equal(advice.wanted.fewest, expected.fewest);
        assert_int_equal(advice.wanted.most, expected.most);
        assert_true(advice.wanted.count >= former);
        former = advice.wanted.count;
    }
    assert_true(former > 1);
}

/* When clients are gone, one device is wanted, and this is known. */
static void idleness_is_known(void **state) {
    struct world *self = *state;
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    play(self, TT_S, 21 * TT_S, 1000);
    assert_true(tt_cluster_demand_advise(&self->demand).wanted.count > 1);
    tt_cluster_demand_note(&self->demand, 40 * TT_S, DEVICES);
    struct tt_cluster_advice advice = tt_cluster_demand_advise(&self->demand);
    assert_true(advice.is_known);
    assert_int_equal(advice.wanted.count, 1);
}

static int32_t asked(const struct tt_demand_copy *copy, const uint16_t *homes, uint16_t pool,
                     double start_up_s) {
    struct tt_pool_advice advice = {.start_up_s = start_up_s};
    tt_demand_copy_advise(copy, homes, pool, &advice);
    return advice.wanted.count;
}

/* The advice for a pool is that for its models alone; a copy does not change. */
static void a_pool_wants_what_its_models_need(void **state) {
    struct world *self = *state;
    const uint16_t homes[MODELS] = {1, 0, 1};
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    struct tt_demand_copy early = tt_cluster_demand_copy(&self->demand);
    assert_false(early.is_known);
    tt_demand_copy_fini(&early);
    play(self, TT_S, 21 * TT_S, 1000);
    struct tt_demand_copy copy = tt_cluster_demand_copy(&self->demand);
    assert_true(copy.is_known);
    tt_cluster_demand_begin(&self->demand, 21 * TT_S, false);
    struct tt_devices_model others[2] = {copy.models[0], copy.models[2]};
    struct tt_devices_load load = copy.load;
    load.models = &copy.models[1];
    load.model_count = 1;
    int32_t first = tt_devices_wanted(&load, NULL).count;
    load.models = others;
    load.model_count = 2;
    int32_t second = tt_devices_wanted(&load, NULL).count;
    assert_true(first > 1 && second > 1);
    assert_int_equal(asked(&copy, homes, 0, 0), first);
    assert_int_equal(asked(&copy, homes, 1, 0), second);
    assert_int_equal(asked(&copy, homes, 2, 0), 1); /* has no model */
    /* What grows needs devices for the time that they take to start. */
    copy.load.growth_per_s = 0.05;
    assert_int_equal(asked(&copy, homes, 1, 0), second);
    assert_true(asked(&copy, homes, 1, 10) > second);
    tt_demand_copy_fini(&copy);
}

/* A pool in which rows were bad learns, and wants more; so does the page. */
static void a_pool_learns_from_bad_rows(void **state) {
    struct world *self = *state;
    const uint16_t homes[MODELS] = {0};
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    play(self, TT_S, 21 * TT_S, 1000);
    struct tt_demand_copy copy = tt_cluster_demand_copy(&self->demand);
    struct tt_pool_advice advice = {.in_force = asked(&copy, homes, 0, 0), .bad = 0.05};
    tt_demand_copy_advise(&copy, homes, 0, &advice);
    assert_int_equal(advice.wanted.count, advice.in_force);
    advice.span_s = 10;
    tt_demand_copy_advise(&copy, homes, 0, &advice);
    assert_true(advice.wanted.count > advice.in_force);
    assert_true(advice.feedback.factor > 1);
    tt_cluster_demand_starts(&self->demand, 0, advice.feedback);
    assert_int_equal(tt_cluster_demand_advise(&self->demand).wanted.count, advice.wanted.count);
    tt_demand_copy_fini(&copy);
}

static bool page_has(struct world *self, const char *text) {
    struct tt_text page;
    tt_text_init(&page);
    tt_cluster_demand_metrics(&self->demand, &page);
    bool has = strstr(tt_text_string(&page), text) != NULL;
    tt_text_fini(&page);
    return has;
}

static void the_page_says_what_is_known(void **state) {
    struct world *self = *state;
    assert_true(page_has(self, "\ntutti_cluster_primary 0\n"));
    assert_false(page_has(self, "tutti_cluster_devices"));
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    play(self, TT_S, 5 * TT_S, 100);
    assert_true(page_has(self, "\ntutti_cluster_primary 1\n"));
    assert_true(page_has(self, "\ntutti_cluster_devices 6\n"));
    assert_false(page_has(self, "tutti_cluster_devices_wanted"));
    play(self, 5 * TT_S, 21 * TT_S, 100);
    assert_true(page_has(self, "\ntutti_cluster_devices_wanted "));
    assert_true(page_has(self, "\ntutti_cluster_devices_wanted_confidence "));
}

static void *read_often(void *argument) {
    struct tt_cluster_demand *demand = argument;
    for (int32_t i = 0; i < 2000; i++) {
        struct tt_cluster_advice advice = tt_cluster_demand_advise(demand);
        if (advice.is_known && advice.wanted.count < 1)
            return demand;
    }
    return NULL;
}

static void readers_may_come_at_any_time(void **state) {
    struct world *self = *state;
    tt_cluster_demand_begin(&self->demand, TT_S, true);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_often, &self->demand), 0);
    play(self, TT_S, 61 * TT_S, 100);
    void *failed;
    assert_int_equal(pthread_join(reader, &failed), 0);
    assert_null(failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_spare_has_no_advice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_primary_waits_for_its_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_the_advice_for_these_rates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pool_wants_what_its_models_need, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pool_learns_from_bad_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idleness_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_page_says_what_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readers_may_come_at_any_time, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
