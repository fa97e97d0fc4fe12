#include "lab/plan/pauses.h"

#include "base/clock.h"
#include "base/prng.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"

#include <stdlib.h>

enum { MAX_SPANS = 1 << 21 };

struct spinning {
    int64_t duration_ns;
    struct tt_plan_pauses *pauses;
};

static void spin(void *context, int32_t index, struct tt_text *result) {
    (void)index;
    const struct spinning *self = context;
    int64_t last = tt_clock_now(), until = last + self->duration_ns;
    while (last < until) {
        int64_t now = tt_clock_now();
        if (now - last >= TT_PLAN_PAUSE_NS)
            tt_text_printf(result, "%lld ", (long long)(now - last));
        last = now;
    }
}

static void take(void *context, int32_t index, const char *result) {
    (void)index;
    struct tt_plan_pauses *out = ((struct spinning *)context)->pauses;
    char *end;
    for (long long length; (length = strtoll(result, &end, 10)) > 0; result = end) {
        out->lengths_ns = tt_reallocate(out->lengths_ns, (size_t)out->count + 1, sizeof(int64_t));
        out->lengths_ns[out->count++] = length;
    }
}

enum tt_err tt_plan_pauses_measure(int32_t processors, int64_t duration_ns,
                                   const volatile sig_atomic_t *stop,
                                   struct tt_plan_pauses *out_pauses, struct tt_error *why) {
    struct tt_plan_pauses pauses = {0};
    struct spinning spinning = {.duration_ns = duration_ns, .pauses = &pauses};
    struct tt_jobs jobs = {.count = processors,
                           .workers = processors,
                           .context = &spinning,
                           .work = spin,
                           .done = take,
                           .stop = stop};
    enum tt_err err = tt_jobs_run(&jobs, why);
    if (err)
        tt_plan_pauses_fini(&pauses);
    else
        *out_pauses = pauses;
    return err;
}

void tt_plan_pauses_fini(struct tt_plan_pauses *self) {
    free(self->lengths_ns);
    *self = (struct tt_plan_pauses){0};
}

int32_t tt_plan_pauses_spans(const struct tt_plan_pauses *self, double share, int64_t until_at,
                             uint64_t seed, struct tt_perturbation **out_spans) {
    *out_spans = NULL;
    if (share >= 1)
        return 0;
    if (self->count == 0) {
        *out_spans = tt_allocate(1, sizeof(**out_spans));
        **out_spans = (struct tt_perturbation){.until_at = until_at,
                                               .speed_permille = (int32_t)(share * 1000 + 0.5)};
        return 1;
    }
    double sum_ns = 0;
    for (int64_t i = 0; i < self->count; i++)
        sum_ns += (double)self->lengths_ns[i];
    double run_ns = sum_ns / (double)self->count * share / (1 - share);
    int64_t capacity = 0, at = 0;
    int32_t count = 0;
    struct tt_prng prng;
    tt_prng_init(&prng, seed, UINT64_C(0x7061757365730000));
    while (at < until_at && count < MAX_SPANS) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            *out_spans = tt_reallocate(*out_spans, (size_t)capacity, sizeof(**out_spans));
        }
        at += 1 + (int64_t)tt_prng_below(&prng, (uint64_t)(2 * run_ns) + 1);
        int64_t pause_ns = self->lengths_ns[tt_prng_below(&prng, (uint64_t)self->count)];
        (*out_spans)[count++] =
            (struct tt_perturbation){.from_at = at, .until_at = at + pause_ns, .speed_permille = 0};
        at += pause_ns;
    }
    return count;
}
