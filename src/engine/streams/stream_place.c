#include "engine/streams/stream_place.h"

#include "engine/engine_result.h"

#include <stdlib.h>
#include <string.h>

bool tt_stream_place_ends_model(const struct tt_stream_place *place) {
    return place->task->head.last_step == place->model->program.step_count - 1;
}

/* ---- on the device ---- */

/* The rows of a step, and the tensors that it reads or writes. */
struct tensors {
    int32_t count;
    const size_t *row_bytes;
    void *bytes[TT_MAX_TENSORS];
};

static void copy_rows(const struct tensors *in, const struct tensors *out, int32_t rows) {
    for (int32_t t = 0; t < out->count; t++)
        for (size_t row = 0; row < (size_t)rows; row++) {
            size_t room = out->row_bytes[t], held = in->count > 0 ? in->row_bytes[0] : 0;
            size_t count = held < room ? held : room;
            char *to = (char *)out->bytes[t] + row * room;
            if (count > 0)
                memcpy(to, (const char *)in->bytes[0] + row * held, count);
            memset(to + count, 0, room - count);
        }
}

static void gather_states(const struct tt_stream_place *place, char *to, bool scatters) {
    const struct tt_stream_model *model = place->model;
    size_t bytes = model->program.state_bytes;
    for (int32_t row = 0; row < place->valid.rows; row++) {
        char *slot =
            tt_async_pointer(model->device, tt_stream_model_slot(model, place->slots[row]));
        if (!slot)
            return; /* the device has failed: no range of the kernel has the address */
        memcpy(scatters ? slot : to, scatters ? to : slot, bytes);
        to += bytes;
    }
}

/* From row `first_row` on. */
static struct tensors tensors_at(char *arena, const size_t *row_bytes, const size_t *offsets,
                                 int32_t count, int32_t first_row) {
    struct tensors tensors = {.count = count, .row_bytes = row_bytes};
    for (int32_t i = 0; i < count; i++)
        tensors.bytes[i] = arena + offsets[i] + (size_t)first_row * row_bytes[i];
    return tensors;
}

/* Computes the task's steps for some of its rows. */
static enum tt_err run_rows(const struct tt_stream_place *place, char *arena, int32_t first_row,
                            int32_t rows, struct tt_error *why) {
    const struct tt_stream_model *model = place->model;
    const struct tt_stream_program *program = &model->program;
    const struct tt_device_task *head = &place->task->head;
    size_t state_at[2] = {model->states_at,
                          model->states_at + (model->arena_bytes - model->states_at) / 2};
    int32_t held = 0; /* the state that has the rows */
    struct tensors in = tensors_at(arena, &program->state_bytes, &state_at[0], 1, first_row);
    if (head->first_step == 0)
        in = tensors_at(arena, model->input_row_bytes, model->input_at,
                        model->signature.input_count, first_row);
    else
        gather_states(place, in.bytes[0], false);
    for (int32_t step = head->first_step; step <= head->last_step; step++) {
        held = 1 - held;
        struct tensors out =
            tensors_at(arena, &program->state_bytes, &state_at[held], 1, first_row);
        if (step == program->step_count - 1)
            out = tensors_at(arena, model->output_row_bytes, model->output_at,
                             model->signature.output_count, first_row);
        enum tt_err err = TT_OK;
        if (program->compute)
            err = program->compute(program->context, step, rows, (const void *const *)in.bytes,
                                   (void *const *)out.bytes, why);
        else
            copy_rows(&in, &out, rows);
        if (err)
            return err;
        in = out;
    }
    if (!tt_stream_place_ends_model(place))
        gather_states(place, in.bytes[0], true);
    return TT_OK;
}

enum tt_err tt_stream_place_run(struct tt_async_device *device, void *context) {
    const struct tt_stream_place *place = context;
    const struct tt_engine_valid_members *valid = &place->valid;
    struct tt_error why;
    char *arena = valid->rows > 0 ? tt_async_pointer(device, place->arena.device) : NULL;
    if (!arena)
        return valid->rows > 0 ? TT_ERR_INTERNAL : TT_OK;
    enum tt_err err = run_rows(place, arena, 0, valid->rows, &why);
    if (err != TT_ERR_INVALID || place->model->program.step_count > 1)
        return err;
    int32_t row = 0;
    for (int32_t i = 0; i < valid->count; i++) {
        struct tt_engine_member *member = valid->members[i];
        if (valid->count > 1)
            err = run_rows(place, arena, row, member->rows, &why);
        if (err && err != TT_ERR_INVALID)
            return err;
        if (err)
            member->err = tt_fail(err, member->why, "%s", why.text);
        row += member->rows;
    }
    return TT_OK;
}

/* ---- copies ---- */

static int64_t now_of(const struct tt_stream_place *place) {
    return tt_async_device_now(place->model->device);
}

/* On a stream: the members' inputs to pinned memory, one behind the other. */
static void stage_inputs(void *context) {
    const struct tt_stream_place *place = context;
    const struct tt_stream_model *model = place->model;
    place->task->copies_in.begin_at = now_of(place);
    for (int32_t t = 0; t < model->signature.input_count; t++) {
        char *to = place->arena.pinned + model->input_at[t];
        for (int32_t i = 0; i < place->valid.count; i++) {
            const struct tt_engine_member *member = place->valid.members[i];
            size_t bytes = model->input_row_bytes[t] * (size_t)member->rows;
            memcpy(to, member->inputs[t].bytes, bytes);
            to += bytes;
            place->task->gathered_bytes += (int64_t)bytes;
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
                        size_t at, size_t bytes, bool is_in) {
    uint64_t on_device = place->arena.device + at;
    if (is_in)
        return tt_async_copy_in(stream, on_device, place->arena.pinned + at, bytes, NULL);
    return tt_async_copy_out(stream, place->arena.pinned + at, on_device, bytes, NULL);
}

static enum tt_err move_all(struct tt_async_stream *stream, const struct tt_stream_place *place,
                            bool is_in) {
    const struct tt_stream_model *model = place->model;
    size_t at = is_in ? 0 : model->outputs_at;
    size_t bytes = is_in ? model->inputs_bytes : model->outputs_bytes;
    const size_t *offsets = is_in ? model->input_at : model->output_at;
    const size_t *row_bytes = is_in ? model->input_row_bytes : model->output_row_bytes;
    int32_t count = is_in ? model->signature.input_count : model->signature.output_count;
    if (count == 1) { /* no more than its rows */
        at = offsets[0];
        bytes = row_bytes[0] * (size_t)place->valid.rows;
    }
    return move(stream, place, at, bytes, is_in);
}

/* E1: each request alone, in order. */
static enum tt_err move_each(struct tt_async_stream *stream, const struct tt_stream_place *place,
                             bool is_in) {
    const struct tt_stream_model *model = place->model;
    const size_t *offsets = is_in ? model->input_at : model->output_at;
    const size_t *row_bytes = is_in ? model->input_row_bytes : model->output_row_bytes;
    int32_t count = is_in ? model->signature.input_count : model->signature.output_count;
    size_t row = 0;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < place->valid.count; i++) {
        size_t rows = (size_t)place->valid.members[i]->rows;
        for (int32_t t = 0; !err && t < count; t++)
            err = move(stream, place, offsets[t] + row * row_bytes[t], rows * row_bytes[t], is_in);
        row += rows;
    }
    return err;
}

enum tt_err tt_stream_place_bring(struct tt_stream_place *place, struct tt_async_stream *stream) {
    bool each = place->transfer == TT_STREAM_EACH;
    enum tt_err err = tt_async_call(stream, stage_inputs, place, NULL);
    if (!err)
        err = (each ? move_each : move_all)(stream, place, true);
    if (!err)
        err = tt_async_call(stream, note_inputs, place, NULL);
    if (!err && each)
        err = tt_async_record(stream, place->inputs_came, NULL);
    return err;
}

static enum tt_err send(struct tt_stream_place *place, struct tt_async_stream *stream) {
    bool each = place->transfer == TT_STREAM_EACH;
    enum tt_err err = tt_async_call(stream, note_outputs, place, NULL);
    if (!err)
        err = (each ? move_each : move_all)(stream, place, false);
    return !err && each ? tt_async_record(stream, place->outputs_left, NULL) : err;
}

enum tt_err tt_stream_place_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream) {
    struct tt_stream_place *place = (struct tt_stream_place *)(void *)task;
    bool each = place->transfer == TT_STREAM_EACH;
    bool has_inputs = place->valid.rows > 0 && place->task->head.first_step == 0;
    bool has_outputs = place->valid.rows > 0 && tt_stream_place_ends_model(place);
    switch (where) {
    case TT_ASYNC_PUT_FIRST:
        if (!has_inputs)
            return TT_OK;
        return each ? tt_async_wait(stream, place->inputs_came, NULL)
                    : tt_stream_place_bring(place, stream);
    case TT_ASYNC_PUT_LAST: return has_outputs && !each ? send(place, stream) : TT_OK;
    case TT_ASYNC_PUT_NOTICE: return has_outputs && each ? send(place, stream) : TT_OK;
    }
    return TT_OK;
}

/* ---- answers ---- */

static enum tt_err fill_result(const struct tt_stream_place *place,
                               struct tt_engine_result *result) {
    const struct tt_stream_model *model = place->model;
    for (int32_t t = 0; t < model->signature.output_count; t++) {
        struct tt_engine_output *output = &result->outputs[t];
        output->view.shape = model->signature.outputs[t].shape;
        output->view.shape.dims[0] = place->valid.rows;
        output->view.size_bytes = model->output_row_bytes[t] * (size_t)place->valid.rows;
        output->memory = malloc(output->view.size_bytes);
        if (!output->memory)
            return TT_ERR_NO_MEMORY;
        memcpy(output->memory, place->arena.pinned + model->output_at[t], output->view.size_bytes);
        output->view.bytes = output->memory;
    }
    return TT_OK;
}

void tt_stream_place_answer(const struct tt_stream_place *place) {
    const struct tt_engine_valid_members *valid = &place->valid;
    int32_t good = 0, row = 0;
    for (int32_t i = 0; i < valid->count; i++)
        good += valid->members[i]->err == TT_OK;
    if (good == 0)
        return;
    struct tt_engine_result *result =
        tt_engine_result_new(good, place->model->signature.output_count, true, valid->rows);
    if (!result || fill_result(place, result) != TT_OK) {
        tt_engine_result_free(result);
        result = NULL;
    }
    for (int32_t i = 0; i < valid->count; i++) {
        struct tt_engine_member *member = valid->members[i];
        if (!member->err && !result)
            member->err =
                tt_fail(TT_ERR_NO_MEMORY, member->why,
                        "out of memory for the outputs of a batch of %d rows", valid->rows);
        if (!member->err) {
            member->result = result;
            member->first_row = row;
        }
        row += member->rows;
    }
}
