#include "policy/deferred/nexus_plan.h"

#include "base/instant.h"

#include <stdlib.h>

enum { SCALE_BITS = 16, TOP_BIT = 46 };

/* Limit of scaled rates, so that the arithmetic does not overflow. */
#define MAX_RATE INT64_C(1000000000000000)

enum tt_err tt_nexus_plan_init(struct tt_nexus_plan *self, int32_t model_capacity,
                               int32_t node_capacity, struct tt_network_delay delay) {
    *self = (struct tt_nexus_plan){
        .model_capacity = model_capacity, .node_capacity = node_capacity, .delay = delay};
    size_t sessions = (size_t)model_capacity + (size_t)node_capacity;
    self->sessions = calloc(sessions, sizeof(*self->sessions));
    self->nodes = calloc((size_t)node_capacity, sizeof(*self->nodes));
    self->residuals = calloc((size_t)model_capacity, sizeof(*self->residuals));
    self->saturated_batch = calloc((size_t)model_capacity, sizeof(*self->saturated_batch));
    if (self->sessions && self->nodes && self->residuals && self->saturated_batch &&
        tt_heap_init(&self->order, model_capacity) == TT_OK)
        return TT_OK;
    tt_nexus_plan_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_nexus_plan_fini(struct tt_nexus_plan *self) {
    free(self->sessions);
    free(self->nodes);
    free(self->residuals);
    free(self->saturated_batch);
    tt_heap_fini(&self->order);
    *self = (struct tt_nexus_plan){0};
}

/* The time of a batch, messages included. Of several input lengths the longest counts. It is the
 * tail, since a plan consists of batches that end in time. */
static int64_t cost(const struct tt_nexus_plan *self, int32_t model, int32_t batch) {
    return tt_network_delay_of(self->delay, batch) +
           tt_profile_tail(self->models[model]->whole, batch, INT32_MAX);
}

static int64_t slo_of(const struct tt_nexus_plan *self, int32_t model) {
    const struct tt_step_model *m = self->models[model];
    return m->slo_ns != TT_NEVER ? m->slo_ns : 2 * cost(self, model, m->max_batch);
}

static int64_t saturated_rate(const struct tt_nexus_plan *self, int32_t model) {
    int32_t batch = self->saturated_batch[model];
    int64_t rate = batch * TT_NEXUS_RATE_NS / cost(self, model, batch);
    return rate > 0 ? rate : 1;
}

/* The time in which `batch` rows arrive at the rate. */
static int64_t gather_ns(int32_t batch, int64_t rate) { return batch * TT_NEXUS_RATE_NS / rate; }

/* The rows that arrive in the time, rounded up, at most B: more than B would not be in time. */
static int32_t gathered(const struct tt_nexus_plan *self, int32_t model, int64_t ns, int64_t rate) {
    __int128 rows = ((__int128)ns * rate + TT_NEXUS_RATE_NS - 1) / TT_NEXUS_RATE_NS;
    int32_t limit = self->saturated_batch[model];
    return rows < 1 ? 1 : rows > limit ? limit : (int32_t)rows;
}

struct residual {
    int32_t batch;
    int64_t duty_ns;
};

static struct residual residual_of(const struct tt_nexus_plan *self, int32_t model, int64_t rate) {
    int64_t slo_ns = slo_of(self, model);
    for (int32_t batch = self->saturated_batch[model]; batch >= 1; batch--)
        if (gather_ns(batch, rate) + cost(self, model, batch) <= slo_ns) {
            int64_t duty_ns = gather_ns(batch, rate);
            return (struct residual){batch, tt_instant_max(duty_ns, cost(self, model, batch))};
        }
    int64_t one_ns = cost(self, model, 1);
    return (struct residual){1, tt_instant_max(slo_ns - one_ns, one_ns)};
}

static int64_t occupancy_ppm(int64_t busy_ns, int64_t duty_ns) {
    __int128 ppm = (__int128)busy_ns * 1000000 / duty_ns;
    return ppm > INT32_MAX ? INT32_MAX : (int64_t)ppm;
}

static void add_session(struct tt_nexus_plan *self, int32_t node, int32_t model, int64_t rate) {
    tt_assert(self->session_count < self->model_capacity + self->node_capacity);
    int32_t at = self->session_count++;
    self->sessions[at] = (struct tt_nexus_session){.model = model,
                                                   .node = node,
                                                   .rate = rate,
                                                   .batch = 1,
                                                   .next_of_node = self->nodes[node].first_session};
    self->nodes[node].first_session = at;
}

/* Gives the node its duty cycle, and its members the batches that gather in it. */
static void settle(struct tt_nexus_plan *self, int32_t node, int64_t duty_ns) {
    self->nodes[node].duty_ns = duty_ns;
    self->nodes[node].busy_ns = 0;
    for (int32_t s = self->nodes[node].first_session; s >= 0; s = self->sessions[s].next_of_node) {
        struct tt_nexus_session *session = &self->sessions[s];
        session->batch = gathered(self, session->model, duty_ns, session->rate);
        self->nodes[node].busy_ns += cost(self, session->model, session->batch);
    }
}

/* The busy time of the node with one more residual; returns its duty cycle as well. */
static int64_t busy_with(const struct tt_nexus_plan *self, int32_t node, int32_t model,
                         int64_t rate, int64_t duty_ns, int64_t *out_duty_ns) {
    int64_t duty = tt_instant_min(self->nodes[node].duty_ns, duty_ns);
    int64_t busy = cost(self, model, gathered(self, model, duty, rate));
    for (int32_t s = self->nodes[node].first_session; s >= 0; s = self->sessions[s].next_of_node) {
        const struct tt_nexus_session *session = &self->sessions[s];
        busy += cost(self, session->model, gathered(self, session->model, duty, session->rate));
    }
    *out_duty_ns = duty;
    return busy;
}

/* The node that the residual fits into and fills most. With `force`, if none fits, the one that is
 * overloaded least. -1: none. */
static int32_t find_node(const struct tt_nexus_plan *self, int32_t model, int64_t rate,
                         int64_t residual_duty_ns, bool force) {
    int32_t best = -1, least = -1;
    int64_t best_ppm = -1, least_ppm = INT64_MAX;
    for (int32_t n = 0; n < self->node_count; n++) {
        int64_t duty_ns;
        if (self->nodes[n].saturated && !force)
            continue;
        int64_t busy_ns = busy_with(self, n, model, rate, residual_duty_ns, &duty_ns);
        int64_t ppm = occupancy_ppm(busy_ns, duty_ns);
        if (busy_ns <= duty_ns && !self->nodes[n].saturated && ppm > best_ppm) {
            best = n;
            best_ppm = ppm;
        }
        if (ppm < least_ppm) {
            least = n;
            least_ppm = ppm;
        }
    }
    return best >= 0 || !force ? best : least;
}

/* False if the residual fits nowhere. */
static bool place_residual(struct tt_nexus_plan *self, int32_t model, int32_t node_limit,
                           bool force) {
    int64_t rate = self->residuals[model];
    struct residual residual = residual_of(self, model, rate);
    int32_t node =
        find_node(self, model, rate, residual.duty_ns, force && self->node_count == node_limit);
    if (node < 0) {
        if (self->node_count == node_limit)
            return false;
        node = self->node_count++;
        self->nodes[node] =
            (struct tt_nexus_node){.duty_ns = residual.duty_ns, .first_session = -1};
    }
    add_session(self, node, model, rate);
    settle(self, node, tt_instant_min(self->nodes[node].duty_ns, residual.duty_ns));
    return true;
}

static int64_t scaled(int64_t rate, int64_t scale) {
    __int128 product = ((__int128)rate * scale) >> SCALE_BITS;
    return product < 1 ? 1 : product > MAX_RATE ? MAX_RATE : (int64_t)product;
}

/* Places the devices that one model saturates; false if there are too few. */
static bool place_saturated(struct tt_nexus_plan *self, int32_t model, int64_t rate,
                            int32_t node_limit) {
    int64_t each = saturated_rate(self, model), count = rate / each;
    if (count > node_limit - self->node_count)
        return false;
    int64_t rest = rate - count * each;
    /* Less than a thousandth of a device is a rounding error of the common factor and needs no
     * device. */
    self->residuals[model] = count > 0 && rest < each / 1000 ? 0 : rest;
    for (; count > 0; count--) {
        int32_t node = self->node_count++;
        self->nodes[node] = (struct tt_nexus_node){
            .duty_ns = cost(self, model, self->saturated_batch[model]), .first_session = -1};
        add_session(self, node, model, each);
        settle(self, node, self->nodes[node].duty_ns);
        self->nodes[node].saturated = true;
        self->sessions[self->nodes[node].first_session].batch = self->saturated_batch[model];
    }
    return true;
}

static bool pack(struct tt_nexus_plan *self, const int64_t *rates, int64_t scale,
                 int32_t node_limit, bool force) {
    self->session_count = self->node_count = 0;
    while (self->order.count > 0)
        tt_heap_remove(&self->order, tt_heap_top(&self->order)->id);
    for (int32_t m = 0; m < self->model_capacity; m++) {
        if (!self->models[m])
            continue;
        int64_t rate = scaled(rates[m], scale);
        self->residuals[m] = rate;
        if (!force && !place_saturated(self, m, rate, node_limit))
            return false;
        if (self->residuals[m] == 0)
            continue;
        struct residual residual = residual_of(self, m, self->residuals[m]);
        int64_t ppm = occupancy_ppm(cost(self, m, residual.batch), residual.duty_ns);
        tt_heap_set(&self->order, m, -ppm, m);
    }
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->order))) {
        int32_t model = top->id;
        tt_heap_remove(&self->order, model);
        if (!place_residual(self, model, node_limit, force))
            return false;
    }
    return true;
}

/* B: the largest batch of which two in a row are in time. */
static int32_t find_saturated_batch(const struct tt_nexus_plan *self, int32_t model) {
    int64_t slo_ns = slo_of(self, model);
    int32_t batch = self->models[model]->max_batch;
    while (batch > 1 && 2 * cost(self, model, batch) > slo_ns)
        batch--;
    return batch;
}

static bool is_given(const struct tt_nexus_plan *self) {
    for (int32_t m = 0; m < self->model_capacity; m++)
        if (self->models[m])
            return self->models[m]->executor_count > 0;
    return false;
}

static void place_given(struct tt_nexus_plan *self, const int64_t *rates, int32_t node_limit) {
    self->node_count = node_limit;
    for (int32_t n = 0; n < node_limit; n++)
        self->nodes[n] = (struct tt_nexus_node){.duty_ns = TT_NEVER, .first_session = -1};
    for (int32_t m = 0; m < self->model_capacity; m++) {
        const struct tt_step_model *model = self->models[m];
        for (int32_t i = 0; model && i < model->executor_count; i++) {
            int32_t node = model->executors[i];
            if (node >= node_limit)
                continue;
            int64_t rate = tt_instant_max(1, rates[m] / model->executor_count);
            struct residual residual = residual_of(self, m, rate);
            add_session(self, node, m, rate);
            self->nodes[node].duty_ns = tt_instant_min(self->nodes[node].duty_ns, residual.duty_ns);
        }
    }
    for (int32_t n = 0; n < node_limit; n++)
        settle(self, n, self->nodes[n].duty_ns);
}

void tt_nexus_plan_make(struct tt_nexus_plan *self, const struct tt_step_model *const *models,
                        const int64_t *rates, int32_t node_limit) {
    tt_assert(node_limit >= 0 && node_limit <= self->node_capacity);
    self->models = models;
    self->session_count = self->node_count = 0;
    if (node_limit == 0)
        return;
    for (int32_t m = 0; m < self->model_capacity; m++)
        if (models[m])
            self->saturated_batch[m] = find_saturated_batch(self, m);
    if (is_given(self)) {
        place_given(self, rates, node_limit);
        return;
    }
    int64_t scale = 0;
    for (int32_t bit = TOP_BIT; bit >= 0; bit--)
        if (pack(self, rates, scale | INT64_C(1) << bit, node_limit, false))
            scale |= INT64_C(1) << bit;
    if (scale > 0) {
        bool packed = pack(self, rates, scale, node_limit, false);
        tt_assert(packed);
    } else {
        bool packed = pack(self, rates, 1, node_limit, true);
        tt_assert(packed);
    }
}
