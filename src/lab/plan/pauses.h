/* What other programs take from the processors: how long threads are interrupted, and how often.
 *
 * _measure runs a thread of nothing but clock reads on every processor, and notes the gaps. _spans
 * makes perturbations of simulated devices from them: spans of full speed and of standstill, whose
 * lengths are drawn from the measured ones, and which leave the measured share. */
#ifndef TT_LAB_PLAN_PAUSES_H
#define TT_LAB_PLAN_PAUSES_H

#include "base/err.h"
#include "sim/perturbation.h"

#include <signal.h>

/* A shorter gap is not a pause: interrupts and page faults last as long. */
#define TT_PLAN_PAUSE_NS 200000

struct tt_plan_pauses {
    int64_t *lengths_ns; /* [count], owned */
    int64_t count;
};

/* In `processors` child processes at once, for `duration_ns`. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_pauses_measure(int32_t processors, int64_t duration_ns,
                                                 const volatile sig_atomic_t *stop,
                                                 struct tt_plan_pauses *out_pauses,
                                                 struct tt_error *why);
void tt_plan_pauses_fini(struct tt_plan_pauses *self);
/* Spans from instant 0 until `until_at` in which the devices have `share` (0 .. 1) of the time; one
 * span at that speed if no pause was seen. The caller frees `*out_spans`, which is NULL if the
 * share is 1. Returns their number. */
int32_t tt_plan_pauses_spans(const struct tt_plan_pauses *self, double share, int64_t until_at,
                             uint64_t seed, struct tt_perturbation **out_spans);

#endif
