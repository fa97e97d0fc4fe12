#include "lab/clairvoyant/clairvoyant_case.h"

#include "base/array.h"
#include "base/fnv.h"
#include "base/instant.h"
#include "lab/load/arrival_source.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

struct window {
    int64_t arrived_at, deadline_at;
};

/* The requests of one model while they are read. */
struct windows {
    struct window *items;
    int64_t count, capacity;
};

/* What the case does not describe; NULL: nothing. */
static const char *unknown_device(const struct tt_scenario *s) {
    if (s->inside.policy)
        return "a device with a policy of its own inside";
    for (int32_t d = 0; d < s->device_count; d++)
        if (s->devices[d].executors != 1)
            return "a device that runs several batches at once";
    return NULL;
}

static const char *unknown_model(const struct tt_scenario_model *model) {
    const struct tt_step_model *steps = &model->step_model;
    if (steps->slo_ns == TT_NEVER)
        return "a model without slo_ms";
    if (steps->step_count != 1 || steps->steps[0].kind != TT_STEP_STATIC ||
        model->tree != TT_TREE_NONE)
        return "a model of several steps or of cells";
    if (tt_step_may_exit(steps, 0, steps->step_count - 1))
        return "a model with exits";
    if (model->lengths)
        return "a model with inputs of many lengths";
    return NULL;
}

const char *tt_clairvoyant_unknown_run(const struct tt_scenario *s) {
    if (s->world != TT_WORLD_SIMULATED)
        return "a run in real time";
    if (s->jitter_permille > 0 || s->noise.spread_permille > 0 || s->noise.outlier_permille > 0 ||
        s->server.cores > 0)
        return "a run whose batches take random times";
    return s->perturbation_count > 0 ? "a device whose speed changes" : NULL;
}

const char *tt_clairvoyant_unknown_request(const struct tt_scenario *s,
                                           const struct tt_sim_arrival *next) {
    const struct tt_scenario_model *model = &s->models[next->model];
    if (next->rows != model->rows || next->length != model->length)
        return "a request with rows or a length of its own";
    return next->cancel_at != TT_NEVER ? "a request that is cancelled" : NULL;
}

static enum tt_err unknown(const char *what, struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why,
                   "the clairvoyant bound does not cover %s; it needs simulated devices that run "
                   "one whole batch at a time, and requests with deadlines",
                   what);
}

static int compare_windows(const void *a, const void *b) {
    const struct window *x = a, *y = b;
    if (x->deadline_at != y->deadline_at)
        return x->deadline_at < y->deadline_at ? -1 : 1;
    return x->arrived_at < y->arrived_at ? -1 : x->arrived_at > y->arrived_at;
}

void tt_clairvoyant_model_order(struct tt_clairvoyant_model *model) {
    size_t count = (size_t)model->count;
    struct window *windows = tt_allocate(count + 1, sizeof(*windows));
    for (size_t i = 0; i < count; i++)
        windows[i] = (struct window){model->arrived_at[i], model->deadline_at[i]};
    qsort(windows, count, sizeof(*windows), compare_windows);
    int64_t least = TT_NEVER;
    for (size_t i = count; i-- > 0;) {
        model->relaxed = model->relaxed || windows[i].arrived_at > least;
        least = tt_instant_min(least, windows[i].arrived_at);
        model->arrived_at[i] = least;
        model->deadline_at[i] = windows[i].deadline_at;
    }
    free(windows);
}

static void fill_model(const struct tt_scenario_model *from, const struct windows *windows,
                       struct tt_clairvoyant_model *out) {
    size_t count = (size_t)windows->count;
    *out = (struct tt_clairvoyant_model){.count = (int32_t)count,
                                         .max_batch = from->step_model.max_batch / from->rows};
    out->arrived_at = tt_allocate(count + 1, sizeof(*out->arrived_at));
    out->deadline_at = tt_allocate(count + 1, sizeof(*out->deadline_at));
    out->latency_ns = tt_allocate((size_t)out->max_batch + 1, sizeof(*out->latency_ns));
    for (size_t i = 0; i < count; i++) {
        out->arrived_at[i] = windows->items[i].arrived_at;
        out->deadline_at[i] = windows->items[i].deadline_at;
    }
    for (int32_t b = 1; b <= out->max_batch; b++)
        out->latency_ns[b] =
            tt_profile_latency(from->step_model.whole, b * from->rows, from->length);
    tt_clairvoyant_model_order(out);
}

static enum tt_err read_arrivals(const struct tt_scenario *s, struct windows *windows,
                                 struct tt_error *why) {
    struct tt_arrival_source source;
    enum tt_err err = tt_arrival_source_open(&source, s, why);
    if (err)
        return err;
    struct tt_sim_arrival next;
    int32_t count = 0;
    while (!err && tt_arrival_source_next(&source, &next)) {
        struct windows *to = &windows[next.model];
        const char *what = tt_clairvoyant_unknown_request(s, &next);
        if (!what && next.deadline_at == TT_NEVER)
            what = "a request without deadline";
        if (what)
            err = unknown(what, why);
        else if (next.at - next.elapsed_ns < s->warm_up_ns)
            continue;
        else if (++count > TT_CLAIRVOYANT_MAX_REQUESTS)
            err = tt_fail(TT_ERR_INVALID, why,
                          "the clairvoyant bound takes at most %d requests; state fewer "
                          "`requests` or a shorter `duration_s`",
                          TT_CLAIRVOYANT_MAX_REQUESTS);
        else if (!TT_ARRAY_RESERVE(to->items, &to->capacity, to->count + 1))
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the requests of the bound");
        if (!err)
            to->items[to->count++] =
                (struct window){.arrived_at = next.at, .deadline_at = next.deadline_at};
    }
    tt_arrival_source_close(&source);
    return err;
}

enum tt_err tt_clairvoyant_case_covers(const struct tt_scenario *scenario, struct tt_error *why) {
    const char *what = tt_clairvoyant_unknown_run(scenario);
    if (!what)
        what = unknown_device(scenario);
    for (int32_t m = 0; !what && m < scenario->model_count; m++)
        what = unknown_model(&scenario->models[m]);
    return what ? unknown(what, why) : TT_OK;
}

enum tt_err tt_clairvoyant_case_init(struct tt_clairvoyant_case *self,
                                     const struct tt_scenario *scenario, struct tt_error *why) {
    enum tt_err err = tt_clairvoyant_case_covers(scenario, why);
    if (err)
        return err;
    size_t model_count = (size_t)scenario->model_count;
    struct windows *windows = tt_allocate(model_count, sizeof(*windows));
    err = read_arrivals(scenario, windows, why);
    if (!err) {
        *self = (struct tt_clairvoyant_case){.model_count = scenario->model_count,
                                             .device_count = scenario->device_count};
        self->models = tt_allocate(model_count, sizeof(*self->models));
        for (int32_t m = 0; m < scenario->model_count; m++)
            fill_model(&scenario->models[m], &windows[m], &self->models[m]);
    }
    for (size_t m = 0; m < model_count; m++)
        free(windows[m].items);
    free(windows);
    return err;
}

void tt_clairvoyant_case_fini(struct tt_clairvoyant_case *self) {
    for (int32_t m = 0; m < self->model_count; m++) {
        free(self->models[m].arrived_at);
        free(self->models[m].deadline_at);
        free(self->models[m].latency_ns);
    }
    free(self->models);
    *self = (struct tt_clairvoyant_case){0};
}

void tt_clairvoyant_case_check(const struct tt_clairvoyant_case *self) {
    tt_assert(self->device_count >= 1);
    for (int32_t m = 0; m < self->model_count; m++) {
        const struct tt_clairvoyant_model *model = &self->models[m];
        tt_assert(model->max_batch >= 1);
        tt_assert(model->latency_ns[1] > 0);
        for (int32_t b = 2; b <= model->max_batch; b++)
            tt_assert(model->latency_ns[b] >= model->latency_ns[b - 1]);
        for (int32_t i = 1; i < model->count; i++) {
            tt_assert(model->arrived_at[i] >= model->arrived_at[i - 1]);
            tt_assert(model->deadline_at[i] >= model->deadline_at[i - 1]);
        }
    }
}

uint64_t tt_clairvoyant_case_identity(const struct tt_clairvoyant_case *self) {
    const int32_t counts[] = {self->model_count, self->device_count};
    uint64_t hash = tt_fnv_add(TT_FNV_START, counts, sizeof(counts));
    for (int32_t m = 0; m < self->model_count; m++) {
        const struct tt_clairvoyant_model *model = &self->models[m];
        const int32_t sizes[] = {model->count, model->max_batch, model->relaxed};
        size_t bytes = (size_t)model->count * sizeof(int64_t);
        hash = tt_fnv_add(hash, sizes, sizeof(sizes));
        hash = tt_fnv_add(hash, model->arrived_at, bytes);
        hash = tt_fnv_add(hash, model->deadline_at, bytes);
        hash = tt_fnv_add(hash, model->latency_ns,
                          ((size_t)model->max_batch + 1) * sizeof(*model->latency_ns));
    }
    return hash;
}

int32_t tt_clairvoyant_model_largest(const struct tt_clairvoyant_model *model) {
    int32_t largest = 0;
    for (int32_t i = 0; i < model->count; i++)
        while (tt_clairvoyant_model_fits(model, i, largest + 1))
            largest++;
    return largest;
}

int64_t tt_clairvoyant_case_requests(const struct tt_clairvoyant_case *self) {
    int64_t sum = 0;
    for (int32_t m = 0; m < self->model_count; m++)
        sum += self->models[m].count;
    return sum;
}
