#include "lab/plan/fleet_report.h"

enum { NAMES_SHOWN = 6 };

static int32_t most_of(const struct tt_fleet_report *self, int32_t type) {
    int32_t most = 0;
    for (int32_t h = 0; h < self->file->hour_count; h++) {
        int32_t now = tt_fleet_plan_devices(self->plan, type, h);
        most = now > most ? now : most;
    }
    return most;
}

static int32_t fewest_of(const struct tt_fleet_report *self, int32_t type) {
    int32_t fewest = INT32_MAX;
    for (int32_t h = 0; h < self->file->hour_count; h++) {
        int32_t now = tt_fleet_plan_devices(self->plan, type, h);
        fewest = now < fewest ? now : fewest;
    }
    return fewest;
}

/* ---- text ---- */

static void put_verdict(const struct tt_fleet_report *self, struct tt_text *out) {
    const struct tt_fleet_file *file = self->file;
    const struct tt_fleet_plan *plan = self->plan;
    tt_text_printf(out, "%d model%s for %d hour%s: ", file->model_count,
                   tt_plural(file->model_count), file->hour_count, tt_plural(file->hour_count));
    bool any = false;
    for (int32_t t = 0; t < file->type_count; t++) {
        int32_t most = most_of(self, t), fewest = fewest_of(self, t);
        if (most == 0)
            continue;
        tt_text_printf(out, any ? ", " : "");
        if (fewest == most)
            tt_text_printf(out, "%d x %s", most, file->types[t].name);
        else
            tt_text_printf(out, "%d to %d x %s", fewest, most, file->types[t].name);
        any = true;
    }
    tt_text_printf(out,
                   ".\nCost %.6g by the hour, %.6g with as many all the time; %.4g per million "
                   "timely requests.\n",
                   plan->cost, plan->fixed_cost, plan->cost_per_million);
    for (int32_t g = 0; g < plan->group_count; g++)
        if (plan->groups[g].simulated_bad > 0.01)
            tt_text_printf(out,
                           "Sub-cluster %d has %.2f %% bad requests in its busiest hour even with "
                           "%.0f %% more devices than advised: do not rely on it.\n",
                           g, 100 * plan->groups[g].simulated_bad,
                           100 * (plan->groups[g].factor - 1));
}

static void put_models(const struct tt_fleet_report *self, int32_t group, struct tt_text *out) {
    int32_t shown = 0;
    for (int32_t m = 0; m < self->file->model_count; m++)
        if (self->plan->group_of[m] == group && shown++ < NAMES_SHOWN)
            tt_text_printf(out, "%s%s", shown > 1 ? ", " : "", self->file->models[m].name);
    if (shown > NAMES_SHOWN)
        tt_text_printf(out, " and %d more", shown - NAMES_SHOWN);
}

static void put_groups(const struct tt_fleet_report *self, struct tt_text *out) {
    tt_text_printf(out, "\n%11s  %-16s %8s %10s %7s  models\n", "sub-cluster", "device", "devices",
                   "peak hour", "bad %");
    for (int32_t g = 0; g < self->plan->group_count; g++) {
        const struct tt_fleet_group *group = &self->plan->groups[g];
        tt_text_printf(out, "%11d  %-16s %8d %10d %7.3f  ", g, self->file->types[group->type].name,
                       group->devices[group->peak_hour], group->peak_hour,
                       100 * group->simulated_bad);
        put_models(self, g, out);
        tt_text_puts(out, "\n");
    }
}

static void put_what_ifs(const struct tt_fleet_report *self, struct tt_text *out) {
    tt_text_printf(out, "\n%-28s %12s %12s\n", "what if", "cost", "per million");
    for (int32_t i = 0; i < self->what_if_count; i++) {
        const struct tt_fleet_what_if *what = &self->what_ifs[i];
        if (what->cost > 0)
            tt_text_printf(out, "%-28s %12.6g %12.4g\n", what->change, what->cost,
                           what->cost_per_million);
        else
            tt_text_printf(out, "%-28s %s\n", what->change, what->why.text);
    }
}

void tt_fleet_report_put(const struct tt_fleet_report *self, struct tt_text *out_text) {
    put_verdict(self, out_text);
    put_groups(self, out_text);
    put_what_ifs(self, out_text);
}

/* ---- JSON ---- */

static json_t *types_json(const struct tt_fleet_report *self) {
    json_t *out = json_array();
    for (int32_t t = 0; t < self->file->type_count; t++) {
        json_t *devices = json_array();
        for (int32_t h = 0; h < self->file->hour_count; h++)
            json_array_append_new(devices, json_integer(tt_fleet_plan_devices(self->plan, t, h)));
        json_array_append_new(out, json_pack("{s:s,s:f,s:i,s:o}", "name", self->file->types[t].name,
                                             "price_per_hour", self->file->types[t].price_per_hour,
                                             "most", most_of(self, t), "devices_by_hour", devices));
    }
    return out;
}

static json_t *groups_json(const struct tt_fleet_report *self) {
    json_t *out = json_array();
    for (int32_t g = 0; g < self->plan->group_count; g++) {
        const struct tt_fleet_group *group = &self->plan->groups[g];
        json_t *models = json_array();
        for (int32_t m = 0; m < self->file->model_count; m++)
            if (self->plan->group_of[m] == g)
                json_array_append_new(models, json_string(self->file->models[m].name));
        json_array_append_new(out,
                              json_pack("{s:i,s:s,s:i,s:i,s:f,s:f,s:o}", "sub_cluster", g, "device",
                                        self->file->types[group->type].name, "devices",
                                        group->devices[group->peak_hour], "peak_hour",
                                        group->peak_hour, "bad_rate", group->simulated_bad,
                                        "factor", group->factor, "models", models));
    }
    return out;
}

static json_t *what_ifs_json(const struct tt_fleet_report *self) {
    json_t *out = json_array();
    for (int32_t i = 0; i < self->what_if_count; i++) {
        const struct tt_fleet_what_if *what = &self->what_ifs[i];
        bool found = what->cost > 0;
        json_array_append_new(
            out, json_pack("{s:s,s:o,s:o,s:o}", "change", what->change, "cost",
                           found ? json_real(what->cost) : json_null(), "cost_per_million",
                           found ? json_real(what->cost_per_million) : json_null(), "reason",
                           found ? json_null() : json_string(what->why.text)));
    }
    return out;
}

json_t *tt_fleet_report_json(const struct tt_fleet_report *self) {
    struct tt_text verdict;
    tt_text_init(&verdict);
    put_verdict(self, &verdict);
    json_t *out = json_pack(
        "{s:i,s:i,s:f,s:f,s:f,s:f,s:s,s:o,s:o,s:o}", "models", self->file->model_count, "hours",
        self->file->hour_count, "requests", self->plan->requests, "cost", self->plan->cost,
        "fixed_cost", self->plan->fixed_cost, "cost_per_million", self->plan->cost_per_million,
        "verdict", tt_text_string(&verdict), "devices", types_json(self), "sub_clusters",
        groups_json(self), "what_if", what_ifs_json(self));
    tt_text_fini(&verdict);
    return out;
}
