/* How a batch lies in the memory shared with a Python process: the requests as the server writes
 * them, and the responses as the process writes them. Offsets count from the beginning of the
 * buffer; driver.py is the other side.
 *
 * A buffer begins with 64-bit words, native byte order. Per request:
 *
 *     inputs     id: offset, bytes; per input: offset, bytes, rank, TT_MAX_RANK dimensions
 *     outputs    status (0, or an enum tt_err), its message: offset, bytes; per output: offset,
 *                bytes, rank, TT_MAX_RANK dimensions
 *
 * The tensors follow. Those of one input or output are adjacent, in the order of the requests, so
 * that the next step of an ensemble can read them as one batch. A BYTES tensor is as in
 * engine/engine.h. Inputs are not padded: the model gets each request by itself.
 *
 * Reading trusts nothing: the words are copied before they are checked, BYTES tensors are copied
 * out, and all else stays within the buffer. No process and no thread is known here. Implemented in
 * python_batch.c. */
#ifndef TT_ENGINE_PYTHON_PYTHON_BATCH_H
#define TT_ENGINE_PYTHON_PYTHON_BATCH_H

#include "engine/engine.h"
#include "engine/python/python_buffer.h"

struct tt_engine_valid_members;

/* Scratch memory; all zero at first. */
struct tt_python_words {
    int64_t *words;
    int64_t capacity;
};

void tt_python_words_fini(struct tt_python_words *self);

/* What the batch takes in the input buffer. */
size_t tt_python_batch_bytes(const struct tt_signature *signature,
                             const struct tt_engine_valid_members *valid);
/* Writes it to `bytes`, which has room for it. */
void tt_python_batch_write(const struct tt_signature *signature,
                           const struct tt_engine_valid_members *valid, char *bytes);
/* Reads the responses, `size_bytes` at the beginning of `buffer`, which covers them. Each member
 * gets a result of its own, which may use the buffer, or its error. */
void tt_python_batch_read(const struct tt_signature *signature,
                          const struct tt_engine_valid_members *valid,
                          struct tt_python_buffer *buffer, size_t size_bytes,
                          struct tt_python_words *scratch);

#endif
