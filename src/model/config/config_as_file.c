#include "model/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *kind_of(const Inference__ModelConfig *message) {
    return tt_config_is_ensemble(message) ? "ensemble" : message->backend;
}

static const char *article_of(const char *kind) {
    return *kind && strchr("aeiou", *kind) ? "an" : "a";
}

/* Describes one tensor of the configuration as a file would; the batch dimension comes first. */
static void describe(struct tt_config_work *work, const void *message, const char *role,
                     const char *name, Inference__DataType type, const int64_t *dims, size_t count,
                     struct tt_onnx_value *out) {
    const char *kind = kind_of(work->config->message);
    bool batched = work->config->message->max_batch_size > 0;
    size_t first = batched ? 1 : 0;
    if (tt_config_is_empty(name) || strlen(name) >= TT_MAX_NAME_BYTES ||
        type == INFERENCE__DATA_TYPE__TYPE_INVALID || count + first > TT_MAX_RANK) {
        tt_config_problem(work, message, "name",
                          "%s '%s' of %s %s model needs a name, a data_type and dims (at most "
                          "%d): there is no file that says them",
                          role, name, article_of(kind), kind, (int)(TT_MAX_RANK - first));
        return;
    }
    *out = (struct tt_onnx_value){.has_shape = true};
    strcpy(out->spec.name, name);
    out->spec.dtype = tt_model_config_dtype(type);
    out->spec.shape.rank = (int32_t)(count + first);
    if (batched) {
        out->spec.shape.dims[0] = -1;
        strcpy(out->batch_name, "N");
    }
    for (size_t i = 0; i < count; i++)
        out->spec.shape.dims[first + i] = dims[i];
}

enum tt_err tt_model_config_as_file(const struct tt_model_config *self,
                                    struct tt_findings *findings, struct tt_onnx_file **out_file) {
    const Inference__ModelConfig *message = self->message;
    struct tt_config_work work = {.config = (struct tt_model_config *)self, /* not modified */
                                  .onnx_path = self->file_name,
                                  .findings = findings};
    struct tt_onnx_file *file = calloc(1, sizeof(*file));
    if (!file)
        return TT_ERR_NO_MEMORY;
    int32_t problems_before = findings->problem_count;
    if (message->n_input < 1 || message->n_output < 1 || message->n_input > TT_MAX_TENSORS ||
        message->n_output > TT_MAX_TENSORS)
        tt_config_problem(&work, message, "backend",
                          "%s %s model needs inputs and outputs, 1 to %d of each: there is no file "
                          "that says them",
                          article_of(kind_of(message)), kind_of(message), TT_MAX_TENSORS);
    else
        for (size_t i = 0; i < message->n_input + message->n_output; i++) {
            const Inference__ModelInput *in = i < message->n_input ? message->input[i] : NULL;
            const Inference__ModelOutput *out = in ? NULL : message->output[i - message->n_input];
            if (in)
                describe(&work, in, "input", in->name, in->data_type, in->dims, in->n_dims,
                         &file->inputs[file->input_count++]);
            else
                describe(&work, out, "output", out->name, out->data_type, out->dims, out->n_dims,
                         &file->outputs[file->output_count++]);
        }
    if (findings->problem_count > problems_before) {
        free(file);
        return findings->failed ? TT_ERR_NO_MEMORY : TT_ERR_INVALID;
    }
    *out_file = file;
    return TT_OK;
}
