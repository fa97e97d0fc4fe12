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
    KEPT_BYTES = 1 << 20, /* an infer's own memory beyond this is given back with it */
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
    for (struct tt_inference *infer = lane->free, *next; infer; infer = next) {
        next = infer->next_free;
        for (int32_t i = 0; i < inputs; i++)
            free(infer->own[i]);
        free(infer->inputs);
        free(infer->own);
        free(infer->own_capacity);
        free(infer);
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
    /* A pool must hold two full batches; where that is too much, every infer has its own memory. */
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

static struct tt_inference *infer_take(struct tt_lane *lane) {
    struct tt_inference *infer = lane->free;
    if (infer) {
        lane->free = infer->next_free;
        return infer;
    }
    infer = calloc(1, sizeof(*infer));
    if (!infer)
        return NULL;
    size_t inputs = (size_t)lane->model->signature->input_count + 1;
    infer->lane = lane;
    infer->inputs = calloc(inputs, sizeof(*infer->inputs));
    infer->own = calloc(inputs, sizeof(*infer->own));
    infer->own_capacity = calloc(inputs, sizeof(*infer->own_capacity));
    if (!infer->inputs || !infer->own || !infer->own_capacity) {
        free(infer->inputs);
        free(infer->own);
        free(infer->own_capacity);
        free(infer);
        return NULL;
    }
    return infer;
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
    /* An infer has at most two messages under way in each direction: itself and its cancellation.
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
static void slots_give(struct tt_inference *infer) {
    struct tt_lane *lane = infer->lane;
    if (lane->model->inputs) {
        if (tt_input_ring_give(lane->model->inputs, infer))
            tell(lane->port);
    } else if (infer->slot >= 0) {
        memset(lane->slot_used + infer->slot, 0, (size_t)infer->rows);
        infer->slot = -1;
    }
}

/* Back to its lane, once nobody refers to it any more. */
static void recycle(struct tt_inference *infer) {
    if (!infer->released || (infer->submitted && !infer->finished) ||
        (infer->cancel_sent && !infer->cancel_acknowledged))
        return;
    struct tt_lane *lane = infer->lane;
    slots_give(infer);
    if (infer->result)
        lane->model->engine_model->engine->ops->result_release(infer->result);
    infer->result = NULL;
    for (int32_t i = 0; i < lane->model->signature->input_count; i++) {
        if (infer->own_capacity[i] > KEPT_BYTES) {
            free(infer->own[i]);
            infer->own[i] = NULL;
            infer->own_capacity[i] = 0;
        }
    }
    infer->next_free = lane->free;
    lane->free = infer;
    lane->port->in_flight--;
    lane->port->queue_bytes -= infer->bytes;
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
        struct tt_inference *infer = (struct tt_inference *)((uintptr_t)message & ~(uintptr_t)1);
        if (acknowledges) {
            infer->cancel_acknowledged = true;
            recycle(infer);
        } else {
            infer->finished = true;
            slots_give(infer); /* the inputs have done their duty */
            infer->done(infer->context, infer, infer->err, infer->why.text);
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

/* ---- the life of an infer ---- */

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

static enum tt_err place_inputs(struct tt_inference *infer, const struct tt_inference_shape *shapes,
                                const size_t *sizes_bytes, struct tt_error *why) {
    struct tt_lane *lane = infer->lane;
    const struct tt_signature *signature = lane->model->signature;
    struct tt_input_ring *ring = lane->model->inputs;
    if (ring)
        tt_input_ring_take(ring, infer);
    else if (lane->slot_count)
        infer->slot = slots_take(lane, infer->rows);
    for (int32_t k = 0; k < signature->input_count; k++) {
        int32_t i = shapes[k].input;
        struct tt_tensor_view *view = &infer->inputs[i];
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
        infer->bytes += (int64_t)size;
        lane->port->queue_bytes += (int64_t)size;
        if (ring && infer->slot >= 0) {
            view->bytes = tt_input_ring_at(ring, infer, i);
            continue;
        }
        if (lane->row_bytes[i] && infer->slot >= 0) {
            view->bytes = lane->pool[i] + (size_t)infer->slot * lane->row_bytes[i];
            continue;
        }
        if (size > infer->own_capacity[i] || !infer->own[i]) {
            size_t capacity = size < 64 ? 64 : size;
            free(infer->own[i]);
            infer->own[i] = malloc(capacity);
            infer->own_capacity[i] = infer->own[i] ? capacity : 0;
            if (!infer->own[i])
                return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of input '%s'",
                               size, signature->inputs[i].name);
        }
        view->bytes = infer->own[i];
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
                               int32_t count, struct tt_inference **out_infer,
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
    struct tt_inference *infer = lane ? infer_take(lane) : NULL;
    if (!infer)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request to model '%s'",
                       model->name);
    port->in_flight++;
    lane->in_use++;
    infer->rows = rows;
    infer->length = length;
    infer->slot = -1;
    infer->bytes = 0;
    infer->submitted = infer->finished = infer->cancel_sent = false;
    infer->cancel_acknowledged = infer->released = false;
    infer->request = NULL;
    infer->result = NULL;
    infer->cell_run = NULL;
    infer->err = TT_OK;
    infer->why.text[0] = '\0';
    err = place_inputs(infer, shapes, sizes_bytes, why);
    if (err) {
        tt_inference_release(infer);
        return err;
    }
    *out_infer = infer;
    return TT_OK;
}

void *tt_inference_input(struct tt_inference *infer, int32_t input, size_t *out_size_bytes) {
    tt_assert(!infer->submitted);
    *out_size_bytes = infer->inputs[input].size_bytes;
    return (void *)infer->inputs[input].bytes;
}

/* How long the client waits: what it says, where the model's queue rule lets it (and then no longer
 * than the rule's own timeout); else that timeout; else the model's objective. */
static int64_t patience_of(const struct tt_inference *infer,
                           const struct tt_infer_options *options) {
    const struct tt_served_model *model = infer->lane->model;
    struct tt_queue_rule rule = {0};
    if (model->rules)
        rule = model->rules[infer->priority];
    bool heard = !model->rules || model->honours_timeout || rule.allow_override;
    int64_t asked_ns = heard && options->timeout_ns > 0 ? options->timeout_ns : TT_NEVER;
    int64_t own_ns = rule.timeout_ns > 0 ? rule.timeout_ns : model->step_model.slo_ns;
    if (rule.timeout_ns > 0)
        return tt_instant_min(asked_ns, own_ns);
    return asked_ns != TT_NEVER ? asked_ns : own_ns;
}

/* Into cells, here and not where everybody waits for it. What cannot be unfolded is refused when it
 * comes to its domain, as others are. */
static void unfold(struct tt_inference *infer) {
    infer->err = tt_cell_run_new(infer->lane->model, infer->inputs, &infer->cell_run, &infer->why);
    if (infer->err)
        return;
    infer->cell_run->infer = infer;
    infer->length = infer->cell_run->unfolded->input_length;
    infer->err = length_class(infer->lane->model, &infer->length, &infer->why);
}

void tt_inference_submit(struct tt_inference *infer, const struct tt_infer_options *options,
                         tt_inference_done_fn *done, void *context) {
    tt_assert(!infer->submitted);
    infer->submitted = true;
    infer->done = done;
    infer->context = context;
    infer->priority = tt_served_model_priority(infer->lane->model, options->priority);
    infer->submitted_at = tt_clock_now();
    infer->deadline_at = tt_instant_add(infer->submitted_at, patience_of(infer, options));
    if (infer->lane->model->cells)
        unfold(infer);
    struct tt_port *port = infer->lane->port;
    struct tt_input_ring *ring = infer->lane->model->inputs;
    if (ring && infer->slot < 0)
        (void)tt_input_ring_wait(ring, infer); /* the scheduler has its turn anyhow */
    bool pushed = tt_ring_push(&port->to_scheduler, infer);
    tt_assert(pushed); /* the ring holds every infer twice */
    tell(port);
}

void tt_inference_cancel(struct tt_inference *infer) {
    tt_assert(infer->submitted);
    if (infer->finished || infer->cancel_sent)
        return;
    infer->cancel_sent = true;
    struct tt_port *port = infer->lane->port;
    bool pushed = tt_ring_push(&port->to_scheduler, (void *)((uintptr_t)infer | 1));
    tt_assert(pushed);
    tell(port);
}

void tt_inference_output(const struct tt_inference *infer, int32_t output,
                         struct tt_tensor_view *out_view) {
    tt_assert(infer->finished);
    tt_assert(infer->result != NULL);
    infer->lane->model->engine_model->engine->ops->output(infer->result,
                                                          infer->lane->model->shown_outputs[output],
                                                          infer->first_row, infer->rows, out_view);
}

void tt_inference_release(struct tt_inference *take_infer) {
    tt_assert(!take_infer->submitted || take_infer->finished);
    take_infer->released = true;
    recycle(take_infer);
}

void tt_inference_finish(struct tt_inference *infer) {
    struct tt_port *port = infer->lane->port;
    port->dirty = true;
    bool pushed = tt_ring_push(&port->to_port, infer);
    tt_assert(pushed);
}
