/* Every schedule of a small case, one after another: the oracle of the clairvoyant bound.
 *
 * Batches are chosen in order of their starts, as sets of any requests of one model. Each runs on
 * the device that is free first, as soon as that is free and all its members have arrived. For any
 * schedule there is such a one that ends no batch later: by induction over the starts, the device
 * that is free first is free no later than the one that the schedule used. Requests are bits of a
 * set, numbered over all models. All functions are inline; there is no .c file. */
#ifndef TUTTI_TESTS_UNIT_NAIVE_OPTIMUM_H
#define TUTTI_TESTS_UNIT_NAIVE_OPTIMUM_H

#include <stdbool.h>
#include <stdint.h>

enum { NAIVE_MAX_REQUESTS = 7, NAIVE_MAX_DEVICES = 3 };

struct naive_case {
    int32_t count, device_count, model_count;
    int32_t model[NAIVE_MAX_REQUESTS];
    int64_t arrived_at[NAIVE_MAX_REQUESTS], deadline_at[NAIVE_MAX_REQUESTS];
    const int64_t *latency_ns[2]; /* of a model, by batch size */
    int32_t max_batch[2];
    bool served[1 << NAIVE_MAX_REQUESTS]; /* the answer: sets that a schedule serves in time */
};

struct naive_state {
    int64_t free_at[NAIVE_MAX_DEVICES], last_start_at;
    uint32_t served;
};

/* When the batch could start after this state; -1: it is no batch, or not in time. */
static inline int64_t naive_start(const struct naive_case *self, const struct naive_state *state,
                                  uint32_t batch, int32_t device, int64_t *out_end_at) {
    int32_t model = -1, size = 0;
    int64_t start_at = state->free_at[device], until_at = INT64_MAX;
    for (int32_t i = 0; i < self->count; i++) {
        if (!(batch >> i & 1))
            continue;
        if (model >= 0 && self->model[i] != model)
            return -1;
        model = self->model[i];
        size++;
        start_at = self->arrived_at[i] > start_at ? self->arrived_at[i] : start_at;
        until_at = self->deadline_at[i] < until_at ? self->deadline_at[i] : until_at;
    }
    if (size > self->max_batch[model])
        return -1;
    *out_end_at = start_at + self->latency_ns[model][size];
    return *out_end_at <= until_at && start_at >= state->last_start_at ? start_at : -1;
}

static inline void naive_search(struct naive_case *self, const struct naive_state *state) {
    self->served[state->served] = true;
    int32_t first = 0;
    for (int32_t d = 1; d < self->device_count; d++)
        first = state->free_at[d] < state->free_at[first] ? d : first;
    for (uint32_t batch = 1; batch < 1u << self->count; batch++) {
        int64_t end_at, start_at;
        if (batch & state->served)
            continue;
        start_at = naive_start(self, state, batch, first, &end_at);
        if (start_at < 0)
            continue;
        struct naive_state next = *state;
        next.free_at[first] = end_at;
        next.last_start_at = start_at;
        next.served |= batch;
        naive_search(self, &next);
    }
}

/* Fills in `served`. Instants are >= 0. */
static inline void naive_optimum(struct naive_case *self) {
    struct naive_state state = {{0}, 0, 0};
    for (uint32_t set = 0; set < 1u << self->count; set++)
        self->served[set] = false;
    naive_search(self, &state);
}

#endif
