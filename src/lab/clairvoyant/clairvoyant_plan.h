/* A schedule for a known load of one model: what a scheduler that knows the future can do at least.
 *
 * The search goes through the requests in order of their numbers. A state at request i is how many
 * earlier ones are in time, and when each device is free. From there i is given up, or i .. i + b -
 * 1 form a batch on the device that is free first, as soon as all have arrived. Of the states at i
 * the `width` best survive (beam search): those with the highest value of their requests less the
 * devices' time that they take.
 *
 * The result need not be optimal. _check proves that it is possible, from the case alone.
 *
 * Life: _find makes a plan, _fini frees it. */
#ifndef TT_LAB_CLAIRVOYANT_CLAIRVOYANT_PLAN_H
#define TT_LAB_CLAIRVOYANT_CLAIRVOYANT_PLAN_H

#include "lab/clairvoyant/clairvoyant_case.h"

#include <signal.h>

enum { TT_CLAIRVOYANT_WIDTH = 64 };

struct tt_clairvoyant_batch {
    int64_t start_at;
    int32_t first, count; /* requests first .. first + count - 1 */
    int32_t device;
};

struct tt_clairvoyant_plan {
    struct tt_clairvoyant_batch *batches; /* in order of `first`: [batch_count] */
    int32_t batch_count;
    int64_t in_time; /* requests */
};

/* `given` has one model, which is not relaxed. False: `stop` (may be NULL) ended it, and there is
 * no plan. */
bool tt_clairvoyant_plan_find(const struct tt_clairvoyant_case *given, int32_t width,
                              const volatile sig_atomic_t *stop,
                              struct tt_clairvoyant_plan *out_plan);
void tt_clairvoyant_plan_fini(struct tt_clairvoyant_plan *self);
/* Asserts that no request is in two batches, that each batch has arrived and is in time, and that
 * no device runs two at once. */
void tt_clairvoyant_plan_check(const struct tt_clairvoyant_plan *self,
                               const struct tt_clairvoyant_case *given);

#endif
