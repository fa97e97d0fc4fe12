/* In which row of its batch each cell of a task is computed (C6).
 *
 * The cells of a chain read, side by side, what the batch before wrote side by side; but with
 * nearly every batch somebody has left and somebody new has come. So who stays keeps its row, and
 * only who is new, or would be beyond the end of a shorter batch, is moved: into the slots that
 * those who left wrote last. Then all states are one range again and two or three rows were copied,
 * not all of them. Who is known to leave is copied out of the way at once, so that its place may be
 * taken by the next task already (cell_tasks.c).
 *
 * Such a slot is borrowed from the time the task is submitted until it is back: as long as another
 * one still needs what lies there, or slots are scarce (half of them are promised), nothing is
 * moved and the engine gathers. Nothing here decides who is in the batch, nor copies. */
#ifndef TT_SERVE_CELL_ROW_ASSIGNMENT_H
#define TT_SERVE_CELL_ROW_ASSIGNMENT_H

#include "base/err.h"
#include "engine/cell_slots.h"

/* For the task at hand. */
struct tt_cell_row_assignment {
    int32_t *sources; /* [max_batch], of each item: the slot it reads; -1: it begins */
    int32_t *items;   /* [max_batch], of each row: the item that is computed there */
    int32_t *movers;  /* [max_batch]: scratch */
};

TT_MUST_CHECK enum tt_err tt_cell_row_assignment_init(struct tt_cell_row_assignment *self,
                                                      int32_t max_batch);
void tt_cell_row_assignment_fini(
    struct tt_cell_row_assignment *self); /* also after a failed init */
/* Reserves that many, to be given back soon. False: slots are too scarce for that. */
bool tt_cell_row_assignment_borrow(struct tt_cell_slots *slots, int32_t count);
/* `sources` of `count` items, which the executor is to compute, are filled in; fills `items`. True:
 * row r reads slot `base` + r, which is borrowed where that is not its item's source. False: in the
 * items' order, nothing borrowed. */
bool tt_cell_row_assignment_keep(struct tt_cell_row_assignment *self, struct tt_cell_slots *slots,
                                 int32_t executor, int32_t base, int32_t count);

#endif
