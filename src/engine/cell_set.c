#include "engine/cell_set.h"

#include <stdlib.h>
#include <string.h>

int64_t tt_cell_integer(const struct tt_cell_tensor *tensor, int32_t slot) {
    const char *row = tt_cell_row(tensor, slot);
    int32_t narrow;
    int64_t wide;
    if (tensor->dtype == TT_DTYPE_INT32) {
        memcpy(&narrow, row, sizeof(narrow));
        return narrow;
    }
    tt_assert(tensor->dtype == TT_DTYPE_INT64);
    memcpy(&wide, row, sizeof(wide));
    return wide;
}

static size_t row_bytes_of(const struct tt_tensor_spec *spec) {
    int64_t count = spec->shape.rank < 1 ? -1 : tt_shape_count(&spec->shape, 1);
    return count > 0 ? (size_t)count * tt_dtype_bytes(spec->dtype) : 0;
}

static bool same_row(const struct tt_cell_tensor *tensor, const struct tt_tensor_spec *spec) {
    return tensor->dtype == spec->dtype && tensor->row_bytes == row_bytes_of(spec);
}

/* Makes `tensor` hold this output of a type, and checks that it fits the outputs of other types
 * there. */
static enum tt_err claim(struct tt_cell_set *self, int32_t tensor,
                         const struct tt_tensor_spec *spec, struct tt_error *why) {
    struct tt_cell_tensor *held = &self->tensors[tensor];
    if (row_bytes_of(spec) == 0)
        return tt_fail(
            TT_ERR_UNSUPPORTED, why,
            "output '%s' of a cell must have a fixed size except for its first dimension",
            spec->name);
    if (held->row_bytes == 0)
        *held = (struct tt_cell_tensor){
            .row_bytes = row_bytes_of(spec), .dtype = spec->dtype, .shape = spec->shape};
    if (!same_row(held, spec))
        return tt_fail(TT_ERR_INVALID, why,
                       "output '%s' of a cell differs in element type or size from the output of "
                       "another cell type that takes the same place",
                       spec->name);
    return TT_OK;
}

/* ---- one type ---- */

/* Chooses the tensors that hold output `o` of the type: its states; else the request's output; else
 * a tensor of its own, for an output that is only emitted. */
static enum tt_err plan_output(struct tt_cell_set *self, int32_t type, int32_t o,
                               struct tt_error *why) {
    const struct tt_cell_type *kind = &self->cells->types[type];
    struct tt_cell_plan *plan = &self->plans[type];
    struct tt_cell_output output = {.name = kind->signature.outputs[o].name, .tensor = -1};
    enum tt_err err = TT_OK;
    for (int32_t s = 0; !err && s < kind->state_count; s++) {
        if (kind->states[s].output != o)
            continue;
        if (output.tensor < 0)
            output.tensor = s;
        else
            output.copies[output.copy_count++] = s;
        err = claim(self, s, &kind->signature.outputs[o], why);
        self->tensors[s].in_place |= kind->states[s].in_place;
    }
    int32_t shown = self->cells->signature.output_count;
    for (int32_t k = 0; !err && k < shown; k++) {
        if (kind->answers[0] < 0 || kind->answers[k] != o)
            continue;
        if (output.tensor < 0) {
            output.tensor = TT_CELLS_MAX_STATES + k;
            err = claim(self, output.tensor, &kind->signature.outputs[o], why);
        }
        plan->answers[k] = output.tensor;
        output.is_told = true;
    }
    if (!err && kind->emit == o && output.tensor < 0) {
        output.tensor = TT_CELLS_MAX_STATES + TT_MAX_TENSORS + type;
        err = claim(self, output.tensor, &kind->signature.outputs[o], why);
    }
    if (kind->emit == o) {
        output.is_told = true;
        const struct tt_tensor_spec *spec = &kind->signature.outputs[o];
        bool is_integer = spec->dtype == TT_DTYPE_INT32 || spec->dtype == TT_DTYPE_INT64;
        plan->emit = output.tensor;
        plan->emits_integer = is_integer && row_bytes_of(spec) == tt_dtype_bytes(spec->dtype);
    }
    if (output.tensor >= 0)
        plan->outputs[plan->output_count++] = output;
    return err;
}

/* Rows whose elements all have the value; NULL: out of memory. */
static char *rows_of(const struct tt_cell_input *input, int64_t value, int32_t count) {
    size_t width = tt_dtype_bytes(input->dtype);
    size_t bytes = input->row_bytes * (size_t)count;
    char *rows = calloc(1, bytes);
    if (!rows || value == 0)
        return rows;
    char element[8];
    memcpy(element, &value, sizeof(value)); /* integers, little endian */
    if (input->dtype == TT_DTYPE_FP32)
        memcpy(element, &(float){(float)value}, sizeof(float));
    else if (input->dtype == TT_DTYPE_FP64)
        memcpy(element, &(double){(double)value}, sizeof(double));
    for (size_t at = 0; at < bytes; at += width)
        memcpy(rows + at, element, width);
    return rows;
}

static enum tt_err plan_states(struct tt_cell_set *self, int32_t type, struct tt_error *why) {
    const struct tt_cell_type *kind = &self->cells->types[type];
    struct tt_cell_plan *plan = &self->plans[type];
    for (int32_t s = 0; s < kind->state_count; s++) {
        for (int32_t q = 0; q < kind->arity; q++) {
            const struct tt_tensor_spec *spec = &kind->signature.inputs[kind->states[s].inputs[q]];
            struct tt_cell_input *input = &plan->inputs[plan->input_count++];
            *input = (struct tt_cell_input){.name = spec->name,
                                            .dtype = spec->dtype,
                                            .shape = spec->shape,
                                            .row_bytes = row_bytes_of(spec),
                                            .state = s,
                                            .source = q,
                                            .is_zero = kind->states[s].initial == 0,
                                            .from = -1};
            bool plain =
                input->is_zero || (spec->dtype != TT_DTYPE_FP16 && spec->dtype != TT_DTYPE_BF16);
            if (!same_row(&self->tensors[s], spec) || !plain)
                return tt_fail(
                    TT_ERR_INVALID, why,
                    plain ? "input '%s' of a cell differs in element type or size from its state"
                          : "input '%s': a 16-bit float can have the initial value 0 only",
                    spec->name);
            for (int32_t t = 0; t < self->cells->type_count; t++)
                input->lacking |= (uint32_t)(self->cells->types[t].state_count <= s) << t;
            int32_t rows = kind->states[s].in_place ? 1 : plan->max_batch;
            input->initial = rows_of(input, kind->states[s].initial, rows);
            if (!input->initial)
                return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        }
    }
    return TT_OK;
}

static enum tt_err plan_reads(struct tt_cell_set *self, int32_t type, struct tt_error *why) {
    const struct tt_cell_type *kind = &self->cells->types[type];
    struct tt_cell_plan *plan = &self->plans[type];
    for (int32_t r = 0; r < kind->read_count; r++) {
        const struct tt_tensor_spec *spec = &kind->signature.inputs[kind->reads[r].input];
        if (row_bytes_of(spec) == 0)
            return tt_fail(
                TT_ERR_UNSUPPORTED, why,
                "input '%s' of a cell must have a fixed size except for its first dimension",
                spec->name);
        struct tt_cell_input *input = &plan->inputs[plan->input_count++];
        *input = (struct tt_cell_input){.name = spec->name,
                                        .dtype = spec->dtype,
                                        .shape = spec->shape,
                                        .row_bytes = row_bytes_of(spec),
                                        .state = -1,
                                        .from = kind->reads[r].from};
        if (kind->elements > 1 && !(input->fill = rows_of(input, kind->reads[r].fill, 1)))
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    return TT_OK;
}

enum tt_err tt_cell_set_plan(struct tt_cell_set *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < self->cells->type_count; t++) {
        const struct tt_cell_type *kind = &self->cells->types[t];
        struct tt_cell_plan *plan = &self->plans[t];
        plan->arity = kind->arity;
        plan->max_batch = kind->max_batch;
        plan->has_cache = kind->has_cache;
        plan->emit = -1;
        for (int32_t k = 0; k < TT_MAX_TENSORS; k++)
            plan->answers[k] = -1;
        for (int32_t o = 0; !err && o < kind->signature.output_count; o++)
            err = plan_output(self, t, o, why);
        if (err)
            err = tt_fail_in(err, why, "cell '%s'", kind->name);
    }
    /* Inputs need all states, and these are complete only after the outputs of all types. */
    for (int32_t t = 0; !err && t < self->cells->type_count; t++) {
        err = plan_states(self, t, why);
        if (!err)
            err = plan_reads(self, t, why);
        if (err)
            err = tt_fail_in(err, why, "cell '%s'", self->cells->types[t].name);
    }
    return err;
}

void tt_cell_set_fini(struct tt_cell_set *self) {
    for (int32_t t = 0; t < self->cells->type_count; t++)
        for (int32_t i = 0; i < self->plans[t].input_count; i++) {
            free(self->plans[t].inputs[i].initial);
            free(self->plans[t].inputs[i].fill);
        }
    free(self->type_of);
}
