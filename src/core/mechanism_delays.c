#include "core/mechanism_delays.h"

static bool is_used(const struct tt_mechanism *self, int32_t but, int32_t network) {
    for (int32_t e = 0; e < self->executor_capacity; e++)
        if (e != but && self->executors[e].state != TT_EXECUTOR_GONE &&
            self->executors[e].network == network)
            return true;
    return false;
}

/* The estimate of the device: the one that it has, or had last; else one that no executor uses,
 * first one that no device had. */
static int32_t find_network(struct tt_mechanism *self, int32_t executor, int32_t device) {
    int32_t capacity = self->executor_capacity, unused = -1;
    for (int32_t i = 0; i < capacity; i++)
        if (self->delays[i].device == device)
            return i;
    for (int32_t k = 0; k < capacity; k++) {
        int32_t i = executor + k < capacity ? executor + k : executor + k - capacity;
        if (is_used(self, executor, i)) /* at most executor_capacity - 1 are */
            continue;
        if (self->delays[i].device == -1)
            return i;
        unused = unused < 0 ? i : unused;
    }
    tt_assert(unused >= 0);
    return unused;
}

void tt_mechanism_delays_seat(struct tt_mechanism *self, int32_t executor, int32_t device) {
    struct tt_executor *e = &self->executors[executor];
    tt_assert(device >= 0);
    e->device = device;
    if (!self->delays)
        return;
    e->network = find_network(self, executor, device);
    struct tt_delay_estimate *delay = &self->delays[e->network];
    if (delay->device != device) {
        tt_delay_estimate_init(delay, delay->prior, delay->percent);
        delay->device = device;
    }
    tt_mechanism_delays_find_longest(self);
}

void tt_mechanism_delays_find_longest(struct tt_mechanism *self) {
    self->longest_delay = (struct tt_network_delay){-1, -1};
    for (int32_t e = 0; self->delays && e < self->executor_capacity; e++) {
        const struct tt_executor *executor = &self->executors[e];
        if (executor->state != TT_EXECUTOR_UP)
            continue;
        struct tt_network_delay one = self->delays[executor->network].believed;
        if (one.control_ns > self->longest_delay.control_ns)
            self->longest_delay.control_ns = one.control_ns;
        if (one.data_ns > self->longest_delay.data_ns)
            self->longest_delay.data_ns = one.data_ns;
    }
}

bool tt_mechanism_delays_learn(struct tt_mechanism *self, const struct tt_task *task) {
    self->delays_dropped_at = TT_NEVER;
    self->delays_starve = false;
    int32_t network = self->executors[task->executor].network;
    return task->received_at >= task->dispatched_at &&
           tt_delay_estimate_add(&self->delays[network], task->dispatched_at, task->rows,
                                 task->received_at - task->dispatched_at);
}

void tt_mechanism_delays_dropped(struct tt_mechanism *self, const struct tt_request *request) {
    if (self->delays_dropped_at == TT_NEVER)
        self->delays_dropped_at = self->now;
    else if (self->now - self->delays_dropped_at >= self->models[request->model]->slo_ns)
        self->delays_starve = true;
}
