/* What a request of cells has answered so far: the rows that its cells emitted (a decoder's words).
 *
 * Life: all zero; the engine's `cell_emit` adds a row for each cell of the answer in order, its
 * `cell_finish` makes the result of it and empties it. One thread at a time. */
#ifndef TT_ENGINE_CELL_ANSWER_H
#define TT_ENGINE_CELL_ANSWER_H

#include <stdint.h>
#include <stdlib.h>

struct tt_cell_answer {
    char *emitted; /* rows; owned */
    int32_t count, capacity;
};

static inline void tt_cell_answer_fini(struct tt_cell_answer *self) {
    free(self->emitted);
    *self = (struct tt_cell_answer){0};
}

#endif
