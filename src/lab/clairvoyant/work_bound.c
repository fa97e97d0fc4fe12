#include "lab/clairvoyant/work_bound.h"

#include "base/array.h"
#include "base/fnv.h"
#include "base/instant.h"
#include "core/profile.h"
#include "lab/clairvoyant/clairvoyant_case.h"
#include "lab/load/arrival_source.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

/* ---- from a scenario ---- */

/* What it does not describe; NULL: nothing. */
static const char *unknown_model(const struct tt_scenario *s) {
    const struct tt_scenario_model *model = &s->models[0];
    const struct tt_step_model *steps = &model->step_model;
    if (s->model_count != 1)
        return "several models";
    if (model->tree != TT_TREE_NONE || model->lengths)
        return "a model of cells, or with inputs of many lengths";
    for (int32_t i = 0; i < steps->step_count; i++)
        if (steps->steps[i].kind != TT_STEP_STATIC)
            return "a model of recurrent steps";
    return tt_step_may_exit(steps, 0, steps->step_count - 1) ? "a model with exits" : NULL;
}

static enum tt_err unknown(const char *what, struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why,
                   "the bound by work does not cover %s; it needs simulated devices and one model "
                   "of static steps",
                   what);
}

enum tt_err tt_work_bound_covers(const struct tt_scenario *scenario, struct tt_error *why) {
    const char *what = tt_clairvoyant_unknown_run(scenario);
    if (!what)
        what = unknown_model(scenario);
    return what ? unknown(what, why) : TT_OK;
}

static bool reserve(struct tt_work_bound *self, int64_t *capacity) {
    int64_t wanted = (int64_t)self->count + 1, of_deadlines = *capacity;
    return self->count < INT32_MAX - 1 &&
           TT_ARRAY_RESERVE(self->deadline_at, &of_deadlines, wanted) &&
           TT_ARRAY_RESERVE(self->arrived_at, capacity, wanted);
}

/* Arrivals ascend. A deadline that is before an earlier request's is moved to that one, which
 * only leaves more time. */
static enum tt_err read_arrivals(struct tt_work_bound *self, const struct tt_scenario *s,
                                 struct tt_error *why) {
    struct tt_arrival_source source;
    enum tt_err err = tt_arrival_source_open(&source, s, why);
    if (err)
        return err;
    struct tt_sim_arrival next;
    int64_t capacity = 0, latest_at = 0;
    while (!err && tt_arrival_source_next(&source, &next)) {
        const char *what = tt_clairvoyant_unknown_request(s, &next);
        if (what)
            err = unknown(what, why);
        else if (next.at - next.elapsed_ns < s->warm_up_ns)
            continue;
        else if (!reserve(self, &capacity))
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the requests of the bound");
        if (err)
            break;
        latest_at = tt_instant_max(latest_at, next.deadline_at);
        self->arrived_at[self->count] = next.at;
        self->deadline_at[self->count++] = latest_at;
    }
    tt_arrival_source_close(&source);
    return err;
}

static void fill_steps(struct tt_work_bound *self, const struct tt_scenario_model *model) {
    const struct tt_step_model *steps = &model->step_model;
    self->step_count = steps->step_count;
    self->max_batch = steps->max_batch / model->rows;
    size_t width = (size_t)self->max_batch + 1;
    self->work_ns = tt_allocate(width * (size_t)self->step_count, sizeof(*self->work_ns));
    self->latency_ns = tt_allocate(width * (size_t)self->step_count, sizeof(*self->latency_ns));
    for (int32_t s = 0; s < self->step_count; s++) {
        const struct tt_profile *profile = steps->steps[s].profile;
        int64_t *work_ns = self->work_ns + width * (size_t)s, least_work_ns = TT_NEVER;
        int64_t *latency_ns = self->latency_ns + width * (size_t)s, least_ns = TT_NEVER;
        for (int32_t b = self->max_batch; b >= 1; b--) {
            int64_t own_ns = tt_profile_latency(profile, b * model->rows, model->length);
            int64_t demand_ppm = tt_profile_demand(profile, b * model->rows, model->length);
            least_ns = tt_instant_min(least_ns, own_ns);
            least_work_ns = tt_instant_min(
                least_work_ns, (int64_t)((__int128)own_ns * demand_ppm / TT_DEMAND_WHOLE));
            latency_ns[b] = least_ns;
            work_ns[b] = least_work_ns;
        }
        self->alone_ns += least_ns;
    }
}

enum tt_err tt_work_bound_init(struct tt_work_bound *self, const struct tt_scenario *scenario,
                               struct tt_error *why) {
    enum tt_err err = tt_work_bound_covers(scenario, why);
    if (err)
        return err;
    *self = (struct tt_work_bound){.device_count = scenario->device_count};
    fill_steps(self, &scenario->models[0]);
    err = read_arrivals(self, scenario, why);
    if (err)
        tt_work_bound_fini(self);
    return err;
}

void tt_work_bound_fini(struct tt_work_bound *self) {
    free(self->arrived_at);
    free(self->deadline_at);
    free(self->work_ns);
    free(self->latency_ns);
    *self = (struct tt_work_bound){0};
}

uint64_t tt_work_bound_identity(const struct tt_work_bound *self) {
    const int32_t counts[] = {self->device_count, self->step_count, self->max_batch};
    size_t works = (size_t)self->step_count * ((size_t)self->max_batch + 1);
    size_t bytes = (size_t)self->count * sizeof(int64_t);
    uint64_t hash = tt_fnv_add(TT_FNV_START, counts, sizeof(counts));
    hash = tt_fnv_add(hash, self->work_ns, works * sizeof(*self->work_ns));
    hash = tt_fnv_add(hash, self->latency_ns, works * sizeof(*self->latency_ns));
    hash = tt_fnv_add(hash, &self->alone_ns, sizeof(self->alone_ns));
    if (self->count == 0)
        return hash;
    hash = tt_fnv_add(hash, self->arrived_at, bytes);
    return tt_fnv_add(hash, self->deadline_at, bytes);
}

/* ---- the bounds ---- */

static int32_t reach_of(const struct tt_work_bound *self) {
    return self->count < TT_WORK_BOUND_REACH ? self->count : TT_WORK_BOUND_REACH;
}

/* Adds to all_ns[n] the least work of n requests at one step. */
static void add_step(const struct tt_work_bound *self, const int64_t *work_ns, int64_t *step_ns,
                     int64_t *all_ns) {
    int32_t reach = reach_of(self);
    step_ns[0] = 0;
    for (int32_t n = 1; n <= reach; n++) {
        int64_t least_ns = TT_NEVER;
        for (int32_t b = 1; b <= self->max_batch && b <= n; b++)
            least_ns = tt_instant_min(least_ns, step_ns[n - b] + work_ns[b]);
        step_ns[n] = least_ns;
        all_ns[n] += least_ns;
    }
}

/* The least time that all devices together need for n requests: [reach + 1]; the caller frees. */
static int64_t *find_times(const struct tt_work_bound *self) {
    size_t count = (size_t)reach_of(self) + 1, width = (size_t)self->max_batch + 1;
    int64_t *all_ns = tt_allocate(count, sizeof(*all_ns));
    int64_t *step_ns = tt_allocate(count, sizeof(*step_ns));
    for (int32_t s = 0; s < self->step_count; s++)
        add_step(self, self->work_ns + width * (size_t)s, step_ns, all_ns);
    for (size_t n = 0; n < count; n++)
        all_ns[n] /= self->device_count;
    free(step_ns);
    return all_ns;
}

static int64_t least_by_work(const struct tt_work_bound *self) {
    int32_t reach = reach_of(self);
    int64_t *time_ns = find_times(self), sum_ns = 0;
    for (int32_t k = 0; k < self->count; k++) {
        int64_t least_at = self->arrived_at[k] + self->alone_ns;
        for (int32_t n = 1; n <= reach && n <= k + 1; n++)
            least_at = tt_instant_max(least_at, self->arrived_at[k - n + 1] + time_ns[n]);
        sum_ns += least_at - self->arrived_at[k];
    }
    free(time_ns);
    return sum_ns;
}

/* ---- latency by a price ---- */

enum {
    PRICE_UNIT = 1000,        /* a price of this costs 1 ns of latency per ns of a device */
    MAX_PRICE_DOUBLINGS = 32, /* from a price of 1 */
    PRICE_NARROWINGS = 16,    /* by a third of the range */
};

/* Rounded down: a lower price is a valid one. */
static int64_t price_of(int64_t work_ns, int64_t price) {
    return (int64_t)((__int128)work_ns * price / PRICE_UNIT);
}

/* What a request costs at least at all steps but the first, by batches of the cheapest size. */
static int64_t later_steps(const struct tt_work_bound *self, int64_t price) {
    int64_t sum_ns = 0;
    for (int32_t s = 1; s < self->step_count; s++) {
        const int64_t *latency_ns = self->latency_ns + (size_t)s * ((size_t)self->max_batch + 1);
        const int64_t *work_ns = self->work_ns + (size_t)s * ((size_t)self->max_batch + 1);
        int64_t least_ns = TT_NEVER;
        for (int32_t b = 1; b <= self->max_batch; b++)
            least_ns = tt_instant_min(least_ns, latency_ns[b] + price_of(work_ns[b], price) / b);
        sum_ns += least_ns;
    }
    return sum_ns;
}

/* The bound by one price; `least_ns` and `first_ns` are memory: [count + 1], [max_batch + 1]. */
static int64_t least_by(const struct tt_work_bound *self, int64_t price, int64_t *least_ns,
                        int64_t *first_ns) {
    int64_t later_ns = later_steps(self, price), ends_at = self->arrived_at[self->count - 1];
    for (int32_t b = 1; b <= self->max_batch; b++)
        first_ns[b] = b * (self->latency_ns[b] + later_ns) + price_of(self->work_ns[b], price);
    least_ns[0] = 0;
    for (int32_t k = 0; k < self->count; k++) {
        int64_t arrived_at = self->arrived_at[k], waits_ns = 0;
        int64_t best_ns = least_ns[k] + tt_instant_max(self->alone_ns, ends_at - arrived_at);
        for (int32_t b = 1; b <= self->max_batch && b <= k + 1; b++) {
            waits_ns += arrived_at - self->arrived_at[k - b + 1];
            best_ns = tt_instant_min(best_ns, least_ns[k - b + 1] + waits_ns + first_ns[b]);
        }
        least_ns[k + 1] = best_ns;
    }
    int64_t span_ns = (ends_at - self->arrived_at[0]) * self->device_count;
    return least_ns[self->count] - price_of(span_ns, price) - 1;
}

/* The bound is concave in the price: the best one is between neighbours of the best power of 2. */
static int64_t least_by_prices(const struct tt_work_bound *self) {
    int64_t *least_ns = tt_allocate((size_t)self->count + 1, sizeof(*least_ns));
    int64_t *first_ns = tt_allocate((size_t)self->max_batch + 1, sizeof(*first_ns));
    int64_t best_ns = least_by(self, 0, least_ns, first_ns), low = 0, high = 1;
    for (int32_t i = 0; i < MAX_PRICE_DOUBLINGS; i++, high *= 2) {
        int64_t found_ns = least_by(self, high, least_ns, first_ns);
        if (found_ns < best_ns)
            break;
        best_ns = found_ns;
        low = high / 2;
    }
    for (int32_t i = 0; i < PRICE_NARROWINGS && high - low > 2; i++) {
        int64_t third = (high - low) / 3;
        int64_t lower_ns = least_by(self, low + third, least_ns, first_ns);
        int64_t higher_ns = least_by(self, high - third, least_ns, first_ns);
        best_ns = tt_instant_max(best_ns, tt_instant_max(lower_ns, higher_ns));
        if (lower_ns < higher_ns)
            low += third;
        else
            high -= third;
    }
    free(least_ns);
    free(first_ns);
    return best_ns;
}

int64_t tt_work_bound_least_latency_ns(const struct tt_work_bound *self) {
    if (self->count == 0)
        return 0;
    return tt_instant_max(least_by_work(self), least_by_prices(self));
}

/* ---- in time ---- */

/* The largest n <= most with time_ns[n] <= span_ns, where times never decrease. */
static int32_t fitting(const int64_t *time_ns, int32_t most, int64_t span_ns) {
    int32_t fits = 0;
    while (fits < most) {
        int32_t middle = fits + (most - fits + 1) / 2;
        if (time_ns[middle] <= span_ns)
            fits = middle;
        else
            most = middle - 1;
    }
    return fits;
}

int32_t tt_work_bound_most_in_time(const struct tt_work_bound *self) {
    int32_t reach = reach_of(self);
    int64_t *time_ns = find_times(self);
    int32_t *first = tt_allocate((size_t)self->count + 1, sizeof(*first)); /* P(k) */
    for (int32_t k = 0; k < self->count; k++) {
        int64_t deadline_at = self->deadline_at[k];
        first[k + 1] = first[k] + (self->arrived_at[k] + self->alone_ns <= deadline_at);
        for (int32_t n = 1; n <= reach && n <= k + 1; n++) {
            int64_t span_ns = deadline_at - self->arrived_at[k - n + 1];
            int32_t allowed = first[k + 1] - first[k - n + 1];
            if (allowed > 0 && time_ns[allowed] > span_ns)
                first[k + 1] = first[k - n + 1] + fitting(time_ns, allowed, span_ns);
        }
    }
    int32_t most = first[self->count];
    free(first);
    free(time_ns);
    return most;
}
