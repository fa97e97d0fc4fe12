#include "model/cells.h"

#include <stdlib.h>
#include <string.h>

static void fill_type(struct tt_cell_type *type, const struct tt_cells_plain *plain, int32_t t) {
    bool decodes = t > 0;
    type->max_batch = plain->max_batch[t];
    type->min_batch = plain->min_batch[t] > 1 ? plain->min_batch[t] : 1;
    type->arity = 1;
    type->readable = decodes ? 3 : 1; /* its own kind's states, and the encoder's */
    type->emit = decodes ? 0 : -1;
}

enum tt_err tt_cells_new_plain(const struct tt_cells_plain *plain, struct tt_cells **out_cells) {
    tt_assert(plain->type_count == 1 || plain->type_count == 2);
    struct tt_cells *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    bool decodes = plain->type_count == 2;
    *self = (struct tt_cells){.kind = decodes ? TT_UNFOLD_SEQ2SEQ : TT_UNFOLD_CHAIN,
                              .max_length = plain->max_length,
                              .max_cells = plain->max_length,
                              .threshold = decodes ? plain->max_output : 0,
                              .max_output = decodes ? plain->max_output : 0,
                              .eos_count = decodes ? 1 : 0};
    self->signature = (struct tt_signature){.batched = true,
                                            .input_count = 1,
                                            .output_count = 1,
                                            .inputs = {{"lengths", TT_DTYPE_INT32, {2, {-1, -1}}}},
                                            .outputs = {{"output", TT_DTYPE_UINT8, {2, {-1, 1}}}}};
    self->types = calloc((size_t)plain->type_count, sizeof(*self->types));
    for (; self->types && self->type_count < plain->type_count; self->type_count++) {
        struct tt_cell_type *type = &self->types[self->type_count];
        fill_type(type, plain, self->type_count);
        type->name = strdup(plain->names[self->type_count]);
        if (!type->name)
            break;
        if (type->max_batch > self->signature.max_batch)
            self->signature.max_batch = type->max_batch;
    }
    if (self->type_count < plain->type_count) {
        tt_cells_close(self);
        return TT_ERR_NO_MEMORY;
    }
    *out_cells = self;
    return TT_OK;
}
