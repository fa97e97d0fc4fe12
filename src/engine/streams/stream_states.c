#include "engine/streams/stream_states.h"

#include "engine/streams/stream_inputs.h"

static bool is_input_here(const struct tt_stream_place *place,
                          const struct tt_dataflow_tensor *tensor) {
    return tensor->producer < 0 && place->async.head.first_step == 0;
}

static bool is_output_here(const struct tt_stream_place *place, int32_t tensor) {
    return place->model->layout.output_of[tensor] >= 0 && tt_stream_place_ends_model(place);
}

/* The steps find it in the slots themselves. */
static bool is_in_slots(const struct tt_stream_place *place, int32_t tensor) {
    return place->is_adjacent && !is_output_here(place, tensor) &&
           !is_input_here(place, &place->model->layout.flow->tensors[tensor]);
}

uint64_t tt_stream_states_tensor(const struct tt_stream_place *place, int32_t tensor) {
    const struct tt_stream_model *model = place->model;
    const struct tt_stream_layout *layout = &model->layout;
    if (is_input_here(place, &layout->flow->tensors[tensor]))
        return place->is_in_place
                   ? tt_stream_inputs_address(model->inputs, tensor, place->ring_slots[0])
                   : place->arena.device + layout->input_at[tensor];
    if (is_output_here(place, tensor))
        return place->arena.device + layout->output_at[layout->output_of[tensor]];
    int32_t store = layout->store_of[tensor];
    tt_assert(store >= 0);
    return place->is_adjacent ? tt_stream_model_slot(model, store, place->slots[0])
                              : place->arena.device + layout->stores[store].arena_at;
}

/* How many of the rows from `row` on have adjacent slots. */
static int32_t run_at(const struct tt_stream_place *place, int32_t row, int32_t rows) {
    int32_t end = row + 1;
    while (end < rows && place->slots[end] == place->slots[end - 1] + 1)
        end++;
    return end - row;
}

static enum tt_err move_tensor(const struct tt_stream_place *place, int32_t tensor, bool gathers,
                               tt_stream_move_fn *move, void *context, struct tt_error *why) {
    int32_t store = place->model->layout.store_of[tensor], rows = place->valid.rows;
    size_t row_bytes = place->model->layout.stores[store].row_bytes;
    uint64_t at = tt_stream_states_tensor(place, tensor);
    enum tt_err err = TT_OK;
    for (int32_t row = 0; !err && row < rows;) {
        int32_t run = run_at(place, row, rows);
        uint64_t slot = tt_stream_model_slot(place->model, store, place->slots[row]);
        uint64_t here = at + (uint64_t)row * row_bytes;
        err = move(context, gathers ? here : slot, gathers ? slot : here, (size_t)run * row_bytes,
                   why);
        row += run;
    }
    place->task->gathered_bytes += (int64_t)row_bytes * rows;
    return err;
}

static bool is_read(const struct tt_dataflow *flow, int32_t tensor, int32_t first, int32_t last) {
    for (int32_t s = first; s <= last; s++)
        for (int32_t i = 0; i < flow->steps[s].input_count; i++)
            if (flow->steps[s].inputs[i] == tensor)
                return true;
    return tt_dataflow_exit_reads(flow, last, tensor);
}

/* The exit that the member took at the end of its last task, to where this one begins; NULL: it
 * took none. */
static const struct tt_dataflow_exit *skip_of(const struct tt_stream_place *place, int32_t member) {
    const struct tt_engine_state *state = place->valid.members[member]->state;
    int32_t taken = state ? state->exit : -1;
    const struct tt_dataflow_exit *exit =
        taken >= 0 ? &place->model->layout.flow->exits[taken] : NULL;
    return exit && exit->to == place->async.head.first_step ? exit : NULL;
}

/* D8: what a row gets in place of what the steps that it skipped would have made. */
static enum tt_err give_row(const struct tt_stream_place *place,
                            const struct tt_dataflow_exit *exit, int32_t slot,
                            tt_stream_move_fn *move, void *context, struct tt_error *why) {
    const struct tt_stream_model *model = place->model;
    enum tt_err err = TT_OK;
    for (int32_t g = 0; !err && g < exit->give_count; g++) {
        int32_t to = model->layout.store_of[exit->gives[g].tensor];
        int32_t from = model->layout.store_of[exit->gives[g].from];
        tt_assert(to >= 0 && from >= 0 && to != from);
        tt_assert(model->layout.stores[to].row_bytes == model->layout.stores[from].row_bytes);
        err =
            move(context, tt_stream_model_slot(model, to, slot),
                 tt_stream_model_slot(model, from, slot), model->layout.stores[to].row_bytes, why);
    }
    return err;
}

static enum tt_err give_skipped(const struct tt_stream_place *place, tt_stream_move_fn *move,
                                void *context, struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0, row = 0; i < place->valid.count; i++) {
        const struct tt_dataflow_exit *exit = skip_of(place, i);
        int32_t end = row + place->valid.members[i]->rows;
        for (; row < end; row++)
            if (!err && exit)
                err = give_row(place, exit, place->slots[row], move, context, why);
    }
    return err;
}

enum tt_err tt_stream_states_gather(const struct tt_stream_place *place, tt_stream_move_fn *move,
                                    void *context, struct tt_error *why) {
    const struct tt_dataflow *flow = place->model->layout.flow;
    const struct tt_device_task *head = &place->async.head;
    enum tt_err err = head->first_step > 0 ? give_skipped(place, move, context, why) : TT_OK;
    for (int32_t t = 0; !err && head->first_step > 0 && t < flow->tensor_count; t++)
        if (tt_stream_layout_is_live(&place->model->layout, t, head->first_step) &&
            !is_in_slots(place, t) &&
            (is_output_here(place, t) || is_read(flow, t, head->first_step, head->last_step)))
            err = move_tensor(place, t, true, move, context, why);
    return err;
}

enum tt_err tt_stream_states_scatter(const struct tt_stream_place *place, int32_t last_done,
                                     tt_stream_move_fn *move, void *context, struct tt_error *why) {
    const struct tt_dataflow *flow = place->model->layout.flow;
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < flow->tensor_count; t++) {
        const struct tt_dataflow_tensor *tensor = &flow->tensors[t];
        bool is_made_here =
            tensor->producer >= place->async.head.first_step || is_input_here(place, tensor);
        if (is_made_here && tt_stream_layout_is_live(&place->model->layout, t, last_done + 1) &&
            !is_in_slots(place, t))
            err = move_tensor(place, t, false, move, context, why);
    }
    return err;
}

int32_t tt_stream_states_list(struct tt_stream_place *place) {
    int32_t row = 0;
    for (int32_t i = 0; i < place->valid.count; i++) {
        const struct tt_engine_state *state = place->valid.members[i]->state;
        int32_t slot = state ? state->first_slot : -1;
        for (; slot >= 0; slot = place->model->next_slot[slot])
            place->slots[row++] = slot;
    }
    tt_assert(row == 0 || row == place->valid.rows);
    return row;
}

int32_t tt_stream_states_ranges(const struct tt_stream_place *place, int32_t rows,
                                struct tt_async_range *ranges) {
    const struct tt_stream_layout *layout = &place->model->layout;
    int32_t count = 0;
    bool writes =
        place->is_adjacent || !tt_stream_place_ends_model(place) || layout->flow->exit_count > 0;
    for (int32_t row = 0; row < rows;) {
        int32_t run = run_at(place, row, rows);
        for (int32_t store = 0; store < layout->store_count; store++)
            ranges[count++] = (struct tt_async_range){
                tt_stream_model_slot(place->model, store, place->slots[row]),
                (size_t)run * layout->stores[store].row_bytes, writes};
        row += run;
    }
    return count;
}
