#include "engine/onnxruntime/ort_gpu_weights.h"

#include "base/array.h"
#include "base/regular_file.h"
#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_tensor.h"
#include "model/onnx/onnx_graph.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_SHARED_BYTES = 1024, MAX_FILE_BYTES = INT32_MAX };

struct weight {
    int32_t step;
    char *name;        /* owned */
    const void *bytes; /* of the file; NULL: forgotten */
    enum tt_dtype dtype;
    struct tt_tensor_view view; /* on the GPU, once it is kept */
    OrtValue *value;            /* NULL: it is not kept */
};

struct tt_ort_gpu_weights {
    const struct tt_ort_library *library;
    const OrtMemoryInfo *memory;
    Onnx__Model *file; /* of a whole graph; NULL: its bytes are the stages' */
    struct weight *weights;
    int64_t capacity;
    int32_t count;
};

/* ---- which there are ---- */

static bool is_shared(enum tt_dtype dtype, size_t size_bytes) {
    bool is_float = dtype >= TT_DTYPE_FP16 && dtype <= TT_DTYPE_BF16;
    return size_bytes >= LEAST_SHARED_BYTES &&
           (is_float || dtype == TT_DTYPE_INT8 || dtype == TT_DTYPE_UINT8);
}

static enum tt_err add(struct tt_ort_gpu_weights *self, const struct weight *weight,
                       struct tt_error *why) {
    if (!is_shared(weight->dtype, weight->view.size_bytes))
        return TT_OK;
    char *name = strdup(weight->name);
    if (!name || !TT_ARRAY_RESERVE(self->weights, &self->capacity, self->count + 1)) {
        free(name);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the weights of a model");
    }
    self->weights[self->count] = *weight;
    self->weights[self->count++].name = name;
    return TT_OK;
}

static enum tt_err add_stages(struct tt_ort_gpu_weights *self, const struct tt_ort_model *model,
                              struct tt_error *why) {
    const struct tt_slices *slices = model->slices;
    enum tt_err err = TT_OK;
    for (int32_t s = 0; s < slices->stage_count; s++)
        for (int32_t i = 0; !err && i < slices->stages[s].weight_count; i++) {
            const struct tt_slices_weight *from = &slices->stages[s].weights[i];
            const struct weight weight = {
                .step = s,
                .name = (char *)from->name,
                .bytes = (const char *)slices->weights + from->offset,
                .dtype = from->dtype,
                .view = {.size_bytes = from->size_bytes, .shape = from->shape}};
            err = add(self, &weight, why);
        }
    return err;
}

static enum tt_err add_initializer(struct tt_ort_gpu_weights *self, const Onnx__Tensor *tensor,
                                   struct tt_error *why) {
    struct weight weight = {.name = tensor->name, .dtype = tt_onnx_dtype(tensor->data_type)};
    size_t bytes = 0;
    weight.bytes = tt_onnx_tensor_bytes(tensor, &bytes);
    if (!weight.bytes || !tensor->name || tensor->n_dims > TT_MAX_RANK)
        return TT_OK;
    weight.view.shape.rank = (int32_t)tensor->n_dims;
    for (size_t d = 0; d < tensor->n_dims; d++)
        weight.view.shape.dims[d] = tensor->dims[d];
    int64_t elements = tt_shape_count(&weight.view.shape, 0);
    weight.view.size_bytes = bytes;
    bool fits = elements > 0 && (size_t)elements == bytes / tt_dtype_bytes(weight.dtype);
    return fits ? add(self, &weight, why) : TT_OK;
}

static enum tt_err add_file(struct tt_ort_gpu_weights *self, const char *path,
                            struct tt_error *why) {
    struct tt_text bytes;
    tt_text_init(&bytes);
    enum tt_err err = tt_regular_file_read(path, MAX_FILE_BYTES, &bytes, why);
    if (!err)
        self->file =
            onnx__model__unpack(NULL, bytes.length, (const uint8_t *)tt_text_string(&bytes));
    tt_text_fini(&bytes);
    if (err)
        return err;
    if (!self->file)
        return tt_fail(TT_ERR_INVALID, why, "%s: not an ONNX file any more", path);
    const Onnx__Graph *graph = self->file->graph;
    for (size_t i = 0; !err && graph && i < graph->n_initializer; i++)
        err = add_initializer(self, graph->initializer[i], why);
    return err;
}

enum tt_err tt_ort_gpu_weights_new(const struct tt_ort_model *model, const OrtMemoryInfo *memory,
                                   struct tt_ort_gpu_weights **out_weights, struct tt_error *why) {
    struct tt_ort_gpu_weights *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the weights of a model");
    self->library = model->library;
    self->memory = memory;
    enum tt_err err = model->path ? add_file(self, model->path, why) : add_stages(self, model, why);
    if (err) {
        tt_ort_gpu_weights_free(self);
        return err;
    }
    *out_weights = self;
    return TT_OK;
}

void tt_ort_gpu_weights_forget(struct tt_ort_gpu_weights *self) {
    if (!self)
        return;
    for (int32_t i = 0; i < self->count; i++)
        self->weights[i].bytes = NULL;
    if (self->file)
        onnx__model__free_unpacked(self->file, NULL);
    self->file = NULL;
}

void tt_ort_gpu_weights_free(struct tt_ort_gpu_weights *take_self) {
    if (!take_self)
        return;
    tt_ort_gpu_weights_forget(take_self);
    for (int32_t i = 0; i < take_self->count; i++) {
        if (take_self->weights[i].value)
            take_self->library->api->ReleaseValue(take_self->weights[i].value);
        free(take_self->weights[i].name);
    }
    free(take_self->weights);
    free(take_self);
}

/* ---- on the GPU ---- */

bool tt_ort_gpu_weights_has(const struct tt_ort_gpu_weights *self, int32_t step) {
    bool has = false;
    for (int32_t i = 0; i < self->count; i++)
        has |= self->weights[i].step == step;
    return has;
}

/* A weight that two stages read is in their file once. */
static const struct weight *find_kept(const struct tt_ort_gpu_weights *self, const void *bytes) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->weights[i].value && self->weights[i].bytes == bytes)
            return &self->weights[i];
    return NULL;
}

static enum tt_err keep_weight(struct tt_ort_gpu_weights *self, struct weight *weight,
                               tt_engine_keep_fn *keep, void *keep_context, struct tt_error *why) {
    const struct weight *kept = find_kept(self, weight->bytes);
    uint64_t address = kept ? (uint64_t)(uintptr_t)kept->view.bytes : 0;
    enum tt_err err =
        kept ? TT_OK : keep(keep_context, weight->bytes, weight->view.size_bytes, &address, why);
    if (err)
        return err;
    weight->view.bytes = (const void *)(uintptr_t)address;
    return tt_ort_value_in(self->library, self->memory, weight->dtype, &weight->view,
                           &weight->value, why);
}

enum tt_err tt_ort_gpu_weights_keep(struct tt_ort_gpu_weights *self, int32_t step,
                                    tt_engine_keep_fn *keep, void *keep_context,
                                    struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->count; i++)
        if (self->weights[i].step == step)
            err = keep_weight(self, &self->weights[i], keep, keep_context, why);
    return err;
}

enum tt_err tt_ort_gpu_weights_offer(const struct tt_ort_gpu_weights *self, int32_t step,
                                     OrtSessionOptions *options, struct tt_error *why) {
    const OrtApi *api = self->library->api;
    enum tt_err err = tt_ort_check(
        self->library, api->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"),
        why);
    for (int32_t i = 0; !err && i < self->count; i++)
        if (self->weights[i].step == step && self->weights[i].value)
            err = tt_ort_check(
                self->library,
                api->AddInitializer(options, self->weights[i].name, self->weights[i].value), why);
    return err;
}
