/* E7: blank rows, which fill a batch up to the size that its policy asks for (window with static =
 * padded, as servers do whose graphs take batches of one size only).
 *
 * To the engine they are one more member of the task, behind the others, of zeros; its results are
 * discarded. The zeros exist once per model, for its maximum batch, and are made when they are
 * first needed. Inputs whose rows have no size known in advance are not filled up. Implemented in
 * blank_rows.c. */
#ifndef TT_SERVE_BLANK_ROWS_H
#define TT_SERVE_BLANK_ROWS_H

#include "engine/engine.h"

struct tt_blank_rows {
    void *bytes[TT_MAX_TENSORS]; /* zeros, max_batch rows of each input; NULL: not made yet */
};

void tt_blank_rows_fini(struct tt_blank_rows *self);
/* Makes `out_member` a member of `rows` blank rows (1 .. the model's maximum). Its inputs are
 * `out_views`, in the caller's memory, one per input of the signature. False: the model has none,
 * or out of memory; nothing was written. */
bool tt_blank_rows_member(struct tt_blank_rows *self, const struct tt_signature *signature,
                          int32_t rows, struct tt_tensor_view *out_views,
                          struct tt_engine_member *out_member);

#endif
