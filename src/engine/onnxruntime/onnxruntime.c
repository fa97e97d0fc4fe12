#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/array.h"
#include "engine/cell_answer.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/onnxruntime/cell_walk.h"
#include "engine/onnxruntime/ort_steps.h"

#include <stdlib.h>
#include <string.h>

struct ort_executor {
    struct tt_executor_thread thread; /* first */
    struct tt_ort_scratch scratch;
    struct tt_cell_scratch cell_scratch;
    struct tt_engine_valid_members valid;
    struct tt_engine_member **group; /* the valid members that run now */
    int64_t group_capacity;
};

struct ort_engine {
    struct tt_thread_engine threads; /* first */
    struct tt_ort_library *library;
};

static struct ort_engine *engine_of(struct tt_engine *engine) {
    return TT_CONTAINER_OF(engine, struct ort_engine, threads.engine);
}

static struct ort_executor *executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct ort_executor, thread);
}

static const struct tt_ort_model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct tt_ort_model, model);
}

/* Members of the task that are at the same step, in order. */
struct group {
    struct tt_engine_member *const *members;
    int32_t count;
    int32_t first_step,
        last_step; /* last_step: the last one before the group meets other members, or the task's */
};

static struct tt_ort_run run_of(struct ort_executor *self, struct tt_engine_task *task,
                                const struct group *group) {
    return (struct tt_ort_run){.thread = &self->thread,
                               .scratch = &self->scratch,
                               .task = task,
                               .members = group->members,
                               .count = group->count,
                               .first_step = group->first_step,
                               .last_step = group->last_step};
}

/* Runs the group's steps for each member alone. False if the task was aborted. */
static bool run_apart(struct ort_executor *self, struct tt_engine_task *task,
                      const struct group *group, bool *out_yielded) {
    for (int32_t i = 0; i < group->count; i++) {
        struct group one = *group;
        one.members = &group->members[i];
        one.count = 1;
        struct tt_error why = {{0}};
        struct tt_ort_run run = run_of(self, task, &one);
        run.may_yield =
            group->count == 1; /* a task that yields must have all members at one step */
        enum tt_err err = tt_ort_run(&run, &why);
        if (tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_ABORT && (err || !run.computed))
            return false;
        if (err)
            tt_engine_members_fail(one.members, 1, err, &why);
        *out_yielded = run.yielded;
    }
    return true;
}

/* Runs the group's steps, or fewer if it yields or diverges. False if the task was aborted. */
static bool run_group(struct ort_executor *self, struct tt_engine_task *task,
                      const struct group *group, bool *out_yielded) {
    if (group->count > 1) {
        struct tt_error why;
        struct tt_ort_run run = run_of(self, task, group);
        run.may_yield = true;
        enum tt_err err = tt_ort_run(&run, &why);
        if (tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_ABORT && (err || !run.computed))
            return false;
        *out_yielded = run.yielded;
        if (!err)
            return true;
        if (run.computed) {
            /* The model is at fault, not an input: running the members alone would fail too. */
            tt_engine_members_fail(group->members, group->count, err, &why);
            return true;
        }
    }
    return run_apart(self, task, group, out_yielded);
}

/* The members at the lowest step that have steps of the task left; count 0: none. */
static struct group next_group(struct ort_executor *self, const struct tt_engine_task *task) {
    struct group group = {.first_step = INT32_MAX, .last_step = task->head.last_step};
    for (int32_t i = 0; i < self->valid.count; i++) {
        const struct tt_engine_member *member = self->valid.members[i];
        if (!member->err && member->next_step < group.first_step)
            group.first_step = member->next_step;
    }
    if (group.first_step > task->head.last_step)
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

/* Runs one group after the other until all members have done the task's steps or left. False if the
 * task was aborted. */
static bool run_members(struct ort_executor *self, struct tt_engine_task *task) {
    task->head.last_step_done = task->head.last_step; /* lowered if the task is stopped */
    for (int32_t i = 0; i < self->valid.count; i++)
        self->valid.members[i]->next_step = task->head.first_step;
    struct group group;
    while ((group = next_group(self, task)).count > 0) {
        enum tt_executor_stop asked = tt_executor_thread_asked(&self->thread);
        if (asked == TT_EXECUTOR_ABORT)
            return false;
        bool yielded = asked == TT_EXECUTOR_YIELD && group.first_step > task->head.first_step;
        if (!yielded && !run_group(self, task, &group, &yielded))
            return false;
        group = yielded ? next_group(self, task) : group;
        if (yielded && group.count > 0) {
            task->head.last_step_done = group.first_step - 1;
            break;
        }
    }
    return true;
}

/* Releases the states of members that have results, and sets next_step. It stays -1 in the common
 * cases: the member ended with the model's last step and the task, or it is at the step after the
 * task's last one. If a task is stopped while its members run apart, some may have ended
 * earlier. */
static void settle(struct ort_executor *self, const struct tt_engine_task *task) {
    int32_t steps = model_of(task->model)->step_count;
    for (int32_t i = 0; i < self->valid.count; i++) {
        struct tt_engine_member *member = self->valid.members[i];
        if (member->result) {
            tt_slots_release(member->state);
            member->state = NULL;
        }
        bool usual = member->result
                         ? member->next_step > steps && task->head.last_step_done == steps - 1
                         : member->next_step == task->head.last_step_done + 1;
        if (member->err || usual)
            member->next_step = -1;
        else if (member->next_step > steps)
            member->next_step = steps;
    }
}

/* ---- cells ---- */

static void run_cells(struct ort_executor *self, const struct tt_ort_model *model,
                      struct tt_engine_task *task) {
    struct tt_cell_batch batch = {.model = model,
                                  .type = task->head.first_step,
                                  .cells = task->kind == TT_ENGINE_CELLS ? task->cells : NULL,
                                  .count = task->member_count,
                                  .scratch = &self->cell_scratch,
                                  .run_options = self->scratch.run_options,
                                  .task = task};
    task->head.last_step_done = task->head.last_step;
    if (tt_executor_thread_asked(&self->thread) == TT_EXECUTOR_ABORT) {
        task->head.outcome = TT_OUTCOME_ABORTED;
    } else if (task->kind == TT_ENGINE_CELLS) {
        tt_assert(task->head.first_step == task->head.last_step);
        tt_cell_step_run_each(&batch);
    } else {
        task->head.outcome = tt_cell_walk_run(&batch, tt_executor_thread_asked, &self->thread);
    }
    if (task->head.outcome == TT_OUTCOME_ABORTED)
        tt_engine_task_give_up_cells(task);
}

static enum tt_err emit_cell(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                             int32_t slot, int32_t most) {
    return tt_cell_answer_emit(answer, model_of(model)->cells, slot, most);
}

static enum tt_err finish_cells(struct tt_cell_answer *answer, const struct tt_engine_model *model,
                                int32_t slot, struct tt_engine_result **out_result) {
    return tt_cell_answer_finish(answer, model_of(model)->cells, slot, out_result);
}

static void ort_run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct ort_executor *self = executor_of(thread);
    const struct tt_ort_model *model = model_of(task->model);
    tt_assert(task->head.first_step >= 0);
    tt_assert(task->head.first_step <= task->head.last_step);
    tt_assert(task->head.last_step < model->step_count);
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.first_step - 1;
    task->infer_ns = 0;
    tt_assert((model->cells != NULL) == (task->kind != TT_ENGINE_REQUESTS));
    if (model->cells) {
        run_cells(self, model, task);
        return;
    }
    tt_engine_task_begin(task, &model->signature, &self->valid);
    if (!TT_ARRAY_RESERVE(self->group, &self->group_capacity, self->valid.capacity)) {
        struct tt_error why;
        tt_engine_members_fail(self->valid.members, self->valid.count,
                               tt_fail(TT_ERR_NO_MEMORY, &why, "out of memory"), &why);
    }
    if (!run_members(self, task)) {
        tt_engine_task_give_up(task);
        task->head.last_step_done = task->head.first_step - 1;
        return;
    }
    settle(self, task);
    if (task->head.last_step_done < task->head.last_step)
        task->head.outcome = TT_OUTCOME_PREEMPTED;
}

static void ort_arm(struct tt_executor_thread *thread) {
    const OrtApi *api = engine_of(thread->engine)->library->api;
    OrtStatus *status = api->RunOptionsUnsetTerminate(executor_of(thread)->scratch.run_options);
    tt_assert(status == NULL); /* it only sets a flag */
}

static void ort_interrupt(struct tt_executor_thread *thread) {
    const OrtApi *api = engine_of(thread->engine)->library->api;
    OrtStatus *status = api->RunOptionsSetTerminate(executor_of(thread)->scratch.run_options);
    tt_assert(status == NULL);
}

static void executor_release(struct ort_engine *engine, struct ort_executor *self) {
    if (self->scratch.run_options)
        engine->library->api->ReleaseRunOptions(self->scratch.run_options);
    tt_ort_scratch_fini(&self->scratch);
    tt_cell_scratch_fini(&self->cell_scratch);
    tt_engine_valid_members_fini(&self->valid);
    free(self->group);
}

static enum tt_err ort_renew(struct tt_executor_thread *thread,
                             const struct tt_executor_thread *old) {
    struct tt_ort_library *library = engine_of(old->engine)->library;
    struct tt_error ignored;
    return tt_ort_check(library,
                        library->api->CreateRunOptions(&executor_of(thread)->scratch.run_options),
                        &ignored);
}

static void ort_release(struct tt_executor_thread *thread) {
    executor_release(engine_of(thread->engine), executor_of(thread));
}

static const struct tt_executor_thread_ops executor_ops = {
    .run = ort_run,
    .arm = ort_arm,
    .interrupt = ort_interrupt,
    .renew = ort_renew,
    .release = ort_release,
};

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

static int32_t ort_stage_slots(const struct tt_engine_model *model) {
    const struct tt_ort_model *self = model_of(model);
    return self->step_count > 1 && !self->cells ? self->slots.slot_count : 0;
}

static int32_t ort_cell_slots(const struct tt_engine_model *model) {
    return model_of(model)->cells->slot_count;
}

static int32_t ort_cell_caches(const struct tt_engine_model *model) {
    return model_of(model)->cells->cache_count;
}

static struct ort_executor *executor_at(struct ort_engine *self, int32_t index) {
    return executor_of(tt_thread_engine_executor(&self->threads, index));
}

static void ort_close(struct tt_engine *take_engine) {
    if (!take_engine)
        return;
    struct ort_engine *self = engine_of(take_engine);
    tt_thread_engine_stop(&self->threads);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        executor_release(self, executor_at(self, i));
    tt_thread_engine_free(&self->threads);
}

static const struct tt_engine_ops ops = {
    .name = "cpu",
    .device = TT_THREAD_ENGINE_DEVICE,
    .run_here = tt_thread_engine_run_here,
    .watch = &tt_thread_engine_watch,
    .step_count = ort_step_count,
    .signature = ort_signature,
    .stage_slots = ort_stage_slots,
    .cell_slots = ort_cell_slots,
    .cell_caches = ort_cell_caches,
    .unload = ort_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .cell_emit = emit_cell,
    .cell_finish = finish_cells,
    .state_release = tt_slots_release,
    .close = ort_close,
};

enum tt_err tt_ort_engine_open(struct tt_ort_library *library,
                               const struct tt_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
    static const struct tt_thread_engine_layout layout = {.engine_bytes = sizeof(struct ort_engine),
                                                          .executor_bytes =
                                                              sizeof(struct ort_executor),
                                                          .ops = &ops};
    struct tt_thread_engine *threads;
    enum tt_err err = tt_thread_engine_open(&layout, options, &threads, why);
    if (err)
        return err;
    struct ort_engine *self = engine_of(&threads->engine);
    self->library = library;
    for (int32_t i = 0; !err && i < options->executor_count; i++)
        err = tt_ort_check(
            library, library->api->CreateRunOptions(&executor_at(self, i)->scratch.run_options),
            why);
    if (!err)
        err = tt_thread_engine_start(threads, &executor_ops, why);
    if (err) {
        ort_close(&threads->engine);
        return err;
    }
    *out_engine = &threads->engine;
    return TT_OK;
}

/* The end of loading, which made the model or failed with `err`. */
static enum tt_err adopt(struct tt_engine *engine, const char *name, enum tt_err err,
                         struct tt_ort_model *model, struct tt_engine_model **out_model,
                         struct tt_error *why) {
    if (err)
        return tt_fail_in(err, why, "%s", name);
    model->model.engine = engine;
    *out_model = &model->model;
    return TT_OK;
}

enum tt_err tt_ort_engine_load(struct tt_engine *engine, const struct tt_ort_model_options *options,
                               struct tt_engine_model **out_model, struct tt_error *why) {
    const char *name = options->name ? options->name : options->path ? options->path : "model";
    if (options->batched && options->max_batch < 1)
        return tt_fail(TT_ERR_INVALID, why, "%s: the largest batch is %d; it must be at least 1",
                       name, options->max_batch);
    struct tt_ort_model *model = NULL;
    enum tt_err err = tt_ort_model_new(engine_of(engine)->library, options, &model, why);
    return adopt(engine, name, err, model, out_model, why);
}

enum tt_err tt_ort_engine_load_slices(struct tt_engine *engine,
                                      const struct tt_ort_slices_options *options,
                                      struct tt_engine_model **out_model, struct tt_error *why) {
    const char *name = options->name ? options->name : options->directory;
    if (options->max_batch < 1)
        return tt_fail(TT_ERR_INVALID, why, "%s: the largest batch is %d; it must be at least 1",
                       name, options->max_batch);
    struct tt_ort_model *model = NULL;
    enum tt_err err = tt_ort_model_new_sliced(engine_of(engine)->library, options, &model, why);
    return adopt(engine, name, err, model, out_model, why);
}

enum tt_err tt_ort_engine_load_cells(struct tt_engine *engine,
                                     const struct tt_ort_cells_options *options,
                                     struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_model *model = NULL;
    enum tt_err err = tt_ort_model_new_cells(engine_of(engine)->library, options, &model, why);
    return adopt(engine, options->name, err, model, out_model, why);
}
