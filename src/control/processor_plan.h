/* How many executors and threads use how many processors. This is the one place that decides it:
 * the server's defaults, the number of executors of a domain, what `tutti profile` keeps busy at
 * once, and whether domains are crowded.
 *
 * Rules:
 *  - An executor computes with one thread; ONNX Runtime starts none of its own. So a batch uses one
 *    processor, and as many batches run at once as executors.
 *  - A domain has one executor per processor, unless --executors, its policy's workers or its
 *    model's instances state a number. These are not corrected: more executors than processors are
 *    right for models that wait, such as emulated ones.
 *  - Connection and scheduler threads get no processor of their own. They sleep unless there is
 *    work, and need a few percent of an executor's time.
 *  - Each domain counts on all processors. Its beliefs (core/belief.h) learn what the others take:
 *    batches that run beside those of other domains take longer, and beliefs follow within 17
 *    batches. Crowded domains are reported, not corrected.
 *
 * Pure. base/processors.h says how many processors there are. */
#ifndef TT_CONTROL_PROCESSOR_PLAN_H
#define TT_CONTROL_PROCESSOR_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_processor_plan {
    int32_t processors;
    int32_t executors;          /* of a domain that states no number */
    int32_t measured_executors; /* busy at once when a profile is measured */
};

/* `processors` >= 1. `stated`: --executors; 0: not stated. */
struct tt_processor_plan tt_processor_plan_of(int32_t processors, int32_t stated);
/* The executors of a domain. `instances`: of its only model, as configured; `workers`: of its
 * policy; 0: not stated. */
int32_t tt_processor_plan_domain(const struct tt_processor_plan *self, int32_t instances,
                                 int32_t workers);
/* True if the domains slow each other down when all are busy: there are several, and they have more
 * executors than there are processors. `executors`: of all domains that compute here. Then `out`
 * gets a sentence for the operator. */
bool tt_processor_plan_is_crowded(const struct tt_processor_plan *self, int32_t domains,
                                  int64_t executors, char *out, size_t capacity);

#endif
