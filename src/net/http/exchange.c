#include "net/http/exchange.h"

#include "base/clock.h"
#include "net/http/http_answer.h"
#include "net/http/http_message.h"
#include "net/http/model_pages.h"
#include "net/kserve/kserve_generate.h"
#include "net/kserve/kserve_log.h"
#include "net/kserve/kserve_pages.h"
#include "net/kserve/kserve_stream.h"
#include "net/sockets/pool_work.h"
#include "serve/port.h"

#include <stdlib.h>
#include <uv.h>

enum { SPARE_BODY_BYTES = 4096 };

void tt_exchange_init(struct tt_exchange *self, const struct tt_http_context *context,
                      tt_exchange_done_fn *done, tt_exchange_done_fn *part) {
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    self->context = context;
    self->done = done;
    self->part = part;
    self->form = TT_EXCHANGE_INFER;
    self->is_inference = self->is_stream = self->is_read = false;
    self->err = TT_OK;
    self->model = NULL;
    self->inference = NULL;
    self->work = NULL;
    self->message = NULL;
    self->is_asking = self->is_filling = false;
    self->is_running = self->is_abandoned = self->is_inference_answer = false;
    self->is_answering = self->is_packed = false;
    self->page = NULL;
    self->coding = TT_CODING_IDENTITY;
    tt_text_init(&self->packed);
    tt_http_claim_clear(&self->claim);
    self->reply = (struct tt_reply){0};
    self->parts.count = 0;
    self->parts.size_bytes = 0;
    tt_kserve_request_init(&self->request);
    self->request.memory = context->service.memory;
}

/* A reply's body is written just before it is sent, so that few have memory at a time. */
static void take_body(struct tt_exchange *self) {
    struct tt_text *spare = self->context->spare_body;
    if (!spare || self->reply.body.bytes)
        return;
    self->reply.body = *spare;
    tt_text_init(spare);
}

static void give_body(struct tt_exchange *self) {
    struct tt_text *spare = self->context->spare_body, *body = &self->reply.body;
    if (!spare || spare->bytes || body->capacity > SPARE_BODY_BYTES) {
        tt_pool_work_free(self->context->loop, body);
        return;
    }
    tt_text_clear(body);
    *spare = *body;
    tt_text_init(body);
}

void tt_exchange_fini(struct tt_exchange *self) {
    tt_assert(!self->is_running);
    if (self->inference)
        tt_inference_release(self->inference);
    tt_http_message_free(self->message);
    tt_http_claim_fini(&self->claim, self->context, self->reply.status);
    tt_kserve_request_fini(&self->request);
    give_body(self);
    tt_pool_work_free(self->context->loop, &self->packed);
    tt_shared_page_unref(self->page);
}

void tt_exchange_abandon(struct tt_exchange *self) {
    tt_assert(self->is_running);
    tt_assert(!self->is_abandoned);
    self->is_abandoned = true;
    /* Else it does not run. */
    if (self->inference && !self->work && !self->is_filling && !self->is_answering)
        tt_inference_cancel(self->inference);
}

void tt_exchange_fail(struct tt_exchange *self, enum tt_err err, const char *why) {
    struct tt_reply *reply = &self->reply;
    self->parts.count = 0;
    self->parts.size_bytes = 0;
    tt_reply_error(reply, err, why);
    if (reply->retry_after_s && self->model)
        reply->retry_after_s = tt_served_model_retry_after_s(self->model);
}

/* --- events --- */

static void put_error(const char *sentence, struct tt_text *out_text) {
    tt_text_puts(out_text, "data: ");
    tt_kserve_write_error(sentence, out_text);
    tt_text_puts(out_text, "\n\n");
}

/* The outputs that are not words, or the error. */
static enum tt_err put_end(struct tt_exchange *self, struct tt_text *out_text,
                           struct tt_error *why) {
    struct tt_kserve_answer answer;
    if (self->err) {
        put_error(*self->why.text ? self->why.text : tt_err_name(self->err), out_text);
        return TT_OK;
    }
    tt_kserve_stream_rest(&answer, &self->request, self->model, self->inference);
    return answer.output_count ? tt_http_answer_event(&answer, out_text, why) : TT_OK;
}

bool tt_exchange_read(struct tt_exchange *self, struct tt_text *out_text, size_t limit_bytes) {
    struct tt_kserve_answer answer;
    struct tt_tensor_view word;
    struct tt_error why;
    enum tt_err err = TT_OK;
    tt_assert(self->is_stream);
    while (!err && out_text->length < limit_bytes) {
        if (!tt_inference_next_word(self->inference, &word)) {
            if (!self->is_running && !self->is_read) {
                self->is_read = true;
                err = put_end(self, out_text, &why);
            }
            break;
        }
        tt_kserve_stream_word(&answer, &self->request, self->model, &word);
        err = tt_http_answer_event(&answer, out_text, &why);
    }
    if (err)
        put_error(why.text, out_text);
    return !err && !out_text->failed;
}

static void on_emitted(void *context, struct tt_inference *inference) {
    struct tt_exchange *self = context;
    tt_assert(self->inference == inference);
    tt_assert(self->is_running);
    if (self->is_abandoned)
        return;
    self->is_stream = true;
    self->reply.status = 200;
    self->reply.content_type = "text/event-stream";
    self->part(self);
}

/* --- answers --- */

/* The inference of a reply has ended, and its answer is written if it has one. */
static void end_reply(struct tt_exchange *self, enum tt_err err, const char *why) {
    self->is_running = false;
    if (!self->is_abandoned) {
        tt_kserve_log_end(self->context->log, &self->request, self->model, err, why);
        if (err)
            tt_exchange_fail(self, err, why);
    }
    self->done(self);
}

static void on_answered(struct tt_exchange *self, enum tt_err err, const struct tt_error *why) {
    tt_assert(self->is_running);
    end_reply(self, err, why->text);
}

static void on_inferred(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    struct tt_exchange *self = context;
    struct tt_error message;
    tt_assert(self->is_running);
    tt_assert(self->inference == inference);
    if (self->is_stream) {
        self->is_running = false;
        self->err = err ? tt_fail(err, &self->why, "%s", why ? why : "") : TT_OK;
        if (!self->is_abandoned)
            tt_kserve_log_end(self->context->log, &self->request, self->model, err, why);
        self->done(self);
        return;
    }
    take_body(self);
    if (!err && !self->is_abandoned) {
        if (!tt_http_answer_start(self, on_answered, &err, &message))
            return;
        why = message.text;
    }
    end_reply(self, err, why);
}

static struct tt_kserve_json_body body_of(const struct tt_exchange *self,
                                          const struct tt_http_request *request) {
    return (struct tt_kserve_json_body){.bytes = request->body,
                                        .size_bytes = request->body_bytes,
                                        .json_bytes = request->json_bytes,
                                        .max_depth = self->context->json_depth};
}

enum tt_err tt_exchange_read_inputs(struct tt_exchange *self, const struct tt_signature *signature,
                                    const struct tt_http_request *request, struct tt_error *why) {
    const struct tt_kserve_json_body body = body_of(self, request);
    if (self->form != TT_EXCHANGE_INFER)
        return tt_kserve_generate_read(&self->request, signature, request->body,
                                       request->body_bytes, body.max_depth, why);
    return tt_kserve_json_read(&self->request, signature, &body, why);
}

bool tt_exchange_submit(struct tt_exchange *self) {
    struct tt_kserve_request *inputs = &self->request;
    struct tt_error why;
    enum tt_err err = TT_OK;
    tt_assert(self->inference != NULL);
    if (self->form == TT_EXCHANGE_EVENTS && tt_kserve_stream_output(inputs, self->model) >= 0)
        err = tt_inference_stream(self->inference, on_emitted, &why);
    if (err) {
        tt_exchange_fail(self, err, why.text);
        return true;
    }
    self->is_running = true;
    tt_kserve_request_identify(inputs);
    tt_inference_submit(self->inference, &inputs->options, on_inferred, self);
    return false;
}

static void on_asked(void *context, struct tt_inference *inference, enum tt_err err,
                     const char *why);

/* While requests are refused, the model is asked before the inputs are read, which is most of the
 * work. True: on_asked() comes. */
static bool ask(struct tt_exchange *self, const struct tt_http_request *request) {
    struct tt_kserve_request *inputs = &self->request;
    const struct tt_kserve_json_body body = body_of(self, request);
    struct tt_error why;
    if (self->form != TT_EXCHANGE_INFER || !tt_inference_may_ask(self->model))
        return false;
    bool is_binary = body.json_bytes >= 0 && (size_t)body.json_bytes < body.size_bytes;
    size_t binary_bytes = is_binary ? body.size_bytes - (size_t)body.json_bytes : 0;
    int32_t rows = tt_kserve_rows_in(tt_served_model_signature(self->model), binary_bytes);
    if (rows == 0 || tt_kserve_json_glance(inputs, &body) ||
        !tt_inference_should_ask(self->model, &inputs->options) ||
        tt_inference_ask(self->context->service.port, self->model, rows, &self->inference, &why)) {
        tt_kserve_request_restart(inputs);
        return false;
    }
    self->unread = *request;
    self->is_asking = self->is_running = true;
    tt_kserve_request_identify(inputs);
    tt_inference_submit(self->inference, &inputs->options, on_asked, self);
    return true;
}

/* The inputs of an inference that was begun, or not, are wrong. */
static void refuse_inputs(struct tt_exchange *self, enum tt_err err, const char *why) {
    if (self->inference)
        tt_inference_release(self->inference);
    self->inference = NULL;
    tt_exchange_fail(self, err, why);
}

/* --- inputs in shared memory --- */

struct filling {
    struct tt_pool_work work;
    struct tt_exchange *exchange;
    enum tt_err err;
    struct tt_error why;
};

static void copy_inputs(struct tt_pool_work *work) {
    struct filling *self = work->data;
    struct tt_exchange *exchange = self->exchange;
    self->err = tt_kserve_fill_shared(&exchange->request, exchange->inference, &self->why);
}

static void on_filled(struct tt_pool_work *work) {
    struct filling *self = work->data;
    struct tt_exchange *exchange = self->exchange;
    tt_assert(exchange->is_running && exchange->is_filling);
    exchange->is_filling = exchange->is_running = false;
    if (self->err && !exchange->is_abandoned)
        refuse_inputs(exchange, self->err, self->why.text);
    bool is_over = self->err || exchange->is_abandoned;
    free(self);
    if (is_over || tt_exchange_submit(exchange))
        exchange->done(exchange);
}

/* True: there is much to copy, and a thread of the pool does it. */
static bool fill_later(struct tt_exchange *self) {
    struct tt_kserve_request *inputs = &self->request;
    if (!self->context->loop || tt_kserve_shared_input_bytes(inputs) <= TT_KSERVE_SHARED_AT_ONCE)
        return false;
    struct filling *filling = malloc(sizeof(*filling));
    if (!filling)
        return false; /* it is done here */
    *filling = (struct filling){.exchange = self};
    filling->work.data = filling;
    /* The time that it takes counts. */
    if (!inputs->options.since_at)
        inputs->options.since_at = tt_port_since(self->context->service.port, tt_clock_now());
    self->is_filling = self->is_running = true;
    tt_pool_work_queue(self->context->loop, &filling->work, copy_inputs, on_filled);
    return true;
}

static bool start_inference(struct tt_exchange *self, const struct tt_http_request *request,
                            bool may_ask) {
    struct tt_port *port = self->context->service.port;
    self->is_inference = true;
    struct tt_kserve_request *inputs = &self->request;
    struct tt_error why;
    enum tt_err err =
        tt_serving_find(port, inputs->target.model, inputs->target.version, &self->model, &why);
    if (!err && may_ask && ask(self, request))
        return false;
    if (!err)
        err = tt_exchange_read_inputs(self, tt_served_model_signature(self->model), request, &why);
    if (!err)
        err = tt_kserve_reserve(inputs, port, self->model, &self->inference, &why);
    if (!err)
        err = tt_kserve_fill_received(inputs, self->inference, &why);
    if (!err && fill_later(self))
        return false;
    if (!err)
        err = tt_kserve_fill_shared(inputs, self->inference, &why);
    if (!err)
        return tt_exchange_submit(self);
    refuse_inputs(self, err, why.text);
    return true;
}

/* The model refuses the request, or its inputs are read. */
static void on_asked(void *context, struct tt_inference *inference, enum tt_err err,
                     const char *why) {
    struct tt_exchange *self = context;
    struct tt_http_message *message = self->message;
    tt_assert(self->is_running && self->is_asking);
    tt_assert(self->inference == inference);
    self->is_asking = false;
    if (err || self->is_abandoned) {
        take_body(self);
        end_reply(self, err, why);
        return;
    }
    tt_kserve_request_restart(&self->request);
    self->request.options.since_at = tt_inference_since_at(inference);
    tt_inference_release(inference);
    self->inference = NULL;
    self->is_running = false;
    self->message = NULL;
    bool is_ready = start_inference(self, &self->unread, false);
    tt_http_message_free(message);
    if (is_ready)
        self->done(self);
}

static void on_commanded(void *context, struct tt_model_command *command) {
    struct tt_exchange *self = context;
    tt_assert(self->is_running);
    self->is_running = false;
    if (!self->is_abandoned && command->err)
        tt_exchange_fail(self, command->err, command->why.text);
    else
        self->reply.status = 200;
    tt_model_command_free(command);
    self->done(self);
}

void tt_exchange_command(struct tt_exchange *self, struct tt_model_command *take_command) {
    self->is_running = true;
    tt_port_submit_command(self->context->service.port, take_command, on_commanded, self);
}

enum tt_route_kind tt_exchange_route(struct tt_exchange *self,
                                     const struct tt_http_request *request,
                                     struct tt_model_command **out_command) {
    tt_assert(!self->is_running);
    if (!tt_http_claim_init(&self->claim, self->context, request, &self->reply))
        return TT_ROUTE_REPLY;
    enum tt_route_kind kind =
        tt_route(self->context, request, &self->request.target, out_command, &self->reply);
    if (kind == TT_ROUTE_GENERATE)
        self->form = TT_EXCHANGE_GENERATE;
    else if (kind == TT_ROUTE_GENERATE_STREAM)
        self->form = TT_EXCHANGE_EVENTS;
    return kind;
}

bool tt_exchange_start(struct tt_exchange *self, const struct tt_http_request *request) {
    struct tt_model_command *command = NULL;
    enum tt_route_kind kind = tt_exchange_route(self, request, &command);
    switch (kind) {
    case TT_ROUTE_INFER:
    case TT_ROUTE_GENERATE:
    case TT_ROUTE_GENERATE_STREAM: return start_inference(self, request, true);
    case TT_ROUTE_COMMAND:
        tt_assert(command != NULL);
        tt_exchange_command(self, command);
        return false;
    case TT_ROUTE_METRICS:
    case TT_ROUTE_STATISTICS:
    case TT_ROUTE_INDEX:
    case TT_ROUTE_TRACE: return tt_model_pages_start(self, kind, request);
    case TT_ROUTE_REPLY: break;
    }
    tt_assert(self->reply.status != 0);
    return true;
}
