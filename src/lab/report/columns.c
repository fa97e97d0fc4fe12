#include "lab/report/columns.h"

#include <string.h>

/* What a row shows of a model in one run. */
struct figures {
    const struct tt_measure_model *model;
    double window_s;
};

static double good_per_s(const struct figures *f) { return (double)f->model->ok / f->window_s; }
static double bad_percent(const struct figures *f) { return 100 * tt_measure_bad_rate(f->model); }
static double ms(int64_t ns) { return (double)ns / 1e6; }
static double mean_ms(const struct figures *f) {
    return ms(tt_histogram_mean(&f->model->latency_ns));
}
static double p50_ms(const struct figures *f) {
    return ms(tt_histogram_quantile(&f->model->latency_ns, 50, 100));
}
static double p99_ms(const struct figures *f) {
    return ms(tt_histogram_quantile(&f->model->latency_ns, 99, 100));
}
static double wait_p99_ms(const struct figures *f) {
    return ms(tt_histogram_quantile(&f->model->queueing_ns, 99, 100));
}
static double mean_batch(const struct figures *f) {
    const struct tt_histogram *rows = &f->model->batch_rows;
    return rows->count ? (double)rows->sum / (double)rows->count : 0;
}

static const struct {
    const char *name;
    int digits; /* after the point */
    double (*of)(const struct figures *figures);
} rows[] = {{"good/s", 1, good_per_s},    {"bad %", 2, bad_percent},
            {"mean ms", 3, mean_ms},      {"p50 ms", 3, p50_ms},
            {"p99 ms", 3, p99_ms},        {"wait p99 ms", 3, wait_p99_ms},
            {"mean batch", 2, mean_batch}};

enum { NAME_WIDTH = 12, COLUMN_WIDTH = 14 };

static void put_heads(const struct tt_report_column *columns, int32_t count, int width,
                      struct tt_text *out) {
    tt_text_printf(out, "%*s", width + NAME_WIDTH, "");
    for (int32_t c = 0; c < count; c++)
        tt_text_printf(out, " %*s", COLUMN_WIDTH, columns[c].heading);
    tt_text_printf(out, "\n%-*s%-*s", width, "model", NAME_WIDTH, "");
    for (int32_t c = 0; c < count; c++)
        tt_text_printf(out, " %*s", COLUMN_WIDTH, columns[c].scenario->policy);
    tt_text_puts(out, "\n");
}

/* `models`: what the rows show, a model of each column's run. */
static void put_rows(const struct tt_report_column *columns, int32_t count, const char *name,
                     const struct tt_measure_model *const *models, int width, struct tt_text *out) {
    for (size_t r = 0; r < TT_COUNT(rows); r++) {
        tt_text_printf(out, "%-*s%-*s", width, r == 0 ? name : "", NAME_WIDTH, rows[r].name);
        for (int32_t c = 0; c < count; c++) {
            double window_s = (double)tt_measure_window_ns(&columns[c].result->measure) / 1e9;
            struct figures figures = {models[c], window_s};
            tt_text_printf(out, " %*.*f", COLUMN_WIDTH, rows[r].digits, rows[r].of(&figures));
        }
        tt_text_puts(out, "\n");
    }
}

void tt_report_columns(const struct tt_report_column *columns, int32_t count, struct tt_text *out) {
    tt_assert(count >= 1 && count <= TT_REPORT_MAX_COLUMNS);
    const struct tt_scenario *first = columns[0].scenario;
    int width = (int)strlen("model") + 2;
    for (int32_t m = 0; m < first->model_count; m++) {
        int length = (int)strlen(first->models[m].name) + 2;
        width = length > width ? length : width;
    }
    put_heads(columns, count, width, out);
    const struct tt_measure_model *models[TT_REPORT_MAX_COLUMNS];
    struct tt_measure_model totals[TT_REPORT_MAX_COLUMNS];
    for (int32_t m = 0; m < first->model_count; m++) {
        for (int32_t c = 0; c < count; c++)
            models[c] = &columns[c].result->measure.models[m];
        put_rows(columns, count, first->models[m].name, models, width, out);
    }
    if (first->model_count > 1) {
        for (int32_t c = 0; c < count; c++) {
            tt_measure_total(&columns[c].result->measure, &totals[c]);
            models[c] = &totals[c];
        }
        put_rows(columns, count, "all", models, width, out);
        for (int32_t c = 0; c < count; c++)
            tt_measure_model_fini(&totals[c]);
    }
    tt_text_printf(out, "%-*s%-*s", width, "", NAME_WIDTH, "busy %");
    for (int32_t c = 0; c < count; c++)
        tt_text_printf(out, " %*.1f", COLUMN_WIDTH,
                       100 * tt_measure_utilisation(&columns[c].result->measure));
    tt_text_puts(out, "\n");
}
