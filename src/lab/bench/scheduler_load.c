#include "lab/bench/scheduler_load.h"

#include <stdlib.h>

#define WHOLE (UINT64_C(1) << 32)

/* Fills slots below the mean share from those above it. */
static void make_alias(struct tt_scheduler_load *self, double *share, int32_t *small,
                       int32_t *large) {
    int32_t small_count = 0, large_count = 0;
    for (int32_t m = 0; m < self->model_count; m++) {
        self->chance[m] = WHOLE;
        self->other[m] = m;
        if (share[m] < 1)
            small[small_count++] = m;
        else
            large[large_count++] = m;
    }
    while (small_count > 0 && large_count > 0) {
        int32_t less = small[--small_count], more = large[large_count - 1];
        self->chance[less] = (uint64_t)(share[less] * (double)WHOLE);
        self->other[less] = more;
        share[more] -= 1 - share[less];
        if (share[more] < 1) {
            large_count--;
            small[small_count++] = more;
        }
    }
}

enum tt_err tt_scheduler_load_init(struct tt_scheduler_load *self,
                                   const struct tt_scheduler_load_options *options) {
    size_t models = (size_t)options->model_count;
    *self = (struct tt_scheduler_load){.model_count = options->model_count,
                                       .patience_ns = options->patience_ns,
                                       .chance = calloc(models, sizeof(*self->chance)),
                                       .other = calloc(models, sizeof(*self->other))};
    double *share = calloc(models, sizeof(*share));
    int32_t *small = calloc(models, sizeof(*small)), *large = calloc(models, sizeof(*large));
    bool made = self->chance && self->other && share && small && large;
    if (made) {
        double sum = 0;
        for (int32_t m = 0; m < self->model_count; m++)
            sum += options->weights ? (double)options->weights[m] : 1;
        for (int32_t m = 0; m < self->model_count; m++)
            share[m] =
                (options->weights ? (double)options->weights[m] : 1) / sum * self->model_count;
        make_alias(self, share, small, large);
    }
    free(share);
    free(small);
    free(large);
    if (!made) {
        tt_scheduler_load_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    tt_draw_tables_init(&self->tables);
    tt_prng_init(&self->prng, options->seed, 0);
    tt_assert(options->rate_per_s > 0);
    self->mean_gap_q16 = (INT64_C(1000000000) << 16) / options->rate_per_s;
    self->start_at = options->start_at;
    return TT_OK;
}

void tt_scheduler_load_fini(struct tt_scheduler_load *self) {
    free(self->chance);
    free(self->other);
    *self = (struct tt_scheduler_load){0};
}

static int32_t draw_model(struct tt_scheduler_load *self) {
    uint64_t bits = tt_prng_next(&self->prng);
    int32_t slot = (int32_t)(((bits >> 32) * (uint64_t)self->model_count) >> 32);
    return (bits & (WHOLE - 1)) < self->chance[slot] ? slot : self->other[slot];
}

int32_t tt_scheduler_load_take(struct tt_scheduler_load *self, int64_t until_at,
                               struct tt_device_request *out_requests, int32_t room) {
    int32_t count = 0;
    for (; count < room; count++) {
        int64_t at = tt_scheduler_load_next_at(self);
        if (at > until_at)
            break;
        out_requests[count] = (struct tt_device_request){.arrived_at = at,
                                                         .deadline_at = at + self->patience_ns,
                                                         .id = self->next_id++,
                                                         .model = (uint16_t)draw_model(self),
                                                         .rows = 1};
        int64_t unit_q40 = tt_draw_exponential(&self->tables, &self->prng);
        self->offset_q16 += (int64_t)(((__int128)unit_q40 * self->mean_gap_q16) >> 40);
    }
    return count;
}
