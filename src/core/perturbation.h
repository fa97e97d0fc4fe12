/* Spans of time in which simulated and emulated devices run at another speed than their profiles
 * say: a profile that is wrong, a device that is slow for a while, or one that stops.
 *
 * A step does its work at the speed of each span that it runs through. A span `at_start` applies to
 * the steps that begin in it, for all of their work, and to no other. A
 * span that `jumps` is a jump of the clock, as when the machine was suspended: devices stand still,
 * and whatever happens in the span is seen at its end. Pure; integers only. */
#ifndef TT_CORE_PERTURBATION_H
#define TT_CORE_PERTURBATION_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_SPEED_NORMAL = 1000 };

struct tt_perturbation {
    int64_t from_at, until_at; /* from < until; spans ascend and do not overlap */
    int32_t speed_permille;    /* 500: everything takes twice as long; 0: nothing proceeds */
    bool at_start;             /* then speed_permille > 0 */
    bool jumps;                /* then speed_permille is 0 */
};

/* When what happens at `at` is seen: the end of the span if that jumps, else at once. */
int64_t tt_perturbation_seen_at(const struct tt_perturbation *spans, int32_t count, int64_t at);
/* The instant at which work of `work_ns` that begins at `at` ends. */
int64_t tt_perturbation_end(const struct tt_perturbation *spans, int32_t count, int64_t at,
                            int64_t work_ns);

#endif
