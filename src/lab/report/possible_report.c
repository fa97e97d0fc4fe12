#include "lab/report/possible_report.h"

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void report_in_time(json_t *possible, const struct tt_possible_run *run, double in_time) {
    json_object_set_new(possible, "in_time", json_integer((json_int_t)in_time));
    json_object_set_new(possible, "most_in_time", json_integer(run->most));
    if (run->most > 0)
        json_object_set_new(possible, "share_of_possible", json_real(in_time / (double)run->most));
    if (run->planned >= 0)
        json_object_set_new(possible, "planned_in_time", json_integer(run->planned));
    if (run->planned > 0)
        json_object_set_new(possible, "share_of_plan", json_real(in_time / (double)run->planned));
}

/* The least mean is that of runs that compute every request. */
static void report_mean(json_t *possible, const struct tt_possible_run *run, const json_t *total) {
    double least_ms = (double)run->least_mean_ns / 1e6;
    json_object_set_new(possible, "least_mean_ms", json_real(least_ms));
    if (number(total, "ok") + number(total, "late") == (double)run->requests)
        json_object_set_new(
            possible, "mean_over_least",
            json_real(number(json_object_get(total, "latency_ms"), "mean") / least_ms));
}

void tt_possible_report_run(json_t *result, const struct tt_possible_run *run) {
    const json_t *total = json_object_get(result, "total");
    json_t *possible = json_pack("{s:I,s:b}", "requests", (json_int_t)run->requests, "interrupted",
                                 run->interrupted);
    if (run->most >= 0)
        report_in_time(possible, run, number(total, "ok"));
    if (run->least_mean_ns > 0)
        report_mean(possible, run, total);
    json_object_set_new(result, "possible", possible);
}

void tt_possible_report_rate(json_t *result, const struct tt_possible_rate *rate) {
    if (rate->impossible > 0) {
        double impossible_per_s = (double)rate->impossible / 1e6;
        json_object_set_new(result, "impossible_per_s", json_real(impossible_per_s));
        json_object_set_new(result, "share_of_possible",
                            json_real(number(result, "goodput_per_s") / impossible_per_s));
    }
    double planned_per_s = (double)rate->planned / 1e6, goodput = number(result, "goodput_per_s");
    if (planned_per_s > goodput) {
        json_object_set_new(result, "planned_per_s", json_real(planned_per_s));
        json_object_set_new(result, "share_of_plan", json_real(goodput / planned_per_s));
    }
    if (rate->interrupted)
        json_object_set_new(result, "interrupted", json_true());
}

static void write_in_time(const json_t *possible, struct tt_text *out) {
    tt_text_printf(out, "in time %.0f of %.0f requests, at most %.0f possible",
                   number(possible, "in_time"), number(possible, "requests"),
                   number(possible, "most_in_time"));
    if (json_object_get(possible, "share_of_possible"))
        tt_text_printf(out, ": %.1f %% of the possible",
                       100 * number(possible, "share_of_possible"));
    if (json_object_get(possible, "planned_in_time"))
        tt_text_printf(out, "; a plan that knows the future has %.0f",
                       number(possible, "planned_in_time"));
}

static void write_run(const json_t *possible, struct tt_text *out) {
    bool has_most = json_object_get(possible, "most_in_time");
    if (has_most)
        write_in_time(possible, out);
    if (json_object_get(possible, "least_mean_ms"))
        tt_text_printf(out, "%smean latency at least %.3f ms", has_most ? "; " : "",
                       number(possible, "least_mean_ms"));
    if (json_object_get(possible, "mean_over_least"))
        tt_text_printf(out, ": %.2f times the least possible", number(possible, "mean_over_least"));
}

void tt_possible_report_text(const json_t *result, struct tt_text *out) {
    const json_t *possible = json_object_get(result, "possible");
    if (possible)
        write_run(possible, out);
    if (json_object_get(result, "impossible_per_s"))
        tt_text_printf(out, "%.1f r/s is impossible: %.1f %% of the possible",
                       number(result, "impossible_per_s"),
                       100 * number(result, "share_of_possible"));
    if (json_object_get(result, "planned_per_s"))
        tt_text_printf(out, "; a plan that knows the future reaches %.1f r/s",
                       number(result, "planned_per_s"));
}
