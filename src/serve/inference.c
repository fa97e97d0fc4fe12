#include "serve/inference.h"

#include "base/clock.h"
#include "serve/cell_run.h"
#include "serve/input_ring.h"
#include "serve/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LANE_BYTES = 64 << 20, /* of a lane's slots, but for two batches of large rows */
    LANE_MAX_BYTES = 1 << 30,
    LANE_SLOTS = 4096,    /* most slots of a lane */
    MAX_ROUNDS = 4,       /* of one flush */
    KEPT_BYTES = 1 << 20, /* an inference's own memory beyond this is given back with it */
};

/* ---- lanes ---- */

static size_t fixed_row_bytes(const struct tt_tensor_spec *spec, bool batched) {
    int64_t count = tt_shape_count(&spec->shape, batched ? 1 : 0);
    size_t width = tt_dtype_bytes(spec->dtype);
    size_t bytes;
    if (count <= 0 || __builtin_mul_overflow((size_t)count, width, &bytes))
        return 0;
    return bytes <= LANE_BYTES ? bytes : 0; /* larger ones come too rarely to keep memory for */
}

static void lane_free(struct tt_lane *lane) {
    int32_t inputs = lane->model->signature->input_count;
    for (struct tt_inference *inference = lane->free, *next; inference; inference = next) {
        next = inference->next_free;
        for (int32_t i = 0; i < inputs; i++)
            free(inference->own[i]);
        free(inference->inputs);
        free(inference->own);
        free(inference->own_capacity);
        free(inference);
    }
    for (int32_t i = 0; lane->pool && i < inputs; i++)
        free(lane->pool[i]);
    free(lane->pool);
    free(lane->row_bytes);
    free(lane->slot_used);
    tt_served_model_unref(lane->model);
    free(lane);
}

static struct tt_lane *lane_new(struct tt_port *port, struct tt_served_model *model) {
    const struct tt_signature *signature = model->signature;
    struct tt_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->port = port;
    lane->model = tt_served_model_ref(model);
    size_t inputs = (size_t)signature->input_count;
    lane->pool = calloc(inputs + 1, sizeof(*lane->pool));
    lane->row_bytes = calloc(inputs + 1, sizeof(*lane->row_bytes));
    bool good = lane->pool && lane->row_bytes;
    size_t total = 0;
    for (size_t i = 0; good && i < inputs; i++)
        total += lane->row_bytes[i] = fixed_row_bytes(&signature->inputs[i], signature->batched);
    /* A pool must hold two full batches; where that is too much, every inference has its own
     * memory. */
    bool pools =
        !model->inputs && total > 0 && 2 * (size_t)signature->max_batch <= LANE_MAX_BYTES / total;
    if (good && pools) {
        size_t slots = LANE_BYTES / total;
        slots = slots > LANE_SLOTS ? LANE_SLOTS : slots;
        size_t least = 2 * (size_t)signature->max_batch;
        lane->slot_count = (int32_t)(slots < least ? least : slots);
        lane->slot_used = calloc((size_t)lane->slot_count, sizeof(*lane->slot_used));
        good = lane->slot_used != NULL;
        /* calloc: padding and holes must hold finite values. */
        for (size_t i = 0; good && i < inputs; i++)
            if (lane->row_bytes[i])
                good = (lane->pool[i] = calloc((size_t)lane->slot_count, lane->row_bytes[i]));
    }
    if (!good) {
        lane_free(lane);
        return NULL;
    }
    return lane;
}

/* `rows` adjacent free slots, next fit from the cursor, so that successive requests are adjacent;
 * -1: none. A run of slots never straddles the end of the pool. */
static int32_t slots_take(struct tt_lane *lane, int32_t rows) {
    int32_t run = 0;
    int32_t at = lane->cursor;
    for (int32_t looked = 0; looked < lane->slot_count + rows; looked++) {
        if (at == lane->slot_count) {
            at = 0;
            run = 0;
        }
        run = lane->slot_used[at++] ? 0 : run + 1;
        if (run == rows) {
            memset(lane->slot_used + at - rows, 1, (size_t)rows);
            lane->cursor = at;
            return at - rows;
        }
    }
    return -1;
}

static struct tt_inference *inference_take(struct tt_lane *lane) {
    struct tt_inference *inference = lane->free;
    if (inference) {
        lane->free = inference->next_free;
        return inference;
    }
    inference = calloc(1, sizeof(*inference));
    if (!inference)
        return NULL;
    size_t inputs = (size_t)lane->model->signature->input_count + 1;
    inference->lane = lane;
    inference->inputs = calloc(inputs, sizeof(*inference->inputs));
    inference->own = calloc(inputs, sizeof(*inference->own));
    inference->own_capacity = calloc(inputs, sizeof(*inference->own_capacity));
    if (!inference->inputs || !inference->own || !inference->own_capacity) {
        free(inference->inputs);
        free(inference->own);
        free(inference->own_capacity);
        free(inference);
        return NULL;
    }
    return inference;
}

/* ---- ports ---- */

enum tt_err tt_port_open(struct tt_serving *serving, tt_port_wake_fn *wake, void *context,
                         struct tt_port **out_port, struct tt_error *why) {
    struct tt_port *port = calloc(1, sizeof(*port));
    if (!port)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a port");
    port->serving = serving;
    port->limits = tt_scheduler_limits(serving);
    int32_t most = (int32_t)port->limits->requests;
    port->wake = wake;
    port->wake_context = context;
    /* An inference has at most two messages under way in each direction: itself and its
     * cancellation.
     */
    enum tt_err err = tt_ring_init(&port->to_scheduler, 2 * most);
    if (!err) {
        err = tt_ring_init(&port->to_port, 2 * most);
        if (err)
            tt_ring_fini(&port->to_scheduler);
    }
    if (err) {
        free(port);
        return tt_fail(err, why, "out of memory for a port");
    }
    tt_command_box_init(&port->commands);
    tt_eventcount_init(&port->eventcount);
    tt_eventcount_prepare(&port->eventcount, TT_NEVER);
    tt_scheduler_add_port(serving, port);
    tt_port_refresh(port);
    *out_port = port;
    return TT_OK;
}

void tt_port_close(struct tt_port *take_port) {
    if (!take_port)
        return;
    take_port->holds_back = false;
    tt_port_flush(take_port);
    /* What is cancelled but in a running task comes back when that ends, a released request whose
     * cancellation is not acknowledged yet within a turn of the scheduler. */
    tt_port_drain(take_port);
    while (take_port->in_flight > 0 || take_port->commands.waiting > 0) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        tt_port_drain(take_port);
    }
    tt_scheduler_remove_port(take_port->serving, take_port);
    for (struct tt_lane *lane = take_port->lanes, *next; lane; lane = next) {
        next = lane->next;
        lane_free(lane);
    }
    tt_catalogue_unref(take_port->catalogue);
    tt_command_box_fini(&take_port->commands);
    tt_ring_fini(&take_port->to_scheduler);
    tt_ring_fini(&take_port->to_port);
    free(take_port);
}

static void lane_close(struct tt_lane *lane) {
    struct tt_lane **at = &lane->port->lanes;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    lane_free(lane);
}

/* Before the catalogue that showed them is let go, so that no other model has the same address. */
void tt_port_sweep_lanes(struct tt_port *port) {
    for (struct tt_lane *lane = port->lanes, *next; lane; lane = next) {
        next = lane->next;
        int32_t count = 0;
        const struct tt_catalogue_entry *entries =
            port->catalogue ? tt_catalogue_find(port->catalogue, lane->model->name, &count) : NULL;
        lane->retired = true;
        for (int32_t i = 0; i < count; i++)
            lane->retired &= entries[i].model != lane->model;
        if (lane->retired && lane->in_use == 0)
            lane_close(lane);
    }
}

/* Something has been pushed for the scheduler. */
static void tell(struct tt_port *port) {
    port->has_news = true;
    if (!port->holds_back) {
        port->has_news = false;
        tt_scheduler_wake_from(port);
    }
}

/* Nobody reads its inputs any more. */
static void slots_give(struct tt_inference *inference) {
    struct tt_lane *lane = inference->lane;
    if (lane->model->inputs) {
        if (tt_input_ring_give(lane->model->inputs, inference))
            tell(lane->port);
    } else if (inference->slot >= 0) {
        memset(lane->slot_used + inference->slot, 0, (size_t)inference->rows);
        inference->slot = -1;
    }
}

/* Back to its lane, once nobody refers to it any more. */
static void recycle(struct tt_inference *inference) {
    if (!inference->released || (inference->submitted && !inference->finished) ||
        (inference->cancel_sent && !inference->cancel_acknowledged))
        return;
    struct tt_lane *lane = inference->lane;
    slots_give(inference);
    if (inference->result)
        lane->model->engine_model->engine->ops->result_release(inference->result);
    inference->result = NULL;
    for (int32_t i = 0; i < lane->model->signature->input_count; i++) {
        if (inference->own_capacity[i] > KEPT_BYTES) {
            free(inference->own[i]);
            inference->own[i] = NULL;
            inference->own_capacity[i] = 0;
        }
    }
    inference->next_free = lane->free;
    lane->free = inference;
    lane->port->in_flight--;
    lane->port->queue_bytes -= inference->bytes;
    lane->in_use--;
    if (lane->retired && lane->in_use == 0)
        lane_close(lane);
}

void tt_port_drain(struct tt_port *port) {
    if (!port->holds_back)
        tt_eventcount_prepare(
            &port->eventcount,
            TT_NEVER); /* before it looks, so that what comes later wakes it again */
    tt_port_refresh(port);
    tt_command_box_drain(&port->commands);
    void *message;
    while ((message = tt_ring_pop(&port->to_port))) {
        bool acknowledges = (uintptr_t)message & 1;
        struct tt_inference *inference =
            (struct tt_inference *)((uintptr_t)message & ~(uintptr_t)1);
        if (acknowledges) {
            inference->cancel_acknowledged = true;
            recycle(inference);
        } else {
            inference->finished = true;
            slots_give(inference); /* the inputs have done their duty */
            inference->done(inference->context, inference, inference->err, inference->why.text);
        }
    }
}

void tt_port_hold_back(struct tt_port *port) { port->holds_back = true; }

void tt_port_flush(struct tt_port *port) {
    tt_eventcount_cancel_relaxed(&port->eventcount);
    for (int32_t round = 0; round < MAX_ROUNDS; round++) {
        if (port->has_news) {
            port->has_news = false;
            tt_scheduler_wake_from(port);
        }
        if (tt_ring_is_empty(&port->to_port))
            return;
        tt_port_drain(port); /* which may bring news: those who waited behind what is answered */
    }
    port->wake(port->wake_context); /* others, too, want to be heard: it goes on after them */
}

void tt_port_rest(struct tt_port *port) {
    tt_port_flush(port);
    tt_eventcount_prepare(&port->eventcount, TT_NEVER);
    if (!tt_ring_is_empty(&port->to_port)) /* it came between the two */
        port->wake(port->wake_context);
}

/* ---- the life of an inference ---- */

static enum tt_err check_shapes(const struct tt_served_model *model,
                                const struct tt_inference_shape *shapes, int32_t count,
                                int32_t *out_rows, struct tt_error *why) {
    const struct tt_signature *signature = model->signature;
    tt_assert(count == signature->input_count);
    int64_t rows = 1;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_tensor_spec *spec = &signature->inputs[shapes[i].input];
        const struct tt_shape *shape = &shapes[i].shape;
        char found[200], wanted[200];
        if (!tt_shape_fits(shape, &spec->shape, signature->batched))
            return tt_fail(TT_ERR_INVALID, why,
                           "unexpected shape for input '%s' for model '%s': expected %s, got %s",
                           spec->name, model->name,
                           tt_shape_print(&spec->shape, wanted, sizeof(wanted)),
                           tt_shape_print(shape, found, sizeof(found)));
        if (!signature->batched)
            continue;
        if (shape->dims[0] < 1 || shape->dims[0] > signature->max_batch)
            return tt_fail(TT_ERR_INVALID, why,
                           "inference request batch-size must be 1 to %d for '%s'; input '%s' has "
                           "shape %s",
                           signature->max_batch, model->name, spec->name,
                           tt_shape_print(shape, found, sizeof(found)));
        if (i > 0 && shape->dims[0] != rows)
            return tt_fail(TT_ERR_INVALID, why,
                           "inputs of one request must have the same batch-size for model '%s': "
                           "input '%s' has %lld rows, input '%s' has %lld",
                           model->name, signature->inputs[shapes[0].input].name, (long long)rows,
                           spec->name, (long long)shape->dims[0]);
        rows = shape->dims[0];
    }
    *out_rows = (int32_t)rows;
    return TT_OK;
}

/* Where inputs are padded: the length to pad to, of the longest; -1 beyond any tensor. */
static int32_t longest(const struct tt_signature *signature,
                       const struct tt_inference_shape *shapes) {
    int64_t length = 0;
    for (int32_t k = 0; k < signature->input_count; k++) {
        const struct tt_shape *spec = &signature->inputs[shapes[k].input].shape;
        if (spec->rank > 1 && spec->dims[1] < 0 && shapes[k].shape.dims[1] > length)
            length = shapes[k].shape.dims[1];
    }
    return length <= INT32_MAX ? (int32_t)length : -1;
}

/* The number that requests of one batch share: the value of the varying dimensions where they are
 * all equal (the length of a sentence), else a number made of all of them, in the order of the
 * signature. 0 where nothing varies. Two of the made numbers may be the same by chance; the domain
 * sees to that. */
static int32_t shape_key(const struct tt_signature *signature,
                         const struct tt_inference_shape *shapes) {
    const struct tt_shape *by_input[TT_MAX_TENSORS];
    for (int32_t k = 0; k < signature->input_count; k++)
        by_input[shapes[k].input] = &shapes[k].shape;
    int64_t only = -1;
    bool several = false;
    uint64_t mixed = 0;
    for (int32_t i = 0; i < signature->input_count; i++) {
        const struct tt_shape *spec = &signature->inputs[i].shape;
        for (int32_t d = signature->batched ? 1 : 0; d < spec->rank; d++) {
            if (spec->dims[d] >= 0)
                continue;
            int64_t value = by_input[i]->dims[d];
            several |= only >= 0 && value != only;
            only = value;
            mixed = (mixed ^ (uint64_t)value) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
            mixed ^= mixed >> 32;
        }
    }
    if (only < 0)
        return 0;
    if (!several && only < (1 << 30))
        return (int32_t)only;
    return (int32_t)((mixed & 0x3fffffffu) | 0x40000000u);
}

/* The smallest class that holds the length; INVALID beyond the largest. */
static enum tt_err length_class(const struct tt_served_model *model, int32_t *length,
                                struct tt_error *why) {
    if ((!model->pad && !model->cells) || model->class_count == 0)
        return TT_OK;
    for (int32_t i = 0; i < model->class_count; i++) {
        if (*length <= model->classes[i]) {
            *length = model->classes[i];
            return TT_OK;
        }
    }
    return tt_fail(TT_ERR_INVALID, why,
                   "input of length %d is longer than model '%s' takes: at most %d", *length,
                   model->name, model->classes[model->class_count - 1]);
}

static enum tt_err place_inputs(struct tt_inference *inference,
                                const struct tt_inference_shape *shapes, const size_t *sizes_bytes,
                                struct tt_error *why) {
    struct tt_lane *lane = inference->lane;
    const struct tt_signature *signature = lane->model->signature;
    struct tt_input_ring *ring = lane->model->inputs;
    if (ring)
        tt_input_ring_take(ring, inference);
    else if (lane->slot_count)
        inference->slot = slots_take(lane, inference->rows);
    for (int32_t k = 0; k < signature->input_count; k++) {
        int32_t i = shapes[k].input;
        struct tt_tensor_view *view = &inference->inputs[i];
        size_t width = tt_dtype_bytes(signature->inputs[i].dtype);
        int64_t count = tt_shape_count(&shapes[k].shape, 0);
        size_t size = width ? 0 : sizes_bytes[k];
        if (count < 0 || (width && __builtin_mul_overflow((size_t)count, width, &size)))
            return tt_fail(TT_ERR_INVALID, why, "input '%s' is too large",
                           signature->inputs[i].name);
        view->shape = shapes[k].shape;
        view->size_bytes = size;
        if (size > (size_t)(lane->port->limits->queue_bytes - lane->port->queue_bytes))
            return tt_fail(TT_ERR_BUSY, why,
                           "the inputs of requests in flight take %lld bytes, and with this one "
                           "more than the limit of %lld",
                           (long long)lane->port->queue_bytes,
                           (long long)lane->port->limits->queue_bytes);
        inference->bytes += (int64_t)size;
        lane->port->queue_bytes += (int64_t)size;
        if (ring && inference->slot >= 0) {
            view->bytes = tt_input_ring_at(ring, inference, i);
            continue;
        }
        if (lane->row_bytes[i] && inference->slot >= 0) {
            view->bytes = lane->pool[i] + (size_t)inference->slot * lane->row_bytes[i];
            continue;
        }
        if (size > inference->own_capacity[i] || !inference->own[i]) {
            size_t capacity = size < 64 ? 64 : size;
            free(inference->own[i]);
            inference->own[i] = malloc(capacity);
            inference->own_capacity[i] = inference->own[i] ? capacity : 0;
            if (!inference->own[i])
                return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of input '%s'",
                               size, signature->inputs[i].name);
        }
        view->bytes = inference->own[i];
    }
    return TT_OK;
}

static struct tt_lane *lane_of(struct tt_port *port, struct tt_served_model *model) {
    for (struct tt_lane *lane = port->lanes; lane; lane = lane->next)
        if (lane->model == model)
            return lane;
    struct tt_lane *lane = lane_new(port, model);
    if (lane) {
        lane->next = port->lanes;
        port->lanes = lane;
    }
    return lane;
}

enum tt_err tt_inference_begin(struct tt_port *port, struct tt_served_model *model,
                               const struct tt_inference_shape *shapes, const size_t *sizes_bytes,
                               int32_t count, struct tt_inference **out_inference,
                               struct tt_error *why) {
    int32_t rows;
    enum tt_err err = check_shapes(model, shapes, count, &rows, why);
    if (err)
        return err;
    int32_t length =
        model->pad ? longest(model->signature, shapes) : shape_key(model->signature, shapes);
    if (length < 0)
        return tt_fail(TT_ERR_INVALID, why, "an input of model '%s' is too long", model->name);
    err = length_class(model, &length, why);
    if (err)
        return err;
    if (model->inputs && rows > model->inputs->slots.capacity)
        return tt_fail(TT_ERR_INVALID, why,
                       "the request has %d rows, but model '%s' has room for the inputs of %d "
                       "(input_slots of its tutti.pbtxt)",
                       rows, model->name, model->inputs->slots.capacity);
    if (port->in_flight >= port->limits->requests)
        return tt_fail(TT_ERR_BUSY, why, "the server has %d requests in flight, its limit",
                       port->in_flight);
    struct tt_lane *lane = lane_of(port, model);
    struct tt_inference *inference = lane ? inference_take(lane) : NULL;
    if (!inference)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request to model '%s'",
                       model->name);
    port->in_flight++;
    lane->in_use++;
    inference->rows = rows;
    inference->length = length;
    inference->slot = -1;
    inference->bytes = 0;
    inference->submitted = inference->finished = inference->cancel_sent = false;
    inference->cancel_acknowledged = inference->released = false;
    inference->request = NULL;
    inference->result = NULL;
    inference->cell_run = NULL;
    inference->err = TT_OK;
    inference->why.text[0] = '\0';
    err = place_inputs(inference, shapes, sizes_bytes, why);
    if (err) {
        tt_inference_release(inference);
        return err;
    }
    *out_inference = inference;
    return TT_OK;
}

void *tt_inference_input(struct tt_inference *inference, int32_t input, size_t *out_size_bytes) {
    tt_assert(!inference->submitted);
    *out_size_bytes = inference->inputs[input].size_bytes;
    return (void *)inference->inputs[input].bytes;
}

/* How long the client waits: what it says, where the model's queue rule lets it (and then no longer
 * than the rule's own timeout); else that timeout; else the model's objective. */
static int64_t patience_of(const struct tt_inference *inference,
                           const struct tt_inference_options *options) {
    const struct tt_served_model *model = inference->lane->model;
    struct tt_queue_rule rule = {0};
    if (model->rules)
        rule = model->rules[inference->priority];
    bool heard = !model->rules || model->honours_timeout || rule.allow_override;
    int64_t asked_ns = heard && options->timeout_ns > 0 ? options->timeout_ns : TT_NEVER;
    int64_t own_ns = rule.timeout_ns > 0 ? rule.timeout_ns : model->step_model.slo_ns;
    if (rule.timeout_ns > 0)
        return tt_instant_min(asked_ns, own_ns);
    return asked_ns != TT_NEVER ? asked_ns : own_ns;
}

/* Into cells, here and not where everybody waits for it. What cannot be unfolded is refused when it
 * comes to its domain, as others are. */
static void unfold(struct tt_inference *inference) {
    inference->err = tt_cell_run_new(inference->lane->model, inference->inputs,
                                     &inference->cell_run, &inference->why);
    if (inference->err)
        return;
    inference->cell_run->inference = inference;
    inference->length = inference->cell_run->unfolded->input_length;
    inference->err = length_class(inference->lane->model, &inference->length, &inference->why);
}

void tt_inference_submit(struct tt_inference *inference, const struct tt_inference_options *options,
                         tt_inference_done_fn *done, void *context) {
    tt_assert(!inference->submitted);
    inference->submitted = true;
    inference->done = done;
    inference->context = context;
    inference->priority = tt_served_model_priority(inference->lane->model, options->priority);
    inference->submitted_at = tt_clock_now();
    inference->deadline_at =
        tt_instant_add(inference->submitted_at, patience_of(inference, options));
    if (inference->lane->model->cells)
        unfold(inference);
    struct tt_port *port = inference->lane->port;
    struct tt_input_ring *ring = inference->lane->model->inputs;
    if (ring && inference->slot < 0)
        (void)tt_input_ring_wait(ring, inference); /* the scheduler has its turn anyhow */
    bool pushed = tt_ring_push(&port->to_scheduler, inference);
    tt_assert(pushed); /* the ring holds every inference twice */
    tell(port);
}

void tt_inference_cancel(struct tt_inference *inference) {
    tt_assert(inference->submitted);
    if (inference->finished || inference->cancel_sent)
        return;
    inference->cancel_sent = true;
    struct tt_port *port = inference->lane->port;
    bool pushed = tt_ring_push(&port->to_scheduler, (void *)((uintptr_t)inference | 1));
    tt_assert(pushed);
    tell(port);
}

void tt_inference_output(const struct tt_inference *inference, int32_t output,
                         struct tt_tensor_view *out_view) {
    tt_assert(inference->finished);
    tt_assert(inference->result != NULL);
    inference->lane->model->engine_model->engine->ops->output(
        inference->result, inference->lane->model->shown_outputs[output], inference->first_row,
        inference->rows, out_view);
}

void tt_inference_release(struct tt_inference *take_inference) {
    tt_assert(!take_inference->submitted || take_inference->finished);
    take_inference->released = true;
    recycle(take_inference);
}

void tt_inference_finish(struct tt_inference *inference) {
    struct tt_port *port = inference->lane->port;
    port->dirty = true;
    bool pushed = tt_ring_push(&port->to_port, inference);
    tt_assert(pushed);
}
