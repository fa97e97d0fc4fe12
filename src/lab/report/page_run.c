#include "lab/report/page_run.h"

#include "lab/report/page.h"
#include "lab/report/report.h"

enum { MAX_CURVES = 128 }; /* models whose distributions a page holds */

void tt_page_run_init(struct tt_page_run *self, const struct tt_scenario *scenario) {
    *self = (struct tt_page_run){.scenario = scenario};
    tt_timeline_init(&self->timeline, scenario);
}

void tt_page_run_fini(struct tt_page_run *self) {
    tt_timeline_fini(&self->timeline);
    *self = (struct tt_page_run){0};
}

struct tt_sim_observer tt_page_run_observer(struct tt_page_run *self) {
    return tt_timeline_observer(&self->timeline);
}

static json_t *curves(const struct tt_measure_model *model) {
    return json_pack("{s:o,s:o}", "latency_ms", tt_page_quantiles(&model->latency_ns),
                     "queueing_ms", tt_page_quantiles(&model->queueing_ns));
}

static json_t *model_json(const struct tt_scenario_model *model,
                          const struct tt_measure_model *measured) {
    json_t *steps = json_array();
    for (int32_t s = 0; model->step_model.step_count > 1 && s < model->step_model.step_count; s++)
        json_array_append_new(steps, json_string(model->steps[s].name ? model->steps[s].name : ""));
    return json_pack("{s:s,s:o,s:o,s:o}", "name", model->name, "slo_ms",
                     tt_page_slo(model->step_model.slo_ns), "steps", steps, "curves",
                     measured ? curves(measured) : json_null());
}

json_t *tt_page_run_json(struct tt_page_run *self, const struct tt_scenario_result *result) {
    const struct tt_scenario *scenario = self->scenario;
    struct tt_measure_model total;
    tt_measure_total(&result->measure, &total);
    json_t *models = json_array(), *options = json_object();
    for (int32_t m = 0; m < scenario->model_count; m++)
        json_array_append_new(
            models,
            model_json(&scenario->models[m], m < MAX_CURVES ? &result->measure.models[m] : NULL));
    for (int32_t i = 0; i < scenario->option_count; i++) {
        struct tt_option option = tt_scenario_option(scenario, i);
        json_object_set_new(options, option.key, json_string(option.value));
    }
    json_t *out =
        json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "report", tt_report_json(scenario, "", result),
                  "options", options, "models", models, "shares", tt_page_shares(), "curves",
                  curves(&total), "timeline", tt_timeline_json(&self->timeline));
    tt_measure_model_fini(&total);
    return out;
}

enum tt_err tt_page_run_write(const char *title, json_t *take_runs, const char *path,
                              struct tt_error *why) {
    return tt_page_write("runs", title, json_pack("{s:o}", "runs", take_runs), path, why);
}
