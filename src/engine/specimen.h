/* Made-up inputs for a model, to run it before anybody has asked it anything.
 *
 * Row r of a specimen depends on r alone, so that the same rows can be asked for alone and in any
 * batch: that is how batching is checked. Models differ in what they take (an id must be in the
 * vocabulary, say), so there are several kinds, to be tried in order. */
#ifndef TT_ENGINE_SPECIMEN_H
#define TT_ENGINE_SPECIMEN_H

#include "base/err.h"
#include "engine/engine.h"

enum tt_specimen_kind {
    TT_SPECIMEN_MIXED, /* numbers in [-1, 1), integers 0 and 1, short strings */
    TT_SPECIMEN_ONES,
    TT_SPECIMEN_ZEROS, /* empty strings; tells nothing of rows, for all are equal */
    TT_SPECIMEN_KINDS,
};

struct tt_specimen {
    int32_t rows;
    struct tt_tensor_view views[TT_MAX_TENSORS]; /* owned */
};

/* Rows first .. first + rows - 1 of a batch (of a model that does not batch: rows is 1, and `first`
 * makes it another one); variable dimensions become `length`. Errors: INVALID (too large),
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_specimen_init(struct tt_specimen *self,
                                           const struct tt_signature *signature, int32_t first,
                                           int32_t rows, int32_t length, enum tt_specimen_kind kind,
                                           struct tt_message *why);
void tt_specimen_fini(struct tt_specimen *self);

#endif
