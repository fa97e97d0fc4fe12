#include "lab/run/bad_share.h"

#include "lab/load/arrival_source.h"
#include "lab/load/kept_gaps.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDED = 16 };

void tt_bad_share_fini(struct tt_bad_share *self) {
    free(self->counted);
    self->counted = NULL;
}

/* About so many requests that count arrive in the whole run; 0: not known. */
static double expected_sum(const struct tt_scenario *s) {
    double per_ns = (double)s->rate / (double)TT_RATE_ONE / (double)TT_S;
    if (s->arrivals || s->arrivals_path || s->interval_ns > 0 || s->segment_count > 0 ||
        s->step_every > 0)
        return 0;
    double sum = s->duration_ns == TT_NEVER ? 0 : per_ns * (double)s->duration_ns;
    if (s->request_limit > 0 && (sum <= 0 || sum > (double)s->request_limit))
        sum = (double)s->request_limit;
    return sum - per_ns * (double)s->warm_up_ns;
}

/* Late requests that wait for their turn, if all of them count. */
static int64_t count_late(const struct tt_bad_share *self, const struct tt_mechanism *mechanism) {
    const struct tt_heap_entry *oldest = tt_heap_top(&mechanism->by_age);
    return oldest && oldest->key >= self->scenario->warm_up_ns ? mechanism->by_age.count : 0;
}

/* Takes the numbers of an earlier run at another rate. All gaps are longer or shorter in
 * proportion, so that the first `request_limit` requests are the same ones, except where two of
 * different models were rounded to another order at the end: these are allowed for. A duration that
 * ends the run earlier only lowers the numbers. Too high numbers stop a run late, never wrongly. */
static bool take_counted(struct tt_bad_share *self) {
    const struct tt_scenario *s = self->scenario;
    if (!s->kept_gaps || !s->kept_gaps->requests)
        return false;
    for (int32_t m = 0; m < s->model_count; m++)
        self->counted[m] = s->kept_gaps->requests[m] + ROUNDED;
    self->counted_sum = s->request_limit;
    return true;
}

static void keep_counted(const struct tt_bad_share *self) {
    const struct tt_scenario *s = self->scenario;
    bool is_limited = s->request_limit > 0 && self->counted_sum == s->request_limit;
    if (!s->kept_gaps || s->warm_up_ns > 0 || !is_limited)
        return;
    size_t count = (size_t)s->model_count;
    s->kept_gaps->requests = tt_allocate(count, sizeof(*s->kept_gaps->requests));
    memcpy(s->kept_gaps->requests, self->counted, count * sizeof(*self->counted));
}

static void count(struct tt_bad_share *self) {
    const struct tt_scenario *s = self->scenario;
    struct tt_arrival_source source;
    struct tt_sim_arrival arrival;
    struct tt_error why;
    self->counted = tt_allocate((size_t)s->model_count, sizeof(*self->counted));
    if (take_counted(self))
        return;
    self->is_unknown = tt_arrival_source_open(&source, s, &why) != TT_OK;
    if (self->is_unknown)
        return;
    while (tt_arrival_source_next(&source, &arrival)) {
        bool counts = arrival.at - arrival.elapsed_ns >= s->warm_up_ns;
        self->counted[arrival.model] += counts;
        self->counted_sum += counts;
    }
    tt_arrival_source_close(&source);
    keep_counted(self);
}

/* The same quotient as that of a whole run, so that both judge alike. */
static bool is_above(int64_t bad, int64_t all, double share) {
    return all > 0 && (double)bad / (double)all > share;
}

bool tt_bad_share_exceeded(struct tt_bad_share *self, const struct tt_measure *measure,
                           const struct tt_mechanism *mechanism) {
    const struct tt_scenario *s = self->scenario;
    int64_t sum = count_late(self, mechanism), weights = 0;
    double expected = self->counted ? 0 : expected_sum(s) * self->share;
    bool may_be = false, is = false;
    for (int32_t m = 0; m < s->model_count; m++)
        weights += s->models[m].weight;
    for (int32_t m = 0; m < s->model_count; m++) {
        int64_t bad = tt_measure_bad(&measure->models[m]);
        sum += bad;
        if (self->counted)
            is |= is_above(bad, self->counted[m], self->share);
        else
            may_be |= (double)bad * (double)weights > expected * (double)s->models[m].weight;
    }
    if (self->counted && !self->is_unknown)
        return is || is_above(sum, self->counted_sum, self->share);
    if (self->counted || !(may_be || (double)sum > expected))
        return false;
    count(self);
    return tt_bad_share_exceeded(self, measure, mechanism);
}
