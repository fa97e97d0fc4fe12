#include "lab/facts/fact_plan.h"

#include "base/text.h"
#include "policy/elastic/elastic_plan.h"

#include <math.h>

static void put_workers(const struct tt_elastic_choice *best, struct tt_text *note) {
    tt_text_puts(note, "{");
    for (int32_t k = 0, printed = 0; k < TT_ELASTIC_SIZES; k++)
        for (int32_t i = 0; i < best->counts[k]; i++, printed++)
            tt_text_printf(note, "%s%d", printed ? ", " : "", 1 << k);
    tt_text_printf(note, "}");
}

/* The mean over its workers. */
static double mean_ms(const struct tt_elastic_choice *choice) {
    return (double)choice->latency_sum / 1e6 / (double)choice->worker_count;
}

/* The same search on a device that runs one batch at a time: a running batch occupies all of it,
 * whatever the demand in its profile. */
static void plan_in_turns(const struct tt_profile *profile, const int32_t *available, int32_t batch,
                          json_t *out, struct tt_text *note) {
    struct tt_profile *whole;
    struct tt_error why;
    if (tt_profile_new_table(profile, &whole, &why))
        return;
    for (int32_t i = 0; i < whole->length_count * (whole->max_batch + 1); i++)
        whole->demand_ppm[i] = TT_DEMAND_WHOLE;
    struct tt_elastic_choice best = tt_elastic_plan(whole, available, batch);
    int32_t ones[TT_ELASTIC_SIZES] = {batch};
    double ones_ms = (double)tt_elastic_corun(whole, ones) / 1e6 / (double)batch;
    tt_profile_free(whole);
    json_object_set_new(out, "turns", json_integer(best.worker_count));
    json_object_set_new(out, "turns_ms", json_real(mean_ms(&best)));
    json_object_set_new(out, "ones_over_best", json_real(ones_ms / mean_ms(&best)));
    tt_text_puts(note, "; in turns ");
    put_workers(&best, note);
}

json_t *tt_fact_plan(const struct tt_scenario *scenario) {
    const struct tt_scenario_model *model = &scenario->models[0];
    const struct tt_profile *whole = model->step_model.whole;
    int32_t batch = model->step_model.max_batch;
    struct tt_text note;
    tt_text_init(&note);
    json_t *out = json_object();
    if (out && batch <= TT_ELASTIC_MAX_TOTAL) {
        int32_t available[TT_ELASTIC_SIZES];
        for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
            available[k] = batch;
        struct tt_elastic_choice best = tt_elastic_plan(whole, available, batch);
        json_object_set_new(out, "workers", json_integer(best.worker_count));
        json_object_set_new(out, "workers_ms", json_real(mean_ms(&best)));
        tt_text_printf(&note, "%d choices; best ", best.tried);
        put_workers(&best, &note);
        plan_in_turns(whole, available, batch, out, &note);
    }
    json_object_set_new(out, "note", json_string(tt_text_string(&note)));
    tt_text_fini(&note);
    return out;
}

/* N b / l(b) for the largest b with (over / under) l(b) <= SLO. */
static double bound(const struct tt_scenario *scenario, int64_t over, int64_t under) {
    const struct tt_step_model *model = &scenario->models[0].step_model;
    if (model->slo_ns == TT_NEVER)
        return NAN;
    int64_t budget_ns = (int64_t)((__int128)model->slo_ns * under / over);
    int32_t b = tt_profile_largest_batch(model->whole, budget_ns, 0, model->max_batch);
    return b == 0 ? 0
                  : (double)scenario->device_count * b * 1e9 /
                        (double)tt_profile_latency(model->whole, b, 0);
}

json_t *tt_fact_bounds(const struct tt_scenario *scenario) {
    int64_t n = scenario->device_count;
    return json_pack("{s:f,s:f}", "staggered", bound(scenario, n + 1, n), "uncoordinated",
                     bound(scenario, 2, 1));
}
