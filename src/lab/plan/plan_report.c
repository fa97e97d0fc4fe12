#include "lab/plan/plan_report.h"

#include "base/instant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(const struct tt_plan *plan, int32_t index) {
    return plan->candidates[index].policy->name;
}

enum { TEXT_BYTES = 160 };

/* Its name, with the settings that it has besides the server's. */
static const char *text_of(const struct tt_plan *plan, int32_t index, char out[TEXT_BYTES]) {
    return tt_policy_candidate_text(&plan->candidates[index], out, TEXT_BYTES);
}

/* ---- the verdict ---- */

static void put_gain(const struct tt_plan *plan, struct tt_text *out) {
    const char *simplest = name_of(plan, plan->simplest);
    if (plan->winner == plan->simplest)
        tt_text_puts(out, "no policy does better by 2 %");
    else if (plan->gain < 0)
        tt_text_printf(out, "%s, the simplest, holds no rate at all", simplest);
    else
        tt_text_printf(out, "%.0f %% more than %s, the simplest", 100 * plan->gain, simplest);
}

static void put_check(const struct tt_plan *plan, struct tt_text *out) {
    const struct tt_plan_check *check = &plan->check;
    if (!check->ran)
        return;
    double real = check->goodput_per_s;
    if (real <= 0) {
        tt_text_printf(out, " Of %.6g per second the real server answered none in time.",
                       check->offered_per_s);
        return;
    }
    tt_text_printf(out,
                   " Of %.6g per second the real server answered %.6g in time; predicted were %.6g "
                   "(%+.0f %%).",
                   check->offered_per_s, real, check->predicted_per_s,
                   100 * (check->predicted_per_s / real - 1));
    if (plan->load_per_s > 0 && check->bad_rate > TT_PLAN_BAD_RATE)
        tt_text_puts(out, " It did not hold this load: trust the measured figures.");
    if (plan->load_per_s <= 0 && check->highest_per_s <= 0)
        tt_text_puts(out, " It held none of the rates that were tried.");
}

void tt_plan_report_verdict(const struct tt_plan_report *self, struct tt_text *out) {
    const struct tt_plan *plan = self->plan;
    int32_t given = plan->scenario->device_count;
    double simulated = plan->highest_per_s[plan->winner], highest = tt_plan_goodput(plan);
    char text[TEXT_BYTES];
    const char *winner = text_of(plan, plan->winner, text);
    if (highest <= 0)
        tt_text_printf(out,
                       "No policy holds any rate with at most 1 %% bad requests: the objective is "
                       "too short for this machine.");
    else if (plan->load_per_s <= 0)
        tt_text_printf(out,
                       "Policy %s holds %.6g requests per second on %d device%s, and %.6g in the "
                       "simulation: ",
                       winner, highest, given, tt_plural(given), simulated);
    else if (plan->devices_needed == 0)
        tt_text_printf(out,
                       "%d devices do not hold %.6g requests per second and 30 %% more, under any "
                       "policy; %s on %d device%s holds %.6g: ",
                       TT_PLAN_MAX_DEVICES, plan->load_per_s, winner, given, tt_plural(given),
                       highest);
    else
        tt_text_printf(
            out, "Policy %s on %d device%s holds %.6g requests per second and 30 %% more: ", winner,
            plan->devices_needed, tt_plural(plan->devices_needed), plan->load_per_s);
    if (highest > 0) {
        put_gain(plan, out);
        tt_text_puts(out, ".");
    }
    put_check(plan, out);
}

/* ---- the table ---- */

static void put_row(const struct tt_plan *plan, int32_t index, struct tt_text *out) {
    const struct tt_contest_result *result = &plan->results[index];
    char text[TEXT_BYTES];
    const char *settings = text_of(plan, index, text) + strlen(name_of(plan, index));
    if (!result->ran) {
        tt_text_printf(out, "  %-10s  cannot run: %s\n", name_of(plan, index), result->why.text);
        return;
    }
    tt_text_printf(out, "  %-10s %11.6g %11.6g %8.2f %9.3f %9.3f %7.1f %s%s\n",
                   name_of(plan, index), plan->highest_per_s[index], result->goodput_per_s,
                   100 * result->bad_rate, (double)result->mean_ns / 1e6,
                   (double)result->p99_ns / 1e6, result->mean_batch,
                   index == plan->winner ? " <- best" : "", settings);
}

static void put_costs(const struct tt_plan *plan, struct tt_text *out) {
    const struct tt_server_cost *cost = &plan->scenario->server;
    if (cost->cores == 0) {
        tt_text_puts(out, "server costs: not measured; real servers hold less\n");
        return;
    }
    tt_text_printf(
        out,
        "server costs: %.1f us per request and %.1f us per turn of its loop, %.1f us per "
        "batch,\n  load generator %.1f us per request and %.1f us per turn;\n  batches take %.2f "
        "(median) to %.2f (p99) times their profile; "
        "%d processor%s,\n  of which other programs left %.0f %%\n",
        (double)cost->request_ns / 1e3, (double)cost->turn_ns / 1e3, (double)cost->batch_ns / 1e3,
        (double)cost->client_ns / 1e3, (double)cost->client_turn_ns / 1e3,
        cost->spread.permille[50] / 1e3, cost->spread.permille[99] / 1e3, cost->cores,
        tt_plural(cost->cores), 100 * cost->share);
}

static void put_real(const struct tt_plan *plan, struct tt_text *out) {
    const struct tt_plan_check *check = &plan->check;
    if (!check->ran)
        return;
    tt_text_printf(out, "%-26s %12s %12s\n", "", "predicted", "real server");
    char offered[40];
    snprintf(offered, sizeof(offered), "goodput at %.6g 1/s", check->offered_per_s);
    if (plan->load_per_s <= 0)
        tt_text_printf(out, "%-26s %12.6g %12.6g\n", "highest rate, 1/s",
                       plan->highest_per_s[plan->winner], check->highest_per_s);
    tt_text_printf(out, "%-26s %12.6g %12.6g\n", offered, check->predicted_per_s,
                   check->goodput_per_s);
    tt_text_printf(out, "%-26s %12.2f %12.2f\n", "bad there, %", 100 * check->predicted_bad_rate,
                   100 * check->bad_rate);
    tt_text_printf(out, "%-26s %12.3f %12.3f\n", "p99 there, ms", check->predicted_p99_ms,
                   check->p99_ms);
}

void tt_plan_report_table(const struct tt_plan_report *self, struct tt_text *out) {
    const struct tt_plan *plan = self->plan;
    tt_plan_report_verdict(self, out);
    tt_text_puts(out, "\n\n");
    for (int32_t m = 0; m < plan->scenario->model_count; m++)
        tt_text_printf(out, "model %s: objective %g ms%s\n", self->models[m].name,
                       (double)self->models[m].slo_ns / 1e6,
                       self->models[m].slo_is_default
                           ? " (none is written: ten times a request alone, at least 10 ms; "
                             "--slo-ms or slo_ms states another)"
                           : "");
    put_costs(plan, out);
    tt_text_printf(out, "machine: load average %.1f; less is better for the figures\n\n",
                   self->load_average);
    if (plan->load_per_s > 0)
        tt_text_printf(out, "policies at %.6g requests per second (the load and 30 %%):\n",
                       plan->load_per_s * TT_PLAN_HEADROOM);
    else
        tt_text_puts(out, "policies, each at its highest rate:\n");
    tt_text_printf(out, "  %-10s %11s %11s %8s %9s %9s %7s\n", "policy", "highest 1/s",
                   "goodput 1/s", "bad %", "mean ms", "p99 ms", "batch");
    for (int32_t i = 0; i < plan->count; i++)
        put_row(plan, i, out);
    if (plan->scenario->server.client_ns > 0)
        tt_text_printf(out, "with clients on another machine: %.6g per second\n",
                       plan->highest_elsewhere_per_s);
    tt_text_puts(out, "\n");
    put_real(plan, out);
    for (int32_t m = 0; m < plan->scenario->model_count; m++)
        tt_text_printf(out, "\ntutti.pbtxt of model %s:\n\n%s", self->models[m].name,
                       self->models[m].settings);
}

/* ---- JSON ---- */

static json_t *settings_json(const struct tt_plan *plan, int32_t index) {
    const struct tt_policy_candidate *candidate = &plan->candidates[index];
    json_t *out = json_object();
    for (int32_t i = 0; i < candidate->option_count; i++)
        json_object_set_new(out, candidate->options[i].key,
                            json_string(candidate->options[i].value));
    return out;
}

static json_t *candidates_json(const struct tt_plan *plan) {
    json_t *out = json_array();
    for (int32_t i = 0; i < plan->count; i++) {
        const struct tt_contest_result *result = &plan->results[i];
        char text[TEXT_BYTES];
        json_t *row =
            json_pack("{s:s,s:s,s:o,s:b,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "policy", name_of(plan, i),
                      "name", text_of(plan, i, text), "settings", settings_json(plan, i), "ran",
                      result->ran, "highest_per_s", plan->highest_per_s[i], "goodput_per_s",
                      result->goodput_per_s, "bad_rate", result->bad_rate, "mean_ms",
                      (double)result->mean_ns / 1e6, "p99_ms", (double)result->p99_ns / 1e6,
                      "mean_batch", result->mean_batch, "utilisation", result->utilisation);
        if (!result->ran)
            json_object_set_new(row, "reason", json_string(result->why.text));
        json_array_append_new(out, row);
    }
    return out;
}

static json_t *models_json(const struct tt_plan_report *self) {
    json_t *out = json_array();
    for (int32_t m = 0; m < self->plan->scenario->model_count; m++)
        json_array_append_new(out, json_pack("{s:s,s:f,s:b,s:s}", "name", self->models[m].name,
                                             "slo_ms", (double)self->models[m].slo_ns / 1e6,
                                             "slo_is_default", self->models[m].slo_is_default,
                                             "tutti_pbtxt", self->models[m].settings));
    return out;
}

static json_t *check_json(const struct tt_plan_check *check) {
    if (!check->ran)
        return json_null();
    return json_pack("{s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "windows", check->windows,
                     "highest_per_s", check->highest_per_s, "offered_per_s", check->offered_per_s,
                     "goodput_per_s", check->goodput_per_s, "bad_rate", check->bad_rate, "p99_ms",
                     check->p99_ms, "predicted_per_s", check->predicted_per_s, "predicted_bad_rate",
                     check->predicted_bad_rate, "predicted_p99_ms", check->predicted_p99_ms);
}

static json_t *cost_json(const struct tt_server_cost *cost) {
    if (cost->cores == 0)
        return json_null();
    return json_pack("{s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:f,s:f}", "cores", cost->cores,
                     "processor_share", cost->share, "request_us", (double)cost->request_ns / 1e3,
                     "turn_us", (double)cost->turn_ns / 1e3, "rejection_us",
                     (double)cost->rejection_ns / 1e3, "client_us", (double)cost->client_ns / 1e3,
                     "client_turn_us", (double)cost->client_turn_ns / 1e3, "client_rejection_us",
                     (double)cost->client_rejection_ns / 1e3, "batch_us",
                     (double)cost->batch_ns / 1e3, "runs_batches_itself", cost->runs_batches,
                     "batch_over_profile_p50", cost->spread.permille[50] / 1e3,
                     "batch_over_profile_p99", cost->spread.permille[99] / 1e3);
}

json_t *tt_plan_report_json(const struct tt_plan_report *self) {
    const struct tt_plan *plan = self->plan;
    struct tt_text verdict;
    char text[TEXT_BYTES];
    tt_text_init(&verdict);
    tt_plan_report_verdict(self, &verdict);
    json_t *gain = plan->gain < 0 ? json_null() : json_real(plan->gain);
    json_t *out = json_pack(
        "{s:s,s:s,s:o,s:i,s:f,s:f,s:o,s:s,s:s,s:{s:s,s:f},s:i,s:f,s:o,s:o,s:o,s:o,s:f}", "policy",
        name_of(plan, plan->winner), "candidate", text_of(plan, plan->winner, text), "settings",
        settings_json(plan, plan->winner), "devices", plan->devices_needed, "goodput_per_s",
        tt_plan_goodput(plan), "simulated_per_s", plan->highest_per_s[plan->winner],
        "gain_over_simplest", gain, "verdict", tt_text_string(&verdict), "simplest",
        name_of(plan, plan->simplest), "load", "kind", self->load, "rate_per_s", plan->load_per_s,
        "devices_given", plan->scenario->device_count, "goodput_with_clients_elsewhere_per_s",
        plan->highest_elsewhere_per_s, "models", models_json(self), "candidates",
        candidates_json(plan), "server_cost", cost_json(&plan->scenario->server), "check",
        check_json(&plan->check), "load_average", self->load_average);
    tt_text_fini(&verdict);
    return out;
}
