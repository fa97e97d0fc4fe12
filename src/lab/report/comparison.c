#include "lab/report/comparison.h"

#include "lab/report/page.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A contender within this share of the best counts as best, too. */
#define AS_GOOD 0.01

/* Which comparisons have a figure. Those from OF_BOUNDS on are beside what is possible. */
enum shown { OF_RUNS, OF_TOKENS, OF_LIVE_RUNS, OF_SEARCHES, OF_BOUNDS, OF_PLANS, OF_LEASTS };

static const struct figure {
    const char *key, *name, *unit;
    enum shown shown;
    bool more_is_better, judged;
    double scale;
    const char *path[4]; /* of its value in a point */
} figures[TT_COMPARISON_FIGURES] = {
    [TT_COMPARISON_MEAN_MS] =
        {"mean_ms", "mean latency", "ms", OF_RUNS, false, true, 1, {"total", "latency_ms", "mean"}},
    [TT_COMPARISON_P99_MS] =
        {"p99_ms", "p99 latency", "ms", OF_RUNS, false, true, 1, {"total", "latency_ms", "p99"}},
    [TT_COMPARISON_GOOD_PER_S] =
        {"good_per_s", "answers in time", "1/s", OF_RUNS, true, true, 1, {"total", "good_per_s"}},
    [TT_COMPARISON_BAD_RATE] =
        {"bad_rate", "bad rate", "%", OF_RUNS, false, false, 100, {"total", "bad_rate"}},
    [TT_COMPARISON_BATCH] =
        {"batch", "mean batch", "rows", OF_RUNS, false, false, 1, {"total", "batch", "mean"}},
    [TT_COMPARISON_TTFT_MS] = {"ttft_p99_ms",
                               "p99 time to the first token",
                               "ms",
                               OF_TOKENS,
                               false,
                               false,
                               1,
                               {"total", "tokens", "ttft_ms", "p99"}},
    [TT_COMPARISON_TPOT_MS] = {"tpot_p99_ms",
                               "p99 time per token",
                               "ms",
                               OF_TOKENS,
                               false,
                               false,
                               1,
                               {"total", "tokens", "tpot_ms", "p99"}},
    [TT_COMPARISON_MEMORY] = {"peak_memory_mib",
                              "peak memory of the process",
                              "MiB",
                              OF_LIVE_RUNS,
                              false,
                              false,
                              1,
                              {"live", "peak_memory_mib"}},
    [TT_COMPARISON_GOODPUT] =
        {"goodput_per_s", "goodput", "1/s", OF_SEARCHES, true, true, 1, {"goodput_per_s"}},
    [TT_COMPARISON_MEDIAN_BATCH] =
        {"median_batch", "median batch", "rows", OF_SEARCHES, false, false, 1, {"median_batch"}},
    [TT_COMPARISON_SHARE] = {"share_of_possible",
                             "share of the possible",
                             "%",
                             OF_BOUNDS,
                             true,
                             false,
                             100,
                             {"share_of_possible"}},
    [TT_COMPARISON_OF_PLAN] = {"share_of_plan",
                               "share of a plan that knows the future",
                               "%",
                               OF_PLANS,
                               true,
                               false,
                               100,
                               {"share_of_plan"}},
    [TT_COMPARISON_OVER_LEAST] = {"mean_over_least",
                                  "mean latency over the least possible",
                                  "times",
                                  OF_LEASTS,
                                  false,
                                  false,
                                  1,
                                  {"mean_over_least"}},
};

static bool is_shown(const struct tt_comparison *self, int32_t figure) {
    const bool shown[] = {[OF_RUNS] = !self->searched,
                          [OF_TOKENS] = self->has_tokens,
                          [OF_LIVE_RUNS] = self->place[0] != '\0',
                          [OF_SEARCHES] = self->searched,
                          [OF_BOUNDS] = self->bounded,
                          [OF_PLANS] = self->planned,
                          [OF_LEASTS] = self->has_least};
    return shown[figures[figure].shown];
}

/* ---- what is compared ---- */

static enum tt_err check_contenders(const struct tt_experiment *experiment, struct tt_error *why) {
    const Tutti__Experiment *message = experiment->message;
    if (message->n_contender < 2)
        return tt_experiment_wrong(experiment, NULL, NULL, why,
                                   "%zu contenders; a comparison needs two or more: contender { "
                                   "name: \"...\" set: \"policy=...\" }",
                                   message->n_contender);
    for (size_t i = 0; i < message->n_contender; i++)
        for (size_t k = 0; k <= i; k++)
            if (!message->contender[i]->name[0] || strchr(message->contender[i]->name, ',') ||
                (k < i && strcmp(message->contender[i]->name, message->contender[k]->name) == 0))
                return tt_experiment_wrong(experiment, message->contender[i], "name", why,
                                           "the contender's name '%s' must be there, be unique and "
                                           "without a comma",
                                           message->contender[i]->name);
    if (message->n_sweep != 1 || strchr(message->sweep[0]->parameter, ',') ||
        message->sweep[0]->n_value < 1)
        return tt_experiment_wrong(experiment, NULL, NULL, why,
                                   "a comparison goes along one parameter: sweep { parameter: "
                                   "\"rate\" value: [ \"100\", \"200\" ] }");
    for (size_t i = 0; i < message->sweep[0]->n_value; i++) {
        char *end;
        const char *text = message->sweep[0]->value[i];
        if ((strtod(text, &end), end == text || *end))
            return tt_experiment_wrong(experiment, message->sweep[0], "value", why,
                                       "'%s' is not a number, and a comparison goes along one",
                                       text);
    }
    return TT_OK;
}

static Tutti__ExperimentSweep *sweep_of_contenders(const Tutti__Experiment *message) {
    Tutti__ExperimentSweep *sweep = tt_allocate(1, sizeof(*sweep));
    tutti__experiment_sweep__init(sweep);
    sweep->parameter = tt_copy_text("contender");
    sweep->value = tt_allocate(message->n_contender, sizeof(*sweep->value));
    for (size_t i = 0; i < message->n_contender; i++)
        sweep->value[sweep->n_value++] = tt_copy_text(message->contender[i]->name);
    return sweep;
}

enum tt_err tt_comparison_prepare(struct tt_experiment *experiment, struct tt_error *why) {
    enum tt_err err = check_contenders(experiment, why);
    if (err)
        return err;
    Tutti__Experiment *message = experiment->message;
    Tutti__ExperimentSweep **sweeps = tt_reallocate(message->sweep, 2, sizeof(*sweeps));
    message->sweep = sweeps;
    /* The contender comes first: the parameter may override what it sets. */
    sweeps[1] = sweeps[0];
    sweeps[0] = sweep_of_contenders(message);
    message->n_sweep = 2;
    return TT_OK;
}

static double *at(const struct tt_comparison *self, int32_t figure, int32_t contender,
                  int32_t value) {
    int32_t row = figure * self->contender_count + contender;
    return &self->figures[row * self->value_count + value];
}

static int32_t find(const char *const *texts, int32_t count, const char *text) {
    for (int32_t i = 0; text && i < count; i++)
        if (strcmp(texts[i], text) == 0)
            return i;
    return -1;
}

/* Machine, date and doubt of a point that ran in real time. */
static void take_live(struct tt_comparison *self, const json_t *point, int32_t contender,
                      int32_t value) {
    const json_t *live = json_object_get(point, "live");
    if (!live)
        return;
    self->doubtful[contender * self->value_count + value] =
        json_is_true(json_object_get(live, "doubtful"));
    snprintf(self->place, sizeof(self->place), "%s, on %s, %d cores, %s",
             json_string_value(json_object_get(point, "world")),
             json_string_value(json_object_get(live, "machine")),
             (int)json_integer_value(json_object_get(live, "cores")),
             json_string_value(json_object_get(live, "date")));
}

/* A share of the possible is known where a bound was proved. */
static void take_bound(struct tt_comparison *self, const json_t *point) {
    const char *why = json_string_value(json_object_get(point, "not_covered"));
    self->bounded |=
        why || json_object_get(point, "possible") || json_object_get(point, "impossible_per_s");
    if (why)
        snprintf(self->not_covered, sizeof(self->not_covered), "%s", why);
}

static double value_of(const json_t *point, int32_t figure) {
    const struct figure *of = &figures[figure];
    bool is_bound = of->shown >= OF_BOUNDS;
    const json_t *possible = json_object_get(point, "possible");
    const json_t *value = is_bound && possible ? possible : point;
    for (size_t i = 0; i < TT_COUNT(of->path) && of->path[i]; i++)
        value = json_object_get(value, of->path[i]);
    return json_is_number(value) ? json_number_value(value) * of->scale : NAN;
}

static void take_point(struct tt_comparison *self, const json_t *point) {
    const json_t *place = json_object_get(point, "point");
    int32_t contender = find(self->contenders, self->contender_count,
                             json_string_value(json_object_get(place, "contender")));
    int32_t value = find(self->value_texts, self->value_count,
                         json_string_value(json_object_get(place, self->parameter)));
    if (contender < 0 || value < 0)
        return;
    self->searched |= json_object_get(point, "goodput_per_s") != NULL;
    take_live(self, point, contender, value);
    take_bound(self, point);
    for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++)
        *at(self, f, contender, value) = value_of(point, f);
    self->has_tokens |= isfinite(*at(self, TT_COMPARISON_TTFT_MS, contender, value));
    self->planned |= isfinite(*at(self, TT_COMPARISON_OF_PLAN, contender, value));
    self->has_least |= isfinite(*at(self, TT_COMPARISON_OVER_LEAST, contender, value));
}

void tt_comparison_init(struct tt_comparison *self, const struct tt_experiment *experiment,
                        const json_t *points) {
    const Tutti__Experiment *message = experiment->message;
    const Tutti__ExperimentSweep *sweep = message->sweep[1];
    *self = (struct tt_comparison){.title = message->title,
                                   .parameter = sweep->parameter,
                                   .contender_count = (int32_t)message->n_contender,
                                   .value_count = (int32_t)sweep->n_value,
                                   .value_texts = (const char *const *)sweep->value};
    size_t count = TT_COMPARISON_FIGURES * message->n_contender * sweep->n_value;
    self->contenders = tt_allocate(message->n_contender, sizeof(*self->contenders));
    self->values = tt_allocate(sweep->n_value, sizeof(*self->values));
    self->figures = tt_allocate(count, sizeof(*self->figures));
    self->doubtful = tt_allocate(message->n_contender * sweep->n_value, sizeof(*self->doubtful));
    for (size_t i = 0; i < message->n_contender; i++)
        self->contenders[i] = message->contender[i]->name;
    for (size_t i = 0; i < sweep->n_value; i++)
        self->values[i] = strtod(sweep->value[i], NULL);
    for (size_t i = 0; i < count; i++)
        self->figures[i] = NAN;
    for (size_t m = 0; m < message->n_model; m++)
        self->slo_ms = fmax(self->slo_ms, message->model[m]->slo_ms);
    for (size_t i = 0; i < json_array_size(points); i++)
        take_point(self, json_array_get(points, i));
}

void tt_comparison_fini(struct tt_comparison *self) {
    free(self->contenders);
    free(self->values);
    free(self->figures);
    free(self->doubtful);
    *self = (struct tt_comparison){0};
}

/* ---- which contender is best ---- */

/* Where one contender's figures are doubtful, none is called best. */
static bool is_doubtful(const struct tt_comparison *self, int32_t value) {
    for (int32_t c = 0; c < self->contender_count; c++)
        if (self->doubtful[c * self->value_count + value])
            return true;
    return false;
}

static bool is_best(const struct tt_comparison *self, int32_t figure, int32_t contender,
                    int32_t value) {
    double own = *at(self, figure, contender, value);
    if (!isfinite(own) || is_doubtful(self, value))
        return false;
    for (int32_t c = 0; c < self->contender_count; c++) {
        double other = *at(self, figure, c, value);
        bool beaten = figures[figure].more_is_better ? other * (1 - AS_GOOD) > own
                                                     : other * (1 + AS_GOOD) < own;
        if (isfinite(other) && beaten)
            return false;
    }
    return true;
}

/* It is best, and at least one other is not. */
static bool stands_out(const struct tt_comparison *self, int32_t figure, int32_t contender,
                       int32_t value) {
    int32_t others = 0;
    for (int32_t c = 0; c < self->contender_count; c++)
        others += !is_best(self, figure, c, value);
    return others > 0 && is_best(self, figure, contender, value);
}

static int32_t count_best(const struct tt_comparison *self, int32_t figure, int32_t contender) {
    int32_t count = 0;
    for (int32_t v = 0; v < self->value_count; v++)
        count += stands_out(self, figure, contender, v);
    return count;
}

/* How many times the best a contender's figure is where it is farthest from it. -1: not known. */
static int32_t farthest(const struct tt_comparison *self, int32_t figure, int32_t contender,
                        double *out_times) {
    int32_t worst = -1;
    for (int32_t v = 0; v < self->value_count; v++) {
        double own = *at(self, figure, contender, v), best = own;
        if (!isfinite(own) || is_doubtful(self, v))
            continue;
        for (int32_t c = 0; c < self->contender_count; c++) {
            double other = *at(self, figure, c, v);
            if (isfinite(other))
                best = figures[figure].more_is_better ? fmax(best, other) : fmin(best, other);
        }
        double times = best > 0 ? own / best : 1;
        bool farther = figures[figure].more_is_better ? times < *out_times : times > *out_times;
        if (worst >= 0 && !farther)
            continue;
        worst = v;
        *out_times = times;
    }
    return worst;
}

static void put_farthest(const struct tt_comparison *self, struct tt_text *out) {
    tt_text_printf(out, "\ntimes the best, where farthest from it\n%-24s", self->parameter);
    for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++)
        if (figures[f].judged && is_shown(self, f))
            tt_text_printf(out, " %20s", figures[f].name);
    tt_text_puts(out, "\n");
    for (int32_t c = 0; c < self->contender_count; c++) {
        tt_text_printf(out, "%-24s", self->contenders[c]);
        for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++) {
            double times = 1;
            if (!figures[f].judged || !is_shown(self, f))
                continue;
            int32_t value = farthest(self, f, c, &times);
            if (value < 0)
                tt_text_printf(out, " %20s", "-");
            else
                tt_text_printf(out, " %10.2f at %6s", times, self->value_texts[value]);
        }
        tt_text_puts(out, "\n");
    }
}

/* At which values none is called best. True: at all of them. */
static bool put_doubts(const struct tt_comparison *self, struct tt_text *out) {
    int32_t count = 0;
    for (int32_t v = 0; v < self->value_count; v++)
        count += is_doubtful(self, v);
    if (count == 0)
        return false;
    tt_text_printf(out, "Not judged: the load generator fell behind at %s%s",
                   count == self->value_count ? "every " : "", self->parameter);
    for (int32_t v = 0; v < self->value_count && count < self->value_count; v++)
        if (is_doubtful(self, v))
            tt_text_printf(out, " %s", self->value_texts[v]);
    tt_text_puts(out, "; lower rates, or a machine that does nothing else, would help.\n");
    return count == self->value_count;
}

void tt_comparison_words(const struct tt_comparison *self, struct tt_text *out) {
    if (put_doubts(self, out))
        return;
    for (int32_t c = 0; c < self->contender_count; c++) {
        tt_text_printf(out, "%s: ", self->contenders[c]);
        bool any = false;
        for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++) {
            int32_t best = figures[f].judged ? count_best(self, f, c) : 0;
            if (best == 0)
                continue;
            tt_text_printf(out, "%s%s %s at %s", any ? "; " : "",
                           figures[f].more_is_better ? "most" : "lowest", figures[f].name,
                           best == self->value_count ? "every " : "");
            tt_text_puts(out, self->parameter);
            for (int32_t v = 0; best < self->value_count && v < self->value_count; v++)
                if (stands_out(self, f, c, v))
                    tt_text_printf(out, " %s", self->value_texts[v]);
            any = true;
        }
        tt_text_puts(out, any ? ".\n" : "nowhere better than all others.\n");
    }
}

void tt_comparison_table(const struct tt_comparison *self, struct tt_text *out) {
    tt_text_printf(out, "%s\n", self->title[0] ? self->title : "Comparison");
    if (self->place[0])
        tt_text_printf(out, "%s\n", self->place);
    for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++) {
        if (!is_shown(self, f))
            continue;
        tt_text_printf(out, "\n%s, %s\n%-24s", figures[f].name, figures[f].unit, self->parameter);
        for (int32_t v = 0; v < self->value_count; v++)
            tt_text_printf(out, " %10s", self->value_texts[v]);
        tt_text_puts(out, "\n");
        for (int32_t c = 0; c < self->contender_count; c++) {
            tt_text_printf(out, "%-24s", self->contenders[c]);
            for (int32_t v = 0; v < self->value_count; v++) {
                double figure = *at(self, f, c, v);
                bool best = figures[f].judged && is_best(self, f, c, v);
                bool doubtful = self->doubtful[c * self->value_count + v];
                if (isfinite(figure))
                    tt_text_printf(out, " %9.2f%s", figure, doubtful ? "?" : best ? "*" : " ");
                else
                    tt_text_printf(out, " %10s", "-");
            }
            tt_text_puts(out, "\n");
        }
    }
    put_farthest(self, out);
    tt_text_puts(out, "\n* the best, or within 1 % of it\n");
    if (self->place[0])
        tt_text_puts(out,
                     "? doubtful: the load generator fell behind; none is called best there\n");
    if (self->not_covered[0])
        tt_text_printf(out, "- no bound: %s\n", self->not_covered);
    tt_text_puts(out, "\n");
    tt_comparison_words(self, out);
}

json_t *tt_comparison_json(const struct tt_comparison *self, json_t *points) {
    json_t *best = json_object();
    for (int32_t f = 0; f < TT_COMPARISON_FIGURES; f++) {
        if (!figures[f].judged || !is_shown(self, f))
            continue;
        json_t *by_value = json_object();
        for (int32_t v = 0; v < self->value_count; v++) {
            json_t *names = json_array();
            for (int32_t c = 0; c < self->contender_count; c++)
                if (is_best(self, f, c, v))
                    json_array_append_new(names, json_string(self->contenders[c]));
            json_object_set_new(by_value, self->value_texts[v], names);
        }
        json_object_set_new(best, figures[f].key, by_value);
    }
    return json_pack("{s:s,s:s,s:o,s:O}", "title", self->title, "parameter", self->parameter,
                     "best", best, "points", points);
}

enum tt_err tt_comparison_html(const struct tt_comparison *self, json_t *points, const char *path,
                               struct tt_error *why) {
    json_t *names = json_array();
    for (int32_t c = 0; c < self->contender_count; c++)
        json_array_append_new(names, json_string(self->contenders[c]));
    json_t *slo = self->slo_ms > 0 ? json_real(self->slo_ms) : json_null();
    return tt_page_write("compare", self->title,
                         json_pack("{s:o,s:o,s:o}", "contenders", names, "slo_ms", slo, "report",
                                   tt_comparison_json(self, points)),
                         path, why);
}
