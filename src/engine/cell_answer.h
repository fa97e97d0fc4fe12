/* The rows that a request of cells has emitted so far (a decoder's output words, for example).
 *
 * Life: all zero at first. The engine's `cell_emit` appends a row for each emitting cell, in order.
 * Its `cell_finish` makes the result and empties the answer. One thread at a time.
 * Implemented in cell_answer.c, for engines that have the rows on the host. */
#ifndef TT_ENGINE_CELL_ANSWER_H
#define TT_ENGINE_CELL_ANSWER_H

#include "base/err.h"

#include <stdint.h>
#include <stdlib.h>

struct tt_cell_set;
struct tt_engine_result;

struct tt_cell_answer {
    char *emitted; /* the rows; owned */
    int32_t count, capacity;
};

static inline void tt_cell_answer_fini(struct tt_cell_answer *self) {
    free(self->emitted);
    *self = (struct tt_cell_answer){0};
}

/* What `cell_emit` and `cell_finish` of an engine promise (engine/engine.h). */
TT_MUST_CHECK enum tt_err tt_cell_answer_emit(struct tt_cell_answer *self,
                                              const struct tt_cell_set *cells, int32_t slot,
                                              int32_t most);
TT_MUST_CHECK enum tt_err tt_cell_answer_finish(struct tt_cell_answer *self,
                                                const struct tt_cell_set *cells, int32_t slot,
                                                struct tt_engine_result **out_result);

#endif
