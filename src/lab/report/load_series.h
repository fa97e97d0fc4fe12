/* What a load came to over time: equal slices of the run, with what was answered in each and how
 * late.
 *
 * A request belongs to the slice in which it was intended. The slices are short at first; when
 * there are too many, every two become one, so that any run fits. Memory follows from the number
 * of slices only. */
#ifndef TT_LAB_REPORT_LOAD_SERIES_H
#define TT_LAB_REPORT_LOAD_SERIES_H

#include "lab/load/load.h"

#include <jansson.h>

enum { TT_LOAD_SERIES_SLICES = 240 };

struct tt_load_slice {
    int64_t good, bad;
    struct tt_histogram latency_ns; /* of those that were answered */
};

struct tt_load_series {
    struct tt_load_slice slices[TT_LOAD_SERIES_SLICES];
    int64_t slice_ns;
};

void tt_load_series_init(struct tt_load_series *self);
void tt_load_series_fini(struct tt_load_series *self);
/* A request has ended. `intended_at`, `ended_at`: ns since the load began. Cancelled and unfinished
 * requests do not count. */
void tt_load_series_add(struct tt_load_series *self, int64_t intended_at, int64_t ended_at,
                        enum tt_load_outcome outcome);
/* {"slice_s", "good_per_s": [...], "bad_per_s": [...], "p50_ms": [...], "p99_ms": [...]}: the
 * slices from the first to the last whole one before `end_ns`; null where nothing was answered. A
 * new reference; NULL: no memory. */
json_t *tt_load_series_json(const struct tt_load_series *self, int64_t end_ns);

#endif
