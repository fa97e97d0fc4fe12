/* A request's cells in a recording: the specs that core/cell_graph.h makes a graph of. A tree's
 * leaf takes a byte, an inner node three, a chain of any length a few.
 *
 * First the number of specs. A spec is a row of cells of one type, each of which reads the one
 * before it. It begins with (first step * 4 + sources) * 8 + flags, where 3 sources mean that their
 * number follows. Flag 1: repeats follow; flag 2: it is open-ended; flag 4: (last step - first
 * step) follows. Then per source how many specs before this one it is. Connected specs of one type
 * are a subgraph, numbered by their first spec; an item of RUN is its next ready cell.
 *
 * Written on the scheduler's thread, into memory of tt_record_cells_bound() bytes. Read into an
 * object whose memory is kept from request to request. Bytes that are read are not trusted: reading
 * stays within them, and numbers are within int32_t; tt_cell_graph_new() checks that they are a
 * graph. Implemented in record_cells.c. */
#ifndef TT_RECORD_RECORD_CELLS_H
#define TT_RECORD_RECORD_CELLS_H

#include "core/cell_graph.h"
#include "core/task.h"

#include <stddef.h>

struct tt_record_cells {
    struct tt_cell_spec *specs; /* their sources are offsets while it is read, then pointers */
    int32_t *sources;
    int32_t count, source_count;
    int64_t capacity, source_capacity;
};

/* The number of the item's subgraph in its request. */
static inline int32_t tt_record_subgraph(const struct tt_task_item *item) {
    return (int32_t)(item->subgraph - item->request->graph->subgraphs);
}

/* The most bytes that the specs take. */
size_t tt_record_cells_bound(const struct tt_cell_spec *specs, int32_t count);
/* Returns where they end. */
uint8_t *tt_record_cells_put(uint8_t *to, const struct tt_cell_spec *specs, int32_t count);
/* Reads what was put from [*at, end) and moves *at. INVALID: the bytes end early, or a number is
 * impossible; `*out_what` says which. */
TT_MUST_CHECK enum tt_err tt_record_cells_get(struct tt_record_cells *self, const uint8_t **at,
                                              const uint8_t *end, const char **out_what);
void tt_record_cells_fini(struct tt_record_cells *self);

#endif
