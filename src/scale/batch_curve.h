/* How long a batch takes by its rows, in a few values: what advice about devices needs of a
 * profile, copied so that no thread holds on to the profile itself.
 *
 * It keeps the latencies at 1, 2, 4 ... rows and at the largest batch, and is linear in between.
 * Between integers it stands for the mean over batches of both sizes. Floats: no decision of the
 * scheduler depends on them. Implemented in batch_curve.c. */
#ifndef TT_SCALE_BATCH_CURVE_H
#define TT_SCALE_BATCH_CURVE_H

#include "core/profile.h"

#include <stdbool.h>

enum { TT_BATCH_CURVE_POINTS = 14 }; /* 1, 2, 4 ... 4096, and the largest */

struct tt_batch_curve {
    int32_t count;                          /* of points, >= 1 */
    double rows[TT_BATCH_CURVE_POINTS];     /* ascending, from 1 */
    double centre_s[TT_BATCH_CURVE_POINTS]; /* work: the usual latency */
    double tail_s[TT_BATCH_CURVE_POINTS];   /* promises: a high quantile of it */
};

/* Of inputs of `length`, up to `max_batch` rows (1 .. the profile's). */
struct tt_batch_curve tt_batch_curve_of(const struct tt_profile *profile, int32_t length,
                                        int32_t max_batch);
/* The largest batch. */
static inline double tt_batch_curve_end(const struct tt_batch_curve *self) {
    return self->rows[self->count - 1];
}
/* Seconds for 1 .. _end() rows. */
double tt_batch_curve_centre(const struct tt_batch_curve *self, double rows);
double tt_batch_curve_tail(const struct tt_batch_curve *self, double rows);

#endif
