/* Makes one batch of the members' inputs: what every engine does before it runs.
 *
 * First each member is checked (`tt_gather_check`): against the model's signature, its own byte
 * counts, and the shape of the first member. A member that fails is left out, with an error
 * message.
 *
 * Then each input is bound (`tt_gather_input`). If the members' bytes are adjacent in order and
 * need no padding, the batch is those bytes. Otherwise they are copied into a buffer, row by row
 * where rows are padded. The caller keeps the buffer from run to run, so the steady state allocates
 * nothing.
 *
 * Padding fills dimension 1 with zeros (BYTES: empty strings), never with data of an earlier batch:
 * 0 times NaN is NaN, and would destroy valid rows. */
#ifndef TT_ENGINE_GATHER_H
#define TT_ENGINE_GATHER_H

#include "base/err.h"
#include "engine/engine.h"

#include <stdbool.h>

/* All zero at first. */
struct tt_gather_buffer {
    void *bytes; /* 64-byte aligned */
    size_t capacity_bytes;
};

void tt_gather_buffer_fini(struct tt_gather_buffer *self);

/* True if dimension 1 of this input is padded to the task's length. */
bool tt_gather_pads(const struct tt_signature *signature, int32_t input, int32_t length);
/* `first` is the member that sets the shape; it may be `member` itself. Errors: INVALID; the
 * message names the input, its shape and bytes. */
TT_MUST_CHECK enum tt_err tt_gather_check(const struct tt_signature *signature,
                                          const struct tt_engine_member *member,
                                          const struct tt_engine_member *first, int32_t length,
                                          struct tt_error *why);
/* Binds input `input` of `count` >= 1 checked members. The view is valid as long as their bytes and
 * the buffer. Adds the bytes copied to `gathered_bytes`. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_gather_input(const struct tt_signature *signature, int32_t input,
                                          struct tt_engine_member *const *members, int32_t count,
                                          int32_t length, struct tt_gather_buffer *buffer,
                                          int64_t *gathered_bytes, struct tt_tensor_view *out_view);
/* Joins views of equal type and of equal shape except for dimension 0. In place if they are
 * adjacent in order, else copied to the buffer. Not for BYTES. Errors: INVALID (shapes differ),
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_gather_views(const struct tt_tensor_view *const *views, int32_t count,
                                          struct tt_gather_buffer *buffer, int64_t *gathered_bytes,
                                          struct tt_tensor_view *out_view);
/* Advances `at` by `count` strings of a BYTES tensor. False if they exceed its bytes. */
TT_MUST_CHECK bool tt_gather_skip_strings(const struct tt_tensor_view *view, int64_t count,
                                          size_t *at);

#endif
