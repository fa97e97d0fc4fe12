/* What the batches of one model cost at least, at given prices of the devices' time.
 *
 * Requests are numbered so that arrivals and deadlines both ascend (clairvoyant_case.h). A set of b
 * requests, of which f is the first and g the last, can start at any s with
 *   arrived[g] <= s <= deadline[f] - l(b).
 * Its cost is the least integral of the price over [s, s + l(b)) over these starts.
 *   - Whole: the cost of f, f + 1, ..., f + b - 1, for all f and b.
 *   - Share: for each request j the least cost / b, rounded down, of sets of b >= 2 that span at
 *     least 2 b + 1 requests, j among them: f <= j, arrived[j] <= deadline[f] - l(b), and the start
 *     is not before arrived[f + 2 b]. batch_partition.h says why.
 *
 * _find takes O(largest * (requests + cells)): all windows slide. Starts are searched by whole
 * cells, which can only lower a cost. */
#ifndef TT_LAB_CLAIRVOYANT_BATCH_COSTS_H
#define TT_LAB_CLAIRVOYANT_BATCH_COSTS_H

#include "lab/clairvoyant/clairvoyant_case.h"
#include "lab/clairvoyant/device_prices.h"

struct tt_batch_costs {
    const struct tt_clairvoyant_model *model; /* borrowed */
    int32_t largest;                          /* batch that can end in time; 0: none */
    int64_t *whole; /* [count * largest], by f and b - 1; TT_NEVER: not in time */
    int32_t *cell;  /* in which the cheapest start lies, likewise */
    int64_t *share; /* [count]; TT_NEVER: no such set */
    int32_t *share_batch, *share_cell; /* of the cheapest set */
    /* Memory of _find. */
    int64_t *least; /* of a batch size, by cell */
    int64_t *part;  /* cost / b of a batch size, by f */
    int32_t *start; /* its cell, by f */
    int32_t *last;  /* its last possible member, by f */
    int32_t *queue; /* of a sliding minimum */
};

void tt_batch_costs_init(struct tt_batch_costs *self, const struct tt_clairvoyant_model *model,
                         const struct tt_device_prices *prices);
void tt_batch_costs_fini(struct tt_batch_costs *self);
/* `prices` has the cells of _init. */
void tt_batch_costs_find(struct tt_batch_costs *self, const struct tt_device_prices *prices);

#endif
