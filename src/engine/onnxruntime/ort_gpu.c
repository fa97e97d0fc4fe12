#include "engine/onnxruntime/ort_gpu.h"

#include "engine/cell_set.h"
#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_gpu_weights.h"
#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_tensor.h"
#include "engine/onnxruntime/ort_trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A step, or the graph of an exit, on a stream. One thread at a time. */
struct lane {
    OrtSession *session;
    OrtIoBinding *binding;
};

struct tt_engine_on_gpu {
    const struct tt_ort_model *model; /* borrowed */
    const struct tt_ort_library *library;
    struct tt_signature signature;
    const struct tt_dataflow *dataflow; /* borrowed */
    OrtMemoryInfo *memory;              /* of the GPU */
    OrtRunOptions *run_options;
    struct tt_ort_gpu_weights *weights; /* NULL: each stream has its own */
    int32_t stream_count;
    struct lane lanes[]; /* [stream_count][steps, and exits] */
};

static int32_t lane_count(const struct tt_ort_model *model) {
    return model->step_count + model->exits.count;
}

static struct lane *lane_of(struct tt_engine_on_gpu *self, int32_t stream, int32_t step) {
    return &self->lanes[stream * lane_count(self->model) + step];
}

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

/* The file of a step; NULL: it is a stage, whose bytes are in memory. */
static const char *path_of(const struct tt_ort_model *model, int32_t step) {
    if (step >= model->step_count)
        return model->exits.exits[step - model->step_count].path;
    return model->cells ? model->cells->cells->types[step].path : model->path;
}

static OrtStatus *create_session(const struct tt_engine_on_gpu *self, int32_t step,
                                 const OrtSessionOptions *options, OrtSession **out_session) {
    const struct tt_ort_library *library = self->library;
    const char *path = path_of(self->model, step);
    if (path)
        return library->api->CreateSession(library->env, path, options, out_session);
    const struct tt_text *bytes = &self->model->slices->stages[step].bytes;
    return library->api->CreateSessionFromArray(library->env, tt_text_string(bytes), bytes->length,
                                                options, out_session);
}

static enum tt_err set_options(const struct tt_engine_on_gpu *self,
                               const struct tt_engine_gpu_options *options, int32_t stream,
                               int32_t step, bool shares, OrtSessionOptions *session,
                               struct tt_error *why) {
    const struct tt_ort_library *library = self->library;
    enum tt_err err = tt_ort_check(
        library, add_provider(library->api, options, options->streams[stream], session), why);
    if (err)
        return tt_fail_in(TT_ERR_UNSUPPORTED, why,
                          "ONNX Runtime %s cannot use GPU %d (`make cuda` fetches a library with "
                          "CUDA)",
                          library->version, options->gpu);
    if (!path_of(self->model, step))
        err = tt_ort_stage_weights(self->model, step, session, why);
    return err || !shares ? err : tt_ort_gpu_weights_offer(self->weights, step, session, why);
}

static enum tt_err open_session(const struct tt_engine_on_gpu *self,
                                const struct tt_engine_gpu_options *options, int32_t stream,
                                int32_t step, bool shares, OrtSession **out_session,
                                struct tt_error *why) {
    const struct tt_ort_library *library = self->library;
    OrtSessionOptions *session = NULL;
    enum tt_err err = tt_ort_session_options_new(
        library, path_of(self->model, step) ? TT_ORT_OPTIMIZE_ALL : TT_ORT_OPTIMIZE_NONE, &session,
        why);
    if (err)
        return err;
    err = set_options(self, options, stream, step, shares, session, why);
    if (!err)
        err = tt_ort_check(library, create_session(self, step, session, out_session), why);
    library->api->ReleaseSessionOptions(session);
    return err;
}

static enum tt_err rehearse_exits(struct tt_engine_on_gpu *self, int32_t stream,
                                  OrtValue *const *values, struct tt_error *why) {
    const struct tt_ort_exits *exits = &self->model->exits;
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < exits->count; e++) {
        OrtSession *session = lane_of(self, stream, self->model->step_count + e)->session;
        OrtValue *made[TT_MAX_TENSORS] = {NULL};
        if (session)
            err = tt_ort_trial_run_exit(self->model, &exits->exits[e], session, values, made, why);
        for (int32_t o = 0; o < TT_MAX_TENSORS; o++)
            if (made[o])
                self->library->api->ReleaseValue(made[o]);
    }
    return err;
}

/* Runs zeros through the sessions of a stream, synchronously: so their arenas have their sizes, and
 * the first batch does not wait for kernels to be loaded. */
static enum tt_err rehearse(struct tt_engine_on_gpu *self, int32_t stream, struct tt_error *why) {
    const struct tt_ort_model *model = self->model;
    int32_t rows = self->signature.max_batch;
    OrtValue **values = calloc((size_t)model->tensor_count + 1, sizeof(OrtValue *));
    OrtSession **sessions = calloc((size_t)model->step_count, sizeof(OrtSession *));
    enum tt_err err =
        values && sessions ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    for (int32_t s = 0; !err && s < model->step_count; s++)
        sessions[s] = lane_of(self, stream, s)->session;
    if (!err) {
        err = tt_ort_trial_run(model, sessions, &self->signature, rows, values, why);
        if (!err)
            err = rehearse_exits(self, stream, values, why);
        tt_ort_trial_drop(model, values);
        if (err)
            (void)tt_fail_in(err, why, "a batch of %d rows on the GPU", rows);
    }
    free(values);
    free(sessions);
    return err;
}

static struct tt_tensor_spec spec_of(const struct tt_dataflow_tensor *tensor, const char *name) {
    struct tt_tensor_spec spec = {.dtype = tensor->dtype, .shape = tensor->shape};
    snprintf(spec.name, sizeof(spec.name), "%s", name);
    return spec;
}

/* The same: a batch of zeros of a type of cells. */
static enum tt_err rehearse_type(struct tt_engine_on_gpu *self, int32_t stream, int32_t type,
                                 struct tt_signature *signature, struct tt_error *why) {
    const struct tt_ort_step *step = &self->model->steps[type];
    const struct tt_dataflow_step *flow = &self->dataflow->steps[type];
    struct tt_synthetic_input zeros;
    OrtValue *values[TT_MAX_TENSORS] = {NULL};
    *signature = (struct tt_signature){.batched = true,
                                       .max_batch = self->model->cells->plans[type].max_batch,
                                       .input_count = flow->input_count,
                                       .output_count = flow->output_count};
    for (int32_t i = 0; i < flow->input_count; i++)
        signature->inputs[i] =
            spec_of(&self->dataflow->tensors[flow->inputs[i]], step->input_names[i]);
    enum tt_err err = tt_synthetic_input_init(&zeros, signature, 0, signature->max_batch, 1,
                                              TT_SYNTHETIC_INPUT_ZEROS, why);
    if (err)
        return err;
    err = tt_ort_session_run(self->library, lane_of(self, stream, type)->session, signature, &zeros,
                             step->output_names, step->output_count, values, why);
    for (int32_t o = 0; o < step->output_count; o++)
        if (values[o])
            self->library->api->ReleaseValue(values[o]);
    tt_synthetic_input_fini(&zeros);
    return err ? tt_fail_in(err, why, "a batch of %d cells on the GPU", signature->max_batch)
               : TT_OK;
}

static enum tt_err rehearse_cells(struct tt_engine_on_gpu *self, int32_t stream,
                                  struct tt_error *why) {
    struct tt_signature *signature = malloc(sizeof(*signature)); /* too large for the stack */
    enum tt_err err =
        signature ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model");
    for (int32_t t = 0; !err && t < self->model->step_count; t++)
        err = rehearse_type(self, stream, t, signature, why);
    free(signature);
    return err;
}

static enum tt_err open_lane(struct tt_engine_on_gpu *self,
                             const struct tt_engine_gpu_options *options, int32_t stream,
                             int32_t step, bool shares, struct tt_error *why) {
    struct lane *lane = lane_of(self, stream, step);
    enum tt_err err = open_session(self, options, stream, step, shares, &lane->session, why);
    if (!err)
        err = tt_ort_check(self->library,
                           self->library->api->CreateIoBinding(lane->session, &lane->binding), why);
    return err || path_of(self->model, step) ? err : tt_fail_in(err, why, "stage %d", step);
}

/* A session that reads weights which another one has, too, must run all its nodes on the GPU: the
 * processor could not read them. It says so when it is made. */
static bool may_share(const struct tt_engine_on_gpu *self,
                      const struct tt_engine_gpu_options *options, int32_t step) {
    OrtSession *session = NULL;
    struct tt_error ignored;
    bool has = self->weights && step < self->model->step_count &&
               tt_ort_gpu_weights_has(self->weights, step);
    if (!has || open_session(self, options, 0, step, true, &session, &ignored))
        return false;
    self->library->api->ReleaseSession(session);
    return true;
}

static enum tt_err open_step(struct tt_engine_on_gpu *self,
                             const struct tt_engine_gpu_options *options, int32_t step,
                             struct tt_error *why) {
    bool shares = may_share(self, options, step);
    enum tt_err err = shares ? tt_ort_gpu_weights_keep(self->weights, step, options->keep,
                                                       options->keep_context, why)
                             : TT_OK;
    for (int32_t i = 0; !err && i < self->stream_count; i++)
        err = open_lane(self, options, i, step, shares, why);
    return err;
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
    for (int32_t i = 0; i < take_self->stream_count * lane_count(take_self->model); i++) {
        struct lane *lane = &take_self->lanes[i];
        if (lane->binding)
            api->ReleaseIoBinding(lane->binding);
        if (lane->session)
            api->ReleaseSession(lane->session);
    }
    tt_ort_gpu_weights_free(take_self->weights);
    if (take_self->run_options)
        api->ReleaseRunOptions(take_self->run_options);
    if (take_self->memory)
        api->ReleaseMemoryInfo(take_self->memory);
    free(take_self);
}

static enum tt_err open_all(struct tt_engine_on_gpu *self,
                            const struct tt_engine_gpu_options *options, struct tt_error *why) {
    enum tt_err err = tt_ort_check(self->library, open_shared(self, options->gpu), why);
    if (!err && self->stream_count > 1 && !self->model->cells)
        err = tt_ort_gpu_weights_new(self->model, self->memory, &self->weights, why);
    for (int32_t s = 0; !err && s < self->model->step_count; s++)
        err = open_step(self, options, s, why);
    for (int32_t e = 0; !err && e < self->model->exits.count; e++)
        if (self->model->exits.exits[e].path)
            err = open_step(self, options, self->model->step_count + e, why);
    tt_ort_gpu_weights_forget(self->weights);
    for (int32_t i = 0; !err && i < self->stream_count; i++)
        err = self->model->cells ? rehearse_cells(self, i, why) : rehearse(self, i, why);
    return err;
}

static enum tt_err open_gpu(struct tt_engine_model *engine_model,
                            const struct tt_engine_gpu_options *options,
                            struct tt_engine_on_gpu **out_self, struct tt_error *why) {
    const struct tt_ort_model *model = TT_CONTAINER_OF(engine_model, struct tt_ort_model, model);
    if (!model->path && !model->slices && !model->cells)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "only models of files run on a GPU");
    size_t lanes = (size_t)options->stream_count * (size_t)lane_count(model);
    struct tt_engine_on_gpu *self = calloc(1, sizeof(*self) + lanes * sizeof(self->lanes[0]));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a model on a GPU");
    self->model = model;
    self->library = model->library;
    self->signature = *options->signature;
    self->dataflow = options->dataflow;
    self->stream_count = options->stream_count;
    enum tt_err err = open_all(self, options, why);
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
                        const char *const *names, const int32_t *tensors, int32_t count,
                        int32_t rows, const uint64_t *addresses, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < count; i++) {
        const struct tt_dataflow_tensor *tensor = &self->dataflow->tensors[tensors[i]];
        struct tt_tensor_view view = {.bytes = (const void *)(uintptr_t)addresses[i],
                                      .size_bytes = tensor->row_bytes * (size_t)rows,
                                      .shape = tensor->shape};
        view.shape.dims[0] = rows;
        OrtValue *value;
        err = tt_ort_value_in(self->library, self->memory, tensor->dtype, &view, &value, why);
        if (err)
            return err;
        err = tt_ort_check(self->library, bind_to(binding, names[i], value), why);
        self->library->api->ReleaseValue(value);
    }
    return err;
}

static enum tt_err enqueue(struct tt_engine_on_gpu *self, int32_t stream, int32_t index,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    const OrtApi *api = self->library->api;
    const struct tt_ort_call call = tt_ort_call_of(self->model, index);
    const struct tt_dataflow_step *flow = tt_dataflow_run(self->dataflow, index);
    tt_assert(stream >= 0 && stream < self->stream_count);
    const struct lane *lane = lane_of(self, stream, index);
    enum tt_err err = bind(self, lane->binding, api->BindInput, call.input_names, flow->inputs,
                           flow->input_count, rows, in, why);
    if (!err)
        err = bind(self, lane->binding, api->BindOutput, call.output_names, flow->outputs,
                   flow->output_count, rows, out, why);
    return err ? err
               : tt_ort_check(self->library,
                              api->RunWithBinding(lane->session, self->run_options, lane->binding),
                              why);
}

const struct tt_engine_gpu tt_ort_gpu = {.open = open_gpu, .enqueue = enqueue, .close = close_gpu};
