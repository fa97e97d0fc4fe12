/* C7: whole sequences in one batch, for policies that do not schedule single cells.
 *
 * All members go through the chain of the first type together, cell by cell, until the longest one
 * ends. Then they go through the chain of the next type. Sessions and slots are those of single
 * cells. A member that has finished a chain is still computed with the others, but its next chain
 * reads the state saved at its end. So every answer equals the answer without padding, bit for bit.
 * A chain ends when all members have finished it.
 *
 * A `diverging` task pads nothing (L6). It ends after the cell with which the first member finishes
 * its chain; on a yield, after the current cell. The state of each member then lies in a slot of
 * its own. A later task reads those slots, for any members, each at its own round.
 *
 * A failing cell fails its member only; the others continue. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_WALK_H
#define TT_ENGINE_ONNXRUNTIME_CELL_WALK_H

#include "engine/onnxruntime/cell_step.h"
#include "engine/thread_executors.h"

/* Runs the sequences of batch->task from first_step to last_step. Sets their positions and errors,
 * fills their answers, and sets the task's last_step_done. Calls `asked` between cells. */
TT_MUST_CHECK enum tt_outcome
tt_cell_walk_run(struct tt_cell_batch *batch,
                 enum tt_executor_stop (*asked)(struct tt_executor_thread *thread),
                 struct tt_executor_thread *thread);

#endif
