/* A model of cells on the CPU: one session per type of cell, and the slots (engine/cell_set.h).
 *
 * Life: tt_ort_model_new_cells makes it; the description (`cells`) is borrowed. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_MODEL_H
#define TT_ENGINE_ONNXRUNTIME_CELL_MODEL_H

#include "engine/cell_set.h"
#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_model.h"

TT_MUST_CHECK enum tt_err tt_ort_model_new_cells(const struct tt_ort_library *library,
                                                 const struct tt_ort_cells_options *options,
                                                 struct tt_ort_model **out_model,
                                                 struct tt_error *why);
/* Makes the memory of the slots: `asked` of them; 0: as many as the pool holds. Errors: NO_MEMORY.
 * This and _free are implemented in cell_memory.c. */
TT_MUST_CHECK enum tt_err tt_ort_cells_make_slots(struct tt_cell_set *self, int32_t asked,
                                                  struct tt_error *why);
void tt_ort_cells_free(struct tt_cell_set *take_cells); /* NULL-safe */

#endif
