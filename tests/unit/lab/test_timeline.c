/* The picture of a run of several steps: preemption, catching up and merging can be seen in it
 * (L1: figure 10 of LazyBatching, as shipped). */
#include "lab/report/page_run.h"

#include "base/text.h"
#include "lab/experiment/experiment.h"
#include "lab/run/scenario_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE TUTTI_BUILD_DIR "/test_timeline.html"
#define PICTURE TUTTI_BUILD_DIR "/test_timeline.svg"

struct drawn {
    struct tt_text picture;
    json_t *data;     /* of the page */
    json_t *timeline; /* borrowed from it */
};

/* What the page's template has between its marks is the data. */
static json_t *data_of(const char *page) {
    static const char mark[] = "<script type=\"application/json\" id=\"data\">";
    const char *from = strstr(page, mark);
    assert_non_null(from);
    from += strlen(mark);
    const char *end = strstr(from, "</script>");
    assert_non_null(end);
    json_t *data = json_loadb(from, (size_t)(end - from), 0, NULL);
    assert_non_null(data);
    return data;
}

static struct drawn draw(const char *path) {
    struct tt_error why = {0};
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    struct tt_scenario_result result;
    struct tt_page_run run;
    struct tt_text page;
    struct drawn out;
    if (tt_experiment_open(&experiment, path, &why) != TT_OK)
        fail_msg("%s", why.text);
    assert_int_equal(tt_experiment_build(&experiment, &scenario, &why), TT_OK);
    tt_page_run_init(&run, &scenario);
    struct tt_scenario_outputs outputs = {.also = tt_page_run_observer(&run)};
    assert_int_equal(tt_scenario_run(&scenario, true, &outputs, NULL, &result, &why), TT_OK);
    json_t *runs = json_pack("[o]", tt_page_run_json(&run, &result));
    assert_int_equal(tt_page_run_write("</script>", runs, PAGE, &why), TT_OK);
    assert_int_equal(tt_timeline_write(&run.timeline, PICTURE, &why), TT_OK);
    tt_page_run_fini(&run);
    tt_measure_fini(&result.measure);
    tt_scenario_fini(&scenario);
    tt_experiment_close(&experiment);
    assert_int_equal(tt_text_read_file(PICTURE, 1 << 24, &out.picture, NULL), TT_OK);
    assert_int_equal(tt_text_read_file(PAGE, 1 << 24, &page, NULL), TT_OK);
    out.data = data_of(tt_text_string(&page));
    tt_text_fini(&page);
    assert_string_equal(json_string_value(json_object_get(out.data, "title")), "</script>");
    json_t *body = json_object_get(out.data, "body");
    out.timeline = json_object_get(json_array_get(json_object_get(body, "runs"), 0), "timeline");
    return out;
}

static void drawn_fini(struct drawn *self) {
    tt_text_fini(&self->picture);
    json_decref(self->data);
}

static int32_t count(const char *text, const char *what) {
    int32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void expect_wait(const json_t *waits, size_t index, int step, double from, double to) {
    const json_t *wait = json_array_get(waits, index);
    assert_int_equal(json_integer_value(json_array_get(wait, 1)), step);
    assert_true(json_number_value(json_array_get(wait, 2)) == from);
    assert_true(json_number_value(json_array_get(wait, 3)) == to);
}

/* Req1 waits at C from 4 to 7, Req2 at B from 5 to 6; 11 steps from 2 to 13 ms over 1130 pixels. */
static void test_waits_are_drawn(void **state) {
    (void)state;
    struct drawn drawn = draw("experiments/lazybatching/figure10.pbtxt");
    const char *text = tt_text_string(&drawn.picture);
    assert_int_equal(count(text, "<rect "), 11);
    assert_int_equal(count(text, "stroke-dasharray"), 2);
    assert_non_null(strstr(text, "<line x1='265.45' x2='573.64'"));
    assert_non_null(strstr(text, "<line x1='368.18' x2='470.91'"));
    assert_non_null(strstr(text, "batch of 3 from request 0, 7.000 .. 8.000 ms, step 2 (C)"));
    const json_t *waits = json_object_get(drawn.timeline, "waits");
    assert_int_equal(json_array_size(json_object_get(drawn.timeline, "bars")), 11);
    assert_int_equal(json_array_size(waits), 2);
    expect_wait(waits, 0, 2, 4, 7);
    expect_wait(waits, 1, 1, 5, 6);
    drawn_fini(&drawn);
}

/* Whole graphs: one level, nothing waits. */
static void test_whole_graphs_stay_flat(void **state) {
    (void)state;
    struct drawn drawn = draw("experiments/symphony/worked-example-3.3.pbtxt");
    assert_int_equal(count(tt_text_string(&drawn.picture), "stroke-dasharray"), 0);
    assert_int_equal(json_array_size(json_object_get(drawn.timeline, "waits")), 0);
    drawn_fini(&drawn);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waits_are_drawn),
                                       cmocka_unit_test(test_whole_graphs_stay_flat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
