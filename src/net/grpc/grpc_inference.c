/* Inferences of grpc_call.h: from a received message to the message that answers it. */
#include "net/grpc/grpc_inference.h"

#include "base/clock.h"
#include "net/access/answer_budget.h"
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_operations.h"
#include "net/grpc/grpc_work.h"
#include "net/grpc/infer_message.h"
#include "net/kserve/kserve_log.h"
#include "net/kserve/kserve_share.h"
#include "net/kserve/kserve_stream.h"
#include "net/sockets/pool_work.h"
#include "serve/port.h"

#include <stdlib.h>
#include <uv.h>

enum { KEPT_TEXT_BYTES = 4096, WORDS_PER_MESSAGE = 256 };

struct grpc_inference {
    struct tt_http2_message message; /* the answer; its text is kept for the next one */
    struct tt_grpc_call *call;
    struct tt_list_node node; /* in call->running, or in the list of free ones */
    struct tt_served_model *model;
    struct tt_inference *inference; /* NULL: none was begun */
    struct tt_kserve_request request;
    struct tt_journal_entry entry; /* set if there is a journal */
    struct tt_identity *identity;  /* whose limits it counts against; NULL: none; a reference */
    struct tt_answer_share share;  /* of the answer */
    bool wants_final;
    bool is_over_limit; /* of its identity, as `why` says: one request of a stream is refused */
    bool is_filling;    /* inputs in shared memory are being copied elsewhere */
    /* What the journal says at the end, if there is one: */
    bool has_outcome;
    int32_t http_status;
    enum tt_grpc_status status;
    int64_t body_bytes;
    /* Of an answer that is sent word by word: */
    bool is_stream;
    bool is_sending; /* the message is queued */
    bool is_done;    /* the inference has ended, with: */
    bool is_last;    /* the message is the last one */
    enum tt_err err;
    struct tt_error why;
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
    self->share = (struct tt_answer_share){0};
    self->wants_final = self->is_over_limit = self->is_filling = self->has_outcome = false;
    self->is_stream = self->is_sending = self->is_done = self->is_last = false;
    tt_kserve_request_init(&self->request);
    self->request.memory = all->service.memory;
    return self;
}

static void write_journal(struct grpc_inference *self) {
    const struct tt_identity *identity = self->identity ? self->identity : self->call->identity;
    const struct tt_access_line line = {.status = self->http_status,
                                        .grpc_status = (int32_t)self->status,
                                        .body_bytes = self->body_bytes,
                                        .identity = identity ? identity->name : "",
                                        .is_inference = true,
                                        .request = &self->request,
                                        .inference = self->inference};
    tt_grpc_call_log(self->call, &self->entry, &line);
}

/* Its answer was written, or will not be. */
void tt_grpc_inference_free(struct grpc_inference *take_self) {
    struct grpc_inference *self = take_self;
    struct tt_grpc_calls *all = self->call->all;
    struct tt_text *text = &self->message.text;
    if (self->has_outcome)
        write_journal(self);
    self->call->answer_trace = NULL;
    if (self->inference)
        tt_inference_release(self->inference);
    tt_answer_share_give(&self->share);
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

static void send_words(struct grpc_inference *self);

/* The answer, or a part of it, was written, or the client has gone. */
static void on_released(struct tt_http2_message *message) {
    struct grpc_inference *self = TT_CONTAINER_OF(message, struct grpc_inference, message);
    struct tt_grpc_call *call = self->call;
    bool goes_on = self->is_stream && !self->is_last;
    self->is_sending = false;
    call->queued_count--;
    if (goes_on && !call->is_over)
        send_words(self);
    else if (!goes_on || self->is_done)
        tt_grpc_inference_free(self);
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

static void send_message(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    tt_grpc_call_send(call, &self->message);
    if (call->method->kind == TT_GRPC_INFER)
        tt_grpc_call_finish(call);
}

static void on_packed(struct tt_http2_message *message) {
    struct grpc_inference *self = TT_CONTAINER_OF(message, struct grpc_inference, message);
    struct tt_grpc_call *call = self->call;
    if (!call->is_over) {
        send_message(self);
        return;
    }
    bool was_closed = call->is_closed;
    on_released(message);
    if (was_closed)
        tt_grpc_call_proceed(call);
}

static bool packs(const struct tt_grpc_call *call) {
    return call->coding != TT_CODING_IDENTITY && call->accepts_coding;
}

static void send_answer(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    call->queued_count++;
    self->is_sending = true;
    if (tt_grpc_message_pack_later(call, &self->message, on_packed))
        return;
    if (packs(call))
        tt_grpc_message_pack(call->coding, &self->message);
    send_message(self);
}

/* The journal is written when the answer has been. */
static void note_outcome(struct grpc_inference *self, int32_t http_status,
                         enum tt_grpc_status status, int64_t body_bytes) {
    if (!tt_journal_is_on(&self->call->all->journal))
        return;
    self->has_outcome = true;
    self->http_status = http_status;
    self->status = status;
    self->body_bytes = body_bytes;
    self->call->has_line = true;
}

static void answer_failure(struct grpc_inference *self, enum tt_err err, const char *why) {
    struct tt_grpc_call *call = self->call;
    const char *sentence = why && *why ? why : tt_err_name(err);
    enum tt_grpc_status status = self->is_over_limit && err == TT_ERR_BUSY
                                     ? TT_GRPC_RESOURCE_EXHAUSTED
                                     : tt_grpc_status_of(err);
    note_outcome(self, 200, status, 0);
    if (call->method->kind == TT_GRPC_STREAM) {
        begin_message(self);
        if (tt_infer_message_write_error(sentence, &self->request.id, &self->message)) {
            send_answer(self);
            return;
        }
    }
    tt_grpc_call_fail(call, status, sentence);
    tt_grpc_inference_free(self);
}

/* --- shared memory --- */

/* A copy from or to shared memory that is so large that a thread of the pool makes it. */
struct copying {
    struct tt_pool_work work;
    struct grpc_inference *inference;
    void (*then)(struct grpc_inference *inference, enum tt_err err, struct tt_error *why);
    enum tt_err err;
    struct tt_error why;
};

static void on_copied(struct tt_pool_work *work) {
    struct copying *self = work->data;
    struct grpc_inference *inference = self->inference;
    struct tt_grpc_call *call = inference->call;
    if (inference->is_filling)
        call->is_reading = inference->is_filling = false;
    if (call->is_over)
        tt_grpc_inference_free(inference);
    else
        self->then(inference, self->err, &self->why);
    free(self);
    call->running_count--;
    tt_grpc_call_proceed(call);
}

/* True: `copy` runs in the pool; then comes `then`, or the inference is freed if its call is over
 * by then. False: there is little to copy, or no memory for it to be done elsewhere. */
static bool
copy_later(struct grpc_inference *self, uint64_t bytes, void (*copy)(struct tt_pool_work *work),
           void (*then)(struct grpc_inference *inference, enum tt_err err, struct tt_error *why)) {
    struct tt_grpc_call *call = self->call;
    struct copying *copying;
    if (!call->all->loop || bytes <= TT_KSERVE_SHARED_AT_ONCE ||
        !(copying = malloc(sizeof(*copying))))
        return false;
    *copying = (struct copying){.inference = self, .then = then};
    copying->work.data = copying;
    call->running_count++;
    tt_pool_work_queue(call->all->loop, &copying->work, copy, on_copied);
    return true;
}

static void copy_outputs(struct tt_pool_work *work) {
    struct copying *self = work->data;
    const struct grpc_inference *inference = self->inference;
    struct tt_kserve_answer answer;
    tt_kserve_answer_fill(&answer, &inference->request, inference->model, inference->inference);
    self->err = tt_kserve_share_write(&answer, &self->why);
}

/* --- answers --- */

/* Sends the answer, whose outputs for shared memory are there, or the error. */
static void send_outputs(struct grpc_inference *self, enum tt_err err, struct tt_error *why) {
    struct tt_grpc_call *call = self->call;
    struct tt_kserve_answer answer;
    bool is_streamed = call->method->kind == TT_GRPC_STREAM;
    const struct tt_infer_form form = {
        .is_streamed = is_streamed,
        .final = is_streamed && self->wants_final ? TT_INFER_FINAL_TRUE : TT_INFER_FINAL_NONE};
    if (err) {
        answer_failure(self, err, why->text);
        return;
    }
    tt_kserve_answer_fill(&answer, &self->request, self->model, self->inference);
    begin_message(self);
    if (!tt_infer_message_write(&answer, form, &self->message)) {
        answer_failure(self, TT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    int64_t bytes = (int64_t)self->message.left_bytes;
    struct tt_byte_holder *holder = tt_identity_holder(self->identity, call->address);
    if (!tt_answer_share_take(&self->share, holder, bytes, why)) {
        answer_failure(self, TT_ERR_BUSY, why->text);
        return;
    }
    note_outcome(self, 200, TT_GRPC_OK, bytes);
    send_answer(self);
}

static void answer(struct grpc_inference *self) {
    struct tt_error why;
    enum tt_err err = TT_OK;
    if (self->request.shares) {
        struct tt_kserve_answer answer;
        tt_kserve_answer_fill(&answer, &self->request, self->model, self->inference);
        if (copy_later(self, tt_kserve_shared_output_bytes(&answer), copy_outputs, send_outputs))
            return;
        err = tt_kserve_share_write(&answer, &why);
    }
    send_outputs(self, err, &why);
}

/* --- word by word --- */

/* Appends the words that are there, each as a response, up to a limit; *out_count: how many, at the
 * limit there may be more. A packed message holds one, because each is packed for itself. */
static bool put_words(struct grpc_inference *self, int32_t limit, int32_t *out_count) {
    int32_t count = 0;
    const struct tt_infer_form form = {.is_streamed = true,
                                       .is_copied = true,
                                       .final = self->wants_final ? TT_INFER_FINAL_FALSE
                                                                  : TT_INFER_FINAL_NONE};
    struct tt_kserve_answer answer;
    struct tt_tensor_view word;
    bool good = true;
    for (; good && count < limit && tt_inference_next_word(self->inference, &word); count++) {
        tt_kserve_stream_word(&answer, &self->request, self->model, &word);
        good = tt_infer_message_write(&answer, form, &self->message);
    }
    tt_http2_message_add_text(&self->message);
    *out_count = count;
    return good;
}

/* Appends what comes after the last word. Nothing, if there are no other outputs, unless the client
 * asks for the final flag. */
static bool put_end(struct grpc_inference *self, bool *out_any) {
    struct tt_kserve_answer answer;
    if (self->err) {
        const char *sentence = *self->why.text ? self->why.text : tt_err_name(self->err);
        *out_any = true;
        return tt_infer_message_write_error(sentence, &self->request.id, &self->message);
    }
    const struct tt_infer_form form = {.is_streamed = true,
                                       .final = self->wants_final ? TT_INFER_FINAL_TRUE
                                                                  : TT_INFER_FINAL_NONE};
    tt_kserve_stream_rest(&answer, &self->request, self->model, self->inference);
    if (answer.output_count == 0 && !self->wants_final)
        return true;
    *out_any = true;
    return tt_infer_message_write(&answer, form, &self->message);
}

/* Sends what there is, if the message before it is written: a client that reads slowly holds one
 * message, and the words behind it wait where they are bounded. May free `self`. */
static void send_words(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    if (self->is_sending)
        return;
    int32_t limit = packs(call) ? 1 : WORDS_PER_MESSAGE, count;
    begin_message(self);
    bool good = put_words(self, limit, &count), any = count > 0;
    if (good && self->is_done && count < limit) {
        self->is_last = true;
        good = put_end(self, &any);
    }
    if (!good) {
        tt_grpc_call_fail(call, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        if (self->is_done)
            tt_grpc_inference_free(self);
    } else if (any) {
        send_answer(self);
    } else if (self->is_last) {
        tt_grpc_inference_free(self);
    }
}

static void on_emitted(void *context, struct tt_inference *inference) {
    struct grpc_inference *self = context;
    tt_assert(self->inference == inference);
    if (!self->call->is_over)
        send_words(self);
}

/* The inference of a stream has ended. May free `self`. */
static void end_words(struct grpc_inference *self, enum tt_err err, const char *why) {
    self->is_done = true;
    self->err = err ? tt_fail(err, &self->why, "%s", why ? why : "") : TT_OK;
    if (!self->call->is_over)
        send_words(self);
    else if (!self->is_sending)
        tt_grpc_inference_free(self);
}

static void on_inferred(void *context, struct tt_inference *inference, enum tt_err err,
                        const char *why) {
    struct grpc_inference *self = context;
    struct tt_grpc_call *call = self->call;
    tt_assert(self->inference == inference);
    tt_list_remove(&self->node);
    call->running_count--;
    call->all->asks |= err == TT_ERR_TIMEOUT;
    if (!call->is_over)
        tt_kserve_log_end(call->all->log, &self->request, self->model, err, why);
    else if (call->method->kind == TT_GRPC_STREAM || !call->has_line)
        note_outcome(self, TT_ACCESS_CLIENT_GONE, TT_GRPC_CANCELLED, 0);
    if (self->is_stream) {
        if (!call->is_over) /* when the inference has ended; its words may still be on their way */
            note_outcome(self, 200, tt_grpc_status_of(err), -1);
        end_words(self, err, why);
    } else if (call->is_over) {
        tt_grpc_inference_free(self);
    } else {
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
    int64_t since_at = options->since_at ? options->since_at : tt_clock_now();
    int64_t left_ns = self->call->deadline_at - since_at;
    if (left_ns <= 0)
        return tt_fail(TT_ERR_TIMEOUT, why, "the time that grpc-timeout gives is over");
    if (options->timeout_ns == 0 || options->timeout_ns > left_ns)
        options->timeout_ns = left_ns;
    return TT_OK;
}

/* The requests of a stream are not answered by headers of their own. */
static void begin_entry(struct grpc_inference *self) {
    struct tt_grpc_call *call = self->call;
    struct tt_journal *journal = &call->all->journal;
    bool is_unary = call->method->kind == TT_GRPC_INFER;
    tt_journal_begin(journal, call->trace, is_unary ? call->began_at : 0, &self->entry);
    if (is_unary)
        call->answer_trace = tt_journal_answer_context(journal, &self->entry);
}

struct grpc_inference *tt_grpc_inference_new(struct tt_grpc_call *call) {
    struct grpc_inference *self = inference_new(call);
    if (!self) {
        tt_grpc_call_fail(call, TT_GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return NULL;
    }
    if (tt_journal_is_on(&call->all->journal))
        begin_entry(self);
    enum tt_grpc_status refused = tt_grpc_call_admit(call, &self->identity, &self->why);
    self->is_over_limit =
        refused == TT_GRPC_RESOURCE_EXHAUSTED && call->method->kind == TT_GRPC_STREAM;
    if (refused == TT_GRPC_OK || self->is_over_limit)
        return self; /* other requests of a stream go on */
    tt_grpc_call_fail(call, refused, self->why.text);
    tt_grpc_inference_free(self);
    return NULL;
}

void tt_grpc_inference_note_came(struct grpc_inference *self) {
    self->request.options.since_at = tt_port_since(self->call->all->service.port, tt_clock_now());
}

enum tt_err tt_grpc_inference_read(struct grpc_inference *self, const char *bytes,
                                   size_t size_bytes, struct tt_error *why) {
    return tt_infer_message_read(&self->request, bytes, size_bytes, &self->wants_final, why);
}

enum tt_err tt_grpc_inference_reserve(struct grpc_inference *self, struct tt_error *why) {
    const struct tt_kserve_target *target = &self->request.target;
    struct tt_port *port = self->call->all->service.port;
    if (self->is_over_limit)
        return tt_fail(TT_ERR_BUSY, why, "%s", self->why.text);
    enum tt_err err = tt_serving_find(port, target->model, target->version, &self->model, why);
    if (!err)
        err = limit_time(self, why);
    return err ? err : tt_kserve_reserve(&self->request, port, self->model, &self->inference, why);
}

enum tt_err tt_grpc_inference_write(struct grpc_inference *self, struct tt_error *why) {
    return tt_kserve_fill(&self->request, self->inference, why);
}

void tt_grpc_inference_submit(struct grpc_inference *take_self, enum tt_err err,
                              struct tt_error *why) {
    struct grpc_inference *self = take_self;
    struct tt_grpc_call *call = self->call;
    self->is_stream = !err && call->method->kind == TT_GRPC_STREAM &&
                      tt_kserve_stream_output(&self->request, self->model) >= 0;
    if (self->is_stream)
        err = tt_inference_stream(self->inference, on_emitted, why);
    if (err) {
        if (self->inference)
            tt_inference_release(self->inference);
        self->inference = NULL;
        self->is_stream = false;
        answer_failure(self, err, why->text);
        return;
    }
    call->running_count++;
    tt_list_push_back(&call->running, &self->node);
    tt_kserve_request_identify(&self->request);
    tt_inference_submit(self->inference, &self->request.options, on_inferred, self);
}

static void copy_inputs(struct tt_pool_work *work) {
    struct copying *self = work->data;
    self->err =
        tt_kserve_fill_shared(&self->inference->request, self->inference->inference, &self->why);
}

/* True: a thread of the pool copies the inputs in shared memory. The call's next message waits
 * meanwhile, as behind a large one. */
static bool fill_later(struct grpc_inference *self) {
    uint64_t bytes = tt_kserve_shared_input_bytes(&self->request);
    if (!copy_later(self, bytes, copy_inputs, tt_grpc_inference_submit))
        return false;
    if (!self->request.options.since_at) /* the time that it takes counts */
        tt_grpc_inference_note_came(self);
    self->call->is_reading = self->is_filling = true;
    return true;
}

static void start(struct grpc_inference *self, const char *bytes, size_t size_bytes) {
    struct tt_error why;
    enum tt_err err = tt_grpc_inference_read(self, bytes, size_bytes, &why);
    if (!err)
        err = tt_grpc_inference_reserve(self, &why);
    if (!err)
        err = tt_kserve_fill_received(&self->request, self->inference, &why);
    if (!err && fill_later(self))
        return;
    if (!err)
        err = tt_kserve_fill_shared(&self->request, self->inference, &why);
    tt_grpc_inference_submit(self, err, &why);
}

/* --- refused unread --- */

/* The model refuses the request, or its inputs are read. */
static void on_asked(void *context, struct tt_inference *inference, enum tt_err err,
                     const char *why) {
    struct grpc_inference *self = context;
    struct tt_grpc_call *call = self->call;
    const struct tt_text *unread = &self->message.text;
    if (err || call->is_over) {
        on_inferred(context, inference, err, why);
        return;
    }
    tt_assert(self->inference == inference);
    tt_list_remove(&self->node);
    call->running_count--;
    tt_kserve_request_restart(&self->request);
    self->request.options.since_at = tt_inference_since_at(inference);
    tt_inference_release(inference);
    self->inference = NULL;
    start(self, unread->bytes, unread->length);
    tt_grpc_call_proceed(call);
}

/* What a question needs. False: the request is read at once. */
static bool make_question(struct grpc_inference *self, const char *bytes, size_t size_bytes) {
    struct tt_grpc_calls *all = self->call->all;
    struct tt_kserve_request *request = &self->request;
    struct tt_text *unread = &self->message.text;
    struct tt_error why;
    size_t raw_bytes;
    if (tt_infer_message_glance(request, bytes, size_bytes, &raw_bytes) ||
        tt_serving_find(all->service.port, request->target.model, request->target.version,
                        &self->model, &why))
        return false;
    all->asks = tt_inference_may_ask(self->model);
    int32_t rows = tt_kserve_rows_in(tt_served_model_signature(self->model), raw_bytes);
    if (!all->asks || rows == 0 || limit_time(self, &why) ||
        !tt_inference_should_ask(self->model, &request->options))
        return false;
    tt_text_clear(unread);
    tt_text_append(unread, bytes, size_bytes);
    return !unread->failed &&
           tt_inference_ask(all->service.port, self->model, rows, &self->inference, &why) == TT_OK;
}

/* While requests are refused, the model is asked before the inputs are read. True: on_asked()
 * comes. */
static bool ask(struct grpc_inference *self, const char *bytes, size_t size_bytes) {
    struct tt_grpc_call *call = self->call;
    if (!call->all->asks || call->method->kind != TT_GRPC_INFER)
        return false;
    if (!make_question(self, bytes, size_bytes)) {
        tt_kserve_request_restart(&self->request);
        return false;
    }
    call->running_count++;
    tt_list_push_back(&call->running, &self->node);
    tt_kserve_request_identify(&self->request);
    tt_inference_submit(self->inference, &self->request.options, on_asked, self);
    return true;
}

void tt_grpc_call_infer(struct tt_grpc_call *call, const char *bytes, size_t size_bytes) {
    struct grpc_inference *self = tt_grpc_inference_new(call);
    if (self && !ask(self, bytes, size_bytes))
        start(self, bytes, size_bytes);
}

void tt_grpc_call_cancel(struct tt_grpc_call *call) {
    struct tt_list_node *node = tt_list_first(&call->running);
    for (; node; node = tt_list_next(&call->running, node))
        tt_inference_cancel(TT_CONTAINER_OF(node, struct grpc_inference, node)->inference);
}

void tt_grpc_calls_fini(struct tt_grpc_calls *self) {
    struct tt_list_node *node;
    tt_assert(self->call_count == 0);
    tt_body_budget_fini(&self->budget);
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
