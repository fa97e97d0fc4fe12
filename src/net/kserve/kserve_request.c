#include "net/kserve/kserve_request.h"

#include "net/json/json_scan.h"
#include "net/kserve/kserve_share.h"
#include "serve/served_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_kserve_block {
    struct tt_kserve_block *next;
    char bytes[];
};

void tt_kserve_request_init(struct tt_kserve_request *self) {
    tt_text_init(&self->id);
    self->id_margin = 0;
    self->target.model[0] = self->target.version[0] = '\0';
    self->options = (struct tt_inference_options){0};
    self->input_count = self->output_count = 0;
    self->binary_output = self->is_flat = false;
    self->memory = NULL;
    self->shares = NULL;
    self->blocks = NULL;
}

void tt_kserve_request_fini(struct tt_kserve_request *self) {
    tt_text_fini(&self->id);
    for (struct tt_kserve_share *share = self->shares; share; share = share->next)
        tt_shared_region_unref(share->region);
    self->shares = NULL;
    while (self->blocks) {
        struct tt_kserve_block *block = self->blocks;
        self->blocks = block->next;
        free(block);
    }
}

void tt_kserve_request_restart(struct tt_kserve_request *self) {
    struct tt_shared_memory *memory = self->memory;
    struct tt_kserve_target target = self->target;
    tt_kserve_request_fini(self);
    tt_kserve_request_init(self);
    self->target = target;
    self->memory = memory;
}

char *tt_kserve_request_keep(struct tt_kserve_request *self, size_t size_bytes) {
    struct tt_kserve_block *block = malloc(sizeof(*block) + size_bytes);
    if (!block)
        return NULL;
    block->next = self->blocks;
    self->blocks = block;
    return block->bytes;
}

const char *tt_kserve_request_id(const struct tt_kserve_request *self, char *out, size_t capacity) {
    size_t margin = (size_t)self->id_margin, length = self->id.length;
    struct tt_json json;
    *out = '\0';
    if (length <= 2 * margin)
        return out;
    tt_json_init(&json, self->id.bytes, length, NULL);
    if (margin > 0 && length <= capacity && tt_json_string(&json, out, &length) == TT_OK)
        out[length] = '\0';
    else
        snprintf(out, capacity, "%.*s", (int)(self->id.length - 2 * margin),
                 self->id.bytes + margin);
    return out;
}

void tt_kserve_request_identify(struct tt_kserve_request *self) {
    enum { MOST_BYTES = 512 }; /* of one with escapes */
    char unescaped[MOST_BYTES + 1];
    const char *text = self->id.bytes;
    size_t length = self->id.length;
    struct tt_json json;
    *self->options.id = '\0';
    if (length == 0)
        return;
    if (self->id_margin > 0) {
        tt_json_init(&json, text, length, NULL);
        if (!tt_json_string_plain(&json, &text, &length)) {
            if (length > MOST_BYTES || tt_json_string(&json, unescaped, &length) != TT_OK)
                return;
            text = unescaped;
        }
    }
    if (length > sizeof(self->options.id) - 1) {
        length = sizeof(self->options.id) - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--; /* not within a character */
    }
    memcpy(self->options.id, text, length);
    self->options.id[length] = '\0';
}

int32_t tt_kserve_rows_in(const struct tt_signature *signature, size_t size_bytes) {
    size_t row_bytes = 0;
    if (!signature->batched || size_bytes == 0)
        return 1;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[i];
        int64_t count = tt_shape_count(&spec->shape, 1);
        size_t width = tt_dtype_bytes(spec->dtype), bytes;
        if (count <= 0 || width == 0 || __builtin_mul_overflow((size_t)count, width, &bytes) ||
            __builtin_add_overflow(row_bytes, bytes, &row_bytes))
            return 1;
    }
    size_t rows = row_bytes ? size_bytes / row_bytes : 0;
    return rows > (size_t)signature->max_batch ? 0 : rows > 0 ? (int32_t)rows : 1;
}

/* --- names to places in the signature --- */

static int32_t find_spec(const struct tt_tensor_spec *specs, int32_t count, const char *name,
                         size_t name_bytes) {
    if (name_bytes >= TT_MAX_NAME_BYTES)
        return -1;
    for (int32_t i = 0; i < count; i++)
        if (memcmp(specs[i].name, name, name_bytes) == 0 && specs[i].name[name_bytes] == '\0')
            return i;
    return -1;
}

/* The bytes of a tensor that needs no decoder must be exactly the tensor. */
static enum tt_err check_bytes(const struct tt_kserve_input *input,
                               const struct tt_tensor_spec *spec, struct tt_error *why) {
    char printed[8 * 21 + 3];
    int64_t count = tt_shape_count(&input->shape, 0);
    size_t needed = 0;
    if (count < 0 || __builtin_mul_overflow((size_t)count, tt_dtype_bytes(spec->dtype), &needed))
        return tt_fail(TT_ERR_INVALID, why, "input '%s': shape %s is too large", spec->name,
                       tt_shape_print(&input->shape, printed, sizeof(printed)));
    if (spec->dtype == TT_DTYPE_BYTES) {
        enum tt_err err = tt_bytes_tensor_check(input->data, input->data_bytes, count, why);
        return err ? tt_fail_in(err, why, "input '%s' of shape %s", spec->name,
                                tt_shape_print(&input->shape, printed, sizeof(printed)))
                   : TT_OK;
    }
    if (input->data_bytes != needed)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s' has %zu bytes, but shape %s of %s takes %zu", spec->name,
                       input->data_bytes, tt_shape_print(&input->shape, printed, sizeof(printed)),
                       tt_dtype_name(spec->dtype), needed);
    return TT_OK;
}

static enum tt_err resolve_input(struct tt_kserve_request *self, int32_t i,
                                 const struct tt_signature *signature, const char *model_name,
                                 struct tt_error *why) {
    struct tt_kserve_input *input = &self->inputs[i];
    input->index =
        find_spec(signature->inputs, signature->input_count, input->name, input->name_bytes);
    if (input->index < 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "unexpected inference input '%.*s' for model '%s'; its %s '%s'",
                       (int)input->name_bytes, input->name, model_name,
                       signature->input_count == 1 ? "one input is" : "first input is",
                       signature->inputs[0].name);
    const struct tt_tensor_spec *spec = &signature->inputs[input->index];
    for (int32_t other = 0; other < i; other++)
        if (self->inputs[other].index == input->index)
            return tt_fail(TT_ERR_INVALID, why, "input '%s' is given twice", spec->name);
    input->name = spec->name; /* which stays when the received bytes go */
    if (input->dtype != spec->dtype)
        return tt_fail(TT_ERR_INVALID, why,
                       "inference input '%s' data-type is '%.*s', but model '%s' expects '%s'",
                       spec->name, (int)input->datatype_bytes, input->datatype, model_name,
                       tt_dtype_name(spec->dtype));
    return input->decode ? TT_OK : check_bytes(input, spec, why);
}

static enum tt_err resolve_output(struct tt_kserve_request *self, int32_t i,
                                  const struct tt_signature *signature, const char *model_name,
                                  struct tt_error *why) {
    struct tt_kserve_output *output = &self->outputs[i];
    output->index =
        find_spec(signature->outputs, signature->output_count, output->name, output->name_bytes);
    if (output->index < 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "unexpected inference output '%.*s' for model '%s'; its %s '%s'",
                       (int)output->name_bytes, output->name, model_name,
                       signature->output_count == 1 ? "one output is" : "first output is",
                       signature->outputs[0].name);
    for (int32_t other = 0; other < i; other++)
        if (self->outputs[other].index == output->index)
            return tt_fail(TT_ERR_INVALID, why, "output '%.*s' is given twice",
                           (int)output->name_bytes, output->name);
    return TT_OK;
}

static enum tt_err check_complete(const struct tt_kserve_request *self,
                                  const struct tt_signature *signature, const char *model_name,
                                  struct tt_error *why) {
    for (int32_t wanted = 0; wanted < signature->input_count; wanted++) {
        bool found = false;
        for (int32_t i = 0; i < self->input_count; i++)
            found |= self->inputs[i].index == wanted;
        if (!found)
            return tt_fail(TT_ERR_INVALID, why,
                           "expected %d inputs but got %d inputs for model '%s': input '%s' is "
                           "missing%s",
                           signature->input_count, self->input_count, model_name,
                           signature->inputs[wanted].name,
                           self->is_flat       ? "; it is a member of the body"
                           : self->input_count ? ""
                                               : "; a request has \"inputs\", each with \"name\", "
                                                 "\"shape\", \"datatype\" and \"data\"");
    }
    return TT_OK;
}

static enum tt_err resolve(struct tt_kserve_request *self, const struct tt_signature *signature,
                           const char *model_name, struct tt_error *why) {
    tt_assert(self->input_count <= TT_MAX_TENSORS);
    tt_assert(self->output_count <= TT_MAX_TENSORS);
    for (int32_t i = 0; i < self->input_count; i++) {
        enum tt_err err = resolve_input(self, i, signature, model_name, why);
        if (err)
            return tt_fail_in(err, why, "inputs[%d]", i);
    }
    for (int32_t i = 0; i < self->output_count; i++) {
        enum tt_err err = resolve_output(self, i, signature, model_name, why);
        if (err)
            return tt_fail_in(err, why, "outputs[%d]", i);
    }
    return check_complete(self, signature, model_name, why);
}

/* --- into the model's memory --- */

static enum tt_err fill_input(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                              struct tt_error *why) {
    tt_assert(size_bytes == input->size_bytes);
    if (input->decode)
        return input->decode(input, to, size_bytes, why);
    if (size_bytes)
        memcpy(to, input->data, size_bytes);
    return TT_OK;
}

enum tt_err tt_kserve_reserve(struct tt_kserve_request *self, struct tt_port *port,
                              struct tt_served_model *model, struct tt_inference **out_inference,
                              struct tt_error *why) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    enum tt_err err = resolve(self, signature, tt_served_model_name(model), why);
    if (err)
        return err;
    struct tt_inference_shape shapes[TT_MAX_TENSORS];
    size_t sizes_bytes[TT_MAX_TENSORS];
    for (int32_t i = 0; i < self->input_count; i++) {
        shapes[i].input = self->inputs[i].index;
        shapes[i].shape = self->inputs[i].shape;
        sizes_bytes[i] = self->inputs[i].size_bytes;
    }
    return tt_inference_begin(port, model, shapes, sizes_bytes, self->input_count, out_inference,
                              why);
}

/* Those inputs that lie in shared memory, or those that do not. */
static enum tt_err fill_some(const struct tt_kserve_request *self, struct tt_inference *inference,
                             bool is_shared, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < self->input_count && !err; i++) {
        size_t size_bytes;
        if (tt_kserve_share_is_source(&self->inputs[i]) != is_shared)
            continue;
        void *to = tt_inference_input(inference, self->inputs[i].index, &size_bytes);
        err = fill_input(&self->inputs[i], to, size_bytes, why);
    }
    return err;
}

enum tt_err tt_kserve_fill_received(const struct tt_kserve_request *self,
                                    struct tt_inference *inference, struct tt_error *why) {
    return fill_some(self, inference, false, why);
}

enum tt_err tt_kserve_fill_shared(const struct tt_kserve_request *self,
                                  struct tt_inference *inference, struct tt_error *why) {
    return self->shares ? fill_some(self, inference, true, why) : TT_OK;
}

enum tt_err tt_kserve_fill(const struct tt_kserve_request *self, struct tt_inference *inference,
                           struct tt_error *why) {
    enum tt_err err = tt_kserve_fill_received(self, inference, why);
    return err ? err : tt_kserve_fill_shared(self, inference, why);
}

uint64_t tt_kserve_shared_input_bytes(const struct tt_kserve_request *self) {
    uint64_t sum = 0;
    for (int32_t i = 0; self->shares && i < self->input_count; i++)
        sum += tt_kserve_share_is_source(&self->inputs[i]) ? self->inputs[i].size_bytes : 0;
    return sum;
}

enum tt_err tt_kserve_begin(struct tt_kserve_request *self, struct tt_port *port,
                            struct tt_served_model *model, struct tt_inference **out_inference,
                            struct tt_error *why) {
    struct tt_inference *inference;
    enum tt_err err = tt_kserve_reserve(self, port, model, &inference, why);
    if (err)
        return err;
    err = tt_kserve_fill(self, inference, why);
    if (err) {
        tt_inference_release(inference);
        return err;
    }
    *out_inference = inference;
    return TT_OK;
}

void tt_kserve_answer_fill(struct tt_kserve_answer *out_answer,
                           const struct tt_kserve_request *request,
                           const struct tt_served_model *model,
                           const struct tt_inference *inference) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    bool all = request->output_count == 0;
    out_answer->model_name = tt_served_model_name(model);
    out_answer->model_version = tt_served_model_version(model);
    out_answer->id = &request->id;
    out_answer->output_count = all ? signature->output_count : request->output_count;
    for (int32_t i = 0; i < out_answer->output_count; i++) {
        int32_t index = all ? i : request->outputs[i].index;
        tt_assert(index < signature->output_count);
        out_answer->outputs[i].spec = &signature->outputs[index];
        out_answer->outputs[i].is_binary =
            all ? request->binary_output : request->outputs[i].is_binary;
        out_answer->outputs[i].share = all ? NULL : request->outputs[i].share;
        tt_inference_output(inference, index, &out_answer->outputs[i].view);
    }
}
