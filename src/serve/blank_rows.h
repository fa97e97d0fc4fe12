/* E7: rows of nobody, with which a batch is filled up to the size that its policy asks for (window
 * with static = padded, as servers do it whose graphs take batches of one size only).
 *
 * To the engine they are one more member of the task, behind the others, of zeros; what comes out
 * for it is thrown away. The zeros are there once per model, for its maximum batch, made when they
 * are first needed. Inputs whose rows have no size known beforehand are not filled up. */
#ifndef TT_SERVE_BLANK_ROWS_H
#define TT_SERVE_BLANK_ROWS_H

#include "engine/engine.h"

struct tt_blank_rows {
    void *bytes[TT_MAX_TENSORS]; /* zeros, max_batch rows of each input; NULL: not made yet */
};

void tt_blank_rows_fini(struct tt_blank_rows *self);
/* Makes `out_member` a member of `rows` blank rows (1 .. the model's maximum); its inputs are
 * `out_views`, of the caller's memory, one per input of the signature. False: such a model has none
 * (or memory is out), and nothing was written. */
bool tt_blank_rows_member(struct tt_blank_rows *self, const struct tt_signature *signature,
                          int32_t rows, struct tt_tensor_view *out_views,
                          struct tt_engine_member *out_member);

#endif
