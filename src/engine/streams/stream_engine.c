#include "engine/streams/stream_engine_state.h"

#include "base/instant.h"
#include "core/profile.h"
#include "engine/cell_answer.h"
#include "engine/engine_result.h"
#include "engine/streams/stream_cells.h"
#include "engine/streams/stream_exits.h"
#include "engine/streams/stream_watch.h"

#include <stdlib.h>

static struct tt_stream_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct tt_stream_engine, engine);
}

static struct tt_stream_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF((struct tt_engine_model *)model, struct tt_stream_model, model);
}

static struct tt_stream_place *place_of(struct tt_device_task *head) {
    return (struct tt_stream_place *)(void *)head;
}

/* ---- the end of a task ---- */

/* This thread calls `done` of some engine of streams. */
static _Thread_local bool is_in_done;

static void call_done(struct tt_stream_engine *self, struct tt_engine_task *task) {
    bool outer = is_in_done;
    is_in_done = true;
    self->engine.done(self->engine.done_context, &task->head);
    is_in_done = outer;
}

/* Which parts of the time from start to end were copies; `outputs_at`: when its outputs began to
 * leave, or it ended. */
static void note_times(const struct tt_stream_place *place, int64_t outputs_at) {
    struct tt_engine_task *task = place->task;
    const struct tt_device_task *head = &task->head;
    int64_t inputs_at = tt_instant_max(head->started_at, task->copies_in.end_at);
    if (head->first_step == 0 && place->newest >= 0)
        inputs_at = tt_instant_max(
            inputs_at, tt_stream_inputs_copies(place->model->inputs, place->newest).end_at);
    if (inputs_at > outputs_at) /* it failed */
        inputs_at = outputs_at;
    task->input_ns = inputs_at - head->started_at;
    task->infer_ns = outputs_at - inputs_at;
}

/* E7: called by the set, as came_back is, and before it. */
static void member_came(void *context) {
    struct tt_stream_answer *answer = context;
    struct tt_stream_place *place = answer->place;
    struct tt_engine_task *task = place->task;
    if (!tt_stream_place_give(place, answer))
        return;
    if (!place->gives_answers) {
        task->head.started_at = tt_async_executors_started_at(place->async.set, &place->async);
        note_times(place, tt_async_executors_computed_at(place->async.set, &place->async));
        place->gives_answers = true;
        tt_flag_raise(&place->has_ended);
    }
    bool outer = is_in_done;
    is_in_done = true;
    task->answered(task, place->valid.members[answer->member]);
    is_in_done = outer;
}

/* What became of the task; true: it ended its model. */
static bool note_outcome(struct tt_stream_place *place, struct tt_device_task *head) {
    struct tt_engine_task *task = place->task;
    tt_lock_take(&place->lock);
    if (place->is_proven)
        head->outcome = TT_OUTCOME_DONE;
    task->was_cut = place->was_cut;
    tt_lock_give(&place->lock);
    int32_t stopped = tt_stream_place_stopped(place);
    bool done = head->outcome == TT_OUTCOME_DONE;
    bool ends = done && stopped < 0 && tt_stream_place_ends_model(place);
    bool asks = stopped < 0 && tt_stream_exits_any(place);
    if (done && !ends && !asks) /* no copies follow; the notice comes later */
        head->ended_at = place->computed_at > 0 ? place->computed_at : place->async.computed_at;
    if (!place->gives_answers) /* else it is set, and read */
        task->head.started_at = head->started_at;
    /* A start that was read when answers came may be later if the device failed meanwhile. */
    task->head.ended_at = tt_instant_max(head->ended_at, task->head.started_at);
    task->head.outcome = done && stopped >= 0 ? TT_OUTCOME_PREEMPTED : head->outcome;
    task->head.last_step_done = !done          ? task->head.first_step - 1
                                : stopped >= 0 ? stopped
                                               : task->head.last_step;
    return ends;
}

/* Called by the set, on a thread of the device or of the caller. */
static void came_back(void *context, struct tt_device_task *head) {
    struct tt_stream_engine *self = context;
    struct tt_stream_place *place = place_of(head);
    struct tt_engine_task *task = place->task;
    if (place->cells) {
        tt_stream_cells_settle(place);
        tt_flag_raise(&place->has_ended);
        tt_flag_raise(&place->is_over); /* from here on the place may be used again */
        call_done(self, task);
        return;
    }
    bool ends = note_outcome(place, head);
    tt_flag_raise(&place->has_ended);
    if (head->outcome == TT_OUTCOME_DONE) {
        tt_stream_place_proves(place);
        tt_engine_task_step_ended(task, task->head.last_step_done, head->ended_at);
        if (ends && place->valid.count > 0)
            tt_stream_place_answer(place);
        else if (task->head.outcome == TT_OUTCOME_DONE && tt_stream_exits_any(place))
            tt_stream_exits_take(place);
    } else {
        tt_stream_place_fail(place);
    }
    for (int32_t i = 0; ends && i < place->valid.count; i++) {
        tt_stream_model_give(place->valid.members[i]->state);
        place->valid.members[i]->state = NULL;
    }
    if (task->head.outcome == TT_OUTCOME_PREEMPTED) /* what they copied is no output */
        task->copies_out = (struct tt_engine_copies){0};
    if (task->copies_out.begin_at > 0)
        task->copies_out.end_at = head->ended_at;
    bool copies_first = place->transfer == TT_STREAM_WHOLE && task->copies_out.begin_at > 0;
    if (!place->gives_answers)
        note_times(place, copies_first ? task->copies_out.begin_at
                                       : tt_instant_min(place->async.computed_at, head->ended_at));
    tt_flag_raise(&place->is_over); /* from here on the place may be used again */
    call_done(self, task);
}

/* On the thread of the stream: its results and states go nowhere. */
static void lost_returned(struct tt_stream_place *place) {
    struct tt_engine_task *task = place->task;
    task->head.outcome = TT_OUTCOME_LOST;
    task->head.last_step_done = task->head.first_step - 1;
    for (int32_t i = 0; i < place->valid.count; i++)
        place->valid.members[i]->err = TT_ERR_TIMEOUT;
    for (int32_t i = 0; place->cells && i < task->member_count; i++)
        task->cells[i].err = TT_ERR_TIMEOUT;
    call_done(engine_of(task->model->engine), task);
}

/* ---- submitting ---- */

/* For the order checker: what the host knows to have ended comes before all that it submits from
 * now on. */
static void note_returned(struct tt_stream_engine *self) {
    if (!self->device->order || !self->set)
        return;
    for (int32_t i = 0; i < tt_stream_engine_places(self); i++) {
        struct tt_stream_place *place = &self->places[i];
        if (place->is_known || !place->task || !tt_flag_is_raised(&place->has_ended))
            continue;
        place->is_known =
            tt_async_executors_take_back(self->set, &place->async) &&
            (!place->outputs_left || tt_async_event_query(place->outputs_left, NULL) == TT_OK);
    }
}

/* The place of the task that this one names: the newest of that address. The caller has not taken
 * that task back. */
static struct tt_stream_place *place_named(struct tt_stream_engine *self,
                                           const struct tt_engine_task *after) {
    uint64_t depth = (uint64_t)self->depth, count = self->submitted[after->head.executor];
    for (uint64_t k = 1; k <= depth && k <= count; k++) {
        int32_t index = after->head.executor * self->depth + (int32_t)((count - k) % depth);
        if (self->places[index].task == after)
            return &self->places[index];
    }
    return NULL;
}

/* Takes over what the members of the task named by `after` left: those that take no part, why. What
 * the others find on the device is not known yet. */
static void take_over(struct tt_engine_task *task, const struct tt_stream_place *before) {
    int32_t valid = 0;
    for (int32_t i = 0; i < task->member_count; i++) {
        const struct tt_engine_member *from = &task->after->members[i];
        struct tt_engine_member *member = &task->members[i];
        bool is_valid = valid < before->valid.count && before->valid.members[valid] == from;
        valid += is_valid;
        member->state = from->state;
        member->err = is_valid ? TT_OK : from->err;
        if (member->err && member->why && from->why && from->why != member->why)
            *member->why = *from->why;
    }
}

/* Gives a state to each member of a task that ends between two steps. Members that find none are
 * left out. */
static void take_states(struct tt_stream_place *place) {
    struct tt_engine_valid_members *valid = &place->valid;
    int32_t kept = 0;
    if (tt_stream_place_ends_model(place) || place->task->head.first_step > 0)
        return;
    tt_stream_model_take(place->model, valid->members, valid->count);
    for (int32_t i = 0; i < valid->count; i++) {
        struct tt_engine_member *member = valid->members[i];
        if (member->state) {
            valid->members[kept++] = member;
            continue;
        }
        valid->rows -= member->rows;
        member->err = tt_fail(TT_ERR_BUSY, member->why,
                              "no slots for %d rows between the steps; the model has %d",
                              member->rows, place->model->program.slot_count);
    }
    valid->count = kept;
}

/* The mean of the steps' shares, by their times. */
static int32_t demand_of(const struct tt_stream_program *program, const struct tt_device_task *head,
                         int32_t rows) {
    if (!program->demand_ppm)
        return TT_DEMAND_WHOLE;
    __int128 weighted = 0;
    int64_t sum_ns = 0;
    for (int32_t step = head->first_step; step <= head->last_step; step++) {
        int64_t step_ns =
            program->latency_ns ? program->latency_ns(program->context, rows, 0, step, step) : 1;
        weighted += (__int128)step_ns * program->demand_ppm(program->context, rows, 0, step);
        sum_ns += step_ns;
    }
    int32_t demand_ppm = sum_ns > 0 ? (int32_t)(weighted / sum_ns) : TT_DEMAND_WHOLE;
    return demand_ppm > 0 ? demand_ppm : 1;
}

static void describe(struct tt_stream_place *place, struct tt_stream_place *before) {
    const struct tt_stream_program *program = &place->model->program;
    const struct tt_device_task *head = &place->task->head;
    int32_t rows = place->valid.rows;
    int64_t work_ns = 1;
    if (program->latency_ns && rows > 0)
        work_ns = program->latency_ns(program->context, rows, 0, head->first_step, head->last_step);
    place->after = before ? &before->async : NULL;
    place->async = (struct tt_async_task){
        .user = place->task,
        .max_run_ns = place->task->max_run_ns,
        .why = &place->why,
        .head = {.executor = head->executor,
                 .first_step = head->first_step,
                 .last_step = head->last_step,
                 .submitted_at = tt_async_device_now(place->model->device)},
        .kernel = {.name = "batch",
                   .run = tt_stream_place_run,
                   .enqueue = tt_stream_place_enqueue,
                   .context = place,
                   .work_ns = work_ns > 0 ? work_ns : 1,
                   .demand_ppm = rows > 0 ? demand_of(program, head, rows) : TT_DEMAND_WHOLE},
        .after = &place->after,
        .after_count = before != NULL,
        .put = tt_stream_place_put};
}

static bool return_failed(struct tt_engine *engine) {
    struct tt_stream_engine *self = engine_of(engine);
    bool may_wait = !is_in_done; /* else perhaps on a stream, which cannot wait for its own end */
    for (int32_t i = 0; may_wait && i < tt_stream_engine_places(self); i++)
        may_wait = tt_stream_place_shut(&self->places[i]);
    if (!may_wait || !self->set)
        return may_wait;
    self->ended = self->set;
    self->set = NULL;
    if (self->copies_in)
        tt_async_stream_close(self->copies_in);
    self->copies_in = NULL;
    tt_stream_arrivals_stop(&self->arrivals);
    tt_async_executors_end(self->ended);
    return true;
}

static void order_begin(struct tt_stream_engine *self) {
    if (self->device->order)
        tt_lock_take(&self->order_lock);
}

static void order_end(struct tt_stream_engine *self) {
    if (self->device->order)
        tt_lock_give(&self->order_lock);
}

static void put_requests(struct tt_stream_engine *self, struct tt_stream_place *place,
                         struct tt_engine_task *task, struct tt_stream_place *before) {
    const struct tt_device_task *head = &task->head;
    place->cells = NULL;
    place->arena = place->model->arenas[place - self->places];
    if (task->after)
        take_over(task, before);
    tt_engine_task_begin(task, &place->model->signature, &place->valid);
    tt_assert(!tt_stream_exits_within(place));
    tt_assert(!before || !tt_stream_exits_any(before));
    take_states(place);
    if (head->first_step == 0)
        tt_stream_place_find_inputs(place);
    note_returned(self); /* the tasks that had these slots may have ended just now */
    describe(place, before);
    tt_stream_place_list_memory(place);
    bool brings = self->transfer == TT_STREAM_EACH && head->first_step == 0;
    if (self->set && brings && place->staged > 0)
        tt_stream_place_bring(place, self->copies_in);
}

static void put_task(struct tt_stream_engine *self, struct tt_device_task *head) {
    struct tt_engine_task *task = tt_engine_task_of(head);
    note_returned(self);
    struct tt_stream_place *before = task->after ? place_named(self, task->after) : NULL;
    tt_assert(!task->after || before);
    int32_t index = head->executor * self->depth +
                    (int32_t)(self->submitted[head->executor]++ % (uint64_t)self->depth);
    struct tt_stream_place *place = &self->places[index];
    tt_stream_place_begin(place, task, before);
    place->model = model_of(task->model);
    if (place->model->cells) {
        tt_stream_cells_resolve(place, &place->model->cells->works[index]);
        note_returned(self); /* it names none that have ended just now */
    } else {
        put_requests(self, place, task, before);
    }
    if (self->set) {
        tt_async_executors_submit(self->set, &place->async);
        return;
    }
    place->async.head.outcome = TT_OUTCOME_FAILED;
    place->async.head.started_at = place->async.head.ended_at = place->async.computed_at =
        tt_async_device_now(self->device);
    came_back(self, &place->async.head);
}

static void submit(void *engine, struct tt_device_task *head) {
    struct tt_stream_engine *self = engine;
    tt_async_hold(self->device);
    order_begin(self);
    put_task(self, head);
    order_end(self);
    tt_async_let_go(self->device);
}

/* ---- inputs that are copied when they arrive ---- */

static bool takes_inputs(const struct tt_engine *engine) {
    return engine_of((struct tt_engine *)engine)->arrivals.is_used;
}

static enum tt_err open_inputs(struct tt_engine_model *engine_model, int32_t slots,
                               char **out_bytes, struct tt_error *why) {
    struct tt_stream_model *model = model_of(engine_model);
    tt_assert(!model->inputs);
    enum tt_err err = tt_stream_inputs_new(
        &engine_of(engine_model->engine)->arrivals, model->layout.input_row_bytes,
        model->signature.input_count, slots, &model->inputs, why);
    for (int32_t i = 0; !err && i < model->signature.input_count; i++)
        out_bytes[i] = tt_stream_inputs_bytes(model->inputs, i);
    return err;
}

static void send_inputs(struct tt_engine_model *model, int32_t first_slot, int32_t rows) {
    struct tt_stream_engine *self = engine_of(model->engine);
    tt_async_hold(self->device);
    order_begin(self);
    note_returned(self);
    tt_stream_inputs_send(model_of(model)->inputs, first_slot, rows);
    order_end(self);
    tt_async_let_go(self->device);
}

static void settle_inputs(struct tt_engine_model *model, int32_t first_slot, int32_t rows) {
    tt_stream_inputs_settle(model_of(model)->inputs, first_slot, rows);
}

static struct tt_engine_copies copies_of(const struct tt_engine_model *model, int32_t first_slot) {
    return tt_stream_inputs_copies(model_of(model)->inputs, first_slot);
}

static const struct tt_engine_input_ops input_ops = {
    .open = open_inputs, .send = send_inputs, .settle = settle_inputs, .copies = copies_of};

static void yield(void *engine, struct tt_device_task *head) {
    struct tt_stream_place *place = place_named(engine, tt_engine_task_of(head));
    if (place && !place->cells)
        tt_stream_place_yield(place);
}

/* A task that was asked to stop may end as DONE. */
static void stop_none(void *self, struct tt_device_task *task) {
    (void)self;
    (void)task;
}

static bool has_failed(struct tt_engine *engine, struct tt_error *why) {
    return tt_async_device_probe(engine_of(engine)->device, why) != TT_OK;
}

static bool running(struct tt_engine *engine, int32_t executor, struct tt_engine_running *out) {
    return tt_stream_watch_running(engine_of(engine)->set, executor, out);
}
static void cut(struct tt_engine *engine, const struct tt_engine_running *run) {
    tt_stream_watch_cut(engine_of(engine)->set, run);
}
static enum tt_err prepare(struct tt_engine *engine, int32_t executor, struct tt_error *why) {
    (void)engine; /* nothing replaces a stream */
    (void)executor;
    (void)why;
    return TT_OK;
}
static bool replace(struct tt_engine *engine, const struct tt_engine_running *run) {
    return tt_stream_watch_give_up(engine_of(engine)->set, run);
}
static const struct tt_engine_watch_ops watch = {
    .running = running, .cut = cut, .prepare = prepare, .replace = replace};

/* ---- the rest of the interface ---- */

static int32_t step_count(const struct tt_engine_model *model) {
    return model_of(model)->program.step_count;
}
static const struct tt_signature *signature_of(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}
static int32_t stage_slots(const struct tt_engine_model *model) {
    return model_of(model)->slot_total;
}
static int32_t cell_slots(const struct tt_engine_model *model) {
    return model_of(model)->cells->set->slot_count;
}
static enum tt_err cell_emit(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                             int32_t slot, int32_t most) {
    return tt_cell_answer_emit(answer, model_of(model)->cells->set, slot, most);
}
static enum tt_err cell_finish(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                               int32_t slot, struct tt_engine_result **out_result) {
    return tt_cell_answer_finish(answer, model_of(model)->cells->set, slot, out_result);
}
static void unload(struct tt_engine_model *take_model) {
    if (!take_model)
        return;
    struct tt_stream_engine *self = engine_of(take_model->engine);
    order_begin(self);
    for (int attempt = 0; attempt < 2; attempt++) /* the device may refuse one query */
        note_returned(self);
    order_end(self);
    struct tt_stream_program program = model_of(take_model)->program;
    tt_stream_model_free(model_of(take_model));
    if (program.release)
        program.release(program.context);
}

static void close_engine(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct tt_stream_engine *self = engine_of(take_engine);
    tt_async_executors_close(self->set);
    tt_async_executors_close(self->ended);
    if (self->copies_in)
        tt_async_stream_close(self->copies_in);
    tt_stream_arrivals_stop(&self->arrivals);
    tt_lock_fini(&self->arrivals.notes);
    tt_lock_fini(&self->arrivals.lock);
    tt_lock_fini(&self->order_lock);
    for (int32_t i = 0; self->places && i < tt_stream_engine_places(self); i++) {
        struct tt_stream_place *place = &self->places[i];
        if (place->inputs_came)
            tt_async_event_close(place->inputs_came);
        if (place->outputs_left)
            tt_async_event_close(place->outputs_left);
        tt_engine_valid_members_fini(&place->valid);
        tt_lock_fini(&place->lock);
        free(place->slots);
        free(place->ring_slots);
        free(place->answers);
    }
    free(self->places);
    free(self->submitted);
    free(self->native_streams);
    free(self);
}

static const struct tt_engine_ops ops = {
    .name = "streams",
    .answers_each = true,
    .device = {.submit = submit, .yield = yield, .abort = stop_none},
    .watch = &watch,
    .inputs = &input_ops,
    .takes_inputs = takes_inputs,
    .has_failed = has_failed,
    .return_failed = return_failed,
    .step_count = step_count,
    .signature = signature_of,
    .stage_slots = stage_slots,
    .cell_slots = cell_slots,
    .tells_answers = true,
    .cell_emit = cell_emit,
    .cell_finish = cell_finish,
    .unload = unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = tt_stream_model_give,
    .close = close_engine,
};

/* ---- opening ---- */

static enum tt_err open_streams(struct tt_stream_engine *self,
                                const struct tt_stream_engine_options *options,
                                struct tt_error *why) {
    const struct tt_async_executors_options set = {.device = options->device,
                                                   .executor_count = self->engine.executor_count,
                                                   .depth = self->depth,
                                                   .notify_apart = true,
                                                   .notes_starts = true,
                                                   .keeps_failed = true,
                                                   .done = came_back,
                                                   .done_context = self};
    enum tt_err err = tt_async_executors_open(&set, &self->set, why);
    for (int32_t e = 0; !err && e < self->engine.executor_count; e++)
        self->native_streams[e] = tt_async_stream_native(tt_async_executors_stream(self->set, e));
    if (err || self->transfer == TT_STREAM_WHOLE)
        return err;
    err = tt_async_stream_open(self->device, &self->copies_in, why);
    if (!err)
        err = tt_async_stream_open(self->device, &self->arrivals.stream, why);
    self->arrivals.device = self->device;
    self->arrivals.is_used = !err;
    for (int32_t i = 0; !err && i < tt_stream_engine_places(self); i++) {
        err = tt_async_event_open(self->device, &self->places[i].inputs_came, why);
        if (!err && self->device->order)
            err = tt_async_event_open(self->device, &self->places[i].outputs_left, why);
    }
    return err;
}

enum tt_err tt_stream_engine_open(const struct tt_stream_engine_options *options,
                                  struct tt_engine **out_engine, struct tt_error *why) {
    int32_t executors = options->engine.executor_count, depth = options->engine.queue_depth;
    if (executors < 1 || depth < 1)
        return tt_fail(
            TT_ERR_INVALID, why,
            "an engine with %d executors and a queue depth of %d; both must be at least 1",
            executors, depth);
    struct tt_stream_engine *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors", executors);
    self->engine = (struct tt_engine){.ops = &ops,
                                      .executor_count = executors,
                                      .done = options->engine.done,
                                      .done_context = options->engine.done_context};
    tt_lock_init(&self->arrivals.notes);
    tt_lock_init(&self->arrivals.lock);
    tt_lock_init(&self->order_lock);
    self->arrivals.queue_depth = options->queue_depth;
    self->device = options->device;
    self->transfer = options->transfer;
    self->depth = depth;
    self->has_room = options->max_rows > 0;
    self->queue_depth = options->queue_depth;
    self->places = calloc((size_t)executors * (size_t)depth, sizeof(*self->places));
    self->submitted = calloc((size_t)executors, sizeof(*self->submitted));
    self->native_streams = calloc((size_t)executors, sizeof(*self->native_streams));
    for (int32_t i = 0; self->places && i < tt_stream_engine_places(self); i++) {
        tt_lock_init(&self->places[i].lock);
        self->places[i].lost = lost_returned;
        self->places[i].answer = member_came;
    }
    enum tt_err err =
        self->places && self->submitted && self->native_streams
            ? open_streams(self, options, why)
            : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors", executors);
    for (int32_t i = 0; !err && i < tt_stream_engine_places(self); i++)
        self->places[i].transfer = self->transfer;
    if (!err && options->max_rows > 0 && !tt_stream_engine_make_room(self, options->max_rows))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for batches of %d rows",
                      options->max_rows);
    if (err) {
        close_engine(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}
