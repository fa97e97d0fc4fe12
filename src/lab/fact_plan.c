#include "lab/fact_plan.h"

#include "base/text.h"
#include "lab/overlap.h"
#include "policy/elastic_plan.h"

static void say_workers(const struct tt_elastic_choice *best, struct tt_text *note) {
    tt_text_printf(note, "%d choices; best {", best->tried);
    for (int32_t k = 0, printed = 0; k < TT_ELASTIC_SIZES; k++)
        for (int32_t i = 0; i < best->counts[k]; i++, printed++)
            tt_text_printf(note, "%s%d", printed ? ", " : "", 1 << k);
    tt_text_printf(note, "}");
}

json_t *tt_fact_plan(const struct tt_scenario *scenario) {
    const struct tt_scenario_model *model = &scenario->models[0];
    const struct tt_profile *whole = model->step_model.whole;
    int32_t batch = model->step_model.max_batch;
    struct tt_copy_engine copies = scenario->devices[0].copy_in;
    double transfer_ms = (double)tt_copy_engine_add(&copies, 0, model->input_bytes * batch) / 1e6;
    double computation_ms = (double)tt_profile_latency(whole, batch, model->length) / 1e6;
    struct tt_overlap_gain gain = tt_overlap_gain(transfer_ms, computation_ms);
    struct tt_text note;
    tt_text_init(&note);
    tt_text_printf(&note, "t_T %.3g ms, t_c %.3g ms; ", transfer_ms, computation_ms);
    json_t *out =
        json_pack("{s:f,s:f}", "time_share", gain.time_share, "gain", gain.throughput_gain);
    if (out && batch <= TT_ELASTIC_MAX_TOTAL) {
        int32_t available[TT_ELASTIC_SIZES];
        for (int32_t k = 0; k < TT_ELASTIC_SIZES; k++)
            available[k] = batch;
        struct tt_elastic_choice best = tt_elastic_plan(whole, available, batch);
        json_object_set_new(out, "workers", json_integer(best.worker_count));
        json_object_set_new(out, "workers_ms",
                            json_real((double)best.latency_sum / 1e6 / (double)best.worker_count));
        say_workers(&best, &note);
    }
    json_object_set_new(out, "note", json_string(tt_text_string(&note)));
    tt_text_fini(&note);
    return out;
}
