#include "net/http/body_work.h"

#include "base/clock.h"
#include "net/access/unpacked_bytes.h"
#include "net/kserve/kserve_bodies.h"
#include "net/sockets/pool_work.h"
#include "serve/port.h"

#include <stdlib.h>

struct tt_body_work {
    struct tt_pool_work work;
    struct tt_exchange *exchange;
    struct tt_http_message *message; /* as received; NULL: freed */
    struct tt_http_request request;  /* points into it, or into `unpacked` */
    struct tt_text unpacked;
    size_t unpacked_limit;
    struct tt_unpacked_bytes bytes;
    enum tt_route_kind kind;
    struct tt_served_model *model;    /* whose signature is read; a reference */
    struct tt_model_command *command; /* of a load */
    enum tt_err err;                  /* of the last step */
    int status;                       /* of a body over a limit, with err; 0: err's own */
    struct tt_error why;
};

/* --- a body, on whatever thread --- */

static bool is_packed(const struct tt_http_message *message) {
    return message->coding != TT_CODING_IDENTITY;
}

static enum tt_err unpack(const struct tt_http_message *message, size_t limit_bytes,
                          struct tt_text *out_text, struct tt_error *why) {
    const char *bytes = message->body.bytes ? message->body.bytes : "";
    return tt_coding_unpack(message->coding, bytes, message->body.length, limit_bytes, out_text,
                            why);
}

static void refuse(struct tt_exchange *exchange, enum tt_err err, int status,
                   const struct tt_error *why) {
    if (status)
        tt_reply_fail(&exchange->reply, status, why->text);
    else
        tt_exchange_fail(exchange, err, why->text);
    if (status == 429)
        exchange->reply.retry_after_s = 1;
}

static struct tt_http_request request_of(const struct tt_body_work_context *context,
                                         const struct tt_http_message *message) {
    return (struct tt_http_request){.method = message->method,
                                    .target = message->target,
                                    .body = message->body.bytes ? message->body.bytes : "",
                                    .body_bytes = message->body.length,
                                    .json_bytes = message->json_bytes,
                                    .only_metrics = context->only_metrics,
                                    .host = message->host,
                                    .origin = message->origin,
                                    .has_origin = message->origin_count > 0,
                                    .is_cross_site = message->is_cross_site,
                                    .token = message->token};
}

static size_t unpacked_limit(const struct tt_body_work_context *context,
                             const struct tt_exchange *exchange,
                             const struct tt_http_message *message) {
    return (size_t)tt_route_body_limit(message->target, exchange->context->management_bytes,
                                       context->limits->unpacked_bytes);
}

enum unpacked { UNPACKED, UNPACKED_LARGE, UNPACKED_REFUSED };

/* Unpacks the body in its place. LARGE: it is too long for that, and as it was. REFUSED: the reply
 * says why. */
static enum unpacked unpack_here(const struct tt_body_work_context *context,
                                 struct tt_exchange *exchange, struct tt_http_message *message) {
    struct tt_text unpacked;
    struct tt_error why;
    size_t limit = unpacked_limit(context, exchange, message);
    size_t here = tt_route_bytes_at_once(message->target);
    tt_text_init(&unpacked);
    enum tt_err err = unpack(message, here < limit ? here : limit, &unpacked, &why);
    if (err == TT_ERR_BUSY && here < limit) {
        tt_text_fini(&unpacked);
        return UNPACKED_LARGE;
    }
    tt_text_fini(&message->body);
    message->body = unpacked;
    if (err)
        refuse(exchange, err, err == TT_ERR_BUSY ? 413 : 0, &why);
    return err ? UNPACKED_REFUSED : UNPACKED;
}

/* --- in the pool --- */

static enum tt_err unpack_there(struct tt_body_work *self) {
    bool is_holder;
    enum tt_err err = unpack(self->message, self->unpacked_limit, &self->unpacked, &self->why);
    self->status = err == TT_ERR_BUSY ? 413 : 0;
    if (err)
        return err;
    self->request.body = self->unpacked.length ? self->unpacked.bytes : "";
    self->request.body_bytes = self->unpacked.length;
    err = tt_unpacked_bytes_take(&self->bytes, self->unpacked.length, &is_holder, &self->why);
    if (err && is_holder)
        self->status = 429;
    return err;
}

/* Nothing points into the body any more. Giving its memory back takes the system milliseconds. */
static void free_body(struct tt_body_work *self) {
    tt_text_fini(&self->unpacked);
    tt_text_fini(&self->message->body);
}

static enum tt_err read_there(struct tt_body_work *self) {
    struct tt_quota *quota = self->bytes.quota;
    if (self->command) {
        enum tt_err err = tt_kserve_read_load(self->request.body, self->request.body_bytes,
                                              self->command, &self->why);
        return err || !quota ? err : tt_model_command_charge(self->command, quota, &self->why);
    }
    return tt_exchange_read_inputs(self->exchange, tt_served_model_signature(self->model),
                                   &self->request, &self->why);
}

static void read_body(struct tt_pool_work *work) {
    struct tt_body_work *self = work->data;
    self->err = is_packed(self->message) ? unpack_there(self) : TT_OK;
    if (!self->err)
        self->err = read_there(self);
    if (self->err) { /* a part of the command may have been read, and be as large */
        tt_model_command_free(self->command);
        self->command = NULL;
        free_body(self);
    } else if (self->command) {
        free_body(self);
    }
}

static void write_inputs(struct tt_pool_work *work) {
    struct tt_body_work *self = work->data;
    self->err = tt_kserve_fill(&self->exchange->request, self->exchange->inference, &self->why);
    free_body(self);
}

static void drop_body(struct tt_pool_work *work) { free_body(work->data); }

/* --- on the loop --- */

static void work_free(struct tt_body_work *self) {
    tt_unpacked_bytes_give(&self->bytes);
    tt_text_fini(&self->unpacked);
    tt_http_message_free(self->message);
    tt_served_model_unref(self->model);
    tt_model_command_free(self->command);
    free(self);
}

/* The body was read, or its request has failed. */
static void end_work(struct tt_body_work *self) {
    self->exchange->work = NULL;
    work_free(self);
}

/* The request ends with the error, or because its client has gone. */
static void end_request(struct tt_body_work *self) {
    struct tt_exchange *exchange = self->exchange;
    exchange->is_running = false;
    if (!exchange->is_abandoned)
        refuse(exchange, self->err, self->status, &self->why);
    end_work(self);
    exchange->done(exchange);
}

static void on_dropped(struct tt_pool_work *work) { end_request(work->data); }

static void on_written(struct tt_pool_work *work) {
    struct tt_body_work *self = work->data;
    struct tt_exchange *exchange = self->exchange;
    if (self->err || exchange->is_abandoned) {
        end_request(self);
        return;
    }
    end_work(self);
    exchange->is_running = false;
    if (tt_exchange_submit(exchange))
        exchange->done(exchange);
}

static enum tt_err reserve(struct tt_body_work *self) {
    struct tt_exchange *exchange = self->exchange;
    struct tt_port *port = exchange->context->service.port;
    const struct tt_kserve_target *target = &exchange->request.target;
    enum tt_err err =
        tt_serving_find(port, target->model, target->version, &exchange->model, &self->why);
    if (err)
        exchange->model = NULL;
    return err ? err
               : tt_kserve_reserve(&exchange->request, port, exchange->model, &exchange->inference,
                                   &self->why);
}

static void on_body_read(struct tt_pool_work *work) {
    struct tt_body_work *self = work->data;
    struct tt_exchange *exchange = self->exchange;
    if (!self->err && self->command) { /* it is carried out even if its client has gone */
        struct tt_model_command *command = self->command;
        self->command = NULL;
        end_work(self);
        tt_exchange_command(exchange, command);
        return;
    }
    if (!self->err && !exchange->is_abandoned)
        self->err = reserve(self);
    if (!self->err && !exchange->is_abandoned)
        tt_pool_work_queue(work->loop, work, write_inputs, on_written);
    else if (self->unpacked.bytes || self->message->body.bytes)
        tt_pool_work_queue(work->loop, work, drop_body, on_dropped);
    else
        end_request(self);
}

/* Whether there is work for the pool. If not, the reply is ready, or the command is submitted. */
static bool needs_pool(struct tt_body_work *self) {
    struct tt_exchange *exchange = self->exchange;
    struct tt_port *port = exchange->context->service.port;
    const struct tt_kserve_target *target = &exchange->request.target;
    self->kind = tt_exchange_route(exchange, &self->request, &self->command);
    if (self->kind == TT_ROUTE_REPLY)
        return false;
    if (self->kind == TT_ROUTE_COMMAND)
        return true;
    tt_assert(self->kind < TT_ROUTE_COMMAND); /* other paths have small bodies */
    self->err = tt_serving_find(port, target->model, target->version, &exchange->model, &self->why);
    if (self->err) {
        exchange->model = NULL;
        tt_exchange_fail(exchange, self->err, self->why.text);
        return false;
    }
    self->model = tt_served_model_ref(exchange->model);
    return true;
}

static bool start_large(const struct tt_body_work_context *context,
                        struct tt_http_message *take_message, struct tt_exchange *exchange) {
    struct tt_body_work *self = calloc(1, sizeof(*self));
    if (!self) {
        tt_http_message_free(take_message);
        tt_exchange_fail(exchange, TT_ERR_NO_MEMORY, "no memory for the request");
        return true;
    }
    self->work.data = self;
    self->exchange = exchange;
    self->message = take_message;
    self->request = request_of(context, self->message);
    self->request.reads_later = true;
    self->unpacked_limit = unpacked_limit(context, exchange, self->message);
    tt_text_init(&self->unpacked);
    const struct tt_body_budget *budget = self->message->limits->budget;
    tt_unpacked_bytes_init(&self->bytes, budget ? budget->share.quota : NULL,
                           self->message->part.holder);
    if (!needs_pool(self)) {
        work_free(self);
        return true;
    }
    /* The time that it takes to read the body counts. */
    exchange->request.options.since_at =
        tt_port_since(exchange->context->service.port, tt_clock_now());
    exchange->work = self;
    exchange->is_running = true;
    tt_pool_work_queue(context->loop, &self->work, read_body, on_body_read);
    return false;
}

/* The body's bytes, in bytes of JSON that take as long to read. */
static size_t weight_of(const struct tt_http_message *message) {
    size_t length = message->body.length, json = length;
    if (message->json_bytes >= 0 && (size_t)message->json_bytes < length)
        json = (size_t)message->json_bytes;
    return json + (length - json) / 8;
}

bool tt_body_work_start(const struct tt_body_work_context *context,
                        struct tt_http_message **io_message, struct tt_exchange *exchange) {
    struct tt_http_message *message = *io_message;
    if (message->coding == TT_CODING_UNKNOWN) {
        tt_reply_fail(&exchange->reply, 415,
                      "Content-Encoding: only gzip or deflate, one alone, is understood");
        return true;
    }
    size_t at_once = tt_route_bytes_at_once(message->target);
    bool is_large = is_packed(message)
                        ? at_once < SIZE_MAX && message->body.length > TT_BODY_WORK_PACKED
                        : weight_of(message) > at_once;
    if (!is_large && is_packed(message)) {
        enum unpacked unpacked = unpack_here(context, exchange, message);
        if (unpacked == UNPACKED_REFUSED)
            return true;
        is_large = unpacked == UNPACKED_LARGE;
    }
    if (is_large) {
        *io_message = NULL;
        return start_large(context, message, exchange);
    }
    struct tt_http_request request = request_of(context, message);
    bool is_ready = tt_exchange_start(exchange, &request);
    if (exchange->is_asking) {
        exchange->message = message;
        *io_message = NULL;
    }
    return is_ready;
}
