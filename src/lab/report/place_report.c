#include "lab/report/place_report.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TABLE_ROWS = 64, MOVES_SHOWN = 20 };
#define MIB 1048576.0

/* ---- text ---- */

static void put_verdict(const struct tt_place_report *self, struct tt_text *out) {
    const struct tt_place_problem *problem = self->problem;
    const struct tt_place_value *value = &self->value;
    tt_text_printf(out,
                   "%" PRId32 " model%s on %" PRId32
                   " sub-cluster%s: rates deviate from their mean "
                   "by at most %.4g %%, memory by %.4g %%.",
                   problem->model_count, tt_plural(problem->model_count), problem->cluster_count,
                   tt_plural(problem->cluster_count), 100 * value->rate_deviation,
                   100 * value->memory_deviation);
    if (self->before)
        tt_text_printf(out, " Before: %.4g %% and %.4g %%.",
                       100 * self->value_before.rate_deviation,
                       100 * self->value_before.memory_deviation);
    if (self->has_previous)
        tt_text_printf(out, " %" PRId32 " model%s move%s, %" PRId32 " are new; that costs %.6g.",
                       value->moves, tt_plural(value->moves), value->moves == 1 ? "s" : "",
                       value->loads, (double)value->cost / TT_PLACE_MICRO);
    if (self->has_previous && problem->max_cost >= 0)
        tt_text_printf(out, " The limit is %.6g.", (double)problem->max_cost / TT_PLACE_MICRO);
    tt_text_printf(out, "\nObjective %.6g; ", value->objective);
    if (self->lower_bound > 0 || value->objective <= 0)
        tt_text_printf(out, "no placement has less than %.6g.\n", self->lower_bound);
    else
        tt_text_puts(out, "no lower bound but 0 is known.\n");
    if (self->is_cut_short)
        tt_text_puts(out, "The search was interrupted: a longer one may find better.\n");
    if (self->gone)
        tt_text_printf(out, "The previous placement names %" PRId32 " model%s that %s gone.\n",
                       self->gone, tt_plural(self->gone), self->gone == 1 ? "is" : "are");
    if (self->unassigned)
        tt_text_printf(
            out, "%" PRId32 " model%s lay in sub-clusters that are gone; they count as new.\n",
            self->unassigned, tt_plural(self->unassigned));
}

/* The sums of each sub-cluster, and how many models it has. */
static bool sum_up(const struct tt_place_report *self, const int32_t *at,
                   struct tt_place_loads *out_loads, int32_t **out_models) {
    int32_t *models = calloc((size_t)self->problem->cluster_count, sizeof(*models));
    if (!models || tt_place_loads_init(out_loads, self->problem->cluster_count)) {
        free(models);
        return false;
    }
    tt_place_loads_sum(out_loads, self->problem, at);
    for (int32_t i = 0; i < self->problem->model_count; i++)
        models[at[i]]++;
    *out_models = models;
    return true;
}

static void put_table(const struct tt_place_report *self, struct tt_text *out) {
    struct tt_place_loads loads;
    int32_t *models;
    if (!sum_up(self, self->at, &loads, &models)) {
        out->failed = true;
        return;
    }
    tt_text_printf(out, "\n%11s %8s %14s %12s %13s\n", "sub-cluster", "models", "requests, 1/s",
                   "static, MiB", "dynamic, MiB");
    int32_t count = self->problem->cluster_count;
    for (int32_t j = 0; j < count && j < TABLE_ROWS; j++)
        tt_text_printf(out, "%11" PRId32 " %8" PRId32 " %14.2f %12.1f %13.1f\n", j, models[j],
                       (double)loads.rate[j] / TT_PLACE_MICRO, (double)loads.memory[j] / MIB,
                       (double)loads.dynamic[j] / MIB);
    if (count > TABLE_ROWS)
        tt_text_printf(out, "... and %" PRId32 " more; --json has all\n", count - TABLE_ROWS);
    free(models);
    tt_place_loads_fini(&loads);
}

static void put_moves(const struct tt_place_report *self, struct tt_text *out) {
    int32_t shown = 0;
    for (int32_t i = 0; i < self->problem->model_count; i++) {
        const struct tt_place_model *model = &self->problem->models[i];
        if (model->now == TT_PLACE_NOWHERE || model->now == self->at[i])
            continue;
        if (shown == 0)
            tt_text_printf(out, "\n%-40s %6s %6s\n", "moves", "from", "to");
        if (shown++ < MOVES_SHOWN)
            tt_text_printf(out, "%-40s %6" PRId32 " %6" PRId32 "\n", model->name, model->now,
                           self->at[i]);
    }
    if (shown > MOVES_SHOWN)
        tt_text_printf(out, "... and %" PRId32 " more; --json has all\n", shown - MOVES_SHOWN);
}

void tt_place_report_put(const struct tt_place_report *self, struct tt_text *out_text) {
    put_verdict(self, out_text);
    put_table(self, out_text);
    if (self->has_previous)
        put_moves(self, out_text);
}

/* ---- JSON ---- */

static json_t *value_json(const struct tt_place_value *value) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f}", "objective", value->objective, "rate_deviation",
                     value->rate_deviation, "memory_deviation", value->memory_deviation,
                     "imbalance_rate", value->imbalance_rate, "imbalance_memory",
                     value->imbalance_memory);
}

static json_t *clusters_json(const struct tt_place_report *self, const int32_t *at) {
    struct tt_place_loads loads;
    int32_t *models;
    if (!sum_up(self, at, &loads, &models))
        return NULL;
    json_t *out = json_array();
    for (int32_t j = 0; j < self->problem->cluster_count; j++)
        json_array_append_new(out, json_pack("{s:i,s:i,s:f,s:f,s:f}", "sub_cluster", j, "models",
                                             models[j], "rate_per_s",
                                             (double)loads.rate[j] / TT_PLACE_MICRO, "static_mib",
                                             (double)loads.memory[j] / MIB, "dynamic_mib",
                                             (double)loads.dynamic[j] / MIB));
    free(models);
    tt_place_loads_fini(&loads);
    return out;
}

static json_t *placement_json(const struct tt_place_report *self) {
    json_t *out = json_array();
    for (int32_t i = 0; i < self->problem->model_count; i++) {
        const struct tt_place_model *model = &self->problem->models[i];
        json_t *now = model->now == TT_PLACE_NOWHERE ? json_null() : json_integer(model->now);
        json_array_append_new(out, json_pack("{s:s,s:i,s:o}", "model", model->name, "sub_cluster",
                                             self->at[i], "previous", now));
    }
    return out;
}

json_t *tt_place_report_json(const struct tt_place_report *self) {
    struct tt_text verdict;
    tt_text_init(&verdict);
    put_verdict(self, &verdict);
    const struct tt_place_problem *problem = self->problem;
    double cost = self->has_previous ? (double)self->value.cost / TT_PLACE_MICRO : 0;
    json_t *limit = self->has_previous && problem->max_cost >= 0
                        ? json_real((double)problem->max_cost / TT_PLACE_MICRO)
                        : json_null();
    json_t *out = value_json(&self->value);
    json_t *rest = json_pack(
        "{s:f,s:i,s:i,s:f,s:o,s:f,s:b,s:s,s:i,s:f,s:f,s:o,s:o,s:o,s:o}", "lower_bound",
        self->lower_bound, "moves", self->has_previous ? self->value.moves : 0, "loads",
        self->value.loads, "cost", cost, "max_cost", limit, "seconds", self->seconds, "interrupted",
        self->is_cut_short, "verdict", tt_text_string(&verdict), "models", problem->model_count,
        "max_rate_per_s", (double)problem->max_rate / TT_PLACE_MICRO, "max_memory_mib",
        (double)problem->max_memory / MIB, "before",
        self->before ? value_json(&self->value_before) : json_null(), "sub_clusters",
        clusters_json(self, self->at), "sub_clusters_before",
        self->before ? clusters_json(self, self->before) : json_null(), "placement",
        placement_json(self));
    tt_text_fini(&verdict);
    if (!out || !rest || json_object_update(out, rest)) {
        json_decref(out);
        out = NULL;
    }
    json_decref(rest);
    return out;
}
