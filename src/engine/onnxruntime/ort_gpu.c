#include "engine/onnxruntime/ort_gpu.h"

#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_model.h"
#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What a stream has. One thread at a time. */
struct lane {
    OrtSession *session;
    OrtIoBinding *binding;
};

struct tt_engine_on_gpu {
    const struct tt_ort_library *library;
    struct tt_signature signature;
    OrtMemoryInfo *memory; /* of the GPU */
    OrtRunOptions *run_options;
    int32_t lane_count;
    struct lane lanes[];
};

/* ---- sessions ---- */

/* Setting options by their names makes them anew, so the stream comes behind. */
static OrtStatus *set_provider(const OrtApi *api, const struct tt_engine_gpu_options *options,
                               void *stream, OrtCUDAProviderOptionsV2 *provider) {
    char gpu[16], limit[32];
    const char *keys[] = {"device_id", "gpu_mem_limit", "arena_extend_strategy",
                          "cudnn_conv_algo_search", "do_copy_in_default_stream"};
    /* A search for the fastest convolution would be made again for each batch size. */
    const char *values[] = {gpu, limit, "kSameAsRequested", "HEURISTIC", "1"};
    _Static_assert(sizeof(keys) == sizeof(values), "a value for each key");
    snprintf(gpu, sizeof(gpu), "%d", options->gpu);
    snprintf(limit, sizeof(limit), "%" PRId64, options->memory_bytes);
    OrtStatus *status =
        api->UpdateCUDAProviderOptions(provider, keys, values, sizeof(keys) / sizeof(*keys));
    return status
               ? status
               : api->UpdateCUDAProviderOptionsWithValue(provider, "user_compute_stream", stream);
}

static OrtStatus *add_provider(const OrtApi *api, const struct tt_engine_gpu_options *options,
                               void *stream, OrtSessionOptions *session) {
    OrtCUDAProviderOptionsV2 *provider = NULL;
    OrtStatus *status = api->CreateCUDAProviderOptions(&provider);
    if (!status)
        status = set_provider(api, options, stream, provider);
    if (!status)
        status = api->SessionOptionsAppendExecutionProvider_CUDA_V2(session, provider);
    if (provider)
        api->ReleaseCUDAProviderOptions(provider);
    return status;
}

static enum tt_err open_session(const struct tt_engine_on_gpu *self, const char *path,
                                const struct tt_engine_gpu_options *options, void *stream,
                                OrtSession **out_session, struct tt_error *why) {
    const struct tt_ort_library *library = self->library;
    OrtSessionOptions *session = NULL;
    enum tt_err err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_ALL, &session, why);
    if (err)
        return err;
    err = tt_ort_check(library, add_provider(library->api, options, stream, session), why);
    if (err)
        err = tt_fail_in(TT_ERR_UNSUPPORTED, why,
                         "ONNX Runtime %s cannot use GPU %d (`make cuda` fetches a library with "
                         "CUDA)",
                         library->version, options->gpu);
    else
        err = tt_ort_check(
            library, library->api->CreateSession(library->env, path, session, out_session), why);
    library->api->ReleaseSessionOptions(session);
    return err;
}

/* Runs zeros through the session, synchronously: so its arena has its size, and the first batch
 * does not wait for kernels to be loaded. */
static enum tt_err rehearse(const struct tt_engine_on_gpu *self, const struct lane *lane,
                            struct tt_error *why) {
    const struct tt_signature *signature = &self->signature;
    struct tt_synthetic_input zeros;
    const char *names[TT_MAX_TENSORS];
    OrtValue *values[TT_MAX_TENSORS] = {NULL};
    for (int32_t i = 0; i < signature->output_count; i++)
        names[i] = signature->outputs[i].name;
    enum tt_err err = tt_synthetic_input_init(&zeros, signature, 0, signature->max_batch, 1,
                                              TT_SYNTHETIC_INPUT_ZEROS, why);
    if (err)
        return err;
    err = tt_ort_session_run(self->library, lane->session, signature, &zeros, names,
                             signature->output_count, values, why);
    for (int32_t i = 0; i < signature->output_count; i++)
        if (values[i])
            self->library->api->ReleaseValue(values[i]);
    tt_synthetic_input_fini(&zeros);
    return err ? tt_fail_in(err, why, "a batch of %d rows on the GPU", signature->max_batch)
               : TT_OK;
}

static enum tt_err open_lane(struct tt_engine_on_gpu *self, const char *path,
                             const struct tt_engine_gpu_options *options, int32_t index,
                             struct tt_error *why) {
    struct lane *lane = &self->lanes[index];
    enum tt_err err =
        open_session(self, path, options, options->streams[index], &lane->session, why);
    if (!err)
        err = tt_ort_check(self->library,
                           self->library->api->CreateIoBinding(lane->session, &lane->binding), why);
    return err ? err : rehearse(self, lane, why);
}

static OrtStatus *open_shared(struct tt_engine_on_gpu *self, int32_t gpu) {
    const OrtApi *api = self->library->api;
    OrtStatus *status =
        api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, gpu, OrtMemTypeDefault, &self->memory);
    if (!status)
        status = api->CreateRunOptions(&self->run_options);
    if (!status)
        status = api->AddRunConfigEntry(self->run_options,
                                        "disable_synchronize_execution_providers", "1");
    return status;
}

static void close_gpu(struct tt_engine_on_gpu *take_self) {
    if (!take_self)
        return;
    const OrtApi *api = take_self->library->api;
    for (int32_t i = 0; i < take_self->lane_count; i++) {
        struct lane *lane = &take_self->lanes[i];
        if (lane->binding)
            api->ReleaseIoBinding(lane->binding);
        if (lane->session)
            api->ReleaseSession(lane->session);
    }
    if (take_self->run_options)
        api->ReleaseRunOptions(take_self->run_options);
    if (take_self->memory)
        api->ReleaseMemoryInfo(take_self->memory);
    free(take_self);
}

static enum tt_err open_gpu(struct tt_engine_model *engine_model,
                            const struct tt_engine_gpu_options *options,
                            struct tt_engine_on_gpu **out_self, struct tt_error *why) {
    const struct tt_ort_model *model = TT_CONTAINER_OF(engine_model, struct tt_ort_model, model);
    if (!model->path)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "only models of one file run on a GPU");
    size_t lanes = (size_t)options->stream_count;
    struct tt_engine_on_gpu *self = calloc(1, sizeof(*self) + lanes * sizeof(self->lanes[0]));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model on a GPU");
    self->library = model->library;
    self->signature = *options->signature;
    self->lane_count = options->stream_count;
    enum tt_err err = tt_ort_check(self->library, open_shared(self, options->gpu), why);
    for (int32_t i = 0; !err && i < self->lane_count; i++)
        err = open_lane(self, model->path, options, i, why);
    if (err) {
        close_gpu(self);
        return err;
    }
    *out_self = self;
    return TT_OK;
}

/* ---- runs ---- */

typedef OrtStatus *(ORT_API_CALL *bind_fn)(OrtIoBinding *, const char *, const OrtValue *);

/* A binding refers to the value's memory; the value itself may go. */
static enum tt_err bind(const struct tt_engine_on_gpu *self, OrtIoBinding *binding, bind_fn bind_to,
                        const struct tt_tensor_spec *specs, int32_t count, int32_t rows,
                        const uint64_t *addresses, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++) {
        struct tt_tensor_view view = {.bytes = (const void *)(uintptr_t)addresses[i],
                                      .size_bytes = tt_tensor_row_bytes(&specs[i]) * (size_t)rows,
                                      .shape = specs[i].shape};
        view.shape.dims[0] = rows;
        OrtValue *value;
        err = tt_ort_value_in(self->library, self->memory, specs[i].dtype, &view, &value, why);
        if (err)
            return err;
        err = tt_ort_check(self->library, bind_to(binding, specs[i].name, value), why);
        self->library->api->ReleaseValue(value);
    }
    return err;
}

static enum tt_err enqueue(struct tt_engine_on_gpu *self, int32_t stream, int32_t rows,
                           const uint64_t *in, const uint64_t *out, struct tt_error *why) {
    const OrtApi *api = self->library->api;
    const struct tt_signature *signature = &self->signature;
    tt_assert(stream >= 0 && stream < self->lane_count);
    const struct lane *lane = &self->lanes[stream];
    enum tt_err err = bind(self, lane->binding, api->BindInput, signature->inputs,
                           signature->input_count, rows, in, why);
    if (!err)
        err = bind(self, lane->binding, api->BindOutput, signature->outputs,
                   signature->output_count, rows, out, why);
    return err ? err
               : tt_ort_check(self->library,
                              api->RunWithBinding(lane->session, self->run_options, lane->binding),
                              why);
}

const struct tt_engine_gpu tt_ort_gpu = {.open = open_gpu, .enqueue = enqueue, .close = close_gpu};
