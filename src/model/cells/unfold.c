#include "model/cells/unfold.h"

#include "model/cells/unfold_internal.h"
#include "model/cells/unfold_plugin.h"

#include <stdlib.h>

/* ---- checks for all kinds ---- */

static enum tt_err check_length(const struct tt_cells *cells,
                                const struct tt_unfold_tensor *tensors, int32_t *out_length,
                                struct tt_error *why) {
    const struct tt_tensor_spec *specs = cells->signature.inputs;
    int64_t length = tensors[0].shape.dims[1];
    for (int32_t i = 0; i < cells->signature.input_count; i++) {
        const struct tt_shape *shape = &tensors[i].shape;
        if (shape->dims[0] != 1)
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s' has %lld rows; a request to this model is one sequence, "
                           "with the shape [1, length]",
                           specs[i].name, (long long)shape->dims[0]);
        if (shape->dims[1] != length)
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s' has %lld elements, but input '%s' has %lld; there is one "
                           "per element of the request in each",
                           specs[i].name, (long long)shape->dims[1], specs[0].name,
                           (long long)length);
    }
    if (length < 1)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' is empty; a request has at least 1 %s",
                       specs[0].name, cells->kind == TT_UNFOLD_TREE ? "node" : "element");
    if (length > cells->max_length)
        return tt_fail(TT_ERR_INVALID, why,
                       "input '%s' has %lld elements; this model takes at most %d", specs[0].name,
                       (long long)length, cells->max_length);
    *out_length = (int32_t)length;
    return TT_OK;
}

/* Element `i` of an integer tensor. A uint64 above INT64_MAX becomes negative, and so is out of any
 * range. */
static int64_t integer_at(const void *bytes, enum tt_dtype dtype, size_t i) {
    bool is_signed = dtype >= TT_DTYPE_INT8;
    switch (tt_dtype_bytes(dtype)) {
    case 1: return is_signed ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
    case 2: return is_signed ? ((const int16_t *)bytes)[i] : ((const uint16_t *)bytes)[i];
    case 4: return is_signed ? (int64_t)((const int32_t *)bytes)[i] : ((const uint32_t *)bytes)[i];
    default: return ((const int64_t *)bytes)[i];
    }
}

/* Checks the integers of elements [first, end). */
static enum tt_err check_elements(const struct tt_tensor_spec *about, int64_t below,
                                  const void *bytes, int64_t first, int64_t end,
                                  struct tt_error *why) {
    int64_t width = tt_shape_count(&about->shape, 2);
    for (int64_t k = first * width; k < end * width; k++) {
        int64_t value = integer_at(bytes, about->dtype, (size_t)k);
        if (value < 0 || value >= below)
            return tt_fail(
                TT_ERR_INVALID, why, "element %lld of input '%s' is %lld; 0 to %lld are possible",
                (long long)(k / width), about->name, (long long)value, (long long)below - 1);
    }
    return TT_OK;
}

/* Checks that the cells of one spec read only valid integers. */
static enum tt_err check_read(const struct tt_cells *cells, const struct tt_cell_read *read,
                              const struct tt_unfold_tensor *tensor,
                              const struct tt_cell_spec *spec,
                              const struct tt_unfold_elements *elements, struct tt_error *why) {
    const struct tt_tensor_spec *about = &cells->signature.inputs[read->from];
    int64_t size = cells->types[spec->first_step].elements, length = tensor->shape.dims[1];
    enum tt_err err = TT_OK;
    for (int32_t r = 0; !err && r < spec->repeat; r++) {
        int64_t first = tt_unfold_elements_at(elements, r) * size, end = first + size;
        err = check_elements(about, read->below, tensor->bytes, first, end < length ? end : length,
                             why);
    }
    return err;
}

static enum tt_err check_reads(const struct tt_cells *cells, const struct tt_unfold_tensor *tensors,
                               const struct tt_unfolded *unfolded, struct tt_error *why) {
    for (int32_t i = 0; i < unfolded->spec_count; i++) {
        const struct tt_cell_spec *spec = &unfolded->specs[i];
        const struct tt_cell_type *type = &cells->types[spec->first_step];
        for (int32_t j = 0; j < type->read_count; j++) {
            const struct tt_cell_read *read = &type->reads[j];
            enum tt_err err = TT_OK;
            if (read->below > 0)
                err = check_read(cells, read, &tensors[read->from], spec, &unfolded->elements[i],
                                 why);
            if (err)
                return err;
        }
    }
    return TT_OK;
}

/* ---- chains ---- */

static enum tt_err unfold_chain(const struct tt_cells *cells, int32_t length,
                                struct tt_unfolded **out_unfolded, struct tt_error *why) {
    int32_t *sources = NULL;
    struct tt_unfolded *self = tt_unfolded_new(1, 0, &sources, why);
    if (!self)
        return TT_ERR_NO_MEMORY;
    int32_t rounds = tt_cells_rounds(cells, length);
    self->specs[0] = (struct tt_cell_spec){.repeat = rounds};
    self->elements[0] = (struct tt_unfold_elements){.stride = 1};
    self->output_length = cells->types[0].emit >= 0 ? rounds : 0;
    *out_unfolded = self;
    return TT_OK;
}

static enum tt_err unfold_seq2seq(const struct tt_cells *cells, int32_t length,
                                  struct tt_unfolded **out_unfolded, struct tt_error *why) {
    int32_t *sources = NULL;
    struct tt_unfolded *self = tt_unfolded_new(2, 1, &sources, why);
    if (!self)
        return TT_ERR_NO_MEMORY;
    int32_t most = length + cells->threshold;
    if (cells->max_output > 0 && most > cells->max_output)
        most = cells->max_output;
    sources[0] = 0;
    self->specs[0] = (struct tt_cell_spec){.repeat = tt_cells_rounds(cells, length)};
    self->elements[0] = (struct tt_unfold_elements){.stride = 1};
    self->specs[1] = (struct tt_cell_spec){.first_step = 1,
                                           .last_step = 1,
                                           .repeat = most,
                                           .open_ended = cells->eos_count > 0 && most > 1,
                                           .source_count = 1,
                                           .sources = sources};
    self->answer_spec = 1;
    self->output_length = most;
    *out_unfolded = self;
    return TT_OK;
}

/* ---- steps ---- */

/* The last of the types that run as one from `first` on: the end of a recurrent block, or `first`
 * itself. */
static int32_t last_of_block(const struct tt_cells *cells, int32_t first) {
    enum tt_step_kind kind = cells->types[first].kind;
    int32_t last = first;
    while (kind != TT_STEP_STATIC && last + 1 < cells->type_count &&
           cells->types[last + 1].kind == kind)
        last++;
    return last;
}

static int32_t rounds_of(const struct tt_cells *cells, int32_t type, int32_t length) {
    switch (cells->types[type].kind) {
    case TT_STEP_STATIC: return 1;
    case TT_STEP_ENCODER: return length;
    case TT_STEP_DECODER: return cells->max_output;
    }
    return 1;
}

static enum tt_err unfold_steps(const struct tt_cells *cells, int32_t length,
                                struct tt_unfolded **out_unfolded, struct tt_error *why) {
    int32_t count = 0, *sources = NULL;
    for (int32_t type = 0; type < cells->type_count; type = last_of_block(cells, type) + 1)
        count++;
    struct tt_unfolded *self = tt_unfolded_new(count, count, &sources, why);
    if (!self)
        return TT_ERR_NO_MEMORY;
    for (int32_t s = 0, type = 0; s < count; s++) {
        int32_t last = last_of_block(cells, type), rounds = rounds_of(cells, type, length);
        sources[s] = s - 1;
        self->specs[s] = (struct tt_cell_spec){
            .first_step = type,
            .last_step = last,
            .repeat = rounds,
            .open_ended = cells->types[type].kind == TT_STEP_DECODER && rounds > 1,
            .source_count = s > 0,
            .sources = &sources[s]};
        type = last + 1;
    }
    self->answer_spec = count - 1;
    *out_unfolded = self;
    return TT_OK;
}

enum tt_err tt_unfold_new(const struct tt_cells *cells, const struct tt_unfold_tensor *tensors,
                          struct tt_unfolded **out_unfolded, struct tt_error *why) {
    int32_t length = 0;
    struct tt_unfolded *self = NULL;
    enum tt_err err = check_length(cells, tensors, &length, why);
    if (err)
        return err;
    switch (cells->kind) {
    case TT_UNFOLD_CHAIN: err = unfold_chain(cells, length, &self, why); break;
    case TT_UNFOLD_SEQ2SEQ: err = unfold_seq2seq(cells, length, &self, why); break;
    case TT_UNFOLD_TREE: err = tt_unfold_as_tree(cells, tensors, length, &self, why); break;
    case TT_UNFOLD_STEPS: err = unfold_steps(cells, length, &self, why); break;
    case TT_UNFOLD_PLUGIN: err = tt_unfold_plugin_run(cells, tensors, length, &self, why); break;
    }
    if (!err)
        err = check_reads(cells, tensors, self, why);
    if (err) {
        tt_unfold_free(self);
        return err;
    }
    self->input_length = length;
    *out_unfolded = self;
    return TT_OK;
}
