/* threaded */
/* Every line of the metrics page is well-formed, and its numbers are those of the requests. */
#include "metrics/metrics.h"

#include "unit/serve/serving_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct serving_bench bench;
static struct client client;
static const struct tt_serving_policy zero = {.name = "window"};
static const struct tt_served_model_spec plain = {
    .name = "plain", .priority_count = 100, .default_priority = 50};

static void count_lines(const char *page, int32_t *out_samples) {
    *out_samples = 0;
    for (const char *line = page; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if (*line == '#')
            continue;
        /* The value stands behind the last space; the server's own lines have no labels. */
        const char *line_end = strchr(line, '\n'),
                   *space = memrchr(line, ' ', (size_t)(line_end - line));
        assert_non_null(space);
        const char *brace = memchr(line, '{', (size_t)(space - line));
        assert_true(!brace || space[-1] == '}');
        char *after;
        double value = strtod(space + 1, &after);
        assert_true(after > space + 1 && *after == '\n');
        assert_true(value >= 0);
        ++*out_samples;
    }
}

static void test_page(void **state) {
    (void)state;
    static const int64_t latency = 1;
    serving_bench_open(&bench);
    struct tt_served_model_spec spec = plain;
    spec.version = "9";
    struct tt_served_model *model = serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    spec.version = "10";
    spec.name = "odd \"\\ name";
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    spec.name = "third";
    serving_bench_add(&bench, &spec, &bench_fixed, &latency, &zero);
    serving_bench_start(&bench);
    client_open(&client, bench.serving);
    client_send(&client, model, 3, 1, 0);
    client_wait(&client, 0);
    struct tt_text page;
    tt_text_init(&page);
    tt_metrics_write_models(tt_port_catalogue(client.port), &page);
    tt_metrics_write_server(bench.serving, &page);
    int32_t samples;
    count_lines(tt_text_string(&page), &samples);
    assert_true(samples > 4 * 20);
    assert_non_null(strstr(page.bytes, "model=\"odd \\\"\\\\ name\",version=\"10\""));
    assert_non_null(strstr(page.bytes, "\nnv_inference_count{model=\"plain\",version=\"9\"} 3\n"));
    assert_non_null(strstr(
        page.bytes, "\ntutti_batch_size_bucket{model=\"plain\",version=\"9\",le=\"2\"} 0\n"));
    assert_non_null(strstr(
        page.bytes, "\ntutti_batch_size_bucket{model=\"plain\",version=\"9\",le=\"4\"} 1\n"));
    tt_text_fini(&page);
    client_close(&client);
    serving_bench_close(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
