/* Synthetic inputs: generated values to run a model with before any request has arrived.
 *
 * Row r depends on r alone. So the same rows can be generated alone and in any batch, which is how
 * batching is checked. Models differ in the values they accept (an id must be in the vocabulary,
 * for example), so there are several kinds, to be tried in order. */
#ifndef TT_ENGINE_SYNTHETIC_INPUT_H
#define TT_ENGINE_SYNTHETIC_INPUT_H

#include "base/err.h"
#include "engine/engine.h"

enum tt_synthetic_input_kind {
    TT_SYNTHETIC_INPUT_MIXED, /* numbers in [-1, 1), integers 0 and 1, short strings */
    TT_SYNTHETIC_INPUT_ONES,
    TT_SYNTHETIC_INPUT_ZEROS, /* empty strings; cannot tell rows apart, since all are equal */
    TT_SYNTHETIC_INPUT_KINDS,
};

struct tt_synthetic_input {
    int32_t rows;
    struct tt_tensor_view views[TT_MAX_TENSORS]; /* owned */
};

/* Makes rows first .. first + rows - 1 of a batch. For a model that does not batch, rows is 1, and
 * `first` selects different values. Variable dimensions become `length`. Errors: INVALID (too
 * large), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_synthetic_input_init(struct tt_synthetic_input *self,
                                                  const struct tt_signature *signature,
                                                  int32_t first, int32_t rows, int32_t length,
                                                  enum tt_synthetic_input_kind kind,
                                                  struct tt_error *why);
void tt_synthetic_input_fini(struct tt_synthetic_input *self);

#endif
