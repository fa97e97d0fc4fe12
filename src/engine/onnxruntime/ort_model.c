#include "engine/onnxruntime/ort_model.h"
#include "engine/onnxruntime/ort_check.h"

#include "engine/onnxruntime/cell_model.h"
#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_shared.h"
#include "engine/onnxruntime/ort_tensor.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SLOTS = 64, LEAST_BATCHES = 4 };

/* ---- whole graphs ---- */

static enum tt_err make_session(const struct tt_ort_library *library,
                                const struct tt_ort_model_options *options,
                                OrtSession **out_session, struct tt_error *why) {
    const OrtApi *api = library->api;
    OrtSessionOptions *session_options;
    enum tt_err err =
        tt_ort_session_options_new(library, options->optimization, &session_options, why);
    if (err)
        return err;
    OrtStatus *status = NULL;
    if (options->save_optimized)
        status = api->SetOptimizedModelFilePath(session_options, options->save_optimized);
    if (!status)
        status =
            options->path
                ? api->CreateSession(library->env, options->path, session_options, out_session)
                : api->CreateSessionFromArray(library->env, options->bytes, options->size_bytes,
                                              session_options, out_session);
    api->ReleaseSessionOptions(session_options);
    return tt_ort_check(library, status, why);
}

static bool step_init(struct tt_ort_step *step, int32_t input_count, int32_t output_count) {
    step->inputs = calloc((size_t)input_count + 1, sizeof(*step->inputs));
    step->outputs = calloc((size_t)output_count + 1, sizeof(*step->outputs));
    step->input_names = calloc((size_t)input_count + 1, sizeof(*step->input_names));
    step->output_names = calloc((size_t)output_count + 1, sizeof(*step->output_names));
    step->input_count = input_count;
    step->output_count = output_count;
    return step->inputs && step->outputs && step->input_names && step->output_names;
}

/* Makes the one step, which reads all inputs and makes all outputs. */
static bool fill_whole(struct tt_ort_model *self) {
    const struct tt_signature *signature = &self->signature;
    int32_t inputs = signature->input_count, outputs = signature->output_count;
    struct tt_ort_step *step = &self->steps[0];
    self->tensor_count = inputs + outputs;
    self->tensors = calloc((size_t)self->tensor_count + 1, sizeof(*self->tensors));
    if (!self->tensors || !step_init(step, inputs, outputs))
        return false;
    for (int32_t i = 0; i < self->tensor_count; i++) {
        bool is_input = i < inputs;
        const struct tt_tensor_spec *spec =
            is_input ? &signature->inputs[i] : &signature->outputs[i - inputs];
        self->tensors[i] = (struct tt_ort_carried){.name = spec->name,
                                                   .dtype = spec->dtype,
                                                   .producer = is_input ? -1 : 0,
                                                   .last_use = is_input ? 0 : 1};
        if (is_input) {
            step->inputs[i] = i;
            step->input_names[i] = spec->name;
        } else {
            step->outputs[i - inputs] = self->outputs[i - inputs] = i;
            step->output_names[i - inputs] = spec->name;
        }
    }
    return true;
}

static struct tt_ort_model *blank(const struct tt_ort_library *library, int32_t step_count) {
    struct tt_ort_model *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->library = library;
    self->step_count = step_count;
    self->steps = calloc((size_t)step_count, sizeof(*self->steps));
    if (!self->steps) {
        free(self);
        return NULL;
    }
    return self;
}

enum tt_err tt_ort_model_new(const struct tt_ort_library *library,
                             const struct tt_ort_model_options *options,
                             struct tt_ort_model **out_model, struct tt_error *why) {
    struct tt_ort_model *self = blank(library, 1);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = make_session(library, options, &self->steps[0].session, why);
    if (!err)
        err = tt_ort_signature_read(library, self->steps[0].session, options->batched,
                                    options->max_batch, &self->signature, why);
    if (!err && options->path)
        self->path = strdup(options->path);
    if (!err && (!fill_whole(self) || (options->path && !self->path)))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_slots_init(&self->slots, options->batched, self->tensor_count, 0);
    if (err) {
        tt_ort_model_free(self);
        return err;
    }
    *out_model = self;
    return TT_OK;
}

/* ---- cut graphs ---- */

static int64_t elements_of_row(const struct tt_shape *shape) {
    int64_t count = shape->rank < 1 ? -1 : tt_shape_count(shape, 1);
    return count > 0 ? count : 0;
}

static bool fill_tensors(struct tt_ort_model *self) {
    const struct tt_slices *slices = self->slices;
    self->tensor_count = slices->tensor_count;
    self->tensors = calloc((size_t)self->tensor_count + 1, sizeof(*self->tensors));
    if (!self->tensors)
        return false;
    for (int32_t i = 0; i < self->tensor_count; i++) {
        const struct tt_slices_tensor *tensor = &slices->tensors[i];
        self->tensors[i] = (struct tt_ort_carried){.name = tensor->name,
                                                   .dtype = tensor->dtype,
                                                   .row_count = elements_of_row(&tensor->shape),
                                                   .shape = tensor->shape,
                                                   .producer = tensor->producer,
                                                   .last_use = tensor->last_use};
    }
    memcpy(self->outputs, slices->outputs, sizeof(self->outputs));
    for (int32_t s = 0; s < self->step_count; s++) {
        const struct tt_slices_stage *stage = &slices->stages[s];
        struct tt_ort_step *step = &self->steps[s];
        if (!step_init(step, stage->input_count, stage->output_count))
            return false;
        for (int32_t i = 0; i < stage->input_count; i++) {
            step->inputs[i] = stage->inputs[i];
            step->input_names[i] = slices->tensors[stage->inputs[i]].name;
        }
        for (int32_t i = 0; i < stage->output_count; i++) {
            step->outputs[i] = stage->outputs[i];
            step->output_names[i] = slices->tensors[stage->outputs[i]].name;
        }
    }
    return true;
}

/* Appends one value per weight of the stage. A value is a pointer: all share one copy of the
 * bytes. */
static enum tt_err wrap_weights(struct tt_ort_model *self, const struct tt_slices_stage *stage,
                                struct tt_error *why) {
    int32_t count = stage->weight_count;
    OrtValue **values =
        realloc(self->weights, (size_t)(self->weight_count + count + 1) * sizeof(*values));
    if (!values)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->weights = values;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++) {
        const struct tt_slices_weight *weight = &stage->weights[i];
        struct tt_tensor_view view = {.bytes = (const char *)self->slices->weights + weight->offset,
                                      .size_bytes = weight->size_bytes,
                                      .shape = weight->shape};
        err = tt_ort_value_new(self->library, weight->dtype, &view,
                               &self->weights[self->weight_count], why);
        self->weight_count += !err;
    }
    return err;
}

/* The first of the stage's weights among those of the model, which has them in order. */
static OrtValue *const *weights_of(const struct tt_ort_model *self, int32_t stage) {
    int32_t first = 0;
    for (int32_t s = 0; s < stage; s++)
        first += self->slices->stages[s].weight_count;
    return &self->weights[first];
}

enum tt_err tt_ort_stage_weights(const struct tt_ort_model *self, int32_t index,
                                 OrtSessionOptions *options, struct tt_error *why) {
    const struct tt_slices_stage *stage = &self->slices->stages[index];
    int32_t count = stage->weight_count;
    if (count == 0)
        return TT_OK;
    const char **names = calloc((size_t)count, sizeof(*names));
    enum tt_err err = names ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < count; i++)
        names[i] = stage->weights[i].name;
    if (!err)
        err = tt_ort_check(
            self->library,
            self->library->api->AddExternalInitializers(
                options, names, (const OrtValue *const *)weights_of(self, index), (size_t)count),
            why);
    free(names);
    return err;
}

/* The same, and where they are, so that all sessions read them there. */
static enum tt_err offer_weights(const struct tt_ort_model *self, int32_t index,
                                 OrtSessionOptions *options, struct tt_error *why) {
    const struct tt_slices_stage *stage = &self->slices->stages[index];
    enum tt_err err = tt_ort_stage_weights(self, index, options, why);
    for (int32_t i = 0; !err && i < stage->weight_count; i++)
        err = tt_ort_check(self->library,
                           self->library->api->AddInitializer(options, stage->weights[i].name,
                                                              weights_of(self, index)[i]),
                           why);
    return err;
}

static enum tt_err make_stage_session(struct tt_ort_model *self, int32_t index, bool own_arena,
                                      OrtSession **out_session, struct tt_error *why) {
    const struct tt_ort_library *library = self->library;
    const OrtApi *api = library->api;
    const struct tt_slices_stage *stage = &self->slices->stages[index];
    OrtSessionOptions *options = NULL;
    enum tt_err err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_NONE, &options, why);
    if (!err && own_arena)
        err = tt_ort_session_options_own_arena(library, options, why);
    if (!err)
        err = offer_weights(self, index, options, why);
    if (!err)
        err = tt_ort_check(library,
                           api->CreateSessionFromArrayWithPrepackedWeightsContainer(
                               library->env, tt_text_string(&stage->bytes), stage->bytes.length,
                               options, self->prepacked, out_session),
                           why);
    if (options)
        api->ReleaseSessionOptions(options);
    return err ? tt_fail_in(err, why, "stage %d", index) : TT_OK;
}

static enum tt_err make_stage_sessions(struct tt_ort_model *self, int32_t index,
                                       struct tt_error *why) {
    struct tt_ort_step *step = &self->steps[index];
    enum tt_err err = wrap_weights(self, &self->slices->stages[index], why);
    if (err || self->own_count == 0)
        return err ? err : make_stage_session(self, index, false, &step->session, why);
    step->own = calloc((size_t)self->own_count, sizeof(OrtSession *));
    if (!step->own)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < self->own_count; i++)
        err = make_stage_session(self, index, true, &step->own[i], why);
    return err;
}

static enum tt_err load_stages(struct tt_ort_model *self,
                               const struct tt_ort_slices_options *options, struct tt_error *why) {
    const struct tt_ort_library *library = self->library;
    self->signature = self->slices->signature;
    if (self->signature.batched)
        self->signature.max_batch = options->max_batch;
    if (!fill_tensors(self))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err =
        tt_ort_check(library, library->api->CreatePrepackedWeightsContainer(&self->prepacked), why);
    for (int32_t s = 0; !err && s < self->step_count; s++)
        err = make_stage_sessions(self, s, why);
    /* Kernels have packed the weights they read; the others are read from the file again on
     * demand. */
    tt_slices_forget_weights(self->slices);
#ifdef __GLIBC__
    malloc_trim(0); /* loading frees much memory: with 20 stages, a fifth of the process's size */
#endif
    return err;
}

/* Default: a full batch in each stage and one between stages, or one per executor. */
static int32_t usual_slots(const struct tt_ort_model *self,
                           const struct tt_ort_slices_options *options) {
    int32_t batches = self->step_count + 1;
    batches = batches > options->executors ? batches : options->executors;
    batches = batches > LEAST_BATCHES ? batches : LEAST_BATCHES;
    int32_t slots = self->signature.max_batch * batches;
    return slots > LEAST_SLOTS ? slots : LEAST_SLOTS;
}

enum tt_err tt_ort_model_new_sliced(const struct tt_ort_library *library,
                                    const struct tt_ort_slices_options *options,
                                    struct tt_ort_model **out_model, struct tt_error *why) {
    struct tt_slices *slices;
    enum tt_err err = tt_slices_open(options->directory, &slices, why);
    if (err)
        return err;
    struct tt_ort_model *self = blank(library, slices->stage_count);
    if (!self) {
        tt_slices_close(slices);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    self->slices = slices;
    self->own_count = options->own_arenas;
    err = load_stages(self, options, why);
    if (!err)
        err = tt_ort_exits_load(self, options->exits, options->exit_count, why);
    tt_slots_init(&self->slots, self->signature.batched, self->tensor_count,
                  options->slot_count ? options->slot_count : usual_slots(self, options));
    if (err) {
        tt_ort_model_free(self);
        return err;
    }
    *out_model = self;
    return TT_OK;
}

void tt_ort_model_free(struct tt_ort_model *take_model) {
    if (!take_model)
        return;
    const OrtApi *api = take_model->library->api;
    for (int32_t s = 0; s < take_model->step_count; s++) {
        struct tt_ort_step *step = &take_model->steps[s];
        if (step->session && take_model->cells)
            tt_ort_shared_give(take_model->library, step->session);
        else if (step->session)
            api->ReleaseSession(step->session);
        for (int32_t i = 0; step->own && i < take_model->own_count; i++)
            if (step->own[i])
                api->ReleaseSession(step->own[i]);
        free(step->own);
        free(step->inputs);
        free(step->outputs);
        free(step->input_names);
        free(step->output_names);
    }
    tt_ort_exits_fini(take_model);
    if (take_model->prepacked)
        api->ReleasePrepackedWeightsContainer(take_model->prepacked);
    for (int32_t i = 0; i < take_model->weight_count; i++)
        api->ReleaseValue(take_model->weights[i]);
    tt_slots_fini(&take_model->slots);
    tt_ort_cells_free(take_model->cells);
    tt_slices_close(take_model->slices);
    free(take_model->weights);
    free(take_model->path);
    free(take_model->steps);
    free(take_model->tensors);
    free(take_model);
}
