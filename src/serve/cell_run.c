#include "serve/cell_run.h"

#include "record/trace.h"
#include "serve/emissions.h"
#include "serve/inference_state.h"
#include "serve/mailbox.h"
#include "serve/served_model.h"

#include <stdlib.h>
#include <string.h>

static size_t round_up(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* The inputs' bytes in succession, each aligned for any element type. */
static size_t bytes_of(const struct tt_tensor_view *inputs, int32_t count) {
    size_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += round_up(inputs[i].size_bytes);
    return bytes;
}

static enum tt_err unfold(const struct tt_cells *cells, const struct tt_tensor_view *inputs,
                          struct tt_unfolded **out_unfolded, struct tt_error *why) {
    struct tt_unfold_tensor tensors[TT_MAX_TENSORS];
    for (int32_t i = 0; i < cells->signature.input_count; i++)
        tensors[i] = (struct tt_unfold_tensor){.bytes = inputs[i].bytes, .shape = inputs[i].shape};
    return tt_unfold_new(cells, tensors, out_unfolded, why);
}

static void fill(struct tt_cell_run *self, const struct tt_tensor_view *inputs, char *bytes) {
    const struct tt_unfolded *unfolded = self->unfolded;
    int32_t count = self->model->cells->cells->signature.input_count;
    for (int32_t i = 0; i < count; i++) {
        self->inputs[i] = (struct tt_engine_elements){bytes, inputs[i].size_bytes};
        memcpy(bytes, inputs[i].bytes, inputs[i].size_bytes);
        bytes += round_up(inputs[i].size_bytes);
    }
    for (int32_t s = 0; s < unfolded->spec_count; s++)
        self->specs[s] =
            (struct tt_cell_run_spec){.slot = -1, .end = -1, .elements = unfolded->elements[s]};
    for (int32_t s = 0; s < unfolded->spec_count; s++) {
        const struct tt_cell_spec *spec = &unfolded->specs[s];
        for (int32_t step = spec->first_step; step <= spec->last_step; step++)
            self->repeats[step] = spec->repeat;
        self->reads |= spec->source_count > 0;
        self->is_plain &= !spec->open_ended;
        for (int32_t q = 0; q < spec->source_count; q++)
            self->specs[spec->sources[q]].readers++;
    }
}

enum tt_err tt_cell_run_new(struct tt_served_model *model, const struct tt_tensor_view *inputs,
                            struct tt_cell_run **out_run, struct tt_error *why) {
    const struct tt_cells *cells = model->cells->cells;
    struct tt_unfolded *unfolded;
    enum tt_err err = unfold(cells, inputs, &unfolded, why);
    if (err)
        return err;
    int32_t input_count = cells->signature.input_count;
    size_t elements = round_up(offsetof(struct tt_cell_run, specs) +
                               (size_t)unfolded->spec_count * sizeof(struct tt_cell_run_spec));
    size_t bytes = round_up(elements + (size_t)input_count * sizeof(struct tt_engine_elements));
    size_t repeats = bytes + bytes_of(inputs, input_count);
    char *memory = tt_line_alloc(repeats + (size_t)cells->type_count * sizeof(int32_t));
    if (!memory) {
        tt_unfold_free(unfolded);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request's cells");
    }
    struct tt_cell_run *self = (struct tt_cell_run *)memory;
    *self = (struct tt_cell_run){.model = tt_served_model_ref(model),
                                 .unfolded = unfolded,
                                 .emits = unfolded->output_length > 0,
                                 .is_plain = unfolded->output_length == 0,
                                 .inputs = (struct tt_engine_elements *)(memory + elements),
                                 .repeats = (int32_t *)(memory + repeats),
                                 .cache = -1,
                                 .state = -1};
    fill(self, inputs, memory + bytes);
    if (model->cells->by_cell)
        err = tt_cell_graph_new(unfolded->specs, unfolded->spec_count, cells->type_count,
                                &self->graph, why);
    if (err) {
        tt_cell_run_free(self);
        return err;
    }
    if (self->graph)
        self->graph->user = self;
    *out_run = self;
    return TT_OK;
}

/* Changes how many slots are reserved for the request; false: there are too few. */
static bool promise(struct tt_cell_run *self, int32_t more) {
    struct tt_cell_slots *slots = &self->model->cells->slots;
    if (more < 0)
        tt_cell_slots_unreserve(slots, -more);
    else if (!tt_cell_slots_reserve(slots, more))
        return false;
    self->reserved += more;
    tt_assert(self->reserved >= 0);
    tt_counter_add(&self->model->stats->cell_slots_promised, more);
    return true;
}

/* Of a model with caches. */
static void free_cache(struct tt_cell_run *self) {
    struct tt_cell_caches *caches = &self->model->cells->caches;
    tt_counter_add(&self->model->stats->cell_caches_promised, -1);
    if (self->cache < 0) {
        tt_cell_slots_unreserve(&caches->rows, 1);
        return;
    }
    if (!self->left_cache)
        tt_cell_caches_leave(caches, self->cache);
    tt_cell_caches_left(caches, self->cache);
}

void tt_cell_run_free(struct tt_cell_run *take_run) {
    if (!take_run || take_run->is_lost)
        return;
    struct tt_cell_slots *slots = &take_run->model->cells->slots;
    tt_assert(take_run->unfolded != NULL);
    for (int32_t s = 0; s < take_run->unfolded->spec_count; s++)
        if (take_run->specs[s].slot >= 0)
            tt_cell_slots_give(slots, take_run->specs[s].slot);
    if (take_run->state >= 0)
        tt_cell_slots_give(slots, take_run->state);
    if (take_run->reserved && tt_cell_caches_exist(&take_run->model->cells->caches))
        free_cache(take_run);
    if (take_run->reserved)
        promise(take_run, -take_run->reserved);
    tt_cell_graph_free(take_run->graph);
    tt_unfold_free(take_run->unfolded);
    tt_cell_answer_fini(&take_run->answer);
    struct tt_served_model *model = take_run->model;
    free(take_run);
    tt_served_model_unref(model);
}

/* Each task in flight of a chain writes one slot, and the first of them reads one. */
static int32_t max_slots(int32_t repeat, int32_t max_tasks) {
    return repeat > 1 ? (repeat < max_tasks ? repeat : max_tasks) + 1 : 1;
}

bool tt_cell_run_reserve(struct tt_cell_run *self, int32_t max_tasks) {
    int32_t count = 0, longest = 0, specs = self->unfolded->spec_count;
    for (int32_t s = 0; s < specs; s++) {
        int32_t repeat = self->unfolded->specs[s].repeat;
        count += max_slots(repeat, max_tasks);
        longest = repeat > longest ? repeat : longest;
    }
    /* Chains in succession: one begins when the previous one has nothing in flight, and reads where
     * that ended. */
    enum tt_unfold_kind kind = self->model->cells->cells->kind;
    if ((kind == TT_UNFOLD_SEQ2SEQ || kind == TT_UNFOLD_STEPS) && specs > 1)
        count = (longest < max_tasks ? longest : max_tasks) + 1;
    if (!self->graph)
        count = (int32_t)TT_COUNT(((struct tt_engine_sequence *)NULL)->slots);
    struct tt_cell_caches *caches = &self->model->cells->caches;
    bool has_cache = tt_cell_caches_exist(caches);
    if (has_cache && !tt_cell_slots_reserve(&caches->rows, 1))
        return false;
    bool has_room = promise(self, count);
    if (has_cache && has_room)
        tt_counter_add(&self->model->stats->cell_caches_promised, 1);
    else if (has_cache)
        tt_cell_slots_unreserve(&caches->rows, 1);
    return has_room;
}

/* ---- by cells ---- */

static const struct tt_engine_ops *ops_of(const struct tt_cell_run *self) {
    return self->model->engine_model->engine->ops;
}

void tt_cell_run_release_sources(struct tt_cell_run *self, int32_t spec) {
    const struct tt_cell_spec *from = &self->unfolded->specs[spec];
    for (int32_t q = 0; q < from->source_count; q++) {
        struct tt_cell_run_spec *source = &self->specs[from->sources[q]];
        if (--source->readers > 0 || from->sources[q] == self->unfolded->answer_spec)
            continue;
        tt_cell_slots_give(&self->model->cells->slots, source->slot);
        source->slot = -1;
    }
}

enum tt_err tt_cell_run_deliver(struct tt_cell_run *self, int32_t first, int64_t emitted_at) {
    struct tt_inference *inference = self->inference;
    const struct tt_cell_answer *answer = &self->answer;
    struct tt_model_stats *stats = self->model->stats;
    struct tt_emissions *stream = inference->emissions;
    tt_assert(first <= answer->count);
    tt_counter_add(&stats->words, answer->count - first);
    for (int32_t i = first; i < answer->count; i++)
        tt_token_times_add(&inference->words, emitted_at);
    if (first == 0 && answer->count > 0) {
        tt_duration_histogram_add(&stats->first_word, emitted_at - inference->submitted_at);
        if (stream && self->model->cells->tap)
            tt_trace_emitted(self->model->cells->tap, inference->request, emitted_at);
    }
    for (int32_t i = first; stream && i < answer->count; i++) {
        bool announces;
        if (!tt_emissions_put(stream, answer->emitted + (size_t)i * stream->row_bytes, &announces))
            return inference->err =
                       tt_fail(TT_ERR_CANCELLED, &inference->why,
                               "request cancelled: its client reads the stream too slowly; %lld "
                               "words wait for it, the limit (--max-stream-words)",
                               (long long)tt_emissions_capacity(stream));
        if (announces)
            tt_mailbox_announce(inference->mailbox, inference);
    }
    return TT_OK;
}

enum tt_fate tt_cell_run_settle(struct tt_cell_run *self, const struct tt_task_item *item,
                                const struct tt_engine_cell *cell, int64_t ended_at) {
    int32_t spec, repeat;
    tt_cell_run_place(item, &spec, &repeat);
    struct tt_cell_run_spec *state = &self->specs[spec];
    if (state->end >= 0) { /* beyond the end: only cells that are also beyond it read this */
        if (repeat == state->submitted - 1)
            tt_cell_slots_give(&self->model->cells->slots, cell->slot);
        return TT_FATE_GOES_ON;
    }
    if (cell->err)
        return TT_FATE_FAILS;
    int32_t before = self->answer.count;
    if (self->emits && spec == self->unfolded->answer_spec && self->inference &&
        (ops_of(self)->cell_emit(&self->answer, self->model->engine_model, cell->slot,
                                 self->unfolded->output_length) ||
         tt_cell_run_deliver(self, before, ended_at)))
        return TT_FATE_FAILS;
    bool ends =
        item->subgraph->open_ended && tt_cells_is_end(self->model->cells->cells, cell->emitted);
    if (!ends)
        return TT_FATE_GOES_ON;
    state->end = repeat;
    state->slot = cell->slot;
    if (self->cache >= 0) { /* what is still in flight runs in vain */
        tt_cell_caches_leave(&self->model->cells->caches, self->cache);
        self->left_cache = true;
    }
    return TT_FATE_LEAVES;
}

enum tt_err tt_cell_run_answer(struct tt_cell_run *self, struct tt_engine_result **out_result) {
    return ops_of(self)->cell_finish(&self->answer, self->model->engine_model,
                                     self->specs[self->unfolded->answer_spec].slot, out_result);
}
