#include "lab/clairvoyant/batch_partition.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

enum { SHARE = -1 };

void tt_batch_partition_init(struct tt_batch_partition *self, const struct tt_batch_costs *costs) {
    size_t count = (size_t)costs->model->count + 1;
    *self = (struct tt_batch_partition){.costs = costs};
    self->best = tt_allocate(count, sizeof(*self->best));
    self->choice = tt_allocate(count, sizeof(*self->choice));
}

void tt_batch_partition_fini(struct tt_batch_partition *self) {
    free(self->best);
    free(self->choice);
    *self = (struct tt_batch_partition){0};
}

static void offer(struct tt_batch_partition *self, int32_t j, int64_t value, int32_t choice) {
    if (value >= self->best[j])
        return;
    self->best[j] = value;
    self->choice[j] = choice;
}

/* The request before j of the solution. */
static int32_t before(const struct tt_batch_partition *self, int32_t j) {
    return self->choice[j] > 0 ? j - self->choice[j] : j - 1;
}

int64_t tt_batch_partition_solve(struct tt_batch_partition *self, int64_t value) {
    const struct tt_batch_costs *costs = self->costs;
    int32_t count = costs->model->count;
    self->best[0] = 0;
    for (int32_t j = 1; j <= count; j++)
        self->best[j] = TT_NEVER;
    for (int32_t f = 0; f < count; f++) {
        const int64_t *whole = &costs->whole[(ptrdiff_t)f * costs->largest];
        offer(self, f + 1, self->best[f], 0);
        if (costs->share[f] != TT_NEVER)
            offer(self, f + 1, self->best[f] + costs->share[f] - value, SHARE);
        for (int32_t b = 1; b <= costs->largest && whole[b - 1] != TT_NEVER; b++)
            offer(self, f + b, self->best[f] + whole[b - 1] - value * b, b);
    }
    self->served = 0;
    for (int32_t j = count; j > 0; j = before(self, j))
        self->served += self->choice[j] == SHARE ? 1 : self->choice[j];
    return self->best[count];
}

static void add(double *load, int64_t first, int64_t length_ns, int64_t cell_ns, double share) {
    double part = (double)(length_ns % cell_ns) / (double)cell_ns;
    int64_t last = first + length_ns / cell_ns;
    load[first] += share;
    load[last] -= share * (1 - part);
    load[last + 1] -= share * part;
}

void tt_batch_partition_add_load(const struct tt_batch_partition *self, int64_t cell_ns,
                                 double *load) {
    const struct tt_batch_costs *costs = self->costs;
    const int64_t *latency_ns = costs->model->latency_ns;
    for (int32_t j = costs->model->count; j > 0; j = before(self, j)) {
        int32_t b = self->choice[j], f = before(self, j);
        if (b > 0)
            add(load, costs->cell[(ptrdiff_t)f * costs->largest + b - 1], latency_ns[b], cell_ns,
                1);
        else if (b == SHARE)
            add(load, costs->share_cell[f], latency_ns[costs->share_batch[f]], cell_ns,
                1.0 / costs->share_batch[f]);
    }
}
