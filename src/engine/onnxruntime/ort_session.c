#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_check.h"

#include "engine/onnxruntime/ort_tensor.h"

static OrtStatus *configure(const OrtApi *api, enum tt_ort_optimization optimization,
                            OrtSessionOptions *options) {
    static const GraphOptimizationLevel levels[] = {
        [TT_ORT_OPTIMIZE_ALL] = ORT_ENABLE_ALL,
        [TT_ORT_OPTIMIZE_EXTENDED] = ORT_ENABLE_EXTENDED,
        [TT_ORT_OPTIMIZE_BASIC] = ORT_ENABLE_BASIC,
        [TT_ORT_OPTIMIZE_NONE] = ORT_DISABLE_ALL,
    };
    /* The environment's pools have one thread: the caller's. */
    OrtStatus *status = api->DisablePerSessionThreads(options);
    if (!status)
        status = api->SetSessionGraphOptimizationLevel(options, levels[optimization]);
    /* Memory patterns are kept per shape, and batches have many sizes: patterns would cost memory
     * and save no time. */
    if (!status)
        status = api->DisableMemPattern(options);
    if (!status)
        status = api->AddSessionConfigEntry(options, "session.use_env_allocators", "1");
    return status;
}

enum tt_err tt_ort_session_options_new(const struct tt_ort_library *library,
                                       enum tt_ort_optimization optimization,
                                       OrtSessionOptions **out_options, struct tt_error *why) {
    OrtSessionOptions *options = NULL;
    OrtStatus *status = library->api->CreateSessionOptions(&options);
    if (!status)
        status = configure(library->api, optimization, options);
    enum tt_err err = tt_ort_check(library, status, why);
    if (err) {
        if (options)
            library->api->ReleaseSessionOptions(options);
        return err;
    }
    *out_options = options;
    return TT_OK;
}

enum tt_err tt_ort_session_options_own_arena(const struct tt_ort_library *library,
                                             OrtSessionOptions *options, struct tt_error *why) {
    OrtStatus *status = library->api->EnableMemPattern(options);
    if (!status)
        status = library->api->AddSessionConfigEntry(options, "session.use_env_allocators", "0");
    return tt_ort_check(library, status, why);
}

enum tt_err tt_ort_session_run(const struct tt_ort_library *library, OrtSession *session,
                               const struct tt_signature *signature,
                               const struct tt_synthetic_input *synthetic, const char *const *names,
                               int32_t count, OrtValue **out_values, struct tt_error *why) {
    OrtValue *inputs[TT_MAX_TENSORS];
    const char *input_names[TT_MAX_TENSORS];
    int32_t bound = 0;
    enum tt_err err = TT_OK;
    for (; !err && bound < signature->input_count; bound += !err) {
        input_names[bound] = signature->inputs[bound].name;
        err = tt_ort_value_new(library, signature->inputs[bound].dtype, &synthetic->views[bound],
                               &inputs[bound], why);
    }
    if (!err)
        err = tt_ort_check(library,
                           library->api->Run(session, NULL, input_names,
                                             (const OrtValue *const *)inputs, (size_t)bound, names,
                                             (size_t)count, out_values),
                           why);
    for (int32_t i = 0; i < bound; i++)
        library->api->ReleaseValue(inputs[i]);
    return err;
}
