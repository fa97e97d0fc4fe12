/* S11, C7: cells on the emulated device, which takes time but computes nothing
 * (engine/emulated/emulated.h).
 *
 * A slot holds the type of the last cell and how many cells of that type its chain has run. A
 * request's input states how many cells its open-ended chain will have (model/cells/cells.h, plain
 * form). So a chain ends where the request says, and only this device knows it in advance. Whether
 * the cells of a batch are adjacent or gathered follows from the slots that a real device would
 * read.
 *
 * Tasks of cells run as engine.h describes, through all steps of a recurrent block if the cell is
 * one. Tasks of sequences run as core/walk.h describes, but never to a padded end. */
#ifndef TT_ENGINE_EMULATED_EMULATED_CELLS_H
#define TT_ENGINE_EMULATED_EMULATED_CELLS_H

#include "engine/emulated/emulated.h"
#include "engine/thread_executors.h"

struct tt_emulated_slot {
    int32_t type, behind; /* the number of cells of that type that the chain has run */
};

struct tt_emulated_cells {
    struct tt_engine_emulated_cells options;
    struct tt_emulated_slot *slots; /* [slot_count] */
};

TT_MUST_CHECK enum tt_err tt_emulated_cells_init(struct tt_emulated_cells *self,
                                                 const struct tt_engine_emulated_cells *options);
void tt_emulated_cells_fini(struct tt_emulated_cells *self);

/* Lets time pass for a task; implemented by the emulated engine. */
struct tt_emulated_clock {
    struct tt_executor_thread *thread;
    /* Waits for one step of `rows` sequences, of which the longest has `length` elements, plus
     * `extra_ns`. Sets *out_at to its end. False: the task was aborted. */
    bool (*pass)(void *context, int32_t step, int32_t rows, int32_t length, int64_t extra_ns,
                 int64_t *out_at);
    void *context;
    enum tt_executor_stop (*asked)(struct tt_executor_thread *thread);
};

/* Runs a task of cells or of sequences, and sets all fields that are set at completion. */
void tt_emulated_cells_run(struct tt_emulated_cells *self, struct tt_engine_task *task,
                           const struct tt_emulated_clock *clock);
/* The same for cells whose states are rows of tensors: the `compute` of the kind. The inputs
 * of a type are the states that it reads (struct tt_emulated_slot), and, if its chain is
 * open-ended, how many cells that will have; the outputs are the answer (a zero), the state and
 * what it emits. */
void tt_emulated_cells_compute(const struct tt_cells *cells, int32_t type, int32_t rows,
                               const void *const *in, void *const *out);
/* As in engine.h. There is one output: a single zero. */
enum tt_err tt_emulated_cells_emit(struct tt_cell_answer *answer,
                                   const struct tt_engine_model *model, int32_t slot, int32_t most);
enum tt_err tt_emulated_cells_finish(struct tt_cell_answer *answer,
                                     const struct tt_engine_model *model, int32_t slot,
                                     struct tt_engine_result **out_result);

#endif
