#include "lab/facts/fact_devices.h"

#include "lab/run/scenario_run.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

struct search {
    struct tt_scenario scenario; /* a shallow copy with devices of its own */
    double bad_rate;
    const volatile sig_atomic_t *stop;
    struct tt_fact_devices found;
};

static bool all_good(const struct tt_measure *measure, double bad_rate) {
    int64_t arrived = 0;
    for (int32_t m = 0; m < measure->model_count; m++) {
        arrived += measure->models[m].arrived;
        if (tt_measure_bad_rate(&measure->models[m]) > bad_rate)
            return false;
    }
    return arrived > 0;
}

static enum tt_err try_count(struct search *s, int32_t count, bool *out_enough,
                             struct tt_error *why) {
    s->scenario.device_count = count;
    struct tt_scenario_result result;
    const struct tt_scenario_outputs outputs = {.bad_share = s->bad_rate, .counts_only = true};
    enum tt_err err = tt_scenario_run(&s->scenario, false, &outputs, s->stop, &result, why);
    if (err)
        return err;
    s->found.runs++;
    s->found.interrupted = result.interrupted;
    *out_enough = !result.interrupted && !result.cut && all_good(&result.measure, s->bad_rate);
    tt_measure_fini(&result.measure);
    return TT_OK;
}

/* Doubles or halves until both bounds are known, then bisects. */
static enum tt_err search(struct search *s, int32_t count, struct tt_error *why) {
    int32_t few = 0, enough = TT_FACT_DEVICES_MAX + 1; /* `few` devices do not suffice */
    enum tt_err err = TT_OK;
    while (!err && enough - few > 1 && !s->found.interrupted) {
        bool good;
        err = try_count(s, count, &good, why);
        if (err || s->found.interrupted)
            break;
        if (good)
            enough = count;
        else
            few = count;
        if (enough > TT_FACT_DEVICES_MAX)
            count = 2 * few < TT_FACT_DEVICES_MAX ? 2 * few : TT_FACT_DEVICES_MAX;
        else
            count = few == 0 ? (enough + 1) / 2 : few + (enough - few) / 2;
    }
    s->found.needed = enough <= TT_FACT_DEVICES_MAX && !s->found.interrupted ? enough : 0;
    return err;
}

enum tt_err tt_fact_devices_search(const struct tt_scenario *scenario, double bad_rate,
                                   const volatile sig_atomic_t *stop,
                                   struct tt_fact_devices *out_devices, struct tt_error *why) {
    tt_assert(scenario->device_count >= 1);
    struct search s = {.scenario = *scenario, .bad_rate = bad_rate, .stop = stop};
    s.scenario.devices = tt_allocate(TT_FACT_DEVICES_MAX, sizeof(*s.scenario.devices));
    for (int32_t d = 0; d < TT_FACT_DEVICES_MAX; d++)
        s.scenario.devices[d] = scenario->devices[0];
    int32_t from = scenario->device_count;
    enum tt_err err = search(&s, from < TT_FACT_DEVICES_MAX ? from : TT_FACT_DEVICES_MAX, why);
    free(s.scenario.devices);
    if (!err)
        *out_devices = s.found;
    return err;
}
