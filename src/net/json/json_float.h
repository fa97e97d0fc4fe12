/* Floating point between memory and JSON text: correctly rounded both ways.
 *
 * Reading: a decimal becomes the nearest value of the type (ties to even), whatever its length.
 * Most numbers take one division in 64-bit extended precision; what that cannot decide goes to
 * strtod. Writing: the shortest text that reads back to the same FP32 (after Giulietti's
 * Schubfach), which for FP16 and BF16 reads back to the same value as well; FP64 by trying 15, 16
 * and 17 digits. JSON has no words for infinities and NaN: the caller keeps them away.
 *
 * The process must leave the locale's decimal point alone ("C"), since strtod heeds it. */
#ifndef TT_NET_JSON_JSON_FLOAT_H
#define TT_NET_JSON_JSON_FLOAT_H

#include "net/json/json_scan.h"

enum { TT_FLOAT_TEXT_BYTES = 32 };

/* Each says whether the number lies within the range of the type (else it would become infinite).
 */
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
