/* What a cell reads of its request: a row that lies in the request's tensor, except for the last
 * chunk of elements (model/cells/cells.h), which may need filling up and so is copied. */
#ifndef TT_ENGINE_CELL_ELEMENTS_H
#define TT_ENGINE_CELL_ELEMENTS_H

#include "engine/cell_set.h"
#include "engine/engine.h"

#include <string.h>

/* The row that the cell reads as `input`, of which `*out_bytes` are there: `row_bytes`, or fewer in
 * an incomplete chunk. NULL: the request has no such element. */
static inline const char *tt_cell_elements(const struct tt_engine_cell *cell,
                                           const struct tt_cell_input *input, size_t *out_bytes) {
    const struct tt_engine_elements *given = &cell->inputs[input->from];
    size_t at = (size_t)cell->element * input->row_bytes;
    if (cell->element < 0 || at >= given->size_bytes)
        return NULL;
    size_t left = given->size_bytes - at;
    *out_bytes = left < input->row_bytes ? left : input->row_bytes;
    return *out_bytes == input->row_bytes || input->fill ? (const char *)given->bytes + at : NULL;
}
/* Copies a row of which `bytes` are there to `to`, which has room for a whole one. */
static inline void tt_cell_elements_copy(const struct tt_cell_input *input, const char *from,
                                         size_t bytes, char *to) {
    memcpy(to, from, bytes);
    if (bytes < input->row_bytes)
        memcpy(to + bytes, input->fill, input->row_bytes - bytes);
}

#endif
