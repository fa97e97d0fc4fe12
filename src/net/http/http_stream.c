#include "net/http/http_stream.h"

#include "base/clock.h"
#include "net/http/http2_head.h"
#include "net/sockets/pool_work.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS_BYTES = 16384 }; /* of a stream of events, sent at once */

struct stream {
    struct tt_http2_stream http2; /* the first member */
    struct tt_http_streams *all;
    struct tt_http_message *message; /* being received; NULL: there is a transaction */
    int64_t received_at;             /* its first header; set if there is a journal */
    int64_t promised_bytes;          /* Content-Length; -1: none */
    bool is_counted;                 /* in the limits of the client's address */
    bool has_transaction, is_closed;
    /* Of a stream of events: its head is sent, a part of it is being sent, the last one is. */
    bool has_begun, is_sending, is_last;
    struct tt_http_transaction transaction;
    struct tt_http2_message answer; /* or a part of it, from `send` to its release */
};

static struct stream *stream_of(struct tt_http2_stream *http2) {
    return TT_CONTAINER_OF(http2, struct stream, http2);
}

static struct stream *stream_of_exchange(struct tt_exchange *exchange) {
    struct tt_http_transaction *transaction =
        TT_CONTAINER_OF(exchange, struct tt_http_transaction, exchange);
    return TT_CONTAINER_OF(transaction, struct stream, transaction);
}

static struct stream *stream_of_answer(struct tt_http2_message *answer) {
    return TT_CONTAINER_OF(answer, struct stream, answer);
}

static void touch(struct stream *self) { self->all->touch(self->http2.session); }

/* --- life --- */

static void on_exchanged(struct tt_exchange *exchange);
static void on_part(struct tt_exchange *exchange);

static void give_up(struct tt_http_message *message, const char *sentence);

static struct tt_http2_stream *on_open(void *context, struct tt_http2_session *session) {
    (void)session;
    struct tt_http_streams *all = context;
    struct stream *self = malloc(sizeof(*self));
    struct tt_http_message *message = malloc(sizeof(*message));
    if (!self || !message) {
        free(self);
        free(message);
        return NULL;
    }
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    self->all = all;
    self->message = message;
    self->promised_bytes = -1;
    self->is_counted = self->has_transaction = self->is_closed = false;
    self->has_begun = self->is_sending = self->is_last = false;
    self->received_at = tt_journal_is_on(&all->transactions->journal) ? tt_clock_now() : 0;
    tt_http_message_init(message, &all->transactions->message_limits, give_up, self);
    return &self->http2;
}

static void drop_message(struct stream *self) {
    if (self->message)
        tt_pool_work_free(self->all->transactions->loop, &self->message->body);
    tt_http_message_free(self->message);
    self->message = NULL;
}

static void stream_free(struct stream *self) {
    tt_assert(self->is_closed);
    drop_message(self);
    if (self->has_transaction)
        tt_http_transaction_end(&self->transaction, self->http2.answered);
    free(self);
}

static void on_closed(struct tt_http2_stream *http2) {
    struct stream *self = stream_of(http2);
    struct tt_exchange *exchange = &self->transaction.exchange;
    self->is_closed = true;
    if (self->is_counted)
        tt_address_limits_end(http2->session->place);
    if (self->has_transaction && exchange->is_running)
        tt_exchange_abandon(exchange); /* on_exchanged() comes later */
    else
        stream_free(self);
}

/* --- answers --- */

static void begin_transaction(struct stream *self) {
    struct tt_http_transactions *transactions = self->all->transactions;
    tt_assert(!self->has_transaction);
    self->has_transaction = true;
    tt_http2_expect(&self->http2, false);
    tt_counter_add(&transactions->counts.http2_requests, 1);
    tt_http_transaction_begin(&self->transaction, transactions, self->message, self->received_at,
                              &self->http2.session->peer,
                              tt_address_place_holder(self->http2.session->place), on_exchanged,
                              on_part);
}

static void on_answer_sent(struct tt_http2_message *answer) {
    tt_http2_message_fini(&stream_of_answer(answer)->answer);
}

static void send_reply(struct stream *self) {
    struct tt_http_head answer;
    struct tt_coding_piece pieces[TT_HTTP_ANSWER_PIECES];
    struct tt_http2_head head;
    int count = tt_http_transaction_compose(&self->transaction, &answer, pieces);
    tt_http2_head_write(&answer, &head);
    if (self->transaction.is_head || answer.content_bytes == 0) {
        tt_http2_reject(&self->http2, head.headers, head.count);
        touch(self);
        return;
    }
    tt_http2_message_init(&self->answer, on_answer_sent);
    for (int i = 0; i < count; i++)
        tt_http2_message_add(&self->answer, pieces[i].bytes, pieces[i].count);
    tt_http2_message_add_text(&self->answer);
    if (self->answer.text.failed) {
        tt_http2_message_fini(&self->answer);
        tt_http2_reset(&self->http2, NGHTTP2_INTERNAL_ERROR);
    } else {
        tt_http2_respond(&self->http2, head.headers, head.count);
        tt_http2_send(&self->http2, &self->answer);
        tt_http2_finish(&self->http2, NULL, 0);
    }
    touch(self);
}

/* Answers a request that is not served. What follows of it is not wanted. */
static void refuse(struct stream *self, int status, const char *sentence) {
    begin_transaction(self);
    tt_http_transaction_refuse(&self->transaction, status, sentence);
    drop_message(self);
    send_reply(self);
}

static void refuse_problem(struct stream *self) {
    char sentence[sizeof(self->message->problem)]; /* the message goes before the answer */
    memcpy(sentence, self->message->problem, sizeof(sentence));
    refuse(self, self->message->problem_status, sentence);
}

static void give_up(struct tt_http_message *message, const char *sentence) {
    refuse(message->owner, 503, sentence);
}

/* --- a stream of events --- */

static void send_events(struct stream *self);

/* The socket has a part of the stream: the next one may go. */
static void on_events_sent(struct tt_http2_message *answer) {
    struct stream *self = stream_of_answer(answer);
    tt_http2_message_fini(&self->answer);
    self->is_sending = false;
    if (!self->http2.is_closed && !self->is_last)
        send_events(self);
}

static void begin_events(struct stream *self) {
    struct tt_http_head answer;
    struct tt_http2_head head;
    self->has_begun = true;
    tt_http_transaction_compose_events(&self->transaction, &answer);
    tt_http2_head_write(&answer, &head);
    tt_http2_respond(&self->http2, head.headers, head.count);
}

/* Sends the events that are there; later ones follow when these are sent, or when they exist. */
static void send_events(struct stream *self) {
    struct tt_exchange *exchange = &self->transaction.exchange;
    struct tt_text *text = &self->answer.text;
    if (self->is_sending || self->is_last)
        return;
    tt_http2_message_init(&self->answer, on_events_sent);
    bool good = tt_exchange_read(exchange, text, EVENTS_BYTES);
    self->is_last = !good || exchange->is_read;
    if (text->failed) {
        tt_http2_message_fini(&self->answer);
        self->is_last = true;
        tt_http2_reset(&self->http2, NGHTTP2_INTERNAL_ERROR);
        touch(self);
        return;
    }
    if (!self->has_begun)
        begin_events(self);
    if (text->length) {
        self->transaction.body_bytes += (int64_t)text->length;
        self->is_sending = true;
        tt_http2_message_add_text(&self->answer);
        tt_http2_send(&self->http2, &self->answer);
    }
    if (self->is_last)
        tt_http2_finish(&self->http2, NULL, 0);
    touch(self);
}

static void on_part(struct tt_exchange *exchange) { send_events(stream_of_exchange(exchange)); }

static void on_exchanged(struct tt_exchange *exchange) {
    struct stream *self = stream_of_exchange(exchange);
    if (self->is_closed)
        stream_free(self);
    else if (exchange->is_stream)
        send_events(self);
    else
        send_reply(self);
}

/* --- requests --- */

static bool is(const char *bytes, size_t count, const char *word) {
    return strlen(word) == count && memcmp(bytes, word, count) == 0;
}

static void take_target(struct tt_http_message *message, const char *value, size_t value_bytes) {
    if (value_bytes >= sizeof(message->target)) {
        tt_http_message_refuse(message, 414, "the request's target is longer than %d bytes",
                               TT_HTTP_TARGET_BYTES - 1);
        return;
    }
    memcpy(message->target, value, value_bytes);
    message->target[value_bytes] = '\0';
}

static void take_method(struct tt_http_message *message, const char *value, size_t value_bytes) {
    size_t kept = value_bytes < sizeof(message->method) ? value_bytes : sizeof(message->method) - 1;
    memcpy(message->method, value, kept);
    message->method[kept] = '\0';
}

/* A header whose value is a string of limited length. */
static void take_string(struct stream *self, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes) {
    struct tt_http_message *message = self->message;
    char string[TT_HTTP_VALUE_BYTES];
    bool is_whole = value_bytes < sizeof(string);
    memcpy(string, value, is_whole ? value_bytes : 0);
    string[is_whole ? value_bytes : 0] = '\0';
    if (is(name, name_bytes, "content-length")) /* nghttp2 has checked that it is a number */
        self->promised_bytes = strtoll(string, NULL, 10);
    else if (is(name, name_bytes, ":authority"))
        (void)tt_http_message_header(message, "host", 4, string, is_whole);
    else if (!is(name, name_bytes, "host") || message->host_count == 0)
        (void)tt_http_message_header(message, name, name_bytes, string, is_whole);
    else if (strcmp(message->host, string) != 0)
        tt_http_message_refuse(message, 400, "Host and :authority differ: which one is meant?");
}

static void on_header(struct tt_http2_stream *http2, const char *name, size_t name_bytes,
                      const char *value, size_t value_bytes) {
    struct stream *self = stream_of(http2);
    if (is(name, name_bytes, ":path"))
        take_target(self->message, value, value_bytes);
    else if (is(name, name_bytes, ":method"))
        take_method(self->message, value, value_bytes);
    else
        take_string(self, name, name_bytes, value, value_bytes);
}

static const char too_many[] = "too many connections; try again later";

/* As a request of the client's address. False: over its limit, and refused. */
static bool count(struct stream *self) {
    struct tt_error why;
    self->is_counted =
        !self->all->addresses ||
        tt_address_limits_begin(self->all->addresses, self->http2.session->place, &why);
    if (!self->is_counted)
        refuse(self, 429, why.text);
    return self->is_counted;
}

static void on_request(struct tt_http2_stream *http2) {
    static const nghttp2_nv go_on = TT_HTTP2_HEADER(":status", "100");
    struct stream *self = stream_of(http2);
    struct tt_http_message *message = self->message;
    struct tt_http2_session *session = http2->session;
    if (session->is_reserved) /* this is its one request */
        tt_http2_session_stop(session);
    if (strcmp(message->method, "CONNECT") == 0)
        tt_http_message_refuse(message, 405, "this is not a proxy: CONNECT is not supported");
    if (session->is_reserved && !tt_http_is_probe(message->target)) {
        refuse(self, 503, too_many);
        return;
    }
    if (!count(self))
        return;
    if (!message->problem_status && tt_http_message_begin_body(message, self->promised_bytes) &&
        self->promised_bytes > 0 && !tt_text_reserve(&message->body, (size_t)self->promised_bytes))
        tt_http_message_refuse(message, 503, "no memory for the body");
    if (message->problem_status) {
        refuse_problem(self);
        return;
    }
    tt_http_transactions_identify(self->all->transactions, message,
                                  tt_address_place_holder(session->place));
    if (message->expects_continue && self->promised_bytes != 0)
        tt_http2_inform(http2, &go_on, 1);
    tt_http2_expect(http2, true);
}

static void on_too_large(struct tt_http2_stream *http2) {
    struct stream *self = stream_of(http2);
    const struct tt_http_message_limits *limits = self->message->limits;
    if (http2->header_count > limits->header_count)
        tt_http_message_refuse(self->message, 431, "more than %d headers", limits->header_count);
    tt_http_message_refuse(self->message, 431, "request line and headers take more than %zu bytes",
                           limits->head_bytes);
    refuse_problem(self);
}

static void on_data(struct tt_http2_stream *http2, const char *bytes, size_t count) {
    struct stream *self = stream_of(http2);
    tt_http2_consume(http2, count);
    if (self->message && !tt_http_message_add_body(self->message, bytes, count))
        refuse_problem(self);
}

static void on_end(struct tt_http2_stream *http2) {
    struct stream *self = stream_of(http2);
    if (!self->message)
        return; /* refused */
    tt_http_message_end(self->message);
    begin_transaction(self);
    struct tt_http_message *message = self->message;
    bool is_ready =
        tt_http_transaction_start(&self->transaction, &message, http2->session->only_metrics);
    tt_http_message_free(message);
    self->message = NULL;
    if (is_ready)
        send_reply(self);
}

static void on_late(struct tt_http2_stream *http2) {
    struct stream *self = stream_of(http2);
    if (self->message)
        refuse(self, 408, "the body took too long to come");
}

const struct tt_http2_handler tt_http_stream_handler = {.open = on_open,
                                                        .header = on_header,
                                                        .request = on_request,
                                                        .too_large = on_too_large,
                                                        .data = on_data,
                                                        .end = on_end,
                                                        .late = on_late,
                                                        .closed = on_closed};
