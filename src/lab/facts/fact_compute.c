#include "lab/facts/fact_compute.h"

#include "lab/facts/fact_autoscale.h"
#include "lab/facts/fact_batches.h"
#include "lab/facts/fact_conditions.h"
#include "lab/facts/fact_devices.h"
#include "lab/facts/fact_golden.h"
#include "lab/facts/fact_place.h"
#include "lab/facts/fact_plan.h"
#include "lab/facts/fact_scheduler.h"
#include "lab/facts/fact_served.h"
#include "lab/report/report.h"
#include "lab/run/scenario_run.h"

static enum tt_err search(const struct tt_fact_job *job, json_t **out_json, struct tt_error *why) {
    struct tt_goodput goodput;
    enum tt_err err = tt_goodput_search(job->scenario, job->goodput, job->stop, &goodput, why);
    if (!err)
        *out_json = tt_report_goodput_json(&goodput);
    if (!err && job->scenario->world != TT_WORLD_SIMULATED)
        json_object_set_new(*out_json, "doubtful", json_boolean(goodput.doubtful));
    return err;
}

static enum tt_err devices(const struct tt_fact_job *job, json_t **out_json, struct tt_error *why) {
    struct tt_fact_devices devices;
    enum tt_err err =
        tt_fact_devices_search(job->scenario, job->goodput->bad_rate, job->stop, &devices, why);
    if (!err)
        *out_json = json_pack("{s:o,s:b}", "devices_needed",
                              devices.needed > 0 ? json_integer(devices.needed) : json_null(),
                              "interrupted", devices.interrupted);
    return err;
}

static enum tt_err golden(const struct tt_fact_job *job, json_t **out_json, struct tt_error *why) {
    struct tt_text note;
    tt_text_init(&note);
    double share;
    enum tt_err err = tt_fact_golden_run(job->scenario, job->trace, &share, &note, why);
    if (!err)
        *out_json = json_pack("{s:f,s:s}", "share", share, "note", tt_text_string(&note));
    tt_text_fini(&note);
    return err;
}

static enum tt_err run(const struct tt_fact_job *job, json_t **out_json, struct tt_error *why) {
    struct tt_scenario_result result;
    struct tt_fact_batches batches = {0};
    struct tt_scenario_outputs outputs = {0};
    if (job->follows_batches)
        outputs.also = tt_fact_batches_observer(&batches);
    enum tt_err err = tt_scenario_run(job->scenario, false, &outputs, job->stop, &result, why);
    if (!err) {
        *out_json = tt_report_json(job->scenario, "", &result);
        tt_measure_fini(&result.measure);
    }
    if (!err && job->follows_batches)
        json_object_set_new(*out_json, "batches", tt_fact_batches_json(&batches));
    tt_fact_batches_fini(&batches);
    return err;
}

static enum tt_err compute(const struct tt_fact_job *job, json_t **out_json, struct tt_error *why) {
    const struct tt_fact_served served = {
        .scenario = job->scenario, .reply_ns = job->reply_ns, .stop = job->stop};
    switch (job->kind) {
    case TT_FACT_SEARCH: return search(job, out_json, why);
    case TT_FACT_RUN: return run(job, out_json, why);
    case TT_FACT_SERVED_SEARCH: return tt_fact_served_search(&served, job->goodput, out_json, why);
    case TT_FACT_SERVED_RUN: return tt_fact_served_run(&served, out_json, why);
    case TT_FACT_DEVICES: return devices(job, out_json, why);
    case TT_FACT_GOLDEN: return golden(job, out_json, why);
    case TT_FACT_BOUND: *out_json = tt_fact_bounds(job->scenario); return TT_OK;
    case TT_FACT_PLAN: *out_json = tt_fact_plan(job->scenario); return TT_OK;
    case TT_FACT_SCHEDULER: return tt_fact_scheduler(job->scenario, job->stop, out_json, why);
    case TT_FACT_FLEET: return tt_fact_autoscale(job->scenario, job->stop, out_json, why);
    case TT_FACT_PLACEMENT: return tt_fact_place(job->placement, job->stop, out_json, why);
    case TT_FACT_SWEEP: break;
    }
    tt_assert(job->kind != TT_FACT_SWEEP);
    return TT_ERR_INTERNAL;
}

enum tt_err tt_fact_compute(const struct tt_fact_job *job, json_t **out_json,
                            struct tt_error *why) {
    bool in_real_time = job->scenario && job->scenario->world != TT_WORLD_SIMULATED;
    struct tt_fact_conditions conditions;
    if (in_real_time)
        tt_fact_conditions_begin(&conditions);
    enum tt_err err = compute(job, out_json, why);
    if (!err && in_real_time)
        json_object_set_new(*out_json, "conditions", tt_fact_conditions_end(&conditions));
    return err;
}
