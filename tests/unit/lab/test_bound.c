/* The closed forms beside table 2 of the paper (S, section 3.3). */
#include "lab/closed_form/bound.h"

#include "lab/experiment/experiment.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tt_bound bound_of(const char *path, const char *devices) {
    struct tt_error why = {0};
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    if (tt_experiment_open(&experiment, path, &why) != TT_OK)
        fail_msg("%s", why.text);
    assert_int_equal(tt_experiment_set(&experiment, "devices", devices, &why), TT_OK);
    if (tt_experiment_build(&experiment, &scenario, &why) != TT_OK)
        fail_msg("%s", why.text);
    struct tt_bound bound = tt_bound_of(&scenario);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    return bound;
}

static void table_2(void **state) {
    (void)state;
    struct tt_bound resnet = bound_of("experiments/symphony/table2-resnet50.pbtxt", "8");
    assert_float_equal(resnet.staggered_per_s, 5839, 1);
    assert_float_equal(resnet.uncoordinated_per_s, 4501, 1);
    struct tt_bound inception =
        bound_of("experiments/symphony/table2-inceptionresnetv2.pbtxt", "8");
    assert_float_equal(inception.staggered_per_s, 1083, 1);
    assert_float_equal(inception.uncoordinated_per_s, 713, 1);
}

/* One device cannot be staggered with another. */
static void one_device(void **state) {
    (void)state;
    struct tt_bound alone = bound_of("experiments/symphony/table2-resnet50.pbtxt", "1");
    assert_float_equal(alone.staggered_per_s, alone.uncoordinated_per_s, 0.01);
}

static void arrivals_of_a_file_have_none(void **state) {
    (void)state;
    struct tt_bound none = bound_of("experiments/symphony/worked-example-3.3-missing.pbtxt", "3");
    assert_float_equal(none.staggered_per_s, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_2),
        cmocka_unit_test(one_device),
        cmocka_unit_test(arrivals_of_a_file_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
