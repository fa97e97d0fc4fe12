/* Tensors between JSON arrays and typed memory, without a tree.
 *
 * Reading: an array, flat or nested in any way with the same order, goes straight into the tensor's
 * memory. Values are checked against the type: an integer that does not fit, a fraction for an
 * integer, or a number instead of a string is INVALID, with a sentence that names byte and type.
 * Floating point is correctly rounded; a value that would become infinite is out of range. BOOL
 * takes true, false, 1 and 0. BYTES elements are JSON strings; in memory each has 4 bytes of length
 * (little endian) before it. Writing: a flat array; floats as short as reads back the same value.
 *
 * It allocates nothing except the growing text that it writes to. Implemented in json_tensor.c. */
#ifndef TT_NET_JSON_JSON_TENSOR_H
#define TT_NET_JSON_JSON_TENSOR_H

#include "base/text.h"
#include "core/tensor.h"
#include "net/json/json_scan.h"

/* Reads the next array: exactly `count` elements into exactly `size_bytes` bytes at
 * `to`. */
TT_MUST_CHECK enum tt_err tt_json_tensor_read(struct tt_json *json, enum tt_dtype dtype,
                                              int64_t count, void *to, size_t size_bytes);
/* Sets the bytes that an array of `count` strings takes as a BYTES tensor. */
TT_MUST_CHECK enum tt_err tt_json_tensor_measure(struct tt_json *json, int64_t count,
                                                 size_t *out_size_bytes);
/* Appends `[v,v,...]`. INVALID: a value that JSON cannot express (NaN, an infinity, bytes that are
 * not UTF-8). */
TT_MUST_CHECK enum tt_err tt_json_tensor_write(enum tt_dtype dtype, int64_t count,
                                               const void *bytes, size_t size_bytes,
                                               struct tt_text *out_text, struct tt_error *why);
/* Appends the string in quotes, escaped. Bytes that are not UTF-8 become U+FFFD, so that the text
 * is always valid JSON. */
void tt_json_write_string(struct tt_text *out_text, const char *bytes, size_t length);

#endif
