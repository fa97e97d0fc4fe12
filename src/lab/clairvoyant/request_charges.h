/* What each request of one model costs at least, at given prices of the devices' time.
 *
 * Let the requests of a model be ordered so that arrivals and deadlines both ascend
 * (clairvoyant_case.h). Take any schedule, and any of its batches: size b, start s, i its member
 * with the smallest number. Then
 *   - b members with numbers >= i have arrived: s >= arrived[i + b - 1];
 *   - i is in time: s + l(b) <= deadline[i];
 *   - so every member j satisfies i <= j and arrived[j] <= s <= deadline[i] - l(b).
 * P(i, b) is the least cost of l(b) over these starts s. The charge of j is the minimum of
 * P(i, b) / b, rounded down, over all (i, b) that j satisfies. So the charges of a batch's members
 * sum up to at most what its time costs, and the charges of all requests that a schedule serves in
 * time to at most the cost of all time of all devices:
 *   sum of the charges of those in time <= devices * (integral of the price).
 * That holds for any prices. A request that fits into no batch is charged TT_NEVER.
 *
 * _find takes O(max_batch * (requests + cells)): all windows slide. It also notes for each request
 * which batch was the cheapest, so that the caller can raise prices where the load is. Starts are
 * searched by whole cells, which can only lower a charge. */
#ifndef TT_LAB_CLAIRVOYANT_REQUEST_CHARGES_H
#define TT_LAB_CLAIRVOYANT_REQUEST_CHARGES_H

#include "lab/clairvoyant/clairvoyant_case.h"
#include "lab/clairvoyant/device_prices.h"

struct tt_request_charges {
    const struct tt_clairvoyant_model *model; /* borrowed */
    int32_t largest;                          /* batch that can end in time; 0: none */
    int64_t *charge;                          /* [count] */
    int32_t *batch, *cell; /* of the cheapest batch: its size, and the cell in which it starts */
    /* Memory of _find. */
    int64_t *least; /* of a batch size, by cell */
    int64_t *share; /* P(i, b) / b of a batch size, by i; TT_NEVER: there is no such batch */
    int32_t *start; /* its cell, by i */
    int32_t *last;  /* its last possible member, by i */
    int32_t *queue; /* of a sliding minimum */
};

void tt_request_charges_init(struct tt_request_charges *self,
                             const struct tt_clairvoyant_model *model,
                             const struct tt_device_prices *prices);
void tt_request_charges_fini(struct tt_request_charges *self);
/* `prices` has the cells of _init. */
void tt_request_charges_find(struct tt_request_charges *self,
                             const struct tt_device_prices *prices);

#endif
