/* Floating point between memory and JSON text, correctly rounded in both directions.
 *
 * Reading: a decimal of any length becomes the nearest value of the type (ties to even). Most
 * numbers take one division in 64-bit extended precision; the rest takes strtod. Writing: the
 * shortest text that reads back as the same FP32 (after Giulietti's Schubfach), which also reads
 * back as the same FP16 or BF16; FP64 tries 15, 16 and 17 digits. JSON cannot express infinities
 * and NaN: callers must not pass them.
 *
 * The process must keep the locale's decimal point of "C", which strtod uses. Implemented in
 * json_float.c. */
#ifndef TT_NET_JSON_JSON_FLOAT_H
#define TT_NET_JSON_JSON_FLOAT_H

#include "net/json/json_scan.h"

enum { TT_FLOAT_TEXT_BYTES = 32 };

/* True: the number is within the range of the type. False: it would become infinite. */
bool tt_float_read64(const struct tt_json_number *number, double *out_value);
bool tt_float_read32(const struct tt_json_number *number, float *out_value);
bool tt_float_read16(const struct tt_json_number *number, uint16_t *out_bits);
bool tt_float_read_bf16(const struct tt_json_number *number, uint16_t *out_bits);

/* The value of an FP16 / BF16 bit pattern. */
float tt_float_from16(uint16_t bits);
float tt_float_from_bf16(uint16_t bits);

/* Writes a finite value; returns its length. `out` has TT_FLOAT_TEXT_BYTES; no NUL is written. */
size_t tt_float_write32(float value, char *out);
size_t tt_float_write64(double value, char *out);

#endif
