#include "engine/emulated/emulated.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/prng.h"
#include "core/profile.h"
#include "engine/emulated/emulated_cells.h"
#include "engine/emulated/emulated_device.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/thread_executors.h"

#include <stdlib.h>
#include <string.h>

struct emulated_executor {
    struct tt_executor_thread thread; /* first */
    struct tt_gather_buffer buffers[TT_MAX_TENSORS];
    struct tt_tensor_view inputs[TT_MAX_TENSORS]; /* of the running batch */
    struct tt_engine_valid_members valid;
    struct tt_emulated_device *device;
    int32_t place; /* the executor's index on its device */
    int64_t abort_ns;
    struct tt_network_delay delay; /* S4: of messages to it */
    int32_t jitter_permille;
    struct tt_noise noise;
    struct tt_prng prng; /* source of jitter and noise */
    bool is_punctual;    /* its thread has asked for exact wake-up times */
};

struct emulated_engine {
    struct tt_thread_engine threads; /* first */
    struct tt_emulated_device *devices;
    int32_t device_count;
    struct tt_perturbation *perturbations; /* since opened_at */
    int32_t perturbation_count;
    int64_t opened_at;
};

struct emulated_model {
    struct tt_engine_model model;
    int32_t step_count;
    tt_engine_latency_fn *latency_ns;
    void *latency_context;
    tt_engine_demand_fn *demand_ppm;
    int64_t input_bytes, output_bytes;
    struct tt_emulated_cells cells; /* options.cells NULL: a model of one graph */
    struct tt_signature signature;
};

static struct emulated_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct emulated_engine, threads.engine);
}

static struct emulated_executor *executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct emulated_executor, thread);
}

static struct emulated_executor *executor_at(struct emulated_engine *self, int32_t index) {
    return executor_of(tt_thread_engine_executor(&self->threads, index));
}

static struct emulated_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF((struct tt_engine_model *)model, struct emulated_model, model);
}

static bool specs_agree(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b) {
    return a->dtype == b->dtype && a->shape.rank == b->shape.rank &&
           memcmp(a->shape.dims, b->shape.dims, (size_t)a->shape.rank * sizeof(a->shape.dims[0])) ==
               0;
}

/* The shape of an output: the signature's. A variable dimension is that of the first input, else
 * 1. */
static struct tt_shape output_shape(const struct emulated_executor *self,
                                    const struct tt_signature *signature, int32_t index) {
    struct tt_shape shape = signature->outputs[index].shape;
    for (int32_t i = 0; i < shape.rank; i++) {
        bool is_rows = signature->batched && i == 0;
        const struct tt_shape *input = &self->inputs[0].shape;
        bool has_input = signature->input_count > 0 && i < input->rank;
        if (is_rows)
            shape.dims[i] = self->valid.rows;
        else if (shape.dims[i] < 0)
            shape.dims[i] = has_input ? input->dims[i] : 1;
    }
    return shape;
}

static enum tt_err fill_output(const struct emulated_executor *self,
                               const struct tt_signature *signature, int32_t index,
                               struct tt_engine_result *result) {
    const struct tt_tensor_spec *spec = &signature->outputs[index];
    struct tt_engine_output *output = &result->outputs[index];
    const struct tt_tensor_view *input = &self->inputs[0];
    bool copies = signature->input_count > 0 && specs_agree(spec, &signature->inputs[0]);
    bool strings = spec->dtype == TT_DTYPE_BYTES;
    if (copies) {
        output->view = *input;
    } else {
        output->view.shape = output_shape(self, signature, index);
        int64_t count = tt_shape_count(&output->view.shape, 0);
        size_t element_bytes = strings ? 4 : tt_dtype_bytes(spec->dtype);
        if (count < 0 ||
            __builtin_mul_overflow((size_t)count, element_bytes, &output->view.size_bytes))
            return TT_ERR_NO_MEMORY;
    }
    output->memory = calloc(output->view.size_bytes ? output->view.size_bytes : 1, 1);
    if (!output->memory)
        return TT_ERR_NO_MEMORY;
    if (copies && input->size_bytes)
        memcpy(output->memory, input->bytes, input->size_bytes);
    output->view.bytes = output->memory;
    return strings && signature->batched ? tt_engine_result_index_rows(result, index) : TT_OK;
}

static void answer(struct emulated_executor *self, const struct tt_signature *signature) {
    struct tt_engine_valid_members *valid = &self->valid;
    struct tt_engine_result *result = tt_engine_result_new(valid->count, signature->output_count,
                                                           signature->batched, valid->rows);
    enum tt_err err = result ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t i = 0; !err && i < signature->output_count; i++)
        err = fill_output(self, signature, i, result);
    if (!err) {
        tt_engine_members_share(valid->members, valid->count, result);
        return;
    }
    tt_engine_result_free(result);
    struct tt_error why;
    tt_fail(err, &why, "out of memory for the outputs of a batch of %d rows", valid->rows);
    tt_engine_members_fail(valid->members, valid->count, err, &why);
}

static bool bind_inputs(struct emulated_executor *self, struct tt_engine_task *task,
                        const struct tt_signature *signature) {
    for (int32_t i = 0; i < signature->input_count; i++) {
        enum tt_err err =
            tt_gather_input(signature, i, self->valid.members, self->valid.count, task->head.length,
                            &self->buffers[i], &task->gathered_bytes, &self->inputs[i]);
        if (err) {
            struct tt_error why;
            tt_fail(err, &why, "out of memory for input '%s' of a batch",
                    signature->inputs[i].name);
            tt_engine_members_fail(self->valid.members, self->valid.count, err, &why);
            return false;
        }
    }
    return true;
}

static int32_t length_of(const struct emulated_executor *self, const struct tt_engine_task *task,
                         const struct tt_signature *signature) {
    if (task->head.length > 0)
        return task->head.length;
    bool varies = signature->input_count > 0 && signature->inputs[0].shape.rank >= 2 &&
                  signature->inputs[0].shape.dims[1] < 0;
    return varies ? (int32_t)self->inputs[0].shape.dims[1] : 0;
}

/* Until notified, at most until the instant. A run on another thread is short, and the executor's
 * own thread may wait on the eventcount: it polls. Else the wait must be exact, or short batches
 * would seem to take 50 us longer. */
static void rest(struct emulated_executor *self, int64_t until_at) {
    if (self->thread.is_here)
        return;
    if (!self->is_punctual)
        tt_eventcount_be_punctual();
    self->is_punctual = true;
    tt_eventcount_wait(&self->thread.eventcount, until_at);
}

/* False if the task was aborted. */
static bool wait_until(struct emulated_executor *self, int64_t until_at) {
    while (tt_executor_thread_asked(&self->thread) != TT_EXECUTOR_ABORT) {
        if (tt_clock_now() >= until_at)
            return true;
        rest(self, until_at);
    }
    return false;
}

/* Same distributions as in the simulator. The jitter in millionths: uniform on the integers -j ..
 * +j. */
static int64_t with_noise(struct emulated_executor *self, int64_t work_ns) {
    work_ns = tt_noise_of(&self->noise, &self->prng, work_ns);
    if (self->jitter_permille == 0)
        return work_ns;
    uint64_t width = (uint64_t)self->jitter_permille * 2000 + 1;
    int64_t ppm =
        (int64_t)tt_prng_below(&self->prng, width) - (int64_t)self->jitter_permille * 1000;
    return work_ns + (int64_t)((__int128)work_ns * ppm / 1000000);
}

/* How long work that begins at `at` takes at the speeds that the device has meanwhile. */
static int64_t at_speed(const struct emulated_executor *self, int64_t at, int64_t work_ns) {
    const struct emulated_engine *engine = engine_of(self->thread.engine);
    if (engine->perturbation_count == 0)
        return work_ns;
    int64_t from_ns = tt_instant_max(at - engine->opened_at, 0);
    return tt_perturbation_end(engine->perturbations, engine->perturbation_count, from_ns,
                               work_ns) -
           from_ns;
}

/* Waits for one step that begins at *at, and sets *at to its end. False if the task was aborted. */
static bool compute(struct emulated_executor *self, const struct emulated_model *model,
                    int32_t step, int32_t rows, int32_t length, int64_t extra_ns, int64_t *at) {
    int64_t work_ns =
        extra_ns + model->latency_ns(model->latency_context, rows, length, step, step);
    int32_t demand_ppm = model->demand_ppm
                             ? model->demand_ppm(model->latency_context, rows, length, step)
                             : TT_DEMAND_WHOLE;
    work_ns = at_speed(self, *at, with_noise(self, work_ns));
    tt_emulated_device_begin(self->device, self->place, &self->thread.eventcount, *at, work_ns,
                             demand_ppm);
    while (tt_executor_thread_asked(&self->thread) != TT_EXECUTOR_ABORT) {
        int64_t until_at;
        if (tt_emulated_device_ended(self->device, self->place, tt_clock_now(), &until_at)) {
            *at = until_at;
            return true;
        }
        rest(self, until_at);
    }
    tt_emulated_device_stop(self->device, self->place, tt_clock_now());
    return false;
}

/* Waits for the copy of the batch's rows that begins at *at. False if the task was aborted. */
static bool copy(struct emulated_executor *self, struct tt_copy_engine *engine, int64_t row_bytes,
                 int64_t *at) {
    if (row_bytes == 0)
        return true;
    *at = tt_emulated_device_copy(self->device, engine, *at, row_bytes * self->valid.rows);
    return wait_until(self, *at);
}

static void recover(struct emulated_executor *self) {
    int64_t until_at = tt_clock_now() + self->abort_ns;
    while (self->abort_ns > 0 && tt_clock_now() < until_at)
        rest(self, until_at);
}

static void give_up(struct emulated_executor *self, struct tt_engine_task *task) {
    recover(self);
    tt_engine_task_give_up(task);
}

static void run_steps(struct emulated_executor *self, struct tt_engine_task *task,
                      const struct emulated_model *model) {
    int32_t length = length_of(self, task, &model->signature);
    /* D4: exact if it follows a task */
    int64_t at = tt_instant_max(task->head.started_at, task->head.received_at);
    if (task->head.first_step == 0 &&
        !copy(self, &self->device->copy_in, model->input_bytes, &at)) {
        give_up(self, task);
        return;
    }
    for (int32_t step = task->head.first_step; step <= task->head.last_step; step++) {
        if (!compute(self, model, step, self->valid.rows, length, 0, &at)) {
            give_up(self, task);
            return;
        }
        task->head.last_step_done = step;
        tt_engine_task_step_ended(task, step, at);
        if (step < task->head.last_step &&
            tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_YIELD) {
            task->head.outcome = TT_OUTCOME_PREEMPTED;
            return;
        }
    }
    task->hand_on.ended_at = at;
    if (task->head.last_step != model->step_count - 1)
        return;
    if (copy(self, &self->device->copy_out, model->output_bytes, &at))
        answer(self, &model->signature);
    else
        give_up(self, task);
}

/* The progress of a task of cells. */
struct cell_time {
    struct emulated_executor *self;
    const struct emulated_model *model;
    int64_t at;
};

static bool pass(void *context, int32_t step, int32_t rows, int32_t length, int64_t extra_ns,
                 int64_t *out_at) {
    struct cell_time *time = context;
    bool done = compute(time->self, time->model, step, rows, length, extra_ns, &time->at);
    *out_at = time->at;
    return done;
}

static void run_cells(struct emulated_executor *self, struct emulated_model *model,
                      struct tt_engine_task *task) {
    struct cell_time time = {.self = self,
                             .model = model,
                             .at = tt_instant_max(task->head.started_at, task->head.received_at)};
    struct tt_emulated_clock clock = {
        .thread = &self->thread, .pass = pass, .context = &time, .asked = tt_executor_thread_asked};
    tt_emulated_cells_run(&model->cells, task, &clock);
    if (task->head.outcome == TT_OUTCOME_ABORTED)
        recover(self);
}

/* S4: waits until the task's message has arrived. Messages travel while earlier tasks run. False:
 * the task was aborted before. */
static bool receive(struct emulated_executor *self, struct tt_engine_task *task) {
    if (self->delay.control_ns == 0 && self->delay.data_ns == 0)
        return true;
    int64_t at = task->head.submitted_at + tt_network_delay_of(self->delay, task->head.rows);
    if (!wait_until(self, at))
        return false;
    task->head.received_at = at;
    return true;
}

static void emulated_run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct emulated_executor *self = executor_of(thread);
    struct emulated_model *model = model_of(task->model);
    tt_assert(task->head.first_step >= 0);
    tt_assert(task->head.first_step <= task->head.last_step);
    tt_assert(task->head.last_step < model->step_count);
    tt_assert((model->cells.options.cells != NULL) == (task->kind != TT_ENGINE_REQUESTS));
    if (!receive(self, task)) {
        give_up(self, task);
        return;
    }
    if (model->cells.options.cells) {
        run_cells(self, model, task);
        return;
    }
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.first_step - 1;
    tt_engine_task_begin(task, &model->signature, &self->valid);
    if (self->valid.count > 0 && bind_inputs(self, task, &model->signature))
        run_steps(self, task, model);
    else
        task->head.last_step_done =
            task->head.last_step; /* no member is left: all steps count as done */
}

static void emulated_interrupt(struct tt_executor_thread *thread) {
    tt_eventcount_notify(&thread->eventcount);
}

/* The numbers of its jitter and noise are others than the old one's. */
static enum tt_err emulated_renew(struct tt_executor_thread *thread,
                                  const struct tt_executor_thread *old_thread) {
    struct emulated_executor *self = executor_of(thread);
    const struct emulated_executor *old =
        TT_CONTAINER_OF(old_thread, const struct emulated_executor, thread);
    self->device = old->device;
    self->place = old->place;
    self->abort_ns = old->abort_ns;
    self->delay = old->delay;
    self->jitter_permille = old->jitter_permille;
    self->noise = old->noise;
    tt_prng_init(&self->prng, (uint64_t)old_thread->index, 0);
    return TT_OK;
}

static void emulated_release(struct tt_executor_thread *thread) {
    struct emulated_executor *self = executor_of(thread);
    for (size_t k = 0; k < TT_COUNT(self->buffers); k++)
        tt_gather_buffer_fini(&self->buffers[k]);
    tt_engine_valid_members_fini(&self->valid);
}

static const struct tt_executor_thread_ops executor_ops = {
    .run = emulated_run,
    .interrupt = emulated_interrupt,
    .renew = emulated_renew,
    .release = emulated_release,
};

static int32_t emulated_step_count(const struct tt_engine_model *model) {
    return model_of(model)->step_count;
}

static const struct tt_signature *emulated_signature(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

static void emulated_unload(struct tt_engine_model *take_model) {
    if (!take_model)
        return;
    struct emulated_model *self = model_of(take_model);
    tt_emulated_cells_fini(&self->cells);
    free(self);
}

static void emulated_close(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct emulated_engine *self = engine_of(take_engine);
    tt_thread_engine_stop(&self->threads);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        emulated_release(tt_thread_engine_executor(&self->threads, i));
    for (int32_t d = 0; d < self->device_count; d++)
        tt_emulated_device_fini(&self->devices[d]);
    free(self->devices);
    free(self->perturbations);
    tt_thread_engine_free(&self->threads);
}

static const struct tt_engine_ops ops = {
    .name = "emulated",
    .device = TT_THREAD_ENGINE_DEVICE,
    .run_here = tt_thread_engine_run_here,
    .watch = &tt_thread_engine_watch,
    .step_count = emulated_step_count,
    .signature = emulated_signature,
    .unload = emulated_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .cell_emit = tt_emulated_cells_emit,
    .cell_finish = tt_emulated_cells_finish,
    .state_release = tt_engine_no_state_release,
    .close = emulated_close,
};

static enum tt_err add_device(struct emulated_engine *self, struct tt_engine_device given,
                              int32_t first_executor, struct tt_error *why) {
    struct tt_emulated_device *device = &self->devices[self->device_count];
    if (given.executors < 1 ||
        first_executor + given.executors > self->threads.engine.executor_count)
        return tt_fail(TT_ERR_INVALID, why,
                       "device %d has %d executors; the devices' must sum to the engine's %d",
                       self->device_count, given.executors, self->threads.engine.executor_count);
    if (tt_emulated_device_init(device, given.executors) != TT_OK)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a device");
    self->device_count++;
    self->threads.engine.is_remote |= given.delay.control_ns > 0 || given.delay.data_ns > 0;
    device->copy_in = given.copy_in;
    device->copy_out = given.copy_out;
    for (int32_t e = 0; e < given.executors; e++) {
        struct emulated_executor *executor = executor_at(self, first_executor + e);
        executor->device = device;
        executor->place = e;
        executor->abort_ns = given.abort_ns;
        executor->delay = given.delay;
    }
    return TT_OK;
}

static enum tt_err add_devices(struct emulated_engine *self,
                               const struct tt_engine_options *options, struct tt_error *why) {
    int32_t count = options->devices ? options->device_count : options->executor_count;
    self->devices = calloc((size_t)count, sizeof(*self->devices));
    if (!self->devices)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d devices", count);
    int32_t executor = 0;
    for (int32_t d = 0; d < count; d++) {
        struct tt_engine_device given = {.executors = 1};
        if (options->devices)
            given = options->devices[d];
        enum tt_err err = add_device(self, given, executor, why);
        if (err)
            return err;
        executor += given.executors;
    }
    tt_assert(executor == options->executor_count);
    return TT_OK;
}

static enum tt_err take_perturbations(struct emulated_engine *self,
                                      const struct tt_engine_options *options,
                                      struct tt_error *why) {
    size_t bytes = sizeof(*self->perturbations) * (size_t)options->perturbation_count;
    if (bytes == 0)
        return TT_OK;
    self->perturbations = malloc(bytes);
    if (!self->perturbations)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an emulated engine");
    memcpy(self->perturbations, options->perturbations, bytes);
    self->perturbation_count = options->perturbation_count;
    return TT_OK;
}

enum tt_err tt_emulated_engine_open(const struct tt_engine_options *options,
                                    struct tt_engine **out_engine, struct tt_error *why) {
    static const struct tt_thread_engine_layout layout = {
        .engine_bytes = sizeof(struct emulated_engine),
        .executor_bytes = sizeof(struct emulated_executor),
        .ops = &ops};
    struct tt_thread_engine *threads;
    enum tt_err err = tt_thread_engine_open(&layout, options, &threads, why);
    if (err)
        return err;
    struct emulated_engine *self = engine_of(&threads->engine);
    self->opened_at = tt_clock_now();
    err = take_perturbations(self, options, why);
    if (!err)
        err = add_devices(self, options, why);
    for (int32_t i = 0; !err && i < options->executor_count; i++) {
        struct emulated_executor *executor = executor_at(self, i);
        executor->jitter_permille = options->jitter_permille;
        executor->noise = options->noise;
        tt_prng_init(&executor->prng, options->seed, (uint64_t)i);
    }
    if (!err)
        err = tt_thread_engine_start(threads, &executor_ops, why);
    if (err) {
        emulated_close(&threads->engine);
        return err;
    }
    *out_engine = &threads->engine;
    return TT_OK;
}

enum tt_err tt_emulated_engine_load(struct tt_engine *engine,
                                    const struct tt_engine_emulation *options,
                                    struct tt_engine_model **out_model, struct tt_error *why) {
    if (options->step_count < 1)
        return tt_fail(TT_ERR_INVALID, why, "an emulated model of %d steps; it needs at least 1",
                       options->step_count);
    struct emulated_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an emulated model");
    if (options->cells.cells && tt_emulated_cells_init(&self->cells, &options->cells) != TT_OK) {
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d cell slots",
                       options->cells.slot_count);
    }
    self->model.engine = engine;
    self->step_count = options->step_count;
    self->latency_ns = options->latency_ns;
    self->latency_context = options->latency_context;
    self->demand_ppm = options->demand_ppm;
    self->input_bytes = options->input_bytes;
    self->output_bytes = options->output_bytes;
    self->signature = *options->signature;
    *out_model = &self->model;
    return TT_OK;
}

/* ---- the kind ---- */

static enum tt_err kind_open(void *shared, const struct tt_engine_options *options,
                             struct tt_engine **out_engine, struct tt_error *why) {
    (void)shared;
    return tt_emulated_engine_open(options, out_engine, why);
}

static enum tt_err kind_load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                             struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_engine_emulation emulation = *spec->emulation;
    emulation.signature = spec->signature;
    if (spec->form != TT_ENGINE_CELL_SET)
        emulation.cells.cells = NULL;
    return tt_emulated_engine_load(engine, &emulation, out_model, why);
}

/* Of models of cells: their states have a memory. Others compute nothing. */
static enum tt_err compute_cells(struct tt_engine_model *model, const struct tt_dataflow *dataflow,
                                 int32_t step, int32_t rows, const void *const *in,
                                 void *const *out, struct tt_error *why) {
    (void)dataflow;
    (void)why;
    tt_emulated_cells_compute(model_of(model)->cells.options.cells, step, rows, in, out);
    return TT_OK;
}

const struct tt_engine_kind tt_emulated_engine_kind = {
    .traits = {.name = "emulated",
               .platform = "emulated",
               .needs_profile = true,
               .emulates = true,
               .runs_cells = true,
               .runs_on_streams = true},
    .open = kind_open,
    .load = kind_load,
    .compute = compute_cells,
};
