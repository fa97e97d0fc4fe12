#include "engine/python/python_batch.h"

#include "base/array.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"

#include <stdlib.h>
#include <string.h>

enum {
    TENSOR_WORDS = 3 + TT_MAX_RANK,
    REQUEST_WORDS = 2,
    RESPONSE_WORDS = 3,
    ALIGNMENT_BYTES = 64,
    MAX_MESSAGE_BYTES = 900 /* of struct tt_error */
};

void tt_python_words_fini(struct tt_python_words *self) {
    free(self->words);
    *self = (struct tt_python_words){0};
}

static size_t aligned(size_t at) {
    return (at + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static int64_t request_words(const struct tt_signature *signature) {
    return REQUEST_WORDS + (int64_t)signature->input_count * TENSOR_WORDS;
}

/* ---- requests ---- */

static size_t id_bytes(const struct tt_engine_member *member) {
    return member->id ? strlen(member->id) : 0;
}

size_t tt_python_batch_bytes(const struct tt_signature *signature,
                             const struct tt_engine_valid_members *valid) {
    size_t at = (size_t)(valid->count * request_words(signature)) * sizeof(int64_t);
    for (int32_t m = 0; m < valid->count; m++)
        at += id_bytes(valid->members[m]);
    for (int32_t i = 0; i < signature->input_count; i++) {
        at = aligned(at);
        for (int32_t m = 0; m < valid->count; m++)
            at += valid->members[m]->inputs[i].size_bytes;
    }
    return at;
}

static void write_words(int64_t *words, size_t at, const struct tt_tensor_view *view) {
    words[0] = (int64_t)at;
    words[1] = (int64_t)view->size_bytes;
    words[2] = view->shape.rank;
    memcpy(words + 3, view->shape.dims, (size_t)view->shape.rank * sizeof(*words));
}

void tt_python_batch_write(const struct tt_signature *signature,
                           const struct tt_engine_valid_members *valid, char *bytes) {
    int64_t *words = (int64_t *)(void *)bytes, each = request_words(signature);
    size_t at = (size_t)(valid->count * each) * sizeof(*words);
    for (int32_t m = 0; m < valid->count; m++) {
        size_t size_bytes = id_bytes(valid->members[m]);
        words[m * each] = (int64_t)at;
        words[m * each + 1] = (int64_t)size_bytes;
        if (size_bytes > 0)
            memcpy(bytes + at, valid->members[m]->id, size_bytes);
        at += size_bytes;
    }
    for (int32_t i = 0; i < signature->input_count; i++) {
        at = aligned(at);
        for (int32_t m = 0; m < valid->count; m++) {
            const struct tt_tensor_view *view = &valid->members[m]->inputs[i];
            write_words(words + m * each + REQUEST_WORDS + (ptrdiff_t)i * TENSOR_WORDS, at, view);
            if (view->size_bytes > 0)
                memcpy(bytes + at, view->bytes, view->size_bytes);
            at += view->size_bytes;
        }
    }
}

/* ---- responses ---- */

struct reading {
    const struct tt_signature *signature;
    struct tt_python_buffer *buffer;
    size_t size_bytes;
    bool is_lent; /* to the result that is being made */
};

static bool is_within(const struct reading *self, int64_t at, int64_t size_bytes) {
    return at >= 0 && size_bytes >= 0 && (uint64_t)at <= self->size_bytes &&
           (uint64_t)size_bytes <= self->size_bytes - (uint64_t)at;
}

static enum tt_err check_shape(const struct reading *self, const struct tt_tensor_spec *spec,
                               const struct tt_shape *shape, int32_t rows, struct tt_error *why) {
    char got[256], wanted[256];
    tt_shape_print(shape, got, sizeof(got));
    if (spec->shape.rank > 0 && !tt_shape_fits(shape, &spec->shape, self->signature->batched))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "output '%s' of the Python model has shape %s; config.pbtxt says %s",
                       spec->name, got, tt_shape_print(&spec->shape, wanted, sizeof(wanted)));
    if (self->signature->batched && (shape->rank < 1 || shape->dims[0] != rows))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "output '%s' of the Python model has shape %s; dimension 0 must be %d, the "
                       "rows of the request",
                       spec->name, got, rows);
    return TT_OK;
}

/* Strings are copied: their lengths must stay as they were checked. */
static enum tt_err take_strings(const struct tt_tensor_spec *spec, int64_t count,
                                struct tt_engine_output *output, struct tt_error *why) {
    struct tt_error reason;
    output->memory = malloc(output->view.size_bytes + 1);
    if (!output->memory)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for output '%s'", spec->name);
    if (output->view.size_bytes > 0)
        memcpy(output->memory, output->view.bytes, output->view.size_bytes);
    output->view.bytes = output->memory;
    if (tt_bytes_tensor_check(output->memory, output->view.size_bytes, count, &reason))
        return tt_fail(TT_ERR_INTERNAL, why, "output '%s' of the Python model: %s", spec->name,
                       reason.text);
    return TT_OK;
}

static bool is_array(const int64_t *words, int64_t count, size_t element_bytes) {
    size_t wanted;
    return !__builtin_mul_overflow((size_t)count, element_bytes, &wanted) &&
           wanted == (size_t)words[1] && (size_t)words[0] % element_bytes == 0;
}

static enum tt_err read_output(struct reading *self, const int64_t *words, int32_t index,
                               int32_t rows, struct tt_engine_result *result,
                               struct tt_error *why) {
    const struct tt_tensor_spec *spec = &self->signature->outputs[index];
    struct tt_engine_output *output = &result->outputs[index];
    struct tt_shape shape = {.rank = (int32_t)words[2]};
    if (!is_within(self, words[0], words[1]) || words[2] < 0 || words[2] > TT_MAX_RANK)
        return tt_fail(TT_ERR_INTERNAL, why, "the Python process answered with invalid sizes");
    memcpy(shape.dims, words + 3, (size_t)shape.rank * sizeof(*words));
    int64_t count = tt_shape_count(&shape, 0);
    enum tt_err err = check_shape(self, spec, &shape, rows, why);
    if (err)
        return err;
    bool has_strings = spec->dtype == TT_DTYPE_BYTES;
    if (count < 0 || (!has_strings && !is_array(words, count, tt_dtype_bytes(spec->dtype))))
        return tt_fail(TT_ERR_INTERNAL, why, "the Python process answered with invalid sizes");
    output->view = (struct tt_tensor_view){
        .bytes = self->buffer->bytes + words[0], .size_bytes = (size_t)words[1], .shape = shape};
    if (!has_strings) {
        if (!self->is_lent) { /* one reference for all outputs */
            tt_python_buffer_lend(self->buffer);
            output->handle = self->buffer;
            self->is_lent = true;
        }
        return TT_OK;
    }
    err = take_strings(spec, count, output, why);
    if (!err && self->signature->batched && tt_engine_result_index_rows(result, index))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for output '%s'", spec->name);
    return err;
}

/* The error that the model gave for one request. */
static enum tt_err read_error(const struct reading *self, const int64_t *words,
                              struct tt_error *why) {
    enum tt_err err = TT_ERR_INTERNAL;
    if (words[0] == TT_ERR_INVALID || words[0] == TT_ERR_NOT_FOUND ||
        words[0] == TT_ERR_UNAVAILABLE || words[0] == TT_ERR_UNSUPPORTED)
        err = (enum tt_err)words[0];
    if (!is_within(self, words[1], words[2]))
        return tt_fail(err, why, "the Python process answered with invalid sizes");
    int32_t length = words[2] < MAX_MESSAGE_BYTES ? (int32_t)words[2] : MAX_MESSAGE_BYTES;
    return tt_fail(err, why, "%.*s", length, self->buffer->bytes + words[1]);
}

static enum tt_err read_response(struct reading *self, const int64_t *words,
                                 struct tt_engine_member *member) {
    const struct tt_signature *signature = self->signature;
    if (words[0] != 0)
        return read_error(self, words, member->why);
    struct tt_engine_result *result =
        tt_engine_result_new(1, signature->output_count, signature->batched, member->rows);
    if (!result)
        return tt_fail(TT_ERR_NO_MEMORY, member->why, "out of memory for %d rows", member->rows);
    result->dispose = tt_python_buffer_give_back;
    self->is_lent = false;
    for (int32_t o = 0; o < signature->output_count; o++) {
        enum tt_err err = read_output(self, words + RESPONSE_WORDS + (ptrdiff_t)o * TENSOR_WORDS, o,
                                      member->rows, result, member->why);
        if (err) {
            tt_engine_result_free(result);
            return err;
        }
    }
    member->result = result;
    member->first_row = 0;
    return TT_OK;
}

void tt_python_batch_read(const struct tt_signature *signature,
                          const struct tt_engine_valid_members *valid,
                          struct tt_python_buffer *buffer, size_t size_bytes,
                          struct tt_python_words *scratch) {
    struct reading self = {.signature = signature, .buffer = buffer, .size_bytes = size_bytes};
    int64_t each = RESPONSE_WORDS + (int64_t)signature->output_count * TENSOR_WORDS;
    size_t head_bytes = (size_t)(valid->count * each) * sizeof(int64_t);
    struct tt_error why;
    enum tt_err err = TT_OK;
    if (size_bytes < head_bytes || size_bytes > buffer->mapped_bytes)
        err = tt_fail(TT_ERR_INTERNAL, &why, "the Python process answered with invalid sizes");
    else if (!TT_ARRAY_RESERVE(scratch->words, &scratch->capacity, valid->count * each))
        err = tt_fail(TT_ERR_NO_MEMORY, &why, "out of memory for a batch of %d", valid->count);
    if (err) {
        tt_engine_members_fail(valid->members, valid->count, err, &why);
        return;
    }
    memcpy(scratch->words, buffer->bytes, head_bytes);
    for (int32_t m = 0; m < valid->count; m++)
        valid->members[m]->err = read_response(&self, scratch->words + m * each, valid->members[m]);
}
