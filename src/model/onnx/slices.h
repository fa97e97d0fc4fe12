/* D1: a cut model on disk. It is a folder with one ONNX file per stage, one file of weights that
 * all stages share, and slices.pbtxt, which describes them.
 *
 * Each stage is a complete ONNX file that any ONNX program can load. Its large weights are external
 * data in `weights.bin`. A tensor whose rows are not its first dimension (L6: between the layers of
 * a recurrent network) crosses with its rows first, as NAME@rows: the stages that make and read it
 * begin and end with a Transpose.
 *
 * Life of a folder: `_write` makes it under a temporary name beside its final place. The caller
 * renames it, so readers never see an incomplete one. `_open` reads it for the engine that runs the
 * stages, and maps the weights. It may be deleted at any time.
 *
 * Tensors between stages, and inputs and outputs of the model, are numbered: first the inputs, then
 * the others in the order in which the stages make them. Implemented in slices_write.c and
 * slices_read.c. */
#ifndef TT_MODEL_ONNX_SLICES_H
#define TT_MODEL_ONNX_SLICES_H

#include "model/onnx/cut.h"
#include "slices.pb-c.h"

/* ---- writing ---- */

struct tt_slices_origin {
    const char *model_sha256, *onnxruntime, *device, *asked, *made_by, *times;
    bool batched;
    struct tt_signature signature; /* inputs and outputs of the whole model */
};

struct tt_slices_check {
    int32_t rows, length, synthetic;
    char outputs_sha256[65]; /* "": not checked */
};

/* Writes the folder `directory`, which must not exist. Errors: IO, UNSUPPORTED (an output that
 * follows from shapes crosses a stage), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slices_write(const struct tt_onnx_graph *graph,
                                          const struct tt_cut_plan *plan,
                                          const struct tt_slices_origin *origin,
                                          const char *directory, struct tt_error *why);
/* Adds the result of the check to a folder that was written before. */
TT_MUST_CHECK enum tt_err tt_slices_set_check(const char *directory,
                                              const struct tt_slices_check *check,
                                              struct tt_error *why);

/* ---- reading ---- */

struct tt_slices_weight {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t offset, size_bytes; /* in the file of weights */
};

struct tt_slices_stage {
    struct tt_text bytes; /* the ONNX file */
    Onnx__Model *model;
    int32_t input_count, output_count, weight_count;
    int32_t *inputs, *outputs; /* indices of tensors */
    struct tt_slices_weight *weights;
};

struct tt_slices_tensor {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape; /* as in its file: -1 varies, rank 0 may also mean unknown */
    int32_t producer;      /* index of the stage that makes it; -1: an input */
    int32_t
        last_use; /* index of the last stage that reads it; stage_count: an output of the model */
};

struct tt_slices {
    Tutti__Slices *manifest;
    struct tt_signature signature; /* max_batch is 1 until the loader sets it */
    int32_t stage_count, tensor_count;
    struct tt_slices_stage *stages;
    struct tt_slices_tensor *tensors;
    int32_t outputs[TT_MAX_TENSORS]; /* indices of tensors, in the signature's order */
    void *weights;                   /* mapped; NULL: there are none */
    size_t weights_bytes;
};

/* Errors: NOT_FOUND (no such folder), INVALID (damaged; the message says what and where), IO,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slices_open(const char *directory, struct tt_slices **out_slices,
                                         struct tt_error *why);
void tt_slices_close(struct tt_slices *take_slices);
/* Writes how the cut was requested, and the first node of each stage but the first: "stages 4:
 * 26,43,59". Errors: as _open. */
TT_MUST_CHECK enum tt_err tt_slices_describe(const char *directory, char *out, size_t capacity,
                                             struct tt_error *why);
/* Returns the weights' pages to the system; they are read from the file again on the next access.
 */
void tt_slices_forget_weights(const struct tt_slices *self);

#endif
