/* One request to a model of cells on its way (C2, C3): its cells, the slots of their states, and
 * what it has emitted so far.
 *
 * Life: made by the port's thread at submit, where hostile requests are rejected; the scheduler's
 * from then on. It holds slots for what is still to be read: of a chain the last cell's, of a tree
 * those of nodes whose parents have not run. It outlives the answer, and the inference: cells that
 * were submitted beyond an <eos>, or before a cancellation, still run and read it. So it has a copy
 * of the request's inputs, and is freed when the mechanism says that nothing of it is in flight.
 *
 * What a cell reads may be given back when that cell is done, and not before, because another
 * executor could get the slot. Nothing here decides. Implemented here and in cell_run.c. */
#ifndef TT_SERVE_CELL_RUN_H
#define TT_SERVE_CELL_RUN_H

#include "core/cell_graph.h"
#include "core/task.h"
#include "engine/cell_answer.h"
#include "engine/cell_slots.h"
#include "model/cells/unfold.h"
#include "serve/served_model_state.h"

struct tt_inference;

/* One spec's cells. */
struct tt_cell_run_spec {
    int32_t
        slot; /* of its last cell so far, or of the one where it ended; -1: none, or given back */
    int32_t readers;                    /* cells of other specs that still have to read it */
    int32_t row;                        /* of the batch that computed it; -1: it is elsewhere now */
    int32_t submitted;                  /* how many of its repeats */
    int32_t end;                        /* the repeat that ended an open-ended chain; -1: not yet */
    struct tt_unfold_elements elements; /* that its cells read */
};

struct tt_cell_run {
    struct tt_unfolded *unfolded;
    struct tt_served_model *model; /* a reference */
    struct tt_cell_graph *graph;   /* this is its user; NULL: its policy does not work by cells */
    /* If it runs as a sequence: cells of each type, [step_count]. Between two tasks (L6): the slot
     * of its state (-1: no cell has run), and how many of the answer's rows are valid. */
    int32_t *repeats;
    int32_t state, emitted;
    struct tt_cell_answer answer;
    int32_t reserved; /* slots */
    int32_t cache;    /* its row (serve/cell_caches.h); -1: none yet */
    /* Every cell of a chain uses the second cache line, which starts here, and for its element the
     * third. */
    struct tt_inference *inference;    /* NULL once it has its answer: later cells run in vain */
    struct tt_engine_elements *inputs; /* a copy */
    int64_t started_at, computed_at;   /* of its first cell and its last; started_at 0: none yet */
    bool emits;                        /* cells of its answer emit */
    bool reads;                        /* a spec reads another one */
    bool is_plain;       /* neither emits nor may end early: its cells are done, or fail */
    bool left_cache : 1; /* the row of its cache may be taken by others */
    bool is_lost : 1;    /* a run that was given up may still read it: it is never freed */
    struct tt_cell_run_spec specs[];
};
_Static_assert(sizeof(void *) != 8 ||
                   (offsetof(struct tt_cell_run, inference) == TT_LINE_BYTES &&
                    offsetof(struct tt_cell_run, specs) + sizeof(struct tt_cell_run_spec) ==
                        (size_t)2 * TT_LINE_BYTES),
               "one cache line");

/* Unfolds the inputs, one per input of the model's signature. Any thread. Errors: those of
 * tt_unfold_new(). */
TT_MUST_CHECK enum tt_err tt_cell_run_new(struct tt_served_model *model,
                                          const struct tt_tensor_view *inputs,
                                          struct tt_cell_run **out_run, struct tt_error *why);
/* Gives back the slots that it holds. The scheduler, or its owner before submission. NULL-safe. */
void tt_cell_run_free(struct tt_cell_run *take_run);
/* Reserves the slots that it may hold at once when up to `max_tasks` are on an executor, and the
 * row of its cache. False: there are too few. */
bool tt_cell_run_reserve(struct tt_cell_run *self, int32_t max_tasks);

/* ---- by cells ---- */

/* Of a task's item, whose request has not ended. */
static inline struct tt_cell_run *tt_cell_run_of(const struct tt_task_item *item) {
    return item->subgraph->user;
}
/* Which cell the item is: a spec, and a repeat of it. */
static inline void tt_cell_run_place(const struct tt_task_item *item, int32_t *out_spec,
                                     int32_t *out_repeat) {
    bool is_chain = item->subgraph->is_chain;
    *out_spec = is_chain ? item->subgraph->spec : item->cell;
    *out_repeat = is_chain ? item->cell : 0;
}
/* What the item's cell, which is submitted next, reads as its first source: returns the slot, and
 * in *out_row the row of the batch that wrote it. -1: it reads none, and *out_row is untouched. */
static inline int32_t tt_cell_run_source(const struct tt_cell_run *self,
                                         const struct tt_task_item *item, int32_t *out_row) {
    int32_t spec, repeat;
    tt_cell_run_place(item, &spec, &repeat);
    if (repeat == 0 && !self->reads)
        return -1;
    if (repeat == 0) {
        const struct tt_cell_spec *from = &self->unfolded->specs[spec];
        if (from->source_count == 0)
            return -1;
        spec = from->sources[0];
    }
    *out_row = self->specs[spec].row;
    return self->specs[spec].slot;
}
/* Sets what the first cell of a spec reads, if it reads anything. */
static inline void tt_cell_run_first_sources(const struct tt_cell_run *self, int32_t spec,
                                             struct tt_engine_cell *out_cell) {
    const struct tt_cell_spec *from = &self->unfolded->specs[spec];
    for (int32_t q = 0; q < from->source_count; q++)
        out_cell->sources[q] = self->specs[from->sources[q]].slot;
}
/* The item's cell is submitted and will write `slot`, in the given row of its batch (-1: its state
 * does not stay there). Sets what it reads, and from where. `arity`: its type's. */
static inline void tt_cell_run_submit(struct tt_cell_run *self, const struct tt_task_item *item,
                                      int32_t arity, int32_t slot, int32_t row,
                                      struct tt_engine_cell *out_cell) {
    int32_t spec, repeat;
    tt_cell_run_place(item, &spec, &repeat);
    struct tt_cell_run_spec *state = &self->specs[spec];
    out_cell->inputs = self->inputs;
    out_cell->user = self;
    out_cell->element = tt_unfold_elements_at(&state->elements, repeat);
    out_cell->slot = slot;
    out_cell->spec = spec;
    out_cell->err = TT_OK;
    out_cell->emitted = 0;
    out_cell->sources[0] = repeat > 0 ? state->slot : -1;
    for (int32_t q = 1; q < arity; q++)
        out_cell->sources[q] = -1;
    if (repeat == 0 && self->reads)
        tt_cell_run_first_sources(self, spec, out_cell);
    tt_assert(repeat == state->submitted);
    state->submitted++;
    state->slot = slot;
    state->row = row;
}
/* For tt_cell_run_done(): the first cell of a spec has read its sources. */
void tt_cell_run_release_sources(struct tt_cell_run *self, int32_t spec);
/* For tt_cell_run_done(): the cell emits, may end its chain, or failed. */
enum tt_fate tt_cell_run_settle(struct tt_cell_run *self, const struct tt_task_item *item,
                                const struct tt_engine_cell *cell, int64_t ended_at);
/* Its answer has new rows, from row `first` on, which were there at `emitted_at`: counts them, and
 * passes them to a client that streams. CANCELLED: that client does not read; its inference has the
 * reason. */
TT_MUST_CHECK enum tt_err tt_cell_run_deliver(struct tt_cell_run *self, int32_t first,
                                              int64_t emitted_at);
/* The cell is back since `ended_at`: keeps what it emitted, and gives back what is not read any
 * more, to `slots`, which are its model's. Returns the consequence for its request. */
static inline enum tt_fate tt_cell_run_done(struct tt_cell_run *self, struct tt_cell_slots *slots,
                                            const struct tt_task_item *item,
                                            const struct tt_engine_cell *cell, int64_t ended_at) {
    const struct tt_cell_run_spec *state = &self->specs[cell->spec];
    int32_t repeat = item->subgraph->is_chain ? item->cell : 0;
    if (repeat == 0 && self->reads)
        tt_cell_run_release_sources(self, cell->spec);
    else if (repeat > 0 && repeat - 1 != state->end) /* where the chain ended is still to be read */
        tt_cell_slots_give(slots, cell->sources[0]);
    return self->is_plain && !cell->err ? TT_FATE_GOES_ON
                                        : tt_cell_run_settle(self, item, cell, ended_at);
}
/* Its last cell is done: makes the outputs. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_run_answer(struct tt_cell_run *self,
                                             struct tt_engine_result **out_result);

#endif
