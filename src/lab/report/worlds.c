#include "lab/report/worlds.h"

#include "lab/report/live_report.h"
#include "lab/report/report.h"

#include <math.h>
#include <string.h>

/* ---- running ---- */

static enum tt_err add_world(struct tt_worlds *self, const char *name, size_t length,
                             struct tt_error *why) {
    for (int32_t w = 0; w < TT_WORLDS; w++) {
        const char *known = tt_world_name((enum tt_world)w);
        if (strlen(known) != length || strncasecmp(known, name, length) != 0)
            continue;
        for (int32_t i = 0; i < self->count; i++)
            if (self->runs[i].world == (enum tt_world)w)
                return tt_fail(TT_ERR_INVALID, why, "the world '%s' is named twice", known);
        self->runs[self->count++].world = (enum tt_world)w;
        return TT_OK;
    }
    return tt_fail(TT_ERR_INVALID, why,
                   "there is no world '%.*s'; there are: simulated, emulated, real, cluster",
                   (int)length, name);
}

enum tt_err tt_worlds_init(struct tt_worlds *self, struct tt_experiment *experiment,
                           const char *names, struct tt_error *why) {
    *self = (struct tt_worlds){.experiment = experiment};
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        enum tt_err err = add_world(self, at, length, why);
        if (err)
            return err;
        at += length;
        if (*at == '\0')
            return TT_OK;
    }
}

void tt_worlds_fini(struct tt_worlds *self) {
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_worlds_run *run = &self->runs[i];
        if (run->ran)
            tt_measure_fini(&run->result.measure);
        tt_page_run_fini(&run->page);
        tt_scenario_fini(&run->scenario);
    }
    *self = (struct tt_worlds){0};
}

enum tt_err tt_worlds_run(struct tt_worlds *self, bool check,
                          const struct tt_scenario_outputs *outputs,
                          const volatile sig_atomic_t *stop, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->count; i++) {
        struct tt_worlds_run *run = &self->runs[i];
        err = tt_experiment_set(self->experiment, "world", tt_world_name(run->world), why);
        if (!err)
            err = tt_experiment_build(self->experiment, &run->scenario, why);
    }
    for (int32_t i = 0; !err && i < self->count && !(stop && *stop); i++) {
        struct tt_worlds_run *run = &self->runs[i];
        struct tt_scenario_outputs own = *outputs;
        tt_page_run_init(&run->page, &run->scenario);
        own.also = tt_page_run_observer(&run->page);
        err = tt_scenario_run(&run->scenario, check, &own, stop, &run->result, why);
        run->ran = !err;
    }
    return err;
}

bool tt_worlds_interrupted(const struct tt_worlds *self) {
    for (int32_t i = 0; i < self->count; i++)
        if (!self->runs[i].ran || self->runs[i].result.interrupted)
            return true;
    return false;
}

/* ---- figures ---- */

struct row {
    const char *name;
    int decimals;
    bool is_live; /* known in real time only */
    double (*of)(const struct tt_scenario_result *result, const struct tt_measure_model *total,
                 double window_s);
};

#define FIGURE(name, expression)                                                                   \
    static double name(const struct tt_scenario_result *result,                                    \
                       const struct tt_measure_model *total, double window_s) {                    \
        (void)result;                                                                              \
        (void)total;                                                                               \
        (void)window_s;                                                                            \
        return (double)(expression);                                                               \
    }

static double ms(int64_t ns) { return (double)ns / 1e6; }

/* NAN: not known in this world. */
static double late_p99(const struct tt_live_spread *spread) {
    return spread->count > 0 ? ms(spread->p99) : NAN;
}

static int64_t dropped_of(const struct tt_measure_model *total) {
    int64_t sum = 0;
    for (int32_t i = 0; i < TT_MEASURE_REASONS; i++)
        sum += total->dropped[i];
    return sum;
}

FIGURE(arrived, total->arrived)
FIGURE(good, (double)total->ok / window_s)
FIGURE(late, total->late)
FIGURE(dropped, dropped_of(total))
FIGURE(failed, total->failed)
FIGURE(cancelled, total->cancelled)
FIGURE(bad, 100 * tt_measure_bad_rate(total))
FIGURE(latency_mean, ms(tt_histogram_mean(&total->latency_ns)))
FIGURE(latency_p50, ms(tt_histogram_quantile(&total->latency_ns, 1, 2)))
FIGURE(latency_p99, ms(tt_histogram_quantile(&total->latency_ns, 99, 100)))
FIGURE(waiting_p50, ms(tt_histogram_quantile(&total->queueing_ns, 1, 2)))
FIGURE(waiting_p99, ms(tt_histogram_quantile(&total->queueing_ns, 99, 100)))
FIGURE(executions, total->batch_rows.count)
FIGURE(batch, total->batch_rows.count
                  ? (double)total->batch_rows.sum / (double)total->batch_rows.count
                  : 0)
FIGURE(busy, 100 * tt_measure_utilisation(&result->measure))
FIGURE(lag_mean, ms(result->live.lag_ns.mean))
FIGURE(lag_p99, ms(result->live.lag_ns.p99))
FIGURE(decision_p99, late_p99(&result->live.decision_late_ns))
FIGURE(start_p99, late_p99(&result->live.start_late_ns))
FIGURE(run_p50, (double)result->live.run_ppm.p50 / 1e6)
FIGURE(run_p99, (double)result->live.run_ppm.p99 / 1e6)

static const struct row rows[] = {
    {"requests", 0, false, arrived},
    {"good/s", 1, false, good},
    {"late", 0, false, late},
    {"dropped", 0, false, dropped},
    {"failed", 0, false, failed},
    {"cancelled", 0, false, cancelled},
    {"bad %", 3, false, bad},
    {"latency mean ms", 3, false, latency_mean},
    {"latency p50 ms", 3, false, latency_p50},
    {"latency p99 ms", 3, false, latency_p99},
    {"waiting p50 ms", 3, false, waiting_p50},
    {"waiting p99 ms", 3, false, waiting_p99},
    {"executions", 0, false, executions},
    {"mean batch", 2, false, batch},
    {"devices busy %", 1, false, busy},
    {"generator late mean ms", 3, true, lag_mean},
    {"generator late p99 ms", 3, true, lag_p99},
    {"decisions late p99 ms", 3, true, decision_p99},
    {"tasks late p99 ms", 3, true, start_p99},
    {"run time / profile p50", 2, true, run_p50},
    {"run time / profile p99", 2, true, run_p99},
};

static void put_row(const struct tt_worlds *self, const struct row *row, struct tt_text *out) {
    tt_text_printf(out, "%-24s", row->name);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_worlds_run *run = &self->runs[i];
        bool known = run->ran && (!row->is_live || run->result.live.is_live);
        if (!known) {
            tt_text_printf(out, " %12s", "-");
            continue;
        }
        struct tt_measure_model total;
        tt_measure_total(&run->result.measure, &total);
        double window_s = (double)tt_measure_window_ns(&run->result.measure) / 1e9;
        double value = row->of(&run->result, &total, window_s);
        if (isnan(value))
            tt_text_printf(out, " %12s", "-");
        else
            tt_text_printf(out, " %12.*f", row->decimals, value);
        tt_measure_model_fini(&total);
    }
    tt_text_puts(out, "\n");
}

static const struct tt_live_figures *first_live(const struct tt_worlds *self) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->runs[i].ran && self->runs[i].result.live.is_live)
            return &self->runs[i].result.live;
    return NULL;
}

void tt_worlds_table(const struct tt_worlds *self, struct tt_text *out) {
    const char *title = self->experiment->message->title;
    const struct tt_scenario *scenario = &self->runs[0].scenario;
    tt_text_printf(out, "%s%spolicy %s, seed %llu\n", title, title[0] ? "\n" : "", scenario->policy,
                   (unsigned long long)scenario->seed);
    const struct tt_live_figures *live = first_live(self);
    if (live)
        tt_live_report_place(live, out);
    tt_text_printf(out, "\n%-24s", "");
    for (int32_t i = 0; i < self->count; i++)
        tt_text_printf(out, " %12s", tt_world_name(self->runs[i].world));
    tt_text_puts(out, "\n");
    for (size_t r = 0; r < TT_COUNT(rows); r++)
        put_row(self, &rows[r], out);
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_worlds_run *run = &self->runs[i];
        const char *name = tt_world_name(run->world);
        if (!run->ran)
            tt_text_printf(out, "%s: interrupted before it began\n", name);
        else if (run->result.interrupted)
            tt_text_printf(out, "%s: interrupted, incomplete\n", name);
        if (run->ran && run->result.live.left_out[0])
            tt_text_printf(out, "%s: simulated only, and not done here: %s\n", name,
                           run->result.live.left_out);
        if (run->ran && run->result.live.failure[0])
            tt_text_printf(out, "%s: the first failure: %s\n", name, run->result.live.failure);
        if (run->ran && run->result.live.doubtful)
            tt_text_printf(out,
                           "%s: DOUBTFUL: the load generator fell behind, and latencies are in "
                           "part its own\n",
                           name);
    }
}

json_t *tt_worlds_json(const struct tt_worlds *self) {
    json_t *all = json_array();
    const char *title = self->experiment->message->title;
    for (int32_t i = 0; all && i < self->count; i++)
        if (self->runs[i].ran)
            json_array_append_new(
                all, tt_report_json(&self->runs[i].scenario, title, &self->runs[i].result));
    return json_pack("{s:s,s:b,s:o}", "title", title, "interrupted", tt_worlds_interrupted(self),
                     "worlds", all);
}

enum tt_err tt_worlds_html(struct tt_worlds *self, const char *path, struct tt_error *why) {
    json_t *runs = json_array();
    for (int32_t i = 0; i < self->count; i++)
        if (self->runs[i].ran)
            json_array_append_new(runs,
                                  tt_page_run_json(&self->runs[i].page, &self->runs[i].result));
    return tt_page_run_write(self->experiment->message->title, runs, path, why);
}
