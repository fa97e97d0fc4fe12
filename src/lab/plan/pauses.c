#include "lab/plan/pauses.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/prng.h"
#include "lab/scenario/allocate.h"
#include "lab/sweep/jobs.h"

#include <stdlib.h>
#include <time.h>

enum { MAX_SPANS = 1 << 21 };

#define TURN_NS TT_MS

struct spinning {
    int64_t duration_ns;
    const volatile sig_atomic_t *stop;
    struct tt_plan_pauses *pauses;
};

/* Notes by how much the step that began at `from` took longer than `asked_ns`. Returns now. */
static int64_t note(struct tt_text *result, int64_t from, int64_t asked_ns) {
    int64_t now = tt_clock_now(), over_ns = now - from - asked_ns;
    if (over_ns >= TT_PLAN_PAUSE_NS)
        tt_text_printf(result, "%lld ", (long long)over_ns);
    return now;
}

static void spin(void *context, int32_t index, struct tt_text *result) {
    (void)index;
    const struct spinning *self = context;
    int64_t now = tt_clock_now(), until = now + self->duration_ns;
    while (now < until && !(self->stop && *self->stop)) {
        int64_t busy_until = now + TURN_NS;
        while (now < busy_until)
            now = note(result, now, 0);
        struct timespec sleep = {.tv_nsec = TURN_NS};
        nanosleep(&sleep, NULL);
        now = note(result, now, TURN_NS);
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
    struct tt_plan_pauses pauses = {.observed_ns = processors * duration_ns};
    struct spinning spinning = {.duration_ns = duration_ns, .stop = stop, .pauses = &pauses};
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

int32_t tt_plan_pauses_spans(const struct tt_plan_pauses *self, double share, int64_t stall_ns,
                             int64_t until_at, uint64_t seed, struct tt_perturbation **out_spans) {
    double paused_ns = 0, observed_ns = (double)self->observed_ns;
    int32_t count = 0, capacity = 0;
    struct tt_perturbation *spans = NULL;
    for (int64_t i = 0; i < self->count; i++)
        paused_ns += (double)self->lengths_ns[i];
    double running_ns = paused_ns < observed_ns ? observed_ns - paused_ns : 0;
    double left = self->count > 0 ? running_ns / observed_ns : 1;
    double speed = share < left ? share / left : 1;
    uint64_t gap_ns = self->count > 0 ? (uint64_t)(2 * running_ns / (double)self->count) + 1 : 0;
    struct tt_prng prng;
    tt_prng_init(&prng, seed, UINT64_C(0x7061757365730000));
    if (stall_ns > 0) {
        spans = tt_allocate(1, sizeof(*spans));
        spans[0] = (struct tt_perturbation){.until_at = stall_ns};
        count = capacity = 1;
    }
    for (int64_t at = stall_ns; at < until_at && count < MAX_SPANS && (speed < 1 || gap_ns > 0);) {
        if (count + 2 > capacity) {
            capacity = capacity > 1 ? 2 * capacity : 1024;
            spans = tt_reallocate(spans, (size_t)capacity, sizeof(*spans));
        }
        int64_t run_until = gap_ns > 0 ? at + 1 + (int64_t)tt_prng_below(&prng, gap_ns) : until_at;
        if (speed < 1)
            spans[count++] = (struct tt_perturbation){
                .from_at = at, .until_at = run_until, .speed_permille = 1 + (int32_t)(speed * 999)};
        at = run_until;
        if (gap_ns == 0)
            break;
        int64_t pause_ns = self->lengths_ns[tt_prng_below(&prng, (uint64_t)self->count)];
        spans[count++] = (struct tt_perturbation){.from_at = at, .until_at = at + pause_ns};
        at += pause_ns;
    }
    *out_spans = spans;
    return count;
}
