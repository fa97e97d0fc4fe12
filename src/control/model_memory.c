#include "control/model_memory.h"

#include "model/onnx/onnx_memory.h"

enum tt_err tt_model_memory_check(const struct tt_repository_model *model,
                                  const struct tt_repository_version *version,
                                  const struct tt_model_memory_limits *limits, int64_t *out_bytes,
                                  struct tt_error *why) {
    const struct tt_signature *signature = &model->config->signature;
    int32_t max_batch = signature->batched && signature->max_batch > 1 ? signature->max_batch : 1;
    int64_t limit_bytes = limits->model_bytes ? limits->model_bytes : INT64_MAX;
    int64_t left_bytes =
        limits->models_bytes ? limits->models_bytes - limits->used_bytes : INT64_MAX;
    *out_bytes = 0;
    if (version->cells || !model->config->engine->needs_file)
        return TT_OK;
    enum tt_err err = tt_onnx_memory_check(version->path, max_batch, limit_bytes, out_bytes, why);
    if (err || *out_bytes <= left_bytes)
        return err;
    return tt_fail(TT_ERR_INVALID, why,
                   "%s takes about %lld bytes, and the models that are loaded take %lld: together "
                   "more than the limit of %lld (--max-models-bytes)",
                   version->path, (long long)*out_bytes, (long long)limits->used_bytes,
                   (long long)limits->models_bytes);
}
