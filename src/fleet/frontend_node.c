/* The frontend's role in a process: requests come as tasks of the remote engine, one request per
 * member, and go to the cluster through cluster/frontend.h. Inputs stay in the server's memory
 * until a backend fetches them. */
#include "base/clock.h"
#include "base/log/log.h"
#include "cluster/frontend.h"
#include "core/mechanism.h"
#include "fleet/fleet_roles.h"
#include "fleet/model_notice.h"
#include "fleet/model_service.h"
#include "fleet/tensor_payload.h"
#include "serve/emissions.h"
#include "serve/inference_state.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_ENTRY = -1 };

#define NO_BACKEND                                                                                 \
    "no backend of the cluster takes requests to model '%s'; start one that has it ('tutti "       \
    "cluster status' shows those that run)"

/* A request on its way through the cluster. */
struct entry {
    uint64_t id;
    struct tt_engine_task *task; /* NULL: free */
    int32_t member, model, next_free;
    char failure[120]; /* why it was given up here; "": it was not */
};

struct frontend_node {
    struct tt_fleet_node *node;
    struct tt_frontend frontend;
    struct entry *entries; /* [request_limit] */
    int32_t first_free;
    const uint8_t *payload; /* of the result or the words that are being taken in */
    size_t payload_bytes;
    struct tt_port *port; /* for models that are loaded and unloaded */
    struct tt_model_service service;
    const char *text; /* of the command's answer that is being taken in */
    size_t text_bytes;
    struct tt_engine_task *ended; /* and the server does not know yet; NULL: none */
    int64_t ended_at;
    int32_t backends_linked;
    bool is_draining, is_ready, is_closing;
    int64_t done, failed, cancelled;
};

/* ---- answers ---- */

static const struct tt_inference *inference_of(const struct entry *entry) {
    return entry->task->members[entry->member].user;
}

/* The server is woken for the last one of a turn: for each, it would answer its clients one by one.
 */
static void end(struct frontend_node *self, struct tt_engine_task *task, int64_t now) {
    if (self->ended)
        tt_remote_engine_done(self->ended, self->ended_at, true);
    self->ended = task;
    self->ended_at = now;
}

static void end_last(struct frontend_node *self) {
    struct tt_engine_task *task = self->ended;
    self->ended = NULL;
    if (task)
        tt_remote_engine_done(task, self->ended_at, false);
}

static void finish(struct frontend_node *self, struct entry *entry, enum tt_err err,
                   const char *text, int64_t now) {
    struct tt_engine_task *task = entry->task;
    struct tt_engine_member *member = &task->members[entry->member];
    member->err = err ? tt_fail(err, member->why, "%s", text) : TT_OK;
    if (err == TT_ERR_CANCELLED)
        self->cancelled++;
    else
        err ? self->failed++ : self->done++;
    if (entry->id)
        tt_node_memory_withdraw(tt_fleet_node_memory(self->node), entry->id);
    entry->task = NULL;
    entry->next_free = self->first_free;
    self->first_free = (int32_t)(entry - self->entries);
    tt_assert(task->stop > 0); /* members under way */
    if (--task->stop == 0)
        end(self, task, now);
}

/* Reads the payload of the result into the member. */
static enum tt_err read_outputs(const struct frontend_node *self, const struct entry *entry,
                                struct tt_error *why) {
    const struct tt_fleet_model *model = &tt_fleet_node_models(self->node)->models[entry->model];
    const struct tt_served_model *served = model->served;
    int32_t count = served->signature->output_count;
    struct tt_tensor_view sorted[TT_MAX_TENSORS], views[TT_MAX_TENSORS] = {{0}};
    enum tt_err failed, err = tt_result_head_read(self->payload, self->payload_bytes, &failed, why);
    if (err)
        return err;
    const uint8_t *rest = self->payload + TT_RESULT_HEAD_BYTES;
    size_t rest_bytes = self->payload_bytes - TT_RESULT_HEAD_BYTES;
    if (failed)
        return tt_fail(failed, why, "%.*s", (int)(rest_bytes < 400 ? rest_bytes : 400),
                       (const char *)rest);
    err = tt_tensors_read(rest, rest_bytes, count, sorted, why);
    for (int32_t i = 0; !err && i < count; i++)
        views[served->shown_outputs[model->outputs[i]]] = sorted[i];
    return err ? err
               : tt_remote_engine_result(entry->task, &entry->task->members[entry->member], views,
                                         why);
}

static enum tt_err explain(const struct frontend_node *self, const struct entry *entry,
                           enum tt_answer answer, int32_t reason, struct tt_error *why) {
    const char *name = tt_fleet_node_models(self->node)->models[entry->model].name;
    switch (answer) {
    case TT_ANSWER_DROPPED:
        if (reason == TT_DROP_QUEUE_FULL)
            return tt_fail(TT_ERR_BUSY, why,
                           "Exceeds maximum queue size: the scheduler of the cluster has too many "
                           "requests waiting");
        if (reason == TT_CLUSTER_DROP_NO_BACKEND)
            return tt_fail(TT_ERR_UNAVAILABLE, why, NO_BACKEND, name);
        if (reason == TT_DROP_WITHDRAWN)
            return tt_fail(TT_ERR_UNAVAILABLE, why, "model '%s' is being unloaded", name);
        return tt_fail(
            TT_ERR_TIMEOUT, why,
            "Request timeout expired: request to model '%s' dropped (%s) by the "
            "cluster's scheduler",
            name, tt_drop_reason_name(reason == TT_DROP_EARLY ? TT_DROP_EARLY : TT_DROP_DEADLINE));
    case TT_ANSWER_TIMED_OUT:
        return tt_fail(TT_ERR_TIMEOUT, why,
                       "Request timeout expired: no backend answered a request to model '%s'",
                       name);
    case TT_ANSWER_QUARANTINED:
        return tt_fail(TT_ERR_INTERNAL, why,
                       "a request to model '%s' was on %d backends that died, and is not tried "
                       "again",
                       name, TT_FRONTEND_DEATHS);
    case TT_ANSWER_BROKEN:
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "backend %s was lost after the first words of a request to model '%s': it "
                       "is not tried again, since its client has them",
                       tt_fleet_node_name(self->node, (uint16_t)reason), name);
    case TT_ANSWER_CANCELLED:
        return tt_fail(TT_ERR_CANCELLED, why, "request cancelled%s", entry->failure);
    case TT_ANSWER_DONE:
    case TT_ANSWER_FAILED: break;
    }
    return tt_fail(TT_ERR_INTERNAL, why, "no backend could compute a request to model '%s'", name);
}

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    struct frontend_node *self = context;
    struct entry *entry = user;
    struct tt_error why = {{0}};
    enum tt_err err = answer == TT_ANSWER_DONE ? read_outputs(self, entry, &why)
                                               : explain(self, entry, answer, reason, &why);
    finish(self, entry, err, why.text, tt_clock_now());
}

/* The request ends here, in the midst of its words. */
static void give_up(struct frontend_node *self, struct entry *entry) {
    bool is_cancelled = tt_frontend_cancel(&self->frontend, entry->id);
    tt_assert(is_cancelled);
}

/* The bytes of a backend are checked by their number only: any are words of some client's. */
static void on_words(void *context, void *user, uint16_t backend, int32_t count) {
    struct frontend_node *self = context;
    struct entry *entry = user;
    const struct tt_emissions *stream = inference_of(entry)->emissions;
    struct tt_engine_task *task = entry->task;
    tt_assert(stream != NULL && task->emitted != NULL);
    if (self->payload_bytes != (size_t)count * stream->row_bytes) {
        snprintf(entry->failure, sizeof(entry->failure), ": backend %s sent %d words in %zu bytes",
                 tt_fleet_node_name(self->node, backend), (int)count, self->payload_bytes);
        give_up(self, entry);
    } else if (!task->emitted(task, &task->members[entry->member], self->payload, count)) {
        snprintf(entry->failure, sizeof(entry->failure),
                 ": its client reads the stream too slowly; %lld words wait for it, the limit "
                 "(--max-stream-words)",
                 (long long)tt_emissions_capacity(stream));
        give_up(self, entry);
    }
}

/* ---- requests ---- */

static void fail_member(struct frontend_node *self, int64_t now, struct tt_engine_task *task,
                        struct tt_engine_member *member) {
    member->err = tt_fail(TT_ERR_BUSY, member->why, "this frontend has too many requests");
    self->failed++;
    if (--task->stop == 0)
        end(self, task, now);
}

static const struct entry *inputs_of(struct frontend_node *self, uint64_t id,
                                     struct tt_tensor_view *out_views, int32_t *out_count);

static void write_inputs(const struct entry *entry, const struct tt_tensor_view *views,
                         int32_t count, uint8_t *out) {
    tt_tensors_write(views, count, out);
    if (inference_of(entry)->emissions)
        tt_tensors_ask_words(out);
}

/* Puts the inputs where backends of this host read them. */
static void share_inputs(struct frontend_node *self, uint64_t id) {
    struct tt_node_memory *memory = tt_fleet_node_memory(self->node);
    if (memory->agreement.shared == 0)
        return;
    struct tt_tensor_view views[TT_MAX_TENSORS];
    int32_t count;
    const struct entry *entry = inputs_of(self, id, views, &count);
    if (!entry)
        return;
    size_t bytes = tt_tensors_bytes(views, count);
    uint8_t *room = tt_node_memory_reserve(memory, id, bytes);
    if (!room)
        return;
    write_inputs(entry, views, count, room);
    tt_node_memory_publish(memory, id, bytes);
}

/* The model's number in the cluster; -1: it has none. */
static int32_t number_of(struct frontend_node *self, const struct tt_served_model *served) {
    const struct tt_fleet_models *models = tt_fleet_node_models(self->node);
    int32_t number = tt_fleet_models_find(models, served);
    if (number < 0 && tt_model_service_adopt(&self->service, served))
        number = tt_fleet_models_find(models, served);
    return number;
}

static void submit_member(struct frontend_node *self, int64_t now, struct tt_engine_task *task,
                          int32_t index) {
    struct tt_engine_member *member = &task->members[index];
    const struct tt_inference *inference = member->user;
    member->result = NULL;
    member->next_step = -1;
    member->skips = member->first_row = 0;
    if (self->first_free == NO_ENTRY) {
        fail_member(self, now, task, member);
        return;
    }
    struct entry *entry = &self->entries[self->first_free];
    self->first_free = entry->next_free;
    *entry =
        (struct entry){.task = task, .member = index, .model = number_of(self, inference->model)};
    struct tt_frontend_submission submission = {.model = (uint16_t)entry->model,
                                                .rows = (uint16_t)member->rows,
                                                .priority = (uint16_t)inference->priority,
                                                .length = inference->length,
                                                .deadline_at = inference->deadline_at,
                                                .streams = inference->emissions != NULL,
                                                .user = entry};
    enum tt_err err = TT_ERR_NOT_FOUND;
    const char *text = "this model is not served by the cluster";
    char no_backend[sizeof(NO_BACKEND) + TT_MODEL_NOTICE_TEXT_BYTES];
    if (entry->model >= 0 && self->is_draining) {
        err = TT_ERR_UNAVAILABLE;
        text = "this frontend is draining";
    } else if (entry->model >= 0) {
        err = tt_frontend_submit(&self->frontend, now, &submission, &entry->id);
        text = err == TT_ERR_BUSY ? "this frontend has too many requests"
                                  : "no scheduler of the cluster is known";
        if (err == TT_ERR_UNAVAILABLE && self->frontend.absent[entry->model]) {
            snprintf(no_backend, sizeof(no_backend), NO_BACKEND, inference->model->name);
            text = no_backend;
        }
    }
    if (err)
        finish(self, entry, err, text, now);
    else
        share_inputs(self, entry->id);
}

/* The member's client has gone. It may have its answer already. */
static void cancel_member(struct frontend_node *self, const struct tt_engine_member *member) {
    int32_t limit = tt_fleet_node_settings(self->node)->request_limit;
    for (int32_t i = 0; i < limit; i++) {
        const struct entry *entry = &self->entries[i];
        if (entry->task && &entry->task->members[entry->member] == member) {
            bool is_cancelled = tt_frontend_cancel(&self->frontend, entry->id);
            tt_assert(is_cancelled);
            return;
        }
    }
}

/* Models of which no backend takes batches are not ready here. */
static void hold_models(struct frontend_node *self) {
    const struct tt_fleet_models *models = tt_fleet_node_models(self->node);
    for (int32_t i = 0; i < models->count; i++) {
        const struct tt_fleet_model *model = &models->models[i];
        bool is_held = self->frontend.absent[i];
        if (model->served &&
            tt_serving_hold_model(self->port, model->name, model->version, is_held))
            tt_log_limited(tt_fleet_node_options(self->node)->log, TT_LOG_INFO, NULL,
                           is_held ? "cluster: requests to model %s are refused: no backend takes "
                                     "them"
                                   : "cluster: a backend takes requests to model %s again",
                           model->name);
    }
}

/* All frontends lack the backends of a pool: each is ready for the models of the others. */
static void show_readiness(struct frontend_node *self) {
    bool is_ready = self->frontend.linked && self->backends_linked > 0 && !self->is_draining &&
                    self->frontend.models.epoch != 0 && !tt_frontend_is_starved(&self->frontend) &&
                    !tt_node_memory_lacks(tt_fleet_node_memory(self->node));
    if (is_ready == self->is_ready)
        return;
    self->is_ready = is_ready;
    const struct tt_fleet_options *options = tt_fleet_node_options(self->node);
    tt_serving_hold(options->serving, !is_ready);
    tt_log_limited(options->log, TT_LOG_INFO, NULL, "cluster: this frontend is %sready",
                   is_ready ? "" : "not ");
}

/* Takes what the server submitted since the last turn. */
static void settle(void *context, int64_t now) {
    struct frontend_node *self = context;
    struct tt_remote_engine *remote = tt_fleet_node_options(self->node)->remote;
    struct tt_engine_member *withdrawn = NULL;
    for (struct tt_engine_task *task;
         (task = tt_remote_engine_take(remote, &withdrawn)) || withdrawn;) {
        if (withdrawn) {
            cancel_member(self, withdrawn);
            continue;
        }
        int32_t count = task->member_count;
        task->stop = count;
        for (int32_t i = 0; i < count; i++) /* the last one may end the task */
            submit_member(self, now, task, i);
    }
    end_last(self);
    if (self->is_closing)
        return;
    tt_port_drain(self->port);
    tt_model_service_settle(&self->service);
    show_readiness(self);
}

/* ---- what the node reports ---- */

static void received(void *context, int64_t now, uint16_t from,
                     const struct tt_received *received) {
    struct frontend_node *self = context;
    const struct tt_frame *frame = &received->frame;
    if (frame->type == TT_FRAME_WISHED) {
        self->text = (const char *)received->payload;
        self->text_bytes = frame->records[0].length;
    }
    if (frame->type != TT_FRAME_RESULT && frame->type != TT_FRAME_WORDS) {
        tt_frontend_receive(&self->frontend, now, from, frame);
        if (frame->type == TT_FRAME_SERVE)
            hold_models(self);
        show_readiness(self);
        return;
    }
    const uint8_t *at = received->payload;
    struct tt_node_memory *memory = tt_fleet_node_memory(self->node);
    for (int32_t i = 0; i < frame->count; i++) { /* each with its payload */
        const struct tt_frame_record *record = &frame->records[i];
        struct tt_frame one = *frame;
        one.count = 1;
        one.records = record;
        bool is_shared = frame->type == TT_FRAME_RESULT && record->duration_ns > 0;
        self->payload = is_shared ? tt_node_memory_result(memory, from, record) : at;
        self->payload_bytes = self->payload ? record->length : 0;
        at += tt_frame_record_payload(frame->type, record);
        tt_frontend_receive(&self->frontend, now, from, &one);
        if (is_shared)
            tt_node_memory_taken(memory, from);
    }
    self->payload = NULL;
    self->payload_bytes = 0;
}

static void linked(void *context, int64_t now, uint16_t peer, enum tt_link link) {
    struct frontend_node *self = context;
    if (tt_fleet_node_settings(self->node)->nodes[peer].role == TT_ROLE_BACKEND)
        self->backends_linked += link == TT_LINK_UP ? 1 : -1;
    tt_frontend_link(&self->frontend, now, peer, link);
    show_readiness(self);
}

static void tick(void *context, int64_t now) {
    struct frontend_node *self = context;
    tt_frontend_tick(&self->frontend, now);
}

static int64_t next_at(const void *context) {
    const struct frontend_node *self = context;
    return tt_frontend_next_at(&self->frontend);
}

static struct tt_outbox *outbox(void *context) {
    struct frontend_node *self = context;
    return &self->frontend.outbox;
}

/* ---- models ---- */

static void on_wished(void *context, uint64_t number, uint16_t failure) {
    struct frontend_node *self = context;
    tt_model_service_wished(&self->service, number, failure, self->text, self->text_bytes);
}

static const char *text(void *context, enum tt_frame_type type,
                        const struct tt_frame_record *record) {
    const struct frontend_node *self = context;
    if (type == TT_FRAME_WISH)
        return record->model == TT_CLUSTER_NO_MODEL
                   ? tt_model_service_name(&self->service, record->id)
                   : "";
    return record->code ? tt_model_service_reason(&self->service, record->model) : "";
}

static void model_came(void *context, int64_t now, uint16_t peer, bool serves) {
    (void)now;
    (void)peer;
    (void)serves;
    struct frontend_node *self = context;
    tt_model_duty_add(&self->frontend.models);
}

static void on_changed(void *context, int32_t group) {
    struct frontend_node *self = context;
    hold_models(self);
    tt_fleet_node_model_changed(self->node, group);
}

/* ---- inputs ---- */

/* The inputs in the order of their names. NULL: the request was answered meanwhile. */
static const struct entry *inputs_of(struct frontend_node *self, uint64_t id,
                                     struct tt_tensor_view *out_views, int32_t *out_count) {
    const struct tt_frontend_request *request = tt_frontend_find(&self->frontend, id);
    if (!request)
        return NULL;
    const struct entry *entry = request->user;
    const struct tt_fleet_model *model = &tt_fleet_node_models(self->node)->models[entry->model];
    const struct tt_engine_member *member = &entry->task->members[entry->member];
    *out_count = model->served->signature->input_count;
    for (int32_t i = 0; i < *out_count; i++)
        out_views[i] = member->inputs[model->inputs[i]];
    return entry;
}

static size_t payload_bytes(void *context, enum tt_frame_type type,
                            struct tt_frame_record *record) {
    (void)type;
    struct frontend_node *self = context;
    struct tt_tensor_view views[TT_MAX_TENSORS];
    int32_t count;
    if (record->code == 1 && !inputs_of(self, record->id, views, &count))
        record->code = 0;
    return record->code == 1 ? tt_tensors_bytes(views, count) : 0;
}

static void payload_write(void *context, enum tt_frame_type type,
                          const struct tt_frame_record *record, uint8_t *out) {
    (void)type;
    struct frontend_node *self = context;
    struct tt_tensor_view views[TT_MAX_TENSORS];
    int32_t count;
    const struct entry *entry =
        out && record->code == 1 ? inputs_of(self, record->id, views, &count) : NULL;
    if (entry)
        write_inputs(entry, views, count, out);
}

/* ---- life ---- */

/* Clients wait for answers, so what is left gets one. */
static void close_role(void *take_self) {
    struct frontend_node *self = take_self;
    int64_t now = tt_clock_now();
    int32_t limit = tt_fleet_node_settings(self->node)->request_limit;
    self->is_draining = self->is_closing = true;
    tt_command_inbox_close(tt_fleet_node_options(self->node)->commands);
    settle(self, now);
    for (int32_t i = 0; i < limit; i++)
        if (self->entries[i].task)
            finish(self, &self->entries[i], TT_ERR_UNAVAILABLE, "this frontend has stopped", now);
    end_last(self);
    tt_port_close(self->port); /* waits for a load that is under way */
    tt_model_service_fini(&self->service);
    tt_frontend_fini(&self->frontend);
    free(self->entries);
    free(self);
}

static enum tt_err open_role(struct tt_fleet_node *node, void **out_self, struct tt_error *why) {
    const struct tt_cluster_settings *settings = tt_fleet_node_settings(node);
    struct frontend_node *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->node = node;
    tt_assert(settings->request_limit > 0);
    self->entries = calloc((size_t)settings->request_limit, sizeof(*self->entries));
    /* Lives of one node differ in their tenths of a second, for nearly two hours. */
    uint16_t life = (uint16_t)(tt_fleet_node_incarnation(node) / 100);
    enum tt_err err = tt_frontend_init(&self->frontend, settings, tt_fleet_node_number(node), life,
                                       tt_clock_now());
    if (err || !self->entries) {
        if (!err)
            tt_frontend_fini(&self->frontend);
        free(self->entries);
        free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a frontend");
    }
    for (int32_t i = 0; i < settings->request_limit; i++)
        self->entries[i].next_free = i + 1 < settings->request_limit ? i + 1 : NO_ENTRY;
    self->frontend.context = self;
    self->frontend.answered = on_answered;
    self->frontend.words = on_words;
    self->frontend.wished = on_wished;
    const struct tt_fleet_options *options = tt_fleet_node_options(node);
    err = tt_serving_open_port(options->serving, tt_fleet_node_wake, node, &self->port, why);
    if (!err &&
        tt_model_service_init(&self->service, tt_fleet_node_models(node), &self->frontend.models,
                              self->port, options->commands, &self->frontend))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a frontend");
    if (err) {
        close_role(self);
        return err;
    }
    self->service.changed = on_changed;
    self->service.context = self;
    tt_command_inbox_attach(options->commands, tt_fleet_node_wake, node);
    tt_serving_hold(tt_fleet_node_options(node)->serving, true);
    tt_remote_engine_attach(tt_fleet_node_options(node)->remote, tt_fleet_node_wake, node);
    *out_self = self;
    return TT_OK;
}

static struct tt_model_service *service(void *context) {
    return &((struct frontend_node *)context)->service;
}

static uint64_t epoch(const void *context) {
    return ((const struct frontend_node *)context)->frontend.primary.epoch;
}

static const char *state(const void *context) {
    const struct frontend_node *self = context;
    return self->is_draining ? "DRAINING" : self->is_ready ? "READY" : "WAITING";
}

static enum tt_err drain(void *context, int64_t now, struct tt_error *why) {
    (void)now;
    (void)why;
    struct frontend_node *self = context;
    self->is_draining = true;
    show_readiness(self);
    return TT_OK;
}

static enum tt_err promote(void *context, int64_t now, struct tt_error *why) {
    (void)context;
    (void)now;
    return tt_fail(TT_ERR_UNSUPPORTED, why, "a frontend cannot become the primary scheduler");
}

static void count(void *context, struct tt_text *out) {
    const struct frontend_node *self = context;
    tt_text_printf(out,
                   ", \"accepted\": %" PRId64 ", \"answered\": %" PRId64 ", \"failed\": %" PRId64
                   ", \"cancelled\": %" PRId64 ", \"under_way\": %d",
                   self->frontend.accepted, self->done, self->failed, self->cancelled,
                   self->frontend.live);
}

const struct tt_fleet_role tt_frontend_node_role = {.open = open_role,
                                                    .close = close_role,
                                                    .received = received,
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
