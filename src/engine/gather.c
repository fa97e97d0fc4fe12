#include "engine/gather.h"

#include <stdlib.h>
#include <string.h>

enum { SHAPE_TEXT_BYTES = TT_MAX_RANK * 21 + 3, LENGTH_BYTES = 4, ALIGNMENT_BYTES = 64 };

void tt_gather_buffer_fini(struct tt_gather_buffer *self) {
    free(self->bytes);
    *self = (struct tt_gather_buffer){0};
}

static bool buffer_ensure(struct tt_gather_buffer *self, size_t bytes) {
    if (bytes <= self->capacity_bytes)
        return true;
    size_t capacity = self->capacity_bytes ? self->capacity_bytes : 4096;
    while (capacity < bytes) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    void *memory = aligned_alloc(ALIGNMENT_BYTES, capacity);
    if (!memory)
        return false;
    free(
        self->bytes); /* not realloc: a batch is gathered as a whole, so old bytes are not needed */
    self->bytes = memory;
    self->capacity_bytes = capacity;
    return true;
}

bool tt_gather_pads(const struct tt_signature *signature, int32_t input, int32_t length) {
    const struct tt_shape *shape = &signature->inputs[input].shape;
    return length > 0 && signature->batched && shape->rank >= 2 && shape->dims[1] < 0;
}

bool tt_gather_skip_strings(const struct tt_tensor_view *view, int64_t count, size_t *at) {
    const unsigned char *bytes = view->bytes;
    size_t now = *at;
    for (int64_t i = 0; i < count; i++) {
        if (view->size_bytes - now < LENGTH_BYTES)
            return false;
        size_t length = (size_t)bytes[now] | (size_t)bytes[now + 1] << 8 |
                        (size_t)bytes[now + 2] << 16 | (size_t)bytes[now + 3] << 24;
        now += LENGTH_BYTES;
        if (view->size_bytes - now < length)
            return false;
        now += length;
    }
    *at = now;
    return true;
}

/* Checks that the bytes are exactly those of the shape. */
static enum tt_err check_size(const struct tt_tensor_spec *spec, const struct tt_tensor_view *view,
                              struct tt_error *why) {
    char shape[SHAPE_TEXT_BYTES];
    int64_t count = tt_shape_count(&view->shape, 0);
    if (count < 0)
        return tt_fail(TT_ERR_INVALID, why, "input '%s': shape %s has no size", spec->name,
                       tt_shape_print(&view->shape, shape, sizeof(shape)));
    if (spec->dtype == TT_DTYPE_BYTES) {
        size_t end = 0;
        if (!tt_gather_skip_strings(view, count, &end) || end != view->size_bytes)
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s': %zu bytes do not hold exactly the %lld strings of shape %s "
                           "(each: 4 bytes of length, then its bytes)",
                           spec->name, view->size_bytes, (long long)count,
                           tt_shape_print(&view->shape, shape, sizeof(shape)));
        return TT_OK;
    }
    size_t wanted;
    if (__builtin_mul_overflow((size_t)count, tt_dtype_bytes(spec->dtype), &wanted) ||
        wanted != view->size_bytes)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s': %zu bytes given, but shape %s of %s takes %lld times %zu",
                       spec->name, view->size_bytes,
                       tt_shape_print(&view->shape, shape, sizeof(shape)),
                       tt_dtype_name(spec->dtype), (long long)count, tt_dtype_bytes(spec->dtype));
    return TT_OK;
}

static bool same_shape(const struct tt_shape *a, const struct tt_shape *b, bool batched,
                       bool padded) {
    if (a->rank != b->rank)
        return false;
    for (int32_t i = batched ? 1 : 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] && !(padded && i == 1))
            return false;
    return true;
}

static enum tt_err check_input(const struct tt_signature *signature, int32_t input,
                               const struct tt_engine_member *member,
                               const struct tt_engine_member *first, int32_t length,
                               struct tt_error *why) {
    const struct tt_tensor_spec *spec = &signature->inputs[input];
    const struct tt_tensor_view *view = &member->inputs[input];
    char got[SHAPE_TEXT_BYTES], wanted[SHAPE_TEXT_BYTES];
    /* Rank 0 may also mean that the model states no shape: then the runtime checks it. */
    if (spec->shape.rank > 0 && !tt_shape_fits(&view->shape, &spec->shape, signature->batched))
        return tt_fail(TT_ERR_INVALID, why, "input '%s': shape %s does not fit %s", spec->name,
                       tt_shape_print(&view->shape, got, sizeof(got)),
                       tt_shape_print(&spec->shape, wanted, sizeof(wanted)));
    if (signature->batched && (view->shape.rank < 1 || view->shape.dims[0] != member->rows))
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s': shape %s, but the request has %d rows: dimension 0 must be %d",
                       spec->name, tt_shape_print(&view->shape, got, sizeof(got)), member->rows,
                       member->rows);
    bool padded = tt_gather_pads(signature, input, length);
    if (padded && view->shape.dims[1] > length)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s': shape %s, but its batch is padded to %d only", spec->name,
                       tt_shape_print(&view->shape, got, sizeof(got)), length);
    if (!same_shape(&view->shape, &first->inputs[input].shape, signature->batched, padded))
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s': shape %s cannot be in one batch with shape %s", spec->name,
                       tt_shape_print(&view->shape, got, sizeof(got)),
                       tt_shape_print(&first->inputs[input].shape, wanted, sizeof(wanted)));
    return check_size(spec, view, why);
}

enum tt_err tt_gather_check(const struct tt_signature *signature,
                            const struct tt_engine_member *member,
                            const struct tt_engine_member *first, int32_t length,
                            struct tt_error *why) {
    if (member->rows < 1)
        return tt_fail(TT_ERR_INVALID, why, "the request has %d rows; there must be at least 1",
                       member->rows);
    for (int32_t i = 0; i < signature->input_count; i++) {
        enum tt_err err = check_input(signature, i, member, first, length, why);
        if (err)
            return err;
    }
    return TT_OK;
}

/* Size of the member's input after padding. */
static size_t padded_bytes(const struct tt_tensor_view *view, enum tt_dtype dtype, bool padded,
                           int32_t length) {
    if (!padded || view->shape.dims[1] == length)
        return view->size_bytes;
    size_t element_bytes = dtype == TT_DTYPE_BYTES ? LENGTH_BYTES : tt_dtype_bytes(dtype);
    size_t per_step = (size_t)tt_shape_count(&view->shape, 2) * element_bytes;
    size_t missing = (size_t)(length - view->shape.dims[1]);
    return view->size_bytes + (size_t)view->shape.dims[0] * missing * per_step;
}

/* Copies one member's rows, each followed by its padding. Returns the address for the next
 * member. */
static unsigned char *copy_member(unsigned char *to, const struct tt_tensor_view *view,
                                  enum tt_dtype dtype, bool padded, int32_t length) {
    if (view->size_bytes == padded_bytes(view, dtype, padded, length)) {
        if (view->size_bytes)
            memcpy(to, view->bytes, view->size_bytes);
        return to + view->size_bytes;
    }
    int64_t per_step = tt_shape_count(&view->shape, 2);
    bool strings = dtype == TT_DTYPE_BYTES;
    size_t element_bytes = strings ? LENGTH_BYTES : tt_dtype_bytes(dtype);
    size_t pad = (size_t)(length - view->shape.dims[1]) * (size_t)per_step * element_bytes;
    size_t at = 0;
    for (int64_t row = 0; row < view->shape.dims[0]; row++) {
        size_t start = at;
        if (strings) {
            bool whole = tt_gather_skip_strings(view, view->shape.dims[1] * per_step, &at);
            tt_assert(whole); /* tt_gather_check has checked this */
        } else {
            at += (size_t)(view->shape.dims[1] * per_step) * element_bytes;
        }
        if (at > start)
            memcpy(to, (const char *)view->bytes + start, at - start);
        to += at - start;
        memset(to, 0, pad); /* zeros, or strings of length zero */
        to += pad;
    }
    return to;
}

enum tt_err tt_gather_input(const struct tt_signature *signature, int32_t input,
                            struct tt_engine_member *const *members, int32_t count, int32_t length,
                            struct tt_gather_buffer *buffer, int64_t *gathered_bytes,
                            struct tt_tensor_view *out_view) {
    enum tt_dtype dtype = signature->inputs[input].dtype;
    bool padded = tt_gather_pads(signature, input, length);
    const struct tt_tensor_view *first = &members[0]->inputs[input];
    struct tt_tensor_view view = {.bytes = first->bytes, .shape = first->shape};
    int64_t rows = 0;
    bool adjacent = true;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_tensor_view *part = &members[i]->inputs[input];
        size_t bytes = padded_bytes(part, dtype, padded, length);
        bool follows = (uintptr_t)part->bytes == (uintptr_t)first->bytes + view.size_bytes;
        adjacent = adjacent && bytes == part->size_bytes && (i == 0 || bytes == 0 || follows);
        rows += members[i]->rows;
        view.size_bytes += bytes;
    }
    if (signature->batched)
        view.shape.dims[0] = rows;
    if (padded)
        view.shape.dims[1] = length;
    /* Runtimes require an address even for an input of no bytes. */
    if (!adjacent || !view.bytes) {
        if (!buffer_ensure(buffer, view.size_bytes ? view.size_bytes : 1))
            return TT_ERR_NO_MEMORY;
        unsigned char *to = buffer->bytes;
        for (int32_t i = 0; i < count; i++)
            to = copy_member(to, &members[i]->inputs[input], dtype, padded, length);
        tt_assert(to == (unsigned char *)buffer->bytes + view.size_bytes);
        view.bytes = buffer->bytes;
        *gathered_bytes += (int64_t)view.size_bytes;
    }
    *out_view = view;
    return TT_OK;
}

enum tt_err tt_gather_views(const struct tt_tensor_view *const *views, int32_t count,
                            struct tt_gather_buffer *buffer, int64_t *gathered_bytes,
                            struct tt_tensor_view *out_view) {
    struct tt_tensor_view view = *views[0];
    bool adjacent = true;
    for (int32_t i = 1; i < count; i++) {
        if (!same_shape(&views[i]->shape, &view.shape, true, false))
            return TT_ERR_INVALID;
        adjacent &= (uintptr_t)views[i]->bytes == (uintptr_t)view.bytes + view.size_bytes;
        view.size_bytes += views[i]->size_bytes;
        view.shape.dims[0] += views[i]->shape.dims[0];
    }
    if (!adjacent) {
        if (!buffer_ensure(buffer, view.size_bytes ? view.size_bytes : 1))
            return TT_ERR_NO_MEMORY;
        char *to = buffer->bytes;
        for (int32_t i = 0; i < count; i++) {
            if (views[i]->size_bytes)
                memcpy(to, views[i]->bytes, views[i]->size_bytes);
            to += views[i]->size_bytes;
        }
        view.bytes = buffer->bytes;
        *gathered_bytes += (int64_t)view.size_bytes;
    }
    *out_view = view;
    return TT_OK;
}
