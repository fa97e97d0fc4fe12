/* The inputs of an experiment's requests: synthetic rows of a model's inputs, equal for every run
 * of one seed.
 *
 * Sixteen different rows are made once, as long as the longest input. A request takes rows from
 * there, selected by its number and the seed, and cut to its length, so filling it is a copy. Which
 * synthetic values a model accepts is found out when it runs for the first time (live_models.c). */
#ifndef TT_LAB_RUN_LIVE_INPUTS_H
#define TT_LAB_RUN_LIVE_INPUTS_H

#include "engine/synthetic_input.h"
#include "model/cells/cells.h"

struct tt_inference_shape;
struct tt_inference;

struct tt_live_inputs {
    const struct tt_signature *signature; /* borrowed */
    enum tt_synthetic_input_kind kind;
    int32_t length; /* of the rows; the size of variable dimensions */
    struct tt_synthetic_input bank;
    const struct tt_cells *cells; /* borrowed; NULL: every value is valid */
};

/* Errors: INVALID (too large), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_live_inputs_init(struct tt_live_inputs *self,
                                              const struct tt_signature *signature, int32_t length,
                                              enum tt_synthetic_input_kind kind,
                                              struct tt_error *why);
/* For a model of cells: integers that cells use as indices are drawn from the valid ones from here
 * on. */
void tt_live_inputs_speak(struct tt_live_inputs *self, const struct tt_cells *cells);
void tt_live_inputs_fini(struct tt_live_inputs *self);
/* The shapes and (of BYTES inputs) sizes of a request: [input_count] each. Makes longer rows if the
 * request is longer than any before. `length`: as the scheduler counts it; for cells that read
 * several elements, in rounds. Errors: as _init. */
TT_MUST_CHECK enum tt_err tt_live_inputs_shape(struct tt_live_inputs *self, int32_t rows,
                                               int32_t length, struct tt_inference_shape *shapes,
                                               size_t *sizes_bytes, struct tt_error *why);
/* Fills a request that was begun with those shapes. _fill_with sets each element of its one INT32
 * input to `value`. */
void tt_live_inputs_fill_with(struct tt_inference *inference, int32_t value);
void tt_live_inputs_fill(const struct tt_live_inputs *self, struct tt_inference *inference,
                         int32_t rows, uint64_t number);

#endif
