#include "lab/autoscale/request_source.h"

#include "base/instant.h"

#include <stdlib.h>

static const int64_t longest_gap_ns = INT64_C(1000000000000000000);

enum tt_err tt_request_source_init(struct tt_request_source *self, int32_t model_count,
                                   int64_t shape_ppm, uint64_t seed) {
    tt_assert(model_count >= 1);
    *self =
        (struct tt_request_source){.streams = calloc((size_t)model_count, sizeof(*self->streams)),
                                   .model_count = model_count,
                                   .is_gamma = shape_ppm > 0};
    if (!self->streams || tt_heap_init(&self->due, model_count)) {
        tt_request_source_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    tt_draw_tables_init(&self->tables);
    if (self->is_gamma)
        tt_draw_gamma_init(&self->gamma, &self->tables, shape_ppm);
    for (int32_t m = 0; m < model_count; m++)
        tt_prng_init(&self->streams[m].prng, seed, (uint64_t)m);
    return TT_OK;
}

void tt_request_source_fini(struct tt_request_source *self) {
    tt_heap_fini(&self->due);
    free(self->streams);
    *self = (struct tt_request_source){.streams = NULL};
}

static int64_t draw_gap(struct tt_request_source *self, struct tt_request_stream *stream) {
    int64_t unit = self->is_gamma ? tt_draw_gamma_unit(&self->gamma, &self->tables, &stream->prng)
                                  : tt_draw_exponential(&self->tables, &stream->prng);
    double gap_ns = (double)unit / (double)TT_DRAW_ONE * stream->gap_ns;
    return gap_ns < (double)longest_gap_ns ? (int64_t)gap_ns : longest_gap_ns;
}

void tt_request_source_set_rates(struct tt_request_source *self, int64_t now, const double *per_s) {
    for (int32_t m = 0; m < self->model_count; m++) {
        struct tt_request_stream *stream = &self->streams[m];
        tt_assert(per_s[m] >= 0);
        stream->gap_ns = per_s[m] > 0 ? 1e9 / per_s[m] : 0;
        if (per_s[m] > 0)
            tt_heap_set(&self->due, m, tt_instant_add(now, draw_gap(self, stream)), m);
        else
            tt_heap_remove(&self->due, m);
    }
}

int64_t tt_request_source_next_at(const struct tt_request_source *self) {
    return tt_heap_next_key(&self->due);
}

bool tt_request_source_next(struct tt_request_source *self, int32_t *out_model, int64_t *out_at) {
    const struct tt_heap_entry *top = tt_heap_top(&self->due);
    if (!top)
        return false;
    int32_t model = top->id;
    *out_model = model;
    *out_at = top->key;
    int64_t next_at = tt_instant_add(*out_at, draw_gap(self, &self->streams[model]));
    tt_heap_set(&self->due, model, next_at, model);
    return true;
}
