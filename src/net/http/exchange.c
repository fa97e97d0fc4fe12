#include "net/http/exchange.h"

#include "net/kserve/kserve_log.h"

void tt_exchange_init(struct tt_exchange *self, const struct tt_http_context *context,
                      tt_exchange_done_fn *done) {
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    self->context = context;
    self->done = done;
    self->model = NULL;
    self->inference = NULL;
    self->is_running = self->is_abandoned = self->is_inference_answer = false;
    self->claim = (struct tt_http_claim){0};
    self->reply = (struct tt_reply){0};
    self->parts.count = 0;
    self->parts.size_bytes = 0;
    tt_kserve_request_init(&self->request);
}

void tt_exchange_fini(struct tt_exchange *self) {
    tt_assert(!self->is_running);
    if (self->inference)
        tt_inference_release(self->inference);
    tt_http_claim_fini(&self->claim, self->context, self->reply.status);
    tt_kserve_request_fini(&self->request);
    tt_text_fini(&self->reply.body);
}

void tt_exchange_abandon(struct tt_exchange *self) {
    tt_assert(self->is_running);
    tt_assert(!self->is_abandoned);
    self->is_abandoned = true;
    if (self->inference)
        tt_inference_cancel(self->inference);
}

static void fail(struct tt_exchange *self, enum tt_err err, const char *why) {
    struct tt_reply *reply = &self->reply;
    self->parts.count = 0;
    self->parts.size_bytes = 0;
    tt_reply_error(reply, err, why);
    if (reply->retry_after_s && self->model)
        reply->retry_after_s = tt_served_model_retry_after_s(self->model);
}

static enum tt_err write_answer(struct tt_exchange *self, struct tt_error *why) {
    struct tt_kserve_answer answer;
    tt_kserve_answer_fill(&answer, &self->request, self->model, self->inference);
    enum tt_err err = tt_kserve_json_write(&answer, &self->reply.body, &self->parts, why);
    if (err)
        return err;
    self->is_inference_answer = true;
    self->reply.status = 200;
    self->reply.content_type =
        self->parts.size_bytes ? "application/octet-stream" : "application/json";
    return TT_OK;
}

static void on_inferred(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    struct tt_exchange *self = context;
    tt_assert(self->is_running);
    tt_assert(self->inference == inference);
    self->is_running = false;
    if (!self->is_abandoned) {
        struct tt_error message;
        if (!err) {
            err = write_answer(self, &message);
            why = message.text;
        }
        tt_kserve_log_end(self->context->log, &self->request, self->model, err, why);
        if (err)
            fail(self, err, why);
    }
    self->done(self);
}

static bool start_inference(struct tt_exchange *self, const struct tt_http_request *request) {
    struct tt_port *port = self->context->service.port;
    struct tt_kserve_request *inputs = &self->request;
    const struct tt_kserve_json_body body = {.bytes = request->body,
                                             .size_bytes = request->body_bytes,
                                             .json_bytes = request->json_bytes,
                                             .max_depth = self->context->json_depth};
    struct tt_error why;
    enum tt_err err =
        tt_serving_find(port, inputs->target.model, inputs->target.version, &self->model, &why);
    if (!err)
        err = tt_kserve_json_read(inputs, tt_served_model_signature(self->model), &body, &why);
    if (!err)
        err = tt_kserve_begin(inputs, port, self->model, &self->inference, &why);
    if (err) {
        fail(self, err, why.text);
        return true;
    }
    tt_assert(self->inference != NULL);
    self->is_running = true;
    tt_inference_submit(self->inference, &inputs->options, on_inferred, self);
    return false;
}

static void on_commanded(void *context, struct tt_model_command *command) {
    struct tt_exchange *self = context;
    tt_assert(self->is_running);
    self->is_running = false;
    if (!self->is_abandoned && command->err)
        fail(self, command->err, command->why.text);
    else
        self->reply.status = 200;
    tt_model_command_free(command);
    self->done(self);
}

bool tt_exchange_start(struct tt_exchange *self, const struct tt_http_request *request) {
    struct tt_model_command *command = NULL;
    tt_assert(!self->is_running);
    if (!tt_http_claim_init(&self->claim, self->context, request, &self->reply))
        return true;
    switch (tt_route(self->context, request, &self->request.target, &command, &self->reply)) {
    case TT_ROUTE_INFER: return start_inference(self, request);
    case TT_ROUTE_COMMAND:
        tt_assert(command != NULL);
        self->is_running = true;
        tt_port_submit_command(self->context->service.port, command, on_commanded, self);
        return false;
    case TT_ROUTE_REPLY: break;
    }
    tt_assert(self->reply.status != 0);
    return true;
}
