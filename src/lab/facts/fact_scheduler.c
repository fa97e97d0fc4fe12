#include "lab/facts/fact_scheduler.h"

#include "lab/bench/scheduler_bench.h"

enum { RATE_UNIT = 1000000 }; /* rates of scenarios are in 1e-6 requests per second */

static enum tt_err run(const struct tt_scenario *s, const struct tt_option *options,
                       const volatile sig_atomic_t *stop, struct tt_scheduler_bench_result *result,
                       struct tt_error *why) {
    const struct tt_step_model *model = &s->models[0].step_model;
    struct tt_scheduler_bench bench = {.models = s->model_count,
                                       .devices = s->device_count,
                                       .max_batch = model->max_batch,
                                       .alpha_ns = model->whole->alpha_ns,
                                       .beta_ns = model->whole->beta_ns,
                                       .slo_ns = model->slo_ns,
                                       .rate_per_s = s->rate / RATE_UNIT,
                                       .warm_up_ns = s->warm_up_ns,
                                       .duration_ns = s->duration_ns - s->warm_up_ns,
                                       .rest_ns = model->slo_ns / 250,
                                       .virtual_time = true,
                                       .seed = s->seed,
                                       .policy = s->policy,
                                       .options = options,
                                       .option_count = s->option_count};
    return tt_scheduler_bench_run(&bench, stop, result, why);
}

enum tt_err tt_fact_scheduler(const struct tt_scenario *scenario, const volatile sig_atomic_t *stop,
                              json_t **out_result, struct tt_error *why) {
    struct tt_option options[TT_MAX_OPTIONS];
    tt_assert(scenario->option_count <= TT_MAX_OPTIONS);
    for (int32_t i = 0; i < scenario->option_count; i++)
        options[i] = tt_scenario_option(scenario, i);
    struct tt_scheduler_bench_result result;
    enum tt_err err = run(scenario, options, stop, &result, why);
    if (err)
        return err;
    int64_t cpu_ns = result.model_cpu_ns + result.rank_cpu_ns;
    bool holds = result.lost == 0 && tt_scheduler_bench_bad_rate(&result) <= 0.01 && cpu_ns > 0;
    *out_result =
        json_pack("{s:o,s:b}", "requests_per_s",
                  holds ? json_real((double)result.offered * 1e9 / (double)cpu_ns) : json_null(),
                  "interrupted", result.interrupted);
    tt_scheduler_bench_result_fini(&result);
    return TT_OK;
}
