#include "lab/facts/fact_piece.h"

#include "lab/experiment/experiment.h"
#include "lab/facts/fact_group.h"
#include "lab/facts/fact_measure.h"
#include "lab/facts/fact_served.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum tt_err open_experiment(const struct tt_facts *facts, const Tutti__FactRun *said,
                                   const Tutti__FactRun *run, const char *path,
                                   struct tt_experiment *experiment, struct tt_error *why) {
    enum tt_err err = tt_experiment_open(experiment, path, why);
    if (err)
        return err;
    if (tt_facts_in_real_time(facts))
        err = tt_experiment_set(experiment, "world", facts->message->world, why);
    for (size_t i = 0; !err && i < run->n_set; i++) {
        char *name = tt_copy_text(run->set[i]), *equals = strchr(name, '=');
        tt_assert(equals != NULL); /* as tt_facts_open checked */
        *equals = '\0';
        err = tt_experiment_set(experiment, name, equals + 1, why);
        if (err == TT_ERR_INVALID) {
            struct tt_error inner = *why;
            (void)tt_facts_wrong(facts, said, "set", why, "%s", inner.text);
        }
        free(name);
    }
    if (err)
        tt_experiment_close(experiment);
    return err;
}

enum tt_err tt_fact_piece_build(const struct tt_facts *facts, const Tutti__FactRun *said,
                                const Tutti__FactRun *run, const char *path,
                                struct tt_fact_piece *piece, struct tt_error *why) {
    if (piece->kind == TT_FACT_PLACEMENT) {
        if (run->n_set > 0)
            return tt_facts_wrong(facts, said, NULL, why,
                                  "a placement problem is used as it is; remove `%s`", run->set[0]);
        piece->placement = tt_copy_text(path);
        piece->seeds = 1;
        return TT_OK;
    }
    struct tt_experiment experiment;
    enum tt_err err = open_experiment(facts, said, run, path, &experiment, why);
    if (err)
        return err;
    if (piece->kind == TT_FACT_SWEEP)
        return tt_fact_sweep_new(&experiment, &piece->sweep, why);
    err = tt_experiment_build(&experiment, &piece->scenario, why);
    struct tt_error inner;
    piece->reply_ns = (int64_t)(run->reply_ms * 1e6 + 0.5);
    const struct tt_fact_served served = {.scenario = &piece->scenario,
                                          .reply_ns = piece->reply_ns};
    if (!err && run->served && tt_fact_served_check(&served, &inner) != TT_OK)
        err = tt_facts_wrong(facts, said, "served", why, "%s", inner.text);
    piece->identity = tt_sweep_identity(&experiment);
    const Tutti__ExperimentGoodput *goodput = experiment.message->goodput;
    piece->goodput = tt_experiment_goodput(&experiment);
    piece->seeds = goodput && goodput->seeds > 0 ? goodput->seeds : 1;
    if (piece->seeds > TT_FACT_SEEDS_MAX)
        piece->seeds = TT_FACT_SEEDS_MAX;
    if (!tt_fact_measure_is_sampled(piece->kind))
        piece->seeds = 1;
    tt_experiment_close(&experiment);
    return err;
}

void tt_fact_piece_shorten(struct tt_fact_piece *piece) {
    bool in_real_time = piece->scenario.world != TT_WORLD_SIMULATED;
    double coarse = in_real_time ? 0.05 : 0.01;
    int64_t part = in_real_time ? 10 : 5;
    piece->seeds = 1;
    if (piece->goodput.precision < coarse)
        piece->goodput.precision = coarse;
    struct tt_scenario *s = &piece->scenario;
    if (s->duration_ns != TT_NEVER && s->duration_ns > s->warm_up_ns)
        s->duration_ns = s->warm_up_ns + (s->duration_ns - s->warm_up_ns) / part;
}

void tt_fact_piece_ran(struct tt_fact_piece *piece) { tt_scenario_fini(&piece->scenario); }

void tt_fact_piece_fini(struct tt_fact_piece *piece) {
    for (int32_t s = 0; s < TT_FACT_SEEDS_MAX; s++)
        json_decref(piece->results[s]);
    tt_scenario_fini(&piece->scenario);
    tt_fact_sweep_free(piece->sweep);
    free(piece->placement);
    free(piece->changes);
    free(piece->key);
}

double tt_fact_piece_value(const struct tt_fact_piece *piece, const Tutti__FactRun *run,
                           int32_t seed, struct tt_text *note) {
    if (seed != TT_FACT_MEDIAN)
        return tt_fact_measure_read(piece->results[seed < piece->seeds ? seed : 0], run->measure);
    if (piece->kind == TT_FACT_SWEEP)
        return tt_fact_sweep_value(piece->sweep, run->sweep, note);
    double values[TT_FACT_SEEDS_MAX] = {0};
    for (int32_t s = 0; s < piece->median_seeds; s++) {
        values[s] = tt_fact_measure_read(piece->results[s], run->measure);
        if (isnan(values[s]))
            return NAN;
    }
    tt_fact_group_sort(values, piece->median_seeds);
    double low = values[0], high = values[piece->median_seeds - 1];
    if (note && piece->median_seeds > 1 && high > low)
        tt_text_printf(note, "%s%d seeds: %.5g .. %.5g", note->length ? "; " : "",
                       piece->median_seeds, low, high);
    const char *left = json_string_value(json_object_get(piece->results[0], "note"));
    if (note && left && left[0])
        tt_text_printf(note, "%s%s", note->length ? "; " : "", left);
    return values[(piece->median_seeds - 1) / 2];
}
