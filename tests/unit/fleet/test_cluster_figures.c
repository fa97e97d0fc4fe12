/* Paces of backends: those that differ are shown, by model, version and node, whatever their names.
 */
#include "fleet/cluster_figures.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void state(struct tt_cluster_figures *self, const char *version, const char *node,
                  int32_t permille) {
    tt_cluster_figures_pace(self, &(struct tt_pace_figure){"a \"b\\", version, node, permille});
}

/* So many are shown, and this one is among them. */
static bool shows(const struct tt_cluster_figures *self, size_t count, const char *version,
                  const char *node, double pace) {
    struct tt_text text;
    json_error_t why;
    tt_text_init(&text);
    tt_text_puts(&text, "{\"threads\": 0");
    tt_cluster_figures_show_paces(self, &text);
    tt_text_puts(&text, "}");
    json_t *json = json_loads(tt_text_string(&text), 0, &why);
    assert_non_null(json);
    const json_t *paces = json_object_get(json, "paces"), *each;
    assert_int_equal(json_array_size(paces), count);
    bool is_there = false;
    size_t i;
    json_array_foreach(paces, i, each) {
        assert_string_equal(json_string_value(json_object_get(each, "model")), "a \"b\\");
        is_there |= strcmp(json_string_value(json_object_get(each, "version")), version) == 0 &&
                    strcmp(json_string_value(json_object_get(each, "node")), node) == 0 &&
                    json_real_value(json_object_get(each, "pace")) == pace;
    }
    json_decref(json);
    tt_text_fini(&text);
    return is_there;
}

static void those_that_differ_are_shown(void **unused) {
    (void)unused;
    const struct tt_scaling_service none = {.pool_count = 0};
    struct tt_cluster_figures figures;
    assert_int_equal(tt_cluster_figures_init(&figures, &none), TT_OK);
    state(&figures, "1", "b1", 1005); /* within a hundredth */
    assert_false(shows(&figures, 0, "1", "b1", 1.005));
    state(&figures, "1", "b1", 2500);
    state(&figures, "2", "b1", 500);
    state(&figures, "1", "b2", 1500);
    assert_true(shows(&figures, 3, "1", "b1", 2.5));
    assert_true(shows(&figures, 3, "2", "b1", 0.5));
    assert_true(shows(&figures, 3, "1", "b2", 1.5));
    state(&figures, "2", "b1", 1000);
    state(&figures, "1", "b1", 1200);
    assert_true(shows(&figures, 2, "1", "b1", 1.2));
    struct tt_text page;
    tt_text_init(&page);
    tt_cluster_figures_put(&figures, &page);
    assert_non_null(
        strstr(tt_text_string(&page), "{model=\"a \\\"b\\\\\",version=\"1\",node=\"b2\"} 1.5"));
    tt_text_fini(&page);
    tt_cluster_figures_adopted(&figures);
    assert_false(shows(&figures, 0, "1", "b1", 1.2));
    state(&figures, "1", "b1", 900);
    assert_true(shows(&figures, 1, "1", "b1", 0.9));
    tt_cluster_figures_fini(&figures);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_that_differ_are_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
