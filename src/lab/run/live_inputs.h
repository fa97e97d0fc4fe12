/* What the requests of an experiment carry: made-up rows of a model's inputs, the same for every
 * run of one seed.
 *
 * Sixteen different rows are made once, as long as inputs get; a request takes rows from there
 * (which, follows from its number and the seed), cut to its length, so that filling one in is a
 * copy. A model is asked which made-up values it can take when it is run for the first time. */
#ifndef TT_LAB_RUN_LIVE_INPUTS_H
#define TT_LAB_RUN_LIVE_INPUTS_H

#include "engine/synthetic_input.h"
#include "model/cells/cells.h"

struct tt_inference_shape;
struct tt_inference;

struct tt_live_inputs {
    const struct tt_signature *signature; /* borrowed */
    enum tt_synthetic_input_kind kind;
    int32_t length; /* of the rows that are made; variable dimensions are so long */
    struct tt_synthetic_input bank;
    const struct tt_cells *cells; /* borrowed; NULL: any value will do */
};

/* Errors: INVALID (too large), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_live_inputs_init(struct tt_live_inputs *self,
                                              const struct tt_signature *signature, int32_t length,
                                              enum tt_synthetic_input_kind kind,
                                              struct tt_error *why);
/* Of a model of cells, from now on: where its cells read integers that must exist, they are drawn
 * from those. */
void tt_live_inputs_speak(struct tt_live_inputs *self, const struct tt_cells *cells);
void tt_live_inputs_fini(struct tt_live_inputs *self);
/* The shapes and (of BYTES inputs) sizes of a request: [input_count] each. Makes longer rows where
 * it is longer than any before. Errors: as _init. */
TT_MUST_CHECK enum tt_err tt_live_inputs_shape(struct tt_live_inputs *self, int32_t rows,
                                               int32_t length, struct tt_inference_shape *shapes,
                                               size_t *sizes_bytes, struct tt_error *why);
/* Fills a request that was begun with those shapes; _with: each element of its one INT32 input is
 * the value. */
void tt_live_inputs_fill_with(struct tt_inference *infer, int32_t value);
void tt_live_inputs_fill(const struct tt_live_inputs *self, struct tt_inference *infer,
                         int32_t rows, uint64_t number);

#endif
