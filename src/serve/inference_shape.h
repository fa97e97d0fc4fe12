/* The shapes of one request's inputs, checked against its model's signature.
 *
 * Pure functions of the model and the shapes; called by the port's thread before memory is
 * reserved. Implemented in inference_shape.c. */
#ifndef TT_SERVE_INFERENCE_SHAPE_H
#define TT_SERVE_INFERENCE_SHAPE_H

#include "base/err.h"
#include "core/tensor.h"

struct tt_served_model;

struct tt_inference_shape {
    int32_t input; /* index in the signature */
    struct tt_shape shape;
};

/* `shapes`: every input of the signature exactly once, in any order.
 *
 * *out_rows: rows of the batch. *out_length: a number that all members of a batch must share. Where
 * inputs are padded it is the length to pad to. Else it is the value of the varying dimensions if
 * they are all equal (the length of a sentence), or a number made of all of them, in the
 * signature's order; 0 if nothing varies. Two such numbers may be equal by chance; the domain
 * handles that. For a model of cells it is the number of rounds, which are fewer than the elements
 * if a cell reads several.
 *
 * INVALID: an input has an unexpected shape, inputs differ in rows, there are more rows than
 * max_batch, or an input is longer than the model takes. `why` names the input and both shapes. */
TT_MUST_CHECK enum tt_err tt_inference_shape_check(const struct tt_served_model *model,
                                                   const struct tt_inference_shape *shapes,
                                                   int32_t count, int32_t *out_rows,
                                                   int32_t *out_length, struct tt_error *why);
/* Raises *length to the smallest length class of the model that holds it; for a model of cells it
 * is then in rounds. INVALID: there is no such class. */
TT_MUST_CHECK enum tt_err tt_inference_shape_class(const struct tt_served_model *model,
                                                   int32_t *length, struct tt_error *why);

#endif
