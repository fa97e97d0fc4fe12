/* What other programs take from the processors: how long threads are interrupted, and how often.
 *
 * _measure runs a process per processor that is busy half of the time, as a server's threads are,
 * and notes by how much its turns and its sleeps are longer than asked for. _spans makes
 * perturbations of simulated devices from them: spans of standstill, as long and as frequent as the
 * measured pauses, and spans between them at the speed that leaves the measured share. */
#ifndef TT_LAB_PLAN_PAUSES_H
#define TT_LAB_PLAN_PAUSES_H

#include "base/err.h"
#include "core/perturbation.h"

#include <signal.h>

/* A shorter gap is not a pause: interrupts and page faults last as long. */
#define TT_PLAN_PAUSE_NS 200000

struct tt_plan_pauses {
    int64_t *lengths_ns; /* [count], owned */
    int64_t count;
    int64_t observed_ns; /* by all processes together */
};

/* In `processors` child processes at once, for `duration_ns`. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_plan_pauses_measure(int32_t processors, int64_t duration_ns,
                                                 const volatile sig_atomic_t *stop,
                                                 struct tt_plan_pauses *out_pauses,
                                                 struct tt_error *why);
void tt_plan_pauses_fini(struct tt_plan_pauses *self);
/* Spans from instant 0 until `until_at`: first a standstill of `stall_ns` (0: none), then spans in
 * which the devices have `share` (0 .. 1) of the time, or what the pauses leave of it if that is
 * less. The caller frees `*out_spans`; NULL: nothing slows them. Returns their number. */
int32_t tt_plan_pauses_spans(const struct tt_plan_pauses *self, double share, int64_t stall_ns,
                             int64_t until_at, uint64_t seed, struct tt_perturbation **out_spans);

#endif
