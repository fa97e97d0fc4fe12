/* An engine in one file: each output of a model is a copy of the input of the same position.
 *
 * It is the worked example of CONTRIBUTING.md ("How to add an engine"). To have it in the program,
 * copy this file to src/engine/ and add the line `X(echo)` to src/engine/engine_registry.c. Then a
 * model whose config.pbtxt says `backend: "echo"` and lists its tensors is served by it, under any
 * policy. tests/integration/test_engine_example.py does exactly that.
 *
 * The executors are threads, so submit, run_here, yield and abort come from
 * engine/thread_executors.h; checking and gathering members comes from engine/engine_task.h and
 * engine/gather.h. What is left to an engine: run a batch, make its result, load and unload. */
#include "engine/engine_kind.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/thread_executors.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the engine keeps ---- */

struct echo_executor {
    struct tt_executor_thread thread;     /* first */
    struct tt_engine_valid_members valid; /* of the running task */
    struct tt_gather_buffer buffer;       /* kept from task to task: no malloc per batch for it */
};

struct echo_model {
    struct tt_engine_model model; /* first */
    struct tt_signature signature;
};

static struct echo_executor *executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct echo_executor, thread);
}

static const struct echo_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct echo_model, model);
}

/* ---- running a task, on an executor's thread ---- */

/* Output `index` of the batch: a copy of input `index`, which the members brought. */
static enum tt_err make_output(struct echo_executor *self, struct tt_engine_task *task,
                               const struct tt_signature *signature, int32_t index,
                               struct tt_engine_result *result) {
    struct tt_engine_output *output = &result->outputs[index];
    enum tt_err err =
        tt_gather_input(signature, index, self->valid.members, self->valid.count, task->head.length,
                        &self->buffer, &task->gathered_bytes, &output->view);
    if (err)
        return err;
    output->memory = malloc(output->view.size_bytes + 1); /* freed with the result */
    if (!output->memory)
        return TT_ERR_NO_MEMORY;
    if (output->view.size_bytes > 0)
        memcpy(output->memory, output->view.bytes, output->view.size_bytes);
    output->view.bytes = output->memory;
    bool has_strings = signature->outputs[index].dtype == TT_DTYPE_BYTES && signature->batched;
    return has_strings ? tt_engine_result_index_rows(result, index) : TT_OK;
}

static void run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct echo_executor *self = executor_of(thread);
    const struct tt_signature *signature = &model_of(task->model)->signature;
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.last_step; /* a model has one step */
    tt_engine_task_begin(task, signature, &self->valid);
    struct tt_engine_valid_members *valid = &self->valid;
    if (valid->count == 0)
        return; /* every member has its error */
    if (tt_executor_thread_asked(thread) == TT_EXECUTOR_ABORT) {
        tt_engine_task_give_up(task);
        task->head.last_step_done = task->head.first_step - 1;
        return;
    }
    struct tt_engine_result *result = tt_engine_result_new(valid->count, signature->output_count,
                                                           signature->batched, valid->rows);
    enum tt_err err = result ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t i = 0; !err && i < signature->output_count; i++)
        err = make_output(self, task, signature, i, result);
    if (!err) {
        tt_engine_members_share(valid->members, valid->count, result);
        return;
    }
    tt_engine_result_free(result);
    struct tt_error why;
    tt_fail(err, &why, "out of memory for a batch of %d rows", valid->rows);
    tt_engine_members_fail(valid->members, valid->count, err, &why);
}

static void release(struct tt_executor_thread *thread) {
    struct echo_executor *self = executor_of(thread);
    tt_gather_buffer_fini(&self->buffer);
    tt_engine_valid_members_fini(&self->valid);
}

static const struct tt_executor_thread_ops executor_ops = {.run = run, .release = release};

/* ---- models ---- */

static int32_t step_count(const struct tt_engine_model *model) {
    (void)model;
    return 1;
}

static const struct tt_signature *signature_of(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

static void unload(struct tt_engine_model *take_model) {
    if (take_model)
        free(TT_CONTAINER_OF(take_model, struct echo_model, model));
}

static bool specs_agree(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b) {
    bool agree = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int32_t d = 0; agree && d < a->shape.rank; d++)
        agree = a->shape.dims[d] == b->shape.dims[d];
    return agree;
}

static enum tt_err load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    const struct tt_signature *signature = spec->signature;
    bool agree = signature->input_count >= signature->output_count;
    for (int32_t i = 0; agree && i < signature->output_count; i++)
        agree = specs_agree(&signature->inputs[i], &signature->outputs[i]);
    if (!agree)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: an echo model gives each output the type and dims of the input of the "
                       "same position",
                       spec->name);
    struct echo_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", spec->name);
    self->model.engine = engine;
    self->signature = *signature;
    *out_model = &self->model;
    return TT_OK;
}

/* ---- the engine ---- */

static void close_engine(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct tt_thread_engine *self = TT_CONTAINER_OF(take_engine, struct tt_thread_engine, engine);
    tt_thread_engine_stop(self);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        release(tt_thread_engine_executor(self, i));
    tt_thread_engine_free(self);
}

static const struct tt_engine_ops ops = {
    .name = "echo",
    .device = TT_THREAD_ENGINE_DEVICE,
    .run_here = tt_thread_engine_run_here,
    .watch = &tt_thread_engine_watch,
    .step_count = step_count,
    .signature = signature_of,
    .unload = unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = tt_engine_no_state_release,
    .close = close_engine,
};

static enum tt_err open_engine(void *shared, const struct tt_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
    (void)shared;
    static const struct tt_thread_engine_layout layout = {
        .engine_bytes = sizeof(struct tt_thread_engine), /* no state of its own */
        .executor_bytes = sizeof(struct echo_executor),
        .ops = &ops};
    struct tt_thread_engine *self;
    enum tt_err err = tt_thread_engine_open(&layout, options, &self, why);
    if (err)
        return err;
    err = tt_thread_engine_start(self, &executor_ops, why);
    if (err) {
        close_engine(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}

/* needs_file is false: config.pbtxt lists all tensors, and a version is an empty directory. */
const struct tt_engine_kind tt_echo_engine_kind = {
    .traits = {.name = "echo", .platform = "echo"},
    .open = open_engine,
    .load = load,
};
