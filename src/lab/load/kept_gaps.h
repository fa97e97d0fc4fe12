/* The gaps of a drawn load, kept for further runs of the same load at other rates: a search for the
 * goodput draws each of them once. Gaps are in units of their mean, so they do not depend on the
 * rate (arrivals.h).
 *
 * Life: _new; any number of tt_arrivals name it in their options, one after another or two in turn,
 * all with equal models, process, shape and seed; _free. Not for several threads. It keeps at most
 * TT_KEPT_GAPS gaps of all models; later ones are drawn by each run for itself. */
#ifndef TT_LAB_LOAD_KEPT_GAPS_H
#define TT_LAB_LOAD_KEPT_GAPS_H

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_KEPT_GAPS = 4 << 20 };

struct tt_kept_stream {
    int64_t *gaps; /* in units of the mean gap, Q40 */
    int64_t count, capacity;
    struct tt_prng prng; /* draws the gap behind the last */
    bool is_begun;
};

struct tt_kept_gaps {
    struct tt_kept_stream *streams; /* by model */
    int32_t model_count;
    int64_t room;      /* for further gaps */
    int64_t *requests; /* by model, of a run up to its request_limit; NULL: not counted */
};

struct tt_kept_gaps *tt_kept_gaps_new(int32_t model_count);
void tt_kept_gaps_free(struct tt_kept_gaps *take_gaps);
/* Keeps the next gap of model `model`; there must be room. */
void tt_kept_gaps_add(struct tt_kept_gaps *self, int32_t model, int64_t gap);

#endif
