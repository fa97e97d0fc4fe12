#include "model/cells/cells.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER, STATE, NEXT }; /* indices of a type's outputs */

/* Tensors of a type, for devices that keep its states in memory of theirs
 * (engine/emulated/emulated_cells.h says what they hold). */
static void fill_tensors(struct tt_cell_type *type) {
    struct tt_signature *own = &type->signature;
    *own = (struct tt_signature){.batched = true,
                                 .max_batch = type->max_batch,
                                 .input_count = type->arity,
                                 .output_count = type->emit >= 0 ? NEXT + 1 : STATE + 1,
                                 .outputs = {[ANSWER] = {"output", TT_DTYPE_UINT8, {2, {-1, 1}}},
                                             [STATE] = {"state", TT_DTYPE_INT32, {2, {-1, 2}}},
                                             [NEXT] = {"next", TT_DTYPE_INT64, {2, {-1, 1}}}}};
    type->state_count = 1;
    type->states[0].output = STATE;
    for (int32_t q = 0; q < type->arity; q++) {
        own->inputs[q] = (struct tt_tensor_spec){.dtype = TT_DTYPE_INT32, .shape = {2, {-1, 2}}};
        strcpy(own->inputs[q].name, "state");
        type->states[0].inputs[q] = q;
    }
    if (type->emit < 0)
        return;
    type->reads[type->read_count++] = (struct tt_cell_read){.input = own->input_count};
    own->inputs[own->input_count++] =
        (struct tt_tensor_spec){"lengths", TT_DTYPE_INT32, {2, {-1, 1}}};
}

static void fill_type(struct tt_cell_type *type, const struct tt_cells_plain *plain, int32_t t) {
    const struct tt_step *step = &plain->steps[t];
    type->kind = step->kind;
    type->max_batch = step->profile->max_batch;
    type->min_batch = step->min_rows > 1 ? step->min_rows : 1;
    type->elements = 1;
    type->arity = plain->is_tree ? 2 * t : 1;
    type->emit = step->kind == TT_STEP_DECODER ? NEXT : -1;
    fill_tensors(type);
}

static void present_steps(struct tt_cells *self, const struct tt_cells_plain *plain) {
    self->kind = TT_UNFOLD_STEPS;
    self->max_output = plain->max_output > 1 ? plain->max_output : 1;
    self->eos_count = 1;
    self->signature.input_count = 1;
    self->signature.inputs[0] = (struct tt_tensor_spec){"lengths", TT_DTYPE_INT32, {2, {-1, -1}}};
}

static void present_tree(struct tt_cells *self) {
    static const char *const names[] = {"left", "right"};
    self->kind = TT_UNFOLD_TREE;
    self->child_count = self->signature.input_count = TT_COUNT(names);
    for (int32_t k = 0; k < self->child_count; k++) {
        self->children[k] = k;
        self->signature.inputs[k] =
            (struct tt_tensor_spec){.dtype = TT_DTYPE_INT64, .shape = {2, {-1, -1}}};
        strcpy(self->signature.inputs[k].name, names[k]);
    }
}

enum tt_err tt_cells_new_plain(const struct tt_cells_plain *plain, struct tt_cells **out_cells) {
    tt_assert(plain->step_count >= 1);
    tt_assert(!plain->is_tree || plain->step_count == 2);
    struct tt_cells *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    *self = (struct tt_cells){.max_length = plain->max_length, .max_cells = plain->max_length};
    self->signature = (struct tt_signature){
        .batched = true, .output_count = 1, .outputs = {{"output", TT_DTYPE_UINT8, {2, {-1, 1}}}}};
    if (plain->is_tree)
        present_tree(self);
    else
        present_steps(self, plain);
    self->types = calloc((size_t)plain->step_count, sizeof(*self->types));
    for (; self->types && self->type_count < plain->step_count; self->type_count++) {
        struct tt_cell_type *type = &self->types[self->type_count];
        fill_type(type, plain, self->type_count);
        type->name = strdup(plain->steps[self->type_count].name);
        if (!type->name)
            break;
        if (type->max_batch > self->signature.max_batch)
            self->signature.max_batch = type->max_batch;
    }
    if (self->type_count < plain->step_count) {
        tt_cells_close(self);
        return TT_ERR_NO_MEMORY;
    }
    *out_cells = self;
    return TT_OK;
}
