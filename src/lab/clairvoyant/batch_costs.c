#include "lab/clairvoyant/batch_costs.h"

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

void tt_batch_costs_init(struct tt_batch_costs *self, const struct tt_clairvoyant_model *model,
                         const struct tt_device_prices *prices) {
    size_t count = (size_t)model->count + 1, cells = (size_t)prices->cell_count;
    *self = (struct tt_batch_costs){.model = model, .largest = tt_clairvoyant_model_largest(model)};
    size_t batches = count * (size_t)(self->largest + 1);
    self->whole = tt_allocate(batches, sizeof(*self->whole));
    self->cell = tt_allocate(batches, sizeof(*self->cell));
    self->share = tt_allocate(count, sizeof(*self->share));
    self->share_batch = tt_allocate(count, sizeof(*self->share_batch));
    self->share_cell = tt_allocate(count, sizeof(*self->share_cell));
    self->least = tt_allocate(cells, sizeof(*self->least));
    self->part = tt_allocate(count, sizeof(*self->part));
    self->start = tt_allocate(count, sizeof(*self->start));
    self->last = tt_allocate(count, sizeof(*self->last));
    self->queue = tt_allocate(count > cells ? count : cells, sizeof(*self->queue));
}

void tt_batch_costs_fini(struct tt_batch_costs *self) {
    free(self->whole);
    free(self->cell);
    free(self->share);
    free(self->share_batch);
    free(self->share_cell);
    free(self->least);
    free(self->part);
    free(self->start);
    free(self->last);
    free(self->queue);
    *self = (struct tt_batch_costs){0};
}

/* part, start and last of the sets of b that reach from f to f + reach at least; `part` is the cost
 * of the whole set. */
static void cost_sets(struct tt_batch_costs *self, const struct tt_device_prices *prices, int32_t b,
                      int32_t reach) {
    const struct tt_clairvoyant_model *model = self->model;
    struct slide starts = {.items = self->queue};
    int32_t next_cell = 0, arrived = 0;
    for (int32_t f = 0; f < model->count; f++) {
        self->part[f] = TT_NEVER;
        int64_t latest_at = model->deadline_at[f] - model->latency_ns[b];
        if (f + reach >= model->count || model->arrived_at[f + reach] > latest_at)
            continue;
        int32_t first = tt_device_prices_cell(prices, model->arrived_at[f + reach]);
        int32_t last = tt_device_prices_cell(prices, latest_at);
        if (next_cell < first)
            next_cell = first;
        while (next_cell <= last)
            push(&starts, self->least, next_cell++);
        while (starts.items[starts.head] < first)
            starts.head++;
        self->start[f] = starts.items[starts.head];
        self->part[f] = self->least[self->start[f]];
        while (arrived < model->count && model->arrived_at[arrived] <= latest_at)
            arrived++;
        self->last[f] = arrived - 1;
    }
}

static void keep_whole(struct tt_batch_costs *self, int32_t b) {
    for (int32_t f = 0; f < self->model->count; f++) {
        ptrdiff_t at = (ptrdiff_t)f * self->largest + b - 1;
        self->whole[at] = self->part[f];
        self->cell[at] = self->start[f];
    }
}

/* Lowers the shares of all requests that the sets of b can hold. */
static void keep_shares(struct tt_batch_costs *self, int32_t b) {
    struct slide sets = {.items = self->queue};
    for (int32_t j = 0; j < self->model->count; j++) {
        if (self->part[j] != TT_NEVER)
            push(&sets, self->part, j);
        while (sets.head < sets.tail && self->last[sets.items[sets.head]] < j)
            sets.head++;
        if (sets.head == sets.tail)
            continue;
        int32_t f = sets.items[sets.head];
        if (self->part[f] / b >= self->share[j])
            continue;
        self->share[j] = self->part[f] / b;
        self->share_batch[j] = b;
        self->share_cell[j] = self->start[f];
    }
}

void tt_batch_costs_find(struct tt_batch_costs *self, const struct tt_device_prices *prices) {
    for (int32_t j = 0; j < self->model->count; j++)
        self->share[j] = TT_NEVER;
    for (int32_t b = 1; b <= self->largest; b++) {
        tt_device_prices_least(prices, self->model->latency_ns[b], self->least);
        cost_sets(self, prices, b, b - 1);
        keep_whole(self, b);
        if (b < 2)
            continue;
        cost_sets(self, prices, b, 2 * b);
        keep_shares(self, b);
    }
}
