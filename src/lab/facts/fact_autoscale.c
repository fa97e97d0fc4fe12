#include "lab/facts/fact_autoscale.h"

#include "base/instant.h"
#include "base/text.h"
#include "lab/autoscale/autoscale.h"

#include <stdlib.h>

enum { STEP_S = 60, SEARCH_STEPS = 150 };

/* 0: the fewest were not searched. */
static json_t *over_json(double over) { return over > 0 ? json_real(over) : json_null(); }

static json_t *result_json(const struct tt_autoscale_result *result) {
    struct tt_text note;
    tt_text_init(&note);
    tt_text_printf(
        &note, "%.1f devices, %.3g %% bad in all, %.3g %% while devices start; %.1f servers",
        result->mean_up, 100 * result->bad, 100 * result->bad_settling, result->mean_servers);
    json_t *out = json_pack("{s:f,s:o,s:o,s:f,s:o,s:b,s:s}", "bad_settled", result->bad_settled,
                            "over_fewest", over_json(result->over_fewest), "used_over_fewest",
                            over_json(result->used_over_fewest), "servers_bad", result->server_bad,
                            "servers_over_fewest", over_json(result->servers_over_fewest),
                            "interrupted", result->interrupted, "note", tt_text_string(&note));
    tt_text_fini(&note);
    return out;
}

enum tt_err tt_fact_autoscale(const struct tt_scenario *scenario, const volatile sig_atomic_t *stop,
                              json_t **out_json, struct tt_error *why) {
    struct tt_fleet_world_model *models;
    enum tt_err err = tt_autoscale_models(scenario, &models, why);
    if (err)
        return err;
    int64_t steps = scenario->duration_ns / (STEP_S * TT_S);
    /* As tutti autoscale has them by default. */
    struct tt_autoscale_options options = {.models = models,
                                           .model_count = scenario->model_count,
                                           .capacity = scenario->device_count,
                                           .peak = 0.9,
                                           .step_count = steps > 1 ? (int32_t)steps : 1,
                                           .step_s = STEP_S,
                                           .start_up_s = 120,
                                           .hold_s = 300,
                                           .jumps_per_day = 1,
                                           .sample_ns = 100 * TT_MS,
                                           .search_every = SEARCH_STEPS,
                                           .with_servers = true,
                                           .policy = scenario->policy,
                                           .seed = scenario->seed,
                                           .stop = stop};
    struct tt_autoscale_result result;
    err = tt_autoscale_run(&options, &result, why);
    if (!err) {
        *out_json = result_json(&result);
        tt_autoscale_result_fini(&result);
    }
    free(models);
    return err;
}
