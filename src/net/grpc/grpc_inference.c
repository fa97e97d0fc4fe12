/* Inferences of grpc_call.h: from a received message to the message that answers it. */
#include "base/clock.h"
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_operations.h"
#include "net/grpc/infer_message.h"
#include "net/kserve/kserve_log.h"

#include <stdlib.h>

enum { KEPT_TEXT_BYTES = 4096 };

struct grpc_inference {
    struct tt_http2_message message; /* the answer; its text is kept for the next one */
    struct tt_grpc_call *call;
    struct tt_list_node node; /* in call->running, or in the list of free ones */
    struct tt_served_model *model;
    struct tt_inference *inference; /* NULL: none was begun */
    struct tt_kserve_request request;
    struct tt_identity *identity; /* whose limits it counts against; NULL: none; a reference */
    bool wants_final;
};

static struct grpc_inference *inference_new(struct tt_grpc_call *call) {
    struct tt_grpc_calls *all = call->all;
    struct tt_list_node *node = tt_list_first(&all->free_inferences);
    struct grpc_inference *self;
    if (node) {
        tt_list_remove(node);
        all->free_inference_count--;
        self = TT_CONTAINER_OF(node, struct grpc_inference, node);
    } else {
        self = malloc(sizeof(*self));
        if (!self)
            return NULL;
        self->node = (struct tt_list_node){0};
        tt_text_init(&self->message.text);
    }
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    self->call = call;
    self->model = NULL;
    self->inference = NULL;
    self->identity = NULL;
    self->wants_final = false;
    tt_kserve_request_init(&self->request);
    return self;
}

static void inference_free(struct grpc_inference *self) {
    struct tt_grpc_calls *all = self->call->all;
    struct tt_text *text = &self->message.text;
    if (self->inference)
        tt_inference_release(self->inference);
    tt_identity_leave(self->identity);
    tt_identity_unref(self->identity);
    tt_kserve_request_fini(&self->request);
    if (text->capacity > KEPT_TEXT_BYTES || text->failed) {
        tt_text_fini(text);
        tt_text_init(text);
    }
    if (all->free_inference_count < TT_GRPC_KEPT) {
        tt_list_push_front(&all->free_inferences, &self->node);
        all->free_inference_count++;
    } else {
        tt_text_fini(text);
        free(self);
    }
}

/* The answer was written, or the client has gone. */
static void on_released(struct tt_http2_message *message) {
    struct grpc_inference *self = TT_CONTAINER_OF(message, struct grpc_inference, message);
    struct tt_grpc_call *call = self->call;
    inference_free(self);
    call->queued_count--;
    if (!call->is_closed)
        tt_grpc_call_proceed(call);
}

/* An empty message in the text that is kept. */
static void begin_message(struct grpc_inference *self) {
    struct tt_text text = self->message.text;
    tt_text_clear(&text);
    tt_http2_message_init(&self->message, on_released);
    self->message.text = text;
}

static void send_answer(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    call->queued_count++;
    tt_grpc_call_send(call, &self->message);
    if (call->method->kind == TT_GRPC_INFER)
        tt_grpc_call_finish(call);
}

static void answer_failure(struct grpc_inference *self, enum tt_err err, const char *why) {
    struct tt_grpc_call *call = self->call;
    const char *sentence = why && *why ? why : tt_err_name(err);
    if (call->method->kind == TT_GRPC_STREAM) {
        begin_message(self);
        if (tt_infer_message_write_error(sentence, &self->request.id, &self->message)) {
            send_answer(self);
            return;
        }
    }
    tt_grpc_call_fail(call, tt_grpc_status_of(err), sentence);
    inference_free(self);
}

static void answer(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    struct tt_kserve_answer answer;
    bool is_streamed = call->method->kind == TT_GRPC_STREAM;
    const struct tt_infer_form form = {.is_streamed = is_streamed,
                                       .is_final = is_streamed && self->wants_final};
    tt_kserve_answer_fill(&answer, &self->request, self->model, self->inference);
    begin_message(self);
    if (tt_infer_message_write(&answer, form, &self->message))
        send_answer(self);
    else
        answer_failure(self, TT_ERR_NO_MEMORY, "no memory for the answer");
}

static void on_inferred(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    struct grpc_inference *self = context;
    struct tt_grpc_call *call = self->call;
    tt_assert(self->inference == inference);
    tt_list_remove(&self->node);
    call->running_count--;
    if (call->is_over) {
        inference_free(self);
    } else {
        tt_kserve_log_end(call->all->log, &self->request, self->model, err, why);
        if (err)
            answer_failure(self, err, why);
        else
            answer(self);
    }
    tt_grpc_call_proceed(call);
}

/* The sooner of the request's own deadline and the call's. */
static enum tt_err limit_time(struct grpc_inference *self, struct tt_error *why) {
    struct tt_inference_options *options = &self->request.options;
    if (!self->call->timeout_ns)
        return TT_OK;
    int64_t left_ns = self->call->deadline_at - tt_clock_now();
    if (left_ns <= 0)
        return tt_fail(TT_ERR_TIMEOUT, why, "the time that grpc-timeout gives is over");
    if (options->timeout_ns == 0 || options->timeout_ns > left_ns)
        options->timeout_ns = left_ns;
    return TT_OK;
}

void tt_grpc_call_infer(struct tt_grpc_call *call, const char *bytes, size_t size_bytes) {
    struct grpc_inference *self = inference_new(call);
    struct tt_error why;
    if (!self) {
        tt_grpc_call_fail(call, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return;
    }
    enum tt_grpc_status refused = tt_grpc_call_admit(call, &self->identity, &why);
    if (refused != TT_GRPC_OK) {
        tt_grpc_call_fail(call, refused, why.text);
        inference_free(self);
        return;
    }
    struct tt_kserve_request *request = &self->request;
    struct tt_port *port = call->all->service.port;
    enum tt_err err = tt_infer_message_read(request, bytes, size_bytes, &self->wants_final, &why);
    if (!err)
        err = tt_serving_find(port, request->target.model, request->target.version, &self->model,
                              &why);
    if (!err)
        err = limit_time(self, &why);
    if (!err)
        err = tt_kserve_begin(request, port, self->model, &self->inference, &why);
    if (err) {
        answer_failure(self, err, why.text);
        return;
    }
    call->running_count++;
    tt_list_push_back(&call->running, &self->node);
    tt_inference_submit(self->inference, &request->options, on_inferred, self);
}

void tt_grpc_call_cancel(struct tt_grpc_call *call) {
    struct tt_list_node *node = tt_list_first(&call->running);
    for (; node; node = tt_list_next(&call->running, node))
        tt_inference_cancel(TT_CONTAINER_OF(node, struct grpc_inference, node)->inference);
}

void tt_grpc_calls_fini(struct tt_grpc_calls *self) {
    struct tt_list_node *node;
    tt_assert(self->call_count == 0);
    tt_quota_share_fini(&self->budget);
    while ((node = tt_list_first(&self->free_inferences)) != NULL) {
        struct grpc_inference *inference = TT_CONTAINER_OF(node, struct grpc_inference, node);
        tt_list_remove(node);
        tt_text_fini(&inference->message.text);
        free(inference);
    }
    while ((node = tt_list_first(&self->free_calls)) != NULL) {
        tt_list_remove(node);
        free(TT_CONTAINER_OF(node, struct tt_grpc_call, node));
    }
}
