/* The backend's role in a process: granted batches run in the server of this process, as requests
 * that came together. A model whose policy composes (core/policy_traits.h) keeps it here: it sees
 * the requests of all plans, their deadlines, and those that are cancelled.
 *
 * An input becomes an inference when it arrives, written into the server's memory at once. When the
 * plan starts, its inferences are submitted in one turn. The words of a request go out as they come
 * and its result when it has ended; the inference is released after that was written. */
#include "base/clock.h"
#include "base/instant.h"
#include "base/list.h"
#include "base/log/log.h"
#include "cluster/backend.h"
#include "fleet/fleet_roles.h"
#include "fleet/model_service.h"
#include "fleet/tensor_payload.h"
#include "fleet/word_queue.h"
#include "serve/inference.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 240 };

/* One member's input, and then its result. */
struct input {
    struct tt_list_node node;       /* in `free`, or in `results` */
    struct tt_inference *inference; /* NULL: it could not begin */
    int32_t device;
    uint16_t model;
    bool is_submitted;          /* and not done */
    bool streams;               /* its client takes words as they come */
    const struct tt_plan *plan; /* from submission on */
    struct tt_plan_member *member;
    uint64_t id;
    enum tt_err err;
    char text[MESSAGE_BYTES];
    struct backend_node *owner;
};

/* The plan that runs on a device. */
struct running {
    const struct tt_plan *plan; /* NULL: none */
    int32_t left;               /* members whose end is awaited, and 1 while it is new */
    bool is_new;                /* _settle has not handed it over yet */
};

struct backend_node {
    struct tt_fleet_node *node;
    struct tt_backend backend;
    struct tt_port *port;
    struct tt_model_service service;
    struct input *inputs; /* [input_count] */
    int64_t input_count;
    struct tt_list free;    /* of inputs */
    struct tt_list results; /* of inputs, in the order of the records RESULT in the outbox */
    struct tt_list_node *next_result; /* of the next record while they are sent */
    struct tt_word_queue words;       /* in the order of the records WORDS */
    struct running *running;          /* [device_count] */
    bool has_submitted, is_closing;
    int64_t batches, requests;
};

/* ---- inputs ---- */

static struct input *take_input(struct backend_node *self) {
    struct tt_list_node *node = tt_list_first(&self->free);
    tt_assert(node != NULL); /* as many as members of plans */
    tt_list_remove(node);
    struct input *input = TT_CONTAINER_OF(node, struct input, node);
    *input = (struct input){.owner = self};
    return input;
}

static void release(struct backend_node *self, struct input *input) {
    if (input->inference)
        tt_inference_release(input->inference);
    input->inference = NULL;
    tt_list_push_back(&self->free, &input->node);
}

static void fail(struct input *input, enum tt_err err, const char *text) {
    input->err = err;
    snprintf(input->text, sizeof(input->text), "%.*s", MESSAGE_BYTES - 1, text);
}

/* Begins an inference with the tensors of the payload, whose bytes may change meanwhile. */
static enum tt_err begin(struct backend_node *self, struct input *input, const uint8_t *payload,
                         size_t bytes, struct tt_error *why) {
    const struct tt_fleet_model *model = &tt_fleet_node_models(self->node)->models[input->model];
    if (!model->served)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "model '%s' is not loaded", model->name);
    int32_t count = model->served->signature->input_count;
    struct tt_tensor_view views[TT_MAX_TENSORS];
    struct tt_inference_shape shapes[TT_MAX_TENSORS];
    size_t sizes[TT_MAX_TENSORS];
    enum tt_err err = tt_tensors_read(payload, bytes, count, views, why);
    for (int32_t i = 0; !err && i < count; i++) {
        shapes[i] = (struct tt_inference_shape){.input = model->inputs[i], .shape = views[i].shape};
        sizes[i] = views[i].size_bytes;
    }
    struct tt_served_model *served = NULL;
    if (!err)
        err = tt_serving_find(self->port, model->name, model->version, &served, why);
    if (!err)
        err = tt_inference_begin(self->port, served, shapes, sizes, count, &input->inference, why);
    for (int32_t i = 0; !err && i < count; i++) {
        size_t room;
        void *to = tt_inference_input(input->inference, model->inputs[i], &room);
        if (room != views[i].size_bytes)
            err = tt_fail(TT_ERR_INVALID, why, "an input has %zu bytes; it must have %zu",
                          views[i].size_bytes, room);
        else if (room > 0)
            memcpy(to, views[i].bytes, room);
        /* What is checked is the copy: the frontend may change memory that it shares. */
        if (!err && served->signature->inputs[model->inputs[i]].dtype == TT_DTYPE_BYTES)
            err = tt_bytes_tensor_check(to, room, tt_shape_count(&views[i].shape, 0), why);
    }
    if (err && input->inference) {
        tt_inference_release(input->inference);
        input->inference = NULL;
    }
    return err;
}

static struct input *new_input(struct backend_node *self, uint64_t id, uint16_t model,
                               const uint8_t *payload, size_t bytes) {
    struct input *input = take_input(self);
    input->id = id;
    input->model = model;
    input->streams = tt_tensors_asks_words(payload, bytes);
    struct tt_error why = {{0}};
    enum tt_err err = begin(self, input, payload, bytes, &why);
    if (err)
        fail(input, err, why.text);
    return input;
}

/* S7: a plan was granted. What lies in memory that its frontend shares is read at once. */
static void read_inputs(void *context, struct tt_plan *plan) {
    struct backend_node *self = context;
    struct tt_node_memory *memory = tt_fleet_node_memory(self->node);
    for (int32_t i = 0; i < plan->count; i++) {
        struct tt_plan_member *member = &plan->members[i];
        size_t bytes;
        const uint8_t *payload = tt_node_memory_input(memory, member->frontend, member->id, &bytes);
        if (!payload) {
            member->is_reading =
                tt_node_memory_fetch(memory, member->frontend, member->id, member->attempt);
            continue;
        }
        struct input *input = new_input(self, member->id, plan->model, payload, bytes);
        member->is_here = tt_node_memory_has_input(memory, member->frontend, member->id);
        if (member->is_here)
            member->input = input;
        else
            release(self, input); /* its client has gone meanwhile */
    }
}

/* S7: an input that is read from another host is here, or could not be read. */
static void fetched(void *context, int64_t now, uint16_t from, uint64_t id, uint16_t attempt,
                    const uint8_t *payload, size_t bytes) {
    struct backend_node *self = context;
    uint16_t model = 0;
    struct tt_plan_member *member = tt_backend_awaited(&self->backend, from, id, attempt, &model);
    if (!member || !member->is_reading)
        return; /* its client has gone, or it came too late */
    if (payload)
        member->input = new_input(self, id, model, payload, bytes);
    tt_backend_read(&self->backend, now, from, id, attempt, payload != NULL);
}

/* Each awaited member gets its input before the role is notified of it. */
static void take_inputs(struct backend_node *self, uint16_t from,
                        const struct tt_received *received) {
    const uint8_t *at = received->payload;
    for (int32_t i = 0; i < received->frame.count; i++) {
        const struct tt_frame_record *record = &received->frame.records[i];
        const uint8_t *payload = at;
        at += record->length;
        uint16_t model = 0;
        struct tt_plan_member *member =
            record->code == 1
                ? tt_backend_awaited(&self->backend, from, record->id, record->attempt, &model)
                : NULL;
        if (member && !member->input)
            member->input = new_input(self, record->id, model, payload, record->length);
    }
}

/* ---- running ---- */

/* All members of the plan have ended; results go out in the order of the records. */
static void end_plan(struct backend_node *self, int64_t now, int32_t device) {
    const struct tt_plan *plan = self->running[device].plan;
    self->running[device].plan = NULL;
    for (int32_t i = 0; i < plan->count; i++) /* those that could not begin */
        if (plan->members[i].is_here && !plan->members[i].is_answered) {
            struct input *input = plan->members[i].input;
            tt_list_push_back(&self->results, &input->node);
        }
    tt_backend_ran(&self->backend, now, device, true);
}

static void count_down(struct backend_node *self, int64_t now, int32_t device) {
    tt_assert(self->running[device].left > 0);
    if (--self->running[device].left == 0)
        end_plan(self, now, device);
}

/* What the request emitted since the last look. */
static void send_words(struct input *input) {
    struct backend_node *self = input->owner;
    struct tt_tensor_view word;
    for (bool is_more = tt_inference_next_word(input->inference, &word); is_more;) {
        int32_t count = 0;
        tt_word_queue_begin(&self->words);
        while (is_more && count < UINT16_MAX) {
            tt_word_queue_append(&self->words, word.bytes, word.size_bytes);
            count++;
            is_more = tt_inference_next_word(input->inference, &word);
        }
        tt_backend_emitted(&self->backend, input->plan, input->member, count);
    }
}

static void on_emitted(void *context, struct tt_inference *inference) {
    (void)inference;
    struct input *input = context;
    if (!input->owner->is_closing)
        send_words(input);
}

static void on_done(void *context, struct tt_inference *inference, enum tt_err err,
                    const char *why) {
    (void)inference;
    struct input *input = context;
    struct backend_node *self = input->owner;
    input->is_submitted = false;
    if (err)
        fail(input, err, why ? why : tt_err_name(err));
    if (self->is_closing) {
        release(self, input);
        return;
    }
    int32_t device = input->device;
    if (input->streams && !err)
        send_words(input); /* the last ones, which may have come with the end */
    tt_list_push_back(&self->results, &input->node);
    tt_backend_answer(&self->backend, input->plan, input->member, true);
    count_down(self, tt_clock_now(), device);
}

/* The cluster's scheduler has decided that a batch is in time, so this server drops nothing; but a
 * policy that decides within it knows the deadlines. */
static int64_t timeout_of(const struct backend_node *self, const struct input *input, int64_t now) {
    const struct tt_fleet_model *model = &tt_fleet_node_models(self->node)->models[input->model];
    int64_t deadline_at = input->member->deadline_at;
    if (!model->served || !model->served->composes || deadline_at == TT_NEVER)
        return 0;
    return tt_instant_max(deadline_at - now, 1);
}

static void submit(struct backend_node *self, int64_t now, struct input *input) {
    struct tt_error why;
    const struct tt_inference_options options = {.timeout_ns = timeout_of(self, input, now)};
    /* Words that this server cannot tell apart come with the answer. */
    input->streams = input->streams && !tt_inference_stream(input->inference, on_emitted, &why);
    input->is_submitted = true;
    tt_inference_submit(input->inference, &options, on_done, input);
}

static void run_plan(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    struct backend_node *self = context;
    struct running *running = &self->running[device];
    *running = (struct running){.plan = plan, .left = 1, .is_new = true};
    self->batches++;
    self->has_submitted = true;
    for (int32_t i = 0; i < plan->count; i++) {
        struct input *input = plan->members[i].is_here ? plan->members[i].input : NULL;
        self->requests += input != NULL;
        if (!input || !input->inference)
            continue;
        input->device = device;
        input->plan = plan;
        input->member = &plan->members[i];
        running->left++;
        submit(self, now, input);
    }
}

/* The member's client has gone. */
static void withdraw_input(void *context, const struct tt_plan *plan,
                           struct tt_plan_member *member) {
    struct backend_node *self = context;
    struct input *input = member->input;
    if (plan->state != TT_PLAN_RUNNING) {
        member->input = NULL;
        release(self, input);
    } else if (input->is_submitted) {
        tt_inference_cancel(input->inference); /* its end counts, as any */
    }
}

/* Hands submissions over to the server, a turn of its scheduler for all; takes in what ended. */
static void settle(void *context, int64_t now) {
    struct backend_node *self = context;
    tt_port_drain(self->port);
    do {
        self->has_submitted = false;
        tt_port_flush(self->port);
        for (int32_t d = 0; d < self->backend.device_count; d++)
            if (self->running[d].plan && self->running[d].is_new) {
                self->running[d].is_new = false;
                count_down(self, now, d);
            }
        tt_port_rest(self->port);
        tt_model_service_settle(&self->service);
    } while (self->has_submitted);
}

/* ---- results ---- */

/* The outputs of an inference in the order of their names. */
static int32_t outputs_of(const struct backend_node *self, const struct input *input,
                          struct tt_tensor_view *out_views) {
    const struct tt_fleet_model *model = &tt_fleet_node_models(self->node)->models[input->model];
    int32_t count = model->served->signature->output_count;
    for (int32_t i = 0; i < count; i++)
        tt_inference_output(input->inference, model->outputs[i], &out_views[i]);
    return count;
}

/* The first in the list is the one of this record. */
static size_t payload_bytes(void *context, enum tt_frame_type type,
                            struct tt_frame_record *record) {
    struct backend_node *self = context;
    if (type == TT_FRAME_WORDS)
        return tt_word_queue_next(&self->words);
    struct tt_list_node *node = self->next_result;
    tt_assert(node != &self->results.head);
    self->next_result = node->next;
    const struct input *input = TT_CONTAINER_OF(node, struct input, node);
    tt_assert(input->id == record->id);
    if (input->err)
        return TT_RESULT_HEAD_BYTES + strlen(input->text);
    struct tt_tensor_view views[TT_MAX_TENSORS];
    int32_t count = outputs_of(self, input, views);
    return TT_RESULT_HEAD_BYTES + tt_tensors_bytes(views, count);
}

static void write_words(struct backend_node *self, uint8_t *out) {
    size_t bytes;
    const uint8_t *from = tt_word_queue_take(&self->words, &bytes);
    if (out)
        memcpy(out, from, bytes);
}

static void payload_write(void *context, enum tt_frame_type type,
                          const struct tt_frame_record *record, uint8_t *out) {
    struct backend_node *self = context;
    if (type == TT_FRAME_WORDS) {
        write_words(self, out);
        return;
    }
    struct tt_list_node *node = tt_list_first(&self->results);
    struct input *input = TT_CONTAINER_OF(node, struct input, node);
    tt_assert(input->id == record->id);
    if (out) {
        tt_result_head_write(input->err, out);
        out += TT_RESULT_HEAD_BYTES;
    }
    if (out && input->err) {
        memcpy(out, input->text, strlen(input->text));
    } else if (out) {
        struct tt_tensor_view views[TT_MAX_TENSORS];
        int32_t count = outputs_of(self, input, views);
        tt_tensors_write(views, count, out);
    }
    tt_list_remove(node);
    release(self, input);
}

static const char *text(void *context, enum tt_frame_type type,
                        const struct tt_frame_record *record) {
    (void)type;
    const struct backend_node *self = context;
    return record->code ? tt_model_service_reason(&self->service, record->model) : "";
}

static void model_came(void *context, int64_t now, uint16_t peer, bool serves) {
    (void)now;
    (void)peer;
    (void)serves;
    struct backend_node *self = context;
    tt_model_duty_add(&self->backend.models);
}

static void on_changed(void *context, int32_t group) {
    const struct backend_node *self = context;
    tt_fleet_node_model_changed(self->node, group);
}

static struct tt_outbox *outbox(void *context) {
    struct backend_node *self = context;
    self->next_result = self->results.head.next;
    return &self->backend.outbox;
}

/* ---- what the node reports ---- */

static void received(void *context, int64_t now, uint16_t from,
                     const struct tt_received *received) {
    struct backend_node *self = context;
    enum tt_cluster_role role = tt_fleet_node_settings(self->node)->nodes[from].role;
    if (received->frame.type == TT_FRAME_INPUT && role == TT_ROLE_FRONTEND)
        take_inputs(self, from, received);
    tt_backend_receive(&self->backend, now, from, &received->frame);
}

static void linked(void *context, int64_t now, uint16_t peer, enum tt_link link) {
    struct backend_node *self = context;
    tt_backend_link(&self->backend, now, peer, link);
}

static void tick(void *context, int64_t now) {
    struct backend_node *self = context;
    tt_backend_tick(&self->backend, now);
}

static int64_t next_at(const void *context) {
    const struct backend_node *self = context;
    return tt_backend_next_at(&self->backend);
}

/* ---- life ---- */

static enum tt_err fill(struct backend_node *self, struct tt_error *why) {
    const struct tt_cluster_settings *settings = tt_fleet_node_settings(self->node);
    uint16_t number = tt_fleet_node_number(self->node);
    enum tt_err err = tt_backend_init(&self->backend, settings, number);
    if (err)
        return tt_fail(err, why, "out of memory for a backend");
    self->backend.context = self;
    self->backend.run = run_plan;
    self->backend.read_inputs = read_inputs;
    self->backend.withdrawn = withdraw_input;
    /* Results of a plan wait for the end of the turn, while the next one collects its inputs. */
    int64_t count =
        2 * (int64_t)self->backend.device_count * settings->depth * self->backend.max_batch;
    self->inputs = calloc((size_t)count, sizeof(*self->inputs));
    self->running = calloc((size_t)self->backend.device_count, sizeof(*self->running));
    if (!self->inputs || !self->running)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a backend");
    self->input_count = count;
    for (int64_t i = 0; i < count; i++)
        tt_list_push_back(&self->free, &self->inputs[i].node);
    err = tt_serving_open_port(tt_fleet_node_options(self->node)->serving, tt_fleet_node_wake,
                               self->node, &self->port, why);
    if (err)
        return err;
    tt_port_hold_back(self->port);
    const struct tt_fleet_options *options = tt_fleet_node_options(self->node);
    if (tt_model_service_init(&self->service, tt_fleet_node_models(self->node),
                              &self->backend.models, self->port, options->commands, NULL))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a backend");
    self->service.changed = on_changed;
    self->service.context = self;
    tt_command_inbox_attach(options->commands, tt_fleet_node_wake, self->node);
    return TT_OK;
}

static void close_role(void *take_self) {
    struct backend_node *self = take_self;
    self->is_closing = true;
    tt_command_inbox_close(tt_fleet_node_options(self->node)->commands);
    for (int64_t i = 0; i < self->input_count; i++) {
        struct input *input = &self->inputs[i];
        if (input->inference && input->is_submitted)
            tt_inference_cancel(input->inference); /* its end releases it */
        else if (input->inference)
            tt_inference_release(input->inference);
    }
    if (self->port)
        tt_port_close(self->port);
    if (self->service.models)
        tt_model_service_fini(&self->service);
    tt_backend_fini(&self->backend);
    tt_word_queue_fini(&self->words);
    free(self->inputs);
    free(self->running);
    free(self);
}

static enum tt_err open_role(struct tt_fleet_node *node, void **out_self, struct tt_error *why) {
    struct backend_node *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->node = node;
    tt_list_init(&self->free);
    tt_list_init(&self->results);
    enum tt_err err = fill(self, why);
    if (err)
        close_role(self);
    else
        *out_self = self;
    return err;
}

static struct tt_model_service *service(void *context) {
    return &((struct backend_node *)context)->service;
}

static uint64_t epoch(const void *context) {
    return ((const struct backend_node *)context)->backend.primary.epoch;
}

static const char *state(const void *context) {
    const struct backend_node *self = context;
    if (self->backend.is_leaving)
        return tt_backend_is_idle(&self->backend) ? "DRAINED" : "DRAINING";
    return epoch(self) ? "READY" : "WAITING";
}

static enum tt_err drain(void *context, int64_t now, struct tt_error *why) {
    (void)now;
    (void)why;
    struct backend_node *self = context;
    tt_backend_leave(&self->backend);
    return TT_OK;
}

static enum tt_err promote(void *context, int64_t now, struct tt_error *why) {
    (void)context;
    (void)now;
    return tt_fail(TT_ERR_UNSUPPORTED, why, "a backend cannot become the primary scheduler");
}

static void count(void *context, struct tt_text *out) {
    const struct backend_node *self = context;
    int32_t models = 0;
    for (int32_t m = 0; m < self->backend.models.model_count; m++)
        models += tt_model_duty_serves(&self->backend.models, m);
    tt_text_printf(out,
                   ", \"devices\": %d, \"models\": %d, \"batches\": %" PRId64
                   ", \"requests\": %" PRId64 ", \"stale\": %" PRId64,
                   self->backend.device_count, models, self->batches, self->requests,
                   self->backend.refused);
}

const struct tt_fleet_role tt_backend_node_role = {.open = open_role,
                                                   .close = close_role,
                                                   .received = received,
                                                   .fetched = fetched,
                                                   .linked = linked,
                                                   .tick = tick,
                                                   .next_at = next_at,
                                                   .outbox = outbox,
                                                   .settle = settle,
                                                   .payload_bytes = payload_bytes,
                                                   .payload_write = payload_write,
                                                   .text = text,
                                                   .model_came = model_came,
                                                   .service = service,
                                                   .epoch = epoch,
                                                   .state = state,
                                                   .drain = drain,
                                                   .promote = promote,
                                                   .count = count};
