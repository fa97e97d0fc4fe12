#include "engine/emulated.h"

#include "base/clock.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/worker.h"

#include <stdlib.h>
#include <string.h>

struct emulated_worker {
    struct tt_worker worker;
    struct tt_gather_buffer buffers[TT_MAX_TENSORS];
    struct tt_tensor_view inputs[TT_MAX_TENSORS]; /* of the running batch */
    struct tt_engine_roll roll;
    bool is_punctual; /* its thread's waits end when they should */
};

struct emulated_engine {
    struct tt_engine engine;
    int32_t started;
    struct emulated_worker workers[];
};

struct emulated_model {
    struct tt_engine_model model;
    int32_t step_count;
    tt_emulated_latency_fn *latency_ns;
    void *latency_context;
    struct tt_signature signature;
};

static struct emulated_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct emulated_engine, engine);
}

static struct emulated_worker *worker_of(struct tt_worker *worker) {
    return TT_CONTAINER_OF(worker, struct emulated_worker, worker);
}

static const struct emulated_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, const struct emulated_model, model);
}

static bool specs_agree(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b) {
    return a->dtype == b->dtype && a->shape.rank == b->shape.rank &&
           memcmp(a->shape.dims, b->shape.dims, (size_t)a->shape.rank * sizeof(a->shape.dims[0])) ==
               0;
}

/* An output's shape: the signature's, its variable dimensions as in the first input, else 1. */
static struct tt_shape output_shape(const struct emulated_worker *self,
                                    const struct tt_signature *signature, int32_t index) {
    struct tt_shape shape = signature->outputs[index].shape;
    for (int32_t i = 0; i < shape.rank; i++) {
        bool is_rows = signature->batched && i == 0;
        const struct tt_shape *input = &self->inputs[0].shape;
        bool has_input = signature->input_count > 0 && i < input->rank;
        if (is_rows)
            shape.dims[i] = self->roll.rows;
        else if (shape.dims[i] < 0)
            shape.dims[i] = has_input ? input->dims[i] : 1;
    }
    return shape;
}

static enum tt_err fill_output(const struct emulated_worker *self,
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

static void answer(struct emulated_worker *self, const struct tt_signature *signature) {
    struct tt_engine_roll *roll = &self->roll;
    struct tt_engine_result *result =
        tt_engine_result_new(roll->count, signature->output_count, signature->batched, roll->rows);
    enum tt_err err = result ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t i = 0; !err && i < signature->output_count; i++)
        err = fill_output(self, signature, i, result);
    if (!err) {
        tt_engine_members_share(roll->members, roll->count, result);
        return;
    }
    tt_engine_result_free(result);
    struct tt_message why;
    tt_fail(err, &why, "out of memory for the outputs of a batch of %d rows", roll->rows);
    tt_engine_members_fail(roll->members, roll->count, err, &why);
}

static bool bind_inputs(struct emulated_worker *self, struct tt_engine_task *task,
                        const struct tt_signature *signature) {
    for (int32_t i = 0; i < signature->input_count; i++) {
        enum tt_err err =
            tt_gather_input(signature, i, self->roll.members, self->roll.count, task->length,
                            &self->buffers[i], &task->gathered_bytes, &self->inputs[i]);
        if (err) {
            struct tt_message why;
            tt_fail(err, &why, "out of memory for input '%s' of a batch",
                    signature->inputs[i].name);
            tt_engine_members_fail(self->roll.members, self->roll.count, err, &why);
            return false;
        }
    }
    return true;
}

static int32_t length_of(const struct emulated_worker *self, const struct tt_engine_task *task,
                         const struct tt_signature *signature) {
    if (task->length > 0)
        return task->length;
    bool varies = signature->input_count > 0 && signature->inputs[0].shape.rank >= 2 &&
                  signature->inputs[0].shape.dims[1] < 0;
    return varies ? (int32_t)self->inputs[0].shape.dims[1] : 0;
}

/* False where the task was aborted. */
static bool wait_until(struct emulated_worker *self, int64_t until_at) {
    if (!self->is_punctual && !self->worker.is_here) {
        tt_parker_be_punctual();
        self->is_punctual = true;
    }
    while (tt_worker_asked(&self->worker) != TT_WORKER_ABORT) {
        if (tt_clock_now() >= until_at)
            return true;
        if (!self->worker.is_here) /* else the parker is another thread's; it is not for long */
            tt_parker_park(&self->worker.parker, until_at);
    }
    return false;
}

static void run_steps(struct emulated_worker *self, struct tt_engine_task *task,
                      const struct emulated_model *model) {
    int32_t length = length_of(self, task, &model->signature);
    int64_t until_at = task->started_at;
    for (int32_t step = task->first_step; step <= task->last_step; step++) {
        until_at = tt_instant_add(until_at, model->latency_ns(model->latency_context,
                                                              self->roll.rows, length, step, step));
        if (!wait_until(self, until_at)) {
            tt_engine_task_give_up(task);
            return;
        }
        task->last_step_done = step;
        tt_engine_task_step_ended(task, step, tt_clock_now());
        if (step < task->last_step && tt_worker_asked(&self->worker) == TT_WORKER_YIELD) {
            task->outcome = TT_ENGINE_PREEMPTED;
            return;
        }
    }
    if (task->last_step == model->step_count - 1)
        answer(self, &model->signature);
}

static void emulated_run(struct tt_worker *worker, struct tt_engine_task *task) {
    struct emulated_worker *self = worker_of(worker);
    const struct emulated_model *model = model_of(task->model);
    tt_assert(task->first_step >= 0);
    tt_assert(task->first_step <= task->last_step);
    tt_assert(task->last_step < model->step_count);
    task->outcome = TT_ENGINE_DONE;
    task->last_step_done = task->first_step - 1;
    tt_engine_task_begin(task, &model->signature, &self->roll);
    if (self->roll.count > 0 && bind_inputs(self, task, &model->signature))
        run_steps(self, task, model);
    else
        task->last_step_done = task->last_step; /* nobody is left to run for */
}

static void emulated_arm(struct tt_worker *worker) { (void)worker; }

static void emulated_interrupt(struct tt_worker *worker) { tt_parker_unpark(&worker->parker); }

static const struct tt_worker_ops worker_ops = {
    .run = emulated_run,
    .arm = emulated_arm,
    .interrupt = emulated_interrupt,
};

static struct tt_worker *executor(struct tt_engine *engine, int32_t index) {
    tt_assert(index >= 0);
    tt_assert(index < engine->executor_count);
    return &engine_of(engine)->workers[index].worker;
}

static void emulated_submit(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_submit(executor(engine, task->executor), task);
}

static void emulated_run_here(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_run_here(executor(engine, task->executor), task);
}

static void emulated_yield(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_stop(executor(engine, task->executor), task, TT_WORKER_YIELD);
}

static void emulated_abort(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_stop(executor(engine, task->executor), task, TT_WORKER_ABORT);
}

static int32_t emulated_step_count(const struct tt_engine_model *model) {
    return model_of(model)->step_count;
}

static const struct tt_signature *emulated_signature(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

/* An emulated request is nowhere in between: what it computes comes out of its inputs at the end.
 */
static void emulated_state_release(struct tt_engine_state *take_state) {
    tt_assert(take_state == NULL);
}

static void emulated_unload(struct tt_engine_model *take_model) {
    if (take_model)
        free(TT_CONTAINER_OF(take_model, struct emulated_model, model));
}

static void emulated_close(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct emulated_engine *self = engine_of(take_engine);
    for (int32_t i = 0; i < self->started; i++) {
        struct emulated_worker *worker = &self->workers[i];
        tt_worker_close(&worker->worker);
        for (size_t k = 0; k < TT_COUNT(worker->buffers); k++)
            tt_gather_buffer_fini(&worker->buffers[k]);
        tt_engine_roll_fini(&worker->roll);
    }
    free(self);
}

static const struct tt_engine_ops ops = {
    .name = "emulated",
    .submit = emulated_submit,
    .run_here = emulated_run_here,
    .yield = emulated_yield,
    .abort = emulated_abort,
    .step_count = emulated_step_count,
    .signature = emulated_signature,
    .unload = emulated_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = emulated_state_release,
    .close = emulated_close,
};

enum tt_err tt_emulated_engine_open(const struct tt_emulated_engine_options *options,
                                    struct tt_engine **out_engine, struct tt_message *why) {
    if (options->executor_count < 1 || options->queue_depth < 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "an engine of %d executors, %d tasks deep; both must be at least 1",
                       options->executor_count, options->queue_depth);
    size_t bytes = sizeof(struct emulated_engine) +
                   (size_t)options->executor_count * sizeof(struct emulated_worker);
    size_t alignment = _Alignof(struct emulated_engine);
    struct emulated_engine *self =
        aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors",
                       options->executor_count);
    memset(self, 0, bytes);
    self->engine =
        (struct tt_engine){&ops, options->executor_count, options->done, options->done_context};
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < options->executor_count; i++) {
        err = tt_worker_open(&self->workers[i].worker, &worker_ops, &self->engine, i,
                             options->queue_depth, why);
        self->started += !err;
    }
    if (err) {
        emulated_close(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}

enum tt_err tt_emulated_engine_load(struct tt_engine *engine,
                                    const struct tt_emulated_model_options *options,
                                    struct tt_engine_model **out_model, struct tt_message *why) {
    if (options->step_count < 1)
        return tt_fail(TT_ERR_INVALID, why, "an emulated model of %d steps; it takes at least 1",
                       options->step_count);
    struct emulated_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an emulated model");
    self->model.engine = engine;
    self->step_count = options->step_count;
    self->latency_ns = options->latency_ns;
    self->latency_context = options->latency_context;
    self->signature = *options->signature;
    *out_model = &self->model;
    return TT_OK;
}

void tt_emulated_engine_adopt(struct tt_engine *engine, struct tt_engine_model *model) {
    tt_assert(engine->ops == &ops);
    model->engine = engine;
}
