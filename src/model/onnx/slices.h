/* D1: a cut model on disk: a folder with an ONNX file per stage, one file of weights that all
 * share, and slices.pbtxt, which says what they are.
 *
 * Each stage is a complete ONNX file (its large weights are external data, `weights.bin`), so that
 * any ONNX program can load it. Life of a folder: written under another name beside its place and
 * renamed into it (`_write`), so that readers never see half of one; read by whoever runs the
 * stages (`_open`), which maps the weights; thrown away by anybody at any time.
 *
 * Tensors that go between stages, or in and out of the model, are numbered: first the inputs, then
 * the others in the order in which stages make them. */
#ifndef TT_MODEL_ONNX_SLICES_H
#define TT_MODEL_ONNX_SLICES_H

#include "model/onnx/cut.h"
#include "slices.pb-c.h"

/* ---- writing ---- */

struct tt_slices_origin {
    const char *model_sha256, *onnxruntime, *device, *asked, *made_by, *times;
    bool batched;
    struct tt_signature signature; /* inputs and outputs of the whole */
};

struct tt_slices_check {
    int32_t rows, length, synthetic;
    char outputs_sha256[65]; /* "": not checked */
};

/* Makes the folder `directory`, which must not be there yet. Errors: IO, UNSUPPORTED (an output
 * that follows from shapes crosses a stage), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slices_write(const struct tt_onnx_graph *graph,
                                          const struct tt_cut_plan *plan,
                                          const struct tt_slices_origin *origin,
                                          const char *directory, struct tt_error *why);
/* Adds the check's result to a folder that was written before. */
TT_MUST_CHECK enum tt_err tt_slices_set_check(const char *directory,
                                              const struct tt_slices_check *check,
                                              struct tt_error *why);

/* ---- reading ---- */

struct tt_slices_weight {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t offset, size_bytes; /* in the weights */
};

struct tt_slices_stage {
    struct tt_text bytes; /* the ONNX file */
    Onnx__Model *model;
    int32_t input_count, output_count, weight_count;
    int32_t *inputs, *outputs; /* tensors */
    struct tt_slices_weight *weights;
};

struct tt_slices_tensor {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape; /* as its file says it: -1 varies, rank 0 may also mean unknown */
    int32_t producer;      /* the stage; -1: an input */
    int32_t last_use; /* the last stage that reads it; stage_count where the model gives it out */
};

struct tt_slices {
    Tutti__Slices *manifest;
    struct tt_signature signature; /* max_batch is 1, the loader's to set */
    int32_t stage_count, tensor_count;
    struct tt_slices_stage *stages;
    struct tt_slices_tensor *tensors;
    int32_t outputs[TT_MAX_TENSORS]; /* tensors, in the signature's order */
    void *weights;                   /* mapped; NULL where there are none */
    size_t weights_bytes;
};

/* Errors: NOT_FOUND (no such folder), INVALID (damaged: what, where), IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slices_open(const char *directory, struct tt_slices **out_slices,
                                         struct tt_error *why);
void tt_slices_close(struct tt_slices *take_slices);
/* "stages 4: 26,43,59": how the model was asked to be cut, and the nodes before which it was.
 * Errors: as _open. */
TT_MUST_CHECK enum tt_err tt_slices_describe(const char *directory, char *out, size_t capacity,
                                             struct tt_error *why);
/* Gives the weights' pages back to the system; they come back from the file when read again. */
void tt_slices_forget_weights(const struct tt_slices *self);

#endif
