#include "engine/onnxruntime/ort_exit_routes.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/array.h"
#include "base/clock.h"
#include "engine/engine_result.h"
#include "engine/exit_condition.h"
#include "engine/onnxruntime/ort_tensor.h"

#include <stdlib.h>
#include <string.h>

void tt_ort_exit_routes_fini(struct tt_ort_exit_routes *self) {
    free(self->of_member);
    free(self->values);
    *self = (struct tt_ort_exit_routes){0};
}

bool tt_ort_exit_routes_any(const struct tt_ort_run *run, int32_t step) {
    const struct tt_ort_exits *exits = &tt_ort_run_model(run)->exits;
    for (int32_t i = 0; i < exits->count; i++)
        if (exits->exits[i].step == step)
            return true;
    return false;
}

void tt_ort_exit_routes_drop(struct tt_ort_run *run) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    OrtValue **values = run->scratch->routes.values;
    int64_t count = run->scratch->routes.value_capacity;
    for (int64_t i = 0; i < count; i++) {
        if (values[i])
            model->library->api->ReleaseValue(values[i]);
        values[i] = NULL;
    }
}

/* ---- conditions ---- */

static enum tt_err run_graph(struct tt_ort_run *run, const struct tt_ort_exit *exit,
                             struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    struct tt_ort_scratch *scratch = run->scratch;
    const struct tt_signature *graph = exit->graph;
    for (int32_t i = 0; i < graph->input_count; i++) {
        enum tt_err err = tt_ort_run_bind(run, exit->inputs[i], why);
        if (err)
            return err;
        scratch->inputs[i] = scratch->values[exit->inputs[i]];
    }
    return tt_ort_check(model->library,
                        model->library->api->Run(exit->session, scratch->run_options,
                                                 exit->input_names, scratch->inputs,
                                                 (size_t)graph->input_count, exit->output_names,
                                                 (size_t)graph->output_count,
                                                 &scratch->routes.values[exit->first_value]),
                        why);
}

/* Records the exit for members that meet its graph's condition and have no exit yet. */
static enum tt_err ask_graph(struct tt_ort_run *run, int32_t index, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_exit *exit = &model->exits.exits[index];
    const struct tt_tensor_spec *spec = &exit->graph->outputs[exit->condition];
    struct tt_tensor_view view;
    enum tt_err err = tt_ort_value_view(
        model->library, spec->dtype,
        run->scratch->routes.values[exit->first_value + exit->condition], &view, why);
    if (err)
        return err;
    bool batched = model->signature.batched;
    int64_t rows = batched ? run->rows : 1;
    if (view.size_bytes != (size_t)rows * tt_dtype_bytes(spec->dtype))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "the condition '%s' has %zu values for %lld rows; it must have one per row",
                       spec->name, view.size_bytes / tt_dtype_bytes(spec->dtype), (long long)rows);
    int64_t row = 0;
    for (int32_t i = 0; i < run->count; i++) {
        bool met = true;
        int64_t end = row + (batched ? run->members[i]->rows : 1);
        for (; row < end; row++)
            met &= tt_exit_condition_is_met(view.bytes, spec->dtype, row);
        if (met && run->scratch->routes.of_member[i] < 0)
            run->scratch->routes.of_member[i] = index;
    }
    return TT_OK;
}

/* The number of the member's own elements per row of the tensor, without padding. */
static int64_t own_elements(const struct tt_ort_run *run, const struct tt_engine_member *member,
                            int32_t tensor, const struct tt_tensor_view *view,
                            int64_t row_elements) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_shape *declared = &model->tensors[tensor].shape;
    bool may_pad = run->length > 0 && view->shape.rank > 1 && view->shape.dims[1] == run->length &&
                   declared->rank > 1 && declared->dims[1] < 0;
    for (int32_t i = 0; may_pad && i < model->signature.input_count; i++)
        if (tt_gather_pads(&model->signature, i, run->length))
            return row_elements / run->length * member->inputs[i].shape.dims[1];
    return row_elements;
}

static enum tt_err ask_moved(struct tt_ort_run *run, int32_t index, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_exit *exit = &model->exits.exits[index];
    struct tt_tensor_view now, then;
    const int32_t tensors[] = {exit->moved, exit->since};
    for (int32_t i = 0; i < 2; i++) {
        enum tt_err err = tt_ort_run_bind(run, tensors[i], why);
        if (!err)
            err = tt_ort_value_view(model->library, TT_DTYPE_FP32, run->scratch->values[tensors[i]],
                                    i ? &then : &now, why);
        if (err)
            return err;
    }
    int64_t rows = model->signature.batched ? run->rows : 1;
    if (now.size_bytes != then.size_bytes || now.size_bytes % ((size_t)rows * sizeof(float)) != 0)
        return tt_fail(TT_ERR_INTERNAL, why,
                       "'%s' and '%s' differ in size per row: the condition `moved` needs tensors "
                       "of equal size",
                       model->tensors[exit->moved].name, model->tensors[exit->since].name);
    int64_t row_elements = (int64_t)(now.size_bytes / sizeof(float)) / rows, at = 0;
    for (int32_t i = 0; i < run->count; i++) {
        const struct tt_engine_member *member = run->members[i];
        int64_t own = own_elements(run, member, exit->moved, &now, row_elements);
        bool met = true;
        for (int32_t r = 0; r < (model->signature.batched ? member->rows : 1); r++) {
            met = met && tt_exit_condition_moved_less((const float *)now.bytes + at,
                                                      (const float *)then.bytes + at, own,
                                                      exit->less_than);
            at += row_elements;
        }
        if (met && run->scratch->routes.of_member[i] < 0)
            run->scratch->routes.of_member[i] = index;
    }
    return TT_OK;
}

static int32_t going_by(const struct tt_ort_run *run, int32_t index) {
    int32_t count = 0;
    for (int32_t i = 0; i < run->count; i++)
        count += run->scratch->routes.of_member[i] == index;
    return count;
}

enum tt_err tt_ort_exit_routes_find(struct tt_ort_run *run, int32_t step, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    struct tt_ort_exit_routes *self = &run->scratch->routes;
    if (!TT_ARRAY_RESERVE(self->of_member, &self->member_capacity, run->count) ||
        !TT_ARRAY_RESERVE(self->values, &self->value_capacity, model->exits.value_count))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a batch of %d", run->count);
    for (int32_t i = 0; i < run->count; i++)
        self->of_member[i] = -1;
    int64_t began_at = tt_clock_now();
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < model->exits.count; e++) {
        const struct tt_ort_exit *exit = &model->exits.exits[e];
        if (exit->step != step)
            continue;
        err = exit->condition >= 0 ? run_graph(run, exit, why) : ask_moved(run, e, why);
        if (!err && exit->condition >= 0)
            err = ask_graph(run, e, why);
        else if (!err && exit->session && going_by(run, e) > 0)
            err = run_graph(run, exit, why);
        if (err)
            err = tt_fail_in(err, why, "the exit after stage %d", step);
    }
    run->task->infer_ns += tt_clock_now() - began_at;
    self->diverging = self->leaving = 0;
    for (int32_t i = 0; i < run->count; i++) {
        if (run->task->together)
            self->of_member[i] = -1;
        int32_t e = self->of_member[i];
        self->diverging += e >= 0;
        self->leaving += e >= 0 && model->exits.exits[e].to == model->step_count;
    }
    return err;
}

/* ---- the tensors of an exit ---- */

/* The rows [first, first + rows) of a view of all rows. */
static struct tt_tensor_view rows_of(const struct tt_ort_run *run, struct tt_tensor_view view,
                                     int32_t first, int32_t rows) {
    if (!tt_ort_run_model(run)->signature.batched)
        return view;
    size_t row_bytes = view.size_bytes / (size_t)run->rows;
    view.bytes = (const char *)view.bytes + row_bytes * (size_t)first;
    view.size_bytes = row_bytes * (size_t)rows;
    view.shape.dims[0] = rows;
    return view;
}

/* A view of the given tensor, for all rows of the run. */
static enum tt_err view_given(struct tt_ort_run *run, const struct tt_ort_exit *exit,
                              const struct tt_ort_give *give, struct tt_tensor_view *out_view,
                              struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    enum tt_dtype dtype = model->tensors[give->tensor].dtype;
    OrtValue *value = NULL;
    if (give->output >= 0) {
        value = run->scratch->routes.values[exit->first_value + give->output];
    } else {
        enum tt_err err = tt_ort_run_bind(run, give->from, why);
        if (err)
            return err;
        value = run->scratch->values[give->from];
    }
    enum tt_err err = tt_ort_value_view(model->library, dtype, value, out_view, why);
    if (err)
        return err;
    const struct tt_shape *shape = &out_view->shape;
    if (model->signature.batched && (shape->rank < 1 || shape->dims[0] != run->rows))
        return tt_fail(TT_ERR_INTERNAL, why,
                       "the tensor given as '%s' does not have the batch's %d rows",
                       model->tensors[give->tensor].name, run->rows);
    return TT_OK;
}

/* Stores the skipped steps' tensors in the slots of the members that take this exit. */
static enum tt_err send_on(struct tt_ort_run *run, int32_t index, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_exit *exit = &model->exits.exits[index];
    for (int32_t g = 0; g < exit->give_count; g++) {
        const struct tt_ort_give *give = &exit->gives[g];
        struct tt_tensor_view all;
        enum tt_err err = view_given(run, exit, give, &all, why);
        int32_t row = 0;
        for (int32_t i = 0; !err && i < run->count; i++) {
            struct tt_engine_member *member = run->members[i];
            struct tt_tensor_view part = rows_of(run, all, row, member->rows);
            row += member->rows;
            if (run->scratch->routes.of_member[i] != index)
                continue;
            err = tt_slots_put((struct tt_slots *)&model->slots, member->state, give->tensor, &part,
                               run->task);
            if (err)
                err =
                    tt_fail(err, why, "out of memory for '%s'", model->tensors[give->tensor].name);
        }
        if (err)
            return err;
    }
    return TT_OK;
}

static bool is_given_once(const struct tt_ort_exit *exit, int32_t output) {
    int32_t count = 0;
    for (int32_t g = 0; g < exit->give_count; g++)
        count += exit->gives[g].output == output;
    return count == 1;
}

/* The value of an output: moved out of the exit's graph if only this output needs it, else a copy,
 * because other members continue with the original. */
static enum tt_err take_output(struct tt_ort_run *run, const struct tt_ort_exit *exit,
                               const struct tt_ort_give *give, OrtValue **out_value,
                               struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    if (give->output >= 0 && is_given_once(exit, give->output)) {
        OrtValue **made = &run->scratch->routes.values[exit->first_value + give->output];
        *out_value = *made;
        *made = NULL;
        return TT_OK;
    }
    struct tt_tensor_view view;
    enum tt_err err = view_given(run, exit, give, &view, why);
    return err ? err
               : tt_ort_value_copy(model->library, model->tensors[give->tensor].dtype, &view,
                                   out_value, why);
}

/* Gives members that leave by this exit one shared result, which has all rows of the run. */
static enum tt_err answer(struct tt_ort_run *run, int32_t index, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    const struct tt_ort_exit *exit = &model->exits.exits[index];
    const struct tt_signature *signature = &model->signature;
    struct tt_engine_result *result = tt_engine_result_new(
        going_by(run, index), signature->output_count, signature->batched, run->rows);
    if (!result)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    result->dispose = tt_ort_output_dispose;
    result->context = model->library;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < signature->output_count; i++) {
        const struct tt_ort_give *give = exit->gives;
        while (give->tensor != model->outputs[i])
            give++;
        OrtValue *value = NULL;
        err = take_output(run, exit, give, &value, why);
        if (!err)
            err = tt_ort_output_read(model->library, &signature->outputs[i], i, value, result, why);
    }
    if (err) {
        tt_engine_result_free(result);
        return err;
    }
    int32_t row = 0;
    for (int32_t i = 0; i < run->count; i++) {
        struct tt_engine_member *member = run->members[i];
        if (run->scratch->routes.of_member[i] == index) {
            member->result = result;
            member->first_row = row;
        }
        row += member->rows;
    }
    return TT_OK;
}

static void take_back(struct tt_ort_run *run) {
    for (int32_t i = 0; i < run->count; i++) {
        if (run->members[i]->result)
            tt_engine_result_release(run->members[i]->result);
        run->members[i]->result = NULL;
    }
}

enum tt_err tt_ort_exit_routes_take(struct tt_ort_run *run, struct tt_error *why) {
    const struct tt_ort_model *model = tt_ort_run_model(run);
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < model->exits.count; e++)
        if (going_by(run, e) > 0)
            err = model->exits.exits[e].to == model->step_count ? answer(run, e, why)
                                                                : send_on(run, e, why);
    if (err) {
        take_back(run);
        return err;
    }
    for (int32_t i = 0; i < run->count; i++) {
        int32_t e = run->scratch->routes.of_member[i];
        int32_t to = e >= 0 ? model->exits.exits[e].to : run->last_step_done + 1;
        run->members[i]->next_step = to;
        run->members[i]->skips += e >= 0 && to < model->step_count;
    }
    return TT_OK;
}
