/* An engine whose models do what a test says: answer at once with a copy of each input, run until
 * they are stopped, or run until the test lets them go, deaf to everything. Its executors are
 * threads, as those of all engines. */
#ifndef STUCK_ENGINE_H
#define STUCK_ENGINE_H

#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/thread_executors.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum stuck_mode { STUCK_ANSWERS, STUCK_OBEYS, STUCK_DEAF };

struct stuck_model {
    struct tt_engine_model model;
    struct tt_signature signature;
    int32_t steps;            /* 0: 1 */
    _Atomic int mode;         /* of runs that begin */
    _Atomic bool is_let_go;   /* deaf runs end */
    _Atomic int runs, inside; /* begun so far; now */
};

struct stuck_executor {
    struct tt_executor_thread thread;
    struct tt_engine_valid_members valid;
    struct tt_gather_buffer buffer;
};

static inline struct stuck_executor *stuck_executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct stuck_executor, thread);
}

static inline void stuck_pause(void) { nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); }

static inline void stuck_answer(struct stuck_executor *self, struct tt_engine_task *task,
                                const struct tt_signature *signature) {
    struct tt_engine_valid_members *valid = &self->valid;
    struct tt_engine_result *result = tt_engine_result_new(valid->count, signature->output_count,
                                                           signature->batched, valid->rows);
    tt_assert(result != NULL);
    for (int32_t i = 0; i < signature->output_count; i++) {
        struct tt_engine_output *output = &result->outputs[i];
        tt_assert(tt_gather_input(signature, i, valid->members, valid->count, task->head.length,
                                  &self->buffer, &task->gathered_bytes, &output->view) == TT_OK);
        output->memory = malloc(output->view.size_bytes + 1);
        tt_assert(output->memory != NULL);
        memcpy(output->memory, output->view.bytes, output->view.size_bytes);
        output->view.bytes = output->memory;
    }
    tt_engine_members_share(valid->members, valid->count, result);
}

static inline void stuck_run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct stuck_executor *self = stuck_executor_of(thread);
    struct stuck_model *model = TT_CONTAINER_OF(task->model, struct stuck_model, model);
    int mode = atomic_load(&model->mode);
    atomic_fetch_add(&model->inside, 1);
    atomic_fetch_add(&model->runs, 1);
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.last_step;
    tt_engine_task_begin(task, &model->signature, &self->valid);
    while (mode == STUCK_DEAF && !atomic_load(&model->is_let_go))
        stuck_pause();
    while (mode == STUCK_OBEYS && tt_executor_thread_asked(thread) != TT_EXECUTOR_ABORT)
        stuck_pause();
    if (mode != STUCK_DEAF && tt_executor_thread_asked(thread) == TT_EXECUTOR_ABORT) {
        tt_engine_task_give_up(task);
        task->head.last_step_done = task->head.first_step - 1;
    } else if (self->valid.count > 0 && task->head.last_step + 1 >= model->steps) {
        stuck_answer(self, task, &model->signature);
    }
    atomic_fetch_sub(&model->inside, 1);
}

static inline void stuck_release(struct tt_executor_thread *thread) {
    struct stuck_executor *self = stuck_executor_of(thread);
    tt_gather_buffer_fini(&self->buffer);
    tt_engine_valid_members_fini(&self->valid);
}

static const struct tt_executor_thread_ops stuck_executor_ops = {.run = stuck_run,
                                                                 .release = stuck_release};

static inline int32_t stuck_step_count(const struct tt_engine_model *model) {
    int32_t steps =
        TT_CONTAINER_OF((struct tt_engine_model *)model, struct stuck_model, model)->steps;
    return steps ? steps : 1;
}
static inline const struct tt_signature *stuck_signature(const struct tt_engine_model *model) {
    return &TT_CONTAINER_OF((struct tt_engine_model *)model, struct stuck_model, model)->signature;
}
static inline void stuck_unload(struct tt_engine_model *take_model) {
    free(TT_CONTAINER_OF(take_model, struct stuck_model, model));
}
static inline void stuck_state_release(struct tt_engine_state *take_state) {
    tt_assert(take_state == NULL);
}
static inline void stuck_close(struct tt_engine *take_engine) {
    struct tt_thread_engine *self = TT_CONTAINER_OF(take_engine, struct tt_thread_engine, engine);
    tt_thread_engine_stop(self);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        stuck_release(tt_thread_engine_executor(self, i));
    tt_thread_engine_free(self);
}

static const struct tt_engine_ops stuck_ops = {
    .name = "stuck",
    .device = TT_THREAD_ENGINE_DEVICE,
    .run_here = tt_thread_engine_run_here,
    .watch = &tt_thread_engine_watch,
    .step_count = stuck_step_count,
    .signature = stuck_signature,
    .unload = stuck_unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = stuck_state_release,
    .close = stuck_close,
};

static inline struct tt_engine *stuck_open(const struct tt_engine_options *options) {
    static const struct tt_thread_engine_layout layout = {
        .engine_bytes = sizeof(struct tt_thread_engine),
        .executor_bytes = sizeof(struct stuck_executor),
        .ops = &stuck_ops};
    struct tt_thread_engine *self;
    struct tt_error why;
    tt_assert(tt_thread_engine_open(&layout, options, &self, &why) == TT_OK);
    tt_assert(tt_thread_engine_start(self, &stuck_executor_ops, &why) == TT_OK);
    return &self->engine;
}

static inline struct stuck_model *stuck_load(struct tt_engine *engine,
                                             const struct tt_signature *signature) {
    struct stuck_model *self = calloc(1, sizeof(*self));
    tt_assert(self != NULL);
    self->model.engine = engine;
    self->signature = *signature;
    return self;
}

#endif
