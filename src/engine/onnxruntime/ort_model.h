/* A model in ONNX Runtime: a row of steps, each a session.
 *
 * A whole graph is a model of one step. A cut one (model/onnx/slices.h) has a session per stage,
 * loaded with optimisation off, for the graph was optimised before it was cut. All its sessions use
 * one copy of the weights: each is told the same values twice (as the external data of its file,
 * and as initializers to be used where they lie), and what the runtime packs for its kernels goes
 * into one container that all share; no two of the three would do. E3: so a step may have a session
 * for each executor, which costs an executor what it computes in (an arena of its own, laid out for
 * its batch), and no weights.
 *
 * Tensors that go between steps, in or out are numbered: first the inputs, in the signature's
 * order. Immutable once loaded but for the slots. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_MODEL_H
#define TT_ENGINE_ONNXRUNTIME_ORT_MODEL_H

#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_exits.h"
#include "engine/slots.h"
#include "model/onnx/slices.h"

struct tt_ort_step {
    OrtSession
        *session; /* of all executors (of cells: shared, ort_shared.h); or NULL, and each has: */
    OrtSession **own; /* [own_count] of the model; executor e runs number e, modulo that */
    int32_t input_count, output_count;
    int32_t *inputs, *outputs; /* tensors */
    const char **input_names, **output_names;
};

struct tt_ort_carried {
    const char *name;
    enum tt_dtype dtype;
    int64_t row_count; /* elements of a row where all dimensions but the rows are known; else 0 */
    struct tt_shape shape;
    int32_t producer; /* the step; -1: an input */
    int32_t last_use; /* the last step that reads it, or after which an exit does; step_count where
                         the model gives it out */
};

struct tt_ort_cells;

struct tt_ort_model {
    struct tt_engine_model model;
    const struct tt_ort_library *library;
    struct tt_signature signature;
    int32_t step_count, tensor_count;
    int32_t own_count; /* sessions of a step, each with an arena; 0: one for all executors */
    struct tt_ort_step *steps;
    struct tt_ort_carried *tensors;
    int32_t outputs[TT_MAX_TENSORS]; /* tensors, in the signature's order */
    struct tt_slots slots;
    struct tt_ort_exits exits;
    struct tt_ort_cells *cells; /* NULL: no model of cells */
    struct tt_slices *slices;   /* of a cut model: names and weights; else NULL */
    OrtPrepackedWeightsContainer *prepacked;
    OrtValue **weights; /* all stages', one after the other */
    int32_t weight_count;
};

/* As tt_ort_engine_load and tt_ort_engine_load_slices. */
TT_MUST_CHECK enum tt_err tt_ort_model_new(const struct tt_ort_library *library,
                                           const struct tt_ort_model_options *options,
                                           struct tt_ort_model **out_model, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_ort_model_new_sliced(const struct tt_ort_library *library,
                                                  const struct tt_ort_slices_options *options,
                                                  struct tt_ort_model **out_model,
                                                  struct tt_error *why);
/* What the executor runs of the step. */
static inline OrtSession *tt_ort_step_session(const struct tt_ort_model *self, int32_t step,
                                              int32_t executor) {
    const struct tt_ort_step *s = &self->steps[step];
    return s->own ? s->own[executor % self->own_count] : s->session;
}
void tt_ort_model_free(struct tt_ort_model *take_model);

#endif
