/* S5: the packing, and the sliding-window drop. */
#include "base/prng.h"
#include "policy/deferred/nexus_plan.h"
#include "unit/policy/drive.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tt_step_model make_model(int64_t alpha_ns, int64_t beta_ns, int64_t slo_ns) {
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_linear(alpha_ns, beta_ns, 64, &profile, NULL), TT_OK);
    return (struct tt_step_model){
        .step_count = 1, .whole = profile, .slo_ns = slo_ns, .max_batch = 64};
}

/* Table 2's ResNet50 on 8 devices: 2 l(7) <= 25 ms < 2 l(8), on every one. */
static void one_model_fills_every_device(void **state) {
    (void)state;
    struct tt_step_model model = make_model(1053000, 5072000, 25 * TT_MS);
    const struct tt_step_model *models[] = {&model};
    struct tt_nexus_plan plan;
    assert_int_equal(tt_nexus_plan_init(&plan, 1, 8, (struct tt_network_delay){0}), TT_OK);
    for (int64_t rate = 1; rate <= 100000000; rate *= 10) {
        tt_nexus_plan_make(&plan, models, &rate, 8);
        assert_int_equal(plan.node_count, 8);
        assert_int_equal(plan.session_count, 8);
        for (int32_t s = 0; s < 8; s++)
            assert_int_equal(plan.sessions[s].batch, 7);
    }
    tt_nexus_plan_fini(&plan);
    tt_profile_free((void *)model.whole);
}

static void every_model_gets_a_place(void **state) {
    (void)state;
    enum { MODELS = 12, NODES = 9 };
    for (uint64_t seed = test_seed(1), end = seed + 60; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 0);
        struct tt_step_model made[MODELS];
        const struct tt_step_model *models[MODELS];
        int64_t rates[MODELS];
        for (int m = 0; m < MODELS; m++) {
            int64_t alpha = 1 + (int64_t)tt_prng_below(&prng, 3000000);
            int64_t slo =
                tt_prng_below(&prng, 5) ? (int64_t)tt_prng_below(&prng, 100000000) : TT_NEVER;
            made[m] = make_model(alpha, (int64_t)tt_prng_below(&prng, 20000000), slo);
            models[m] = tt_prng_below(&prng, 4) ? &made[m] : NULL;
            rates[m] = 1 + (int64_t)tt_prng_below(&prng, 100000000);
        }
        int32_t limit = 1 + (int32_t)tt_prng_below(&prng, NODES);
        struct tt_nexus_plan plan;
        assert_int_equal(tt_nexus_plan_init(&plan, MODELS, NODES, (struct tt_network_delay){0}),
                         TT_OK);
        tt_nexus_plan_make(&plan, models, rates, limit);
        bool placed[MODELS] = {false};
        int32_t listed = 0;
        if (plan.node_count > limit)
            fail_msg("seed %d", (int)seed);
        for (int32_t n = 0; n < plan.node_count; n++)
            for (int32_t s = plan.nodes[n].first_session; s >= 0;
                 s = plan.sessions[s].next_of_node) {
                assert_int_equal(plan.sessions[s].node, n);
                assert_true(plan.sessions[s].batch >= 1 && plan.sessions[s].batch <= 64);
                placed[plan.sessions[s].model] = true;
                listed++;
            }
        assert_int_equal(listed, plan.session_count);
        for (int m = 0; m < MODELS; m++) {
            if (placed[m] != (models[m] != NULL))
                fail_msg("seed %d model %d", (int)seed, m);
            tt_profile_free((void *)made[m].whole);
        }
        tt_nexus_plan_fini(&plan);
    }
}

static void heads_are_given_up_for_the_planned_batch(void **state) {
    (void)state;
    struct drive_model model = {
        .alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 14 * TT_MS, .max_batch = 8};
    struct drive_setup setup = {
        .models = &model, .model_count = 1, .executors = 1, .policy = "nexus", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    drive_arrival(&drive, 0, 0);
    drive_arrival(&drive, TT_MS, 0)->deadline_at = 12 * TT_MS; /* alone in time, two are not */
    drive_arrival(&drive, 2 * TT_MS, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.outcomes[1].ending, TT_ENDING_DROPPED);
    assert_int_equal(drive.outcomes[1].reason, TT_DROP_EARLY);
    assert_int_equal(drive.outcomes[1].ended_at, 6 * TT_MS);
    assert_int_equal(drive.outcomes[2].ended_at, 12 * TT_MS);
    drive_close(&drive);
}

static void frontends_deal_evenly(void **state) {
    (void)state;
    struct drive_model model = {
        .alpha_ns = TT_MS, .beta_ns = 5 * TT_MS, .slo_ns = 100 * TT_MS, .max_batch = 4};
    struct drive_setup setup = {
        .models = &model, .model_count = 1, .executors = 4, .policy = "nexus", .check = true};
    struct drive drive;
    drive_open(&drive, &setup);
    for (int i = 0; i < 16; i++)
        drive_arrival(&drive, 0, 0);
    drive_run(&drive, TT_NEVER);
    assert_int_equal(drive.task_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(drive.tasks[i].executor, i);
        assert_int_equal(drive.tasks[i].rows, 4);
    }
    drive_close(&drive);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model_fills_every_device),
        cmocka_unit_test(every_model_gets_a_place),
        cmocka_unit_test(heads_are_given_up_for_the_planned_batch),
        cmocka_unit_test(frontends_deal_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
