/* The kernel of a task on streams (engine/streams/stream_place.h): its steps, and batches for which
 * the device has no memory. */
#include "base/array.h"
#include "engine/streams/stream_inputs.h"
#include "engine/streams/stream_place.h"

#include <string.h>

/* The tensors that a step reads or writes: where this process, or the device, finds them. */
struct tensors {
    int32_t count;
    const size_t *row_bytes;
    uint64_t at[TT_MAX_TENSORS];
};

/* The steps of a task, in either form. */
struct work {
    struct tt_stream_place *place;
    void *native_stream;  /* NULL: C functions */
    struct tt_error *why; /* receives what an error that is not a member's says; may be NULL */
    uint64_t arena;
    int32_t step;
    int32_t most; /* members in a batch; fewer once the device had no memory for more */
    struct tensors in, out;
};

static const struct tt_stream_program *program_of(const struct work *work) {
    return &work->place->model->program;
}

/* ---- where states are ---- */

static size_t other_state(const struct tt_stream_model *model, bool is_second) {
    return model->states_at + (is_second ? (model->arena_bytes - model->states_at) / 2 : 0);
}

size_t tt_stream_place_state_read(const struct tt_stream_place *place) {
    return other_state(place->model, false);
}

/* Steps write the two in turn: the first of the model the first one, other tasks' the second. */
size_t tt_stream_place_state_left(const struct tt_stream_place *place) {
    const struct tt_device_task *head = &place->async.head;
    int32_t steps = head->last_step - head->first_step + 1;
    return other_state(place->model, steps % 2 == (head->first_step > 0));
}

static void move_states(const struct tt_stream_place *place, char *at, bool gathers) {
    const struct tt_stream_model *model = place->model;
    size_t bytes = model->program.state_bytes;
    for (int32_t row = 0; row < place->valid.rows; row++, at += bytes) {
        char *slot =
            tt_async_pointer(model->device, tt_stream_model_slot(model, place->slots[row]));
        if (!slot)
            return; /* the device has failed: no range of the kernel has the address */
        memcpy(gathers ? at : slot, gathers ? slot : at, bytes);
    }
}

/* ---- a step ---- */

static const void *bytes_at(uint64_t address) { return (const void *)(uintptr_t)address; }

static void copy_rows(const struct tensors *in, const struct tensors *out, int32_t rows) {
    for (int32_t t = 0; t < out->count; t++)
        for (size_t row = 0; row < (size_t)rows; row++) {
            size_t room = out->row_bytes[t], held = in->count > 0 ? in->row_bytes[0] : 0;
            size_t count = held < room ? held : room;
            char *to = (char *)(uintptr_t)out->at[t] + row * room;
            if (count > 0)
                memcpy(to, (const char *)bytes_at(in->at[0]) + row * held, count);
            memset(to + count, 0, room - count);
        }
}

static struct tensors rows_from(const struct tensors *tensors, int32_t row) {
    struct tensors rows = *tensors;
    for (int32_t t = 0; t < rows.count; t++)
        rows.at[t] += (uint64_t)row * rows.row_bytes[t];
    return rows;
}

static enum tt_err run_rows(const struct work *work, int32_t first_row, int32_t rows,
                            struct tt_error *why) {
    const struct tt_stream_program *program = program_of(work);
    const struct tensors in = rows_from(&work->in, first_row);
    const struct tensors out = rows_from(&work->out, first_row);
    if (work->native_stream)
        return program->enqueue(program->context, work->place->async.head.executor,
                                work->native_stream, work->step, rows, in.at, out.at, why);
    if (!program->compute) {
        copy_rows(&in, &out, rows);
        return TT_OK;
    }
    const void *from[TT_MAX_TENSORS];
    void *to[TT_MAX_TENSORS];
    for (int32_t t = 0; t < in.count; t++)
        from[t] = bytes_at(in.at[t]);
    for (int32_t t = 0; t < out.count; t++)
        to[t] = (void *)(uintptr_t)out.at[t];
    return program->compute(program->context, work->step, rows, from, to, why);
}

/* ---- batches without memory ---- */

static void refuse(const struct work *work, struct tt_engine_member *member) {
    const struct tt_stream_model *model = work->place->model;
    const struct tt_async_info *info = tt_async_device_info(model->device);
    int64_t held = (int64_t)(model->arena_bytes * (size_t)model->arena_count) +
                   (int64_t)model->slot_total * (int64_t)model->program.state_bytes;
    member->err = tt_fail(TT_ERR_NO_MEMORY, member->why,
                          "device %s has no memory for %d row%s in step %d; it has %lld bytes, of "
                          "which the model holds %lld",
                          info->name, member->rows, member->rows == 1 ? "" : "s", work->step,
                          (long long)info->memory_bytes, (long long)held);
    if (member->state)
        member->state->lacks_memory = true;
}

/* Members that an earlier task refused, which said why. */
static void note_refused(const struct work *work) {
    const struct tt_engine_valid_members *valid = &work->place->valid;
    for (int32_t i = 0; i < valid->count; i++) {
        const struct tt_engine_state *state = valid->members[i]->state;
        if (state && state->lacks_memory)
            valid->members[i]->err = TT_ERR_NO_MEMORY;
    }
}

/* How many members from `first` on run together: neighbours that have no error. */
static int32_t neighbours(const struct work *work, int32_t first, int32_t *out_rows) {
    const struct tt_engine_valid_members *valid = &work->place->valid;
    int32_t end = first;
    *out_rows = 0;
    for (; end < valid->count && end - first < work->most && !valid->members[end]->err; end++)
        *out_rows += valid->members[end]->rows;
    return end - first;
}

/* In a model of one step: which members are at fault is found out one by one. */
static bool finds_faults(const struct work *work, enum tt_err err) {
    return err == TT_ERR_INVALID && program_of(work)->step_count == 1;
}

/* Runs the step for all members: at once, or, if there is no memory, in halves. */
static enum tt_err run_step(struct work *work) {
    struct tt_engine_member **members = work->place->valid.members;
    int32_t row = 0, rows, count;
    struct tt_error why = {""};
    for (int32_t i = 0; i < work->place->valid.count;) {
        count = neighbours(work, i, &rows);
        enum tt_err err = count > 0 ? run_rows(work, row, rows, &why) : TT_OK;
        if (count > 1 && (err == TT_ERR_NO_MEMORY || finds_faults(work, err))) {
            work->most = err == TT_ERR_NO_MEMORY ? count / 2 : 1;
            continue;
        }
        if (err == TT_ERR_NO_MEMORY)
            refuse(work, members[i]);
        else if (finds_faults(work, err))
            members[i]->err = tt_fail(err, members[i]->why, "%s", why.text);
        else if (err)
            return *why.text ? tt_fail(err, work->why, "%s", why.text) : err;
        row += count > 0 ? rows : members[i]->rows;
        i += count > 0 ? count : 1;
    }
    return TT_OK;
}

/* ---- the kernel ---- */

static void set_tensors(struct tensors *tensors, uint64_t arena, const size_t *row_bytes,
                        const size_t *offsets, int32_t count) {
    tensors->count = count;
    tensors->row_bytes = row_bytes;
    for (int32_t i = 0; i < count; i++)
        tensors->at[i] = arena + offsets[i];
}

/* E1: where the inputs lie next to each other in the ring, they are read there. */
static void set_inputs(struct work *work) {
    const struct tt_stream_place *place = work->place;
    const struct tt_stream_model *model = place->model;
    set_tensors(&work->in, work->arena, model->input_row_bytes, model->input_at,
                model->signature.input_count);
    for (int32_t t = 0; place->is_in_place && t < work->in.count; t++) {
        uint64_t address = tt_stream_inputs_address(model->inputs, t, place->ring_slots[0]);
        work->in.at[t] = work->native_stream
                             ? address
                             : (uint64_t)(uintptr_t)tt_async_pointer(model->device, address);
    }
}

static enum tt_err run_steps(struct work *work) {
    const struct tt_stream_place *place = work->place;
    const struct tt_stream_model *model = place->model;
    const struct tt_device_task *head = &place->async.head;
    const size_t states[] = {other_state(model, false), other_state(model, true)};
    int32_t next = head->first_step > 0;
    if (head->first_step > 0)
        set_tensors(&work->in, work->arena, &model->program.state_bytes, &states[0], 1);
    else
        set_inputs(work);
    note_refused(work);
    for (work->step = head->first_step; work->step <= head->last_step; work->step++) {
        if (work->step < model->program.step_count - 1)
            set_tensors(&work->out, work->arena, &model->program.state_bytes, &states[next], 1);
        else
            set_tensors(&work->out, work->arena, model->output_row_bytes, model->output_at,
                        model->signature.output_count);
        enum tt_err err = run_step(work);
        if (err)
            return err;
        work->in = work->out;
        next = 1 - next;
    }
    return TT_OK;
}

/* Through device memory, as this process finds it. */
static enum tt_err run_here(struct tt_stream_place *place, struct tt_async_device *device) {
    char *arena = tt_async_pointer(device, place->arena.device);
    if (!arena)
        return TT_ERR_INTERNAL;
    struct work work = {
        .place = place, .arena = (uint64_t)(uintptr_t)arena, .most = place->valid.count};
    if (place->async.head.first_step > 0)
        move_states(place, arena + tt_stream_place_state_read(place), true);
    enum tt_err err = run_steps(&work);
    if (!err && !tt_stream_place_ends_model(place))
        move_states(place, arena + tt_stream_place_state_left(place), false);
    return err;
}

enum tt_err tt_stream_place_run(struct tt_async_device *device, void *context) {
    struct tt_stream_place *place = context;
    if (place->valid.rows == 0)
        return TT_OK;
    tt_lock_take(&place->lock);
    bool begins = place->is_computing = !place->is_closed;
    tt_lock_give(&place->lock);
    enum tt_err err = begins ? run_here(place, device) : TT_OK;
    tt_lock_take(&place->lock);
    bool is_lost = place->is_lost;
    place->is_computing = false;
    tt_lock_give(&place->lock);
    if (is_lost)
        place->lost(place);
    return is_lost ? TT_OK : err;
}

enum tt_err tt_stream_place_enqueue(struct tt_async_device *device, void *context,
                                    void *native_stream, struct tt_error *why) {
    struct tt_stream_place *place = context;
    (void)device;
    struct work work = {.place = place,
                        .native_stream = native_stream,
                        .why = why,
                        .arena = place->arena.device,
                        .most = place->valid.count};
    return place->valid.rows > 0 ? run_steps(&work) : TT_OK;
}
