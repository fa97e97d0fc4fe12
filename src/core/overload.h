/* Early refusal: how many rows a model's batches must hold so that it serves what it can serve, and
 * whether requests must be given up for that.
 *
 * Under overload the oldest waiting request has hardly any time left. A policy that keeps it runs a
 * batch so small that the next one is no larger: the goodput collapses. Or it runs a large batch in
 * which the oldest are late. So under overload the mechanism gives up a waiting request when it
 * could not be in time in a batch of `target` rows, or of all waiting rows if these are fewer.
 *
 *     target = the largest b with tail(b) + (2 N / (N + 1)) b / r <= SLO
 *
 * r is the rate at which rows are served by N executors, so b / r the mean time between two
 * batches. A head that waits for the next batch is then just in time. One executor is regular; the
 * starts of several are not evenly spaced, and the wait is up to twice the mean. Larger batches
 * serve more, so r and the target rise together until the SLO stops them. r is a mean over some
 * windows.
 *
 * Overload: in a window one request in 64 or more was lost (refused, dropped, or computed and
 * late). It ends after four windows without.
 *
 * Life: one per model, all zero at first; counts are added as requests arrive and end; a window is
 * closed by the first arrival after its end. Pure; integers only; allocates nothing. */
#ifndef TT_CORE_OVERLOAD_H
#define TT_CORE_OVERLOAD_H

#include "core/step_model.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_overload {
    int64_t window_at;             /* when the present window began */
    int64_t offered, served, lost; /* rows of the window */
    int64_t rate_mhz;              /* r, in rows per 1000 s */
    int32_t target;                /* rows; 0: no overload */
    int32_t windows_left;          /* without losses, until the overload has ended */
};

/* A request of `rows` rows arrives at `now`. Closes the window if it is over: O(log max_batch)
 * then, else O(1). */
void tt_overload_close(struct tt_overload *self, int64_t now, const struct tt_step_model *model,
                       int32_t length, int32_t executors);
static inline bool tt_overload_is_over(const struct tt_overload *self, int64_t now,
                                       const struct tt_step_model *model) {
    return now - self->window_at >= model->slo_ns && now > self->window_at;
}
static inline void tt_overload_arrived(struct tt_overload *self, int64_t now,
                                       const struct tt_step_model *model, int32_t rows,
                                       int32_t length, int32_t executors) {
    if (tt_overload_is_over(self, now, model))
        tt_overload_close(self, now, model, length, executors);
    self->offered += rows;
}
static inline void tt_overload_served(struct tt_overload *self, int32_t rows) {
    self->served += rows;
}
/* Dropped for its deadline, or computed and late (then it is served as well). */
static inline void tt_overload_lost(struct tt_overload *self, int32_t rows) { self->lost += rows; }

#endif
