/* S9, figure 15 in small: a fleet that follows its load, and the rates that it follows. */
/* slow */
#include "base/instant.h"
#include "lab/autoscale/autoscale.h"
#include "lab/autoscale/wander.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MODELS = 3, DEVICES = 24, MAX_BATCH = 32 };

static void rates_wander_and_can_be_repeated(void **state) {
    (void)state;
    struct tt_wander_options options = {.model_count = MODELS,
                                        .step_count = 3000,
                                        .step_s = 60,
                                        .jumps_per_day = 4,
                                        .seed = test_seed(1)};
    double *rates = tt_wander_new(&options), *again = tt_wander_new(&options);
    size_t count = (size_t)options.step_count * MODELS;
    assert_memory_equal(rates, again, count * sizeof(*rates));
    int32_t jumps = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(rates[i] > 0 && rates[i] < 30);
        jumps += i >= MODELS && rates[i] > 1.4 * rates[i - MODELS];
    }
    /* Two days of three models, four a day each, while no other lasts. */
    assert_in_range(jumps, 5, 40);
    free(rates);
    free(again);
}

struct fleet {
    struct tt_profile *profiles[MODELS];
    struct tt_fleet_world_model models[MODELS];
    struct tt_autoscale_options options;
};

static void fleet_init(struct fleet *fleet, uint64_t seed) {
    static const char *const names[MODELS] = {"a", "b", "c"};
    for (int32_t m = 0; m < MODELS; m++) {
        assert_int_equal(tt_profile_new_linear((m + 1) * TT_MS / 2, 4 * TT_MS, MAX_BATCH,
                                               &fleet->profiles[m], NULL),
                         TT_OK);
        fleet->models[m] = (struct tt_fleet_world_model){.name = names[m],
                                                         .profile = fleet->profiles[m],
                                                         .max_batch = MAX_BATCH,
                                                         .slo_ns = (20 + 10 * m) * TT_MS};
    }
    fleet->options = (struct tt_autoscale_options){.models = fleet->models,
                                                   .model_count = MODELS,
                                                   .capacity = DEVICES,
                                                   .peak = 0.8,
                                                   .step_count = 180,
                                                   .step_s = 60,
                                                   .start_up_s = 120,
                                                   .hold_s = 300,
                                                   .jumps_per_day = 4,
                                                   .sample_ns = 200 * TT_MS,
                                                   .search_every = 60,
                                                   .policy = "deferred",
                                                   .seed = seed};
}

static void fleet_fini(struct fleet *fleet) {
    for (int32_t m = 0; m < MODELS; m++)
        tt_profile_free(fleet->profiles[m]);
}

static void a_fleet_follows_its_load(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_autoscale_result result;
    struct tt_error why;
    fleet_init(&fleet, test_seed(1));
    fleet.options.with_servers = true;
    if (tt_autoscale_run(&fleet.options, &result, &why))
        fail_msg("%s", why.text);
    assert_int_equal(result.point_count, fleet.options.step_count);
    assert_true(result.bad_settled <= 0.01);
    assert_true(result.over_fewest > 0 && result.over_fewest <= 1.25); /* whole devices, few */
    int32_t least = DEVICES, most = 0;
    for (int32_t i = 0; i < result.point_count; i++) {
        const struct tt_autoscale_point *point = &result.points[i];
        assert_in_range(point->up, 1, DEVICES);
        assert_in_range(point->target, 1, DEVICES);
        assert_true(point->used <= DEVICES && point->servers >= MODELS);
        assert_true(point->bad >= 0 && point->bad <= 1);
        least = point->up < least ? point->up : least;
        most = point->up > most ? point->up : most;
    }
    assert_true(most > least); /* it did follow */
    assert_true(result.mean_servers > result.mean_up);
    tt_autoscale_result_fini(&result);
    fleet_fini(&fleet);
}

/* Devices that serve at once leave nothing to settle. */
static void without_a_start_up_time_jumps_cost_a_step(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_autoscale_result slow, quick;
    struct tt_error why;
    fleet_init(&fleet, test_seed(2));
    fleet.options.search_every = 0;
    fleet.options.jumps_per_day = 24;
    fleet.options.start_up_s = 600;
    assert_int_equal(tt_autoscale_run(&fleet.options, &slow, &why), TT_OK);
    fleet.options.start_up_s = 0;
    assert_int_equal(tt_autoscale_run(&fleet.options, &quick, &why), TT_OK);
    assert_true(quick.bad <= slow.bad);
    assert_true(quick.settled_share > slow.settled_share);
    assert_true(slow.over_fewest == 0);
    tt_autoscale_result_fini(&slow);
    tt_autoscale_result_fini(&quick);
    fleet_fini(&fleet);
}

static void stopping_keeps_what_was_done(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_autoscale_result result;
    struct tt_error why;
    volatile sig_atomic_t stop = 1;
    fleet_init(&fleet, 1);
    fleet.options.stop = &stop;
    assert_int_equal(tt_autoscale_run(&fleet.options, &result, &why), TT_OK);
    assert_true(result.interrupted);
    assert_int_equal(result.point_count, 0);
    tt_autoscale_result_fini(&result);
    fleet.options.policy = "no such";
    assert_int_not_equal(tt_autoscale_run(&fleet.options, &result, &why), TT_OK);
    assert_non_null(strstr(why.text, "no such"));
    fleet_fini(&fleet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_wander_and_can_be_repeated),
        cmocka_unit_test(a_fleet_follows_its_load),
        cmocka_unit_test(without_a_start_up_time_jumps_cost_a_step),
        cmocka_unit_test(stopping_keeps_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
