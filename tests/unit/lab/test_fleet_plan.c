/* Plans of fleets: against all assignments of small ones, memory, limits, and what files say wrong.
 */
#include "base/prng.h"
#include "base/text.h"
#include "lab/plan/fleet_plan.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MODELS = 4, TYPES = 2, FLEETS = 8 };

static struct tt_fleet_file *read_fleet(const char *text, struct tt_error *why) {
    char path[] = "/tmp/tutti-fleet-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    struct tt_fleet_file *fleet = NULL;
    enum tt_err err = tt_fleet_file_open(path, &fleet, why);
    unlink(path);
    assert_true((err == TT_OK) == (fleet != NULL));
    return fleet;
}

/* Model `m` may lie on the types whose bits are set in allowed[m]. */
static void put_fleet(struct tt_text *text, uint64_t seed, const uint32_t *allowed) {
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 3);
    for (int32_t t = 0; t < TYPES; t++)
        tt_text_printf(text, "device { name: \"t%d\" price_per_hour: %d }\n", t,
                       1 + (int)tt_prng_below(&prng, 5));
    for (int32_t m = 0; m < MODELS; m++) {
        tt_text_printf(text, "model { name: \"m%d\" slo_ms: %d rate_per_s: %d\n", m,
                       40 + (int)tt_prng_below(&prng, 60), 50 + (int)tt_prng_below(&prng, 2000));
        for (int32_t t = 0; t < TYPES; t++) {
            int alpha = 1 + (int)tt_prng_below(&prng, 30), beta = (int)tt_prng_below(&prng, 90);
            if (allowed[m] >> t & 1)
                tt_text_printf(text,
                               " on { device: \"t%d\" profile { max_batch: 32 linear { alpha_ms: "
                               "%d.%d beta_ms: %d.%d } } }\n",
                               t, alpha / 10, alpha % 10, beta / 10, beta % 10);
        }
        tt_text_puts(text, "}\n");
    }
}

static double cost_of(uint64_t seed, const uint32_t *allowed) {
    struct tt_text text;
    struct tt_error why;
    const struct tt_fleet_change none = {0};
    tt_text_init(&text);
    put_fleet(&text, seed, allowed);
    struct tt_fleet_file *file = read_fleet(tt_text_string(&text), &why);
    if (!file)
        fail_msg("%s in\n%s", why.text, tt_text_string(&text));
    struct tt_fleet_plan *plan = calloc(1, sizeof(*plan));
    if (tt_fleet_plan_make(file, &none, plan, &why))
        fail_msg("%s", why.text);
    double cost = plan->cost;
    for (int32_t m = 0; m < MODELS; m++)
        assert_true(allowed[m] >> plan->type_of[m] & 1);
    free(plan);
    tt_fleet_file_close(file);
    tt_text_fini(&text);
    return cost;
}

/* The search is local: it may miss the best by little. */
static void plans_are_near_the_best_assignment(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    int32_t best_found = 0;
    for (uint64_t i = 0; i < FLEETS; i++) {
        double best = 1e300;
        for (uint32_t way = 0; way < 1 << MODELS; way++) {
            uint32_t allowed[MODELS];
            for (int32_t m = 0; m < MODELS; m++)
                allowed[m] = 1U << (way >> m & 1);
            double cost = cost_of(seed + i, allowed);
            best = cost < best ? cost : best;
        }
        static const uint32_t any[MODELS] = {3, 3, 3, 3};
        double found = cost_of(seed + i, any);
        assert_true(found >= best - 1e-9);
        assert_true(found <= 1.15 * best + 1e-9);
        best_found += found <= best + 1e-9;
    }
    assert_true(best_found * 2 >= FLEETS);
}

#define PROFILE "profile { max_batch: 16 linear { alpha_ms: 1 beta_ms: 4 } }"

static void models_that_do_not_fit_one_device_are_partitioned(void **state) {
    (void)state;
    struct tt_error why;
    const struct tt_fleet_change none = {0};
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, "device { name: \"d\" price_per_hour: 2 memory_mib: 1000 }\n");
    for (int32_t m = 0; m < 6; m++)
        tt_text_printf(&text,
                       "model { name: \"m%d\" slo_ms: 50 rate_per_s: [100, 400] static_mib: 300 "
                       "dynamic_mib: 200 on { device: \"d\" " PROFILE " } }\n",
                       m);
    struct tt_fleet_file *file = read_fleet(tt_text_string(&text), &why);
    if (!file)
        fail_msg("%s", why.text);
    struct tt_fleet_plan *plan = calloc(1, sizeof(*plan));
    assert_int_equal(tt_fleet_plan_make(file, &none, plan, &why), TT_OK);
    assert_int_equal(plan->group_count, 3); /* two models of 300, and 200 beside them */
    for (int32_t g = 0; g < 3; g++) {
        assert_int_equal(plan->groups[g].model_count, 2);
        assert_int_equal(plan->groups[g].peak_hour, 1);
        assert_true(plan->groups[g].devices[1] > plan->groups[g].devices[0]);
    }
    double cost = plan->cost;
    assert_int_equal(tt_fleet_plan_check(file, plan, &why), TT_OK);
    for (int32_t g = 0; g < 3; g++)
        assert_true(plan->groups[g].simulated_bad >= 0 && plan->groups[g].simulated_bad <= 0.01);
    assert_true(plan->cost >= cost && plan->fixed_cost >= plan->cost);
    /* 6 models, 500 requests per second over two hours of an hour each. */
    assert_true(plan->requests == 6 * 500 * 3600.0);
    const struct tt_fleet_change tight = {.objectives = 0.09}; /* one request takes 5 ms */
    assert_int_equal(tt_fleet_plan_make(file, &tight, plan, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "no device can run model 'm0'"));
    struct tt_fleet_what_if what_ifs[TT_FLEET_WHAT_IFS];
    int32_t count = tt_fleet_what_ifs(file, what_ifs);
    assert_int_equal(count, 6); /* without its only type there is no fleet */
    assert_true(what_ifs[0].cost >= cost && what_ifs[3].cost <= cost);
    assert_true(what_ifs[4].cost < cost && what_ifs[5].cost > cost); /* half, twice the rates */
    free(plan);
    tt_fleet_file_close(file);
    tt_text_fini(&text);
}

static void limits_of_types_hold(void **state) {
    (void)state;
    struct tt_error why;
    const struct tt_fleet_change none = {0};
    static const char head[] = "device { name: \"few\" price_per_hour: 1 most: 2 }\n";
    static const char more[] = "device { name: \"dear\" price_per_hour: 9 }\n";
    static const char model[] = "model { name: \"m\" slo_ms: 50 rate_per_s: 3000 on { device: "
                                "\"few\" " PROFILE " }";
    char text[1024];
    snprintf(text, sizeof(text), "%s%s }", head, model);
    struct tt_fleet_plan *plan = calloc(1, sizeof(*plan));
    struct tt_fleet_file *file = read_fleet(text, &why);
    assert_int_equal(tt_fleet_plan_make(file, &none, plan, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "do not suffice in the busiest hour"));
    tt_fleet_file_close(file);
    snprintf(text, sizeof(text), "%s%s%s on { device: \"dear\" " PROFILE " } }", head, more, model);
    file = read_fleet(text, &why);
    assert_int_equal(tt_fleet_plan_make(file, &none, plan, &why), TT_OK);
    assert_int_equal(plan->type_of[0], 1);
    tt_fleet_file_close(file);
    free(plan);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
#define DEVICE "device { name: \"d\" price_per_hour: 1 memory_mib: 100 }\n"
#define ON "on { device: \"d\" " PROFILE " }"
    static const struct {
        const char *text, *says;
    } files[] = {
        {"", "there are 0 types of device; there must be 1 .. 16"},
        {DEVICE, "there are 0 models; there must be 1 .. 256"},
        {DEVICE DEVICE "model { name: \"m\" }", ":2: device 'd' is given twice"},
        {"device { name: \"d\" } model { }", ":1: price_per_hour is 0; it must be 1e-06 .. 1e+06"},
        {"device { name: \"d\" price_per_hour: nan } model { }", "price_per_hour is"},
        {DEVICE "model { name: \"m\" rate_per_s: 1 " ON " }", ":2: slo_ms is 0"},
        {DEVICE "model { name: \"m\" slo_ms: 50 " ON " }", ":2: model 'm' has no rate_per_s"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: -1 " ON " }", "rate_per_s is -1"},
        {DEVICE "model { name: \"m\" slo_ms: 50\nrate_per_s: nan " ON " }", ":3: rate_per_s is"},
        {DEVICE "model { name: \"m\" slo_ms: 4 rate_per_s: 1\n" ON " }",
         ":3: one request of model 'm' takes 5 ms on 'd', more than its objective of 4 ms"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: 1 on { device: \"e\" " PROFILE " } }",
         "there is no device 'e' for model 'm'; the file has 'd'"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: 1 " ON ON " }", "two profiles on 'd'"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: 1 }",
         "no device can run model 'm': it needs a profile, on { }"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: 1 static_mib: 101 " ON " }",
         "with at least 101 MiB"},
        {DEVICE "model { name: \"m\" slo_ms: 50 rate_per_s: [1, 2] " ON " }\n"
                "model { name: \"n\" slo_ms: 50 rate_per_s: [1, 2, 3] " ON " }",
         ":3: model 'n' has 3 values of rate_per_s; models have 1, or all the same number of "
         "hours"},
    };
    for (size_t i = 0; i < TT_COUNT(files); i++) {
        struct tt_error why;
        struct tt_fleet_file *file = read_fleet(files[i].text, &why);
        if (file || !strstr(why.text, files[i].says))
            fail_msg("file %zu: wanted '%s', got '%s'", i, files[i].says,
                     file ? "no error" : why.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_near_the_best_assignment),
        cmocka_unit_test(models_that_do_not_fit_one_device_are_partitioned),
        cmocka_unit_test(limits_of_types_hold),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
