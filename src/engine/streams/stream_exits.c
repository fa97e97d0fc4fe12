#include "engine/streams/stream_exits.h"

#include "engine/exit_condition.h"
#include "engine/streams/stream_states.h"

static const struct tt_dataflow *flow_of(const struct tt_stream_place *place) {
    return place->model->layout.flow;
}

bool tt_stream_exits_any(const struct tt_stream_place *place) {
    return !place->task->together && place->valid.rows > 0 &&
           tt_dataflow_has_exit(flow_of(place), place->async.head.last_step);
}

bool tt_stream_exits_within(const struct tt_stream_place *place) {
    const struct tt_device_task *head = &place->task->head;
    bool has = false;
    for (int32_t step = head->first_step; step < head->last_step; step++)
        has |= tt_dataflow_has_exit(flow_of(place), step);
    return has && !place->task->together;
}

enum tt_err tt_stream_exits_read_back(const struct tt_stream_place *place,
                                      struct tt_async_stream *stream, struct tt_error *why) {
    const struct tt_stream_layout *layout = &place->model->layout;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < layout->read_back_count; i++) {
        const struct tt_stream_read_back *back = &layout->read_backs[i];
        if (back->step == place->async.head.last_step)
            err = tt_async_copy_out(
                stream, place->arena.pinned + back->at,
                tt_stream_states_tensor(place, back->tensor),
                layout->flow->tensors[back->tensor].row_bytes * (size_t)place->valid.rows, why);
    }
    return err;
}

/* ---- deciding ---- */

static size_t offset_of(const struct tt_stream_place *place, int32_t tensor) {
    return tt_stream_layout_read_back(&place->model->layout, place->async.head.last_step, tensor);
}

static bool row_goes(const struct tt_stream_place *place, const struct tt_dataflow_exit *exit,
                     int32_t row) {
    const struct tt_dataflow_tensor *tensors = flow_of(place)->tensors;
    const char *pinned = place->arena.pinned;
    if (exit->condition >= 0)
        return tt_exit_condition_is_met(pinned + offset_of(place, exit->condition),
                                        tensors[exit->condition].dtype, row);
    size_t row_bytes = tensors[exit->moved].row_bytes, at = row_bytes * (size_t)row;
    const void *now = pinned + offset_of(place, exit->moved) + at;
    const void *then = pinned + offset_of(place, exit->since) + at;
    return tt_exit_condition_moved_less(now, then, (int64_t)(row_bytes / sizeof(float)),
                                        exit->less_than);
}

/* A request of several rows goes if all do. */
static bool member_goes(const struct tt_stream_place *place, const struct tt_dataflow_exit *exit,
                        int32_t first_row, int32_t rows) {
    bool goes = true;
    for (int32_t row = first_row; goes && row < first_row + rows; row++)
        goes = row_goes(place, exit, row);
    return goes;
}

/* ---- going ---- */

static int32_t source_of(const struct tt_dataflow_exit *exit, int32_t tensor) {
    int32_t g = 0;
    while (g < exit->give_count && exit->gives[g].tensor != tensor)
        g++;
    tt_assert(g < exit->give_count);
    return exit->gives[g].from;
}

static void leave(const struct tt_stream_place *place, const struct tt_dataflow_exit *exit,
                  struct tt_engine_member *member, int32_t first_row) {
    size_t at[TT_MAX_TENSORS];
    for (int32_t o = 0; o < place->model->signature.output_count; o++)
        at[o] = offset_of(place, source_of(exit, flow_of(place)->outputs[o]));
    member->result = tt_stream_place_result(place, 1, at, first_row, member->rows);
    member->first_row = 0;
    if (!member->result) {
        member->err = tt_fail(TT_ERR_NO_MEMORY, member->why,
                              "out of memory for the outputs of %d rows", member->rows);
        return;
    }
    member->next_step = exit->to;
    tt_stream_model_give(member->state);
    member->state = NULL;
}

static void skip(struct tt_engine_member *member, int32_t to, int32_t exit) {
    member->next_step = to;
    member->skips++;
    member->state->exit = exit;
}

static void take_one(const struct tt_stream_place *place, struct tt_engine_member *member,
                     int32_t first_row) {
    const struct tt_dataflow *flow = flow_of(place);
    for (int32_t e = 0; e < flow->exit_count; e++) {
        const struct tt_dataflow_exit *exit = &flow->exits[e];
        if (exit->step != place->async.head.last_step ||
            !member_goes(place, exit, first_row, member->rows))
            continue;
        if (exit->to == flow->step_count)
            leave(place, exit, member, first_row);
        else
            skip(member, exit->to, e);
        return;
    }
}

void tt_stream_exits_take(const struct tt_stream_place *place) {
    for (int32_t i = 0, row = 0; i < place->valid.count; i++) {
        struct tt_engine_member *member = place->valid.members[i];
        if (!member->err)
            take_one(place, member, row);
        row += member->rows;
    }
}
