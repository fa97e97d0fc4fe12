#include "engine/onnxruntime.h"

#include "base/clock.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/ort_tensor.h"
#include "engine/worker.h"

#include <stdlib.h>
#include <string.h>

struct ort_worker {
    struct tt_worker worker;
    OrtRunOptions *run_options;
    struct tt_gather_buffer buffers[TT_MAX_TENSORS]; /* one per input */
    struct tt_engine_roll roll;
};

struct ort_engine {
    struct tt_engine engine;
    struct tt_ort_library *library;
    int32_t started; /* workers that have a thread */
    struct ort_worker workers[];
};

struct ort_model {
    struct tt_engine_model model;
    OrtSession *session;
    const char *input_names[TT_MAX_TENSORS];
    const char *output_names[TT_MAX_TENSORS];
    struct tt_signature signature;
};

static struct ort_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct ort_engine, engine);
}

static struct ort_worker *worker_of(struct tt_worker *worker) {
    return TT_CONTAINER_OF(worker, struct ort_worker, worker);
}

/* One call of the runtime: binds, runs, frees the inputs. `values` gets the outputs. */
static enum tt_err call_session(struct ort_worker *self, struct tt_engine_task *task,
                                struct tt_engine_member *const *members, int32_t count,
                                OrtValue **out_values, struct tt_message *why) {
    const struct ort_model *model = TT_CONTAINER_OF(task->model, struct ort_model, model);
    const struct tt_ort_library *library = engine_of(self->worker.engine)->library;
    const struct tt_signature *signature = &model->signature;
    OrtValue *inputs[TT_MAX_TENSORS];
    int32_t bound = 0;
    enum tt_err err = TT_OK;
    int64_t began_at = tt_clock_now();
    for (; !err && bound < signature->input_count; bound += !err) {
        struct tt_tensor_view view;
        err = tt_gather_input(signature, bound, members, count, task->length, &self->buffers[bound],
                              &task->gathered_bytes, &view);
        if (err)
            err = tt_fail(err, why, "out of memory for input '%s' of a batch",
                          signature->inputs[bound].name);
        else
            err = tt_ort_value_new(library, signature->inputs[bound].dtype, &view, &inputs[bound],
                                   why);
    }
    int64_t bound_at = tt_clock_now();
    if (!err)
        err = tt_ort_check(library,
                           library->api->Run(model->session, self->run_options, model->input_names,
                                             (const OrtValue *const *)inputs,
                                             (size_t)signature->input_count, model->output_names,
                                             (size_t)signature->output_count, out_values),
                           why);
    /* Once more for each member, where they run apart. */
    task->input_ns += bound_at - began_at;
    task->infer_ns += tt_clock_now() - bound_at;
    for (int32_t i = 0; i < bound; i++)
        library->api->ReleaseValue(inputs[i]);
    return err;
}

/* Wraps the outputs of a run for its members; takes the values. */
static enum tt_err answer(struct ort_worker *self, struct tt_engine_task *task,
                          struct tt_engine_member *const *members, int32_t count,
                          OrtValue **take_values, struct tt_message *why) {
    const struct ort_model *model = TT_CONTAINER_OF(task->model, struct ort_model, model);
    const struct tt_ort_library *library = engine_of(self->worker.engine)->library;
    const struct tt_signature *signature = &model->signature;
    int32_t rows = 0;
    for (int32_t i = 0; i < count; i++)
        rows += members[i]->rows;
    struct tt_engine_result *result =
        tt_engine_result_new(count, signature->output_count, signature->batched, rows);
    enum tt_err err = result ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (result) {
        result->dispose = tt_ort_output_dispose;
        result->context = library;
    }
    for (int32_t i = 0; i < signature->output_count; i++) {
        if (err)
            library->api->ReleaseValue(take_values[i]);
        else
            err =
                tt_ort_output_read(library, &signature->outputs[i], i, take_values[i], result, why);
    }
    if (err)
        tt_engine_result_free(result);
    else
        tt_engine_members_share(members, count, result);
    return err;
}

/* Runs these members in one call. False where the call failed, with the error in `err` and `why`;
 * the members have their answers (results, or all the same error) otherwise. */
static bool run_together(struct ort_worker *self, struct tt_engine_task *task,
                         struct tt_engine_member *const *members, int32_t count,
                         enum tt_err *out_err, struct tt_message *why) {
    OrtValue *values[TT_MAX_TENSORS] = {0};
    enum tt_err err = call_session(self, task, members, count, values, why);
    if (err) {
        *out_err = err;
        return false;
    }
    err = answer(self, task, members, count, values, why);
    if (err)
        tt_engine_members_fail(members, count, err, why);
    return true;
}

/* False where the task was aborted meanwhile. */
static bool run_apart(struct ort_worker *self, struct tt_engine_task *task) {
    for (int32_t i = 0; i < self->roll.count; i++) {
        struct tt_engine_member **member = &self->roll.members[i];
        struct tt_message why = {{0}};
        enum tt_err err;
        if (run_together(self, task, member, 1, &err, &why))
            continue;
        if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT)
            return false;
        tt_engine_members_fail(member, 1, err, &why);
    }
    return true;
}

static void ort_run(struct tt_worker *worker, struct tt_engine_task *task) {
    struct ort_worker *self = worker_of(worker);
    const struct ort_model *model = TT_CONTAINER_OF(task->model, struct ort_model, model);
    tt_assert(task->first_step == 0); /* whole graphs have one step */
    tt_assert(task->last_step == 0);
    task->outcome = TT_ENGINE_DONE;
    task->last_step_done = -1;
    task->infer_ns = 0;
    tt_engine_task_begin(task, &model->signature, &self->roll);
    bool alive = tt_worker_asked(worker) != TT_WORKER_ABORT;
    bool together = false;
    if (alive && self->roll.count > 1) {
        struct tt_message why;
        enum tt_err err;
        together = run_together(self, task, self->roll.members, self->roll.count, &err, &why);
        alive = together || tt_worker_asked(worker) != TT_WORKER_ABORT;
    }
    if (alive && !together)
        alive = run_apart(self, task);
    if (alive)
        task->last_step_done = 0;
    else
        tt_engine_task_give_up(task);
}

static void ort_arm(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsUnsetTerminate(worker_of(worker)->run_options);
    tt_assert(status == NULL); /* it sets a flag */
}

static void ort_interrupt(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsSetTerminate(worker_of(worker)->run_options);
    tt_assert(status == NULL);
}

static const struct tt_worker_ops worker_ops = {
    .run = ort_run,
    .arm = ort_arm,
    .interrupt = ort_interrupt,
};

static struct tt_worker *executor(struct tt_engine *engine, int32_t index) {
    tt_assert(index >= 0);
    tt_assert(index < engine->executor_count);
    return &engine_of(engine)->workers[index].worker;
}

static void ort_submit(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_submit(executor(engine, task->executor), task);
}

static void ort_yield(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_stop(executor(engine, task->executor), task, TT_WORKER_YIELD);
}

static void ort_abort(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_stop(executor(engine, task->executor), task, TT_WORKER_ABORT);
}

static int32_t ort_step_count(const struct tt_engine_model *model) {
    (void)model;
    return 1;
}

static const struct tt_signature *ort_signature(const struct tt_engine_model *model) {
    return &TT_CONTAINER_OF(model, struct ort_model, model)->signature;
}

static void ort_unload(struct tt_engine_model *take_model) {
    if (!take_model)
        return;
    struct ort_model *self = TT_CONTAINER_OF(take_model, struct ort_model, model);
    engine_of(take_model->engine)->library->api->ReleaseSession(self->session);
    free(self);
}

static void worker_release(struct ort_engine *engine, struct ort_worker *self) {
    if (self->run_options)
        engine->library->api->ReleaseRunOptions(self->run_options);
    for (size_t i = 0; i < TT_COUNT(self->buffers); i++)
        tt_gather_buffer_fini(&self->buffers[i]);
    tt_engine_roll_fini(&self->roll);
}

static void ort_close(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct ort_engine *self = engine_of(take_engine);
    for (int32_t i = 0; i < self->engine.executor_count; i++) {
        if (i < self->started)
            tt_worker_close(&self->workers[i].worker);
        worker_release(self, &self->workers[i]);
    }
    free(self);
}

static const struct tt_engine_ops ops = {
    .name = "cpu",
    .submit = ort_submit,
    .yield = ort_yield,
    .abort = ort_abort,
    .step_count = ort_step_count,
    .signature = ort_signature,
    .unload = ort_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .close = ort_close,
};

enum tt_err tt_ort_engine_open(const struct tt_ort_engine_options *options,
                               struct tt_engine **out_engine, struct tt_message *why) {
    if (options->executor_count < 1 || options->queue_depth < 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "an engine of %d executors, %d tasks deep; both must be at least 1",
                       options->executor_count, options->queue_depth);
    size_t bytes =
        sizeof(struct ort_engine) + (size_t)options->executor_count * sizeof(struct ort_worker);
    size_t alignment = _Alignof(struct ort_engine);
    struct ort_engine *self = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d executors",
                       options->executor_count);
    memset(self, 0, bytes);
    self->engine =
        (struct tt_engine){&ops, options->executor_count, options->done, options->done_context};
    self->library = options->library;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < options->executor_count; i++) {
        struct ort_worker *worker = &self->workers[i];
        err = tt_ort_check(self->library,
                           self->library->api->CreateRunOptions(&worker->run_options), why);
        if (!err)
            err = tt_worker_open(&worker->worker, &worker_ops, &self->engine, i,
                                 options->queue_depth, why);
        self->started += !err;
    }
    if (err) {
        ort_close(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}

static OrtStatus *configure(const OrtApi *api, enum tt_ort_optimization optimization,
                            OrtSessionOptions *session_options) {
    static const GraphOptimizationLevel levels[] = {
        [TT_ORT_OPTIMIZE_ALL] = ORT_ENABLE_ALL,
        [TT_ORT_OPTIMIZE_EXTENDED] = ORT_ENABLE_EXTENDED,
        [TT_ORT_OPTIMIZE_BASIC] = ORT_ENABLE_BASIC,
        [TT_ORT_OPTIMIZE_NONE] = ORT_DISABLE_ALL,
    };
    /* The environment's pools have one thread, the caller's. */
    OrtStatus *status = api->DisablePerSessionThreads(session_options);
    if (!status)
        status = api->SetSessionGraphOptimizationLevel(session_options, levels[optimization]);
    /* Patterns are kept per shape, and batches come in all sizes: it saves no time and costs
     * memory. */
    if (!status)
        status = api->DisableMemPattern(session_options);
    if (!status)
        status = api->AddSessionConfigEntry(session_options, "session.use_env_allocators", "1");
    return status;
}

static enum tt_err make_session(const struct tt_ort_library *library,
                                const struct tt_ort_model_options *options,
                                OrtSession **out_session, struct tt_message *why) {
    const OrtApi *api = library->api;
    OrtSessionOptions *session_options = NULL;
    OrtStatus *status = api->CreateSessionOptions(&session_options);
    if (!status)
        status = configure(api, options->optimization, session_options);
    if (!status)
        status =
            options->path
                ? api->CreateSession(library->env, options->path, session_options, out_session)
                : api->CreateSessionFromArray(library->env, options->bytes, options->size_bytes,
                                              session_options, out_session);
    if (session_options)
        api->ReleaseSessionOptions(session_options);
    return tt_ort_check(library, status, why);
}

enum tt_err tt_ort_engine_load(struct tt_engine *engine, const struct tt_ort_model_options *options,
                               struct tt_engine_model **out_model, struct tt_message *why) {
    const struct tt_ort_library *library = engine_of(engine)->library;
    const char *name = options->name ? options->name : options->path ? options->path : "model";
    if (options->batched && options->max_batch < 1)
        return tt_fail(TT_ERR_INVALID, why, "%s: a largest batch of %d; it must be at least 1",
                       name, options->max_batch);
    struct ort_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", name);
    self->model.engine = engine;
    enum tt_err err = make_session(library, options, &self->session, why);
    if (!err)
        err = tt_ort_signature_read(library, self->session, options->batched, options->max_batch,
                                    &self->signature, why);
    if (err) {
        if (self->session)
            library->api->ReleaseSession(self->session);
        free(self);
        return tt_fail_in(err, why, "%s", name);
    }
    for (int32_t i = 0; i < self->signature.input_count; i++)
        self->input_names[i] = self->signature.inputs[i].name;
    for (int32_t i = 0; i < self->signature.output_count; i++)
        self->output_names[i] = self->signature.outputs[i].name;
    *out_model = &self->model;
    return TT_OK;
}

void tt_ort_engine_adopt(struct tt_engine *engine, struct tt_engine_model *model) {
    tt_assert(engine_of(engine)->library == engine_of(model->engine)->library);
    model->engine = engine;
}
