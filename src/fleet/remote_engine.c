#include "fleet/remote_engine.h"

#include "base/clock.h"
#include "base/threads/ring.h"
#include "engine/engine_result.h"

#include <stdlib.h>
#include <string.h>

struct tt_remote_engine {
    struct tt_ring queue;
    void (*wake)(void *context);
    void *context;
};

struct engine {
    struct tt_engine engine; /* first */
    struct tt_remote_engine *remote;
};

struct model {
    struct tt_engine_model model; /* first */
    int32_t step_count;
    struct tt_signature signature;
};

static const struct model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct model, model);
}

/* ---- the queue ---- */

struct tt_remote_engine *tt_remote_engine_new(int32_t capacity) {
    struct tt_remote_engine *self = calloc(1, sizeof(*self));
    if (self && tt_ring_init(&self->queue, capacity)) {
        free(self);
        return NULL;
    }
    return self;
}

void tt_remote_engine_free(struct tt_remote_engine *take_self) {
    if (!take_self)
        return;
    tt_ring_fini(&take_self->queue);
    free(take_self);
}

void tt_remote_engine_attach(struct tt_remote_engine *self, void (*wake)(void *context),
                             void *context) {
    self->wake = wake;
    self->context = context;
}

/* Tasks, and members that are withdrawn, in one queue: a withdrawal comes after its task, and
 * before the next use of the task's memory. */
enum { IS_MEMBER = 1 };

static void push(struct tt_remote_engine *self, uintptr_t item) {
    bool has_room = tt_ring_push(&self->queue, (void *)item);
    tt_assert(has_room);
}

struct tt_engine_task *tt_remote_engine_take(struct tt_remote_engine *self,
                                             struct tt_engine_member **out_withdrawn) {
    uintptr_t item = (uintptr_t)tt_ring_pop(&self->queue);
    bool is_member = (item & IS_MEMBER) != 0;
    *out_withdrawn = is_member ? (struct tt_engine_member *)(item - IS_MEMBER) : NULL;
    return is_member ? NULL : (struct tt_engine_task *)item;
}

void tt_remote_engine_done(struct tt_engine_task *task, int64_t ended_at, bool more) {
    struct tt_engine *engine = task->model->engine;
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.last_step;
    task->head.ended_at = ended_at;
    task->head.more = more;
    task->infer_ns = ended_at - task->head.started_at;
    engine->done(engine->done_context, &task->head);
}

/* The domains of a server hand their tasks over one after the other (serve/domain.h), so the queue
 * has one producer at a time. */
static void submit(void *self, struct tt_device_task *head) {
    struct engine *engine = self;
    head->started_at = tt_clock_now();
    push(engine->remote, (uintptr_t)tt_engine_task_of(head));
}

static void flush(void *self) {
    const struct engine *engine = self;
    engine->remote->wake(engine->remote->context);
}

static void withdraw(struct tt_engine *self, struct tt_engine_member *member) {
    const struct engine *engine = TT_CONTAINER_OF(self, struct engine, engine);
    push(engine->remote, (uintptr_t)member | IS_MEMBER);
    engine->remote->wake(engine->remote->context);
}

static void stop(void *self, struct tt_device_task *head) {
    (void)self;
    (void)head;
}

/* ---- results ---- */

static enum tt_err check_output(const struct tt_signature *signature, int32_t index, int32_t rows,
                                const struct tt_tensor_view *view, struct tt_error *why) {
    const struct tt_tensor_spec *spec = &signature->outputs[index];
    int64_t count = tt_shape_count(&view->shape, 0);
    size_t element = tt_dtype_bytes(spec->dtype);
    bool fits = tt_shape_fits(&view->shape, &spec->shape, signature->batched) && count >= 0 &&
                (!signature->batched || view->shape.dims[0] == rows);
    if (!fits || (element > 0 && (uint64_t)count > SIZE_MAX / element))
        return tt_fail(TT_ERR_INVALID, why, "output '%s' of a backend has an unexpected shape",
                       spec->name);
    return element == 0 || view->size_bytes == (size_t)count * element
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why, "output '%s' of a backend has %zu bytes", spec->name,
                         view->size_bytes);
}

/* Copies the output, and checks the copy: the source may change at any time. */
static enum tt_err copy_output(struct tt_engine_result *result, int32_t index,
                               const struct tt_tensor_spec *spec, bool has_rows,
                               const struct tt_tensor_view *view, struct tt_error *why) {
    struct tt_engine_output *output = &result->outputs[index];
    output->memory = malloc(view->size_bytes + 1); /* freed with the result */
    if (!output->memory)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an answer");
    if (view->size_bytes > 0)
        memcpy(output->memory, view->bytes, view->size_bytes);
    output->view = *view;
    output->view.bytes = output->memory;
    if (spec->dtype != TT_DTYPE_BYTES)
        return TT_OK;
    enum tt_err err = tt_bytes_tensor_check(output->memory, view->size_bytes,
                                            tt_shape_count(&view->shape, 0), why);
    if (!err && has_rows && (err = tt_engine_result_index_rows(result, index)))
        tt_fail(err, why, "out of memory for an answer");
    return err;
}

enum tt_err tt_remote_engine_result(const struct tt_engine_task *task,
                                    struct tt_engine_member *member,
                                    const struct tt_tensor_view *views, struct tt_error *why) {
    const struct tt_signature *signature = &model_of(task->model)->signature;
    for (int32_t i = 0; i < signature->output_count; i++) {
        enum tt_err err = check_output(signature, i, member->rows, &views[i], why);
        if (err)
            return err;
    }
    struct tt_engine_result *result =
        tt_engine_result_new(1, signature->output_count, signature->batched, member->rows);
    if (!result)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for an answer");
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < signature->output_count; i++)
        err = copy_output(result, i, &signature->outputs[i], signature->batched, &views[i], why);
    if (err) {
        tt_engine_result_free(result);
        return err;
    }
    member->result = result;
    member->first_row = 0;
    return TT_OK;
}

/* ---- the engine ---- */

static int32_t step_count(const struct tt_engine_model *model) {
    return model_of(model)->step_count;
}

static const struct tt_signature *signature_of(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

static void unload(struct tt_engine_model *take_model) {
    if (take_model)
        free(TT_CONTAINER_OF(take_model, struct model, model));
}

static void close_engine(struct tt_engine *take_engine) {
    if (take_engine)
        free(TT_CONTAINER_OF(take_engine, struct engine, engine));
}

static const struct tt_engine_ops ops = {
    .name = "cluster",
    .emits = true,
    .device = {.submit = submit, .flush = flush, .yield = stop, .abort = stop},
    .withdraw = withdraw,
    .step_count = step_count,
    .signature = signature_of,
    .unload = unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = tt_engine_no_state_release,
    .close = close_engine,
};

static enum tt_err open_shared(const struct tt_engine_runtime_options *options, void **out_shared,
                               struct tt_error *why) {
    (void)why;
    tt_assert(options->context != NULL);
    *out_shared = options->context;
    return TT_OK;
}

static enum tt_err open_engine(void *shared, const struct tt_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
    struct engine *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->engine = (struct tt_engine){.ops = &ops,
                                      .executor_count = options->executor_count,
                                      .done = options->done,
                                      .done_context = options->done_context};
    self->remote = shared;
    *out_engine = &self->engine;
    return TT_OK;
}

static enum tt_err load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    const struct tt_signature *signature = spec->signature;
    if (!signature || signature->input_count == 0 || signature->output_count == 0)
        return tt_fail(
            TT_ERR_INVALID, why,
            "%s: this role of a cluster reads no model file; list the inputs and outputs "
            "in config.pbtxt",
            spec->name);
    struct model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", spec->name);
    self->model.engine = engine;
    self->step_count = spec->emulation ? spec->emulation->step_count : 1;
    self->signature = *signature;
    *out_model = &self->model;
    return TT_OK;
}

const struct tt_engine_kind tt_remote_engine_kind = {
    .traits = {.name = "cluster",
               .platform = "cluster",
               .needs_profile = true,
               .emulates = true,
               .runs_whole = true},
    .open_shared = open_shared,
    .open = open_engine,
    .load = load,
};
