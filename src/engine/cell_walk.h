/* C7: whole sequences in one batch: what policies that do not work by cells run.
 *
 * All members go through the chain of the first type together, cell by cell, until the longest is
 * through, then through that of the next: the same sessions as cells by themselves, on the same
 * slots. Who is through is computed on with the others, to no avail, and its state as it was is
 * what its next chain reads: so every answer is bit for bit what it is without padding. A chain of
 * which all members have found their end is over.
 *
 * A failing cell fails its member alone; the others go on. */
#ifndef TT_ENGINE_CELL_WALK_H
#define TT_ENGINE_CELL_WALK_H

#include "engine/cell_step.h"

/* Runs the task's sequences; sets their errors, fills their answers. False where it was stopped
 * before the end by `is_aborted`. */
bool tt_cell_walk_run(struct tt_cell_batch *batch, struct tt_engine_sequence *sequences,
                      int32_t count, bool (*is_aborted)(void *context), void *context);

#endif
