#include "policy/deferred/deferred_rank.h"

#include "base/instant.h"
#include "core/profile.h"
#include "policy/sharing_gain.h"

#include <stdlib.h>

enum { PPM = 1000000, PAUSE_NS = 100000000, GAP_WEIGHT = 100, SHARE = 1000000000 };
enum { LISTED_EXECUTORS = 64 };

enum tt_err tt_deferred_rank_init(struct tt_deferred_rank *self, int32_t models, int32_t executors,
                                  bool ahead) {
    *self = (struct tt_deferred_rank){.model_count = models,
                                      .executor_count = executors,
                                      .last_dispatch_at = TT_NEVER,
                                      .ahead = ahead};
    self->candidates = calloc((size_t)models, sizeof(*self->candidates));
    self->loads = calloc((size_t)models, sizeof(*self->loads));
    self->executors = calloc((size_t)executors, sizeof(*self->executors));
    if (self->candidates && self->loads && self->executors &&
        !tt_heap_init(&self->waiting, models) && !tt_heap_init(&self->ready, models) &&
        !tt_heap_init(&self->free, executors) && !tt_heap_init(&self->soon, executors) &&
        (!ahead || (!tt_heap_init(&self->leads, models) && !tt_heap_init(&self->passed, models))))
        return TT_OK;
    tt_deferred_rank_fini(self);
    return TT_ERR_NO_MEMORY;
}

enum tt_err tt_deferred_rank_free_times_reserve(struct tt_deferred_rank *self) {
    if (self->executor_count > LISTED_EXECUTORS)
        return TT_OK;
    self->free_times = calloc((size_t)self->executor_count, sizeof(*self->free_times));
    return self->free_times ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_deferred_rank_fini(struct tt_deferred_rank *self) {
    tt_heap_fini(&self->waiting);
    tt_heap_fini(&self->ready);
    tt_heap_fini(&self->free);
    tt_heap_fini(&self->soon);
    tt_heap_fini(&self->leads);
    tt_heap_fini(&self->passed);
    free(self->candidates);
    free(self->loads);
    free(self->executors);
    free(self->free_times);
    *self = (struct tt_deferred_rank){0};
}

static int64_t send_at(const struct tt_deferred_candidate *c) { return c->exec_at - c->lead_ns; }

static void make_ready(struct tt_deferred_rank *self, int32_t model) {
    tt_heap_set(&self->ready, model, self->candidates[model].key, model);
    if (self->ahead)
        tt_heap_set(&self->leads, model, -self->candidates[model].lead_ns, model);
}

static void unready(struct tt_deferred_rank *self, int32_t model) {
    tt_heap_remove(&self->ready, model);
    if (self->ahead)
        tt_heap_remove(&self->leads, model);
}

void tt_deferred_rank_candidate(struct tt_deferred_rank *self, int64_t now,
                                const struct tt_deferred_candidate *candidate) {
    tt_assert(candidate->model >= 0 && candidate->model < self->model_count);
    self->candidates[candidate->model] = *candidate;
    tt_deferred_rank_renewed(self, now, candidate->model);
}

void tt_deferred_rank_renewed(struct tt_deferred_rank *self, int64_t now, int32_t model) {
    const struct tt_deferred_candidate *candidate = &self->candidates[model];
    if (self->ahead)
        tt_heap_remove(&self->passed, model);
    if (candidate->size > 0 && send_at(candidate) <= now) {
        tt_heap_remove(&self->waiting, model);
        make_ready(self, model);
        return;
    }
    unready(self, model);
    if (candidate->size > 0)
        tt_heap_set(&self->waiting, model, send_at(candidate), model);
    else
        tt_heap_remove(&self->waiting, model);
}

/* Puts an executor that may take one more task into `free` or `soon`; one that was granted ahead
 * waits for the answer, though its task may end before. */
static void offer(struct tt_deferred_rank *self, int64_t now, int32_t executor) {
    const struct tt_deferred_executor *e = &self->executors[executor];
    if (!e->up || e->granted || e->queued >= e->limit)
        return;
    if (e->free_at <= now && e->queued == 0) {
        tt_heap_remove(&self->soon, executor);
        tt_heap_set(&self->free, executor, executor, 0);
    } else {
        tt_assert(!tt_heap_contains(&self->free, executor));
        tt_heap_set(&self->soon, executor, e->free_at, executor);
    }
}

void tt_deferred_rank_dispatched(struct tt_deferred_rank *self, int64_t now,
                                 const struct tt_deferred_dispatched *dispatched) {
    struct tt_deferred_executor *e = &self->executors[dispatched->executor];
    tt_assert(e->granted);
    e->granted = false;
    if (dispatched->taken) {
        e->queued++;
        e->last_start_at = dispatched->start_at;
        e->last_span_ns = dispatched->free_at - dispatched->start_at;
        e->free_at = dispatched->free_at;
        if (self->last_dispatch_at != TT_NEVER) {
            /* A pause of the whole fleet does not reflect the time between batches. */
            int64_t gap = tt_instant_min(now - self->last_dispatch_at, PAUSE_NS);
            self->gap_fixed += ((gap << 10) - self->gap_fixed) / GAP_WEIGHT;
        }
        self->last_dispatch_at = now;
    }
    offer(self, now, dispatched->executor);
}

void tt_deferred_rank_finished(struct tt_deferred_rank *self, int64_t now, int32_t executor) {
    struct tt_deferred_executor *e = &self->executors[executor];
    tt_assert(e->queued > 0);
    e->queued--;
    e->free_at = now;
    if (e->queued > 0) /* limit is 2, so the remaining task is the last one granted */
        e->free_at = tt_instant_max(now, e->last_start_at) + e->last_span_ns;
    offer(self, now, executor);
}

void tt_deferred_rank_add(struct tt_deferred_rank *self, int64_t now, int32_t executor,
                          int32_t depth) {
    struct tt_deferred_executor *e = &self->executors[executor];
    tt_assert(!e->up);
    tt_assert(!e->granted);
    *e = (struct tt_deferred_executor){
        .free_at = now, .limit = self->ahead && depth > 1 ? 2 : 1, .up = true};
    self->up++;
    offer(self, now, executor);
}

void tt_deferred_rank_remove(struct tt_deferred_rank *self, int32_t executor) {
    struct tt_deferred_executor *e = &self->executors[executor];
    if (!e->up)
        return;
    e->up = false;
    self->up--;
    tt_heap_remove(&self->free, executor);
    tt_heap_remove(&self->soon, executor);
}

/* The candidate of the smallest key that is still in time; NULL: none. */
static const struct tt_deferred_candidate *first_ready(struct tt_deferred_rank *self, int64_t now) {
    const struct tt_heap_entry *top;
    while (tt_heap_next_key(&self->waiting) <= now) {
        int32_t m = tt_heap_top(&self->waiting)->id;
        tt_heap_remove(&self->waiting, m);
        make_ready(self, m);
    }
    while ((top = tt_heap_top(&self->ready))) {
        const struct tt_deferred_candidate *c = &self->candidates[top->id];
        if (now + c->lead_ns <= c->latest_at || self->grants_expired)
            return c;
        unready(self, top->id); /* its model re-forms it, or waits for an arrival */
    }
    return NULL;
}

/* ---- executors that share a device ---- */

static bool counts(const struct tt_deferred_rank *self, int32_t demand_ppm) {
    return self->sharing && self->sharing->shared_count > 0 && demand_ppm > 0;
}

static const struct tt_shared_device *device_of(const struct tt_deferred_rank *self,
                                                int32_t executor) {
    return &self->sharing->devices[self->sharing->runs[executor].device];
}

/* True if a batch of the demand should begin beside what runs, and beside `more` other batches of
 * the same demand. */
static bool may_begin(const struct tt_shared_device *device, int32_t demand_ppm, int32_t more) {
    return tt_beside_pays(device->running + more, device->demand_ppm + (int64_t)more * demand_ppm,
                          demand_ppm);
}

/* The free executor of the smallest number on which a batch of the demand may begin; -1: none. */
static int32_t first_free(const struct tt_deferred_rank *self, int32_t demand_ppm) {
    int32_t first = self->free.count > 0 ? tt_heap_top(&self->free)->id : -1;
    if (first < 0 || !counts(self, demand_ppm) || may_begin(device_of(self, first), demand_ppm, 0))
        return first;
    first = -1;
    for (int32_t i = 0; i < self->free.count; i++) {
        int32_t e = self->free.entries[i].id;
        if ((first < 0 || e < first) && may_begin(device_of(self, e), demand_ppm, 0))
            first = e;
    }
    return first;
}

/* How many free executors can share waiting rows without slowing each other down; at least one. */
static int32_t free_count(const struct tt_deferred_rank *self, int32_t demand_ppm) {
    if (!counts(self, demand_ppm))
        return self->free.count;
    int64_t sum_ppm = 0; /* each free executor counts as its part of what its device has room for */
    for (int32_t i = 0; i < self->free.count; i++) {
        const struct tt_shared_device *device = device_of(self, self->free.entries[i].id);
        int64_t idle = device->executors - device->running;
        int64_t room = tt_instant_max(0, PPM - device->demand_ppm) / demand_ppm;
        if (device->running == 0)
            room = tt_instant_max(1, room);
        sum_ppm += idle > room ? room * PPM / idle : PPM;
    }
    return (int32_t)tt_instant_max(1, (sum_ppm + PPM / 2) / PPM);
}

/* The executors of a device, rounded up. */
static int32_t executors_each(const struct tt_deferred_rank *self) {
    if (!self->sharing || self->sharing->shared_count == 0)
        return 1;
    return (self->up + self->sharing->device_count - 1) / self->sharing->device_count;
}

/* ---- S4: executors that are granted before they are free ---- */

/* The instant at which the first executor is free; TT_NEVER: none can be granted. */
static int64_t first_free_at(const struct tt_deferred_rank *self, int64_t now) {
    if (self->free.count > 0)
        return now;
    return tt_instant_max(now, tt_heap_next_key(&self->soon));
}

/* Passes the candidates that no executor can reach in time, and takes back those that one can. */
static void pass(struct tt_deferred_rank *self, int64_t now, int64_t free_at) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->passed)) && -top->key >= free_at) {
        int32_t m = top->id;
        tt_heap_remove(&self->passed, m);
        make_ready(self, m);
    }
    /* Only the longest lead and the smallest key count, so the others may stay until they do. */
    for (int32_t turn = 0; turn < 2; turn++) {
        const struct tt_heap *order = turn == 0 ? &self->leads : &self->ready;
        while ((top = tt_heap_top(order))) {
            const struct tt_deferred_candidate *c = &self->candidates[top->id];
            bool expired = now + c->lead_ns > c->latest_at;
            if (!expired && c->latest_at >= free_at)
                break;
            int32_t m = top->id;
            unready(self, m);
            if (!expired)
                tt_heap_set(&self->passed, m, -c->latest_at, m);
        }
    }
}

/* The executor for `c` (-1: none yet), and how many can be granted to it. One whose task should
 * have reported its end by now may run much longer: it is taken only if there is no other. */
static int32_t choose_executor(const struct tt_deferred_rank *self, int64_t now,
                               const struct tt_deferred_candidate *c, int32_t *out_count) {
    int32_t executor = first_free(self, c->demand_ppm);
    *out_count = free_count(self, c->demand_ppm);
    if (!self->ahead || self->soon.count == 0)
        return executor;
    int64_t until = tt_instant_min(now - tt_heap_top(&self->leads)->key, c->latest_at);
    if (tt_heap_top(&self->soon)->key > until)
        return executor;
    int32_t late = -1;
    for (int32_t i = 0; i < self->soon.count; i++) {
        const struct tt_heap_entry *entry = &self->soon.entries[i];
        if (entry->key > until)
            continue;
        (*out_count)++;
        int32_t *first = entry->key + c->lead_ns < now ? &late : &executor;
        if (*first < 0 || entry->id < *first)
            *first = entry->id;
    }
    return executor >= 0 ? executor : late;
}

/* One that should be free by now, and is not, has stalled, and will be for some more time. */
static int64_t expected_free_at(const struct tt_deferred_executor *e, int64_t now) {
    return e->queued > 0 && e->free_at < now ? now + (now - e->free_at) : e->free_at;
}

/* True if the idle executor can take a batch beside that of `granted`, which begins now. */
static bool is_left_beside(const struct tt_deferred_rank *self, int32_t executor, int32_t granted,
                           int32_t demand_ppm) {
    if (!counts(self, demand_ppm) || self->executors[executor].queued > 0)
        return true;
    const struct tt_shared_device *device = device_of(self, executor);
    return may_begin(device, demand_ppm, device == device_of(self, granted));
}

/* When the executors except `granted` are free. An executor that was granted to another candidate,
 * and not answered, counts as free. One that must wait for others of its device does not count:
 * when they are free, is listed. */
static const struct tt_deferred_free_times *list_free_times(const struct tt_deferred_rank *self,
                                                            int64_t now, int32_t granted,
                                                            int32_t demand_ppm) {
    struct tt_deferred_free_times *out = &self->free_times[granted];
    int32_t count = 0;
    out->more = false;
    for (int32_t i = 0; i < self->executor_count; i++) {
        const struct tt_deferred_executor *e = &self->executors[i];
        if (!e->up || i == granted || !is_left_beside(self, i, granted, demand_ppm))
            continue;
        int64_t free_at = expected_free_at(e, now);
        if (count == TT_DEFERRED_FREE_TIMES) {
            out->more = true;
            if (free_at >= out->free_at[count - 1])
                continue;
            count--;
        }
        int32_t place = count++;
        for (; place > 0 && out->free_at[place - 1] > free_at; place--)
            out->free_at[place] = out->free_at[place - 1];
        out->free_at[place] = free_at;
    }
    out->count = count;
    return out;
}

/* S3: the smallest free device for the open candidate that must start soonest. */
bool tt_deferred_rank_next(struct tt_deferred_rank *self, int64_t now,
                           struct tt_deferred_grant *out_grant) {
    if (self->free.count == 0 && self->soon.count == 0)
        return false;
    const struct tt_deferred_candidate *c = first_ready(self, now);
    if (self->ahead) {
        pass(self, now, first_free_at(self, now));
        c = first_ready(self, now);
    }
    if (!c)
        return false;
    int32_t count, executor = choose_executor(self, now, c, &count);
    if (executor < 0)
        return false;
    *out_grant = (struct tt_deferred_grant){.model = c->model,
                                            .generation = c->generation,
                                            .executor = executor,
                                            .idle = count,
                                            .free_at = self->executors[executor].free_at,
                                            .gap_ns = tt_deferred_rank_gap(self)};
    if (self->free_times && c->left > c->size)
        out_grant->others = list_free_times(self, now, executor, c->demand_ppm);
    self->executors[executor].granted = true;
    tt_heap_remove(&self->free, executor);
    tt_heap_remove(&self->soon, executor);
    unready(self, c->model);
    return true;
}

int64_t tt_deferred_rank_next_at(const struct tt_deferred_rank *self) {
    if (self->soon.count == 0 && self->free.count == 0)
        return TT_NEVER; /* the next task that ends wakes the policy */
    int64_t at = tt_heap_next_key(&self->waiting);
    if (self->soon.count > 0 && self->leads.count > 0) /* the key of leads is - lead */
        at = tt_instant_min(at, tt_heap_next_key(&self->soon) + tt_heap_next_key(&self->leads));
    return at;
}

void tt_deferred_rank_load(struct tt_deferred_rank *self, const struct tt_deferred_load *load) {
    struct tt_deferred_load *own = &self->loads[load->model];
    *own = *load;
    int32_t each = executors_each(self);
    if (each <= 1 || load->demand_ppm == 0)
        return;
    /* A batch takes max(1 / k, d) of a device; the sums are of executors, which have 1 / each. */
    int64_t part_ppm =
        tt_instant_max(PPM / tt_beside_count(each, load->demand_ppm), load->demand_ppm);
    own->alpha_share = (int64_t)((__int128)load->alpha_share * part_ppm * each / PPM);
    own->beta_share = (int64_t)((__int128)load->beta_share * part_ppm * each / PPM);
}

/* The share of all devices that the models use with batches of max(1, psi * gather). */
static int64_t used_share(const struct tt_deferred_rank *self, int64_t psi_ppm) {
    int64_t sum = 0;
    for (int32_t m = 0; m < self->model_count; m++) {
        const struct tt_deferred_load *load = &self->loads[m];
        if (load->beta_share == 0 && load->alpha_share == 0)
            continue;
        int64_t batch_milli = tt_instant_max(1000, psi_ppm * load->gather_milli / PPM);
        sum += load->alpha_share + load->beta_share * 1000 / batch_milli;
    }
    return sum;
}

void tt_deferred_rank_fleet(const struct tt_deferred_rank *self,
                            struct tt_deferred_fleet *out_fleet) {
    int64_t have = (int64_t)self->up * SHARE;
    int64_t low = 0, high = PPM;
    int64_t need_share = used_share(self, PPM);
    if (used_share(self, 0) <= have)
        high = 0;
    else if (need_share > have)
        low = PPM;
    while (high - low > 1) { /* low does not fit, high does */
        int64_t middle = (low + high) / 2;
        if (used_share(self, middle) <= have)
            high = middle;
        else
            low = middle;
    }
    *out_fleet = (struct tt_deferred_fleet){.executors = self->up,
                                            .each = executors_each(self),
                                            .psi_ppm = high,
                                            .need_ppm = have ? need_share / (have / PPM) : 0,
                                            .gap_ns = tt_deferred_rank_gap(self)};
}

static void check_ahead(const struct tt_deferred_rank *self, int32_t m, bool waits, bool ready) {
    const struct tt_deferred_candidate *c = &self->candidates[m];
    bool passed = tt_heap_contains(&self->passed, m);
    tt_assert(tt_heap_contains(&self->leads, m) == ready);
    tt_assert(!ready || tt_heap_key(&self->leads, m) == -c->lead_ns);
    tt_assert(!(passed && (waits || ready)));
    tt_assert(c->size > 0 || !passed);
}

void tt_deferred_rank_check(const struct tt_deferred_rank *self) {
    tt_heap_check(&self->waiting);
    tt_heap_check(&self->ready);
    tt_heap_check(&self->free);
    tt_heap_check(&self->soon);
    if (self->ahead) {
        tt_heap_check(&self->leads);
        tt_heap_check(&self->passed);
    }
    for (int32_t m = 0; m < self->model_count; m++) {
        bool waits = tt_heap_contains(&self->waiting, m), ready = tt_heap_contains(&self->ready, m);
        tt_assert(!(waits && ready));
        tt_assert(self->candidates[m].size > 0 || !(waits || ready));
        if (self->ahead)
            check_ahead(self, m, waits, ready);
        if (waits)
            tt_assert(tt_heap_key(&self->waiting, m) == send_at(&self->candidates[m]));
    }
    int32_t up = 0;
    for (int32_t i = 0; i < self->executor_count; i++) {
        const struct tt_deferred_executor *e = &self->executors[i];
        bool free = tt_heap_contains(&self->free, i), soon = tt_heap_contains(&self->soon, i);
        up += e->up;
        tt_assert(e->queued >= 0 && e->queued <= 2);
        tt_assert(!(free && soon));
        tt_assert((free || soon) == (e->up && e->queued < e->limit && !e->granted));
    }
    tt_assert(up == self->up);
}
