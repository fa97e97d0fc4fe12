/* Elastic: E2bird (E1, E2, E4, E5).
 *
 * A device holds the inputs of requests in a ring of slots, to which each is sent alone as soon as
 * it arrives; executors are *workers*, each for batches of one size, a power of two. As soon as
 * inputs are there (`ready`), idle workers take ranges of them from the oldest on: no request waits
 * for company, and several batches run at once, large ones when much is waiting, small ones when
 * little is.
 *
 * Life of a decision (algorithm 1). R = min(ready rows that wait, max_inf - rows that run). The
 * idle workers are looked at from the largest to the smallest (equal sizes: smallest id); the first
 * whose size is at most R takes the next range of just its size, R falls by that, and the search
 * goes on from there, until R or the workers run out. With `variant: enhanced` (algorithm 2) only
 * the workers of the configuration that belongs to the load count: the best choice of workers
 * (elastic_plan.h) for the largest power of two that is at most the load. Below the smallest such
 * total the workers of size 1 and 2 count, as in the paper. Load is what is in the pool and not
 * done: `load: pending`; or only what waits there: `load: waiting`.
 *
 * Readings, where the paper is silent. Rounding the load up would leave requests waiting for a
 * worker that never fills, so it is rounded down. A range is a run of adjacent slots: the ring's
 * end, or a slot whose request went away, cuts it, and R counts only what is before the cut; in the
 * enhanced variant such a range is a load of its own, since it cannot grow. A request of several
 * rows is not divided: workers take whole requests up to their size, the smallest worker that holds
 * the oldest one does not wait until it is full, and a request with more rows than any worker goes
 * to the largest (elastic_workers.h); if none of a configuration's workers holds the oldest
 * request, the smallest that do count too. When nothing runs and still something waits (the workers
 * that would take it are gone, it has more rows than `max_inf`), the smallest that can hold it
 * takes it, else the largest. Several models: the model with the oldest request first, then the
 * others by number; ranges are of one model, `max_inf` counts all.
 *
 * Options: `workers` (1,1,2,4,8,16: a size for each executor, by number; not given: 1, 1, 2,
 * 4, ...; where all requests have 8 rows, sizes below 8 would idle), `max_inf` (not
 * given: the sum of the sizes), `variant`, `configurations` (4;4,4;8,8,16: the workers that count
 * at each load, as a measurement on the device itself found them, for all models; else each model's
 * follow from its profile), `load`, `drop` (heads that cannot finish in time even if
 * they ran alone at once).
 *
 * Most decisions can hand out nothing, and the policy knows it: after one that did not, nothing is
 * news but a worker that fell idle, a queue that lost somebody, and one that grew as far as the
 * smallest idle worker that counts, or the next load. Without news a decision costs a few
 * instructions; one that hands out nothing, a few per model with a queue, whatever waits there; one
 * that does, O(rows taken). */
#ifndef TT_POLICY_ELASTIC_ELASTIC_H
#define TT_POLICY_ELASTIC_ELASTIC_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_elastic_kind;

#endif
