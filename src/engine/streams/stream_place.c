#include "engine/streams/stream_place.h"

#include "engine/engine_result.h"
#include "engine/streams/stream_exits.h"
#include "engine/streams/stream_inputs.h"
#include "engine/streams/stream_states.h"

#include <stdlib.h>
#include <string.h>

/* A task takes up its members, unless it has stopped between two steps. */
static bool follow(struct tt_stream_place *before) {
    tt_lock_take(&before->lock);
    before->is_followed = before->last_done < 0;
    bool is_followed = before->is_followed;
    tt_lock_give(&before->lock);
    return is_followed;
}

void tt_stream_place_begin(struct tt_stream_place *place, struct tt_engine_task *task,
                           struct tt_stream_place *before) {
    tt_assert(!place->task || tt_flag_is_raised(&place->is_over));
    tt_assert(task->kind != TT_ENGINE_SEQUENCES && place != before);
    tt_lock_take(&place->lock);
    place->task = task;
    place->was_cut = place->is_proven = place->is_asked = place->is_followed = false;
    place->last_done = -1;
    place->turn++;
    place->before = before;
    place->before_turn = before ? before->turn : 0;
    tt_lock_give(&place->lock);
    place->async.head.first_step = task->head.first_step;
    place->async.head.last_step = task->head.last_step;
    place->brought = TT_OK;
    place->computed_at = 0;
    place->is_refused = before && (before->async.refused || !follow(before));
    place->has_ended = place->is_over = (struct tt_flag){0};
    place->gives_answers = false;
    place->is_known = false;
}

/* ---- where inputs are ---- */

static size_t member_bytes(const struct tt_stream_model *model,
                           const struct tt_engine_member *member) {
    size_t bytes = 0;
    for (int32_t t = 0; t < model->signature.input_count; t++)
        bytes += model->layout.input_row_bytes[t] * (size_t)member->rows;
    return bytes;
}

void tt_stream_place_find_inputs(struct tt_stream_place *self) {
    struct tt_stream_inputs *ring = self->model->inputs;
    uint64_t newest = 0;
    int32_t expected = -1;
    self->newest = -1;
    self->staged = 0;
    self->is_in_place = ring != NULL;
    for (int32_t i = 0; i < self->valid.count; i++) {
        const struct tt_engine_member *member = self->valid.members[i];
        uint64_t number = 0;
        int32_t slot = ring ? tt_stream_inputs_find(ring, member, &number) : -1;
        self->ring_slots[i] = slot;
        self->staged += slot < 0;
        self->is_in_place &= slot >= 0 && (expected < 0 || slot == expected);
        expected = slot + member->rows;
        if (number > newest) {
            newest = number;
            self->newest = slot;
        }
    }
    for (int32_t i = 0; !self->is_in_place && i < self->valid.count; i++)
        self->task->gathered_bytes += (int64_t)member_bytes(self->model, self->valid.members[i]);
}

/* Kernels of a GPU want their tensors aligned. */
static bool are_adjacent(const struct tt_stream_place *place, int32_t rows) {
    bool are = rows > 0;
    for (int32_t row = 1; are && row < rows; row++)
        are = place->slots[row] == place->slots[row - 1] + 1;
    return are && (tt_async_device_runs_kernels(place->model->device) ||
                   place->slots[0] % place->model->layout.alignment == 0);
}

static void list_ranges(struct tt_stream_place *place, int32_t rows) {
    const struct tt_stream_model *model = place->model;
    struct tt_async_range *ranges = place->arena.ranges;
    int32_t count = 0;
    ranges[count++] = (struct tt_async_range){place->arena.device, model->layout.arena_bytes, true};
    bool reads_ring = place->async.head.first_step == 0 && place->is_in_place;
    for (int32_t t = 0; reads_ring && t < model->signature.input_count; t++)
        ranges[count++] = (struct tt_async_range){
            tt_stream_inputs_address(model->inputs, t, place->ring_slots[0]),
            model->layout.input_row_bytes[t] * (size_t)place->valid.rows, false};
    count += tt_stream_states_ranges(place, rows, &ranges[count]);
    place->async.kernel.ranges = ranges;
    place->async.kernel.range_count = count;
}

void tt_stream_place_list_memory(struct tt_stream_place *place) {
    int32_t rows = tt_stream_states_list(place);
    place->is_adjacent = are_adjacent(place, rows);
    if (place->arena.ranges && place->valid.rows > 0)
        list_ranges(place, rows);
}

void tt_stream_place_proves(struct tt_stream_place *place) {
    struct tt_stream_place *before = place->before;
    uint64_t turn = place->before_turn;
    while (before) {
        tt_lock_take(&before->lock);
        bool is_same = before->turn == turn && !tt_flag_is_raised(&before->is_over);
        before->is_proven |= is_same;
        struct tt_stream_place *next = is_same ? before->before : NULL;
        turn = is_same ? before->before_turn : 0;
        tt_lock_give(&before->lock);
        before = next;
    }
}

bool tt_stream_place_shut(struct tt_stream_place *place) {
    tt_lock_take(&place->lock);
    bool may_close = !place->is_computing || place->is_lost;
    place->is_closed |= may_close;
    tt_lock_give(&place->lock);
    return may_close;
}

/* ---- copies ---- */

static int64_t now_of(const struct tt_stream_place *place) {
    return tt_async_device_now(place->model->device);
}

/* On a stream: the inputs that come with the batch to pinned memory, at their rows. */
static void stage_inputs(void *context) {
    const struct tt_stream_place *place = context;
    const struct tt_stream_model *model = place->model;
    place->task->copies_in.begin_at = now_of(place);
    for (int32_t t = 0; t < model->signature.input_count; t++) {
        char *to = place->arena.pinned + model->layout.input_at[t];
        for (int32_t i = 0; i < place->valid.count; i++) {
            const struct tt_engine_member *member = place->valid.members[i];
            size_t bytes = model->layout.input_row_bytes[t] * (size_t)member->rows;
            if (place->ring_slots[i] < 0)
                memcpy(to, member->inputs[t].bytes, bytes);
            to += bytes;
        }
    }
}

/* On a stream, behind the copies. */
static void note_inputs(void *context) {
    const struct tt_stream_place *place = context;
    place->task->copies_in.end_at = now_of(place);
}

/* On a stream, before the copies. */
static void note_outputs(void *context) {
    const struct tt_stream_place *place = context;
    place->task->copies_out.begin_at = now_of(place);
}

/* A member's rows of one tensor, or those of all members, to or from the device. */
static enum tt_err move(struct tt_async_stream *stream, const struct tt_stream_place *place,
                        size_t at, size_t bytes, bool is_in, struct tt_error *why) {
    uint64_t on_device = place->arena.device + at;
    if (is_in)
        return tt_async_copy_in(stream, on_device, place->arena.pinned + at, bytes, why);
    return tt_async_copy_out(stream, place->arena.pinned + at, on_device, bytes, why);
}

static enum tt_err move_all(struct tt_async_stream *stream, const struct tt_stream_place *place,
                            bool is_in, struct tt_error *why) {
    const struct tt_stream_model *model = place->model;
    size_t at = is_in ? 0 : model->layout.outputs_at;
    size_t bytes = is_in ? model->layout.inputs_bytes : model->layout.outputs_bytes;
    const size_t *offsets = is_in ? model->layout.input_at : model->layout.output_at;
    const size_t *row_bytes =
        is_in ? model->layout.input_row_bytes : model->layout.output_row_bytes;
    int32_t count = is_in ? model->signature.input_count : model->signature.output_count;
    if (count == 1) { /* no more than its rows */
        at = offsets[0];
        bytes = row_bytes[0] * (size_t)place->valid.rows;
    }
    return move(stream, place, at, bytes, is_in, why);
}

/* E1: the rows of members whose inputs were copied when they arrived, from the ring to the arena.
 */
static enum tt_err gather_arrived(struct tt_async_stream *stream,
                                  const struct tt_stream_place *place, struct tt_error *why) {
    const struct tt_stream_model *model = place->model;
    size_t row = 0;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < place->valid.count; i++) {
        size_t rows = (size_t)place->valid.members[i]->rows;
        for (int32_t t = 0; !err && place->ring_slots[i] >= 0 && t < model->signature.input_count;
             t++) {
            uint64_t to = place->arena.device + model->layout.input_at[t] +
                          row * model->layout.input_row_bytes[t];
            uint64_t from = tt_stream_inputs_address(model->inputs, t, place->ring_slots[i]);
            err = tt_async_copy_within(stream, to, from, rows * model->layout.input_row_bytes[t],
                                       why);
        }
        row += rows;
    }
    return err;
}

/* Before the kernel: inputs that came by themselves are on the device, and where it reads them. */
static enum tt_err await_arrived(struct tt_async_stream *stream,
                                 const struct tt_stream_place *place, struct tt_error *why) {
    enum tt_err err = TT_OK;
    if (place->newest >= 0)
        err = tt_stream_inputs_wait(place->model->inputs, place->newest, stream, why);
    return !err && !place->is_in_place ? gather_arrived(stream, place, why) : err;
}

/* The tensors of one member, whose rows begin at `row`. */
static enum tt_err move_member(struct tt_async_stream *stream, const struct tt_stream_place *place,
                               int32_t member, size_t row, bool is_in, struct tt_error *why) {
    const struct tt_stream_model *model = place->model;
    const size_t *offsets = is_in ? model->layout.input_at : model->layout.output_at;
    const size_t *row_bytes =
        is_in ? model->layout.input_row_bytes : model->layout.output_row_bytes;
    int32_t count = is_in ? model->signature.input_count : model->signature.output_count;
    size_t rows = (size_t)place->valid.members[member]->rows;
    enum tt_err err = TT_OK;
    for (int32_t t = 0; !err && t < count; t++)
        err = move(stream, place, offsets[t] + row * row_bytes[t], rows * row_bytes[t], is_in, why);
    return err;
}

/* E1: the inputs that come with the batch, each request alone, in order. */
static enum tt_err bring_each(struct tt_async_stream *stream, const struct tt_stream_place *place,
                              struct tt_error *why) {
    size_t row = 0;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < place->valid.count; i++) {
        if (place->ring_slots[i] < 0)
            err = move_member(stream, place, i, row, true, why);
        row += (size_t)place->valid.members[i]->rows;
    }
    return err;
}

/* Without the event it is unknown when the copies before it have ended. */
static void record_or_fail(struct tt_async_stream *stream, struct tt_async_event *event) {
    struct tt_error why;
    if (tt_async_record(stream, event, &why) != TT_OK)
        tt_async_device_fail(stream->device, why.text); /* no effect if it has failed before */
}

/* Copying few bytes takes no longer than what waits for it. */
static enum tt_err stage(struct tt_stream_place *place, struct tt_async_stream *stream) {
    enum { FEW_BYTES = 32 << 10 };
    size_t bytes = 0;
    for (int32_t i = 0; bytes <= FEW_BYTES && i < place->valid.count; i++)
        bytes += place->ring_slots[i] < 0 ? member_bytes(place->model, place->valid.members[i]) : 0;
    return bytes <= FEW_BYTES ? tt_async_call_short(stream, stage_inputs, place, &place->why)
                              : tt_async_call(stream, stage_inputs, place, &place->why);
}

/* What was put on the stream reads the members' inputs, so the task must not come back before. */
void tt_stream_place_bring(struct tt_stream_place *place, struct tt_async_stream *stream) {
    bool each = place->transfer == TT_STREAM_EACH;
    place->brought = stage(place, stream);
    if (!place->brought)
        place->brought = each ? bring_each(stream, place, &place->why)
                              : move_all(stream, place, true, &place->why);
    if (!place->brought)
        place->brought = tt_async_call_note(stream, note_inputs, place, &place->why);
    tt_assert(place->brought != TT_ERR_BUSY);
    if (each)
        record_or_fail(stream, place->inputs_came);
}

/* On a stream, behind the copies of its outputs. */
static void member_left(void *context) {
    struct tt_stream_answer *answer = context;
    tt_async_executors_call(answer->place->async.set, &answer->completion);
}

/* E7: the outputs of each member, and its answer behind them. That of the last one comes with the
 * batch, which ends then. */
static enum tt_err send_each(struct tt_async_stream *stream, struct tt_stream_place *place,
                             struct tt_error *why) {
    enum tt_err err = TT_OK;
    int32_t row = 0;
    for (int32_t i = 0; !err && i < place->valid.count; i++) {
        struct tt_stream_answer *answer = &place->answers[i];
        answer->place = place;
        answer->member = i;
        answer->first_row = row;
        answer->is_given = false;
        answer->completion = (struct tt_async_completion){.call = place->answer, .context = answer};
        err = move_member(stream, place, i, (size_t)row, false, why);
        if (!err && place->task->answered && i + 1 < place->valid.count)
            err = tt_async_call_short(stream, member_left, answer, why);
        row += place->valid.members[i]->rows;
    }
    return err;
}

static enum tt_err send(struct tt_stream_place *place, struct tt_async_stream *stream,
                        struct tt_error *why) {
    bool each = place->transfer == TT_STREAM_EACH;
    enum tt_err err = tt_async_call_note(stream, note_outputs, place, why);
    if (!err && !tt_stream_place_ends_model(place))
        err = tt_stream_exits_read_back(place, stream, why);
    else if (!err)
        err = each ? send_each(stream, place, why) : move_all(stream, place, false, why);
    if (each && place->model->device->order) /* only the checker asks for it */
        record_or_fail(stream, place->outputs_left);
    return err;
}

/* On devices that run no C functions: between slots and the arena. */
static enum tt_err move_within(void *context, uint64_t to, uint64_t from, size_t bytes,
                               struct tt_error *why) {
    return tt_async_copy_within(context, to, from, bytes, why);
}

static enum tt_err put_first(struct tt_stream_place *place, struct tt_async_stream *stream,
                             struct tt_error *why) {
    bool begins = place->async.head.first_step == 0;
    if (place->is_refused)
        return tt_fail(TT_ERR_CANCELLED, why, "the task before it was refused");
    if (place->valid.rows == 0)
        return TT_OK;
    if (!begins && (place->async.refused || tt_async_device_runs_kernels(place->model->device)))
        return TT_OK;
    if (!begins)
        return tt_stream_states_gather(place, move_within, stream, why);
    if (place->transfer == TT_STREAM_WHOLE) {
        tt_stream_place_bring(place, stream);
        return place->brought; /* `why` is the place's own */
    }
    if (place->staged > 0 && tt_async_wait(stream, place->inputs_came, NULL) != TT_OK)
        tt_async_device_fail(place->model->device, "it cannot wait for the inputs of a task");
    return place->brought || place->async.refused ? place->brought
                                                  : await_arrived(stream, place, why);
}

enum tt_err tt_stream_place_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream, struct tt_error *why) {
    struct tt_stream_place *place = (struct tt_stream_place *)(void *)task;
    bool each = place->transfer == TT_STREAM_EACH, ends = tt_stream_place_ends_model(place);
    bool sends = (place->valid.rows > 0 && ends) || tt_stream_exits_any(place);
    enum tt_err err = TT_OK;
    switch (where) {
    case TT_ASYNC_PUT_FIRST: return put_first(place, stream, why);
    case TT_ASYNC_PUT_LAST:
        if (!ends && place->valid.rows > 0 && !tt_async_device_runs_kernels(place->model->device))
            err = tt_stream_states_scatter(place, place->async.head.last_step, move_within, stream,
                                           why);
        return !err && sends && !each ? send(place, stream, why) : err;
    case TT_ASYNC_PUT_NOTICE: return sends && each ? send(place, stream, why) : TT_OK;
    }
    return TT_OK;
}

/* ---- answers ---- */

/* The task named said why, perhaps to the same members. */
static void abort_follower(const struct tt_stream_place *place) {
    for (int32_t i = 0; i < place->valid.count; i++)
        place->valid.members[i]->err = TT_ERR_CANCELLED;
    place->task->head.outcome = TT_OUTCOME_ABORTED;
}

/* The task was refused, alone or with the device. */
void tt_stream_place_fail(struct tt_stream_place *place) {
    struct tt_error why;
    enum tt_err err = tt_async_device_status(place->model->device, &why);
    if (err)
        tt_engine_members_fail(place->valid.members, place->valid.count, err, &why);
    else if (place->is_refused)
        abort_follower(place);
    else
        tt_engine_members_fail(place->valid.members, place->valid.count, place->async.refused,
                               &place->why);
}

static enum tt_err fill_result(const struct tt_stream_place *place, const size_t *at,
                               int32_t first_row, int32_t rows, struct tt_engine_result *result) {
    const struct tt_stream_model *model = place->model;
    for (int32_t t = 0; t < model->signature.output_count; t++) {
        struct tt_engine_output *output = &result->outputs[t];
        size_t row_bytes = model->layout.output_row_bytes[t];
        output->view.shape = model->signature.outputs[t].shape;
        output->view.shape.dims[0] = rows;
        output->view.size_bytes = row_bytes * (size_t)rows;
        output->memory = malloc(output->view.size_bytes);
        if (!output->memory)
            return TT_ERR_NO_MEMORY;
        memcpy(output->memory, place->arena.pinned + at[t] + (size_t)first_row * row_bytes,
               output->view.size_bytes);
        output->view.bytes = output->memory;
    }
    return TT_OK;
}

struct tt_engine_result *tt_stream_place_result(const struct tt_stream_place *place,
                                                int32_t members, const size_t *at,
                                                int32_t first_row, int32_t rows) {
    struct tt_engine_result *result =
        tt_engine_result_new(members, place->model->signature.output_count, true, rows);
    if (result && fill_result(place, at, first_row, rows, result) != TT_OK) {
        tt_engine_result_free(result);
        result = NULL;
    }
    return result;
}

bool tt_stream_place_give(struct tt_stream_place *place, struct tt_stream_answer *answer) {
    struct tt_engine_member *member = place->valid.members[answer->member];
    if (member->err || tt_stream_place_stopped(place) >= 0)
        return false;
    member->result = tt_stream_place_result(place, 1, place->model->layout.output_at,
                                            answer->first_row, member->rows);
    member->first_row = 0;
    answer->is_given = member->result != NULL;
    return answer->is_given;
}

/* E7: it has its answer, and belongs to the caller's client. */
static bool was_answered(const struct tt_stream_place *place, int32_t member) {
    return place->gives_answers && place->answers[member].is_given;
}

void tt_stream_place_answer(const struct tt_stream_place *place) {
    const struct tt_engine_valid_members *valid = &place->valid;
    int32_t good = 0, row = 0, first_row = 0;
    for (int32_t i = 0; i < valid->count; i++) {
        bool is_good = !was_answered(place, i) && valid->members[i]->err == TT_OK;
        good += is_good;
        first_row += good == 0 ? valid->members[i]->rows : 0;
    }
    if (good == 0)
        return;
    struct tt_engine_result *result = tt_stream_place_result(
        place, good, place->model->layout.output_at, first_row, valid->rows - first_row);
    for (int32_t i = 0; i < valid->count; i++) {
        struct tt_engine_member *member = valid->members[i];
        if (was_answered(place, i)) {
            row += member->rows;
            continue;
        }
        if (!member->err && !result)
            member->err =
                tt_fail(TT_ERR_NO_MEMORY, member->why,
                        "out of memory for the outputs of a batch of %d rows", valid->rows);
        if (!member->err) {
            member->result = result;
            member->first_row = row - first_row;
        }
        row += member->rows;
    }
}
