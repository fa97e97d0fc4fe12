#include "serve/cell_tasks.h"

#include "serve/inference_state.h"

#include <stdlib.h>

enum {
    SEQUENCE_SLOTS = TT_COUNT(((struct tt_engine_sequence *)NULL)->slots),
    LAST_SLOT = SEQUENCE_SLOTS - 1
};

enum tt_err tt_cell_tasks_init(struct tt_cell_tasks *self, int32_t task_count, int32_t max_batch) {
    size_t count = (size_t)task_count * (size_t)max_batch;
    /* Pages that no batch uses are never touched. */
    *self = (struct tt_cell_tasks){
        .max_batch = max_batch,
        .cells = tt_line_room(count * sizeof(*self->cells)),
        .sequences = calloc(count, sizeof(*self->sequences)),
        .whys = calloc(count, sizeof(*self->whys)),
        .slots = calloc((size_t)max_batch * SEQUENCE_SLOTS, sizeof(*self->slots)),
        .caches = calloc((size_t)max_batch, sizeof(*self->caches))};
    enum tt_err err = tt_cell_row_assignment_init(&self->assignment, max_batch);
    bool has_room = self->cells && self->sequences && self->whys && self->slots && self->caches;
    return !err && has_room ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_cell_tasks_fini(struct tt_cell_tasks *self) {
    free(self->cells);
    free(self->sequences);
    free(self->whys);
    free(self->slots);
    free(self->caches);
    tt_cell_row_assignment_fini(&self->assignment);
    *self = (struct tt_cell_tasks){0};
}

/* ---- starting ---- */

/* C6: the oldest item with a state determines where the batch was. Returns the first slot of those
 * that the rows read; -1: they are not adjacent, which in a tree is left to chance. */
static int32_t staging_slot(struct tt_cell_tasks *self, struct tt_cell_slots *slots, bool is_chain,
                            const struct tt_task *task) {
    const struct tt_task_item *items = task->items;
    int32_t base = -1, *sources = self->assignment.sources;
    for (int32_t i = 0, count = is_chain ? task->count : 0; i < count; i++) {
        int32_t row = -1;
        sources[i] = tt_cell_run_source(tt_cell_run_of(&items[i]), &items[i], &row);
        if (base < 0 && row >= 0 && sources[i] >= row)
            base = sources[i] - row;
    }
    if (base >= 0)
        return tt_cell_row_assignment_keep(&self->assignment, slots, task->executor, base,
                                           task->count)
                   ? base
                   : -1;
    for (int32_t i = 0; i < task->count; i++)
        self->assignment.items[i] = i;
    self->assignment.moved_count = 0;
    return -1;
}

/* The rows of the batch are in the order of the members' caches. */
static void assign_caches(struct tt_cell_tasks *self, struct tt_served_cells *model,
                          const struct tt_task *task) {
    struct tt_cell_cache_task caching = {.executor = task->executor, .leaves = true};
    const struct tt_cell_type *types = model->cells->types;
    for (int32_t t = 0; t < model->cells->type_count; t++) {
        caching.area += t < task->first_step && types[t].has_cache;
        caching.areas += types[t].has_cache;
    }
    for (int32_t i = 0; i < task->count; i++)
        self->caches[i] = (struct tt_cell_cache_member){
            .item = i, .from = tt_cell_run_of(&task->items[i])->cache};
    tt_cell_caches_assign(&model->caches, &caching, self->caches, task->count);
    for (int32_t row = 0; row < task->count; row++) {
        const struct tt_cell_cache_member *member = &self->caches[row];
        self->assignment.items[row] = member->item;
        tt_cell_run_of(&task->items[member->item])->cache = member->row;
    }
}

/* True if the chain is known to end with this cell. */
static bool is_last(const struct tt_task_item *item) {
    const struct tt_cell_subgraph *subgraph = item->subgraph;
    return item->cell == subgraph->count - 1 && subgraph->is_chain && !subgraph->open_ended;
}

/* The item's cell may be the last one of its request, or it emits. */
static bool may_answer(const struct tt_cell_run *run, const struct tt_task_item *item) {
    const struct tt_cell_subgraph *subgraph = item->subgraph;
    int32_t spec, repeat;
    tt_cell_run_place(item, &spec, &repeat);
    return spec == run->unfolded->answer_spec &&
           (run->emits || subgraph->open_ended || repeat == run->unfolded->specs[spec].repeat - 1);
}

/* Of the task's cells in the order of their rows. */
static void mark_answers(const struct tt_task *task, const struct tt_engine_task *engine_task) {
    for (int32_t row = 0; row < task->count; row++) {
        struct tt_engine_cell *cell = &engine_task->cells[row];
        cell->is_answer = may_answer(cell->user, &task->items[cell->number]);
    }
}

/* A cell that is known to be its chain's last one writes `exit`, and is copied to another slot, so
 * that the next task may already take its row. Returns that slot; -1: slots are too scarce. */
static int32_t move_out(struct tt_cell_slots *slots, int32_t executor, int32_t exit) {
    if (!tt_cell_row_assignment_borrow(slots, 1))
        return -1;
    int32_t slot;
    tt_cell_slots_take(slots, 1, &slot);
    tt_cell_slots_orphan(slots, exit, executor);
    return slot;
}

/* The rows whose items do not stand where they read. */
static void mark_moved(const struct tt_cell_row_assignment *assignment, int32_t base,
                       struct tt_engine_cell *cells) {
    for (int32_t k = 0; k < assignment->moved_count; k++) {
        int32_t row = assignment->moved[k];
        cells[row].moves_in = true;
        cells[row].staging_slot = base + row;
    }
}

static void start_cells(struct tt_cell_tasks *self, ptrdiff_t first, struct tt_served_model *model,
                        const struct tt_task *task, struct tt_engine_task *engine_task) {
    engine_task->kind = TT_ENGINE_CELLS;
    engine_task->cells = self->cells + first;
    struct tt_cell_slots *slots = &model->cells->slots;
    const struct tt_cell_type *type = &model->cells->cells->types[task->first_step];
    int32_t base = staging_slot(self, slots, type->arity == 1 && !type->has_cache, task);
    if (type->has_cache)
        assign_caches(self, model->cells, task);
    tt_cell_slots_take(slots, task->count, self->slots);
    const int32_t *items = self->assignment.items, *exits = self->slots;
    const struct tt_task_item *members = task->items;
    struct tt_engine_cell *cell = engine_task->cells;
    struct tt_error *why = self->whys + first;
    int32_t count = task->count, arity = type->arity;
    for (int32_t row = 0; row < count; row++, cell++, why++) {
        int32_t exit = exits[row];
        const struct tt_task_item *item = &members[items[row]];
        int32_t slot = count > 1 && is_last(item) ? move_out(slots, task->executor, exit) : -1;
        bool moves_out = slot >= 0;
        struct tt_cell_run *run = tt_cell_run_of(item);
        tt_cell_run_submit(run, item, arity, moves_out ? slot : exit, moves_out ? -1 : row, cell);
        cell->number = items[row];
        cell->moves_in = false;
        cell->moves_out = moves_out;
        cell->is_read = true;
        cell->why = why;
        if (moves_out) {
            cell->exit = exit;
            cell->is_read = run->specs[cell->spec].readers > 0;
        }
    }
    mark_moved(&self->assignment, base, engine_task->cells);
    for (int32_t row = 0; type->has_cache && row < task->count; row++) {
        engine_task->cells[row].cache = self->caches[row].row;
        engine_task->cells[row].cache_from = self->caches[row].from;
    }
    if (model->engine_model->engine->ops->tells_answers)
        mark_answers(task, engine_task);
}

/* C1: cells of several models, each in the slots of its own. */
static void start_mixed(struct tt_cell_tasks *self, ptrdiff_t first, const struct tt_task *task,
                        struct tt_engine_task *engine_task) {
    engine_task->kind = TT_ENGINE_CELLS;
    engine_task->cells = self->cells + first;
    engine_task->is_mixed = true;
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        struct tt_cell_run *run = tt_cell_run_of(item);
        struct tt_served_cells *cells = run->model->cells;
        struct tt_engine_cell *cell = &engine_task->cells[i];
        int32_t type = item->subgraph->first_step, slot;
        tt_cell_slots_take(&cells->slots, 1, &slot);
        tt_cell_run_submit(run, item, cells->cells->types[type].arity, slot, -1, cell);
        cell->number = i;
        cell->moves_in = cell->moves_out = false;
        cell->is_read = true;
        cell->is_answer = may_answer(run, item);
        cell->home = run->model->engine_model;
        cell->home_type = type;
        cell->why = &self->whys[first + i];
    }
}

static struct tt_cell_run *run_of(const struct tt_request *request) {
    return ((const struct tt_inference *)request->user)->cell_run;
}

/* Sets `caches`: in the order of the task if the model has none. An aborted task goes on from the
 * rows that members have now. */
static void order_sequences(struct tt_cell_tasks *self, struct tt_cell_caches *caches,
                            const struct tt_task *task) {
    const struct tt_cell_cache_task caching = {.executor = task->executor, .areas = 1};
    for (int32_t i = 0; i < task->count; i++)
        self->caches[i] =
            (struct tt_cell_cache_member){.item = i, .from = run_of(task->items[i].request)->cache};
    if (tt_cell_caches_exist(caches))
        tt_cell_caches_assign(caches, &caching, self->caches, task->count);
}

static void start_sequences(struct tt_cell_tasks *self, ptrdiff_t first,
                            struct tt_served_model *model, const struct tt_task *task,
                            struct tt_engine_task *engine_task) {
    struct tt_cell_slots *slots = &model->cells->slots;
    engine_task->kind = TT_ENGINE_SEQUENCES;
    engine_task->sequences = self->sequences + first;
    engine_task->diverging = task->walk == TT_WALK_DIVERGING;
    order_sequences(self, &model->cells->caches, task);
    int32_t *taken[SEQUENCE_SLOTS];
    for (int32_t k = 0; k < LAST_SLOT; k++) {
        taken[k] = self->slots + (ptrdiff_t)k * task->count;
        tt_cell_slots_take(slots, task->count, taken[k]);
    }
    int32_t begin = 0; /* members without a state: the others bring the last slot */
    for (int32_t i = 0; i < task->count; i++)
        begin += run_of(task->items[i].request)->state < 0;
    taken[LAST_SLOT] = self->slots + (ptrdiff_t)LAST_SLOT * task->count;
    if (begin > 0)
        tt_cell_slots_take(slots, begin, taken[LAST_SLOT]);
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_cell_cache_member *member = &self->caches[i];
        const struct tt_request *request = task->items[member->item].request;
        struct tt_cell_run *run = run_of(request);
        run->answer.count = run->emitted; /* without what an aborted task added */
        engine_task->sequences[i] = (struct tt_engine_sequence){
            .number = member->item,
            .cache = member->row,
            .cache_from = member->from,
            .inputs = run->inputs,
            .user = run,
            .repeats = run->repeats,
            .slots = {taken[0][i], taken[1][i], run->state < 0 ? *taken[LAST_SLOT]++ : run->state},
            .answer = &run->answer,
            .round = request->round,
            .state = run->state,
            .why = &self->whys[first + i]};
    }
}

void tt_cell_tasks_start(struct tt_cell_tasks *self, int32_t index, struct tt_served_model *model,
                         const struct tt_task *task, struct tt_engine_task *engine_task) {
    ptrdiff_t first = (ptrdiff_t)index * self->max_batch;
    engine_task->member_count = task->count;
    engine_task->head.length = 0;
    if (task->is_mixed)
        start_mixed(self, first, task, engine_task);
    else if (model->cells->by_cell)
        start_cells(self, first, model, task, engine_task);
    else
        start_sequences(self, first, model, task, engine_task);
}

/* ---- back ---- */

/* It counts as computing from its first cell to its last; the parts of that time are unknown. */
void tt_cell_tasks_note_times(struct tt_inference *inference, int64_t started_at,
                              int64_t computed_at) {
    inference->started_at = started_at;
    inference->computed_at = computed_at;
    inference->input_ns = 0;
    inference->infer_ns = computed_at - started_at;
}

static void note_failure(struct tt_inference *inference, const struct tt_engine_cell *cell) {
    if (inference && !inference->err)
        inference->err = cell->err ? tt_fail(cell->err, &inference->why, "%s", cell->why->text)
                                   : tt_fail(TT_ERR_NO_MEMORY, &inference->why, "out of memory");
}

/* The copies of caches that moved are made. */
static void end_moves(struct tt_cell_caches *caches, const struct tt_engine_task *engine_task) {
    const struct tt_engine_cell *cell = engine_task->cells;
    for (int32_t i = 0; i < engine_task->member_count; i++, cell++)
        if (cell->cache_from >= 0 && cell->cache_from != cell->cache)
            tt_cell_caches_left(caches, cell->cache_from);
}

/* Inlined in both callers: it runs for each cell. */
static inline __attribute__((always_inline)) void
finish_cell(struct tt_cell_slots *slots, struct tt_task *task,
            const struct tt_engine_task *engine_task, const struct tt_engine_cell *cell) {
    struct tt_cell_run *run = cell->user;
    struct tt_task_item *item = &task->items[cell->number];
    if (cell->moves_in) {
        tt_cell_slots_give(slots, cell->staging_slot);
        tt_cell_slots_unreserve(slots, 1);
    }
    if (cell->moves_out)
        tt_cell_slots_end_orphan(slots, cell->exit);
    item->fate = tt_cell_run_done(run, slots, item, cell, engine_task->head.ended_at);
    if (run->started_at == 0)
        run->started_at = engine_task->head.started_at;
    run->computed_at = engine_task->head.ended_at;
    if (item->fate == TT_FATE_FAILS)
        note_failure(run->inference, cell);
}

/* The sequence has ended its last chain, or failed. */
static void answer_sequence(struct tt_served_model *model, struct tt_task_item *item,
                            const struct tt_engine_sequence *sequence) {
    struct tt_cell_run *run = sequence->user;
    struct tt_inference *inference = run->inference;
    tt_cell_tasks_note_times(inference, run->started_at, run->computed_at);
    inference->err = sequence->err;
    int32_t emitted = run->answer.count;
    if (sequence->err)
        tt_fail(sequence->err, &inference->why, "%s", sequence->why->text);
    else if (model->engine_model->engine->ops->cell_finish(&run->answer, model->engine_model,
                                                           sequence->state, &inference->result))
        inference->err = tt_fail(TT_ERR_NO_MEMORY, &inference->why, "out of memory");
    if (inference->err) {
        item->fate = TT_FATE_FAILS;
        return;
    }
    tt_counter_add(&model->stats->rows, 1);
    tt_length_histogram_add(&model->stats->outputs, emitted, run->unfolded->output_length);
}

/* In the row that the cache had, an aborted task has changed nothing but what the graph must bear
 * (engine/cell_set.h). */
static void settle_cache(struct tt_cell_caches *caches, struct tt_cell_run *run,
                         const struct tt_engine_sequence *sequence, bool is_kept) {
    int32_t row = sequence->cache, from = sequence->cache_from;
    run->cache = is_kept ? row : from;
    if (from < 0 && !is_kept)
        tt_cell_caches_return(caches, row);
    if (from < 0 || from == row)
        return;
    tt_cell_caches_leave(caches, is_kept ? from : row);
    tt_cell_caches_left(caches, is_kept ? from : row);
}

/* Of its slots it keeps that of its state, until its answer is made. */
static void finish_sequence(struct tt_served_model *model, struct tt_task_item *item,
                            const struct tt_engine_task *engine_task,
                            const struct tt_engine_sequence *sequence) {
    struct tt_cell_run *run = sequence->user;
    int32_t step = engine_task->head.last_step_done;
    bool is_kept = engine_task->head.outcome != TT_OUTCOME_ABORTED;
    if (tt_cell_caches_exist(&model->cells->caches))
        settle_cache(&model->cells->caches, run, sequence, is_kept);
    if (is_kept) {
        if (run->started_at == 0)
            run->started_at = engine_task->head.started_at;
        run->computed_at = engine_task->head.ended_at;
        int32_t before = run->emitted;
        run->emitted = run->answer.count;
        run->state = sequence->state;
        item->round = sequence->round;
        if (tt_cell_run_deliver(run, before, engine_task->head.ended_at)) {
            item->fate = TT_FATE_FAILS;
            item->round = run->emitted;
        } else if (sequence->err || sequence->next_step == model->step_model.step_count) {
            item->round = run->emitted; /* its final length, for recordings */
            answer_sequence(model, item, sequence);
            run->state = -1;
        } else if (sequence->next_step != step + 1) { /* another round (core/walk.h) */
            item->fate = TT_FATE_JUMPS;
            item->jump = sequence->next_step;
        }
    }
    for (int32_t k = 0; k < SEQUENCE_SLOTS; k++)
        if (sequence->slots[k] != run->state)
            tt_cell_slots_give(&model->cells->slots, sequence->slots[k]);
}

/* Each task is a batch of its members; cells are counted by type. */
static void count(struct tt_model_stats *stats, const struct tt_task *task,
                  const struct tt_engine_task *engine_task) {
    tt_model_stats_count_batch(stats, task->rows, engine_task);
    if (task->first_step >= TT_STATS_MAX_CELLS)
        return; /* no served model has so many types */
    struct tt_cell_stats *cells = &stats->cells[task->first_step];
    tt_counter_add(&cells->tasks, 1);
    tt_counter_add(&cells->runs, engine_task->run_count ? engine_task->run_count : 1);
    tt_counter_add(&cells->cells, engine_task->cell_count);
    tt_counter_add(&cells->gathered_bytes, engine_task->gathered_bytes);
    tt_counter_add(&cells->spared_bytes, engine_task->spared_bytes);
    tt_counter_add(&cells->batch_buckets[tt_batch_bucket(task->rows)], 1);
}

enum { FETCH_AHEAD = 8 };

/* Fetches lines that are needed until the next task of these cells has started. The run has evicted
 * them from the nearer caches; the misses are to overlap. */
static void fetch(const struct tt_task *task, const struct tt_engine_cell *cell) {
    const struct tt_task_item *item = &task->items[cell->number];
    tt_line_fetch(&((const struct tt_cell_run *)cell->user)->inference);
    tt_line_fetch(&item->request->handle);
    tt_line_fetch(item->subgraph);
}

static void finish_mixed(struct tt_task *task, const struct tt_engine_task *engine_task) {
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_cell_run *run = engine_task->cells[i].user;
        finish_cell(&run->model->cells->slots, task, engine_task, &engine_task->cells[i]);
    }
}

static void finish_cells(struct tt_cell_slots *slots, struct tt_task *task,
                         const struct tt_engine_task *engine_task) {
    const struct tt_engine_cell *cells = engine_task->cells;
    int32_t count = task->count, fetched = count < FETCH_AHEAD ? count : FETCH_AHEAD;
    tt_line_fetch_all(task->items, (size_t)count * sizeof(*task->items));
    for (int32_t i = 0; i < fetched; i++)
        fetch(task, &cells[i]);
    for (int32_t i = 0; i < count; i++) {
        if (i + FETCH_AHEAD < count)
            fetch(task, &cells[i + FETCH_AHEAD]);
        finish_cell(slots, task, engine_task, &cells[i]);
    }
}

void tt_cell_tasks_finished(struct tt_served_model *model, struct tt_task *task,
                            struct tt_engine_task *engine_task) {
    if (engine_task->head.outcome != TT_OUTCOME_ABORTED)
        count(model->stats, task, engine_task);
    if (task->is_mixed)
        finish_mixed(task, engine_task);
    else if (engine_task->kind == TT_ENGINE_CELLS)
        finish_cells(&model->cells->slots, task, engine_task);
    if (engine_task->kind == TT_ENGINE_CELLS && !task->is_mixed &&
        model->cells->cells->types[task->first_step].has_cache)
        end_moves(&model->cells->caches, engine_task);
    for (int32_t i = 0; engine_task->kind == TT_ENGINE_SEQUENCES && i < task->count; i++) {
        const struct tt_engine_sequence *sequence = &engine_task->sequences[i];
        finish_sequence(model, &task->items[sequence->number], engine_task, sequence);
    }
}
