#include "model/onnx/slices.h"

#include "base/array.h"
#include "base/regular_file.h"
#include "model/text/textproto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_STAGE_BYTES = 1 << 30 };

struct reader {
    const char *directory;
    struct tt_slices *slices;
    int64_t tensor_capacity;
    struct tt_error *why;
};

static enum tt_err no_memory(struct reader *r) {
    return tt_fail(TT_ERR_NO_MEMORY, r->why, "%s: out of memory", r->directory);
}

/* ---- the manifest ---- */

static enum tt_err take_tensors(struct reader *r, Tutti__SliceTensor **from, size_t count,
                                struct tt_tensor_spec *specs, int32_t *out_count) {
    if (count > TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, r->why, "%s/slices.pbtxt: %zu tensors; the maximum is %d",
                       r->directory, count, TT_MAX_TENSORS);
    for (size_t i = 0; i < count; i++) {
        const Tutti__SliceTensor *tensor = from[i];
        struct tt_tensor_spec *spec = &specs[i];
        spec->dtype = tt_dtype_parse(tensor->datatype, strlen(tensor->datatype));
        if (strlen(tensor->name) >= sizeof(spec->name) || tensor->n_dims > TT_MAX_RANK ||
            spec->dtype == TT_DTYPE_NONE)
            return tt_fail(TT_ERR_INVALID, r->why,
                           "%s/slices.pbtxt: tensor '%.80s' has a name, a datatype or a rank that "
                           "cannot be",
                           r->directory, tensor->name);
        memcpy(spec->name, tensor->name, strlen(tensor->name) + 1);
        spec->shape.rank = (int32_t)tensor->n_dims;
        for (size_t d = 0; d < tensor->n_dims; d++)
            spec->shape.dims[d] = tensor->dims[d];
    }
    *out_count = (int32_t)count;
    return TT_OK;
}

static enum tt_err read_manifest(struct reader *r) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/slices.pbtxt", r->directory);
    ProtobufCMessage *message;
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__slices__descriptor, NULL, &message, r->why);
    if (err)
        return err;
    struct tt_slices *slices = r->slices;
    Tutti__Slices *manifest = slices->manifest = (Tutti__Slices *)message;
    slices->signature.batched = manifest->batched;
    slices->signature.max_batch = 1;
    err = take_tensors(r, manifest->input, manifest->n_input, slices->signature.inputs,
                       &slices->signature.input_count);
    if (!err)
        err = take_tensors(r, manifest->output, manifest->n_output, slices->signature.outputs,
                           &slices->signature.output_count);
    if (!err && manifest->n_stage == 0)
        err = tt_fail(TT_ERR_INVALID, r->why, "%s: no stage", path);
    return err;
}

/* ---- stages ---- */

static int32_t find_tensor(const struct tt_slices *slices, const char *name) {
    for (int32_t i = 0; i < slices->tensor_count; i++)
        if (strcmp(slices->tensors[i].name, name) == 0)
            return i;
    return -1;
}

static struct tt_shape read_shape(const Onnx__TensorType *type) {
    struct tt_shape shape = {0};
    for (size_t d = 0; type->shape && d < type->shape->n_dim; d++) {
        const Onnx__Dimension *dim = type->shape->dim[d];
        if (shape.rank == TT_MAX_RANK)
            return (struct tt_shape){0};
        shape.dims[shape.rank++] = dim->has_dim_value ? dim->dim_value : -1;
    }
    return shape;
}

static enum tt_err add_tensor(struct reader *r, const char *name, enum tt_dtype dtype,
                              int32_t producer, int32_t *out_index) {
    struct tt_slices *slices = r->slices;
    if (!TT_ARRAY_RESERVE(slices->tensors, &r->tensor_capacity, slices->tensor_count + 1))
        return no_memory(r);
    *out_index = slices->tensor_count++;
    slices->tensors[*out_index] = (struct tt_slices_tensor){
        .name = name, .dtype = dtype, .producer = producer, .last_use = producer};
    return TT_OK;
}

static int64_t external_number(const Onnx__Tensor *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++)
        if (tensor->external_data[i]->key && strcmp(tensor->external_data[i]->key, key) == 0 &&
            tensor->external_data[i]->value)
            return strtoll(tensor->external_data[i]->value, NULL, 10);
    return -1;
}

static enum tt_err take_weight(struct reader *r, const char *file, const Onnx__Tensor *tensor,
                               struct tt_slices_weight *weight) {
    int64_t offset = external_number(tensor, "offset");
    int64_t length = external_number(tensor, "length");
    *weight = (struct tt_slices_weight){.name = tensor->name ? tensor->name : "",
                                        .dtype = tt_onnx_dtype(tensor->data_type),
                                        .offset = (size_t)offset,
                                        .size_bytes = (size_t)length};
    weight->shape.rank = (int32_t)tensor->n_dims;
    for (size_t d = 0; d < tensor->n_dims && d < TT_MAX_RANK; d++)
        weight->shape.dims[d] = tensor->dims[d];
    int64_t count = tensor->n_dims > TT_MAX_RANK ? -1 : tt_shape_count(&weight->shape, 0);
    size_t wanted;
    if (offset < 0 || length < 0 || count < 0 ||
        __builtin_mul_overflow((size_t)count, tt_dtype_bytes(weight->dtype), &wanted) ||
        wanted != (size_t)length || weight->offset > r->slices->weights_bytes ||
        weight->size_bytes > r->slices->weights_bytes - weight->offset)
        return tt_fail(TT_ERR_INVALID, r->why,
                       "%s/%s: weight '%s' is not where it should be in weights.bin (%zu bytes)",
                       r->directory, file, weight->name, r->slices->weights_bytes);
    return TT_OK;
}

static enum tt_err take_weights(struct reader *r, const char *file, struct tt_slices_stage *stage) {
    const Onnx__Graph *graph = stage->model->graph;
    stage->weights = calloc(graph->n_initializer + 1, sizeof(*stage->weights));
    if (!stage->weights)
        return no_memory(r);
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < graph->n_initializer; i++)
        if (graph->initializer[i]->data_location == 1)
            err =
                take_weight(r, file, graph->initializer[i], &stage->weights[stage->weight_count++]);
    return err;
}

static enum tt_err take_ports(struct reader *r, int32_t index, const char *file,
                              struct tt_slices_stage *stage) {
    const Onnx__Graph *graph = stage->model->graph;
    stage->inputs = calloc(graph->n_input + 1, sizeof(*stage->inputs));
    stage->outputs = calloc(graph->n_output + 1, sizeof(*stage->outputs));
    if (!stage->inputs || !stage->outputs)
        return no_memory(r);
    for (size_t i = 0; i < graph->n_input; i++) {
        int32_t tensor = graph->input[i]->name ? find_tensor(r->slices, graph->input[i]->name) : -1;
        if (tensor < 0)
            return tt_fail(TT_ERR_INVALID, r->why, "%s/%s: no stage before it gives its input '%s'",
                           r->directory, file, graph->input[i]->name ? graph->input[i]->name : "");
        r->slices->tensors[tensor].last_use = index;
        stage->inputs[stage->input_count++] = tensor;
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        const Onnx__Value *value = graph->output[i];
        const Onnx__TensorType *type = value->type ? value->type->tensor_type : NULL;
        enum tt_dtype dtype = type ? tt_onnx_dtype(type->elem_type) : TT_DTYPE_NONE;
        if (!value->name || dtype == TT_DTYPE_NONE || find_tensor(r->slices, value->name) >= 0)
            return tt_fail(TT_ERR_INVALID, r->why,
                           "%s/%s: output '%s' has no type, or comes from an earlier stage too",
                           r->directory, file, value->name ? value->name : "");
        enum tt_err err =
            add_tensor(r, value->name, dtype, index, &stage->outputs[stage->output_count]);
        if (err)
            return err;
        r->slices->tensors[stage->outputs[stage->output_count]].shape = read_shape(type);
        stage->output_count++;
    }
    return TT_OK;
}

static enum tt_err read_stage(struct reader *r, int32_t index) {
    struct tt_slices_stage *stage = &r->slices->stages[index];
    const char *file = r->slices->manifest->stage[index]->file;
    char path[4096];
    if (strchr(file, '/'))
        return tt_fail(TT_ERR_INVALID, r->why, "%s/slices.pbtxt: '%s' is not a file of the folder",
                       r->directory, file);
    snprintf(path, sizeof(path), "%s/%s", r->directory, file);
    enum tt_err err = tt_regular_file_read(path, MAX_STAGE_BYTES, &stage->bytes, r->why);
    if (err)
        return err;
    stage->model = onnx__model__unpack(NULL, stage->bytes.length,
                                       (const uint8_t *)tt_text_string(&stage->bytes));
    if (!stage->model || !stage->model->graph)
        return tt_fail(TT_ERR_INVALID, r->why, "%s: not an ONNX file", path);
    err = take_weights(r, file, stage);
    return err ? err : take_ports(r, index, file, stage);
}

static enum tt_err read_stages(struct reader *r) {
    struct tt_slices *slices = r->slices;
    slices->stage_count = (int32_t)slices->manifest->n_stage;
    slices->stages = calloc((size_t)slices->stage_count, sizeof(*slices->stages));
    if (!slices->stages)
        return no_memory(r);
    enum tt_err err = TT_OK;
    int32_t index;
    for (int32_t i = 0; !err && i < slices->signature.input_count; i++)
        err = add_tensor(r, slices->signature.inputs[i].name, slices->signature.inputs[i].dtype, -1,
                         &index);
    for (int32_t s = 0; !err && s < slices->stage_count; s++)
        err = read_stage(r, s);
    for (int32_t i = 0; !err && i < slices->signature.output_count; i++) {
        index = find_tensor(slices, slices->signature.outputs[i].name);
        if (index < 0 || slices->tensors[index].producer < 0)
            return tt_fail(TT_ERR_INVALID, r->why, "%s: no stage gives output '%s'", r->directory,
                           slices->signature.outputs[i].name);
        slices->tensors[index].last_use = slices->stage_count;
        slices->outputs[i] = index;
    }
    return err;
}

/* ---- weights ---- */

static enum tt_err map_weights(struct reader *r) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/weights.bin", r->directory);
    int descriptor;
    enum tt_err err = tt_regular_file_open(path, &descriptor, r->why);
    if (err)
        return err;
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        err = tt_fail(TT_ERR_IO, r->why, "%s: %s", path, strerror(errno));
        close(descriptor);
        return err;
    }
    if (status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED)
            err = tt_fail(TT_ERR_IO, r->why, "%s: %s", path, strerror(errno));
        else {
            r->slices->weights = bytes;
            r->slices->weights_bytes = (size_t)status.st_size;
        }
    }
    close(descriptor);
    return err;
}

void tt_slices_forget_weights(const struct tt_slices *self) {
    if (self->weights)
        (void)madvise(self->weights, self->weights_bytes, MADV_DONTNEED);
}

enum tt_err tt_slices_open(const char *directory, struct tt_slices **out_slices,
                           struct tt_error *why) {
    struct tt_slices *self = calloc(1, sizeof(*self));
    struct reader r = {.directory = directory, .slices = self, .why = why};
    if (!self)
        return no_memory(&r);
    enum tt_err err = read_manifest(&r);
    if (!err)
        err = map_weights(&r);
    if (!err)
        err = read_stages(&r);
    if (err) {
        tt_slices_close(self);
        return err;
    }
    *out_slices = self;
    return TT_OK;
}

enum tt_err tt_slices_describe(const char *directory, char *out, size_t capacity,
                               struct tt_error *why) {
    struct tt_slices *slices;
    enum tt_err err = tt_slices_open(directory, &slices, why);
    if (err)
        return err;
    struct tt_text text;
    tt_text_init(&text);
    tt_text_printf(&text, "%s:", slices->manifest->asked);
    for (size_t s = 1; s < slices->manifest->n_stage; s++)
        tt_text_printf(&text, "%s%d", s > 1 ? "," : " ", slices->manifest->stage[s]->first_node);
    snprintf(out, capacity, "%s", tt_text_string(&text));
    tt_text_fini(&text);
    tt_slices_close(slices);
    return TT_OK;
}

void tt_slices_close(struct tt_slices *take_slices) {
    if (!take_slices)
        return;
    for (int32_t s = 0; take_slices->stages && s < take_slices->stage_count; s++) {
        struct tt_slices_stage *stage = &take_slices->stages[s];
        if (stage->model)
            onnx__model__free_unpacked(stage->model, NULL);
        tt_text_fini(&stage->bytes);
        free(stage->inputs);
        free(stage->outputs);
        free(stage->weights);
    }
    free(take_slices->stages);
    free(take_slices->tensors);
    if (take_slices->weights)
        munmap(take_slices->weights, take_slices->weights_bytes);
    if (take_slices->manifest)
        tutti__slices__free_unpacked(take_slices->manifest, NULL);
    free(take_slices);
}
