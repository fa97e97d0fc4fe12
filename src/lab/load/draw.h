/* Random variates by integer arithmetic: exponential and Gamma gaps that are equal, bit for bit, on
 * every machine and compiler, because no floating point and no mathematical library is used.
 *
 * Everything is built on log2 and 2^x in fixed point, Q40 (40 fractional bits). A table of 256
 * entries reduces the argument to a factor within 2^-8 of one; a short series does the rest. The
 * table is computed by repeated squaring. Both functions are accurate to about 2^-38 (tested
 * against known values and each other).
 *
 * Exponential: -log2 u, u uniform on 64 bits. Gamma(a), a > 1: Cheng's rejection method GB, which
 * needs only logarithms and exponentials. Gamma(a), a <= 1: Gamma(a + 1) * U^(1/a), computed in the
 * logarithm, so shapes down to 0.01 and values down to 2^-1000 keep their precision until they are
 * rounded to nanoseconds. */
#ifndef TT_LAB_LOAD_DRAW_H
#define TT_LAB_LOAD_DRAW_H

#include "base/prng.h"

#include <stdint.h>

enum { TT_DRAW_FRACTION_BITS = 40 };
#define TT_DRAW_ONE (INT64_C(1) << TT_DRAW_FRACTION_BITS)
#define TT_DRAW_LN2 INT64_C(762123384786) /* ln 2 in Q40 */

struct tt_draw_tables {
    int64_t log2_q40[257];     /* log2(1 + i/256) */
    uint64_t inverse_q63[257]; /* 2^63 / (1 + i/256) */
    uint64_t power_q62[257];   /* 2^62 * 2^(-i/256) */
};

void tt_draw_tables_init(struct tt_draw_tables *self);

/* log2(value), value >= 1; Q40. */
int64_t tt_draw_log2(const struct tt_draw_tables *self, uint64_t value);
/* factor * 2^x, x in Q40, rounded down; saturates at INT64_MAX. factor >= 0. */
int64_t tt_draw_scale_exp2(const struct tt_draw_tables *self, int64_t factor, int64_t x_q40);

/* An exponential variate, Q40, of mean TT_DRAW_ONE. */
int64_t tt_draw_exponential(const struct tt_draw_tables *self, struct tt_prng *prng);

/* The constants of Cheng's method for a shape. */
struct tt_draw_gamma {
    int64_t shape_q32; /* as requested */
    int64_t a_q32;     /* the shape drawn from: shape, or shape + 1 where shape <= 1 */
    int64_t log2_a_q40;
    int64_t b_q32, c_q32, lambda_q32;
    int64_t scale_q40; /* 1 / shape */
};

/* `shape_ppm` in millionths, 10000 (0.01) .. 1000000000 (1000). */
void tt_draw_gamma_init(struct tt_draw_gamma *self, const struct tt_draw_tables *tables,
                        int64_t shape_ppm);
/* A variate of mean one (scale 1 / shape), Q40, saturating. */
int64_t tt_draw_gamma_unit(const struct tt_draw_gamma *self, const struct tt_draw_tables *tables,
                           struct tt_prng *prng);

#endif
