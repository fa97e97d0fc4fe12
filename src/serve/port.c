#include "serve/port.h"

#include "base/clock.h"
#include "base/threads/quota.h"
#include "serve/catalogue.h"
#include "serve/emissions.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "serve/mailbox.h"
#include "serve/plugin_inbox.h"
#include "serve/port_lag.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/word_stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LANE_BYTES = 64 << 20, /* of a lane's slots, unless two batches take more */
    LANE_MAX_BYTES = 1 << 30,
    LANE_MAX_SLOTS = 4096,
    MAX_ROUNDS = 4,       /* of one flush */
    KEPT_BYTES = 1 << 20, /* a released inference's own memory beyond this is freed */
};

struct tt_lane {
    struct tt_port *port;
    struct tt_served_model *model;
    struct tt_inference *free;
    int32_t slot_count, cursor;
    bool *slot_used;
    char **pool;       /* per input; NULL where its size varies */
    size_t *row_bytes; /* per input; 0 where its size varies */
    int32_t in_use;    /* inferences that are taken and not recycled */
    bool retired; /* the catalogue does not show the model: the lane closes when it is unused */
    struct tt_lane *next;
};

struct tt_port {
    struct tt_mailbox mailbox;
    struct tt_scheduler *scheduler;
    struct tt_catalogue_board *catalogues;
    struct tt_catalogue *catalogue; /* as of `generation`; NULL: none yet */
    int64_t generation;
    struct tt_lane *lanes;
    struct tt_quota_share requests; /* in flight */
    int64_t lost_count;             /* of those: finished, but the engine still uses them */
    struct tt_plugin_inbox from_plugins;
    struct tt_quota_share queue_bytes; /* of the inputs of those in flight */
    int64_t stream_words;              /* that a stream may hold for its client */
    struct tt_command_box commands;
    bool holds_back, has_news; /* see tt_port_hold_back() */
    struct tt_port_lag lag;
};

void tt_port_rested(struct tt_port *port) {
    if (tt_port_lag_rests(&port->lag))
        tt_port_lag_wake(&port->lag, tt_clock_now());
}

/* ---- lanes ---- */

static size_t fixed_row_bytes(const struct tt_tensor_spec *spec, bool batched) {
    int64_t count = tt_shape_count(&spec->shape, batched ? 1 : 0);
    size_t width = tt_dtype_bytes(spec->dtype);
    size_t bytes;
    if (count <= 0 || __builtin_mul_overflow((size_t)count, width, &bytes))
        return 0;
    return bytes <= LANE_BYTES ? bytes : 0; /* larger ones are too rare to keep memory for */
}

static void free_inference(struct tt_inference *inference, int32_t inputs) {
    for (int32_t i = 0; inference->own && i < inputs; i++)
        free(inference->own[i]);
    free(inference->inputs);
    free(inference->own);
    free(inference->own_capacity);
    free(inference->run);
    free(inference);
}

static void lane_free(struct tt_lane *lane) {
    tt_assert(lane->in_use == 0);
    tt_assert(lane->model != NULL);
    int32_t inputs = lane->model->signature->input_count;
    for (struct tt_inference *inference = lane->free, *next; inference; inference = next) {
        next = inference->next_free;
        free_inference(inference, inputs);
    }
    for (int32_t i = 0; lane->pool && i < inputs; i++)
        free(lane->pool[i]);
    free(lane->pool);
    free(lane->row_bytes);
    free(lane->slot_used);
    tt_served_model_unref(lane->model);
    free(lane);
}

/* Slots for inputs of `row_bytes` bytes per row, over all inputs of fixed size. */
static bool make_pool(struct tt_lane *lane, size_t row_bytes) {
    size_t slots = LANE_BYTES / row_bytes;
    slots = slots > LANE_MAX_SLOTS ? LANE_MAX_SLOTS : slots;
    size_t least = 2 * (size_t)lane->model->signature->max_batch;
    lane->slot_count = (int32_t)(slots < least ? least : slots);
    lane->slot_used = calloc((size_t)lane->slot_count, sizeof(*lane->slot_used));
    bool good = lane->slot_used != NULL;
    /* calloc: padding and holes must hold finite values. */
    for (int32_t i = 0; good && i < lane->model->signature->input_count; i++)
        if (lane->row_bytes[i])
            good = (lane->pool[i] = calloc((size_t)lane->slot_count, lane->row_bytes[i]));
    return good;
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
    /* A pool must hold two full batches. Where that is too much, each inference has own memory. */
    if (good && !model->inputs && total > 0 &&
        2 * (size_t)signature->max_batch <= LANE_MAX_BYTES / total)
        good = make_pool(lane, total);
    if (!good) {
        lane_free(lane);
        return NULL;
    }
    return lane;
}

static void lane_close(struct tt_lane *lane) {
    struct tt_lane **at = &lane->port->lanes;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    lane_free(lane);
}

static bool is_shown(const struct tt_port *port, const struct tt_served_model *model) {
    int32_t count = 0;
    const struct tt_catalogue_entry *entries =
        port->catalogue ? tt_catalogue_find(port->catalogue, model->name, &count) : NULL;
    for (int32_t i = 0; i < count; i++)
        if (entries[i].model == model)
            return true;
    return false;
}

/* A model that the catalogue does not show still serves steps of ensembles that hold it. */
static struct tt_lane *lane_of(struct tt_port *port, struct tt_served_model *model) {
    for (struct tt_lane *lane = port->lanes; lane; lane = lane->next)
        if (lane->model == model)
            return lane;
    struct tt_lane *lane = lane_new(port, model);
    if (lane) {
        lane->retired = !is_shown(port, model);
        lane->next = port->lanes;
        port->lanes = lane;
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

/* Something was sent to the scheduler, or an input came to its slots. */
static void notify(struct tt_port *port) {
    port->has_news = true;
    if (!port->holds_back) {
        port->has_news = false;
        tt_scheduler_wake_from(port->scheduler, NULL);
    }
}

/* The inputs are not read any more. */
static void slots_give(struct tt_inference *inference) {
    struct tt_lane *lane = inference->lane;
    if (inference->is_lost)
        return;
    if (lane->model->inputs) {
        if (tt_input_ring_give(lane->model->inputs, inference))
            notify(lane->port);
    } else if (inference->slot >= 0) {
        tt_assert(lane->slot_used[inference->slot]);
        memset(lane->slot_used + inference->slot, 0, (size_t)inference->rows);
        inference->slot = -1;
    }
}

/* ---- inferences ---- */

static struct tt_inference *inference_new(struct tt_lane *lane) {
    int32_t count = lane->model->signature->input_count;
    size_t inputs = (size_t)count + 1;
    struct tt_inference *inference = calloc(1, sizeof(*inference));
    if (!inference)
        return NULL;
    inference->model = lane->model;
    inference->lane = lane;
    inference->mailbox = &lane->port->mailbox;
    inference->plugin_inbox = &lane->port->from_plugins;
    inference->slot = -1;
    inference->inputs = calloc(inputs, sizeof(*inference->inputs));
    inference->own = calloc(inputs, sizeof(*inference->own));
    inference->own_capacity = calloc(inputs, sizeof(*inference->own_capacity));
    if (!inference->inputs || !inference->own || !inference->own_capacity) {
        free_inference(inference, count);
        return NULL;
    }
    return inference;
}

int64_t tt_port_stream_words(const struct tt_lane *lane) { return lane->port->stream_words; }

struct tt_port *tt_port_of(const struct tt_lane *lane) {
    return lane->port;
}

enum tt_err tt_port_take(struct tt_port *port, struct tt_served_model *model, int32_t quota,
                         struct tt_inference **out_inference, struct tt_error *why) {
    tt_port_rested(port);
    if (!tt_quota_share_take(&port->requests, quota))
        return tt_fail(TT_ERR_BUSY, why, "the server has %lld requests in flight, its limit",
                       (long long)port->requests.quota->limit);
    struct tt_lane *lane = lane_of(port, model);
    struct tt_inference *inference = lane ? lane->free : NULL;
    if (inference)
        lane->free = inference->next_free;
    else if (lane)
        inference = inference_new(lane);
    if (!inference) {
        tt_quota_share_give(&port->requests, quota);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request to model '%s'",
                       model->name);
    }
    tt_assert(inference->slot == -1);
    tt_assert(inference->request == NULL);
    lane->in_use++;
    inference->quota = quota;
    inference->bytes = 0;
    inference->started_at = inference->computed_at = 0;
    inference->returned = NULL;
    inference->submitted = inference->finished = inference->cancel_sent = false;
    inference->cancel_acknowledged = inference->released = false;
    inference->result = NULL;
    inference->cell_run = NULL;
    inference->words.count = 0;
    inference->emitted = NULL;
    inference->asks = false;
    inference->err = TT_OK;
    inference->drop = TT_DROP_NONE;
    inference->why.text[0] = '\0';
    *out_inference = inference;
    return TT_OK;
}

/* Memory of the inference's own for input `i`, of `size` bytes; NULL: out of memory. */
static void *own_memory(struct tt_inference *inference, int32_t i, size_t size) {
    if (size > inference->own_capacity[i] || !inference->own[i]) {
        size_t capacity = size < 64 ? 64 : size;
        free(inference->own[i]);
        inference->own[i] = malloc(capacity);
        inference->own_capacity[i] = inference->own[i] ? capacity : 0;
    }
    return inference->own[i];
}

enum tt_err tt_port_place_inputs(struct tt_inference *inference,
                                 const struct tt_inference_shape *shapes, const size_t *sizes_bytes,
                                 struct tt_error *why) {
    struct tt_lane *lane = inference->lane;
    struct tt_port *port = lane->port;
    const struct tt_signature *signature = lane->model->signature;
    struct tt_input_ring *ring = lane->model->inputs;
    tt_assert(inference->slot == -1);
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
        if (size > INT64_MAX || !tt_quota_share_take(&port->queue_bytes, (int64_t)size))
            return tt_fail(TT_ERR_BUSY, why,
                           "the inputs of requests in flight take %lld bytes, and with this one "
                           "more than the limit of %lld",
                           (long long)tt_quota_used(port->queue_bytes.quota),
                           (long long)port->queue_bytes.quota->limit);
        inference->bytes += (int64_t)size;
        if (ring && inference->slot >= 0)
            view->bytes = tt_input_ring_at(ring, inference, i);
        else if (lane->row_bytes[i] && inference->slot >= 0)
            view->bytes = lane->pool[i] + (size_t)inference->slot * lane->row_bytes[i];
        else if (!(view->bytes = own_memory(inference, i, size)))
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of input '%s'", size,
                           signature->inputs[i].name);
    }
    return TT_OK;
}

void tt_port_send(struct tt_inference *inference) {
    tt_assert(inference->submitted);
    tt_assert(!inference->finished);
    struct tt_input_ring *ring = inference->model->inputs;
    if (ring)
        (void)tt_input_ring_send(ring, inference); /* the scheduler has a turn in any case */
    tt_mailbox_send(inference->mailbox, inference);
    notify(inference->lane->port);
}

void tt_port_send_cancel(struct tt_inference *inference) {
    tt_assert(inference->cancel_sent);
    tt_assert(!inference->finished);
    tt_mailbox_send_cancel(inference->mailbox, inference);
    notify(inference->lane->port);
}

static void give_back_emissions(struct tt_inference *inference) {
    tt_emissions_check(inference->emissions);
    tt_emissions_free(inference->emissions);
    inference->emissions = NULL;
}

void tt_port_recycle(struct tt_inference *inference) {
    if (!inference->released || (inference->submitted && !inference->finished) ||
        (inference->cancel_sent && !inference->cancel_acknowledged) || inference->is_lost)
        return;
    struct tt_lane *lane = inference->lane;
    void (*returned)(void *context) = inference->returned;
    void *returned_context = inference->returned_context;
    tt_assert(inference->request == NULL);
    tt_assert(inference->cell_run == NULL);
    slots_give(inference);
    if (inference->result)
        lane->model->engine_model->engine->ops->result_release(inference->result);
    inference->result = NULL;
    if (inference->emissions)
        give_back_emissions(inference);
    for (int32_t i = 0; i < lane->model->signature->input_count; i++) {
        if (inference->own_capacity[i] > KEPT_BYTES) {
            free(inference->own[i]);
            inference->own[i] = NULL;
            inference->own_capacity[i] = 0;
        }
    }
    tt_assert(inference->slot == -1);
    inference->next_free = lane->free;
    lane->free = inference;
    tt_quota_share_give(&lane->port->requests, inference->quota);
    tt_quota_share_give(&lane->port->queue_bytes, inference->bytes);
    lane->in_use--;
    tt_assert(lane->in_use >= 0);
    if (lane->retired && lane->in_use == 0)
        lane_close(lane);
    if (returned)
        returned(returned_context);
}

void tt_port_lost(struct tt_inference *whole) {
    tt_assert(whole->finished);
    tt_assert(!whole->is_lost);
    whole->is_lost = true;
    whole->lane->port->lost_count += whole->quota;
}

void tt_port_found(struct tt_inference *whole) {
    if (!whole->is_lost)
        return;
    whole->is_lost = false;
    whole->lane->port->lost_count -= whole->quota;
}

/* ---- catalogues and commands ---- */

/* Closes unused lanes of models that the catalogue does not show. Called before the previous
 * catalogue is given back, so that no other model has the same address. */
static void sweep_lanes(struct tt_port *port) {
    for (struct tt_lane *lane = port->lanes, *next; lane; lane = next) {
        next = lane->next;
        lane->retired = !is_shown(port, lane->model);
        if (lane->retired && lane->in_use == 0)
            lane_close(lane);
    }
}

const struct tt_catalogue *tt_port_catalogue(struct tt_port *port) {
    if (!tt_catalogue_board_has_newer(port->catalogues, port->generation))
        return port->catalogue;
    struct tt_catalogue *old = port->catalogue;
    port->catalogue = tt_catalogue_board_get(port->catalogues, &port->generation);
    sweep_lanes(port);
    tt_catalogue_unref(old);
    return port->catalogue;
}

int64_t tt_port_generation(const struct tt_port *port) { return port->generation; }

void tt_port_submit_command(struct tt_port *port, struct tt_model_command *take_command,
                            tt_model_command_done_fn *done, void *context) {
    take_command->done = done;
    take_command->context = context;
    tt_command_box_submit(&port->commands, take_command);
}

/* ---- opening, draining, closing ---- */

enum tt_err tt_port_open(const struct tt_port_options *options, struct tt_port **out_port,
                         struct tt_error *why) {
    struct tt_port *port = calloc(1, sizeof(*port));
    if (!port)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a port");
    port->scheduler = options->scheduler;
    port->catalogues = options->catalogues;
    port->stream_words = options->stream_words;
    tt_port_lag_init(&port->lag, options->learn_percent);
    tt_quota_share_init(&port->requests, options->requests);
    tt_quota_share_init(&port->queue_bytes, options->queue_bytes);
    enum tt_err err = tt_mailbox_init(&port->mailbox, (int32_t)options->requests->limit,
                                      options->wake, options->wake_context);
    if (err) {
        free(port);
        return tt_fail(err, why, "out of memory for a port");
    }
    tt_plugin_inbox_init(&port->from_plugins, &port->mailbox);
    tt_command_box_init(&port->commands, options->controller, options->wake, options->wake_context);
    tt_eventcount_prepare(&port->mailbox.eventcount, TT_NEVER);
    tt_scheduler_add_mailbox(port->scheduler, &port->mailbox);
    (void)tt_port_catalogue(port);
    *out_port = port;
    return TT_OK;
}

void tt_port_close(struct tt_port *take_port) {
    if (!take_port)
        return;
    take_port->holds_back = false;
    tt_port_flush(take_port);
    tt_port_drain(take_port);
    /* Cancelled requests in a running task return when it ends; those with an unacknowledged
     * cancellation, within one turn of the scheduler. */
    while (take_port->requests.used > take_port->lost_count || take_port->commands.waiting > 0) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        tt_port_drain(take_port);
    }
    tt_scheduler_remove_mailbox(take_port->scheduler, &take_port->mailbox);
    if (take_port->lost_count > 0) { /* the engine may still read inputs, and return them */
        tt_catalogue_unref(take_port->catalogue);
        tt_command_box_fini(&take_port->commands);
        return;
    }
    tt_quota_share_fini(&take_port->requests);
    tt_quota_share_fini(&take_port->queue_bytes);
    for (struct tt_lane *lane = take_port->lanes, *next; lane; lane = next) {
        next = lane->next;
        lane_free(lane);
    }
    tt_catalogue_unref(take_port->catalogue);
    tt_command_box_fini(&take_port->commands);
    tt_mailbox_fini(&take_port->mailbox);
    tt_plugin_inbox_fini(&take_port->from_plugins);
    free(take_port);
}

static void take_given_back(struct tt_inference *inference) {
    tt_assert(inference->is_lost);
    tt_assert(inference->finished);
    inference->is_lost = false;
    inference->lane->port->lost_count -= inference->quota;
    tt_port_recycle(inference);
}

/* An inference that is lost and came back in the meantime ends first: it stays in the inbox until
 * then. */
static void take_from_plugins(struct tt_port *port) {
    struct tt_inference *given_back;
    struct tt_inference *unfolded = tt_plugin_inbox_take(&port->from_plugins, &given_back);
    for (struct tt_inference *next; unfolded; unfolded = next) {
        next = unfolded->next_unfolded;
        unfolded->is_unfolding = false;
        tt_word_stream_open(unfolded, port->stream_words);
        tt_port_send(unfolded);
        if (unfolded->cancel_sent)
            tt_port_send_cancel(unfolded);
    }
    for (struct tt_inference *next; given_back; given_back = next) {
        next = given_back->next_given_back;
        if (given_back->finished)
            take_given_back(given_back);
        else
            tt_plugin_inbox_keep(&port->from_plugins, given_back);
    }
}

int64_t tt_port_since(struct tt_port *port, int64_t now) {
    if (tt_port_lag_rests(&port->lag))
        tt_port_lag_wake(&port->lag, now);
    return tt_port_lag_since(&port->lag, now);
}

int64_t tt_port_answer_ns(const struct tt_port *port) { return tt_port_lag_answer_ns(&port->lag); }

void tt_port_drain(struct tt_port *port) {
    tt_port_rested(port);
    if (!port->holds_back) /* before it looks, so that later mail wakes it again */
        tt_eventcount_prepare(&port->mailbox.eventcount, TT_NEVER);
    (void)tt_port_catalogue(port);
    tt_command_box_drain(&port->commands);
    if (tt_plugin_inbox_has_mail(&port->from_plugins))
        take_from_plugins(port);
    struct tt_inference *inference;
    enum tt_mail mail;
    bool has_answered = false;
    int64_t computed_at = TT_NEVER; /* the first of the answers */
    while ((inference = tt_mailbox_receive(&port->mailbox, &mail))) {
        tt_assert(inference->submitted);
        switch (mail) {
        case TT_MAIL_EMITTED:
            tt_assert(!inference->finished);
            tt_emissions_begin_reading(inference->emissions);
            inference->emitted(inference->context, inference);
            break;
        case TT_MAIL_CANCEL:
            tt_assert(inference->cancel_sent);
            tt_assert(!inference->cancel_acknowledged);
            inference->cancel_acknowledged = true;
            tt_port_recycle(inference);
            break;
        case TT_MAIL_GIVEN_BACK: take_given_back(inference); break;
        case TT_MAIL_INFERENCE:
        default:
            tt_assert(!inference->finished);
            inference->finished = true;
            port->lost_count += inference->is_lost ? inference->quota : 0;
            slots_give(inference);
            has_answered = true;
            /* Where answers keep the order of their requests, they wait for each other first. */
            if (!inference->err && inference->computed_at && !inference->model->preserve_ordering)
                computed_at = tt_instant_min(computed_at, inference->computed_at);
            inference->done(inference->context, inference, inference->err, inference->why.text);
        }
    }
    if (has_answered)
        tt_port_lag_answered(&port->lag, computed_at, tt_clock_now());
}

bool tt_port_has_requests(const struct tt_port *port) {
    return port->requests.used > port->lost_count;
}

void tt_port_hold_back(struct tt_port *port) { port->holds_back = true; }

void tt_port_flush(struct tt_port *port) {
    tt_eventcount_cancel_relaxed(&port->mailbox.eventcount);
    for (int32_t round = 0; round < MAX_ROUNDS; round++) {
        if (port->has_news) {
            port->has_news = false;
            tt_scheduler_wake_from(port->scheduler, port->holds_back ? &port->mailbox : NULL);
        }
        if (tt_mailbox_is_empty(&port->mailbox) && !tt_plugin_inbox_has_mail(&port->from_plugins))
            return;
        tt_port_drain(port); /* may bring more to send: requests that waited for these answers */
    }
    port->mailbox.wake(port->mailbox.wake_context); /* the loop's other work comes first */
}

void tt_port_rest(struct tt_port *port) {
    tt_port_flush(port);
    tt_port_lag_rest(&port->lag, tt_clock_now());
    tt_eventcount_prepare(&port->mailbox.eventcount, TT_NEVER);
    if (!tt_mailbox_is_empty(&port->mailbox) ||
        tt_plugin_inbox_has_mail(&port->from_plugins)) /* mail came between the two */
        port->mailbox.wake(port->mailbox.wake_context);
}
