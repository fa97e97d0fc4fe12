#include "lab/closed_form/overlap.h"

struct tt_overlap_gain tt_overlap_gain(double transfer, double computation) {
    double shorter = transfer < computation ? transfer : computation;
    double longer = transfer < computation ? computation : transfer;
    return (struct tt_overlap_gain){.time_share = shorter / (transfer + computation),
                                    .throughput_gain = shorter / longer};
}

void tt_overlap_ends(const struct tt_overlap_pair *pair, double share, double *out_first,
                     double *out_second) {
    double begins = pair->before / pair->capacity;
    double together = pair->after / (pair->capacity - share);
    if (share * together >=
        pair->other) { /* worker 2 ends first; worker 1 then has the whole capacity */
        double shared = pair->other / share;
        double left = pair->after - (pair->capacity - share) * shared;
        *out_first = begins + shared + left / pair->capacity;
        *out_second = shared;
        return;
    }
    *out_first = begins + together;
    *out_second = together + (pair->other - share * together) / pair->capacity;
}

bool tt_overlap_bounds(const struct tt_overlap_pair *pair, double *out_least, double *out_most) {
    double u0 = pair->capacity, begins = pair->before / u0, both = (pair->after + pair->other) / u0;
    double slack =
        pair->promise - begins; /* the time that worker 1 has left when worker 2 begins */
    if (slack < pair->after / u0 || pair->promise < pair->other / u0)
        return false;
    /* The device is never idle, so the last worker ends when all work is done, for any shares. Only
     * the worker that ends first bounds the share: worker 1 from above, worker 2 from below. */
    bool first_may_be_last = both <= slack, second_may_be_last = both <= pair->promise;
    if (!first_may_be_last && !second_may_be_last)
        return false;
    *out_most = first_may_be_last ? u0 : u0 - pair->after / slack;
    *out_least = second_may_be_last ? 0 : pair->other / pair->promise;
    return *out_least <= *out_most;
}
