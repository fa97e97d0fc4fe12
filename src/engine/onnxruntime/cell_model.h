/* A model of cells as the engine holds it: a session per type, and the slots.
 *
 * A slot is a row in every one of the model's tensors: one tensor per state (state 0 of every type
 * is the same tensor, so that a cell reads what it is given without knowing whose it is), and one
 * per output of the request that is no state. Cells write into their slots in place, so the rows of
 * a batch whose slots are adjacent are one range, and the next batch of the same requests reads
 * them where they lie (C6). What a slot holds is all that is kept of a request: memory is that of
 * the cells alive.
 *
 * Where there is nothing to read, an input is bound to rows of its own that hold its initial value.
 *
 * Life: made by `tt_ort_engine_load_cells` (onnxruntime.h), borrowed description and all; immutable
 * but for the bytes in the slots and `type_of`, which are written by the executor that runs a cell
 * and read by who runs after it. Which slots are free is not known here (engine/cell_slots.h). */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_MODEL_H
#define TT_ENGINE_ONNXRUNTIME_CELL_MODEL_H

#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_model.h"
#include "model/cells/cells.h"

struct tt_cell_tensor {
    char *bytes; /* [slot_count] rows; NULL: no type has it */
    size_t row_bytes;
    enum tt_dtype dtype;
    struct tt_shape shape; /* dims[0] is free */
};

/* An input of a type as it is bound: a state of one of the cells that it reads, or an element. */
struct tt_cell_input {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t row_bytes;
    int32_t state, source; /* state -1: an element */
    int32_t from;          /* of the request's inputs */
    char *initial;         /* [max_batch] rows; a state's */
    uint32_t lacking;      /* types (a bit each) of which a slot does not hold the state */
};

struct tt_cell_output {
    const char *name;
    int32_t tensor;
    bool is_told; /* in the answer, or what the type emits; else only cells read it */
    int32_t copies[TT_CELLS_MAX_STATES]; /* further tensors that are to hold it */
    int32_t copy_count;
};

struct tt_cell_plan {
    int32_t input_count, output_count, arity, max_batch;
    struct tt_cell_input inputs[TT_MAX_TENSORS];
    struct tt_cell_output outputs[TT_MAX_TENSORS]; /* those that somebody wants */
    int32_t emit;                                  /* tensor; -1: none */
    bool emits_integer;                            /* one INT32 or INT64 */
    int32_t answers[TT_MAX_TENSORS];               /* tensor of each of the request's outputs; -1 */
};

struct tt_ort_cells {
    const struct tt_cells *cells; /* borrowed */
    int32_t slot_count, tensor_count;
    struct tt_cell_tensor tensors[TT_CELLS_MAX_STATES + TT_MAX_TENSORS + TT_CELLS_MAX_TYPES];
    uint8_t *type_of; /* [slot_count]: of the cell that wrote the slot */
    struct tt_cell_plan plans[];
};

TT_MUST_CHECK enum tt_err tt_ort_model_new_cells(const struct tt_ort_library *library,
                                                 const struct tt_ort_cells_options *options,
                                                 struct tt_ort_model **out_model,
                                                 struct tt_error *why);
void tt_ort_cells_free(struct tt_ort_cells *take_cells); /* NULL-safe */

static inline char *tt_cell_row(const struct tt_cell_tensor *tensor, int32_t slot) {
    return tensor->bytes + tensor->row_bytes * (size_t)slot;
}
/* Row 0 of the tensor's element, as an integer; INT32 and INT64. */
int64_t tt_cell_integer(const struct tt_cell_tensor *tensor, int32_t slot);

#endif
