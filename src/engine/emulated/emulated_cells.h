/* S11, C7: cells on a device that takes its time and computes nothing (engine/emulated/emulated.h).
 *
 * What stays of a cell in its slot is how many of its type its chain has behind it; what a request
 * gives is how many cells its open-ended chain will turn out to have (model/cells/cells.h: plain).
 * So a chain ends where the request says, and nobody but this device knows beforehand; and whether
 * the cells of a batch lie side by side, or are gathered, follows from the very slots that a real
 * one would read. Tasks by cells go as engine.h has it, through all steps of a recurrent block
 * where the cell is one; those by sequences as core/walk.h, but that nobody walks to a padded end.
 */
#ifndef TT_ENGINE_EMULATED_EMULATED_CELLS_H
#define TT_ENGINE_EMULATED_EMULATED_CELLS_H

#include "engine/emulated/emulated.h"
#include "engine/thread_executors.h"

struct tt_emulated_slot {
    int32_t type, behind; /* cells of that type */
};

struct tt_emulated_cells {
    struct tt_engine_emulated_cells options;
    struct tt_emulated_slot *slots; /* [slot_count] */
};

TT_MUST_CHECK enum tt_err tt_emulated_cells_init(struct tt_emulated_cells *self,
                                                 const struct tt_engine_emulated_cells *options);
void tt_emulated_cells_fini(struct tt_emulated_cells *self);

/* Who lets the time pass. */
struct tt_emulated_clock {
    struct tt_executor_thread *thread;
    /* A step of each of `rows` sequences, the longest of them so long, and `extra_ns` more; when it
     * ended in *out_at. False: the task was aborted. */
    bool (*pass)(void *context, int32_t step, int32_t rows, int32_t length, int64_t extra_ns,
                 int64_t *out_at);
    void *context;
    enum tt_executor_stop (*asked)(struct tt_executor_thread *thread);
};

/* Runs a task of cells, or of sequences, and sets all that is set at completion. */
void tt_emulated_cells_run(struct tt_emulated_cells *self, struct tt_engine_task *task,
                           const struct tt_emulated_clock *clock);
/* As engine.h: there is one output, of one zero. */
enum tt_err tt_emulated_cells_emit(struct tt_cell_answer *answer,
                                   const struct tt_engine_model *model, int32_t slot, int32_t most);
enum tt_err tt_emulated_cells_finish(struct tt_cell_answer *answer,
                                     const struct tt_engine_model *model, int32_t slot,
                                     struct tt_engine_result **out_result);

#endif
