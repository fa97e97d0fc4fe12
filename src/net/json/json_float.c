#include "net/json/json_float.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

static double text_to_double(const struct tt_json_number *number) {
    char text[TT_JSON_MAX_NUMBER_BYTES];
    memcpy(text, number->text, number->length);
    text[number->length] = '\0';
    return strtod(text, NULL);
}

static float text_to_float(const struct tt_json_number *number) {
    char text[TT_JSON_MAX_NUMBER_BYTES];
    memcpy(text, number->text, number->length);
    text[number->length] = '\0';
    return strtof(text, NULL);
}

#if LDBL_MANT_DIG == 64
/* 10^27 = 5^27 * 2^27 is the largest power of ten whose significand has 64 bits. */
static const long double powers_of_ten[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                            1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                            1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                            1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* The number in 64 bits, by one correctly rounded operation on exact operands. Rounding the result
 * to fewer bits is correct unless it is exactly halfway there, which its significand shows. */
static bool quick(const struct tt_json_number *number, long double *out,
                  uint64_t *out_significand) {
    if (!number->exact || number->mantissa == 0 || number->exponent10 < -27 ||
        number->exponent10 > 27)
        return false;
    long double value = (long double)number->mantissa;
    value = number->exponent10 < 0 ? value / powers_of_ten[-number->exponent10]
                                   : value * powers_of_ten[number->exponent10];
    memcpy(out_significand, &value, sizeof(*out_significand));
    *out = number->negative ? -value : value;
    return true;
}

bool tt_float_read64(const struct tt_json_number *number, double *out_value) {
    long double value;
    uint64_t significand;
    if (quick(number, &value, &significand) && (significand & 0x7ff) != 0x400)
        *out_value = (double)value;
    else
        *out_value = text_to_double(number);
    return isfinite(*out_value);
}

bool tt_float_read32(const struct tt_json_number *number, float *out_value) {
    long double value;
    uint64_t significand;
    if (quick(number, &value, &significand) &&
        (significand & UINT64_C(0xffffffffff)) != UINT64_C(0x8000000000))
        *out_value = (float)value; /* |value| >= 1e-27: never subnormal */
    else
        *out_value = text_to_float(number);
    return isfinite(*out_value);
}
#else
bool tt_float_read64(const struct tt_json_number *number, double *out_value) {
    *out_value = text_to_double(number);
    return isfinite(*out_value);
}

bool tt_float_read32(const struct tt_json_number *number, float *out_value) {
    *out_value = text_to_float(number);
    return isfinite(*out_value);
}
#endif

/* The number truncated to 53 bits, with the last bit set if bits were lost ("round to odd").
 * Rounding that to far fewer bits gives the same result as rounding the number itself. */
static double text_to_odd(const struct tt_json_number *number) {
    int mode = fegetround();
    fesetround(FE_DOWNWARD);
    double down = text_to_double(number);
    fesetround(FE_UPWARD);
    double up = text_to_double(number);
    fesetround(mode);
    if (down == up)
        return down;
    uint64_t bits;
    memcpy(&bits, &down, sizeof(bits));
    if (!(bits & 1))
        memcpy(&bits, &up, sizeof(bits));
    double odd;
    memcpy(&odd, &bits, sizeof(odd));
    return odd;
}

/* Rounds to `fraction_bits` of fraction and the exponent range [lowest, highest], half to even.
 * Sets `out_tie` if the value is exactly halfway. Returns the bits without the sign. */
static uint32_t round_narrow(double value, int fraction_bits, int lowest, int highest,
                             bool *out_tie) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    *out_tie = false;
    if (exponent == -1023)
        return 0; /* zero, or a double far below the smallest narrow value */
    int shift = 52 - fraction_bits;
    if (exponent < lowest)
        shift += lowest - exponent;
    if (shift > 54)
        return 0;
    uint64_t kept = significand >> shift, cut = significand & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    *out_tie = cut == half;
    kept += cut > half || (cut == half && (kept & 1));
    uint32_t biased = exponent < lowest ? 0 : (uint32_t)(exponent - lowest);
    if (biased > (uint32_t)(highest - lowest))
        biased = (uint32_t)(highest - lowest) + 1;
    /* The hidden bit of a normal number carries into the exponent field, as does a round-up over
     * its end. */
    return (biased << fraction_bits) + (uint32_t)kept;
}

static bool read_narrow(const struct tt_json_number *number, int fraction_bits, int lowest,
                        int highest, uint16_t *out_bits) {
    double value;
    bool tie;
    if (!tt_float_read64(number, &value))
        return false;
    uint32_t bits = round_narrow(value, fraction_bits, lowest, highest, &tie);
    if (tie) /* the double may have been rounded to halfway */
        bits = round_narrow(text_to_odd(number), fraction_bits, lowest, highest, &tie);
    if (bits >> fraction_bits > (uint32_t)(highest - lowest) + 1)
        return false;
    *out_bits = (uint16_t)(bits | (number->negative ? 0x8000u : 0u));
    return true;
}

bool tt_float_read16(const struct tt_json_number *number, uint16_t *out_bits) {
    return read_narrow(number, 10, -14, 15, out_bits);
}

bool tt_float_read_bf16(const struct tt_json_number *number, uint16_t *out_bits) {
    return read_narrow(number, 7, -126, 127, out_bits);
}

float tt_float_from16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)fraction, -24)
                                      : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

float tt_float_from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* --- writing --- */

/* 10^k for k = -31 .. 45, scaled to 64 bits and rounded up. */
static const uint64_t scaled_powers[] = {
    0x81ceb32c4b43fcf5, 0xa2425ff75e14fc32, 0xcad2f7f5359a3b3f, 0xfd87b5f28300ca0e,
    0x9e74d1b791e07e49, 0xc612062576589ddb, 0xf79687aed3eec552, 0x9abe14cd44753b53,
    0xc16d9a0095928a28, 0xf1c90080baf72cb2, 0x971da05074da7bef, 0xbce5086492111aeb,
    0xec1e4a7db69561a6, 0x9392ee8e921d5d08, 0xb877aa3236a4b44a, 0xe69594bec44de15c,
    0x901d7cf73ab0acda, 0xb424dc35095cd810, 0xe12e13424bb40e14, 0x8cbccc096f5088cc,
    0xafebff0bcb24aaff, 0xdbe6fecebdedd5bf, 0x89705f4136b4a598, 0xabcc77118461cefd,
    0xd6bf94d5e57a42bd, 0x8637bd05af6c69b6, 0xa7c5ac471b478424, 0xd1b71758e219652c,
    0x83126e978d4fdf3c, 0xa3d70a3d70a3d70b, 0xcccccccccccccccd, 0x8000000000000000,
    0xa000000000000000, 0xc800000000000000, 0xfa00000000000000, 0x9c40000000000000,
    0xc350000000000000, 0xf424000000000000, 0x9896800000000000, 0xbebc200000000000,
    0xee6b280000000000, 0x9502f90000000000, 0xba43b74000000000, 0xe8d4a51000000000,
    0x9184e72a00000000, 0xb5e620f480000000, 0xe35fa931a0000000, 0x8e1bc9bf04000000,
    0xb1a2bc2ec5000000, 0xde0b6b3a76400000, 0x8ac7230489e80000, 0xad78ebc5ac620000,
    0xd8d726b7177a8000, 0x878678326eac9000, 0xa968163f0a57b400, 0xd3c21bcecceda100,
    0x84595161401484a0, 0xa56fa5b99019a5c8, 0xcecb8f27f4200f3a, 0x813f3978f8940985,
    0xa18f07d736b90be6, 0xc9f2c9cd04674edf, 0xfc6f7c4045812297, 0x9dc5ada82b70b59e,
    0xc5371912364ce306, 0xf684df56c3e01bc7, 0x9a130b963a6c115d, 0xc097ce7bc90715b4,
    0xf0bdc21abb48db21, 0x96769950b50d88f5, 0xbc143fa4e250eb32, 0xeb194f8e1ae525fe,
    0x92efd1b8d0cf37bf, 0xb7abc627050305ae, 0xe596b7b0c643c71a, 0x8f7e32ce7bea5c70,
    0xb35dbf821ae4f38c,
};

/* floor(log2(10^k)), |k| < 400 */
static int log2_of_power(int k) { return (k * 1741647) >> 19; }

/* (power * c) >> 64, with the last bit set if bits were lost. */
static uint32_t scale_to_odd(uint64_t power, uint32_t c) {
    unsigned __int128 product = (unsigned __int128)power * c;
    uint32_t cut = (uint32_t)(product >> 32);
    return (uint32_t)(product >> 64) | (cut > 1);
}

/* The shortest decimal within half a step of significand * 2^exponent, and of those the nearest. */
static uint32_t shortest(uint32_t fraction, int biased, int *out_exponent10) {
    uint32_t significand = biased ? fraction | 1u << 23 : fraction;
    int exponent = biased ? biased - 150 : -149;
    if (exponent <= 0 && exponent > -24 && !(significand & ((1u << -exponent) - 1))) {
        *out_exponent10 = 0; /* a small integer */
        return significand >> -exponent;
    }
    bool odd = significand & 1;
    /* At a power of two the step below is half as large. */
    bool uneven = fraction == 0 && biased > 1;
    int k = (exponent * 1262611 - (uneven ? 524031 : 0)) >> 22;
    int shift = exponent + log2_of_power(-k) + 1;
    uint64_t power = scaled_powers[-k + 31];
    uint32_t value = scale_to_odd(power, 4 * significand << shift);
    uint32_t lower = scale_to_odd(power, (4 * significand - 2 + uneven) << shift) + odd;
    uint32_t upper = scale_to_odd(power, (4 * significand + 2) << shift) - odd;
    uint32_t digits = value / 4;
    if (digits >= 10) { /* one digit less, if exactly one such decimal is inside */
        uint32_t tens = digits / 10;
        bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;
        if (down != up) {
            *out_exponent10 = k + 1;
            return tens + up;
        }
    }
    *out_exponent10 = k;
    bool down = lower <= 4 * digits, up = 4 * digits + 4 <= upper;
    if (down != up)
        return digits + up;
    uint32_t middle = 4 * digits + 2;
    return digits + (value > middle || (value == middle && (digits & 1)));
}

/* Writes digits * 10^exponent10 as JSON: positional between 1e-5 and 1e16, else with an exponent.
 */
static size_t lay_out(const char *digits, int count, int exponent10, char *out) {
    char *to = out;
    int point = count + exponent10; /* digits before the decimal point */
    if (point > 0 && point <= 16) {
        for (int i = 0; i < point || i < count; i++) {
            if (i == point)
                *to++ = '.';
            *to++ = i < count ? digits[i] : '0';
        }
        if (count <= point) {
            *to++ = '.';
            *to++ = '0';
        }
        return (size_t)(to - out);
    }
    if (point <= 0 && point > -5) {
        *to++ = '0';
        *to++ = '.';
        for (int i = point; i < 0; i++)
            *to++ = '0';
        memcpy(to, digits, (size_t)count);
        return (size_t)(to - out) + (size_t)count;
    }
    *to++ = digits[0];
    if (count > 1) {
        *to++ = '.';
        memcpy(to, digits + 1, (size_t)count - 1);
        to += count - 1;
    }
    return (size_t)(to - out) + (size_t)snprintf(to, 8, "e%+03d", point - 1);
}

size_t tt_float_write32(float value, char *out) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    size_t sign = bits >> 31;
    if (sign)
        out[0] = '-';
    bits &= 0x7fffffff;
    tt_assert(bits < 0x7f800000);
    if (bits == 0) {
        static const char zero[] = {'0', '.', '0'};
        memcpy(out + sign, zero, sizeof(zero));
        return sign + sizeof(zero);
    }
    int exponent10;
    uint32_t number = shortest(bits & 0x7fffff, (int)(bits >> 23), &exponent10);
    while (number % 10 == 0) {
        number /= 10;
        exponent10++;
    }
    char digits[10];
    int at = (int)sizeof(digits);
    for (; number; number /= 10)
        digits[--at] = (char)('0' + number % 10);
    return sign + lay_out(digits + at, (int)sizeof(digits) - at, exponent10, out + sign);
}

size_t tt_float_write64(double value, char *out) {
    tt_assert(isfinite(value));
    for (int precision = 15;; precision++) {
        char text[TT_FLOAT_TEXT_BYTES];
        int length = snprintf(text, sizeof(text), "%.*g", precision, value);
        if (precision < 17 && strtod(text, NULL) != value)
            continue;
        memcpy(out, text, (size_t)length);
        if (strspn(text, "-0123456789") == (size_t)length) {
            out[length++] = '.';
            out[length++] = '0';
        }
        return (size_t)length;
    }
}
