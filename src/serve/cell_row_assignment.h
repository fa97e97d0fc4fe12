/* Assigns the cells of a task to rows of its batch (C6).
 *
 * The cells of a chain read, in adjacent slots, what the previous batch wrote there; but with
 * nearly every batch some requests leave and others join. So a request that stays keeps its row.
 * Only a new one, or one that would be beyond the end of a shorter batch, is moved into the slots
 * that the leaving requests wrote last. Then all states are one range again, and two or three rows
 * were copied instead of all. A request that is known to leave is copied aside at once, so that the
 * next task may already take its place (cell_tasks.c).
 *
 * Such a slot is borrowed from the submission of the task until it is back. If another request
 * still needs the slot's content, or slots are scarce (half of them are promised), nothing is moved
 * and the engine gathers. It does not decide which requests are in the batch, and does not copy.
 * Implemented in cell_row_assignment.c. */
#ifndef TT_SERVE_CELL_ROW_ASSIGNMENT_H
#define TT_SERVE_CELL_ROW_ASSIGNMENT_H

#include "base/err.h"
#include "engine/cell_slots.h"

/* For one task at a time. */
struct tt_cell_row_assignment {
    int32_t *sources; /* [max_batch], of each item: the slot it reads; -1: it begins */
    int32_t *items;   /* [max_batch], of each row: the item that is computed there */
    int32_t *moved;   /* [moved_count], of max_batch: the rows whose items are moved in */
    int32_t moved_count;
};

TT_MUST_CHECK enum tt_err tt_cell_row_assignment_init(struct tt_cell_row_assignment *self,
                                                      int32_t max_batch);
void tt_cell_row_assignment_fini(
    struct tt_cell_row_assignment *self); /* also after a failed init */
/* Reserves `count` slots, to be given back soon. False: slots are too scarce. */
bool tt_cell_row_assignment_borrow(struct tt_cell_slots *slots, int32_t count);
/* `sources` of `count` items, for the executor, are set; sets `items` and `moved`. True: row r
 * reads slot `base` + r, which is borrowed where that is not its item's source: in the rows
 * `moved`. False: rows are in the items' order, and nothing is borrowed. */
bool tt_cell_row_assignment_keep(struct tt_cell_row_assignment *self, struct tt_cell_slots *slots,
                                 int32_t executor, int32_t base, int32_t count);

#endif
