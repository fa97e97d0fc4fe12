#include "lab/plan/fleet_plan.h"

#include "lab/scenario/allocate.h"
#include "place/place_search.h"
#include "scale/devices_wanted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PASSES = 8,
    SEARCH_HOURS = 6, /* that the search looks at; the plan has all */
    TOO_MANY = 1 << 20,
};
#define HOUR_S 3600.0

struct search {
    const struct tt_fleet_file *file;
    struct tt_fleet_change change;
    struct tt_devices_model curves[TT_FLEET_MAX_MODELS][TT_FLEET_MAX_TYPES];
    bool can[TT_FLEET_MAX_MODELS][TT_FLEET_MAX_TYPES];
    struct tt_devices_model *load; /* scratch, [model_count] */
};

static double or_one(double factor) { return factor > 0 ? factor : 1; }

static double rate_at(const struct search *s, int32_t model, int32_t hour) {
    return or_one(s->change.rates) * tt_fleet_rate(&s->file->models[model], hour);
}

static void prepare(struct search *s) {
    for (int32_t m = 0; m < s->file->model_count; m++)
        for (int32_t t = 0; t < s->file->type_count; t++) {
            const struct tt_fleet_load *model = &s->file->models[m];
            const struct tt_fleet_type *type = &s->file->types[t];
            const struct tt_profile *profile = model->on[t];
            if (!profile || (s->change.without >> t & 1))
                continue;
            struct tt_devices_model *curve = &s->curves[m][t];
            *curve = (struct tt_devices_model){
                .curve = tt_batch_curve_of(profile, 0, profile->max_batch),
                .slo_s = or_one(s->change.objectives) * (double)model->slo_ns / 1e9,
                .dispersion = model->dispersion};
            bool fits = type->memory_bytes == 0 ||
                        model->static_bytes + model->dynamic_bytes <= type->memory_bytes;
            s->can[m][t] = fits && curve->curve.tail_s[0] <= curve->slo_s;
        }
}

/* ---- sub-clusters of a type ---- */

/* Largest first, each where it fits first. Returns the number of groups. */
static int32_t first_fit(const struct search *s, const int32_t *type_of, int32_t type,
                         int32_t *group_of) {
    const struct tt_fleet_load *models = s->file->models;
    int64_t memory = s->file->types[type].memory_bytes;
    int64_t sums[TT_FLEET_MAX_MODELS] = {0}, dynamics[TT_FLEET_MAX_MODELS] = {0};
    bool done[TT_FLEET_MAX_MODELS] = {false};
    int32_t groups = 0;
    for (;;) {
        int32_t next = -1;
        for (int32_t m = 0; m < s->file->model_count; m++)
            if (type_of[m] == type && !done[m] &&
                (next < 0 || models[m].static_bytes > models[next].static_bytes))
                next = m;
        if (next < 0)
            return groups;
        done[next] = true;
        int32_t g = 0;
        for (; g < groups && memory > 0; g++) {
            int64_t dynamic =
                models[next].dynamic_bytes > dynamics[g] ? models[next].dynamic_bytes : dynamics[g];
            if (sums[g] + models[next].static_bytes + dynamic <= memory)
                break;
        }
        if (g == groups) {
            groups++;
            sums[g] = dynamics[g] = 0;
        }
        sums[g] += models[next].static_bytes;
        if (models[next].dynamic_bytes > dynamics[g])
            dynamics[g] = models[next].dynamic_bytes;
        group_of[next] = g;
    }
}

/* S8: as many sub-clusters as the first fit found, balanced by rate and memory. What the first fit
 * found stays where the search finds nothing. */
static void balance(const struct search *s, const int32_t *type_of, int32_t type, int32_t groups,
                    int32_t *group_of) {
    int32_t members[TT_FLEET_MAX_MODELS], at[TT_FLEET_MAX_MODELS], count = 0;
    struct tt_place_model models[TT_FLEET_MAX_MODELS];
    for (int32_t m = 0; m < s->file->model_count; m++) {
        if (type_of[m] != type)
            continue;
        double sum = 0;
        for (int32_t h = 0; h < s->file->hour_count; h++)
            sum += rate_at(s, m, h) / s->file->hour_count;
        const struct tt_fleet_load *from = &s->file->models[m];
        models[count] = (struct tt_place_model){.name = from->name,
                                                .rate = (int64_t)(sum * TT_PLACE_MICRO),
                                                .static_bytes = from->static_bytes,
                                                .dynamic_bytes = from->dynamic_bytes,
                                                .now = TT_PLACE_NOWHERE};
        members[count++] = m;
    }
    struct tt_place_problem problem = {.models = models,
                                       .model_count = count,
                                       .cluster_count = groups,
                                       .max_memory = s->file->types[type].memory_bytes,
                                       .max_cost = -1,
                                       .weight = 1,
                                       .seed = s->file->seed};
    struct tt_place_effort effort = {.moves = TT_PLACE_MOVES_PER_SECOND / 20};
    if (groups > 1 && !tt_place_search(&problem, &effort, at, NULL))
        for (int32_t i = 0; i < count; i++)
            group_of[members[i]] = at[i];
}

/* ---- costs ---- */

static int32_t devices_of(struct search *s, const int32_t *type_of, int32_t type,
                          const int32_t *group_of, int32_t group, int32_t hour, double factor) {
    struct tt_devices_load load = {.models = s->load};
    for (int32_t m = 0; m < s->file->model_count; m++)
        if (type_of[m] == type && group_of[m] == group) {
            s->load[load.model_count] = s->curves[m][type];
            s->load[load.model_count++].rows_per_s = rate_at(s, m, hour);
        }
    struct tt_devices_feedback feedback = {.factor = factor};
    return tt_devices_wanted(&load, &feedback).count;
}

/* What a type costs in the hours that the search looks at; INFINITY: it has too few devices. */
static double type_cost(struct search *s, const int32_t *type_of, int32_t type) {
    int32_t group_of[TT_FLEET_MAX_MODELS];
    int32_t groups = first_fit(s, type_of, type, group_of), hours = s->file->hour_count;
    int32_t looks = hours < SEARCH_HOURS ? hours : SEARCH_HOURS;
    const struct tt_fleet_type *of = &s->file->types[type];
    double cost = 0;
    for (int32_t i = 0; i < looks; i++) {
        int32_t all = 0;
        for (int32_t g = 0; g < groups; g++)
            all += devices_of(s, type_of, type, group_of, g, i * hours / looks, 1);
        if (of->most > 0 && all > of->most)
            return INFINITY;
        cost += of->price_per_hour * all;
    }
    return cost;
}

static double all_costs(struct search *s, const int32_t *type_of, double *out_costs) {
    double sum = 0;
    for (int32_t t = 0; t < s->file->type_count; t++)
        sum += out_costs[t] = type_cost(s, type_of, t);
    return sum;
}

/* Moves single models while that makes the fleet cheaper. Returns the cost. */
static double improve(struct search *s, int32_t *type_of) {
    double costs[TT_FLEET_MAX_TYPES], sum = all_costs(s, type_of, costs);
    bool moved = true;
    for (int32_t pass = 0; moved && pass < MAX_PASSES; pass++) {
        moved = false;
        for (int32_t m = 0; m < s->file->model_count; m++)
            for (int32_t t = 0; t < s->file->type_count; t++) {
                int32_t from = type_of[m];
                if (t == from || !s->can[m][t])
                    continue;
                type_of[m] = t;
                double other[TT_FLEET_MAX_TYPES];
                memcpy(other, costs, sizeof(other));
                other[from] = type_cost(s, type_of, from);
                other[t] = type_cost(s, type_of, t);
                double now = 0;
                for (int32_t i = 0; i < s->file->type_count; i++)
                    now += other[i];
                if (now < sum || (isinf(sum) && other[t] < INFINITY && isinf(costs[from]))) {
                    memcpy(costs, other, sizeof(other));
                    sum = now;
                    moved = true;
                } else {
                    type_of[m] = from;
                }
            }
    }
    return sum;
}

/* Every model on `favourite` if it can be there, else on the first that can have it. */
static bool start_on(const struct search *s, int32_t favourite, int32_t *out_type_of) {
    for (int32_t m = 0; m < s->file->model_count; m++) {
        int32_t t = favourite;
        for (int32_t k = 0; k < s->file->type_count && !s->can[m][t]; k++)
            t = k;
        if (!s->can[m][t])
            return false;
        out_type_of[m] = t;
    }
    return true;
}

static enum tt_err no_plan(const struct search *s, struct tt_error *why) {
    for (int32_t m = 0; m < s->file->model_count; m++) {
        bool any = false;
        for (int32_t t = 0; t < s->file->type_count; t++)
            any |= s->can[m][t];
        if (!any)
            return tt_fail(TT_ERR_INVALID, why,
                           "no device can run model '%s' within its objective and memory",
                           s->file->models[m].name);
    }
    return tt_fail(
        TT_ERR_INVALID, why,
        "the devices do not suffice in the busiest hour; raise `most` of a type, or leave "
        "it out");
}

/* ---- the plan ---- */

static void fill(struct search *s, struct tt_fleet_plan *plan) {
    for (int32_t t = 0; t < s->file->type_count; t++) {
        int32_t groups = first_fit(s, plan->type_of, t, plan->group_of);
        balance(s, plan->type_of, t, groups, plan->group_of);
        int32_t first = plan->group_count;
        for (int32_t g = 0; g < groups; g++) {
            struct tt_fleet_group *group = &plan->groups[plan->group_count++];
            *group = (struct tt_fleet_group){.type = t, .factor = 1, .simulated_bad = -1};
            for (int32_t h = 0; h < s->file->hour_count; h++) {
                group->devices[h] = devices_of(s, plan->type_of, t, plan->group_of, g, h, 1);
                if (group->devices[h] > group->devices[group->peak_hour])
                    group->peak_hour = h;
            }
        }
        for (int32_t m = 0; m < s->file->model_count; m++)
            if (plan->type_of[m] == t) {
                plan->group_of[m] += first;
                plan->groups[plan->group_of[m]].model_count++;
            }
    }
}

int32_t tt_fleet_plan_devices(const struct tt_fleet_plan *plan, int32_t type, int32_t hour) {
    int32_t sum = 0;
    for (int32_t g = 0; g < plan->group_count; g++)
        if (plan->groups[g].type == type)
            sum += plan->groups[g].devices[hour];
    return sum;
}

void tt_fleet_plan_sum(const struct tt_fleet_file *file, const struct tt_fleet_change *change,
                       struct tt_fleet_plan *plan) {
    plan->cost = plan->fixed_cost = plan->requests = 0;
    double bad = 0;
    for (int32_t t = 0; t < file->type_count; t++) {
        double price = file->types[t].price_per_hour;
        int32_t highest = 0;
        for (int32_t h = 0; h < file->hour_count; h++) {
            int32_t before = h > 0 ? h - 1 : file->hour_count - 1; /* the hours repeat */
            int32_t now = tt_fleet_plan_devices(plan, t, h);
            int32_t rise = now - tt_fleet_plan_devices(plan, t, before);
            plan->cost += price * (now + fmax(rise, 0) * file->start_up_s / HOUR_S);
            highest = now > highest ? now : highest;
        }
        plan->fixed_cost += price * highest * file->hour_count;
    }
    for (int32_t m = 0; m < file->model_count; m++)
        for (int32_t h = 0; h < file->hour_count; h++) {
            double requests = or_one(change->rates) * tt_fleet_rate(&file->models[m], h) * HOUR_S;
            double share = plan->groups[plan->group_of[m]].simulated_bad;
            plan->requests += requests;
            bad += requests * (share >= 0 ? share : TT_DEVICES_BAD_SHARE);
        }
    double timely = plan->requests - bad;
    plan->cost_per_million = timely > 0 ? plan->cost / timely * 1e6 : 0;
}

/* The plan lacks devices of a type in some hour. */
static bool lacks(const struct tt_fleet_file *file, const struct tt_fleet_plan *plan) {
    for (int32_t t = 0; t < file->type_count; t++)
        for (int32_t h = 0; h < file->hour_count; h++)
            if (file->types[t].most > 0 && tt_fleet_plan_devices(plan, t, h) > file->types[t].most)
                return true;
    return false;
}

enum tt_err tt_fleet_plan_make(const struct tt_fleet_file *file,
                               const struct tt_fleet_change *change, struct tt_fleet_plan *out_plan,
                               struct tt_error *why) {
    struct search *s = tt_allocate(1, sizeof(*s));
    s->file = file;
    s->change = *change;
    s->load = tt_allocate((size_t)file->model_count, sizeof(*s->load));
    prepare(s);
    struct tt_fleet_plan *plan = tt_allocate(1, sizeof(*plan));
    int32_t type_of[TT_FLEET_MAX_MODELS];
    double best = INFINITY;
    for (int32_t t = 0; t < file->type_count; t++) {
        if (!start_on(s, t, type_of))
            break;
        double cost = improve(s, type_of);
        if (cost < best) {
            best = cost;
            memcpy(plan->type_of, type_of, sizeof(type_of));
        }
    }
    enum tt_err err = isinf(best) ? no_plan(s, why) : TT_OK;
    if (!err) {
        fill(s, plan);
        tt_fleet_plan_sum(file, change, plan);
        if (lacks(file, plan))
            err = no_plan(s, why);
        else
            *out_plan = *plan;
    }
    free(plan);
    free(s->load);
    free(s);
    return err;
}
