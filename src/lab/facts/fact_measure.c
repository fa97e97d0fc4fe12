#include "lab/facts/fact_measure.h"

#include <math.h>

/* What finds a measure, and its path in the result: nested keys. */
static const struct measure {
    enum tt_fact_kind kind;
    const char *keys[3];
} measures[] = {
    [TUTTI__FACT_MEASURE__GOODPUT] = {TT_FACT_SEARCH, {"goodput_per_s"}},
    [TUTTI__FACT_MEASURE__GOODPUT_MEDIAN_BATCH] = {TT_FACT_SEARCH, {"median_batch"}},
    [TUTTI__FACT_MEASURE__GOOD_PER_S] = {TT_FACT_RUN, {"total", "good_per_s"}},
    [TUTTI__FACT_MEASURE__BAD_RATE] = {TT_FACT_RUN, {"total", "bad_rate"}},
    [TUTTI__FACT_MEASURE__MEDIAN_BATCH] = {TT_FACT_RUN, {"total", "batch", "median"}},
    [TUTTI__FACT_MEASURE__UTILISATION] = {TT_FACT_RUN, {"utilisation"}},
    [TUTTI__FACT_MEASURE__TRACE] = {TT_FACT_GOLDEN, {"share"}},
    [TUTTI__FACT_MEASURE__STAGGERED_BOUND] = {TT_FACT_BOUND, {"staggered"}},
    [TUTTI__FACT_MEASURE__UNCOORDINATED_BOUND] = {TT_FACT_BOUND, {"uncoordinated"}},
    [TUTTI__FACT_MEASURE__QUEUEING_MEAN_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "mean"}},
    [TUTTI__FACT_MEASURE__QUEUEING_P99_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "p99"}},
    [TUTTI__FACT_MEASURE__QUEUEING_MAX_MS] = {TT_FACT_RUN, {"total", "queueing_ms", "max"}},
    [TUTTI__FACT_MEASURE__DEVICES_USED] = {TT_FACT_RUN, {"devices_used"}},
    [TUTTI__FACT_MEASURE__ADD_DEVICES] = {TT_FACT_RUN, {"advice", "add_devices"}},
    [TUTTI__FACT_MEASURE__RELEASE_DEVICES] = {TT_FACT_RUN, {"advice", "release_devices"}},
    [TUTTI__FACT_MEASURE__DEVICES_NEEDED] = {TT_FACT_DEVICES, {"devices_needed"}},
    [TUTTI__FACT_MEASURE__LATENCY_MEAN_MS] = {TT_FACT_RUN, {"total", "latency_ms", "mean"}},
    [TUTTI__FACT_MEASURE__LATENCY_P99_MS] = {TT_FACT_RUN, {"total", "latency_ms", "p99"}},
    [TUTTI__FACT_MEASURE__LATENCY_P90_MS] = {TT_FACT_RUN, {"total", "latency_ms", "p90"}},
    [TUTTI__FACT_MEASURE__GOOD_SHARE] = {TT_FACT_RUN, {"total", "bad_rate"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_MS] = {TT_FACT_PLAN, {"workers_ms"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS] = {TT_FACT_PLAN, {"workers"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_IN_TURNS_MS] = {TT_FACT_PLAN, {"turns_ms"}},
    [TUTTI__FACT_MEASURE__BEST_WORKERS_IN_TURNS] = {TT_FACT_PLAN, {"turns"}},
    [TUTTI__FACT_MEASURE__ONES_OVER_BEST_IN_TURNS] = {TT_FACT_PLAN, {"ones_over_best"}},
    [TUTTI__FACT_MEASURE__SCHEDULER_PER_S] = {TT_FACT_SCHEDULER, {"requests_per_s"}},
    [TUTTI__FACT_MEASURE__FLEET_BAD_RATE] = {TT_FACT_FLEET, {"bad_settled"}},
    [TUTTI__FACT_MEASURE__FLEET_OVER_FEWEST] = {TT_FACT_FLEET, {"over_fewest"}},
    [TUTTI__FACT_MEASURE__FLEET_USED_OVER_FEWEST] = {TT_FACT_FLEET, {"used_over_fewest"}},
    [TUTTI__FACT_MEASURE__SERVERS_BAD_RATE] = {TT_FACT_FLEET, {"servers_bad"}},
    [TUTTI__FACT_MEASURE__SERVERS_OVER_FEWEST] = {TT_FACT_FLEET, {"servers_over_fewest"}},
    [TUTTI__FACT_MEASURE__PLACE_IMBALANCE_RATE] = {TT_FACT_PLACEMENT, {"imbalance_rate"}},
    [TUTTI__FACT_MEASURE__PLACE_IMBALANCE_MEMORY] = {TT_FACT_PLACEMENT, {"imbalance_memory"}},
    [TUTTI__FACT_MEASURE__RANDOM_IMBALANCE_RATE] = {TT_FACT_PLACEMENT, {"random_rate"}},
    [TUTTI__FACT_MEASURE__RANDOM_IMBALANCE_MEMORY] = {TT_FACT_PLACEMENT, {"random_memory"}},
    [TUTTI__FACT_MEASURE__BATCHES_JOINED] = {TT_FACT_RUN, {"batches", "joined"}},
    [TUTTI__FACT_MEASURE__BATCHES_DIVIDED] = {TT_FACT_RUN, {"batches", "divided"}},
    [TUTTI__FACT_MEASURE__SWEEP_GAIN] = {.kind = TT_FACT_SWEEP},
};

enum tt_fact_kind tt_fact_measure_kind(const Tutti__FactRun *run) {
    const struct measure *measure = &measures[run->measure];
    tt_assert(measure->kind == TT_FACT_SWEEP || measure->keys[0]); /* it has its row */
    if (!run->served)
        return measure->kind;
    return measure->kind == TT_FACT_SEARCH ? TT_FACT_SERVED_SEARCH : TT_FACT_SERVED_RUN;
}

bool tt_fact_measure_is_sampled(enum tt_fact_kind kind) { return kind <= TT_FACT_DEVICES; }

bool tt_fact_measure_is_timed(enum tt_fact_kind kind) { return kind <= TT_FACT_SERVED_RUN; }

bool tt_fact_measure_is_of_client(Tutti__FactMeasure measure) {
    static const Tutti__FactMeasure seen[] = {
        TUTTI__FACT_MEASURE__GOODPUT,         TUTTI__FACT_MEASURE__GOOD_PER_S,
        TUTTI__FACT_MEASURE__BAD_RATE,        TUTTI__FACT_MEASURE__GOOD_SHARE,
        TUTTI__FACT_MEASURE__LATENCY_MEAN_MS, TUTTI__FACT_MEASURE__LATENCY_P90_MS,
        TUTTI__FACT_MEASURE__LATENCY_P99_MS,
    };
    for (size_t i = 0; i < TT_COUNT(seen); i++)
        if (seen[i] == measure)
            return true;
    return false;
}

bool tt_fact_measure_follows_batches(Tutti__FactMeasure measure) {
    return measure == TUTTI__FACT_MEASURE__BATCHES_JOINED ||
           measure == TUTTI__FACT_MEASURE__BATCHES_DIVIDED;
}

double tt_fact_measure_read(const json_t *result, Tutti__FactMeasure measure) {
    const json_t *value = result;
    const char *const *keys = measures[measure].keys;
    for (size_t i = 0; i < TT_COUNT(measures[0].keys) && keys[i]; i++)
        value = json_object_get(value, keys[i]);
    if (!json_is_number(value) || json_is_true(json_object_get(result, "interrupted")))
        return NAN;
    double number = json_number_value(value);
    return measure == TUTTI__FACT_MEASURE__GOOD_SHARE ? 1 - number : number;
}
