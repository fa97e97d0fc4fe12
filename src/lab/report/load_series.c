#include "lab/report/load_series.h"

#include "base/instant.h"

#define FIRST_SLICE_NS (50 * TT_MS)

void tt_load_series_init(struct tt_load_series *self) {
    *self = (struct tt_load_series){.slice_ns = FIRST_SLICE_NS};
    for (int32_t i = 0; i < TT_LOAD_SERIES_SLICES; i++)
        tt_histogram_init(&self->slices[i].latency_ns);
}

void tt_load_series_fini(struct tt_load_series *self) {
    for (int32_t i = 0; i < TT_LOAD_SERIES_SLICES; i++)
        tt_histogram_fini(&self->slices[i].latency_ns);
}

static void empty(struct tt_load_slice *slice) {
    tt_histogram_fini(&slice->latency_ns);
    *slice = (struct tt_load_slice){0};
    tt_histogram_init(&slice->latency_ns);
}

static void add_slice(struct tt_load_slice *to, const struct tt_load_slice *from) {
    to->good += from->good;
    to->bad += from->bad;
    tt_histogram_merge(&to->latency_ns, &from->latency_ns);
}

/* Every two slices become one. */
static void halve(struct tt_load_series *self) {
    for (int32_t i = 0; i < TT_LOAD_SERIES_SLICES; i++) {
        if (i == 0)
            continue;
        add_slice(&self->slices[i / 2], &self->slices[i]);
        empty(&self->slices[i]);
    }
    self->slice_ns *= 2;
}

void tt_load_series_add(struct tt_load_series *self, int64_t intended_at, int64_t ended_at,
                        enum tt_load_outcome outcome) {
    if (outcome == TT_LOAD_OUTCOME_CANCELLED || outcome == TT_LOAD_OUTCOME_UNFINISHED)
        return;
    while (intended_at / self->slice_ns >= TT_LOAD_SERIES_SLICES)
        halve(self);
    struct tt_load_slice *slice = &self->slices[intended_at / self->slice_ns];
    slice->good += outcome == TT_LOAD_OUTCOME_OK;
    slice->bad += outcome != TT_LOAD_OUTCOME_OK;
    if (outcome == TT_LOAD_OUTCOME_OK || outcome == TT_LOAD_OUTCOME_LATE)
        tt_histogram_add(&slice->latency_ns, ended_at - intended_at);
}

static json_t *quantile(const struct tt_histogram *ns, int64_t share) {
    return ns->count ? json_real((double)tt_histogram_quantile(ns, share, 100) / 1e6) : json_null();
}

json_t *tt_load_series_json(const struct tt_load_series *self, int64_t end_ns) {
    json_t *good = json_array(), *bad = json_array(), *p50 = json_array(), *p99 = json_array();
    double slice_s = (double)self->slice_ns / 1e9;
    for (int32_t i = 0; i < TT_LOAD_SERIES_SLICES && (i + 1) * self->slice_ns <= end_ns; i++) {
        const struct tt_load_slice *slice = &self->slices[i];
        json_array_append_new(good, json_real((double)slice->good / slice_s));
        json_array_append_new(bad, json_real((double)slice->bad / slice_s));
        json_array_append_new(p50, quantile(&slice->latency_ns, 50));
        json_array_append_new(p99, quantile(&slice->latency_ns, 99));
    }
    return json_pack("{s:f,s:o,s:o,s:o,s:o}", "slice_s", slice_s, "good_per_s", good, "bad_per_s",
                     bad, "p50_ms", p50, "p99_ms", p99);
}
