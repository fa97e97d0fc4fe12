/* What the cells of one request emitted (a decoder's words), on its way to the connection that
 * streams it.
 *
 * Life: made by the port's thread at submit, for requests whose client wants each word as it comes.
 * The scheduler, or the engine where cells run elsewhere, puts a copy of each emitted row, in
 * order, when the cell that emitted it is back.
 * The port's thread takes rows whenever its connection can send them. It is freed when the
 * inference is given back.
 *
 * Memory is bounded: a row that finds no room is lost and so is the stream, because its client does
 * not read. The caller ends such a request. The answer itself does not pass here: the engine keeps
 * it (engine/cell_answer.h), so the last response can hold all other outputs.
 *
 * One thread puts, one takes; neither blocks or allocates. Implemented in emissions.c. */
#ifndef TT_SERVE_EMISSIONS_H
#define TT_SERVE_EMISSIONS_H

#include "base/threads/byte_ring.h"
#include "base/threads/pending.h"

struct tt_emissions {
    struct tt_byte_ring ring;
    struct tt_pending announced; /* the port has a message that there are rows */
    size_t row_bytes;
    int64_t put_count;   /* the scheduler's: rows that were put or lost */
    int64_t taken_count; /* the port's */
    bool is_lost;        /* the scheduler's: a row found no room */
    bool is_announced;   /* the turn's, where an engine puts: the first row was */
    char *row;           /* the row that was taken last */
};

/* Room for at least `rows` rows (>= 1) of `row_bytes` bytes (>= 1). Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_emissions_new(int64_t rows, size_t row_bytes,
                                           struct tt_emissions **out_emissions);
void tt_emissions_free(struct tt_emissions *take_emissions); /* NULL-safe */

/* The scheduler. False: there was no room, now or for an earlier row. *out_announces: the port must
 * be sent a message; its thread then calls _begin_reading(). */
TT_MUST_CHECK bool tt_emissions_put(struct tt_emissions *self, const void *row,
                                    bool *out_announces);
/* How many rows it can hold. */
int64_t tt_emissions_capacity(const struct tt_emissions *self);

/* The port's thread, when it has the message. */
void tt_emissions_begin_reading(struct tt_emissions *self);
/* The port's thread: the oldest row, valid until the next call; NULL: none now. */
const void *tt_emissions_take(struct tt_emissions *self);
bool tt_emissions_is_empty(const struct tt_emissions *self);

/* Asserts that counts and ring agree. Only while the other thread does not use it. */
void tt_emissions_check(const struct tt_emissions *self);

#endif
