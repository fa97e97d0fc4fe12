#include "model/config/config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inputs and outputs are two generated types with the same fields. The checks use this common view.
 */
struct tensor_view {
    const void *message;
    const char *role; /* "input", "output" */
    char *name;
    Inference__DataType *type;
    size_t *dim_count;
    int64_t **dims;
    const Inference__ModelTensorReshape *reshape;
};

static size_t view_count(const struct tt_config_work *work, bool is_input) {
    const Inference__ModelConfig *message = work->config->message;
    return is_input ? message->n_input : message->n_output;
}

static struct tensor_view view_at(const struct tt_config_work *work, bool is_input, size_t index) {
    const Inference__ModelConfig *message = work->config->message;
    if (is_input) {
        Inference__ModelInput *input = message->input[index];
        return (struct tensor_view){input,          "input",      input->name,   &input->data_type,
                                    &input->n_dims, &input->dims, input->reshape};
    }
    Inference__ModelOutput *output = message->output[index];
    return (struct tensor_view){output,          "output",      output->name,   &output->data_type,
                                &output->n_dims, &output->dims, output->reshape};
}

static const struct tt_onnx_value *find_value(const struct tt_onnx_file *onnx, bool is_input,
                                              const char *name) {
    const struct tt_onnx_value *values = is_input ? onnx->inputs : onnx->outputs;
    int32_t count = is_input ? onnx->input_count : onnx->output_count;
    for (int32_t i = 0; i < count; i++)
        if (strcmp(values[i].spec.name, name) == 0)
            return &values[i];
    return NULL;
}

bool tt_config_can_batch(const struct tt_onnx_file *onnx, char *reason, size_t capacity) {
    char shape[8 * 21];
    const char *name = "", *input = "";
    if (onnx->input_count == 0) {
        snprintf(reason, capacity, "it has no input");
        return false;
    }
    for (int32_t i = 0; i < onnx->input_count + onnx->output_count; i++) {
        bool is_input = i < onnx->input_count;
        const struct tt_onnx_value *value =
            is_input ? &onnx->inputs[i] : &onnx->outputs[i - onnx->input_count];
        if (!value->has_shape)
            continue; /* unknown, so it may be batched */
        if (value->spec.shape.rank == 0 || value->spec.shape.dims[0] != -1) {
            snprintf(reason, capacity, "%s '%s' has shape %s", is_input ? "input" : "output",
                     value->spec.name, tt_shape_print(&value->spec.shape, shape, sizeof(shape)));
            return false;
        }
        if (!is_input || !*value->batch_name)
            continue;
        if (*name && strcmp(name, value->batch_name) != 0) {
            snprintf(reason, capacity,
                     "the first dimension is called '%.60s' in input '%.60s', but '%.60s' in "
                     "input '%.60s'",
                     name, input, value->batch_name, value->spec.name);
            return false;
        }
        name = value->batch_name;
        input = value->spec.name;
    }
    return true;
}

bool tt_config_has_fixed_batch(const struct tt_onnx_file *onnx) {
    bool fixed = false;
    for (int32_t i = 0; i < onnx->input_count + onnx->output_count; i++) {
        const struct tt_onnx_value *value =
            i < onnx->input_count ? &onnx->inputs[i] : &onnx->outputs[i - onnx->input_count];
        if (value->has_shape && value->spec.shape.rank == 0)
            return false;
        fixed |= value->has_shape && value->spec.shape.dims[0] > 0;
    }
    return fixed;
}

/* True if some input in config.pbtxt is listed with the batch dimension. */
bool tt_config_lists_whole_shape(const struct tt_config_work *work) {
    for (size_t i = 0; i < view_count(work, true); i++) {
        struct tensor_view view = view_at(work, true, i);
        const struct tt_onnx_value *value = find_value(work->onnx, true, view.name);
        size_t dims = view.reshape ? view.reshape->n_shape : *view.dim_count;
        if (value && value->has_shape && dims > 0 && dims == (size_t)value->spec.shape.rank)
            return true;
    }
    return false;
}

/* Fills in the dimensions as config.pbtxt writes them: without the batch dimension. */
static void fill_dims(struct tt_config_work *work, const struct tensor_view *view,
                      const struct tt_onnx_value *value) {
    int32_t first = work->config->message->max_batch_size > 0 ? 1 : 0;
    int32_t count = value->spec.shape.rank - first;
    if (count <= 0)
        return;
    int64_t *dims = calloc((size_t)count, sizeof(*dims));
    if (!dims) {
        work->no_memory = true;
        return;
    }
    for (int32_t i = 0; i < count; i++)
        dims[i] = value->spec.shape.dims[first + i];
    *view->dims = dims;
    *view->dim_count = (size_t)count;
}

static void complete_view(struct tt_config_work *work, bool is_input, size_t index) {
    struct tensor_view view = view_at(work, is_input, index);
    const struct tt_onnx_value *value = find_value(work->onnx, is_input, view.name);
    if (!value)
        return; /* reported by the comparison */
    if (*view.type == INFERENCE__DATA_TYPE__TYPE_INVALID)
        *view.type = tt_model_config_type(value->spec.dtype);
    if (*view.dim_count == 0 && !view.reshape && value->has_shape)
        fill_dims(work, &view, value);
}

static void *new_tensor(struct tt_config_work *work, bool is_input, const char *name) {
    void *tensor = tt_config_new_message(work, is_input ? &inference__model_input__descriptor
                                                        : &inference__model_output__descriptor);
    if (tensor)
        tt_config_set_string(work,
                             is_input ? &((Inference__ModelInput *)tensor)->name
                                      : &((Inference__ModelOutput *)tensor)->name,
                             name);
    return tensor;
}

static void append_tensor(struct tt_config_work *work, bool is_input, const char *name) {
    Inference__ModelConfig *message = work->config->message;
    size_t *count = is_input ? &message->n_input : &message->n_output;
    void **array = is_input ? (void **)&message->input : (void **)&message->output;
    void *grown = realloc(*array, (*count + 1) * sizeof(void *));
    if (!grown) {
        work->no_memory = true;
        return;
    }
    *array = grown;
    void *tensor = new_tensor(work, is_input, name);
    if (tensor)
        ((void **)grown)[(*count)++] = tensor;
}

static bool is_listed(const struct tt_config_work *work, bool is_input, const char *name) {
    for (size_t i = 0; i < view_count(work, is_input); i++)
        if (strcmp(view_at(work, is_input, i).name, name) == 0)
            return true;
    return false;
}

void tt_config_complete_tensors(struct tt_config_work *work) {
    const struct tt_onnx_file *onnx = work->onnx;
    bool no_outputs = view_count(work, false) == 0;
    for (int32_t i = 0; i < onnx->input_count; i++)
        if (!is_listed(work, true, onnx->inputs[i].spec.name))
            append_tensor(work, true, onnx->inputs[i].spec.name);
    for (int32_t i = 0; i < onnx->output_count && no_outputs; i++)
        append_tensor(work, false, onnx->outputs[i].spec.name);
    for (int is_input = 0; is_input <= 1; is_input++)
        for (size_t i = 0; i < view_count(work, is_input); i++)
            complete_view(work, is_input, i);
}

static void report_unknown(struct tt_config_work *work, const struct tensor_view *view,
                           bool is_input) {
    const struct tt_onnx_value *values = is_input ? work->onnx->inputs : work->onnx->outputs;
    int32_t count = is_input ? work->onnx->input_count : work->onnx->output_count;
    const char *names[TT_MAX_TENSORS];
    char known[400] = "";
    size_t used = 0;
    for (int32_t i = 0; i < count; i++) {
        names[i] = values[i].spec.name;
        if (used < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s'%s'", i ? ", " : "",
                                     names[i]);
    }
    const char *nearest = tt_textproto_nearest(view->name, names, (size_t)count);
    if (nearest)
        tt_config_problem(work, view->message, "name", "%s has no %s '%s'; did you mean '%s'?",
                          work->onnx_path, view->role, view->name, nearest);
    else
        tt_config_problem(work, view->message, "name", "%s has no %s '%s'; it has: %s",
                          work->onnx_path, view->role, view->name, count ? known : "none");
}

/* The model's own shape as the configuration describes it. False: not a valid shape. */
static bool config_shape(const struct tt_config_work *work, const int64_t *dims, size_t count,
                         struct tt_shape *out) {
    int32_t first = work->config->message->max_batch_size > 0 ? 1 : 0;
    if (count + (size_t)first > TT_MAX_RANK)
        return false;
    *out = (struct tt_shape){.rank = (int32_t)count + first};
    if (first)
        out->dims[0] = -1;
    for (size_t i = 0; i < count; i++)
        out->dims[first + (int32_t)i] = dims[i];
    return true;
}

static bool check_dims(struct tt_config_work *work, const struct tensor_view *view) {
    for (size_t i = 0; i < *view->dim_count; i++)
        if ((*view->dims)[i] < 1 && (*view->dims)[i] != -1) {
            tt_config_problem(work, view->message, "dims",
                              "%s '%s' has the dimension %lld; each is 1 or more, or -1 (free)",
                              view->role, view->name, (long long)(*view->dims)[i]);
            return false;
        }
    if (*view->dim_count > TT_MAX_RANK - 1) {
        tt_config_problem(work, view->message, "dims",
                          "%s '%s' has %zu dimensions; %d is the maximum", view->role, view->name,
                          *view->dim_count, TT_MAX_RANK - 1);
        return false;
    }
    return true;
}

/* Product of the fixed dimensions; `*free_count` gets the number of free ones. -1: overflow. */
static int64_t fixed_elements(const int64_t *dims, size_t count, size_t *free_count) {
    int64_t product = 1;
    *free_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 0)
            ++*free_count;
        else if (__builtin_mul_overflow(product, dims[i], &product))
            return -1;
    }
    return product;
}

static bool check_reshape(struct tt_config_work *work, const struct tensor_view *view) {
    if (!view->reshape)
        return true;
    size_t free_left, free_right;
    int64_t left = fixed_elements(*view->dims, *view->dim_count, &free_left);
    int64_t right = fixed_elements(view->reshape->shape, view->reshape->n_shape, &free_right);
    if (left >= 0 && left == right && free_left == free_right &&
        view->reshape->n_shape <= TT_MAX_RANK - 1)
        return true;
    tt_config_problem(work, view->message, "reshape",
                      "%s '%s' is reshaped to another number of elements (%lld and %zu free "
                      "dimensions, instead of %lld and %zu)",
                      view->role, view->name, (long long)right, free_right, (long long)left,
                      free_left);
    return false;
}

/* A configured dimension may be narrower than the file's, never wider. */
static void compare_view(struct tt_config_work *work, const struct tensor_view *view,
                         const struct tt_onnx_value *value) {
    enum tt_dtype dtype = tt_model_config_dtype(*view->type);
    if (dtype != value->spec.dtype)
        tt_config_problem(work, view->message, "data_type",
                          "%s '%s' is %s here, but %s in %s; write TYPE_%s", view->role, view->name,
                          tt_dtype_name(dtype), tt_dtype_name(value->spec.dtype), work->onnx_path,
                          value->spec.dtype == TT_DTYPE_BYTES ? "STRING"
                                                              : tt_dtype_name(value->spec.dtype));
    if (!check_dims(work, view) || !check_reshape(work, view) || !value->has_shape)
        return;
    const int64_t *dims = view->reshape ? view->reshape->shape : *view->dims;
    size_t count = view->reshape ? view->reshape->n_shape : *view->dim_count;
    struct tt_shape here = {0}, there = value->spec.shape;
    bool fits = config_shape(work, dims, count, &here) && here.rank == there.rank;
    for (int32_t i = 0; fits && i < here.rank; i++)
        fits = there.dims[i] == -1 || there.dims[i] == here.dims[i];
    if (fits)
        return;
    char shape_here[8 * 21], shape_there[8 * 21];
    bool batched = work->config->message->max_batch_size > 0;
    tt_config_problem(work, view->message, view->reshape ? "reshape" : "dims",
                      "%s '%s' is %s here%s, but %s in %s", view->role, view->name,
                      tt_shape_print(&here, shape_here, sizeof(shape_here)),
                      batched ? " (max_batch_size > 0 puts the batch dimension in front of dims)"
                              : "",
                      tt_shape_print(&there, shape_there, sizeof(shape_there)), work->onnx_path);
}

static void check_input_flags(struct tt_config_work *work) {
    const Inference__ModelConfig *message = work->config->message;
    for (size_t i = 0; i < message->n_input; i++) {
        const Inference__ModelInput *input = message->input[i];
        if (input->allow_ragged_batch)
            tt_config_problem(work, input, "allow_ragged_batch",
                              "input '%s': ragged batches are not supported", input->name);
        if (input->is_shape_tensor)
            tt_config_problem(work, input, "is_shape_tensor",
                              "input '%s': ONNX models have no shape tensors", input->name);
        if (input->optional)
            tt_config_remark(work, input, "optional",
                             "input '%s' is required in every request: the ONNX file has no "
                             "default for it",
                             input->name);
    }
}

void tt_config_compare_tensors(struct tt_config_work *work) {
    for (int is_input = 1; is_input >= 0; is_input--) {
        if (view_count(work, is_input) > TT_MAX_TENSORS) {
            tt_config_problem(work, work->config->message, is_input ? "input" : "output",
                              "more than the %d tensors that Tutti carries", TT_MAX_TENSORS);
            continue;
        }
        for (size_t i = 0; i < view_count(work, is_input); i++) {
            struct tensor_view view = view_at(work, is_input, i);
            const struct tt_onnx_value *value = find_value(work->onnx, is_input, view.name);
            if (value)
                compare_view(work, &view, value);
            else
                report_unknown(work, &view, is_input);
            for (size_t j = 0; j < i; j++)
                if (strcmp(view_at(work, is_input, j).name, view.name) == 0)
                    tt_config_problem(work, view.message, "name", "%s '%s' is listed twice",
                                      view.role, view.name);
        }
    }
    for (int32_t i = 0; i < work->onnx->input_count; i++)
        if (!is_listed(work, true, work->onnx->inputs[i].spec.name))
            tt_config_problem(work, work->config->message, "input", "%s also needs an input '%s'",
                              work->onnx_path, work->onnx->inputs[i].spec.name);
    check_input_flags(work);
}

static void derive_tensors(struct tt_config_work *work, bool is_input, struct tt_tensor_spec *specs,
                           struct tt_shape *engine_shapes) {
    for (size_t i = 0; i < view_count(work, is_input); i++) {
        struct tensor_view view = view_at(work, is_input, i);
        snprintf(specs[i].name, sizeof(specs[i].name), "%s", view.name);
        specs[i].dtype = tt_model_config_dtype(*view.type);
        bool fits = config_shape(work, *view.dims, *view.dim_count, &specs[i].shape);
        tt_assert(fits); /* checked before */
        engine_shapes[i] = specs[i].shape;
        if (view.reshape) {
            fits =
                config_shape(work, view.reshape->shape, view.reshape->n_shape, &engine_shapes[i]);
            tt_assert(fits);
        }
    }
}

void tt_config_derive_signature(struct tt_config_work *work) {
    struct tt_model_config *config = work->config;
    struct tt_signature *signature = &config->signature;
    signature->batched = config->message->max_batch_size > 0;
    signature->max_batch = signature->batched ? config->message->max_batch_size : 1;
    signature->input_count = (int32_t)config->message->n_input;
    signature->output_count = (int32_t)config->message->n_output;
    derive_tensors(work, true, signature->inputs, config->engine_inputs);
    derive_tensors(work, false, signature->outputs, config->engine_outputs);
}
