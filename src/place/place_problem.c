#include "place/place_problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t tt_place_move_cost(const struct tt_place_model *model, int32_t to) {
    if (model->now == to)
        return 0;
    return model->now == TT_PLACE_NOWHERE ? model->cost : 2 * model->cost;
}

enum tt_err tt_place_loads_init(struct tt_place_loads *self, int32_t cluster_count) {
    size_t count = (size_t)cluster_count;
    int64_t *all = calloc(3 * count, sizeof(int64_t));
    if (!all)
        return TT_ERR_NO_MEMORY;
    self->rate = all;
    self->memory = all + count;
    self->dynamic = all + 2 * count;
    return TT_OK;
}

void tt_place_loads_fini(struct tt_place_loads *self) {
    free(self->rate);
    *self = (struct tt_place_loads){0};
}

void tt_place_loads_sum(struct tt_place_loads *self, const struct tt_place_problem *problem,
                        const int32_t *at) {
    memset(self->rate, 0, 3 * (size_t)problem->cluster_count * sizeof(int64_t));
    for (int32_t i = 0; i < problem->model_count; i++) {
        const struct tt_place_model *model = &problem->models[i];
        tt_assert(at[i] >= 0 && at[i] < problem->cluster_count);
        self->rate[at[i]] += model->rate;
        self->memory[at[i]] += model->static_bytes;
        if (self->dynamic[at[i]] < model->dynamic_bytes)
            self->dynamic[at[i]] = model->dynamic_bytes;
    }
}

/* The largest deviation from the mean and (largest - smallest), both relative to the mean. */
static void spread(const int64_t *sums, int32_t count, double *out_deviation,
                   double *out_imbalance) {
    int64_t least = sums[0], most = sums[0];
    double total = 0;
    for (int32_t j = 0; j < count; j++) {
        total += (double)sums[j];
        least = sums[j] < least ? sums[j] : least;
        most = sums[j] > most ? sums[j] : most;
    }
    double mean = total / count;
    *out_deviation = *out_imbalance = 0;
    if (mean > 0) {
        *out_deviation = fmax((double)most - mean, mean - (double)least) / mean;
        *out_imbalance = (double)(most - least) / mean;
    }
}

enum tt_err tt_place_evaluate(const struct tt_place_problem *problem, const int32_t *at,
                              struct tt_place_value *out_value) {
    struct tt_place_loads loads;
    enum tt_err err = tt_place_loads_init(&loads, problem->cluster_count);
    if (err)
        return err;
    tt_place_loads_sum(&loads, problem, at);
    struct tt_place_value value = {0};
    spread(loads.rate, problem->cluster_count, &value.rate_deviation, &value.imbalance_rate);
    spread(loads.memory, problem->cluster_count, &value.memory_deviation, &value.imbalance_memory);
    value.objective = value.rate_deviation + problem->weight * value.memory_deviation;
    for (int32_t i = 0; i < problem->model_count; i++) {
        value.cost += tt_place_move_cost(&problem->models[i], at[i]);
        bool is_new = problem->models[i].now == TT_PLACE_NOWHERE;
        value.loads += is_new;
        value.moves += !is_new && problem->models[i].now != at[i];
    }
    tt_place_loads_fini(&loads);
    *out_value = value;
    return TT_OK;
}

static enum tt_err check_loads(const struct tt_place_problem *problem,
                               const struct tt_place_loads *loads, struct tt_error *why) {
    for (int32_t j = 0; j < problem->cluster_count; j++) {
        if (problem->max_rate > 0 && loads->rate[j] > problem->max_rate)
            return tt_fail(TT_ERR_INVALID, why,
                           "sub-cluster %" PRId32 " has %.6g requests per second; %.6g are allowed",
                           j, (double)loads->rate[j] / TT_PLACE_MICRO,
                           (double)problem->max_rate / TT_PLACE_MICRO);
        int64_t memory = loads->memory[j] + loads->dynamic[j];
        int64_t max_memory = tt_place_max_memory(problem, j);
        if (max_memory > 0 && memory > max_memory)
            return tt_fail(TT_ERR_INVALID, why,
                           "a backend of sub-cluster %" PRId32 " needs %.6g MiB; it has %.6g", j,
                           (double)memory / 0x100000, (double)max_memory / 0x100000);
    }
    return TT_OK;
}

enum tt_err tt_place_check(const struct tt_place_problem *problem, const int32_t *at,
                           struct tt_error *why) {
    struct tt_place_loads loads;
    if (tt_place_loads_init(&loads, problem->cluster_count))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_place_loads_sum(&loads, problem, at);
    enum tt_err err = check_loads(problem, &loads, why);
    tt_place_loads_fini(&loads);
    int64_t cost = 0;
    for (int32_t i = 0; i < problem->model_count; i++)
        cost += tt_place_move_cost(&problem->models[i], at[i]);
    if (!err && problem->max_cost >= 0 && cost > problem->max_cost)
        return tt_fail(TT_ERR_INVALID, why, "the moves cost %.6g; %.6g are allowed",
                       (double)cost / TT_PLACE_MICRO, (double)problem->max_cost / TT_PLACE_MICRO);
    return err;
}

/* Of the sub-cluster with the most, and the sum over all; 0: there is one without a limit. */
static int64_t most_memory(const struct tt_place_problem *problem, double *out_sum) {
    int64_t most = 0;
    *out_sum = 0;
    for (int32_t j = 0; j < problem->cluster_count; j++) {
        int64_t memory = tt_place_max_memory(problem, j);
        if (memory == 0)
            return 0;
        most = memory > most ? memory : most;
        *out_sum += (double)memory;
    }
    return most;
}

static enum tt_err possible_alone(const struct tt_place_problem *problem, int64_t most,
                                  const struct tt_place_model *model, struct tt_error *why) {
    if (most > 0 && model->static_bytes + model->dynamic_bytes > most)
        return tt_fail(
            TT_ERR_INVALID, why,
            "model '%s' fits nowhere: it needs %.6g MiB static and %.6g MiB dynamic, and "
            "a backend has %.6g",
            model->name, (double)model->static_bytes / 0x100000,
            (double)model->dynamic_bytes / 0x100000, (double)most / 0x100000);
    if (problem->max_rate > 0 && model->rate > problem->max_rate)
        return tt_fail(
            TT_ERR_INVALID, why,
            "model '%s' fits nowhere: it has %.6g requests per second, and a sub-cluster "
            "may have %.6g",
            model->name, (double)model->rate / TT_PLACE_MICRO,
            (double)problem->max_rate / TT_PLACE_MICRO);
    return TT_OK;
}

enum tt_err tt_place_possible(const struct tt_place_problem *problem, struct tt_error *why) {
    int64_t rate = 0, memory = 0, loads = 0;
    int32_t count = problem->cluster_count;
    double all_memory;
    int64_t most = most_memory(problem, &all_memory);
    for (int32_t i = 0; i < problem->model_count; i++) {
        const struct tt_place_model *model = &problem->models[i];
        enum tt_err err = possible_alone(problem, most, model, why);
        if (err)
            return err;
        rate += model->rate;
        memory += model->static_bytes;
        loads += model->now == TT_PLACE_NOWHERE ? model->cost : 0;
    }
    if (problem->max_rate > 0 && rate / count > problem->max_rate)
        return tt_fail(
            TT_ERR_INVALID, why,
            "the models have %.6g requests per second; %" PRId32 " sub-clusters of %.6g hold less",
            (double)rate / TT_PLACE_MICRO, count, (double)problem->max_rate / TT_PLACE_MICRO);
    if (most > 0 && (double)memory > all_memory)
        return tt_fail(TT_ERR_INVALID, why,
                       "the models have %.6g MiB of static memory; %" PRId32
                       " sub-clusters of %.6g hold less",
                       (double)memory / 0x100000, count, all_memory / count / 0x100000);
    if (problem->max_cost >= 0 && loads > problem->max_cost)
        return tt_fail(TT_ERR_INVALID, why,
                       "loading the models that lie nowhere costs %.6g; max_cost is %.6g",
                       (double)loads / TT_PLACE_MICRO, (double)problem->max_cost / TT_PLACE_MICRO);
    return TT_OK;
}
