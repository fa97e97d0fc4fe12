/* A model in ONNX Runtime: a row of steps, each with a session.
 *
 * A whole graph is a model of one step. A cut graph (model/onnx/slices.h) has a session per stage.
 * Stages are loaded with optimisation off, because the graph was optimised before it was cut. All
 * sessions use one copy of the weights. This takes three measures, all needed: weights are passed
 * as the external data of the stage's file, passed again as initializers to be used in place, and
 * packed for kernels into one shared container. So a step may also have one session per executor
 * (E3). That costs an executor an arena for its activations, laid out for its batch size, but no
 * weights.
 *
 * Tensors that enter or leave the model or pass between steps are numbered. The inputs come first,
 * in the signature's order. A loaded model is immutable except for its slots. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_MODEL_H
#define TT_ENGINE_ONNXRUNTIME_ORT_MODEL_H

#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_exits.h"
#include "engine/slots.h"
#include "model/onnx/slices.h"

struct tt_ort_step {
    OrtSession *session; /* of all executors (of cells: see ort_shared.h); NULL: each executor has
                            one in `own` */
    OrtSession **own;    /* [own_count] of the model; executor e uses own[e % own_count] */
    int32_t input_count, output_count;
    int32_t *inputs, *outputs; /* indexes of tensors */
    const char **input_names, **output_names;
};

struct tt_ort_carried {
    const char *name;
    enum tt_dtype dtype;
    int64_t row_count; /* elements per row if all other dimensions are fixed; else 0 */
    struct tt_shape shape;
    int32_t producer; /* the step that makes it; -1: an input */
    int32_t last_use; /* the last step that reads it, or whose exit does; step_count: an output of
                         the model */
};

struct tt_cell_set;

struct tt_ort_model {
    struct tt_engine_model model;
    const struct tt_ort_library *library;
    char *path; /* of its file; NULL: it was cut, is one of cells, or came from memory */
    struct tt_signature signature;
    int32_t step_count, tensor_count;
    int32_t own_count; /* sessions per step, each with an arena; 0: one session for all executors */
    struct tt_ort_step *steps;
    struct tt_ort_carried *tensors;
    int32_t outputs[TT_MAX_TENSORS]; /* indexes of tensors, in the signature's order */
    struct tt_slots slots;
    struct tt_ort_exits exits;
    struct tt_cell_set *cells; /* NULL: not a model of cells */
    struct tt_slices *slices;  /* of a cut model: names and weights; else NULL */
    OrtPrepackedWeightsContainer *prepacked;
    OrtValue **weights; /* of all stages, in order */
    int32_t weight_count;
};

/* See tt_ort_engine_load and tt_ort_engine_load_slices. */
TT_MUST_CHECK enum tt_err tt_ort_model_new(const struct tt_ort_library *library,
                                           const struct tt_ort_model_options *options,
                                           struct tt_ort_model **out_model, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_ort_model_new_sliced(const struct tt_ort_library *library,
                                                  const struct tt_ort_slices_options *options,
                                                  struct tt_ort_model **out_model,
                                                  struct tt_error *why);
/* The session that an executor uses for a step. */
static inline OrtSession *tt_ort_step_session(const struct tt_ort_model *self, int32_t step,
                                              int32_t executor) {
    const struct tt_ort_step *s = &self->steps[step];
    return s->own ? s->own[executor % self->own_count] : s->session;
}
/* What runs a step, or, with the index step_count + e, the graph of exit e. */
struct tt_ort_call {
    OrtSession *session;
    const char *const *input_names, *const *output_names;
};
static inline struct tt_ort_call tt_ort_call_of(const struct tt_ort_model *self, int32_t index) {
    if (index < self->step_count) {
        const struct tt_ort_step *step = &self->steps[index];
        return (struct tt_ort_call){tt_ort_step_session(self, index, 0), step->input_names,
                                    step->output_names};
    }
    const struct tt_ort_exit *exit = &self->exits.exits[index - self->step_count];
    return (struct tt_ort_call){exit->session, exit->input_names, exit->output_names};
}
/* Tells a session where the bytes of a stage's weights are, which its file only names. */
TT_MUST_CHECK enum tt_err tt_ort_stage_weights(const struct tt_ort_model *self, int32_t stage,
                                               OrtSessionOptions *options, struct tt_error *why);
void tt_ort_model_free(struct tt_ort_model *take_model);

#endif
