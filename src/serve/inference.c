#include "serve/inference.h"

#include "base/clock.h"
#include "base/instant.h"
#include "engine/engine_result.h"
#include "serve/cell_run.h"
#include "serve/emissions.h"
#include "serve/ensemble.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "serve/port.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/unfolder.h"
#include "serve/word_stream.h"

#include <string.h>

enum { MARGIN = 8 };       /* the share of its time by which a request may exceed a refused one */
enum { ANSWER_SHARE = 4 }; /* of its time, at most, that is kept for writing its answer */

/* An inference of these shapes, without memory for inputs yet. */
static enum tt_err take(struct tt_port *port, struct tt_served_model *model, int32_t quota,
                        const struct tt_inference_shape *shapes, int32_t count,
                        struct tt_inference **out_inference, struct tt_error *why) {
    int32_t rows, length;
    enum tt_err err = tt_inference_shape_check(model, shapes, count, &rows, &length, why);
    if (err)
        return err;
    if (model->inputs && rows > model->inputs->slots.capacity)
        return tt_fail(TT_ERR_INVALID, why,
                       "the request has %d rows, but model '%s' has room for the inputs of %d "
                       "(input_slots of its tutti.pbtxt)",
                       rows, model->name, model->inputs->slots.capacity);
    err = tt_port_take(port, model, quota, out_inference, why);
    if (err)
        return err;
    (*out_inference)->rows = rows;
    (*out_inference)->length = length;
    return TT_OK;
}

enum tt_err tt_inference_begin(struct tt_port *port, struct tt_served_model *model,
                               const struct tt_inference_shape *shapes, const size_t *sizes_bytes,
                               int32_t count, struct tt_inference **out_inference,
                               struct tt_error *why) {
    const struct tt_ensemble *ensemble = model->ensemble;
    struct tt_inference *inference;
    enum tt_err err =
        take(port, model, ensemble ? ensemble->quota : 1, shapes, count, &inference, why);
    if (err)
        return err;
    err = tt_port_place_inputs(inference, shapes, sizes_bytes, why);
    if (!err && ensemble)
        err = ensemble->ops->begin(inference, why);
    if (err) {
        tt_inference_release(inference);
        return err;
    }
    *out_inference = inference;
    return TT_OK;
}

enum tt_err tt_inference_begin_lent(struct tt_port *port, struct tt_served_model *model,
                                    const struct tt_inference_loan *loan,
                                    struct tt_inference **out_inference, struct tt_error *why) {
    struct tt_inference_shape shapes[TT_MAX_TENSORS];
    struct tt_inference *inference;
    int32_t count = model->signature->input_count;
    shapes[0] = (struct tt_inference_shape){0}; /* of a model without inputs */
    for (int32_t i = 0; i < count; i++)
        shapes[i] = (struct tt_inference_shape){.input = i, .shape = loan->inputs[i].shape};
    enum tt_err err = take(port, model, 0, shapes, count, &inference, why);
    if (err)
        return err;
    for (int32_t i = 0; i < count; i++)
        inference->inputs[i] = loan->inputs[i];
    if (model->ensemble)
        err = model->ensemble->ops->begin(inference, why);
    if (err) {
        tt_inference_release(inference);
        return err;
    }
    inference->returned = loan->returned;
    inference->returned_context = loan->context;
    *out_inference = inference;
    return TT_OK;
}

void *tt_inference_input(struct tt_inference *inference, int32_t input, size_t *out_size_bytes) {
    tt_assert(!inference->submitted);
    *out_size_bytes = inference->inputs[input].size_bytes;
    return (void *)inference->inputs[input].bytes;
}

/* How long the client waits: its own timeout, where the model's queue rule permits one (then at
 * most the rule's timeout); else the rule's timeout; else the model's objective. */
static int64_t patience_of(const struct tt_served_model *model, int32_t priority,
                           const struct tt_inference_options *options) {
    struct tt_queue_rule rule = {0};
    if (model->rules)
        rule = model->rules[priority];
    bool permits = !model->rules || model->honours_timeout || rule.allow_override;
    int64_t asked_ns = permits && options->timeout_ns > 0 ? options->timeout_ns : TT_NEVER;
    int64_t own_ns = rule.timeout_ns > 0 ? rule.timeout_ns : model->step_model.slo_ns;
    if (rule.timeout_ns > 0)
        return tt_instant_min(asked_ns, own_ns);
    return asked_ns != TT_NEVER ? asked_ns : own_ns;
}

bool tt_inference_may_ask(const struct tt_served_model *model) {
    return tt_counter_get(&model->stats->refused_ns) > 0 && model->rules && !model->varies &&
           !model->pad && !model->cells && !model->ensemble && !model->unfolder && !model->inputs;
}

bool tt_inference_should_ask(const struct tt_served_model *model,
                             const struct tt_inference_options *options) {
    int32_t priority = tt_served_model_priority(model, options->priority);
    int64_t given_ns = patience_of(model, priority, options);
    /* Clients that send what is left until an instant send a little more or less each time. */
    return given_ns - given_ns / MARGIN <= tt_counter_get(&model->stats->refused_ns);
}

enum tt_err tt_inference_ask(struct tt_port *port, struct tt_served_model *model, int32_t rows,
                             struct tt_inference **out_inference, struct tt_error *why) {
    tt_assert(rows >= 1 && rows <= model->signature->max_batch);
    enum tt_err err = tt_port_take(port, model, 1, out_inference, why);
    if (err)
        return err;
    (*out_inference)->asks = true;
    (*out_inference)->rows = rows;
    (*out_inference)->length = 0;
    return TT_OK;
}

enum tt_err tt_inference_stream(struct tt_inference *inference, tt_inference_emitted_fn *emitted,
                                struct tt_error *why) {
    const struct tt_served_model *model = inference->model;
    tt_assert(!inference->submitted);
    tt_assert(emitted != NULL);
    if (tt_served_model_emitted(model) < 0)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model '%s' emits nothing: its answer is complete or it is not there",
                       model->name);
    inference->emitted = emitted;
    return TT_OK;
}

bool tt_inference_next_word(struct tt_inference *inference, struct tt_tensor_view *out_view) {
    tt_assert(inference->submitted);
    tt_assert(!inference->released);
    const void *row = inference->emissions ? tt_emissions_take(inference->emissions) : NULL;
    if (row)
        tt_served_model_word(inference->model, row, out_view);
    return row != NULL;
}

void tt_inference_submit(struct tt_inference *inference, const struct tt_inference_options *options,
                         tt_inference_done_fn *done, void *context) {
    tt_assert(!inference->submitted);
    tt_assert(!inference->released);
    tt_assert(done != NULL);
    inference->submitted = true;
    inference->done = done;
    inference->context = context;
    const struct tt_ensemble *ensemble = inference->model->ensemble;
    inference->priority = ensemble ? options->priority /* its steps' models say what it means */
                                   : tt_served_model_priority(inference->model, options->priority);
    inference->has_id = *options->id != '\0';
    if (inference->has_id)
        memcpy(inference->id, options->id, sizeof(inference->id));
    inference->submitted_at = tt_clock_now();
    struct tt_port *port = tt_port_of(inference->lane);
    int64_t patience_ns = patience_of(inference->model, inference->priority, options);
    inference->since_at =
        options->since_at ? options->since_at : tt_port_since(port, inference->submitted_at);
    inference->deadline_at = tt_instant_add(inference->since_at, patience_ns);
    /* A stall must not refuse what comes long after it. */
    inference->answer_ns = tt_instant_min(tt_port_answer_ns(port), patience_ns / ANSWER_SHARE);
    if (ensemble) {
        ensemble->ops->submit(inference);
        return;
    }
    struct tt_unfolder *unfolder = inference->model->unfolder;
    if (unfolder) {
        inference->is_unfolding = true;
        tt_unfolder_send(unfolder, inference);
        return;
    }
    if (inference->model->cells) /* here, because all requests wait for the scheduler */
        tt_unfolder_run_here(inference);
    tt_word_stream_open(inference, tt_port_stream_words(inference->lane));
    tt_port_send(inference);
}

int64_t tt_inference_since_at(const struct tt_inference *inference) {
    tt_assert(inference->submitted);
    tt_assert(!inference->released);
    return inference->since_at;
}

void tt_inference_cancel(struct tt_inference *inference) {
    tt_assert(inference->submitted);
    if (inference->finished || inference->cancel_sent)
        return;
    inference->cancel_sent = true;
    if (inference->model->ensemble)
        inference->model->ensemble->ops->cancel(inference);
    else if (!inference->is_unfolding) /* else after it was sent itself */
        tt_port_send_cancel(inference);
}

void tt_inference_output(const struct tt_inference *inference, int32_t output,
                         struct tt_tensor_view *out_view) {
    tt_assert(inference->finished);
    tt_assert(!inference->released);
    const struct tt_served_model *model = inference->model;
    if (model->ensemble) {
        model->ensemble->ops->output(inference, output, out_view);
        return;
    }
    tt_assert(inference->result != NULL);
    model->engine_model->engine->ops->output(inference->result, model->shown_outputs[output],
                                             inference->first_row, inference->rows, out_view);
}

void tt_inference_account(const struct tt_inference *inference,
                          struct tt_inference_account *out_account) {
    const struct tt_served_model *model = inference->model;
    bool has_batch = inference->result && !model->cells;
    tt_assert(inference->finished || !inference->submitted);
    tt_assert(!inference->released);
    *out_account = (struct tt_inference_account){
        .rows = inference->rows, .deadline_at = TT_NEVER, .why = inference->why.text};
    if (!inference->submitted)
        return;
    out_account->batch_rows = has_batch ? inference->result->rows : 0;
    out_account->priority = inference->priority;
    out_account->deadline_at = inference->deadline_at;
    out_account->since_at = inference->since_at;
    out_account->submitted_at = inference->submitted_at;
    out_account->started_at = inference->started_at;
    if (!inference->started_at)
        return;
    out_account->computed_at = inference->computed_at;
    if (!has_batch)
        return;
    out_account->input_ns = inference->input_ns;
    out_account->infer_ns = inference->infer_ns;
    out_account->is_one_run = model->step_model.step_count == 1;
}

bool tt_inference_step(const struct tt_inference *inference, int32_t index,
                       struct tt_inference_step *out_step) {
    const struct tt_ensemble *ensemble = inference->model->ensemble;
    tt_assert(index >= 0);
    tt_assert(!inference->released);
    return ensemble && inference->submitted && ensemble->ops->step(inference, index, out_step);
}

void tt_inference_release(struct tt_inference *take_inference) {
    tt_assert(!take_inference->submitted || take_inference->finished);
    tt_assert(!take_inference->released);
    take_inference->released = true;
    if (take_inference->model->ensemble)
        take_inference->model->ensemble->ops->release(take_inference);
    else
        tt_port_recycle(take_inference);
}
