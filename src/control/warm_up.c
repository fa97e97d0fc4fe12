#include "control/warm_up.h"

#include "base/prng.h"
#include "base/regular_file.h"
#include "profile/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 30, MAX_RUNS = 100000 };

static const Inference__ModelWarmup__Input *find_input(const Inference__ModelWarmup *sample,
                                                       const char *name) {
    for (size_t i = 0; i < sample->n_inputs; i++)
        if (strcmp(sample->inputs[i]->key, name) == 0)
            return sample->inputs[i]->value;
    return NULL;
}

static enum tt_err find_shape(const Inference__ModelWarmup *sample,
                              const Inference__ModelWarmup__Input *input,
                              const struct tt_tensor_spec *spec, bool batched,
                              struct tt_shape *out_shape, struct tt_error *why) {
    struct tt_shape shape = {0};
    if (batched)
        shape.dims[shape.rank++] = sample->batch_size ? sample->batch_size : 1;
    for (size_t d = 0; d < input->n_dims && shape.rank < TT_MAX_RANK; d++)
        shape.dims[shape.rank++] = input->dims[d];
    char found[200], wanted[200];
    if (tt_model_config_dtype(input->data_type) != spec->dtype)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has type %s, but the model takes %s",
                       spec->name, tt_dtype_name(tt_model_config_dtype(input->data_type)),
                       tt_dtype_name(spec->dtype));
    if (!tt_shape_fits(&shape, &spec->shape, batched))
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has shape %s, but the model takes %s",
                       spec->name, tt_shape_print(&shape, found, sizeof(found)),
                       tt_shape_print(&spec->shape, wanted, sizeof(wanted)));
    *out_shape = shape;
    return TT_OK;
}

static void fill_random(struct tt_prng *prng, enum tt_dtype dtype, void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double unit = (double)(tt_prng_next(prng) >> 11) / 9007199254740992.0; /* 2^53 */
        if (dtype == TT_DTYPE_FP32)
            ((float *)bytes)[i] = (float)unit;
        else if (dtype == TT_DTYPE_FP64)
            ((double *)bytes)[i] = unit;
        else if (dtype == TT_DTYPE_INT64) /* often indices: small ones are in range */
            ((int64_t *)bytes)[i] = (int64_t)tt_prng_below(prng, 2);
        else if (dtype == TT_DTYPE_INT32)
            ((int32_t *)bytes)[i] = (int32_t)tt_prng_below(prng, 2);
        else if (tt_dtype_bytes(dtype) == 1)
            ((char *)bytes)[i] = (char)tt_prng_below(prng, 2);
        /* other types stay zero: random bits may not be valid numbers */
    }
}

static enum tt_err fill_from_file(const char *directory, const char *file,
                                  const struct tt_tensor_spec *spec, char *bytes, size_t size_bytes,
                                  struct tt_error *why) {
    char path[4096];
    if (strstr(file, "..") ||
        snprintf(path, sizeof(path), "%s/warmup/%s", directory, file) >= (int)sizeof(path))
        return tt_fail(TT_ERR_INVALID, why, "'%s' is not the name of a file below warmup/", file);
    struct tt_text content;
    enum tt_err err = tt_regular_file_read(path, MAX_FILE_BYTES, &content, why);
    if (err)
        return err;
    if (content.length != size_bytes)
        err = tt_fail(TT_ERR_INVALID, why, "%s has %zu bytes, but input '%s' takes %zu", path,
                      content.length, spec->name, size_bytes);
    else
        memcpy(bytes, content.bytes, size_bytes);
    tt_text_fini(&content);
    return err;
}

static enum tt_err make_input(const Inference__ModelWarmup *sample,
                              const struct tt_tensor_spec *spec, bool batched,
                              const char *directory, struct tt_prng *prng,
                              struct tt_tensor_view *view, struct tt_error *why) {
    const Inference__ModelWarmup__Input *input = find_input(sample, spec->name);
    if (!input)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' is missing", spec->name);
    enum tt_err err = find_shape(sample, input, spec, batched, &view->shape, why);
    if (err)
        return err;
    int64_t count = tt_shape_count(&view->shape, 0);
    size_t width = tt_dtype_bytes(spec->dtype);
    width = width ? width : 4; /* BYTES: the length of an empty string */
    if (count < 0 || __builtin_mul_overflow((size_t)count, width, &view->size_bytes))
        return tt_fail(TT_ERR_INVALID, why, "input '%s' is too large", spec->name);
    char *bytes = calloc(view->size_bytes + 1, 1);
    if (!bytes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for input '%s'", spec->name);
    view->bytes = bytes;
    switch (input->input_data_type_case) {
    case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA:
        if (spec->dtype != TT_DTYPE_BYTES)
            fill_random(prng, spec->dtype, bytes, (size_t)count);
        return TT_OK;
    case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE:
        return fill_from_file(directory, input->input_data_file, spec, bytes, view->size_bytes,
                              why);
    case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET:
    case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_ZERO_DATA:
    default: return TT_OK;
    }
}

static enum tt_err run_sample(struct tt_engine_model *model, const Inference__ModelWarmup *sample,
                              const char *directory, struct tt_error *why) {
    const struct tt_signature *signature = model->engine->ops->signature(model);
    struct tt_tensor_view inputs[TT_MAX_TENSORS] = {0};
    struct tt_prng prng;
    tt_prng_init(&prng, 1, 0);
    int32_t rows = signature->batched && sample->batch_size ? (int32_t)sample->batch_size : 1;
    enum tt_err err = rows >= 1 && (!signature->batched || rows <= signature->max_batch)
                          ? TT_OK
                          : tt_fail(TT_ERR_INVALID, why, "batch_size %u is over the maximum of %d",
                                    sample->batch_size, signature->max_batch);
    tt_assert(signature->input_count <= TT_MAX_TENSORS);
    for (int32_t i = 0; !err && i < signature->input_count; i++)
        err = make_input(sample, &signature->inputs[i], signature->batched, directory, &prng,
                         &inputs[i], why);
    uint32_t runs = sample->count ? sample->count : 1;
    int64_t took_ns;
    for (uint32_t i = 0; !err && i < runs && i < MAX_RUNS; i++)
        err = tt_calibrate_run(model, rows, inputs, &took_ns, why);
    for (int32_t i = 0; i < TT_MAX_TENSORS; i++)
        free((void *)inputs[i].bytes);
    return err;
}

enum tt_err tt_warm_up(struct tt_engine_model *model, const Inference__ModelConfig *config,
                       const char *directory, struct tt_error *why) {
    for (size_t i = 0; i < config->n_model_warmup; i++) {
        enum tt_err err = run_sample(model, config->model_warmup[i], directory, why);
        if (err)
            return tt_fail_in(err, why, "model_warmup '%s'", config->model_warmup[i]->name);
    }
    return TT_OK;
}
