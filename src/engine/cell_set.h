/* What the cells of a model read and write, for engines that run them: which tensor holds each
 * state, which rows each type of cell reads, and what is part of a request's answer.
 *
 * A slot is one row in each of the model's tensors. There is one tensor per state, and one per
 * output of the request that is not a state. State 0 of every type is the same tensor, so a cell
 * can read a state without knowing the type of its writer. Cells write into their slots in place.
 * So the rows of a batch with adjacent slots are one range, and the next batch of the same requests
 * reads them in place (C6). Only slots hold data of a request, so memory grows with the cells that
 * are alive.
 *
 * States in place are the exception: all of them are the request's *cache*. It has a row of its own
 * in each of their tensors, and every cell of the request reads and writes that row. So a batch is
 * run in one piece where its rows are adjacent, and nothing is ever gathered. Which row a request
 * has, the submitter of tasks decides (serve/cell_caches.h). A cell that runs in vain, or again
 * after its batch failed, has written its row: the graph must make the same of it.
 *
 * An input without a source is bound to rows that hold its initial value.
 *
 * Life: an engine allocates it with a plan per type and sets `cells`; _plan fills tensors and
 * plans; the engine makes the rows and `type_of`. It is immutable except for the rows and
 * `type_of`: the executor that runs a cell writes them, and executors of later cells read them.
 * engine/cell_slots.h knows which slots are free. Implemented in cell_set.c. */
#ifndef TT_ENGINE_CELL_SET_H
#define TT_ENGINE_CELL_SET_H

#include "model/cells/cells.h"

enum { TT_CELL_TENSORS = TT_CELLS_MAX_STATES + TT_MAX_TENSORS + TT_CELLS_MAX_TYPES };

struct tt_cell_tensor {
    char *bytes; /* rows on the host, one per slot or per cache; NULL: it has none there */
    size_t row_bytes;
    bool in_place; /* of caches */
    enum tt_dtype dtype;
    struct tt_shape shape; /* dims[0] is ignored */
};

/* An input of a type: a state of one of its source cells, or an element of the request, or a chunk
 * of elements. */
struct tt_cell_input {
    const char *name;
    enum tt_dtype dtype;
    struct tt_shape shape;
    size_t row_bytes;
    int32_t state, source; /* state -1: an element */
    int32_t from;          /* index of the request's input */
    char *initial;         /* states: [max_batch] rows of the initial value; in place: one */
    bool is_zero;          /* states: that is all it holds */
    char *fill;            /* chunks: a row of what follows the request's last element */
    uint32_t lacking;      /* a bit per type: slots written by it do not hold the state */
};

struct tt_cell_output {
    const char *name;
    int32_t tensor;
    bool is_told; /* part of the answer, or emitted; otherwise only cells read it */
    int32_t copies[TT_CELLS_MAX_STATES]; /* further tensors that hold a copy */
    int32_t copy_count;
};

struct tt_cell_plan {
    int32_t input_count, output_count, arity, max_batch;
    struct tt_cell_input inputs[TT_MAX_TENSORS];
    struct tt_cell_output outputs[TT_MAX_TENSORS]; /* only those that are read */
    int32_t emit;                                  /* tensor; -1: none */
    bool emits_integer;                            /* one INT32 or INT64 */
    bool has_cache;
    int32_t answers[TT_MAX_TENSORS]; /* the tensor of each of the request's outputs; -1: none */
};

struct tt_cell_set {
    const struct tt_cells *cells; /* borrowed */
    int32_t slot_count, cache_count;
    struct tt_cell_tensor tensors[TT_CELL_TENSORS];
    uint8_t *type_of; /* [slot_count]: type of the cell that wrote the slot */
    struct tt_cell_plan plans[];
};

/* Errors: INVALID, UNSUPPORTED (tensors that do not fit each other), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_set_plan(struct tt_cell_set *self, struct tt_error *why);
/* Frees what _plan allocated, also if it failed, and `type_of`. */
void tt_cell_set_fini(struct tt_cell_set *self);

static inline char *tt_cell_row(const struct tt_cell_tensor *tensor, int32_t slot) {
    return tensor->bytes + tensor->row_bytes * (size_t)slot;
}
/* True if slots have rows in the tensor, on the host. */
static inline bool tt_cell_tensor_has_slots(const struct tt_cell_tensor *tensor) {
    return tensor->bytes && !tensor->in_place;
}
/* The value of a slot in an INT32 or INT64 tensor of one element per row, on the host. */
int64_t tt_cell_integer(const struct tt_cell_tensor *tensor, int32_t slot);

#endif
