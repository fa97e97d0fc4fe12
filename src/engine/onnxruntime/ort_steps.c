#include "engine/onnxruntime/ort_steps.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/array.h"
#include "base/clock.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/onnxruntime/ort_exit_routes.h"
#include "engine/onnxruntime/ort_tensor.h"

#include <stdlib.h>
#include <string.h>

void tt_ort_scratch_fini(struct tt_ort_scratch *self) {
    for (int32_t i = 0; i < self->buffer_capacity; i++)
        tt_gather_buffer_fini(&self->buffers[i]);
    free(self->buffers);
    free(self->values);
    free(self->views);
    free(self->inputs);
    free(self->outputs);
    tt_ort_exit_routes_fini(&self->routes);
    *self = (struct tt_ort_scratch){0};
}

/* Ensures room for a model of `tensors` tensors and a batch of `members` members. */
static bool scratch_ensure(struct tt_ort_scratch *self, int32_t tensors, int32_t members) {
    return TT_ARRAY_RESERVE(self->buffers, &self->buffer_capacity, tensors) &&
           TT_ARRAY_RESERVE(self->values, &self->value_capacity, tensors) &&
           TT_ARRAY_RESERVE(self->inputs, &self->input_capacity, tensors) &&
           TT_ARRAY_RESERVE(self->outputs, &self->output_capacity, tensors) &&
           TT_ARRAY_RESERVE(self->views, &self->view_capacity, members);
}

static void drop_value(const struct tt_ort_run *run, int32_t tensor) {
    OrtValue **value = &run->scratch->values[tensor];
    if (*value)
        tt_ort_run_model(run)->library->api->ReleaseValue(*value);
    *value = NULL;
}

/* ---- binding ---- */

/* Binds a tensor that outlives the task to the members' slots, if possible; otherwise the runtime
 * allocates it. */
static enum tt_err bind_output(struct tt_ort_run *run, int32_t tensor, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_carried *carried = &model->tensors[tensor];
    bool outlives = run->last_step < model->step_count - 1 && carried->last_use > run->last_step;
    if (!outlives || !model->signature.batched || carried->row_count == 0)
        return TT_OK;
    size_t row_bytes = (size_t)carried->row_count * tt_dtype_bytes(carried->dtype);
    struct tt_tensor_view view = {.shape = carried->shape};
    view.bytes = tt_slots_place((struct tt_slots *)&model->slots, run->members, run->count, tensor,
                                row_bytes);
    if (!view.bytes)
        return TT_OK;
    view.size_bytes = row_bytes * (size_t)run->rows;
    view.shape.dims[0] = run->rows;
    return tt_ort_value_new(model->library, carried->dtype, &view, &run->scratch->values[tensor],
                            why);
}

/* ---- running ---- */

static enum tt_err call_step(struct tt_ort_run *run, int32_t index, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_step *step = &model->steps[index];
    struct tt_ort_scratch *scratch = run->scratch;
    enum tt_err err = TT_OK;
    int64_t began_at = tt_clock_now();
    for (int32_t i = 0; !err && i < step->input_count; i++) {
        err = tt_ort_run_bind(run, step->inputs[i], why);
        scratch->inputs[i] = scratch->values[step->inputs[i]];
    }
    for (int32_t i = 0; !err && i < step->output_count; i++) {
        err = bind_output(run, step->outputs[i], why);
        scratch->outputs[i] = scratch->values[step->outputs[i]];
    }
    if (err)
        return err;
    int64_t bound_at = tt_clock_now();
    err = tt_ort_check(
        model->library,
        model->library->api->Run(tt_ort_step_session(model, index, run->task->head.executor),
                                 scratch->run_options, step->input_names, scratch->inputs,
                                 (size_t)step->input_count, step->output_names,
                                 (size_t)step->output_count, scratch->outputs),
        why);
    /* Sums over the steps, and over the members when they run one by one. */
    run->task->input_ns += bound_at - began_at;
    int64_t ended_at = tt_clock_now();
    run->task->infer_ns += ended_at - bound_at;
    tt_engine_task_step_ended(run->task, index, ended_at);
    for (int32_t i = 0; i < step->output_count; i++)
        scratch->values[step->outputs[i]] = scratch->outputs[i];
    return err;
}

/* Releases tensors that no step after `step` reads. */
static void drop_values_after(const struct tt_ort_run *run, int32_t step) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    for (int32_t t = 0; t < model->tensor_count; t++)
        if (model->tensors[t].last_use <= step)
            drop_value(run, t);
}

/* ---- storing what outlives the task ---- */

/* True if the member leaves the model where the run ends. */
static bool leaves(const struct tt_ort_run *run, int32_t member) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    int32_t exit = run->parts ? run->scratch->routes.of_member[member] : -1;
    return exit >= 0 && model->exits.exits[exit].to == model->step_count;
}

/* Stores a tensor's rows in the members' slots. It must have exactly the members' rows. */
static enum tt_err put_down(struct tt_ort_run *run, int32_t tensor, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_carried *carried = &model->tensors[tensor];
    struct tt_tensor_view whole;
    enum tt_err err = tt_ort_value_view(model->library, carried->dtype,
                                        run->scratch->values[tensor], &whole, why);
    if (err)
        return err;
    int32_t rows = run->rows;
    char text[256];
    bool batched = model->signature.batched;
    if (batched && (whole.shape.rank < 1 || whole.shape.dims[0] != rows))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "tensor '%s' has shape %s after a batch of %d rows: the stage that makes it "
                       "does not keep rows apart",
                       carried->name, tt_shape_print(&whole.shape, text, sizeof(text)), rows);
    size_t row_bytes = batched ? whole.size_bytes / (size_t)rows : whole.size_bytes;
    const char *at = whole.bytes;
    for (int32_t i = 0; !err && i < run->count; i++) {
        struct tt_tensor_view part = whole;
        part.bytes = at;
        if (batched) {
            part.size_bytes = row_bytes * (size_t)run->members[i]->rows;
            part.shape.dims[0] = run->members[i]->rows;
        }
        at += part.size_bytes;
        if (leaves(run, i))
            continue;
        err = tt_slots_put((struct tt_slots *)&model->slots, run->members[i]->state, tensor, &part,
                           run->task);
    }
    return err ? tt_fail(err, why, "out of memory for '%s' between two stages", carried->name)
               : TT_OK;
}

static enum tt_err put_all_down(struct tt_ort_run *run, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    enum tt_err err =
        tt_slots_take((struct tt_slots *)&model->slots, run->members, run->count, run->length);
    if (err)
        return tt_fail(err, why, "out of memory for a batch between two stages");
    for (int32_t t = 0; !err && t < model->tensor_count; t++) {
        const struct tt_ort_carried *carried = &model->tensors[t];
        bool made_here =
            carried->producer >= run->first_step && carried->producer <= run->last_step_done;
        if (made_here && carried->last_use > run->last_step_done)
            err = put_down(run, t, why);
    }
    return err;
}

/* ---- answering ---- */

/* Copies an output of an earlier task for the result, because it lies in slots that are about to be
 * released. */
static enum tt_err fetch_output(struct tt_ort_run *run, int32_t tensor, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    struct tt_tensor_view view;
    enum tt_err err = tt_ort_run_gather(run, tensor, &view, why);
    return err ? err
               : tt_ort_value_copy(model->library, model->tensors[tensor].dtype, &view,
                                   &run->scratch->values[tensor], why);
}

static enum tt_err answer(struct tt_ort_run *run, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_signature *signature = &model->signature;
    struct tt_engine_result *result =
        tt_engine_result_new(run->count, signature->output_count, signature->batched, run->rows);
    if (!result)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    result->dispose = tt_ort_output_dispose;
    result->context = model->library;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < signature->output_count; i++) {
        int32_t tensor = model->outputs[i];
        if (model->tensors[tensor].producer < run->first_step)
            err = fetch_output(run, tensor, why);
        if (err)
            break;
        OrtValue *value = run->scratch->values[tensor];
        run->scratch->values[tensor] = NULL;
        err = tt_ort_output_read(model->library, &signature->outputs[i], i, value, result, why);
    }
    if (err) {
        tt_engine_result_free(result);
        return err;
    }
    tt_engine_members_share(run->members, run->count, result);
    return TT_OK;
}

/* Determines the padded length of the members' inputs for this run. */
static enum tt_err agree_on_length(struct tt_ort_run *run, struct tt_error *why) {
    run->length = run->task->head.length;
    for (int32_t i = 0; i < run->count; i++) {
        struct tt_engine_member *member = run->members[i];
        if (run->first_step == 0) { /* results of an earlier, aborted start are discarded */
            if (member->state && member->state->length != run->length) {
                tt_slots_release(member->state);
                member->state = NULL;
            }
            continue;
        }
        tt_assert(member->state !=
                  NULL); /* a member reaches this step only through the step before */
        if (i > 0 && member->state->length != run->length)
            return tt_fail(TT_ERR_INVALID, why,
                           "requests padded to %d and to %d cannot join in the middle of a model",
                           run->length, member->state->length);
        run->length = member->state->length;
    }
    return TT_OK;
}

/* D8: evaluates the exits of the step, if it has any. */
static enum tt_err look_at_exits(struct tt_ort_run *run, int32_t step, struct tt_error *why) {
    if (!tt_ort_exit_routes_any(run, step))
        return TT_OK;
    enum tt_err err = tt_ort_exit_routes_find(run, step, why);
    run->parts = !err && run->scratch->routes.diverging > 0;
    return err;
}

/* Runs step after step to the last one, or until something stops the run. */
static enum tt_err run_steps(struct tt_ort_run *run, struct tt_error *why) {
    for (int32_t step = run->first_step; step <= run->last_step; step++) {
        enum tt_err err = call_step(run, step, why);
        if (!err)
            err = look_at_exits(run, step, why);
        if (err)
            return err;
        run->last_step_done = step;
        if (run->parts || step == run->last_step)
            break;
        drop_values_after(run, step);
        enum tt_executor_stop asked = tt_executor_thread_asked(run->thread);
        if (asked == TT_EXECUTOR_ABORT)
            return TT_OK;
        run->yielded = asked == TT_EXECUTOR_YIELD && run->may_yield;
        if (run->yielded)
            break;
    }
    run->computed = true;
    return TT_OK;
}

static enum tt_err run_all(struct tt_ort_run *run, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    enum tt_err err = agree_on_length(run, why);
    if (!err && run->last_step < model->step_count - 1 &&
        tt_slots_take((struct tt_slots *)&model->slots, run->members, run->count, run->length))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch between two stages");
    if (!err)
        err = run_steps(run, why);
    if (err || !run->computed)
        return err;
    if (run->last_step_done == model->step_count - 1)
        err = answer(run, why);
    else if (!run->parts || run->scratch->routes.leaving < run->count)
        err = put_all_down(run, why);
    if (!err && run->parts)
        return tt_ort_exit_routes_take(run, why);
    bool ended = run->last_step_done == model->step_count - 1;
    for (int32_t i = 0; !err && i < run->count; i++)
        run->members[i]->next_step = run->last_step_done + (ended ? 2 : 1);
    return err;
}

enum tt_err tt_ort_run(struct tt_ort_run *run, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    run->last_step_done = run->first_step - 1;
    run->computed = run->parts = run->yielded = false;
    run->rows = 0;
    for (int32_t i = 0; i < run->count; i++)
        run->rows += run->members[i]->rows;
    if (!scratch_ensure(run->scratch, model->tensor_count, run->count))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of %d", run->count);
    enum tt_err err = run_all(run, why);
    for (int32_t t = 0; t < model->tensor_count; t++)
        drop_value(run, t);
    tt_ort_exit_routes_drop(run);
    return err;
}
