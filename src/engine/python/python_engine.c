/* The engine kind "python": a model written in Python, as Triton's Python backend runs it.
 *
 * A version's file is model.py with a class TritonPythonModel; config.pbtxt lists all tensors. Each
 * instance runs in a process of its own (python_instances.h), so neither its interpreter lock nor a
 * crash reaches the server. A batch is passed on as requests, each with its own tensors: what the
 * model answers to one cannot depend on the others unless its author wants it.
 *
 * If `execute` raises an exception, all requests of the batch fail with it. They are not run again
 * one by one, as engine.h says of other engines: `execute` may have effects. A process that fails
 * takes its batch with it; the others serve on, and it is started again. A run that is cut by the
 * watchdog ends with its process. Other aborts come into effect before a batch is sent only. */
#include "base/clock.h"
#include "engine/engine_kind.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/python/python_environment.h"
#include "engine/python/python_instances.h"
#include "engine/thread_executors.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS (2 * TT_MS) /* while other executors use all processes that are left */

struct shared {
    struct tt_engine_runtime_options options;
};

struct python_engine {
    struct tt_thread_engine threads; /* first */
    const struct shared *shared;
};

struct python_executor {
    struct tt_executor_thread thread;     /* first */
    struct tt_engine_valid_members valid; /* of the running task */
    struct tt_python_words words;
    struct tt_eventcount retry;
    struct tt_python_process *process; /* that runs the task; under the thread's lock */
};

struct python_model {
    struct tt_engine_model model; /* first */
    struct tt_signature signature;
    char *name, *path, *config_json, *interpreter;
    struct tt_python_instances *instances;
};

static struct python_executor *executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct python_executor, thread);
}

static struct python_model *model_of(struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct python_model, model);
}

/* ---- running a task, on an executor's thread ---- */

/* False: the task was asked to stop. */
static bool set_process(struct python_executor *self, struct tt_python_process *process) {
    tt_lock_take(&self->thread.lock);
    bool goes_on = !process || self->thread.current->stop != TT_EXECUTOR_ABORT;
    if (goes_on)
        self->process = process;
    tt_lock_give(&self->thread.lock);
    return goes_on;
}

/* Takes a process for the task. NULL: the task was asked to stop (`*out_stops`), or no process
 * serves. */
static struct tt_python_process *take(struct python_executor *self, struct python_model *model,
                                      bool *out_stops, struct tt_error *why) {
    struct tt_python_process *process = NULL;
    enum tt_python_taking taking;
    *out_stops = false;
    while ((taking = tt_python_instances_take(model->instances, &process, why)) ==
           TT_PYTHON_ALL_BUSY) {
        *out_stops = tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_ABORT;
        if (*out_stops)
            return NULL;
        tt_eventcount_sleep(&self->retry, tt_instant_add(tt_clock_now(), RETRY_NS));
    }
    if (taking == TT_PYTHON_NONE)
        return NULL;
    *out_stops = !set_process(self, process);
    if (!*out_stops)
        return process;
    tt_python_instances_give(model->instances, process, false);
    return NULL;
}

static void give_up(struct tt_engine_task *task) {
    tt_engine_task_give_up(task);
    task->head.last_step_done = task->head.first_step - 1;
}

/* The process has gone: by itself, or since the watchdog cut the run. */
static void lose(struct python_executor *self, struct tt_engine_task *task,
                 const struct tt_python_process *process) {
    struct tt_error how, why;
    tt_python_process_finish(process, &how);
    if (tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_ABORT) {
        give_up(task);
        return;
    }
    tt_fail(TT_OK, &why, "the model's Python process %s during the batch", how.text);
    tt_engine_members_fail(self->valid.members, self->valid.count, TT_ERR_INTERNAL, &why);
}

static void run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct python_executor *self = executor_of(thread);
    struct python_model *model = model_of(task->model);
    struct tt_error why;
    bool stops;
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.last_step; /* a model has one step */
    tt_engine_task_begin(task, &model->signature, &self->valid);
    if (self->valid.count == 0)
        return; /* every member has its error */
    struct tt_python_process *process = take(self, model, &stops, &why);
    if (stops) {
        give_up(task);
        return;
    }
    if (!process) {
        tt_engine_members_fail(self->valid.members, self->valid.count, TT_ERR_UNAVAILABLE, &why);
        return;
    }
    int64_t begun_at = tt_clock_now(), written_at = begun_at;
    enum tt_python_reply reply = tt_python_process_run(process, &model->signature, &self->valid,
                                                       &self->words, &written_at, &why);
    task->input_ns = written_at - begun_at;
    task->infer_ns = tt_clock_now() - written_at;
    for (int32_t m = 0; m < self->valid.count; m++)
        for (int32_t i = 0; i < model->signature.input_count; i++)
            task->gathered_bytes += (int64_t)self->valid.members[m]->inputs[i].size_bytes;
    if (reply == TT_PYTHON_FAILED)
        tt_engine_members_fail(self->valid.members, self->valid.count, TT_ERR_INTERNAL, &why);
    else if (reply != TT_PYTHON_DONE)
        lose(self, task, process);
    (void)set_process(self, NULL);
    tt_python_instances_give(model->instances, process,
                             reply != TT_PYTHON_DONE && reply != TT_PYTHON_FAILED);
}

/* Under the thread's lock, so the process is not given back meanwhile. Only the watchdog ends a
 * process: to start one again takes longer than most batches. */
static void interrupt(struct tt_executor_thread *thread) {
    struct python_executor *self = executor_of(thread);
    if (self->process && thread->current->was_cut)
        tt_python_process_kill(self->process);
}

static enum tt_err renew(struct tt_executor_thread *thread, const struct tt_executor_thread *old) {
    (void)old;
    tt_eventcount_init(&executor_of(thread)->retry);
    return TT_OK;
}

static void release(struct tt_executor_thread *thread) {
    struct python_executor *self = executor_of(thread);
    tt_python_words_fini(&self->words);
    tt_engine_valid_members_fini(&self->valid);
}

static const struct tt_executor_thread_ops executor_ops = {
    .run = run, .interrupt = interrupt, .renew = renew, .release = release};

/* ---- models ---- */

static int32_t step_count(const struct tt_engine_model *model) {
    (void)model;
    return 1;
}

static const struct tt_signature *signature_of(const struct tt_engine_model *model) {
    return &TT_CONTAINER_OF(model, struct python_model, model)->signature;
}

static void unload(struct tt_engine_model *take_model) {
    if (!take_model)
        return;
    struct python_model *self = model_of(take_model);
    tt_python_instances_close(self->instances);
    free(self->name);
    free(self->path);
    free(self->config_json);
    free(self->interpreter);
    free(self);
}

static enum tt_err check_tensors(const struct tt_tensor_spec *specs, int32_t count,
                                 const char *role, const char *name, struct tt_error *why) {
    for (int32_t i = 0; i < count; i++)
        if (specs[i].dtype == TT_DTYPE_BF16)
            return tt_fail(TT_ERR_UNSUPPORTED, why,
                           "%s: %s '%s' is TYPE_BF16, which numpy does not have; use TYPE_FP32",
                           name, role, specs[i].name);
    return TT_OK;
}

static enum tt_err open_instances(struct python_model *self, const struct shared *shared,
                                  int32_t count, struct tt_error *why) {
    tt_assert(count >= 1);
    const struct tt_python_instances_options options = {
        .program = {.interpreter = self->interpreter,
                    .name = self->name,
                    .path = self->path,
                    .config_json = self->config_json,
                    .signature = &self->signature},
        .count = count,
        .max_start_ms = shared->options.max_load_ms,
        .say = shared->options.say,
        .say_context = shared->options.say_context};
    enum tt_err err = tt_python_instances_open(&options, &self->instances, why);
    return err ? tt_fail_in(err, why, "%s", self->name) : TT_OK;
}

static enum tt_err load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    const struct shared *shared =
        TT_CONTAINER_OF(engine, struct python_engine, threads.engine)->shared;
    struct python_model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", spec->name);
    self->model.engine = engine;
    self->signature = *spec->signature;
    self->name = strdup(spec->name);
    self->path = strdup(spec->path);
    self->config_json = strdup(spec->config_json ? spec->config_json : "{}");
    enum tt_err err = self->name && self->path && self->config_json
                          ? TT_OK
                          : tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", spec->name);
    const struct tt_signature *signature = &self->signature;
    if (!err)
        err = check_tensors(signature->inputs, signature->input_count, "input", spec->name, why);
    if (!err)
        err = check_tensors(signature->outputs, signature->output_count, "output", spec->name, why);
    if (!err) {
        err = tt_python_environment_find(self->config_json, self->path, shared->options.python,
                                         &self->interpreter, why);
        err = err ? tt_fail_in(err, why, "%s", spec->name) : TT_OK;
    }
    if (!err)
        err = open_instances(self, shared,
                             spec->executors > 0 ? spec->executors : engine->executor_count, why);
    if (err) {
        unload(&self->model);
        return err;
    }
    *out_model = &self->model;
    return TT_OK;
}

/* ---- the engine ---- */

static void close_engine(struct tt_engine *take_engine) {
    struct tt_thread_engine *self = TT_CONTAINER_OF(take_engine, struct tt_thread_engine, engine);
    tt_thread_engine_stop(self);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        release(tt_thread_engine_executor(self, i));
    tt_thread_engine_free(self);
}

static const struct tt_engine_ops ops = {
    .name = "python",
    .device = TT_THREAD_ENGINE_DEVICE,
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
    static const struct tt_thread_engine_layout layout = {
        .engine_bytes = sizeof(struct python_engine),
        .executor_bytes = sizeof(struct python_executor),
        .ops = &ops};
    struct tt_thread_engine *self;
    enum tt_err err = tt_thread_engine_open(&layout, options, &self, why);
    if (err)
        return err;
    TT_CONTAINER_OF(self, struct python_engine, threads)->shared = shared;
    for (int32_t i = 0; i < options->executor_count; i++)
        tt_eventcount_init(&executor_of(tt_thread_engine_executor(self, i))->retry);
    err = tt_thread_engine_start(self, &executor_ops, why);
    if (err) {
        close_engine(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}

static enum tt_err open_shared(const struct tt_engine_runtime_options *options, void **out_shared,
                               struct tt_error *why) {
    struct shared *shared = malloc(sizeof(*shared));
    if (!shared)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    shared->options = *options;
    *out_shared = shared;
    return TT_OK;
}

static void close_shared(void *take_shared) { free(take_shared); }

const struct tt_engine_kind tt_python_engine_kind = {
    .traits = {.name = "python",
               .platform = "python",
               .file_name = "model.py",
               .separates_requests = true,
               .runs_programs = true,
               .has_own_instances = true},
    .open_shared = open_shared,
    .close_shared = close_shared,
    .open = open_engine,
    .load = load,
};
