/* Shared by the files that read a model's cells: cells.c (the model as a whole, and what clients
 * see) and cell_type.c (one type: its file, its wiring, its digest). */
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

/* Reads type `index` from its file and wires it, except `from` of its reads and its answers. */
void tt_cell_type_read(struct tt_cells_work *work, int32_t index);
void tt_cell_type_fini(struct tt_cell_type *type);
/* True if two tensors have equal rows: the same type, and the same shape without the first
 * dimension. */
bool tt_cell_rows_equal(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b);
/* Index of the request's tensor with that name; it is added if there is none. -1, and a problem: it
 * exists with another type. `row` has the type, and the shape behind the first dimension; NULL: a
 * single INT64. */
int32_t tt_cells_input(struct tt_cells_work *work, const char *name,
                       const struct tt_tensor_spec *row, const void *message, const char *field);

#endif
