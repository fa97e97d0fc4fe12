/* Members' inputs to one batch: what every engine does before it runs.
 *
 * First each member is checked (`tt_gather_check`): against the model's signature, against its own
 * byte counts, and against the first member, since one shape must hold for all; who does not fit is
 * left out with a sentence. Then each input is bound (`tt_gather_input`): where the members' bytes
 * lie one after the other and need no padding, the batch is those bytes; else they are copied, row
 * by row where rows are padded, into a buffer that the caller keeps from run to run, so that in
 * steady state nothing is allocated.
 *
 * Padding fills dimension 1 with zeros (BYTES: empty strings), never with what an earlier batch
 * left there: 0 times NaN would destroy rows. */
#ifndef TT_ENGINE_GATHER_H
#define TT_ENGINE_GATHER_H

#include "base/err.h"
#include "engine/engine.h"

#include <stdbool.h>

/* All zero in the beginning. */
struct tt_gather_buffer {
    void *bytes; /* 64-byte aligned */
    size_t capacity_bytes;
};

void tt_gather_buffer_fini(struct tt_gather_buffer *self);

/* Is dimension 1 of this input padded to the task's length? */
bool tt_gather_pads(const struct tt_signature *signature, int32_t input, int32_t length);
/* `first` is the member that sets the shape (may be `member` itself). Errors: INVALID, naming
 * input, shape, bytes. */
TT_MUST_CHECK enum tt_err tt_gather_check(const struct tt_signature *signature,
                                          const struct tt_engine_member *member,
                                          const struct tt_engine_member *first, int32_t length,
                                          struct tt_error *why);
/* Binds input `input` of `count` >= 1 checked members; the view lives as long as their bytes and
 * the buffer. Adds to `gathered_bytes` what was copied. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_gather_input(const struct tt_signature *signature, int32_t input,
                                          struct tt_engine_member *const *members, int32_t count,
                                          int32_t length, struct tt_gather_buffer *buffer,
                                          int64_t *gathered_bytes, struct tt_tensor_view *out_view);
/* Views of equal type and, beside dimension 0, equal shape, as one: in place where each follows the
 * one before, else copied to the buffer. Not for BYTES. Errors: INVALID (shapes differ), NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_gather_views(const struct tt_tensor_view *const *views, int32_t count,
                                          struct tt_gather_buffer *buffer, int64_t *gathered_bytes,
                                          struct tt_tensor_view *out_view);
/* Moves `at` over `count` strings of a BYTES tensor; false where they would end beyond its bytes.
 */
TT_MUST_CHECK bool tt_gather_skip_strings(const struct tt_tensor_view *view, int64_t count,
                                          size_t *at);

#endif
