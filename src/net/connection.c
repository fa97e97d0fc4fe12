#include "net/connection.h"

#include "base/log.h"
#include "net/http/content_coding.h"
#include "net/kserve/kserve.h"
#include "net/kserve/kserve_routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACK_LEAST_BYTES = 256 }; /* below that nothing is won by packing */

/* One request from its last byte to the last byte of its answer. It outlives its connection while
 * its inference runs. */
struct tt_exchange {
    struct tt_listener *listener;
    struct tt_connection *connection; /* NULL: the client has gone */
    struct tt_served_model *model;
    struct tt_inference *infer; /* NULL: answered without one */
    bool keep_alive, is_head;
    bool is_running; /* somebody else has it: its inference, or its model command */
    struct tt_kserve_request request;
    struct tt_kserve_answer answer;
    struct tt_reply reply;
    struct tt_text head;
    enum tt_coding coding; /* that the client likes */
    struct tt_text packed; /* the answer's body, where it is packed */
    uv_write_t write;
    uv_buf_t buffers[TT_MAX_TENSORS + 2];
    unsigned buffer_count;
};

static void process(struct tt_connection *self);
static void set_reading(struct tt_connection *self, bool reading);

static void wait_for(struct tt_connection *self, enum tt_wait wait) {
    if (self->wait == wait && tt_list_linked(&self->node))
        return;
    if (tt_list_linked(&self->node))
        tt_list_remove(&self->node);
    self->wait = wait;
    self->since_ms = uv_now(&self->listener->loop);
    tt_list_push_back(&self->listener->waits[wait], &self->node);
}

/* --- an exchange --- */

static struct tt_exchange *exchange_new(struct tt_connection *connection) {
    struct tt_exchange *exchange = malloc(sizeof(*exchange));
    if (!exchange)
        return NULL;
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    exchange->listener = connection->listener;
    exchange->connection = connection;
    exchange->model = NULL;
    exchange->infer = NULL;
    exchange->keep_alive = exchange->is_head = exchange->is_running = false;
    exchange->buffer_count = 0;
    exchange->reply = (struct tt_reply){0};
    exchange->write.data = exchange;
    exchange->coding = TT_CODING_IDENTITY;
    tt_text_init(&exchange->head);
    tt_text_init(&exchange->packed);
    tt_kserve_request_init(&exchange->request);
    exchange->request.json_depth = (int32_t)exchange->listener->options.limits.json_depth;
    tt_kserve_answer_init(&exchange->answer);
    connection->exchange = exchange;
    exchange->listener->exchange_count++;
    exchange->listener->counts.requests++;
    exchange->listener->counts.in_flight++;
    return exchange;
}

static void exchange_free(struct tt_exchange *exchange, bool answered) {
    struct tt_listener *listener = exchange->listener;
    if (exchange->infer)
        tt_inference_release(exchange->infer);
    tt_kserve_request_fini(&exchange->request);
    tt_kserve_answer_fini(&exchange->answer);
    tt_text_fini(&exchange->reply.body);
    tt_text_fini(&exchange->head);
    tt_text_fini(&exchange->packed);
    free(exchange);
    listener->exchange_count--;
    listener->counts.in_flight--;
    *(answered ? &listener->counts.answered : &listener->counts.gone) += 1;
    tt_listener_check_stopped(listener);
}

/* --- closing --- */

static void on_closed(uv_handle_t *handle) {
    struct tt_connection *self = handle->data;
    struct tt_listener *listener = self->listener;
    tt_assert(self->exchange == NULL);
    tt_list_remove(&self->node);
    tt_http1_fini(&self->http);
    tt_text_fini(&self->ahead);
    free(self);
    listener->counts.connections--;
    tt_listener_check_stopped(listener);
}

void tt_connection_close(struct tt_connection *self) {
    if (self->wait == TT_WAIT_CLOSED)
        return;
    wait_for(self, TT_WAIT_CLOSED);
    struct tt_exchange *exchange = self->exchange;
    if (exchange &&
        exchange->is_running) { /* else its write ends with an error, before on_closed */
        exchange->connection = NULL;
        self->exchange = NULL;
        if (exchange->infer) /* a model command is carried out all the same */
            tt_inference_cancel(exchange->infer);
    }
    uv_close((uv_handle_t *)&self->tcp, on_closed);
}

static void on_shutdown(uv_shutdown_t *request, int status) {
    (void)request;
    (void)status;
}

/* Sends the end, then reads on and forgets until the client closes too: closing with bytes unread
 * would make the kernel reset the connection, and the client might lose the answer. */
static void linger(struct tt_connection *self) {
    wait_for(self, TT_WAIT_LINGER);
    set_reading(self, true);
    if (self->wait == TT_WAIT_CLOSED)
        return;
    if (uv_shutdown(&self->shutdown, (uv_stream_t *)&self->tcp, on_shutdown) < 0)
        tt_connection_close(self);
}

/* --- answering --- */

static void finish_answer(struct tt_exchange *exchange, bool answered) {
    struct tt_connection *self = exchange->connection;
    bool keep_alive = exchange->keep_alive;
    self->exchange = NULL;
    exchange_free(exchange, answered);
    if (self->wait == TT_WAIT_CLOSED)
        return;
    if (!answered)
        tt_connection_close(self);
    else if (!keep_alive || self->listener->stopping)
        linger(self);
    else
        wait_for(self, TT_WAIT_IDLE);
}

static void on_written(uv_write_t *write, int status) {
    struct tt_exchange *exchange = write->data;
    struct tt_connection *self = exchange->connection;
    finish_answer(exchange, status == 0);
    if (self->wait == TT_WAIT_IDLE)
        process(self);
}

static void add_buffer(struct tt_exchange *exchange, const void *bytes, size_t count) {
    if (count)
        exchange->buffers[exchange->buffer_count++] =
            (uv_buf_t){.base = (char *)(uintptr_t)bytes, .len = count};
}

/* Writes what the socket takes at once, and leaves the rest to the loop. */
static void send_buffers(struct tt_exchange *exchange) {
    struct tt_connection *self = exchange->connection;
    uv_stream_t *stream = (uv_stream_t *)&self->tcp;
    uv_buf_t *buffers = exchange->buffers;
    unsigned count = exchange->buffer_count;
    wait_for(self, TT_WAIT_WRITE);
    int sent = uv_try_write(stream, buffers, count);
    size_t left = sent > 0 ? (size_t)sent : 0;
    while (count && left >= buffers->len) {
        left -= buffers->len;
        buffers++;
        count--;
    }
    if (count == 0) {
        finish_answer(exchange, true);
        return;
    }
    buffers->base += left;
    buffers->len -= left;
    if ((sent < 0 && sent != UV_EAGAIN) ||
        uv_write(&exchange->write, stream, buffers, count, on_written) < 0)
        finish_answer(exchange, false);
}

/* Packs the body's pieces where the client likes that, and sends the whole. `answer` says all but
 * what becomes of the length. */
static void send_pieces(struct tt_exchange *exchange, struct tt_http1_answer *answer,
                        const struct tt_coding_piece *pieces, int piece_count) {
    answer->keep_alive = exchange->keep_alive &= !exchange->listener->stopping;
    struct tt_coding_piece packed;
    if (exchange->coding != TT_CODING_IDENTITY && answer->content_bytes >= PACK_LEAST_BYTES) {
        tt_coding_pack(exchange->coding, pieces, piece_count, &exchange->packed);
        packed = (struct tt_coding_piece){exchange->packed.bytes, exchange->packed.length};
        if (!exchange->packed.failed) { /* else it goes as it is */
            answer->coding = exchange->coding;
            answer->content_bytes = packed.count;
            pieces = &packed;
            piece_count = 1;
        }
    }
    tt_http1_write_head(answer, &exchange->head);
    if (exchange->head.failed) {
        finish_answer(exchange, false);
        return;
    }
    add_buffer(exchange, exchange->head.bytes, exchange->head.length);
    for (int i = 0; i < piece_count && !exchange->is_head; i++)
        add_buffer(exchange, pieces[i].bytes, pieces[i].count);
    send_buffers(exchange);
}

static void send_reply(struct tt_exchange *exchange) {
    struct tt_reply *reply = &exchange->reply;
    if (reply->body.failed) {
        tt_text_fini(&reply->body);
        reply->content_type = NULL;
        reply->status = 503;
    }
    struct tt_http1_answer answer = {.status = reply->status,
                                     .content_type = reply->content_type,
                                     .content_bytes = reply->body.length,
                                     .json_bytes = -1,
                                     .allow = reply->allow,
                                     .retry_after_s = reply->retry_after_s};
    struct tt_coding_piece body = {reply->body.bytes, reply->body.length};
    send_pieces(exchange, &answer, &body, 1);
}

static void send_outputs(struct tt_exchange *exchange) {
    struct tt_kserve_answer *outputs = &exchange->answer;
    struct tt_http1_answer answer = {
        .status = 200,
        .content_type = outputs->has_binary ? "application/octet-stream" : "application/json",
        .content_bytes = outputs->json.length + outputs->binary_bytes,
        .json_bytes = outputs->has_binary ? (int64_t)outputs->json.length : -1};
    struct tt_coding_piece pieces[TT_MAX_TENSORS + 1];
    pieces[0] = (struct tt_coding_piece){outputs->json.bytes, outputs->json.length};
    for (int32_t i = 0; i < outputs->part_count; i++)
        pieces[i + 1] =
            (struct tt_coding_piece){outputs->parts[i].bytes, outputs->parts[i].size_bytes};
    send_pieces(exchange, &answer, pieces, outputs->part_count + 1);
}

/* What failed for a reason of ours is told; every request only to those who ask. */
static void log_end(const struct tt_exchange *exchange, enum tt_err err, const char *why) {
    struct tt_log *log = exchange->listener->options.log;
    bool ours = err == TT_ERR_INTERNAL || err == TT_ERR_NO_MEMORY || err == TT_ERR_IO;
    if (!ours && !tt_log_wants_verbose(log, 1))
        return;
    const char *model = tt_served_model_name(exchange->model);
    /* The id as it stood in the JSON: without its quotes. */
    const struct tt_text *text = &exchange->request.id;
    char id[128] = "";
    if (text->length > 2)
        snprintf(id, sizeof(id), "%.*s", (int)(text->length - 2), text->bytes + 1);
    if (ours)
        tt_log_limited(log, TT_LOG_ERROR, id, "model %s: %s", model, why);
    else
        tt_log_verbose(log, 1, id, "model %s: %s", model, err ? why : "answered");
}

static void send_failure(struct tt_exchange *exchange, enum tt_err err, const char *why) {
    tt_reply_error(&exchange->reply, err, why);
    if (exchange->reply.retry_after_s && exchange->model)
        exchange->reply.retry_after_s = tt_served_model_retry_after_s(exchange->model);
    send_reply(exchange);
}

static void on_inferred(void *context, struct tt_inference *infer, enum tt_err err,
                        const char *why) {
    struct tt_exchange *exchange = context;
    struct tt_connection *self = exchange->connection;
    exchange->is_running = false;
    if (!self) {
        exchange_free(exchange, false);
        return;
    }
    struct tt_error message;
    if (!err) {
        err = tt_kserve_write(&exchange->answer, &exchange->request, exchange->model, infer,
                              &message);
        why = message.text;
    }
    log_end(exchange, err, why);
    if (err)
        send_failure(exchange, err, why);
    else
        send_outputs(exchange);
    if (self->wait == TT_WAIT_IDLE)
        process(self);
}

/* --- requests --- */

static void start_infer(struct tt_exchange *exchange, const struct tt_inference_target *target,
                        const struct tt_http1_request *request) {
    struct tt_listener *listener = exchange->listener;
    struct tt_error why;
    enum tt_err err = TT_OK;
    err = tt_serving_find(listener->port, target->model, target->version, &exchange->model, &why);
    if (!err)
        err = tt_kserve_begin(&exchange->request, listener->port, exchange->model,
                              request->body.bytes ? request->body.bytes : "", request->body.length,
                              request->json_bytes, &exchange->infer, &why);
    if (err) {
        send_failure(exchange, err, why.text);
        return;
    }
    exchange->is_running = true;
    wait_for(exchange->connection, TT_WAIT_FLIGHT);
    tt_inference_submit(exchange->infer, &exchange->request.options, on_inferred, exchange);
}

static void on_commanded(void *context, struct tt_model_command *command) {
    struct tt_exchange *exchange = context;
    struct tt_connection *self = exchange->connection;
    exchange->is_running = false;
    if (!self) {
        tt_model_command_free(command);
        exchange_free(exchange, false);
        return;
    }
    if (command->err)
        tt_reply_error(&exchange->reply, command->err, command->why.text);
    else
        exchange->reply.status = 200;
    tt_model_command_free(command);
    send_reply(exchange);
    if (self->wait == TT_WAIT_IDLE)
        process(self);
}

static void start_command(struct tt_exchange *exchange, struct tt_model_command *command) {
    exchange->is_running = true;
    wait_for(exchange->connection, TT_WAIT_FLIGHT);
    tt_model_command_submit(exchange->listener->port, command, on_commanded, exchange);
}

/* Unpacks the body in its place; false: the reply says why not. */
static bool unpack_body(struct tt_exchange *exchange, struct tt_http1_request *request) {
    if (request->coding == TT_CODING_IDENTITY)
        return true;
    if (request->coding == TT_CODING_UNKNOWN) {
        tt_reply_fail(&exchange->reply, 415,
                      "Content-Encoding: only gzip or deflate, one alone, is understood");
        return false;
    }
    struct tt_text unpacked;
    struct tt_error why;
    tt_text_init(&unpacked);
    enum tt_err err = tt_coding_unpack(
        request->coding, request->body.bytes ? request->body.bytes : "", request->body.length,
        (size_t)exchange->listener->options.limits.unpacked_bytes, &unpacked, &why);
    tt_text_fini(&request->body);
    request->body = unpacked;
    if (err == TT_ERR_BUSY)
        tt_reply_fail(&exchange->reply, 413, why.text);
    else if (err)
        tt_reply_error(&exchange->reply, err, why.text);
    return !err;
}

static void answer_request(struct tt_exchange *exchange, const struct tt_http1_request *request) {
    struct tt_listener *listener = exchange->listener;
    struct tt_route_world world = {.serving = listener->serving,
                                   .port = listener->port,
                                   .server_version = listener->options.server_version,
                                   .trace = listener->options.trace,
                                   .log = listener->options.log ? &listener->options.log->settings
                                                                : NULL,
                                   .counts = &listener->counts};
    struct tt_route_request route = {.method = request->method,
                                     .target = request->target,
                                     .body = request->body.bytes ? request->body.bytes : "",
                                     .body_bytes = request->body.length};
    struct tt_inference_target target;
    struct tt_model_command *command;
    enum tt_route_kind kind = TT_ROUTE_REPLY;
    if (exchange->connection->of_metrics)
        tt_route_metrics(&world, &route, &exchange->reply);
    else
        kind = tt_route(&world, &route, &target, &command, &exchange->reply);
    switch (kind) {
    case TT_ROUTE_INFER: start_infer(exchange, &target, request); break;
    case TT_ROUTE_COMMAND: start_command(exchange, command); break;
    case TT_ROUTE_REPLY: send_reply(exchange); break;
    }
}

/* A complete request. Its memory is given back before its answer is due. */
static void take_request(struct tt_connection *self) {
    struct tt_http1_request *request = self->http.request;
    struct tt_exchange *exchange = exchange_new(self);
    if (!exchange) {
        tt_connection_close(self);
        return;
    }
    exchange->keep_alive = request->keep_alive;
    exchange->is_head = strcmp(request->method, "HEAD") == 0;
    exchange->coding = request->accepts;
    if (unpack_body(exchange, request))
        answer_request(exchange, request);
    else
        send_reply(exchange);
    tt_http1_reset(&self->http);
}

/* The last answer of a connection whose bytes make no sense (any more). */
static void refuse(struct tt_connection *self, int status, const char *sentence) {
    struct tt_exchange *exchange = exchange_new(self);
    if (!exchange) {
        tt_connection_close(self);
        return;
    }
    tt_reply_fail(&exchange->reply, status, sentence);
    if (status == 503)
        exchange->reply.retry_after_s = 1;
    tt_http1_fini(&self->http); /* what there is of the request: the client may linger long */
    send_reply(exchange);
}

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void on_continue_written(uv_write_t *write, int status) {
    (void)status; /* a broken connection shows itself when it is read */
    free(write);
}

static void send_continue(struct tt_connection *self) {
    uv_buf_t buffer = {.base = (char *)(uintptr_t)continue_line, .len = sizeof(continue_line) - 1};
    uv_stream_t *stream = (uv_stream_t *)&self->tcp;
    int sent = uv_try_write(stream, &buffer, 1);
    if (sent == (int)buffer.len)
        return;
    if (sent > 0) {
        buffer.base += sent;
        buffer.len -= (size_t)sent;
    }
    uv_write_t *write = malloc(sizeof(*write));
    if (!write || uv_write(write, stream, &buffer, 1, on_continue_written) < 0) {
        free(write);
        tt_connection_close(self);
    }
}

/* Parses until a request is in flight or the bytes are used up; returns how many were used. */
static size_t consume(struct tt_connection *self, const char *bytes, size_t count) {
    size_t at = 0;
    while (!self->exchange && self->wait < TT_WAIT_FLIGHT) {
        size_t used;
        const char *sentence;
        int status;
        switch (tt_http1_feed(&self->http, bytes + at, count - at, &used)) {
        case TT_HTTP1_MORE:
            if (tt_http1_started(&self->http) && self->wait == TT_WAIT_IDLE)
                wait_for(self, TT_WAIT_HEAD);
            return count;
        case TT_HTTP1_HEAD:
            at += used;
            wait_for(self, TT_WAIT_BODY);
            if (self->http.request->expects_continue && at == count)
                send_continue(self);
            break;
        case TT_HTTP1_MESSAGE:
            at += used;
            take_request(self);
            break;
        case TT_HTTP1_BAD:
            status = tt_http1_problem(&self->http, &sentence);
            refuse(self, status, sentence);
            return count; /* what follows can be anything */
        }
    }
    return self->wait >= TT_WAIT_LINGER ? count : at;
}

/* Goes on with what the client sent ahead. */
static void process(struct tt_connection *self) {
    struct tt_text *ahead = &self->ahead;
    if (ahead->length)
        self->ahead_used +=
            consume(self, ahead->bytes + self->ahead_used, ahead->length - self->ahead_used);
    if (self->wait == TT_WAIT_CLOSED)
        return;
    if (self->ahead_used == ahead->length) { /* an idle connection keeps no memory */
        tt_text_fini(ahead);
        self->ahead_used = 0;
    }
    if (ahead->length - self->ahead_used <= (size_t)self->listener->options.limits.pipeline_bytes)
        set_reading(self, true);
}

static void keep_ahead(struct tt_connection *self, const char *bytes, size_t count) {
    tt_text_append(&self->ahead, bytes, count);
    if (self->ahead.failed)
        tt_connection_close(self);
    else if (self->ahead.length - self->ahead_used >
             (size_t)self->listener->options.limits.pipeline_bytes)
        set_reading(self, false);
}

/* --- the socket --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    (void)suggested;
    struct tt_connection *self = handle->data;
    size_t missing = 0;
    char *space =
        self->exchange || self->ahead.length ? NULL : tt_http1_body_space(&self->http, &missing);
    if (space) /* the body goes from the socket into its place */
        *out_buffer = (uv_buf_t){.base = space, .len = missing};
    else
        *out_buffer = (uv_buf_t){.base = self->listener->read_buffer, .len = TT_READ_BUFFER_BYTES};
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct tt_connection *self = stream->data;
    if (count == 0 || self->wait == TT_WAIT_CLOSED)
        return;
    if (count < 0) {
        tt_connection_close(self);
        return;
    }
    if (self->wait == TT_WAIT_LINGER)
        return;
    size_t used = 0;
    if (!self->exchange && !self->ahead.length)
        used = consume(self, buffer->base, (size_t)count);
    if (used < (size_t)count && self->wait < TT_WAIT_LINGER)
        keep_ahead(self, buffer->base + used, (size_t)count - used);
}

static void set_reading(struct tt_connection *self, bool reading) {
    if (self->reading == reading || self->wait == TT_WAIT_CLOSED)
        return;
    self->reading = reading;
    if (!reading)
        uv_read_stop((uv_stream_t *)&self->tcp);
    else if (uv_read_start((uv_stream_t *)&self->tcp, on_alloc, on_read) < 0)
        tt_connection_close(self);
}

void tt_connection_expire(struct tt_connection *self) {
    if (self->wait == TT_WAIT_HEAD || self->wait == TT_WAIT_BODY)
        refuse(self, 408,
               self->wait == TT_WAIT_HEAD ? "the request line and headers took too long to come"
                                          : "the body took too long to come");
    else
        tt_connection_close(self);
}

void tt_connection_accept(struct tt_listener *listener, bool of_metrics) {
    struct tt_connection *self = calloc(1, sizeof(*self));
    listener->accept_waits[of_metrics] = !self; /* without memory the client waits for a tick */
    if (!self)
        return;
    self->listener = listener;
    tt_http1_init(&self->http, &listener->http_limits);
    uv_tcp_init(&listener->loop, &self->tcp);
    self->tcp.data = self;
    listener->counts.connections++;
    wait_for(self, TT_WAIT_IDLE);
    uv_tcp_t *server = of_metrics ? &listener->metrics_server : &listener->server;
    self->of_metrics = of_metrics;
    if (uv_accept((uv_stream_t *)server, (uv_stream_t *)&self->tcp) < 0) {
        tt_connection_close(self);
        return;
    }
    listener->counts.accepted++;
    uv_tcp_nodelay(&self->tcp, 1);
    set_reading(self, true);
    if (self->wait == TT_WAIT_IDLE &&
        (listener->counts.connections > listener->options.limits.connections ||
         listener->spare_fd < 0))
        refuse(self, 503, "too many connections; try again later");
}
