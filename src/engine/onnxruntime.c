#include "engine/onnxruntime.h"

#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/ort_steps.h"

#include <stdlib.h>
#include <string.h>

struct ort_worker {
    struct tt_worker worker;
    struct tt_ort_desk desk;
    struct tt_engine_roll roll;
};

struct ort_engine {
    struct tt_engine engine;
    struct tt_ort_library *library;
    int32_t started; /* workers that have a thread */
    struct ort_worker workers[];
};

static struct ort_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct ort_engine, engine);
}

static struct ort_worker *worker_of(struct tt_worker *worker) {
    return TT_CONTAINER_OF(worker, struct ort_worker, worker);
}

static const struct tt_ort_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct tt_ort_model, model);
}

/* Runs the steps for each member alone, to the task's end: they must all stand at one step then.
 * False where the task was aborted meanwhile. */
static bool run_apart(struct ort_worker *self, struct tt_engine_task *task) {
    for (int32_t i = 0; i < self->roll.count; i++) {
        struct tt_engine_member **member = &self->roll.members[i];
        struct tt_message why = {{0}};
        struct tt_ort_run run = {.worker = &self->worker,
                                 .desk = &self->desk,
                                 .task = task,
                                 .members = member,
                                 .count = 1,
                                 .may_yield = self->roll.count == 1};
        enum tt_err err = tt_ort_run(&run, &why);
        if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT &&
            (err || run.last_step_done < task->last_step))
            return false;
        if (err)
            tt_engine_members_fail(member, 1, err, &why);
        else
            task->last_step_done = run.last_step_done;
    }
    return true;
}

/* False where the task was aborted. */
static bool run_members(struct ort_worker *self, struct tt_engine_task *task) {
    if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT)
        return false;
    if (self->roll.count > 1) {
        struct tt_message why;
        struct tt_ort_run run = {.worker = &self->worker,
                                 .desk = &self->desk,
                                 .task = task,
                                 .members = self->roll.members,
                                 .count = self->roll.count,
                                 .may_yield = true};
        enum tt_err err = tt_ort_run(&run, &why);
        bool aborted = tt_worker_asked(&self->worker) == TT_WORKER_ABORT;
        if (aborted && (err || run.last_step_done < task->last_step))
            return false;
        task->last_step_done = run.last_step_done;
        if (!err)
            return true;
        if (run.computed) {
            /* The model's fault, and nobody's input: apart it would go no better. */
            tt_engine_members_fail(self->roll.members, self->roll.count, err, &why);
            return true;
        }
    }
    task->last_step_done = task->last_step; /* unless somebody stops on the way */
    return run_apart(self, task);
}

static void ort_run(struct tt_worker *worker, struct tt_engine_task *task) {
    struct ort_worker *self = worker_of(worker);
    const struct tt_ort_model *model = model_of(task->model);
    tt_assert(task->first_step >= 0);
    tt_assert(task->first_step <= task->last_step);
    tt_assert(task->last_step < model->step_count);
    task->outcome = TT_ENGINE_DONE;
    task->last_step_done = task->first_step - 1;
    task->infer_ns = 0;
    tt_engine_task_begin(task, &model->signature, &self->roll);
    if (!run_members(self, task)) {
        tt_engine_task_give_up(task);
        task->last_step_done = task->first_step - 1;
    } else if (task->last_step_done < task->last_step) {
        task->outcome = TT_ENGINE_PREEMPTED;
    }
}

static void ort_arm(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsUnsetTerminate(worker_of(worker)->desk.run_options);
    tt_assert(status == NULL); /* it sets a flag */
}

static void ort_interrupt(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsSetTerminate(worker_of(worker)->desk.run_options);
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
    return model_of(model)->step_count;
}

static const struct tt_signature *ort_signature(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

static void ort_unload(struct tt_engine_model *take_model) {
    if (take_model)
        tt_ort_model_free(TT_CONTAINER_OF(take_model, struct tt_ort_model, model));
}

static void worker_release(struct ort_engine *engine, struct ort_worker *self) {
    if (self->desk.run_options)
        engine->library->api->ReleaseRunOptions(self->desk.run_options);
    tt_ort_desk_fini(&self->desk);
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
    .state_release = tt_slots_release,
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
                           self->library->api->CreateRunOptions(&worker->desk.run_options), why);
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

enum tt_err tt_ort_engine_load(struct tt_engine *engine, const struct tt_ort_model_options *options,
                               struct tt_engine_model **out_model, struct tt_message *why) {
    const char *name = options->name ? options->name : options->path ? options->path : "model";
    if (options->batched && options->max_batch < 1)
        return tt_fail(TT_ERR_INVALID, why, "%s: a largest batch of %d; it must be at least 1",
                       name, options->max_batch);
    struct tt_ort_model *model;
    enum tt_err err = tt_ort_model_new(engine_of(engine)->library, options, &model, why);
    if (err)
        return tt_fail_in(err, why, "%s", name);
    model->model.engine = engine;
    *out_model = &model->model;
    return TT_OK;
}

enum tt_err tt_ort_engine_load_slices(struct tt_engine *engine,
                                      const struct tt_ort_slices_options *options,
                                      struct tt_engine_model **out_model, struct tt_message *why) {
    const char *name = options->name ? options->name : options->directory;
    if (options->max_batch < 1)
        return tt_fail(TT_ERR_INVALID, why, "%s: a largest batch of %d; it must be at least 1",
                       name, options->max_batch);
    struct tt_ort_model *model;
    enum tt_err err = tt_ort_model_new_sliced(engine_of(engine)->library, options, &model, why);
    if (err)
        return tt_fail_in(err, why, "%s", name);
    model->model.engine = engine;
    *out_model = &model->model;
    return TT_OK;
}

void tt_ort_engine_adopt(struct tt_engine *engine, struct tt_engine_model *model) {
    tt_assert(engine_of(engine)->library == engine_of(model->engine)->library);
    model->engine = engine;
}
