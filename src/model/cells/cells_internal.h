/* What the files that read a model's cells share: cells.c (the model as a whole, what clients see)
 * and cell_type.c (one type: its file, its wiring, its digest). */
#ifndef TT_MODEL_CELLS_CELLS_INTERNAL_H
#define TT_MODEL_CELLS_CELLS_INTERNAL_H

#include "model/cells/cells.h"

struct tt_cells_work {
    const struct tt_model_settings *settings;
    struct tt_findings *findings;
    const char *version_directory;
    struct tt_cells *cells;
    bool no_memory;
};

#define tt_cells_problem(work, message, field, ...)                                                \
    tt_model_settings_problem((work)->settings, (work)->findings, message, field, __VA_ARGS__)

/* Reads type `index` from its file and wires it, but for what it reads of the request (`from`) and
 * what it answers. */
void tt_cell_type_read(struct tt_cells_work *work, int32_t index);
void tt_cell_type_fini(struct tt_cell_type *type);
/* The row of a tensor: its shape without the first dimension, equal in both? */
bool tt_cell_rows_equal(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b);
/* The request's tensor with that name, which is added where there is none; -1, and a problem, where
 * it is there but of another type. `row` has the type, and the shape behind the first dimension;
 * NULL: a single INT64. */
int32_t tt_cells_input(struct tt_cells_work *work, const char *name,
                       const struct tt_tensor_spec *row, const void *message, const char *field);

#endif
