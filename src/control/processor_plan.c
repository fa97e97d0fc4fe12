#include "control/processor_plan.h"

#include "base/err.h"
#include "profile/demand_estimate.h"
#include "serve/domain.h"

#include <stdio.h>

static int32_t at_most(int32_t value, int32_t limit) { return value < limit ? value : limit; }

struct tt_processor_plan tt_processor_plan_of(int32_t processors, int32_t stated) {
    tt_assert(processors >= 1);
    tt_assert(stated >= 0);
    return (struct tt_processor_plan){
        .processors = processors,
        .executors = at_most(stated > 0 ? stated : processors, TT_DOMAIN_MAX_EXECUTORS),
        .measured_executors = at_most(processors, TT_DEMAND_MAX_EXECUTORS)};
}

int32_t tt_processor_plan_domain(const struct tt_processor_plan *self, int32_t instances,
                                 int32_t workers) {
    tt_assert(instances >= 0);
    tt_assert(workers >= 0);
    int32_t stated = instances > 0 ? instances : workers;
    return stated > 0 ? at_most(stated, TT_DOMAIN_MAX_EXECUTORS) : self->executors;
}

bool tt_processor_plan_is_crowded(const struct tt_processor_plan *self, int32_t domains,
                                  int64_t executors, char *out, size_t capacity) {
    if (domains < 2 || executors <= self->processors)
        return false;
    snprintf(out, capacity,
             "%d scheduling domains have %lld executors on %d processors: when several are busy, "
             "they slow each other down; models of one policy and equal options share a domain, "
             "and --executors sets its size",
             domains, (long long)executors, self->processors);
    return true;
}
