/* The kernel of a task on streams (engine/streams/stream_place.h): its steps, and batches for which
 * the device has no memory. */
#include "base/array.h"
#include "engine/streams/stream_exits.h"
#include "engine/streams/stream_states.h"

#include <string.h>

/* The tensors that a step reads or writes: where this process, or the device, finds them. */
struct tensors {
    int32_t count;
    size_t row_bytes[TT_MAX_TENSORS];
    uint64_t at[TT_MAX_TENSORS];
};

/* The steps of a task, in either form. */
struct work {
    struct tt_stream_place *place;
    void *native_stream;  /* NULL: C functions */
    struct tt_error *why; /* receives what an error that is not a member's says; may be NULL */
    uint64_t arena;
    int32_t step; /* or the test of an exit (engine/dataflow.h) */
    int32_t most; /* members in a batch; fewer once the device had no memory for more */
    struct tensors in, out;
};

static const struct tt_stream_program *program_of(const struct work *work) {
    return &work->place->model->program;
}

/* ---- where tensors are ---- */

/* As a step finds the address: in this process, or on the device. */
static uint64_t found(const struct work *work, uint64_t address) {
    const struct tt_stream_place *place = work->place;
    uint64_t offset = address - place->arena.device;
    if (work->native_stream)
        return address;
    if (offset < place->model->layout.arena_bytes)
        return work->arena + offset;
    return (uint64_t)(uintptr_t)tt_async_pointer(place->model->device, address);
}

/* In this process. A slot that no range of the kernel has makes the device fail. */
static enum tt_err move_here(void *context, uint64_t to, uint64_t from, size_t bytes,
                             struct tt_error *why) {
    const struct work *work = context;
    (void)why;
    void *to_bytes = (void *)(uintptr_t)found(work, to);
    const void *from_bytes = (const void *)(uintptr_t)found(work, from);
    if (!to_bytes || !from_bytes)
        return TT_ERR_INTERNAL;
    memcpy(to_bytes, from_bytes, bytes);
    return TT_OK;
}

static void find_tensors(const struct work *work, const int32_t *indexes, int32_t count,
                         struct tensors *out) {
    const struct tt_stream_place *place = work->place;
    out->count = count;
    for (int32_t i = 0; i < count; i++) {
        out->row_bytes[i] = place->model->layout.flow->tensors[indexes[i]].row_bytes;
        out->at[i] = found(work, tt_stream_states_tensor(place, indexes[i]));
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

/* Only what is used is written: this runs per step. */
static void find_rows(const struct tensors *tensors, int32_t row, struct tensors *out) {
    out->count = tensors->count;
    for (int32_t t = 0; t < tensors->count; t++) {
        out->row_bytes[t] = tensors->row_bytes[t];
        out->at[t] = tensors->at[t] + (uint64_t)row * tensors->row_bytes[t];
    }
}

static enum tt_err run_rows(const struct work *work, int32_t first_row, int32_t rows,
                            struct tt_error *why) {
    const struct tt_stream_program *program = program_of(work);
    struct tensors in, out;
    find_rows(&work->in, first_row, &in);
    find_rows(&work->out, first_row, &out);
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

/* Later tasks of the member's leave it out, too. */
static void keep_refusal(const struct tt_engine_member *member) {
    if (member->state)
        member->state->refused = member->err;
}

/* The exits of a step are part of it. */
static int32_t model_step(const struct work *work) {
    const struct tt_dataflow *flow = work->place->model->layout.flow;
    return work->step < flow->step_count ? work->step
                                         : flow->exits[work->step - flow->step_count].step;
}

static void refuse(const struct work *work, struct tt_engine_member *member) {
    const struct tt_stream_model *model = work->place->model;
    const struct tt_async_info *info = tt_async_device_info(model->device);
    int64_t held = (int64_t)(model->layout.arena_bytes * (size_t)model->arena_count +
                             model->layout.slots_bytes);
    member->err = tt_fail(TT_ERR_NO_MEMORY, member->why,
                          "device %s has no memory for %d row%s in step %d; it has %lld bytes, of "
                          "which the model holds %lld",
                          info->name, member->rows, member->rows == 1 ? "" : "s", model_step(work),
                          (long long)info->memory_bytes, (long long)held);
    keep_refusal(member);
}

/* Members that an earlier task refused, which said why. */
static void note_refused(const struct work *work) {
    const struct tt_engine_valid_members *valid = &work->place->valid;
    for (int32_t i = 0; i < valid->count; i++) {
        const struct tt_engine_state *state = valid->members[i]->state;
        if (state && state->refused)
            valid->members[i]->err = state->refused;
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

/* It is at fault. */
static void reject(struct tt_engine_member *member, const struct tt_error *why) {
    member->err = tt_fail(TT_ERR_INVALID, member->why, "%s", why->text);
    keep_refusal(member);
}

/* Runs the step for all members: at once; in halves, if there is no memory; one by one, if some are
 * at fault. */
static enum tt_err run_step(struct work *work) {
    struct tt_engine_member **members = work->place->valid.members;
    int32_t row = 0, rows, count;
    struct tt_error why;
    why.text[0] = '\0';
    for (int32_t i = 0; i < work->place->valid.count;) {
        count = neighbours(work, i, &rows);
        enum tt_err err = count > 0 ? run_rows(work, row, rows, &why) : TT_OK;
        if (count > 1 && (err == TT_ERR_NO_MEMORY || err == TT_ERR_INVALID)) {
            work->most = err == TT_ERR_NO_MEMORY ? count / 2 : 1;
            continue;
        }
        if (err == TT_ERR_NO_MEMORY)
            refuse(work, members[i]);
        else if (err == TT_ERR_INVALID)
            reject(members[i], &why);
        else if (err)
            return *why.text ? tt_fail(err, work->why, "%s", why.text) : err;
        row += count > 0 ? rows : members[i]->rows;
        i += count > 0 ? count : 1;
    }
    return TT_OK;
}

/* ---- stopping between two steps ---- */

void tt_stream_place_yield(struct tt_stream_place *place) {
    /* A device that takes the times of a description has begun the whole task. */
    bool stops =
        !place->model->program.latency_ns && tt_async_device_runs_kernels(place->model->device);
    tt_lock_take(&place->lock);
    place->is_asked = stops;
    tt_lock_give(&place->lock);
}

int32_t tt_stream_place_stopped(struct tt_stream_place *place) {
    tt_lock_take(&place->lock);
    int32_t last_done = place->last_done;
    tt_lock_give(&place->lock);
    return last_done;
}

/* A task that was to run to the end of its model has no slots yet. The scheduler has kept some for
 * its rows. With the order checker a kernel touches what it stated before it began. */
static bool has_slots(struct tt_stream_place *place) {
    struct tt_engine_valid_members *valid = &place->valid;
    bool has = true;
    if (valid->members[0]->state)
        return true;
    if (place->arena.ranges)
        return false;
    tt_stream_model_take(place->model, valid->members, valid->count);
    for (int32_t i = 0; i < valid->count; i++)
        has &= valid->members[i]->state != NULL;
    for (int32_t i = 0; !has && i < valid->count; i++) {
        tt_stream_model_give(valid->members[i]->state);
        valid->members[i]->state = NULL;
    }
    if (has)
        (void)tt_stream_states_list(place);
    return has;
}

/* The step has ended, and others of the task are left: does the task stop here? */
static bool stops_behind(struct tt_stream_place *place, int32_t step) {
    if (step == place->async.head.last_step)
        return false;
    tt_lock_take(&place->lock);
    bool stops = place->is_asked && !place->is_followed && has_slots(place);
    if (stops)
        place->last_done = step;
    tt_lock_give(&place->lock);
    return stops;
}

/* ---- the kernel ---- */

static enum tt_err run_at(struct work *work, int32_t index) {
    const struct tt_dataflow_step *step = tt_dataflow_run(work->place->model->layout.flow, index);
    work->step = index;
    find_tensors(work, step->inputs, step->input_count, &work->in);
    find_tensors(work, step->outputs, step->output_count, &work->out);
    return run_step(work);
}

/* D8: behind the task's last step. */
static enum tt_err run_tests(struct work *work) {
    const struct tt_dataflow *flow = work->place->model->layout.flow;
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < flow->exit_count && tt_stream_exits_any(work->place); e++)
        if (flow->exits[e].step == work->place->async.head.last_step &&
            flow->exits[e].test.output_count > 0)
            err = run_at(work, flow->step_count + e);
    return err;
}

static enum tt_err run_steps(struct work *work) {
    struct tt_stream_place *place = work->place;
    const struct tt_stream_model *model = place->model;
    const struct tt_device_task *head = &place->async.head;
    note_refused(work);
    for (int32_t step = head->first_step; step <= head->last_step; step++) {
        enum tt_err err = run_at(work, step);
        if (err)
            return err;
        if (work->native_stream)
            continue;
        if (!model->program.latency_ns)
            tt_engine_task_step_ended(place->task, step, tt_async_device_now(model->device));
        if (stops_behind(place, step))
            return TT_OK;
    }
    return run_tests(work);
}

/* Through device memory, as this process finds it. */
static enum tt_err run_here(struct tt_stream_place *place, struct tt_async_device *device) {
    char *arena = tt_async_pointer(device, place->arena.device);
    if (!arena)
        return TT_ERR_INTERNAL;
    struct work work; /* `in` and `out` are a step's */
    work.place = place;
    work.native_stream = NULL;
    work.why = NULL;
    work.arena = (uint64_t)(uintptr_t)arena;
    work.step = place->async.head.first_step;
    work.most = place->valid.count;
    enum tt_err err = tt_stream_states_gather(place, move_here, &work, NULL);
    if (!err)
        err = run_steps(&work);
    int32_t stopped = tt_stream_place_stopped(place);
    int32_t last_done = stopped >= 0 ? stopped : place->async.head.last_step;
    if (!err && last_done < place->model->program.step_count - 1)
        err = tt_stream_states_scatter(place, last_done, move_here, &work, NULL);
    return err;
}

enum tt_err tt_stream_place_guard(struct tt_stream_place *place, struct tt_async_device *device,
                                  enum tt_err (*run)(struct tt_stream_place *self,
                                                     struct tt_async_device *device)) {
    tt_lock_take(&place->lock);
    bool begins = place->is_computing = !place->is_closed;
    tt_lock_give(&place->lock);
    enum tt_err err = begins ? run(place, device) : TT_OK;
    place->computed_at = tt_async_device_now(device);
    tt_lock_take(&place->lock);
    bool is_lost = place->is_lost;
    place->is_computing = false;
    tt_lock_give(&place->lock);
    if (is_lost)
        place->lost(place);
    return is_lost ? TT_OK : err;
}

enum tt_err tt_stream_place_run(struct tt_async_device *device, void *context) {
    struct tt_stream_place *place = context;
    return place->valid.rows > 0 ? tt_stream_place_guard(place, device, run_here) : TT_OK;
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
