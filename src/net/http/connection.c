#include "net/http/connection.h"

#include "base/clock.h"
#include "net/http/http1.h"
#include "net/sockets/pool_work.h"
#include "net/sockets/short_write.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEPT = 64,            /* objects for reuse, of each kind */
    EVENTS_BYTES = 16384, /* of a stream, written at once */
    JOINED_BYTES = 768,   /* shorter answers join their heads: one buffer costs less than three */
};

struct tt_connection {
    union {
        uv_tcp_t tcp;
        uv_pipe_t pipe; /* of a Unix socket */
    };
    struct tt_tls_session *tls; /* NULL: without TLS */
    uv_shutdown_t shutdown;
    struct tt_connections *all;
    struct tt_http1 http;
    struct sending *sending; /* the request in flight or being answered */
    struct tt_text ahead;    /* bytes of later requests */
    size_t ahead_used;
    struct tt_loop_behind behind; /* reading, or what is `ahead`, waits for the loop's turn */
    int64_t received_at;          /* the first byte of the request; set if there is a journal */
    struct tt_peer_address client;
    struct tt_address_place *place; /* in the limits per address; NULL: none */
    struct tt_body_part waiting;    /* the answer, if the client does not take it */
    struct tt_list_node node;       /* in the list of `wait` */
    uint64_t since_ms;
    enum tt_wait wait;
    bool reading;
    bool reads_much; /* of a body: the last read was long */
    bool only_metrics;
    bool has_place; /* in the quota of connections */
    bool is_extra;  /* the one of its loop beside the quota, for a probe */
    bool is_reserved;
    bool is_handed_over; /* its client speaks HTTP/2, and its socket is another's */
};

/* A request and what it takes to send its reply. It outlives its connection while the exchange
 * runs. */
struct sending {
    struct tt_http_transaction transaction;
    struct tt_connections *all;
    struct tt_connection *connection; /* NULL: the client has gone */
    bool keep_alive;
    /* Of a stream of events: its head is composed, a part of it is being written, that part is the
     * last one. */
    bool has_begun, is_writing, is_last;
    struct tt_text head;
    uv_write_t write;
    uv_buf_t buffers[TT_MAX_TENSORS + 2];
    unsigned buffer_count, buffer_at; /* buffer_at: with TLS, the first that is not encrypted */
    size_t buffer_bytes;              /* of all buffers, as they were */
    struct tt_text sealed;            /* with TLS: encrypted, being written */
};

static struct sending *sending_of(struct tt_exchange *exchange) {
    struct tt_http_transaction *transaction =
        TT_CONTAINER_OF(exchange, struct tt_http_transaction, exchange);
    return TT_CONTAINER_OF(transaction, struct sending, transaction);
}

static void process(struct tt_connection *self);
static void set_reading(struct tt_connection *self, bool reading);

static void wait_for(struct tt_connection *self, enum tt_wait wait) {
    if (self->wait == wait && tt_list_linked(&self->node))
        return;
    if (tt_list_linked(&self->node))
        tt_list_remove(&self->node);
    self->wait = wait;
    self->since_ms = uv_now(self->all->transactions->loop);
    tt_list_push_back(&self->all->waits[wait], &self->node);
}

bool tt_connections_empty(const struct tt_connections *self) { return self->connection_count == 0; }

/* --- an exchange on its connection --- */

static void on_exchanged(struct tt_exchange *exchange);
static void on_part(struct tt_exchange *exchange);
static bool send_events(struct sending *sending);

static void clear_buffers(struct sending *sending) {
    sending->buffer_count = sending->buffer_at = 0;
    sending->buffer_bytes = 0;
}

static struct sending *sending_new(struct tt_connection *connection) {
    struct tt_http1_request *request = connection->http.request; /* NULL: none was read */
    struct sending *sending = tt_spares_take(&connection->all->sendings);
    if (!sending)
        return NULL;
    tt_assert(!connection->sending);
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    sending->all = connection->all;
    sending->connection = connection;
    sending->keep_alive = false;
    sending->has_begun = sending->is_writing = sending->is_last = false;
    clear_buffers(sending);
    tt_text_init(&sending->sealed);
    sending->write.data = sending;
    tt_text_init(&sending->head);
    tt_http_transaction_begin(&sending->transaction, connection->all->transactions,
                              request ? &request->message : NULL, connection->received_at,
                              &connection->client, tt_address_place_holder(connection->place),
                              on_exchanged, on_part);
    connection->sending = sending;
    return sending;
}

static void sending_free(struct sending *sending, bool answered) {
    tt_text_fini(&sending->head);
    tt_text_fini(&sending->sealed);
    tt_http_transaction_end(&sending->transaction, answered);
    tt_spares_give(&sending->all->sendings, sending);
}

/* --- closing --- */

static void on_closed(uv_handle_t *handle) {
    struct tt_connection *self = handle->data;
    struct tt_connections *all = self->all;
    tt_assert(self->sending == NULL);
    tt_list_remove(&self->node);
    tt_pool_work_free(all->transactions->loop, tt_http1_body(&self->http));
    tt_http1_fini(&self->http);
    tt_text_fini(&self->ahead);
    if (self->has_place)
        tt_quota_give(all->places, 1);
    if (self->is_extra)
        all->has_extra = false;
    tt_address_limits_leave(all->addresses, self->place);
    tt_tls_session_free(self->tls);
    bool is_handed_over = self->is_handed_over;
    free(self);
    tt_assert(all->connection_count > 0);
    all->connection_count--;
    if (!is_handed_over) /* else it goes on elsewhere */
        tt_counter_add(&all->transactions->counts.ended, 1);
    all->transactions->on_end(all->transactions->owner);
}

static void connection_close(struct tt_connection *self) {
    if (self->wait == TT_WAIT_CLOSED)
        return;
    wait_for(self, TT_WAIT_CLOSED);
    tt_loop_turn_forget(&self->behind);
    tt_body_part_end(&self->waiting);
    struct sending *sending = self->sending;
    struct tt_exchange *exchange = sending ? &sending->transaction.exchange : NULL;
    if (exchange && exchange->is_running) {
        if (!sending->is_writing) { /* else its write fails before on_closed */
            sending->connection = NULL;
            self->sending = NULL;
        }
        tt_exchange_abandon(exchange);
    }
    uv_close((uv_handle_t *)&self->tcp, on_closed);
}

/* Writes the bytes, or closes the connection. */
static void write_short(struct tt_connection *self, const char *bytes, size_t count) {
    if (!tt_short_write((uv_stream_t *)&self->tcp, bytes, count))
        connection_close(self);
}

/* Writes what TLS has to say by itself: the handshake, the end. */
static void flush_tls(struct tt_connection *self) {
    struct tt_text *out = &self->tls->out;
    if (out->failed)
        connection_close(self);
    else if (out->length)
        write_short(self, out->bytes, out->length);
    tt_tls_loop_written(self->all->tls, self->tls);
}

static void on_shutdown(uv_shutdown_t *request, int status) {
    (void)request;
    (void)status;
}

/* Sends the end, then reads and discards until the client closes too: closing with unread bytes
 * would make the kernel reset the connection, and the client might lose the reply. */
static void linger(struct tt_connection *self) {
    wait_for(self, TT_WAIT_LINGER);
    self->reads_much = true; /* of what is left of a body, perhaps */
    set_reading(self, true);
    if (self->tls && self->wait != TT_WAIT_CLOSED) {
        tt_tls_session_end(self->tls);
        flush_tls(self);
    }
    if (self->wait == TT_WAIT_CLOSED)
        return;
    if (uv_shutdown(&self->shutdown, (uv_stream_t *)&self->tcp, on_shutdown) < 0)
        connection_close(self);
}

/* --- sending --- */

static void finish_reply(struct sending *sending, bool answered) {
    struct tt_connection *self = sending->connection;
    bool keep_alive = sending->keep_alive;
    tt_assert(self->sending == sending);
    self->sending = NULL;
    sending_free(sending, answered);
    if (self->wait == TT_WAIT_CLOSED)
        return;
    if (!answered)
        connection_close(self);
    else if (!keep_alive || self->all->transactions->stopping)
        linger(self);
    else
        wait_for(self, TT_WAIT_IDLE);
}

/* The reply was written, or will not be. An exchange that runs goes on without its connection. */
static void end_reply(struct sending *sending, bool answered) {
    struct tt_connection *self = sending->connection;
    if (!sending->transaction.exchange.is_running) {
        finish_reply(sending, answered);
        return;
    }
    connection_close(self); /* abandons it, unless it was closed before */
    sending->connection = NULL;
    self->sending = NULL;
}

/* What was to be sent was sent, or (not `good`) it cannot be: on with the stream, or to the end of
 * the reply. */
static void go_on(struct sending *sending, bool good) {
    struct tt_connection *self = sending->connection;
    bool has_more = sending->has_begun && !sending->is_last;
    tt_body_part_clear(&self->waiting);
    if (has_more && good && self->wait != TT_WAIT_CLOSED)
        (void)send_events(sending);
    else
        end_reply(sending, good && !has_more);
    if (self->wait == TT_WAIT_IDLE)
        process(self);
}

static void on_written(uv_write_t *write, int status) {
    struct sending *sending = write->data;
    tt_assert(sending->connection != NULL);
    sending->is_writing = false;
    go_on(sending, status == 0);
}

static void add_buffer(struct sending *sending, const void *bytes, size_t count) {
    if (!count)
        return;
    sending->buffers[sending->buffer_count++] =
        (uv_buf_t){.base = (char *)(uintptr_t)bytes, .len = count};
    sending->buffer_bytes += count;
}

enum sent { SENT_ALL, SENT_PART, SENT_FAILED }; /* the loop writes the rest of a part */

static enum sent send_sealed(struct sending *sending);

static void on_sealed_written(uv_write_t *write, int status) {
    struct sending *sending = write->data;
    enum sent sent = SENT_FAILED;
    tt_assert(sending->connection != NULL);
    tt_text_fini(&sending->sealed);
    sending->is_writing = false;
    if (status == 0 && sending->connection->wait != TT_WAIT_CLOSED)
        sent = send_sealed(sending);
    if (sent != SENT_PART)
        go_on(sending, sent == SENT_ALL);
}

/* Encrypts the next part of the reply, which is limited. */
static bool seal(struct sending *sending) {
    struct tt_tls_loop *loop = sending->all->tls;
    struct tt_tls_session *tls = sending->connection->tls;
    bool good = true;
    while (good && sending->buffer_at < sending->buffer_count &&
           tls->out.length < TT_TLS_SEAL_BYTES) {
        uv_buf_t *buffer = &sending->buffers[sending->buffer_at];
        size_t count = buffer->len < TT_TLS_SEAL_BYTES ? buffer->len : TT_TLS_SEAL_BYTES;
        good = tt_tls_loop_add(loop, tls, buffer->base, count);
        buffer->base += count;
        buffer->len -= count;
        sending->buffer_at += buffer->len == 0;
    }
    return tt_tls_loop_end(loop, tls) && good;
}

/* Encrypts and writes part after part while the socket takes them. */
static enum sent send_sealed(struct sending *sending) {
    struct tt_connection *self = sending->connection;
    struct tt_text *out = &self->tls->out;
    uv_stream_t *stream = (uv_stream_t *)&self->tcp;
    while (sending->buffer_at < sending->buffer_count) {
        if (!seal(sending))
            return SENT_FAILED;
        uv_buf_t buffer = {.base = out->bytes, .len = out->length};
        int sent = uv_try_write(stream, &buffer, 1);
        if (sent == (int)buffer.len) {
            tt_tls_loop_written(sending->all->tls, self->tls);
            continue;
        }
        sending->sealed = *out; /* what TLS says meanwhile comes after it */
        tt_text_init(out);
        buffer.base += sent > 0 ? sent : 0;
        buffer.len -= sent > 0 ? (size_t)sent : 0;
        sending->is_writing = true;
        if ((sent >= 0 || sent == UV_EAGAIN) &&
            uv_write(&sending->write, stream, &buffer, 1, on_sealed_written) == 0)
            return SENT_PART;
        sending->is_writing = false;
        return SENT_FAILED;
    }
    return SENT_ALL;
}

/* Writes what the socket takes at once, and leaves the rest to the loop. */
static enum sent send_buffers(struct sending *sending) {
    struct tt_connection *self = sending->connection;
    if (self->tls) {
        wait_for(self, TT_WAIT_WRITE);
        return send_sealed(sending);
    }
    uv_stream_t *stream = (uv_stream_t *)&self->tcp;
    uv_buf_t *buffers = sending->buffers;
    unsigned count = sending->buffer_count;
    tt_assert(count <= TT_COUNT(sending->buffers));
    wait_for(self, TT_WAIT_WRITE);
    int sent = uv_try_write(stream, buffers, count);
    size_t left = sent > 0 ? (size_t)sent : 0;
    while (count && left >= buffers->len) {
        left -= buffers->len;
        buffers++;
        count--;
    }
    if (count == 0)
        return SENT_ALL;
    buffers->base += left;
    buffers->len -= left;
    sending->is_writing = true;
    if ((sent >= 0 || sent == UV_EAGAIN) &&
        uv_write(&sending->write, stream, buffers, count, on_written) == 0)
        return SENT_PART;
    sending->is_writing = false;
    return SENT_FAILED;
}

/* The connection goes, in favour of others. */
static void give_way(struct tt_connection *self) {
    struct tt_peer_address client = self->client;
    uv_os_fd_t fd;
    if (!client.is_known && uv_fileno((uv_handle_t *)&self->tcp, &fd) == 0)
        client = tt_peer_address_of(fd);
    tt_answer_budget_evicted(self->all->answers, &client, (int64_t)self->sending->buffer_bytes);
    connection_close(self);
}

static void on_evicted(struct tt_body_part *part) {
    give_way(TT_CONTAINER_OF(part, struct tt_connection, waiting));
}

/* The client has not taken all of the answer, which takes its memory until it has. */
static void count_waiting(struct sending *sending) {
    struct tt_connection *self = sending->connection;
    int64_t now_ms = (int64_t)uv_now(self->all->transactions->loop);
    if (!tt_answer_budget_count(self->all->answers, &self->waiting, (int64_t)sending->buffer_bytes,
                                now_ms))
        give_way(self);
}

/* --- a stream of events --- */

static void begin_events(struct sending *sending) {
    struct tt_http_head answer;
    sending->has_begun = true;
    sending->keep_alive &= !sending->all->transactions->stopping;
    tt_http_transaction_compose_events(&sending->transaction, &answer);
    answer.keep_alive = sending->keep_alive;
    tt_http1_write_head(&answer, &sending->head);
}

static const char chunk_head[] = "00000000\r\n"; /* of a chunk whose length is not known yet */

/* The chunk from `begin` on, with its head, has `bytes` bytes. */
static void end_chunk(struct tt_text *text, size_t begin, size_t bytes) {
    for (size_t i = 0; i < 8; i++)
        text->bytes[begin + i] = "0123456789abcdef"[bytes >> (4 * (7 - i)) & 15];
    tt_text_puts(text, "\r\n");
}

/* Appends the events that are there, as one chunk if the connection is to be kept. */
static void put_events(struct sending *sending) {
    struct tt_text *text = &sending->head;
    struct tt_exchange *exchange = &sending->transaction.exchange;
    size_t begin = text->length;
    if (sending->keep_alive)
        tt_text_puts(text, chunk_head);
    size_t from = text->length;
    bool good = tt_exchange_read(exchange, text, from + EVENTS_BYTES);
    size_t bytes = text->length - from;
    sending->is_last = !good || exchange->is_read;
    sending->transaction.body_bytes += (int64_t)bytes;
    if (!sending->keep_alive || text->failed)
        return;
    if (bytes > 0)
        end_chunk(text, begin, bytes);
    else
        text->length = begin;
    if (sending->is_last)
        tt_text_puts(text, "0\r\n\r\n");
}

/* Writes the events that are there, until the socket takes no more; later ones follow when these
 * are written, or when they exist. True: the stream has ended, and the connection may go on. */
static bool send_events(struct sending *sending) {
    struct tt_connection *self = sending->connection;
    while (!sending->is_writing) {
        tt_text_clear(&sending->head);
        if (!sending->has_begun)
            begin_events(sending);
        put_events(sending);
        if (sending->head.failed) {
            end_reply(sending, false);
            return false;
        }
        if (sending->head.length == 0 && !sending->is_last) {
            wait_for(self, TT_WAIT_FLIGHT);
            return false;
        }
        clear_buffers(sending);
        add_buffer(sending, sending->head.bytes, sending->head.length);
        enum sent sent = sending->buffer_count ? send_buffers(sending) : SENT_ALL;
        if (sent == SENT_PART)
            count_waiting(sending);
        if (sent == SENT_FAILED || (sent == SENT_ALL && sending->is_last)) {
            end_reply(sending, sent == SENT_ALL);
            return sent == SENT_ALL;
        }
    }
    return false;
}

/* There are events to read. */
static void on_part(struct tt_exchange *exchange) {
    struct sending *sending = sending_of(exchange);
    tt_assert(sending->connection != NULL);
    (void)send_events(sending);
}

/* --- a reply --- */

/* Most answers are written at once: they are composed in a text that all connections share. */
static void send_reply(struct sending *sending) {
    const struct tt_connection *self = sending->connection;
    struct tt_text *text = &sending->all->composed;
    struct tt_http_head answer;
    struct tt_coding_piece pieces[TT_HTTP_ANSWER_PIECES];
    tt_assert(sending->buffer_count == 0);
    sending->keep_alive &= !sending->all->transactions->stopping;
    int piece_count = tt_http_transaction_compose(&sending->transaction, &answer, pieces);
    answer.keep_alive = sending->keep_alive;
    bool is_joined = piece_count && answer.content_bytes <= JOINED_BYTES && !self->tls;
    tt_text_clear(text);
    tt_http1_write_head(&answer, text);
    for (int i = 0; i < piece_count && is_joined; i++)
        tt_text_append(text, pieces[i].bytes, pieces[i].count);
    if (text->failed) {
        finish_reply(sending, false);
        return;
    }
    add_buffer(sending, text->bytes, text->length);
    for (int i = 0; i < piece_count && !is_joined; i++)
        add_buffer(sending, pieces[i].bytes, pieces[i].count);
    enum sent sent = send_buffers(sending);
    if (sent == SENT_PART) { /* the rest is its own */
        count_waiting(sending);
        sending->head = *text;
        tt_text_init(text);
    } else {
        finish_reply(sending, sent == SENT_ALL);
    }
}

/* An exchange that ran elsewhere is done. */
static void on_exchanged(struct tt_exchange *exchange) {
    struct sending *sending = sending_of(exchange);
    struct tt_connection *self = sending->connection;
    if (!self) {
        sending_free(sending, false);
        return;
    }
    if (exchange->is_abandoned)
        return; /* a write of it is about to fail */
    if (exchange->is_stream)
        (void)send_events(sending);
    else
        send_reply(sending);
    if (self->wait == TT_WAIT_IDLE)
        process(self);
}

/* --- requests --- */

/* Takes a complete request. */
static void take_request(struct tt_connection *self) {
    struct tt_http1_request *request = self->http.request;
    tt_assert(request != NULL);
    struct sending *sending = sending_new(self);
    if (!sending) {
        connection_close(self);
        return;
    }
    sending->keep_alive = request->keep_alive && !self->is_reserved;
    struct tt_http_message *message = tt_http1_take(&self->http);
    self->http.takes_http2 = false;
    if (tt_http_transaction_start(&sending->transaction, &message, self->only_metrics))
        send_reply(sending);
    else
        wait_for(self, TT_WAIT_FLIGHT);
    tt_http_message_free(message);
    tt_http1_reset(&self->http);
}

/* The last reply of a connection whose bytes cannot be understood (any more). */
static void refuse(struct tt_connection *self, int status, const char *sentence) {
    tt_assert(self->wait < TT_WAIT_FLIGHT);
    struct sending *sending = sending_new(self);
    if (!sending) {
        connection_close(self);
        return;
    }
    tt_http_transaction_refuse(&sending->transaction, status, sentence);
    /* The rest of the request: the client may linger for long. */
    tt_pool_work_free(self->all->transactions->loop, tt_http1_body(&self->http));
    tt_http1_fini(&self->http);
    send_reply(sending);
}

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void send_continue(struct tt_connection *self) {
    const size_t count = sizeof(continue_line) - 1;
    if (!self->tls)
        write_short(self, continue_line, count);
    else if (tt_tls_session_write(self->tls, continue_line, count))
        flush_tls(self);
    else
        connection_close(self);
}

static const char too_many[] = "too many connections; try again later";

/* The head of a request is there; false: it was refused. */
static bool take_head(struct tt_connection *self) {
    if (!self->is_reserved) {
        tt_http_transactions_identify(self->all->transactions, &self->http.request->message,
                                      tt_address_place_holder(self->place));
        wait_for(self, TT_WAIT_BODY);
        return true;
    }
    if (tt_http_is_probe(self->http.request->message.target))
        return true;
    refuse(self, 503, too_many);
    return false;
}

/* --- HTTP/2 --- */

/* Opens the socket of a connection a second time; the first handle is then closed. */
static int take_socket(void *client, uv_tcp_t *tcp) {
    struct tt_connection *self = client;
    uv_os_fd_t fd;
    int failed = uv_fileno((uv_handle_t *)&self->tcp, &fd);
    if (failed)
        return failed;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return uv_translate_sys_error(errno);
    failed = self->all->is_local ? uv_pipe_open((uv_pipe_t *)tcp, copy) : uv_tcp_open(tcp, copy);
    if (failed)
        close(copy);
    return failed;
}

/* The client speaks HTTP/2: what follows goes to a connection of net/http2. `bytes` were received
 * already. */
static void hand_over(struct tt_connection *self, bool has_preface, const char *bytes,
                      size_t count) {
    struct tt_http2_newcomer newcomer = {.take = take_socket,
                                         .client = self,
                                         .tls = self->tls,
                                         .peer = self->client,
                                         .place = self->place,
                                         .has_quota = self->has_place,
                                         .is_reserved = self->is_reserved,
                                         .only_metrics = self->only_metrics,
                                         .has_preface = has_preface,
                                         .bytes = bytes,
                                         .count = count};
    tt_assert(!self->sending);
    bool is_busy = uv_stream_get_write_queue_size((uv_stream_t *)&self->tcp) > 0;
    /* An extra one is counted here only. */
    if (!is_busy && !self->is_extra && tt_http2_connections_adopt(self->all->http2, &newcomer)) {
        self->tls = NULL;
        self->place = NULL;
        self->has_place = false;
        self->is_handed_over = true;
    }
    connection_close(self);
}

/* True: the request that comes next waits for the loop's next turn. */
static bool is_deferred(struct tt_connection *self) {
    struct tt_loop_turn *turn = self->all->turn;
    if (!turn || self->sending || self->wait >= TT_WAIT_FLIGHT || !tt_loop_turn_is_over(turn))
        return false;
    self->behind.is_long = false;
    tt_loop_turn_defer(turn, &self->behind);
    return true;
}

/* Parses until a request is in flight, or the bytes or the turn end; returns how many it used. */
static size_t consume(struct tt_connection *self, const char *bytes, size_t count) {
    size_t at = 0;
    while (!self->sending && self->wait < TT_WAIT_FLIGHT) {
        size_t used;
        if (tt_journal_is_on(&self->all->transactions->journal) && !tt_http1_started(&self->http))
            self->received_at = tt_clock_now();
        const char *sentence;
        int status;
        switch (tt_http1_feed(&self->http, bytes + at, count - at, &used)) {
        case TT_HTTP1_MORE:
            if (tt_http1_started(&self->http) && self->wait == TT_WAIT_IDLE)
                wait_for(self, TT_WAIT_HEAD);
            return count;
        case TT_HTTP1_HEAD:
            at += used;
            if (!take_head(self))
                return count;
            if (self->http.request->message.expects_continue && at == count)
                send_continue(self);
            break;
        case TT_HTTP1_MESSAGE:
            at += used;
            take_request(self);
            if (at < count && is_deferred(self))
                return at;
            break;
        case TT_HTTP1_BAD:
            status = tt_http1_problem(&self->http, &sentence);
            refuse(self, status, sentence);
            return count; /* what follows can be anything */
        case TT_HTTP1_HTTP2:
            hand_over(self, true, bytes + at + used, count - at - used);
            return count;
        }
    }
    tt_assert(at <= count);
    return self->wait >= TT_WAIT_LINGER ? count : at;
}

/* Goes on with what the client sent ahead. */
static void process(struct tt_connection *self) {
    struct tt_text *ahead = &self->ahead;
    if (tt_list_linked(&self->behind.node))
        return; /* in the next turn */
    if (ahead->length)
        self->ahead_used +=
            consume(self, ahead->bytes + self->ahead_used, ahead->length - self->ahead_used);
    if (self->wait == TT_WAIT_CLOSED)
        return;
    tt_assert(self->ahead_used <= ahead->length);
    if (self->ahead_used == ahead->length) { /* an idle connection keeps no memory */
        tt_text_fini(ahead);
        self->ahead_used = 0;
    }
    if (ahead->length - self->ahead_used <= (size_t)self->all->limits->pipeline_bytes)
        set_reading(self, true);
}

static void keep_ahead(struct tt_connection *self, const char *bytes, size_t count) {
    tt_text_append(&self->ahead, bytes, count);
    if (self->ahead.failed)
        connection_close(self);
    else if (self->ahead.length - self->ahead_used > (size_t)self->all->limits->pipeline_bytes)
        set_reading(self, false);
}

/* --- the socket --- */

/* Where the next bytes of requests go: those of a body into its place, else to `other`. */
static uv_buf_t place(struct tt_connection *self, char *other, size_t other_bytes) {
    size_t missing = 0;
    char *space =
        self->sending || self->ahead.length ? NULL : tt_http1_body_space(&self->http, &missing);
    return space ? (uv_buf_t){.base = space, .len = missing}
                 : (uv_buf_t){.base = other, .len = other_bytes};
}

/* It takes milliseconds. */
static bool is_in_handshake(const struct tt_connection *self) {
    return self->tls && !self->tls->is_established;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    (void)suggested;
    struct tt_connection *self = handle->data;
    char *other = self->all->read_buffer;
    struct tt_loop_turn *turn = self->all->turn;
    if (turn &&
        tt_loop_turn_must_wait(turn, self->behind.lane, self->reads_much || is_in_handshake(self)))
        *out_buffer = (uv_buf_t){.base = NULL, .len = 0}; /* on_read() gets UV_ENOBUFS */
    else
        *out_buffer = self->tls ? (uv_buf_t){.base = other, .len = TT_READ_BUFFER_BYTES}
                                : place(self, other, TT_READ_BUFFER_BYTES);
}

static void receive(struct tt_connection *self, const char *bytes, size_t count) {
    size_t used = 0;
    if (!self->sending && !self->ahead.length)
        used = consume(self, bytes, count);
    if (used < count && self->wait < TT_WAIT_LINGER)
        keep_ahead(self, bytes + used, count - used);
}

static void receive_tls(struct tt_connection *self, const char *bytes, size_t count) {
    struct tt_tls_session *tls = self->tls;
    enum tt_tls_event event;
    bool was_established = tls->is_established;
    tt_tls_session_feed(tls, bytes, count);
    for (;;) {
        uv_buf_t to = place(self, self->all->tls->plain, TT_TLS_PLAIN_BYTES);
        event = tt_tls_session_read(tls, to.base, to.len, &count);
        bool is_new = !was_established && tls->is_established && !tls->is_failed;
        if (is_new && tt_tls_session_is_http2(tls)) {
            hand_over(self, false, to.base, event == TT_TLS_DATA ? count : 0);
            return;
        }
        if (is_new && self->wait == TT_WAIT_HEAD)
            wait_for(self, TT_WAIT_IDLE);
        was_established = tls->is_established;
        if (event != TT_TLS_DATA)
            break;
        if (self->wait < TT_WAIT_LINGER)
            receive(self, to.base, count);
        if (self->wait == TT_WAIT_CLOSED)
            return;
    }
    flush_tls(self);
    if (event != TT_TLS_MORE)
        connection_close(self);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct tt_connection *self = stream->data;
    if (count == 0 || self->wait == TT_WAIT_CLOSED)
        return;
    if (count == UV_ENOBUFS) { /* what came waits in the socket */
        set_reading(self, false);
        self->behind.is_long = self->reads_much;
        tt_loop_turn_defer(self->all->turn, &self->behind);
        return;
    }
    if (count < 0)
        connection_close(self);
    if (self->wait >= TT_WAIT_LINGER)
        return;
    (self->tls ? receive_tls : receive)(self, buffer->base, (size_t)count);
    self->reads_much = count >= TT_HTTP1_PIECE / 4 && self->wait == TT_WAIT_BODY;
}

/* Reads without waiting for the loop; ends and errors come by it. */
static void read_now(struct tt_connection *self) {
    uv_os_fd_t fd;
    uv_buf_t buffer;
    on_alloc((uv_handle_t *)&self->tcp, 0, &buffer);
    ssize_t count = -1;
    if (uv_fileno((uv_handle_t *)&self->tcp, &fd) == 0)
        count = read(fd, buffer.base, buffer.len);
    if (count > 0)
        on_read((uv_stream_t *)&self->tcp, count, &buffer);
}

static void go_on_behind(struct tt_loop_behind *behind) {
    struct tt_connection *self = TT_CONTAINER_OF(behind, struct tt_connection, behind);
    bool was_reading = self->reading;
    if (self->ahead.length)
        process(self);
    else
        set_reading(self, true);
    if (!was_reading && self->reading)
        read_now(self);
}

static void set_reading(struct tt_connection *self, bool reading) {
    if (self->reading == reading || self->wait == TT_WAIT_CLOSED)
        return;
    self->reading = reading;
    if (!reading)
        uv_read_stop((uv_stream_t *)&self->tcp);
    else if (uv_read_start((uv_stream_t *)&self->tcp, on_alloc, on_read) < 0)
        connection_close(self);
}

/* --- all connections --- */

static void expire(struct tt_connection *self) {
    bool has_limit = self->wait == TT_WAIT_HEAD || self->wait == TT_WAIT_BODY;
    if (is_in_handshake(self) || !(has_limit || self->wait == TT_WAIT_PROBE))
        connection_close(self);
    else if (self->wait == TT_WAIT_PROBE)
        refuse(self, 503, too_many);
    else
        refuse(self, 408,
               self->wait == TT_WAIT_HEAD ? "the request line and headers took too long to come"
                                          : "the body took too long to come");
}

/* Each list is in order of expiry, so only connections that are due are touched. */
void tt_connections_expire(struct tt_connections *self) {
    uint64_t now = uv_now(self->transactions->loop);
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++) {
        struct tt_list_node *node;
        while (self->limits_ms[wait] && (node = tt_list_first(&self->waits[wait])) != NULL) {
            struct tt_connection *connection = TT_CONTAINER_OF(node, struct tt_connection, node);
            if (now - connection->since_ms < self->limits_ms[wait])
                break;
            expire(connection);
            tt_assert(connection->wait != (enum tt_wait)wait); /* else this loop would not end */
        }
    }
}

static void close_waiting(struct tt_connections *self, int wait) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->waits[wait])) != NULL)
        connection_close(TT_CONTAINER_OF(node, struct tt_connection, node));
}

void tt_connections_stop(struct tt_connections *self) { close_waiting(self, TT_WAIT_IDLE); }

void tt_connections_close_all(struct tt_connections *self) {
    for (int wait = 0; wait < TT_WAIT_CLOSED; wait++)
        close_waiting(self, wait);
}

/* Without a place in the quota the connection gets that of the reserved one of this loop which has
 * waited longest for its request, and is answered 503; if none waits, the loop's extra one. So
 * clients that hold reserved connections without a request do not hide the server from its probes,
 * whichever loops they are on. */
static void take_reserved_place(struct tt_connection *self) {
    struct tt_connections *all = self->all;
    struct tt_list_node *node = tt_list_first(&all->waits[TT_WAIT_PROBE]);
    if (tt_network_reserve(all->places->limit) == 0)
        return;
    self->is_reserved = true;
    if (!node) {
        self->is_extra = !all->has_extra;
        all->has_extra = true;
        return;
    }
    struct tt_connection *waiting = TT_CONTAINER_OF(node, struct tt_connection, node);
    tt_assert(waiting->has_place || waiting->is_extra);
    self->has_place = waiting->has_place;
    self->is_extra = waiting->is_extra;
    waiting->has_place = waiting->is_extra = false;
    expire(waiting);
}

/* Takes a new connection into the limits, or ends it. */
static void admit(struct tt_connection *self, bool is_full) {
    struct tt_address_limits *addresses = self->all->addresses;
    struct tt_error why;
    is_full = is_full || !(self->has_place || self->is_extra);
    if (!is_full &&
        (!addresses || tt_address_limits_enter(addresses, &self->client, &self->place, &why)))
        return;
    if (self->tls) /* a handshake would cost more than the reply is worth */
        connection_close(self);
    else if (is_full)
        refuse(self, 503, too_many);
    else
        refuse(self, 429, why.text);
}

/* A body has to go, in favour of others. */
static void give_up(struct tt_http_message *message, const char *sentence) {
    struct tt_http1 *http = message->owner;
    struct tt_connection *self = TT_CONTAINER_OF(http, struct tt_connection, http);
    if (self->wait < TT_WAIT_FLIGHT) /* else it is being closed */
        refuse(self, 503, sentence);
}

bool tt_connections_accept(struct tt_connections *self, tt_take_socket_fn *take, void *client,
                           bool only_metrics, bool is_full) {
    struct tt_http_transactions *transactions = self->transactions;
    struct tt_connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return false;
    connection->all = self;
    connection->behind.go_on = go_on_behind;
    connection->waiting.evict = on_evicted;
    connection->only_metrics = only_metrics;
    if (self->tls) {
        connection->tls = tt_tls_loop_accept(self->tls, TT_TLS_HTTP);
        if (!connection->tls) {
            free(connection);
            return false;
        }
    }
    tt_http1_init(&connection->http, &transactions->message_limits);
    connection->http.spares = &self->requests;
    connection->http.give_up = give_up;
    connection->http.takes_http2 = !self->tls;
    if (self->is_local)
        uv_pipe_init(transactions->loop, &connection->pipe, 0);
    else
        uv_tcp_init(transactions->loop, &connection->tcp);
    connection->tcp.data = connection;
    self->connection_count++;
    tt_counter_add(&transactions->counts.opened, 1);
    connection->has_place = !is_full && tt_quota_take(self->places, 1);
    if (!is_full && !connection->has_place)
        take_reserved_place(connection);
    int64_t shared = self->places->limit - tt_network_reserve(self->places->limit);
    connection->is_reserved |= tt_quota_used(self->places) > shared;
    wait_for(connection, connection->is_reserved ? TT_WAIT_PROBE
                         : self->tls             ? TT_WAIT_HEAD
                                                 : TT_WAIT_IDLE);
    if (take(client, &connection->tcp) < 0) {
        connection_close(connection);
        return true;
    }
    tt_counter_add(&transactions->counts.accepted, 1);
    if (!self->is_local)
        uv_tcp_nodelay(&connection->tcp, 1);
    uv_os_fd_t fd;
    if (!self->is_local && uv_fileno((uv_handle_t *)&connection->tcp, &fd) == 0)
        connection->client = tt_peer_address_of(fd);
    connection->behind.lane = tt_peer_address_lane(&connection->client);
    set_reading(connection, true);
    if (connection->wait != TT_WAIT_CLOSED)
        admit(connection, is_full);
    return true;
}

void tt_connections_init(struct tt_connections *self, struct tt_http_transactions *transactions,
                         struct tt_http2_connections *http2, struct tt_network_quotas *quotas) {
    const struct tt_limits *limits = transactions->limits;
    self->transactions = transactions;
    self->http2 = http2;
    self->limits = limits;
    self->tls = NULL;
    self->addresses = NULL;
    self->answers = NULL;
    self->is_local = false;
    self->turn = NULL;
    self->connection_count = 0;
    self->has_extra = false;
    tt_spares_init(&self->requests, sizeof(struct tt_http1_request), KEPT);
    tt_spares_init(&self->sendings, sizeof(struct sending), KEPT);
    tt_text_init(&self->composed);
    self->places = &quotas->connections;
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++) {
        tt_list_init(&self->waits[wait]);
        self->limits_ms[wait] = 0;
    }
    self->limits_ms[TT_WAIT_IDLE] = (uint64_t)limits->idle_timeout_ms;
    self->limits_ms[TT_WAIT_HEAD] = (uint64_t)limits->header_timeout_ms;
    self->limits_ms[TT_WAIT_BODY] = (uint64_t)limits->body_timeout_ms;
    self->limits_ms[TT_WAIT_WRITE] = (uint64_t)limits->write_timeout_ms;
    self->limits_ms[TT_WAIT_LINGER] = TT_LINGER_MS;
    self->limits_ms[TT_WAIT_PROBE] = TT_PROBE_MS;
}

void tt_connections_fini(struct tt_connections *self) {
    tt_assert(tt_connections_empty(self));
    tt_spares_fini(&self->requests);
    tt_spares_fini(&self->sendings);
    tt_text_fini(&self->composed);
}

uint64_t tt_connections_tick_ms(const struct tt_connections *self) {
    uint64_t shortest = TT_LINGER_MS;
    for (int wait = 0; wait < TT_WAIT_COUNT; wait++)
        if (self->limits_ms[wait] && self->limits_ms[wait] < shortest)
            shortest = self->limits_ms[wait];
    return shortest / 4 ? shortest / 4 : 1;
}
