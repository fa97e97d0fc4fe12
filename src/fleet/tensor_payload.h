/* Tensors as the payload of a record: the inputs of a request, or its outputs or error.
 *
 * Inputs: the count, whose highest bit says that the words of the answer are wanted as they come,
 * then per tensor a head and its bytes. Outputs: the error, then count and tensors as before; if
 * the error is not 0, the rest is the message. A tensor's head is its rank, its size in bytes, and
 * its dimensions. All numbers are u64, little-endian. Each tensor's bytes are filled up to a
 * multiple of 8.
 *
 * The reader trusts nothing: ranks, sizes and counts are read once and checked against what is
 * there, so the bytes may be memory that another process changes. What the tensors mean for a model
 * is checked by serve/inference.h and by the engine. No allocation. Implemented in
 * tensor_payload.c. */
#ifndef TT_FLEET_TENSOR_PAYLOAD_H
#define TT_FLEET_TENSOR_PAYLOAD_H

#include "base/err.h"
#include "core/tensor.h"
#include "engine/engine.h"

#include <stdint.h>

/* The bytes of a payload with these tensors. */
size_t tt_tensors_bytes(const struct tt_tensor_view *views, int32_t count);
/* Writes so many. */
void tt_tensors_write(const struct tt_tensor_view *views, int32_t count, uint8_t *out);
/* Of inputs that were written: words are wanted, as WORDS (cluster/frame.h). */
void tt_tensors_ask_words(uint8_t *payload);
/* They are asked for. */
bool tt_tensors_asks_words(const uint8_t *payload, size_t length);
/* Reads `count` tensors, the number that the reader expects. Views point into `bytes`. INVALID. */
TT_MUST_CHECK enum tt_err tt_tensors_read(const uint8_t *bytes, size_t length, int32_t count,
                                          struct tt_tensor_view *out_views, struct tt_error *why);

/* The first word of a result's payload, before the tensors; a message follows if it is not OK. */
enum { TT_RESULT_HEAD_BYTES = 8 };
void tt_result_head_write(enum tt_err err, uint8_t *out);
/* INVALID: the payload is too short, or has an unknown error. */
TT_MUST_CHECK enum tt_err tt_result_head_read(const uint8_t *bytes, size_t length,
                                              enum tt_err *out_err, struct tt_error *why);

#endif
