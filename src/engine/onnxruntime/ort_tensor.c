#include "engine/onnxruntime/ort_tensor.h"
#include "engine/onnxruntime/ort_check.h"

#include "model/onnx/onnx_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The runtime's numbers of types are those of ONNX files. */
static ONNXTensorElementDataType their_type(enum tt_dtype ours) {
    return (ONNXTensorElementDataType)tt_onnx_element(ours);
}

/* Reads type and shape of a session's input or output, or of a value. */
static enum tt_err read_shape(const struct tt_ort_library *library,
                              const OrtTensorTypeAndShapeInfo *info, const char *what,
                              const char *name, enum tt_dtype *out_dtype,
                              struct tt_shape *out_shape, struct tt_error *why) {
    const OrtApi *api = library->api;
    ONNXTensorElementDataType type;
    size_t rank;
    enum tt_err err = tt_ort_check(library, api->GetTensorElementType(info, &type), why);
    if (!err)
        err = tt_ort_check(library, api->GetDimensionsCount(info, &rank), why);
    if (err)
        return err;
    enum tt_dtype dtype = tt_onnx_dtype((int32_t)type);
    if (dtype == TT_DTYPE_NONE)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "%s '%s': its element type (ONNX number %d) cannot be served", what, name,
                       (int)type);
    if (rank > TT_MAX_RANK)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "%s '%s': %zu dimensions, at most %d can be served",
                       what, name, rank, TT_MAX_RANK);
    struct tt_shape shape = {.rank = (int32_t)rank};
    err = tt_ort_check(library, api->GetDimensions(info, shape.dims, rank), why);
    if (err)
        return err;
    *out_dtype = dtype;
    *out_shape = shape;
    return TT_OK;
}

struct port {
    const char *what;
    OrtStatus *(ORT_API_CALL *get_type)(const OrtSession *, size_t, OrtTypeInfo **);
    OrtStatus *(ORT_API_CALL *get_name)(const OrtSession *, size_t, OrtAllocator *, char **);
};

static enum tt_err read_name(const struct tt_ort_library *library, const OrtSession *session,
                             const struct port *port, size_t index, struct tt_tensor_spec *spec,
                             struct tt_error *why) {
    OrtAllocator *allocator;
    char *name;
    enum tt_err err =
        tt_ort_check(library, library->api->GetAllocatorWithDefaultOptions(&allocator), why);
    if (!err)
        err = tt_ort_check(library, port->get_name(session, index, allocator, &name), why);
    if (err)
        return err;
    size_t length = strlen(name);
    if (length >= sizeof(spec->name))
        err = tt_fail(TT_ERR_UNSUPPORTED, why, "%s %zu has a name of %zu bytes; the maximum is %zu",
                      port->what, index, length, sizeof(spec->name) - 1);
    else
        memcpy(spec->name, name, length + 1);
    allocator->Free(allocator, name);
    return err;
}

static enum tt_err read_spec(const struct tt_ort_library *library, const OrtSession *session,
                             const struct port *port, size_t index, bool batched,
                             struct tt_tensor_spec *spec, struct tt_error *why) {
    enum tt_err err = read_name(library, session, port, index, spec, why);
    if (err)
        return err;
    OrtTypeInfo *type = NULL;
    err = tt_ort_check(library, port->get_type(session, index, &type), why);
    if (err)
        return err;
    const OrtTensorTypeAndShapeInfo *info = NULL;
    err = tt_ort_check(library, library->api->CastTypeInfoToTensorInfo(type, &info), why);
    if (!err && !info)
        err = tt_fail(TT_ERR_UNSUPPORTED, why,
                      "%s '%s' is not a tensor (a sequence, map or optional); only tensors can be "
                      "served",
                      port->what, spec->name);
    if (!err)
        err = read_shape(library, info, port->what, spec->name, &spec->dtype, &spec->shape, why);
    library->api->ReleaseTypeInfo(type);
    if (err)
        return err;
    char shape[256];
    /* Rank 0 of an output may mean that shape inference failed; then each run checks it. */
    bool is_input = port->what[0] == 'i';
    bool fixed = spec->shape.rank > 0 ? spec->shape.dims[0] >= 0 : is_input;
    if (batched && fixed)
        return tt_fail(
            TT_ERR_INVALID, why,
            "%s '%s' has shape %s, but a model that batches needs a variable first "
            "dimension in every tensor; export the model with one, or set max_batch_size to "
            "0",
            port->what, spec->name, tt_shape_print(&spec->shape, shape, sizeof(shape)));
    return TT_OK;
}

enum tt_err tt_ort_signature_read(const struct tt_ort_library *library, const OrtSession *session,
                                  bool batched, int32_t max_batch,
                                  struct tt_signature *out_signature, struct tt_error *why) {
    const OrtApi *api = library->api;
    const struct port input = {"input", api->SessionGetInputTypeInfo, api->SessionGetInputName};
    const struct port output = {"output", api->SessionGetOutputTypeInfo, api->SessionGetOutputName};
    size_t input_count = 0, output_count = 0;
    enum tt_err err = tt_ort_check(library, api->SessionGetInputCount(session, &input_count), why);
    if (!err)
        err = tt_ort_check(library, api->SessionGetOutputCount(session, &output_count), why);
    if (err)
        return err;
    if (input_count > TT_MAX_TENSORS || output_count > TT_MAX_TENSORS)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "%zu inputs and %zu outputs; at most %d of each",
                       input_count, output_count, TT_MAX_TENSORS);
    out_signature->batched = batched;
    out_signature->max_batch = batched ? max_batch : 1;
    out_signature->input_count = (int32_t)input_count;
    out_signature->output_count = (int32_t)output_count;
    for (size_t i = 0; !err && i < input_count; i++)
        err = read_spec(library, session, &input, i, batched, &out_signature->inputs[i], why);
    for (size_t i = 0; !err && i < output_count; i++)
        err = read_spec(library, session, &output, i, batched, &out_signature->outputs[i], why);
    return err;
}

/* Fills a tensor of strings from the view, whose elements are a length of 4 bytes and the bytes. */
static OrtStatus *fill_strings(const OrtApi *api, const struct tt_tensor_view *view,
                               OrtValue *value) {
    const unsigned char *at = view->bytes;
    const unsigned char *end = at + view->size_bytes;
    for (size_t i = 0; at < end; i++) {
        size_t length =
            (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
        at += 4;
        char *to = NULL;
        OrtStatus *status = api->GetResizedStringTensorElementBuffer(value, i, length, &to);
        if (status)
            return status;
        if (length)
            memcpy(to, at, length);
        at += length;
    }
    return NULL;
}

static enum tt_err settle_value(const struct tt_ort_library *library, OrtStatus *take_status,
                                OrtValue *take_value, OrtValue **out_value, struct tt_error *why) {
    enum tt_err err = tt_ort_check(library, take_status, why);
    if (!err)
        *out_value = take_value;
    else if (take_value)
        library->api->ReleaseValue(take_value);
    return err;
}

enum tt_err tt_ort_value_in(const struct tt_ort_library *library, const OrtMemoryInfo *memory,
                            enum tt_dtype dtype, const struct tt_tensor_view *view,
                            OrtValue **out_value, struct tt_error *why) {
    OrtValue *value = NULL;
    tt_assert(dtype != TT_DTYPE_BYTES);
    /* The cast removes const; a run does not write to its inputs. */
    OrtStatus *status = library->api->CreateTensorWithDataAsOrtValue(
        memory, (void *)view->bytes, view->size_bytes, view->shape.dims, (size_t)view->shape.rank,
        their_type(dtype), &value);
    return settle_value(library, status, value, out_value, why);
}

enum tt_err tt_ort_value_new(const struct tt_ort_library *library, enum tt_dtype dtype,
                             const struct tt_tensor_view *view, OrtValue **out_value,
                             struct tt_error *why) {
    const OrtApi *api = library->api;
    OrtValue *value = NULL;
    OrtAllocator *allocator = NULL;
    if (dtype != TT_DTYPE_BYTES)
        return tt_ort_value_in(library, library->cpu_memory, dtype, view, out_value, why);
    OrtStatus *status = api->GetAllocatorWithDefaultOptions(&allocator);
    if (!status)
        status = api->CreateTensorAsOrtValue(allocator, view->shape.dims, (size_t)view->shape.rank,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &value);
    if (!status)
        status = fill_strings(api, view, value);
    return settle_value(library, status, value, out_value, why);
}

enum tt_err tt_ort_value_view(const struct tt_ort_library *library, enum tt_dtype dtype,
                              OrtValue *value, struct tt_tensor_view *out_view,
                              struct tt_error *why) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    void *bytes = NULL;
    struct tt_tensor_view view = {0};
    enum tt_dtype found = TT_DTYPE_NONE;
    enum tt_err err = tt_ort_check(library, library->api->GetTensorTypeAndShape(value, &info), why);
    if (err)
        return err;
    err = read_shape(library, info, "tensor", "", &found, &view.shape, why);
    library->api->ReleaseTensorTypeAndShapeInfo(info);
    if (!err && found != dtype)
        err = tt_fail(TT_ERR_INTERNAL, why, "a tensor is %s, but the model declares %s",
                      tt_dtype_name(found), tt_dtype_name(dtype));
    if (!err)
        err = tt_ort_check(library, library->api->GetTensorMutableData(value, &bytes), why);
    if (err)
        return err;
    view.bytes = bytes;
    view.size_bytes = (size_t)tt_shape_count(&view.shape, 0) * tt_dtype_bytes(dtype);
    *out_view = view;
    return TT_OK;
}

enum tt_err tt_ort_value_copy(const struct tt_ort_library *library, enum tt_dtype dtype,
                              const struct tt_tensor_view *view, OrtValue **out_value,
                              struct tt_error *why) {
    const OrtApi *api = library->api;
    OrtAllocator *allocator;
    OrtValue *value = NULL;
    void *to = NULL;
    OrtStatus *status = api->GetAllocatorWithDefaultOptions(&allocator);
    if (!status)
        status = api->CreateTensorAsOrtValue(allocator, view->shape.dims, (size_t)view->shape.rank,
                                             their_type(dtype), &value);
    if (!status)
        status = api->GetTensorMutableData(value, &to);
    enum tt_err err = tt_ort_check(library, status, why);
    if (err) {
        if (value)
            api->ReleaseValue(value);
        return err;
    }
    if (view->size_bytes)
        memcpy(to, view->bytes, view->size_bytes);
    *out_value = value;
    return TT_OK;
}

/* Writes the strings of `value` in the protocol's form to memory owned by the output. */
static enum tt_err read_strings(const struct tt_ort_library *library, const OrtValue *value,
                                size_t count, struct tt_engine_output *output,
                                struct tt_error *why) {
    size_t content_bytes = 0;
    enum tt_err err =
        tt_ort_check(library, library->api->GetStringTensorDataLength(value, &content_bytes), why);
    if (err)
        return err;
    unsigned char *bytes = malloc(content_bytes + 4 * count + 1);
    size_t *offsets = malloc((count + 1) * sizeof(*offsets));
    output->memory = bytes;
    if (!bytes || !offsets) {
        free(offsets);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of strings",
                       content_bytes);
    }
    /* The plain contents are read to the end of the memory and then spread out from the front.
     * Writing never overtakes reading. */
    unsigned char *content = bytes + 4 * count;
    err = tt_ort_check(
        library,
        library->api->GetStringTensorContent(value, content, content_bytes, offsets, count), why);
    offsets[count] = content_bytes;
    unsigned char *to = bytes;
    for (size_t i = 0; !err && i < count; i++) {
        size_t length = offsets[i + 1] - offsets[i];
        if (length > UINT32_MAX) {
            err = tt_fail(TT_ERR_UNSUPPORTED, why, "a string of %zu bytes cannot be sent", length);
            break;
        }
        memmove(to + 4, content + offsets[i], length);
        for (int k = 0; k < 4; k++)
            to[k] = (unsigned char)(length >> (8 * k));
        to += 4 + length;
    }
    free(offsets);
    output->view.bytes = bytes;
    output->view.size_bytes = content_bytes + 4 * count;
    return err;
}

static enum tt_err read_bytes(const struct tt_ort_library *library,
                              const struct tt_tensor_spec *spec, int32_t index,
                              struct tt_engine_result *result, struct tt_error *why) {
    struct tt_engine_output *output = &result->outputs[index];
    size_t count = (size_t)tt_shape_count(&output->view.shape, 0);
    if (spec->dtype != TT_DTYPE_BYTES) {
        void *bytes = NULL;
        output->view.size_bytes = count * tt_dtype_bytes(spec->dtype);
        enum tt_err err =
            tt_ort_check(library, library->api->GetTensorMutableData(output->handle, &bytes), why);
        output->view.bytes = bytes;
        return err;
    }
    enum tt_err err = read_strings(library, output->handle, count, output, why);
    if (!err && result->batched)
        err = tt_engine_result_index_rows(result, index);
    return err;
}

enum tt_err tt_ort_output_read(const struct tt_ort_library *library,
                               const struct tt_tensor_spec *spec, int32_t index,
                               OrtValue *take_value, struct tt_engine_result *result,
                               struct tt_error *why) {
    struct tt_engine_output *output = &result->outputs[index];
    output->handle = take_value;
    OrtTensorTypeAndShapeInfo *info = NULL;
    enum tt_err err =
        tt_ort_check(library, library->api->GetTensorTypeAndShape(take_value, &info), why);
    if (err)
        return err;
    enum tt_dtype dtype;
    struct tt_shape *shape = &output->view.shape;
    err = read_shape(library, info, "output", spec->name, &dtype, shape, why);
    library->api->ReleaseTensorTypeAndShapeInfo(info);
    if (err)
        return err;
    if (dtype != spec->dtype)
        return tt_fail(TT_ERR_INTERNAL, why, "output '%s' is %s, but the model declares %s",
                       spec->name, tt_dtype_name(dtype), tt_dtype_name(spec->dtype));
    char text[256];
    if (result->batched && (shape->rank < 1 || shape->dims[0] != result->rows))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "output '%s' has shape %s after a batch of %d rows: the model does not keep "
                       "rows apart in dimension 0, so it cannot be batched (max_batch_size: 0)",
                       spec->name, tt_shape_print(shape, text, sizeof(text)), result->rows);
    return read_bytes(library, spec, index, result, why);
}

void tt_ort_output_dispose(const void *context, void *handle) {
    const struct tt_ort_library *library = context;
    library->api->ReleaseValue(handle);
}
