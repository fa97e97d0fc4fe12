/* Counts the outcomes of the benchmark's requests: a client of the multicore scheduler.
 *
 * Only requests that arrived within the measured window count for the figures. All count for the
 * contract that each is answered exactly once (`answered`). A request is in time if it ended, on
 * the device's clock, by its real deadline; the scheduler may have an earlier one (margin). Each
 * model thread counts for itself; the sums are valid when the threads have ended. */
#ifndef TT_LAB_BENCH_SCHEDULER_TALLY_H
#define TT_LAB_BENCH_SCHEDULER_TALLY_H

#include "base/threads/counter.h"
#include "multicore/model_thread.h"

struct tt_scheduler_tally_thread {
    _Alignas(64) struct tt_counter answered;
    int64_t in_time, late;
    int64_t dropped[TT_DROP_WITHDRAWN + 1];
    int64_t device_ns; /* of batches */
};

struct tt_scheduler_tally {
    int64_t from_at, to_at; /* the window: from <= arrival < to */
    int64_t margin_ns;
    int32_t thread_count;
    struct tt_scheduler_tally_thread *threads;
};

TT_MUST_CHECK enum tt_err tt_scheduler_tally_init(struct tt_scheduler_tally *self, int32_t threads,
                                                  int64_t from_at, int64_t to_at,
                                                  int64_t margin_ns);
void tt_scheduler_tally_fini(struct tt_scheduler_tally *self);
struct tt_multicore_client tt_scheduler_tally_client(struct tt_scheduler_tally *self);
/* All requests answered so far, inside or outside the window. Any thread. */
int64_t tt_scheduler_tally_answered(const struct tt_scheduler_tally *self);
/* The sum over the threads; none may run. */
struct tt_scheduler_tally_thread tt_scheduler_tally_sum(const struct tt_scheduler_tally *self);

#endif
