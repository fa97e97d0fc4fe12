#include "engine/onnxruntime/onnxruntime.h"

#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/onnxruntime/cell_answer.h"
#include "engine/onnxruntime/cell_walk.h"
#include "engine/onnxruntime/ort_steps.h"

#include <stdlib.h>
#include <string.h>

struct ort_worker {
    struct tt_worker worker;
    struct tt_ort_scratch scratch;
    struct tt_cell_scratch cell_scratch;
    struct tt_engine_valid_members valid;
    struct tt_engine_member **group; /* those of the roll that run now */
    int32_t group_capacity;
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

/* Members of the task that stand at one step, in order. */
struct group {
    struct tt_engine_member *const *members;
    int32_t count;
    int32_t first_step, last_step; /* the last one before it meets others, or the task's */
};

static struct tt_ort_run run_of(struct ort_worker *self, struct tt_engine_task *task,
                                const struct group *group) {
    return (struct tt_ort_run){.worker = &self->worker,
                               .scratch = &self->scratch,
                               .task = task,
                               .members = group->members,
                               .count = group->count,
                               .first_step = group->first_step,
                               .last_step = group->last_step};
}

/* Runs the group's steps for each member alone. False where the task was aborted meanwhile. */
static bool run_apart(struct ort_worker *self, struct tt_engine_task *task,
                      const struct group *group, bool *out_yielded) {
    for (int32_t i = 0; i < group->count; i++) {
        struct group one = *group;
        one.members = &group->members[i];
        one.count = 1;
        struct tt_error why = {{0}};
        struct tt_ort_run run = run_of(self, task, &one);
        run.may_yield = group->count == 1; /* all must stand at one step then */
        enum tt_err err = tt_ort_run(&run, &why);
        if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT && (err || !run.computed))
            return false;
        if (err)
            tt_engine_members_fail(one.members, 1, err, &why);
        *out_yielded = run.yielded;
    }
    return true;
}

/* Runs the group's steps, or fewer. False where the task was aborted. */
static bool run_group(struct ort_worker *self, struct tt_engine_task *task,
                      const struct group *group, bool *out_yielded) {
    if (group->count > 1) {
        struct tt_error why;
        struct tt_ort_run run = run_of(self, task, group);
        run.may_yield = true;
        enum tt_err err = tt_ort_run(&run, &why);
        if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT && (err || !run.computed))
            return false;
        *out_yielded = run.yielded;
        if (!err)
            return true;
        if (run.computed) {
            /* The model's fault, and nobody's input: apart it would go no better. */
            tt_engine_members_fail(group->members, group->count, err, &why);
            return true;
        }
    }
    return run_apart(self, task, group, out_yielded);
}

/* The members that are furthest behind and have steps of the task to run; none: count 0. */
static struct group next_group(struct ort_worker *self, const struct tt_engine_task *task) {
    struct group group = {.first_step = INT32_MAX, .last_step = task->last_step};
    for (int32_t i = 0; i < self->valid.count; i++) {
        const struct tt_engine_member *member = self->valid.members[i];
        if (!member->err && member->next_step < group.first_step)
            group.first_step = member->next_step;
    }
    if (group.first_step > task->last_step)
        return group;
    for (int32_t i = 0; i < self->valid.count; i++) {
        struct tt_engine_member *member = self->valid.members[i];
        if (!member->err && member->next_step == group.first_step)
            self->group[group.count++] = member;
        else if (!member->err && member->next_step <= group.last_step)
            group.last_step = member->next_step - 1;
    }
    group.members = self->group;
    return group;
}

static bool group_ensure(struct ort_worker *self) {
    if (self->group_capacity >= self->valid.capacity)
        return true;
    struct tt_engine_member **group =
        realloc(self->group, (size_t)self->valid.capacity * sizeof(*group));
    if (!group)
        return false;
    self->group = group;
    self->group_capacity = self->valid.capacity;
    return true;
}

/* Group after group, until all have done the task's steps, or left. False where it was aborted. */
static bool run_members(struct ort_worker *self, struct tt_engine_task *task) {
    task->last_step_done = task->last_step; /* unless somebody stops on the way */
    for (int32_t i = 0; i < self->valid.count; i++)
        self->valid.members[i]->next_step = task->first_step;
    struct group group;
    while ((group = next_group(self, task)).count > 0) {
        enum tt_worker_stop asked = tt_worker_asked(&self->worker);
        if (asked == TT_WORKER_ABORT)
            return false;
        bool yielded = asked == TT_WORKER_YIELD && group.first_step > task->first_step;
        if (!yielded && !run_group(self, task, &group, &yielded))
            return false;
        group = yielded ? next_group(self, task) : group;
        if (yielded && group.count > 0) {
            task->last_step_done = group.first_step - 1;
            break;
        }
    }
    return true;
}

/* Nothing is kept of members that have their result. Those that ended with the model's last step
 * and the task, or stand behind the task's last one done, are the usual case; where a task is
 * stopped while its members run apart, some have ended before. */
static void settle(struct ort_worker *self, const struct tt_engine_task *task) {
    int32_t steps = model_of(task->model)->step_count;
    for (int32_t i = 0; i < self->valid.count; i++) {
        struct tt_engine_member *member = self->valid.members[i];
        if (member->result) {
            tt_slots_release(member->state);
            member->state = NULL;
        }
        bool usual = member->result ? member->next_step > steps && task->last_step_done == steps - 1
                                    : member->next_step == task->last_step_done + 1;
        if (member->err || usual)
            member->next_step = -1;
        else if (member->next_step > steps)
            member->next_step = steps;
    }
}

/* ---- cells ---- */

static void give_cells_up(struct tt_engine_task *task) {
    for (int32_t i = 0; i < task->member_count; i++) {
        enum tt_err *err = task->cells ? &task->cells[i].err : &task->sequences[i].err;
        *err = TT_ERR_CANCELLED;
    }
    task->outcome = TT_ENGINE_ABORTED;
}

static void run_cells(struct ort_worker *self, const struct tt_ort_model *model,
                      struct tt_engine_task *task) {
    struct tt_cell_batch batch = {.model = model,
                                  .type = task->first_step,
                                  .cells = task->cells,
                                  .count = task->member_count,
                                  .scratch = &self->cell_scratch,
                                  .run_options = self->scratch.run_options,
                                  .task = task};
    task->last_step_done = task->last_step;
    if (tt_worker_asked(&self->worker) == TT_WORKER_ABORT) {
        give_cells_up(task);
    } else if (task->cells) {
        tt_assert(task->first_step == task->last_step);
        tt_cell_step_run_each(&batch);
    } else {
        task->outcome = tt_cell_walk_run(&batch, tt_worker_asked, &self->worker);
        if (task->outcome == TT_ENGINE_ABORTED)
            give_cells_up(task);
    }
    if (task->outcome == TT_ENGINE_ABORTED)
        task->last_step_done = task->first_step - 1;
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
    if (model->cells) {
        run_cells(self, model, task);
        return;
    }
    tt_engine_task_begin(task, &model->signature, &self->valid);
    if (!group_ensure(self)) {
        struct tt_error why;
        tt_engine_members_fail(self->valid.members, self->valid.count,
                               tt_fail(TT_ERR_NO_MEMORY, &why, "out of memory"), &why);
    }
    if (!run_members(self, task)) {
        tt_engine_task_give_up(task);
        task->last_step_done = task->first_step - 1;
        return;
    }
    settle(self, task);
    if (task->last_step_done < task->last_step)
        task->outcome = TT_ENGINE_PREEMPTED;
}

static void ort_arm(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsUnsetTerminate(worker_of(worker)->scratch.run_options);
    tt_assert(status == NULL); /* it sets a flag */
}

static void ort_interrupt(struct tt_worker *worker) {
    const OrtApi *api = engine_of(worker->engine)->library->api;
    OrtStatus *status = api->RunOptionsSetTerminate(worker_of(worker)->scratch.run_options);
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

static void ort_run_here(struct tt_engine *engine, struct tt_engine_task *task) {
    tt_worker_run_here(executor(engine, task->executor), task);
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
    if (self->scratch.run_options)
        engine->library->api->ReleaseRunOptions(self->scratch.run_options);
    tt_ort_scratch_fini(&self->scratch);
    tt_cell_scratch_fini(&self->cell_scratch);
    tt_engine_valid_members_fini(&self->valid);
    free(self->group);
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
    .run_here = ort_run_here,
    .yield = ort_yield,
    .abort = ort_abort,
    .step_count = ort_step_count,
    .signature = ort_signature,
    .unload = ort_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .cell_emit = tt_cell_answer_emit,
    .cell_finish = tt_cell_answer_finish,
    .state_release = tt_slots_release,
    .close = ort_close,
};

enum tt_err tt_ort_engine_open(const struct tt_ort_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
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
                           self->library->api->CreateRunOptions(&worker->scratch.run_options), why);
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
                               struct tt_engine_model **out_model, struct tt_error *why) {
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
                                      struct tt_engine_model **out_model, struct tt_error *why) {
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

enum tt_err tt_ort_engine_load_cells(struct tt_engine *engine,
                                     const struct tt_ort_cells_options *options,
                                     struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_model *model;
    enum tt_err err = tt_ort_model_new_cells(engine_of(engine)->library, options, &model, why);
    if (err)
        return tt_fail_in(err, why, "%s", options->name);
    model->model.engine = engine;
    *out_model = &model->model;
    return TT_OK;
}

int32_t tt_ort_engine_cell_slots(const struct tt_engine_model *model) {
    return model_of(model)->cells->slot_count;
}

int32_t tt_ort_engine_slots(const struct tt_engine_model *model) {
    const struct tt_ort_model *self = model_of(model);
    return self->step_count > 1 && !self->cells ? self->slots.slot_count : 0;
}
