#include "lab/clairvoyant/request_charges.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

/* Indices with ascending values: the front is the minimum of what was pushed and not popped. */
struct slide {
    int32_t *items;
    int32_t head, tail;
};

static void push(struct slide *slide, const int64_t *values, int32_t index) {
    while (slide->tail > slide->head && values[slide->items[slide->tail - 1]] >= values[index])
        slide->tail--;
    slide->items[slide->tail++] = index;
}

void tt_request_charges_init(struct tt_request_charges *self,
                             const struct tt_clairvoyant_model *model,
                             const struct tt_device_prices *prices) {
    size_t count = (size_t)model->count + 1, cells = (size_t)prices->cell_count;
    *self =
        (struct tt_request_charges){.model = model, .largest = tt_clairvoyant_model_largest(model)};
    self->charge = tt_allocate(count, sizeof(*self->charge));
    self->batch = tt_allocate(count, sizeof(*self->batch));
    self->cell = tt_allocate(count, sizeof(*self->cell));
    self->least = tt_allocate(cells, sizeof(*self->least));
    self->share = tt_allocate(count, sizeof(*self->share));
    self->start = tt_allocate(count, sizeof(*self->start));
    self->last = tt_allocate(count, sizeof(*self->last));
    self->queue = tt_allocate(count > cells ? count : cells, sizeof(*self->queue));
}

void tt_request_charges_fini(struct tt_request_charges *self) {
    free(self->charge);
    free(self->batch);
    free(self->cell);
    free(self->least);
    free(self->share);
    free(self->start);
    free(self->last);
    free(self->queue);
    *self = (struct tt_request_charges){0};
}

/* share, start and last of all batches of b. */
static void price_batches(struct tt_request_charges *self, const struct tt_device_prices *prices,
                          int32_t b) {
    const struct tt_clairvoyant_model *model = self->model;
    struct slide starts = {.items = self->queue};
    int32_t next_cell = 0, arrived = 0;
    for (int32_t i = 0; i < model->count; i++) {
        self->share[i] = TT_NEVER;
        int64_t latest_at = model->deadline_at[i] - model->latency_ns[b];
        if (i + b > model->count || model->arrived_at[i + b - 1] > latest_at)
            continue;
        int32_t first = tt_device_prices_cell(prices, model->arrived_at[i + b - 1]);
        int32_t last = tt_device_prices_cell(prices, latest_at);
        if (next_cell < first)
            next_cell = first;
        while (next_cell <= last)
            push(&starts, self->least, next_cell++);
        while (starts.items[starts.head] < first)
            starts.head++;
        self->start[i] = starts.items[starts.head];
        self->share[i] = self->least[self->start[i]] / b;
        while (arrived < model->count && model->arrived_at[arrived] <= latest_at)
            arrived++;
        self->last[i] = arrived - 1;
    }
}

/* Lowers the charges of all requests that batches of b can hold. */
static void charge_members(struct tt_request_charges *self, int32_t b) {
    struct slide batches = {.items = self->queue};
    for (int32_t j = 0; j < self->model->count; j++) {
        if (self->share[j] != TT_NEVER)
            push(&batches, self->share, j);
        while (batches.head < batches.tail && self->last[batches.items[batches.head]] < j)
            batches.head++;
        if (batches.head == batches.tail)
            continue;
        int32_t i = batches.items[batches.head];
        if (self->share[i] >= self->charge[j])
            continue;
        self->charge[j] = self->share[i];
        self->batch[j] = b;
        self->cell[j] = self->start[i];
    }
}

void tt_request_charges_find(struct tt_request_charges *self,
                             const struct tt_device_prices *prices) {
    const struct tt_clairvoyant_model *model = self->model;
    for (int32_t j = 0; j < model->count; j++)
        self->charge[j] = TT_NEVER;
    for (int32_t b = 1; b <= self->largest; b++) {
        tt_device_prices_least(prices, model->latency_ns[b], self->least);
        price_batches(self, prices, b);
        charge_members(self, b);
    }
}
