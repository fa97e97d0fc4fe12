/* The picture of a run of several steps: preemption, catching up and merging can be seen in it
 * (L1: figure 10 of LazyBatching, as shipped). */
#include "lab/report/html_report.h"

#include "base/text.h"
#include "lab/experiment/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE TUTTI_BUILD_DIR "/test_timeline.html"

static struct tt_text page_of(const char *path) {
    struct tt_error why = {0};
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    struct tt_scenario_result result;
    struct tt_html_report report;
    struct tt_text page;
    if (tt_experiment_open(&experiment, path, &why) != TT_OK)
        fail_msg("%s", why.text);
    assert_int_equal(tt_experiment_build(&experiment, &scenario, &why), TT_OK);
    tt_html_report_init(&report, &scenario);
    struct tt_scenario_outputs outputs = {.also = tt_html_report_observer(&report)};
    assert_int_equal(tt_scenario_run(&scenario, true, &outputs, NULL, &result, &why), TT_OK);
    assert_int_equal(tt_html_report_write(&report, "title", &result, PAGE, &why), TT_OK);
    tt_html_report_fini(&report);
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    assert_int_equal(tt_text_read_file(PAGE, 1 << 24, &page, NULL), TT_OK);
    return page;
}

static int32_t count(const char *text, const char *what) {
    int32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* Req1 waits at C from 4 to 7, Req2 at B from 5 to 6; 11 steps from 2 to 13 ms over 1130 pixels. */
static void test_waits_are_drawn(void **state) {
    (void)state;
    struct tt_text page = page_of("experiments/lazybatching/figure10.pbtxt");
    const char *text = tt_text_string(&page);
    assert_int_equal(count(text, "<rect "), 11);
    assert_int_equal(count(text, "stroke-dasharray"), 2);
    assert_non_null(strstr(text, "<line x1='265.45' x2='573.64'"));
    assert_non_null(strstr(text, "<line x1='368.18' x2='470.91'"));
    assert_non_null(strstr(text, "batch of 3 from request 0, 7.000 .. 8.000 ms, step 2 (C)"));
    tt_text_fini(&page);
}

/* Whole graphs: as before, one level, nothing waits. */
static void test_whole_graphs_stay_flat(void **state) {
    (void)state;
    struct tt_text page = page_of("experiments/symphony/worked-example-3.3.pbtxt");
    assert_int_equal(count(tt_text_string(&page), "stroke-dasharray"), 0);
    assert_null(strstr(tt_text_string(&page), "Later steps stand higher"));
    tt_text_fini(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits_are_drawn),
                                       cmocka_unit_test(test_whole_graphs_stay_flat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
