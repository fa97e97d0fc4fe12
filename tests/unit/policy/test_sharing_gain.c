/* D7: the gain of sharing, compared with the device model that it uses. */
#include "core/device.h"
#include "core/profile.h"
#include "policy/sharing_gain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka needs the four above before it */
#include <cmocka.h>

enum { STEPS = 4, MAX_BATCH = 32 };

/* Four equal steps that take alpha b + beta and have the given demand. */
static void make_model(struct tt_step_model *model, struct tt_step *steps, int64_t alpha_ns,
                       int64_t beta_ns, int32_t demand_ppm) {
    const struct tt_profile_point points[] = {
        {.batch = 1, .latency_ns = alpha_ns + beta_ns, .demand_ppm = demand_ppm},
        {.batch = MAX_BATCH,
         .latency_ns = MAX_BATCH * alpha_ns + beta_ns,
         .demand_ppm = demand_ppm}};
    struct tt_profile *profile;
    assert_int_equal(tt_profile_new_points(points, 2, MAX_BATCH, &profile, NULL), TT_OK);
    for (int32_t s = 0; s < STEPS; s++)
        steps[s] = (struct tt_step){.name = "step", .profile = profile};
    *model = (struct tt_step_model){
        .step_count = STEPS, .steps = steps, .whole = profile, .max_batch = MAX_BATCH};
}

static void drop_model(const struct tt_step_model *model) {
    tt_profile_free((struct tt_profile *)(uintptr_t)model->whole);
}

static void test_latency_that_does_not_grow_is_worth_a_stretch(void **state) {
    (void)state;
    struct tt_step_model model;
    struct tt_step steps[STEPS];
    make_model(&model, steps, 0, 1000, TT_DEMAND_WHOLE);
    /* After the first step, one by one: stretched 2 x (1 + 3) = 8 steps, apart one after the other
     * 3 + 7. */
    struct tt_stretch_case stretch = {.model = &model, .next_step = 1, .held = 1, .coming = 1};
    assert_true(tt_stretch_pays(&stretch));
    /* Before the last one it does not: 2 x (3 + 1) against 1 + 5. */
    stretch.next_step = 3;
    assert_false(tt_stretch_pays(&stretch));
    drop_model(&model);
}

static void test_latency_that_grows_with_rows_is_not(void **state) {
    (void)state;
    struct tt_step_model model;
    struct tt_step steps[STEPS];
    make_model(&model, steps, 1000, 0, TT_DEMAND_WHOLE);
    struct tt_stretch_case stretch = {.model = &model, .next_step = 1, .held = 4, .coming = 4};
    assert_false(tt_stretch_pays(&stretch));
    stretch.beside = true;
    assert_false(tt_stretch_pays(&stretch));
    drop_model(&model);
}

static void test_nobody_waits_for_others_where_the_device_has_room(void **state) {
    (void)state;
    struct tt_step_model model;
    struct tt_step steps[STEPS];
    make_model(&model, steps, 0, 1000, TT_DEMAND_WHOLE / 2);
    struct tt_stretch_case stretch = {.model = &model, .next_step = 1, .held = 1, .coming = 1};
    assert_true(tt_stretch_pays(&stretch)); /* one executor: one after the other */
    stretch.beside = true;                  /* 2 x 4 against 3 + 4 */
    assert_false(tt_stretch_pays(&stretch));
    drop_model(&model);
}

static void test_a_batch_begins_beside_others_while_that_pays(void **state) {
    (void)state;
    assert_true(tt_beside_pays(0, 0, TT_DEMAND_WHOLE));
    assert_true(tt_beside_pays(3, 700000, 300000));
    assert_true(tt_beside_pays(1, TT_DEMAND_WHOLE, 500000));
    assert_false(tt_beside_pays(1, TT_DEMAND_WHOLE, 500001));
    assert_false(tt_beside_pays(2, 900000, 500000));
}

/* The two futures of the rule, simulated on the device: n batches of one length, and one more. */
static int64_t sum_of_ends(int32_t running, int32_t demand_ppm, int32_t new_ppm, bool beside) {
    struct tt_device_run runs[8];
    struct tt_device device = {.capacity = 8, .runs = runs};
    int64_t sum = 0, at = 0, next;
    for (int32_t e = 0; e < running; e++)
        tt_device_start(&device, 0, e, 1000000, demand_ppm);
    if (beside)
        tt_device_start(&device, 0, running, 1000000, new_ppm);
    while ((next = tt_device_next_at(&device)) < INT64_MAX) {
        at = next;
        while (tt_device_take_ended(&device, at) >= 0)
            sum += at;
    }
    return beside ? sum : sum + at + 1000000;
}

static void test_the_rule_agrees_with_the_device(void **state) {
    (void)state;
    for (int32_t running = 1; running <= 4; running++)
        for (int32_t demand = 50000; demand <= TT_DEMAND_WHOLE; demand += 50000)
            for (int32_t new = 50000; new <= TT_DEMAND_WHOLE; new += 50000) {
                int64_t beside = sum_of_ends(running, demand, new, true);
                int64_t after = sum_of_ends(running, demand, new, false);
                if (llabs(beside - after) > 100) /* rounded to whole nanoseconds */
                    assert_int_equal(tt_beside_pays(running, (int64_t)running * demand, new),
                                     beside < after);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_that_does_not_grow_is_worth_a_stretch),
        cmocka_unit_test(test_latency_that_grows_with_rows_is_not),
        cmocka_unit_test(test_nobody_waits_for_others_where_the_device_has_room),
        cmocka_unit_test(test_a_batch_begins_beside_others_while_that_pays),
        cmocka_unit_test(test_the_rule_agrees_with_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
