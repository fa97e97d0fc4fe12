#include "lab/load/draw.h"

#include "base/err.h"

/* The fractional bits of log2(x), x in [1, 2) as Q62, by repeated squaring. The only error is the
 * rounding of the squares, which 62 bits keep far below the required 40. */
static int64_t log2_bits(uint64_t x_q62) {
    int64_t result = 0;
    for (int32_t bit = TT_DRAW_FRACTION_BITS + 4; bit > 0; bit--) {
        unsigned __int128 square = (unsigned __int128)x_q62 * x_q62;
        x_q62 = (uint64_t)(square >> 62);
        result <<= 1;
        if (x_q62 >> 63) {
            x_q62 >>= 1;
            result |= 1;
        }
    }
    return (result + 8) >> 4;
}

static uint64_t square_root(unsigned __int128 value) {
    unsigned __int128 root = 0;
    for (int32_t bit = 63; bit >= 0; bit--) {
        unsigned __int128 tried = root | ((unsigned __int128)1 << bit);
        if (tried * tried <= value)
            root = tried;
    }
    return (uint64_t)root;
}

void tt_draw_tables_init(struct tt_draw_tables *self) {
    for (int32_t i = 0; i <= 256; i++) {
        uint64_t one_plus = (uint64_t)i + 256; /* over 256 */
        self->log2_q40[i] = i == 256 ? TT_DRAW_ONE : log2_bits(one_plus << (62 - 8));
        self->inverse_q63[i] =
            (uint64_t)((((unsigned __int128)1 << (63 + 8)) + one_plus / 2) / one_plus);
    }
    /* 2^(-1/256) by eight square roots of 1/2, then products. */
    uint64_t step_q62 = UINT64_C(1) << 61;
    for (int32_t i = 0; i < 8; i++)
        step_q62 = square_root((unsigned __int128)step_q62 << 62);
    self->power_q62[0] = UINT64_C(1) << 62;
    for (int32_t i = 1; i <= 256; i++) {
        unsigned __int128 product = (unsigned __int128)self->power_q62[i - 1] * step_q62;
        self->power_q62[i] = (uint64_t)((product + (UINT64_C(1) << 61)) >> 62);
    }
}

static inline int64_t log2_of(const struct tt_draw_tables *self, uint64_t value) {
    tt_assert(value > 0);
    int32_t exponent = 63 - __builtin_clzll(value);
    uint64_t mantissa_q63 = value << (63 - exponent); /* [1, 2) */
    uint32_t index = (uint32_t)(mantissa_q63 >> 55) & 255;
    /* mantissa / (1 + index/256) = 1 + r, 0 <= r < 2^-8; r in Q60, so that r * r fits. */
    unsigned __int128 ratio_q126 = (unsigned __int128)mantissa_q63 * self->inverse_q63[index];
    int64_t r_q60 = (int64_t)(ratio_q126 >> 66) - (INT64_C(1) << 60);
    /* ln(1 + r) = r - r^2/2 + r^3/3 - r^4/4 + ..., the next term is below 2^-42. */
    int64_t r2 = (int64_t)(((__int128)r_q60 * r_q60) >> 60);
    int64_t r3 = (int64_t)(((__int128)r2 * r_q60) >> 60);
    int64_t r4 = (int64_t)(((__int128)r3 * r_q60) >> 60);
    int64_t ln_q60 = r_q60 - r2 / 2 + r3 / 3 - r4 / 4;
    /* times 1 / ln 2 (Q62), to Q40 */
    const int64_t inverse_ln2_q61 = INT64_C(3326628274461080623);
    int64_t log2_q40 = (int64_t)(((__int128)ln_q60 * inverse_ln2_q61) >> 81);
    return ((int64_t)exponent << TT_DRAW_FRACTION_BITS) + self->log2_q40[index] + log2_q40;
}

int64_t tt_draw_log2(const struct tt_draw_tables *self, uint64_t value) {
    return log2_of(self, value);
}

int64_t tt_draw_scale_exp2(const struct tt_draw_tables *self, int64_t factor, int64_t x_q40) {
    tt_assert(factor >= 0);
    /* x = whole - fraction, 0 <= fraction < 1. */
    int64_t whole = -((-x_q40) >> TT_DRAW_FRACTION_BITS);
    int64_t fraction = whole * TT_DRAW_ONE - x_q40;
    if (fraction < 0) { /* the shift rounded down */
        whole++;
        fraction += TT_DRAW_ONE;
    }
    if (whole < -126)
        return 0;
    uint32_t index = (uint32_t)(fraction >> (TT_DRAW_FRACTION_BITS - 8));
    int64_t rest_q40 = fraction & ((INT64_C(1) << (TT_DRAW_FRACTION_BITS - 8)) - 1);
    /* 2^-rest = e^-y, y = rest ln 2 < 2^-8.5 */
    int64_t y = (int64_t)(((__int128)rest_q40 * TT_DRAW_LN2) >> 20); /* Q60 */
    int64_t y2 = (int64_t)(((__int128)y * y) >> 60);
    int64_t y3 = (int64_t)(((__int128)y2 * y) >> 60);
    int64_t y4 = (int64_t)(((__int128)y3 * y) >> 60);
    uint64_t e_q60 = (uint64_t)((INT64_C(1) << 60) - y + y2 / 2 - y3 / 6 + y4 / 24);
    uint64_t power_q62 =
        (uint64_t)(((unsigned __int128)self->power_q62[index] * e_q60) >> 60);   /* (1/2, 1] */
    unsigned __int128 product = (unsigned __int128)(uint64_t)factor * power_q62; /* < 2^126 */
    int64_t shift = 62 - whole;
    if (shift >= 0)
        product = shift < 128 ? product >> shift : 0;
    else if (product != 0)
        return -shift > 62
                   ? INT64_MAX
                   : (product >> (126 + shift) != 0 ? INT64_MAX : (int64_t)(product << -shift));
    return product > INT64_MAX ? INT64_MAX : (int64_t)product;
}

/* -log2(u), u uniform in (0, 1]; Q40. */
static inline int64_t minus_log2_uniform(const struct tt_draw_tables *tables,
                                         struct tt_prng *prng) {
    uint64_t bits = tt_prng_next(prng);
    int64_t log2 = bits ? log2_of(tables, bits) : 0;
    return (INT64_C(64) << TT_DRAW_FRACTION_BITS) - log2;
}

int64_t tt_draw_exponential(const struct tt_draw_tables *self, struct tt_prng *prng) {
    return (int64_t)(((__int128)minus_log2_uniform(self, prng) * TT_DRAW_LN2) >> 40);
}

/* ---- Gamma, by R. C. H. Cheng, Applied Statistics 26 (1977), algorithm GB ---- */

static int64_t multiply_q32(int64_t a, int64_t b) { return (int64_t)(((__int128)a * b) >> 32); }

void tt_draw_gamma_init(struct tt_draw_gamma *self, const struct tt_draw_tables *tables,
                        int64_t shape_ppm) {
    tt_assert(shape_ppm >= 10000 && shape_ppm <= 1000000000);
    const int64_t one_q32 = INT64_C(1) << 32;
    const int64_t ln4_q32 = INT64_C(5954088943);
    self->shape_q32 = (int64_t)(((__int128)shape_ppm << 32) / 1000000);
    self->a_q32 = shape_ppm > 1000000 ? self->shape_q32 : self->shape_q32 + one_q32;
    int64_t a = self->a_q32;
    self->log2_a_q40 = tt_draw_log2(tables, (uint64_t)a) - (INT64_C(32) << 40);
    self->b_q32 = a - ln4_q32;
    /* lambda = sqrt(2a - 1), c = a + lambda */
    self->lambda_q32 = (int64_t)square_root((unsigned __int128)(2 * a - one_q32) << 32);
    self->c_q32 = a + self->lambda_q32;
    self->scale_q40 = (int64_t)(((__int128)1 << 72) / self->shape_q32);
}

/* log2 of a Gamma(a) variate, a > 1; Q40. */
static int64_t gamma_log2(const struct tt_draw_gamma *self, const struct tt_draw_tables *tables,
                          struct tt_prng *prng) {
    const int64_t v_limit_q32 = INT64_C(12) << 32; /* beyond, X = a e^V is rejected in any case */
    for (;;) {
        uint64_t u1 = tt_prng_next(prng);
        uint64_t u2 = tt_prng_next(prng);
        if (u1 == 0 || u1 == UINT64_MAX || u2 == 0)
            continue;
        int64_t log2_u1 = tt_draw_log2(tables, u1), log2_rest = tt_draw_log2(tables, ~u1);
        int64_t logit_q40 = (int64_t)(((__int128)(log2_u1 - log2_rest) * TT_DRAW_LN2) >> 40);
        int64_t v_q32 = (int64_t)((logit_q40 * ((__int128)1 << 24)) / self->lambda_q32);
        if (v_q32 > v_limit_q32)
            continue;
        /* log2 X = log2 a + V / ln 2 */
        int64_t log2_x_q40 =
            self->log2_a_q40 + (int64_t)((v_q32 * ((__int128)1 << 48)) / TT_DRAW_LN2);
        int64_t x_q32 = tt_draw_scale_exp2(tables, INT64_C(1) << 32, log2_x_q40);
        int64_t r_q32 = self->b_q32 + multiply_q32(self->c_q32, v_q32) - x_q32;
        /* accepted when R >= ln(u1^2 u2); the uniforms are over 2^64 */
        int64_t log2_z_q40 = 2 * log2_u1 + tt_draw_log2(tables, u2) - (INT64_C(192) << 40);
        int64_t ln_z_q32 = (int64_t)(((__int128)log2_z_q40 * TT_DRAW_LN2) >> 48);
        if (r_q32 >= ln_z_q32)
            return log2_x_q40;
    }
}

int64_t tt_draw_gamma_unit(const struct tt_draw_gamma *self, const struct tt_draw_tables *tables,
                           struct tt_prng *prng) {
    int64_t log2_q40 = gamma_log2(self, tables, prng);
    if (self->a_q32 != self->shape_q32) {
        __int128 boost = ((__int128)minus_log2_uniform(tables, prng) << 32) / self->shape_q32;
        log2_q40 -= (int64_t)boost;
    }
    return tt_draw_scale_exp2(tables, self->scale_q40, log2_q40);
}
