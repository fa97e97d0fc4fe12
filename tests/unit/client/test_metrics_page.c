/* Pages of metrics, good and bad. */
#include "client/metrics_page.h"

#include "base/err.h"
#include "base/prng.h"
#include "unit/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char page[] = "# HELP a b\n"
                           "a 1\n"
                           "b_total{} 2.5 1700000000\r\n"
                           "\n"
                           "c{x=\"1\",y=\"q\\\"}\\\\\\n\"} +Inf\n"
                           "  d { x = \"\" , y=\"2\" } 1e3\n"
                           "broken{x=\"1\" 4\n"
                           "broken\n"
                           "broken four\n"
                           "{x=\"1\"} 4\n"
                           "last{y=\"3\"} -7";

static void test_samples(void **state) {
    (void)state;
    struct tt_metrics_page walk;
    struct tt_metric metric;
    char text[8];
    tt_metrics_page_init(&walk, page, strlen(page));
    assert_true(tt_metrics_page_next(&walk, &metric));
    assert_true(tt_metric_is(&metric, "a"));
    assert_false(tt_metric_is(&metric, "ab"));
    assert_true(metric.value == 1);
    assert_false(tt_metric_label(&metric, "x", text, sizeof(text)));
    assert_true(tt_metrics_page_next(&walk, &metric));
    assert_true(tt_metric_is(&metric, "b_total"));
    assert_true(metric.value == 2.5);
    assert_false(tt_metric_label(&metric, "x", text, sizeof(text)));
    assert_true(tt_metrics_page_next(&walk, &metric));
    assert_true(isinf(metric.value));
    assert_true(tt_metric_label(&metric, "y", text, sizeof(text)));
    assert_string_equal(text, "q\"}\\\n");
    assert_false(tt_metric_label(&metric, "y", text, 5)); /* does not fit */
    assert_true(tt_metric_label(&metric, "y", text, 6));
    assert_false(tt_metric_label(&metric, "z", text, sizeof(text)));
    assert_true(tt_metrics_page_next(&walk, &metric));
    assert_true(tt_metric_is(&metric, "d"));
    assert_true(metric.value == 1000);
    assert_true(tt_metric_label(&metric, "x", text, sizeof(text)));
    assert_string_equal(text, "");
    assert_true(tt_metric_label(&metric, "y", text, sizeof(text)));
    assert_string_equal(text, "2");
    assert_true(tt_metrics_page_next(&walk, &metric)); /* the broken ones are passed over */
    assert_true(tt_metric_is(&metric, "last"));
    assert_true(metric.value == -7);
    assert_false(tt_metrics_page_next(&walk, &metric));
}

/* Whatever the bytes, the walk ends within them (the sanitizers watch). */
static void test_any_bytes(void **state) {
    (void)state;
    uint64_t seed = test_seed((uint64_t)time(NULL));
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int round = 0; round < 2000; round++) {
        size_t length = tt_prng_below(&prng, sizeof(page));
        char *bytes = malloc(length + 1); /* exactly so many may be read */
        memcpy(bytes, page, length);
        for (int i = 0; length && i < 4; i++)
            bytes[tt_prng_below(&prng, length)] = "\"{}\\=, \na1"[tt_prng_below(&prng, 10)];
        char *exact = realloc(bytes, length ? length : 1);
        struct tt_metrics_page walk;
        struct tt_metric metric;
        char text[8];
        tt_metrics_page_init(&walk, exact, length);
        while (tt_metrics_page_next(&walk, &metric)) {
            (void)tt_metric_label(&metric, "x", text, sizeof(text));
            (void)tt_metric_label(&metric, "nobody", text, sizeof(text));
        }
        assert_ptr_equal(walk.at, walk.end);
        free(exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
