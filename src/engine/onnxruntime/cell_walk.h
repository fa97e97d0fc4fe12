/* C7: whole sequences in one batch: what policies that do not work by cells run.
 *
 * All members go through the chain of the first type together, cell by cell, until the longest is
 * through, then through that of the next: the same sessions as cells by themselves, on the same
 * slots. Who is through is computed on with the others, to no avail, and its state as it was is
 * what its next chain reads: so every answer is bit for bit what it is without padding. A chain of
 * which all members have found their end is over.
 *
 * A task that is `parting` pads nothing (L6): it ends with the cell with which its first member is
 * through, and, where somebody asks it to yield, with the cell at hand. Each member's state then
 * lies in one slot of its own, so going on only means that a later task reads those slots, of
 * whichever members, each at its own round.
 *
 * A failing cell fails its member alone; the others go on. */
#ifndef TT_ENGINE_ONNXRUNTIME_CELL_WALK_H
#define TT_ENGINE_ONNXRUNTIME_CELL_WALK_H

#include "engine/onnxruntime/cell_step.h"
#include "engine/thread_executors.h"

/* Runs the sequences of batch->task from first_step up to last_step: sets where they stand and
 * their errors, fills their answers, and sets the task's last_step_done. `asked` is called between
 * cells. */
TT_MUST_CHECK enum tt_outcome
tt_cell_walk_run(struct tt_cell_batch *batch,
                 enum tt_executor_stop (*asked)(struct tt_executor_thread *thread),
                 struct tt_executor_thread *thread);

#endif
