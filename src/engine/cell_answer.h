/* The rows that a request of cells has emitted so far (a decoder's output words, for example).
 *
 * Life: all zero at first. The engine's `cell_emit` appends a row for each emitting cell, in order.
 * Its `cell_finish` makes the result and empties the answer. One thread at a time. */
#ifndef TT_ENGINE_CELL_ANSWER_H
#define TT_ENGINE_CELL_ANSWER_H

#include <stdint.h>
#include <stdlib.h>

struct tt_cell_answer {
    char *emitted; /* the rows; owned */
    int32_t count, capacity;
};

static inline void tt_cell_answer_fini(struct tt_cell_answer *self) {
    free(self->emitted);
    *self = (struct tt_cell_answer){0};
}

#endif
