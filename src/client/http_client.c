#include "client/http_client.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_login.h"
#include "net/tls/tls_session.h"

#include <errno.h>
#include <llhttp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    READ_BYTES = 65536,
    READS = 16, /* of one connection in a poll; what else it has is read in the next one */
    TLS_RECORD_BYTES = 16384,
    EVENTS = 64,
    HEADER_NAME_BYTES = 40
};

enum link_state { LINK_CONNECTING, LINK_IDLE, LINK_BUSY, LINK_DEAD };

static const uint32_t link_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/* A connection. */
struct tt_http_link {
    struct tt_http_client *client;
    int fd;
    struct tt_tls_session *tls; /* NULL: without TLS, or not connected yet */
    size_t tls_sent;            /* of its `out` */
    enum link_state state;
    struct tt_http_call *call; /* BUSY */
    size_t sent;               /* of its parts */
    bool complete, keep_alive; /* the answer is complete; the server keeps the connection */
    bool is_json_length;       /* the header being read is Inference-Header-Content-Length */
    size_t name_length;
    char name[HEADER_NAME_BYTES];
    llhttp_t parser;
    struct tt_list_node node; /* in idle, other or dead of the client */
};

struct tt_http_client {
    struct tt_http_client_options options;
    struct tt_http_address address;
    int epoll;
    bool ms_only;                     /* the kernel has no epoll_pwait2 */
    struct tt_list idle, other, dead; /* links; idle: last used first */
    struct tt_list waiting;           /* calls without a link, oldest first */
    struct tt_list age;               /* calls that are not over, oldest first */
    struct tt_list over;              /* calls for `done`, by their wait_node */
    struct tt_http_client_counts counts;
    int32_t connecting;
    char buffer[READ_BYTES], plain[READ_BYTES];
};

/* --- callbacks of llhttp --- */

static struct tt_http_link *link_of(llhttp_t *parser) {
    return TT_CONTAINER_OF(parser, struct tt_http_link, parser);
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http_link *link = link_of(parser);
    size_t room = sizeof(link->name) - link->name_length;
    memcpy(link->name + link->name_length, at, length < room ? length : room);
    link->name_length += length < room ? length : room;
    return 0;
}

static int on_header_field_complete(llhttp_t *parser) {
    static const char json_length[] = "Inference-Header-Content-Length";
    struct tt_http_link *link = link_of(parser);
    link->is_json_length = link->name_length == sizeof(json_length) - 1 &&
                           strncasecmp(link->name, json_length, link->name_length) == 0;
    link->name_length = 0;
    if (link->is_json_length)
        link->call->json_bytes = 0;
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http_link *link = link_of(parser);
    int64_t *value = &link->call->json_bytes;
    for (size_t i = 0; link->is_json_length && i < length; i++)
        if (at[i] < '0' || at[i] > '9' || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, at[i] - '0', value))
            return HPE_USER;
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    struct tt_http_call *call = link_of(parser)->call;
    size_t limit = parser->status_code == 200 ? call->keep_bytes : call->keep_refusal_bytes;
    size_t room = limit > call->body.length ? limit - call->body.length : 0;
    tt_text_append(&call->body, at, length < room ? length : room);
    call->body_bytes += length;
    return 0;
}

static int on_message_complete(llhttp_t *parser) {
    struct tt_http_link *link = link_of(parser);
    if (parser->status_code < 200) /* interim; the answer follows */
        return 0;
    link->complete = true;
    link->keep_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* --- calls --- */

static void call_over(struct tt_http_client *self, struct tt_http_call *call,
                      enum tt_http_outcome outcome, const char *reason) {
    if (tt_list_linked(&call->wait_node)) {
        tt_list_remove(&call->wait_node);
        self->counts.waiting--;
    } else {
        self->counts.under_way--;
    }
    tt_assert(tt_list_linked(&call->age_node));
    tt_list_remove(&call->age_node);
    call->link = NULL;
    call->outcome = outcome;
    call->reason = reason;
    call->ended_at = tt_clock_now();
    tt_list_push_back(&self->over, &call->wait_node);
}

static struct tt_http_call *first_waiting(struct tt_http_client *self) {
    struct tt_list_node *node = tt_list_first(&self->waiting);
    return node ? TT_CONTAINER_OF(node, struct tt_http_call, wait_node) : NULL;
}

static void hand_over(struct tt_http_client *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->over)) != NULL) {
        tt_list_remove(node);
        self->options.done(self->options.done_context,
                           TT_CONTAINER_OF(node, struct tt_http_call, wait_node));
    }
}

/* --- connections --- */

static void link_move(struct tt_http_link *link, struct tt_list *to, enum link_state state) {
    struct tt_http_client *self = link->client;
    self->counts.idle += (state == LINK_IDLE) - (link->state == LINK_IDLE);
    self->connecting += (state == LINK_CONNECTING) - (link->state == LINK_CONNECTING);
    if (tt_list_linked(&link->node))
        tt_list_remove(&link->node);
    link->state = state;
    tt_list_push_front(to, &link->node);
}

/* The link's memory stays until the current events are handled. */
static void link_close(struct tt_http_link *link, enum tt_http_outcome outcome,
                       const char *reason) {
    struct tt_http_client *self = link->client;
    if (link->state == LINK_DEAD)
        return;
    struct tt_http_call *call = link->call;
    link->call = NULL;
    link_move(link, &self->dead, LINK_DEAD);
    close(link->fd);
    tt_assert(self->counts.connections > 0);
    self->counts.connections--;
    if (call)
        call_over(self, call, outcome, reason);
}

static void bury(struct tt_http_client *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->dead)) != NULL) {
        tt_list_remove(node);
        struct tt_http_link *link = TT_CONTAINER_OF(node, struct tt_http_link, node);
        tt_tls_session_free(link->tls);
        free(link);
    }
}

static const char *broken_reason(int error) {
    switch (error) {
    case ECONNREFUSED: return "connection refused";
    case ECONNRESET:
    case EPIPE: return "connection reset";
    case ETIMEDOUT: return "connection timed out";
    case EHOSTUNREACH:
    case ENETUNREACH: return "host unreachable";
    case EMFILE:
    case ENFILE: return "too many open files";
    case EADDRNOTAVAIL: return "no local port left";
    default: return "connection failed";
    }
}

/* Passes as many encrypted bytes to the kernel as it takes. */
static void tls_flush(struct tt_http_link *link) {
    struct tt_text *out = &link->tls->out;
    ssize_t taken = 0;
    if (link->tls_sent < out->length)
        taken = write(link->fd, out->bytes + link->tls_sent, out->length - link->tls_sent);
    if (taken > 0)
        link->tls_sent += (size_t)taken;
    if (link->tls_sent == out->length) {
        tt_text_clear(out);
        link->tls_sent = 0;
    }
    /* Errors show when it is read, and the rest goes out on the next EPOLLOUT. */
}

/* Encrypts the whole call at once. A record costs both sides more than its bytes: all but the last
 * are full. */
static void tls_encrypt(struct tt_http_link *link) {
    struct tt_http_call *call = link->call;
    char record[TLS_RECORD_BYTES];
    size_t filled = 0;
    for (int32_t i = 0; i < call->part_count; i++) {
        const char *from = call->parts[i].iov_base;
        size_t left = call->parts[i].iov_len;
        link->sent += left;
        while (left) {
            size_t count = left < sizeof(record) - filled ? left : sizeof(record) - filled;
            memcpy(record + filled, from, count);
            filled += count;
            from += count;
            left -= count;
            if (filled == sizeof(record)) {
                (void)tt_tls_session_write(link->tls, record, filled);
                filled = 0;
            }
        }
    }
    (void)tt_tls_session_write(link->tls, record, filled);
}

static void tls_send(struct tt_http_link *link) {
    if (link->sent == 0) {
        link->call->sent_at = tt_clock_now();
        tls_encrypt(link);
    }
    if (link->tls->is_failed)
        link_close(link, TT_HTTP_BROKEN, "TLS failed");
    else
        tls_flush(link);
}

/* Passes as many of the call's bytes to the kernel as it takes. */
static void link_send(struct tt_http_link *link) {
    struct tt_http_call *call = link->call;
    if (link->tls) {
        tls_send(link);
        return;
    }
    struct iovec left[TT_HTTP_CALL_PARTS];
    int count = 0;
    size_t skip = link->sent;
    for (int32_t i = 0; i < call->part_count; i++) {
        if (skip >= call->parts[i].iov_len) {
            skip -= call->parts[i].iov_len;
            continue;
        }
        left[count++] = (struct iovec){.iov_base = (char *)call->parts[i].iov_base + skip,
                                       .iov_len = call->parts[i].iov_len - skip};
        skip = 0;
    }
    if (count == 0)
        return;
    if (call->sent_at < 0)
        call->sent_at = tt_clock_now();
    ssize_t taken = writev(link->fd, left, count);
    if (taken >= 0)
        link->sent += (size_t)taken; /* the rest on the next EPOLLOUT */
    else if (errno != EAGAIN && errno != EINTR && errno != EPIPE && errno != ECONNRESET)
        link_close(link, TT_HTTP_BROKEN, broken_reason(errno));
    /* EPIPE and ECONNRESET: the server may have answered before it closed; link_read decides. */
}

static void link_begin(struct tt_http_link *link, struct tt_http_call *call) {
    struct tt_http_client *self = link->client;
    tt_assert(link->call == NULL);
    tt_assert(call->link == NULL);
    tt_list_remove(&call->wait_node);
    self->counts.waiting--;
    self->counts.under_way++;
    link_move(link, &self->other, LINK_BUSY);
    link->call = call;
    call->link = link;
    link->sent = 0;
    link->complete = false;
    link->name_length = 0;
    link->is_json_length = false;
    llhttp_init(&link->parser, HTTP_RESPONSE, &settings);
    link_send(link);
}

/* 0, or errno. */
static int link_open(struct tt_http_client *self) {
    struct tt_http_link *link = calloc(1, sizeof(*link));
    if (!link)
        return ENOMEM;
    const struct sockaddr *to = (const struct sockaddr *)&self->address.socket_address;
    link->client = self;
    link->state = LINK_BUSY; /* not counted by link_move */
    link->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0) {
        int error = errno;
        free(link);
        return error;
    }
    int one = 1;
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event event = {.events = link_events, .data.ptr = link};
    int failed = connect(link->fd, to, self->address.socket_address_bytes);
    if (failed && errno == EINPROGRESS)
        failed = 0;
    if (failed || epoll_ctl(self->epoll, EPOLL_CTL_ADD, link->fd, &event) < 0) {
        int error = errno;
        close(link->fd);
        free(link);
        return error;
    }
    self->counts.connections++;
    self->counts.opened++;
    link_move(link, &self->other, LINK_CONNECTING);
    return 0;
}

/* Starts waiting calls on idle connections, and opens new ones. */
static void dispatch(struct tt_http_client *self) {
    struct tt_http_call *call;
    while ((call = first_waiting(self)) != NULL) {
        struct tt_list_node *node = tt_list_first(&self->idle);
        if (node) {
            link_begin(TT_CONTAINER_OF(node, struct tt_http_link, node), call);
            continue;
        }
        if (self->connecting >= self->counts.waiting ||
            self->counts.connections >= self->options.connection_limit)
            return;
        int error = link_open(self);
        if (!error)
            continue;
        if (self->counts.connections > 0) /* the call waits for one of them */
            return;
        call_over(self, call, TT_HTTP_NO_CONNECT, broken_reason(error));
    }
}

/* --- events --- */

static void answered(struct tt_http_link *link, bool more_bytes) {
    struct tt_http_client *self = link->client;
    struct tt_http_call *call = link->call;
    size_t whole = 0;
    for (int32_t i = 0; i < call->part_count; i++)
        whole += call->parts[i].iov_len;
    tt_assert(call->link == link);
    call->status = link->parser.status_code;
    link->call = NULL;
    call_over(self, call, TT_HTTP_ANSWERED, NULL);
    /* After an answer to half a request the server would read the rest as another request. */
    bool is_sent = link->sent == whole && link->tls_sent == 0;
    if (link->keep_alive && !more_bytes && is_sent)
        link_move(link, &self->idle, LINK_IDLE);
    else
        link_close(link, TT_HTTP_BROKEN, NULL);
}

static void parse(struct tt_http_link *link, const char *bytes, size_t count) {
    llhttp_errno_t error = llhttp_execute(&link->parser, bytes, count);
    if (link->complete) {
        const char *at = llhttp_get_error_pos(&link->parser);
        answered(link, at != bytes + count);
    } else if (error != HPE_OK) {
        link_close(link, TT_HTTP_MALFORMED, "the answer is not HTTP");
    }
}

static void link_ended(struct tt_http_link *link, int error) {
    if (link->state == LINK_BUSY && error == 0)
        (void)llhttp_finish(&link->parser);           /* sets `complete` where it is */
    if (link->state == LINK_BUSY && link->complete) { /* an answer that ends with the connection */
        link->keep_alive = false;
        answered(link, false);
        return;
    }
    link_close(link, TT_HTTP_BROKEN,
               error ? broken_reason(error) : "the server closed the connection");
}

/* A connection that could not be made ends the call that it was opened for. */
static void link_not_made(struct tt_http_link *link, const char *reason) {
    struct tt_http_client *self = link->client;
    link_close(link, TT_HTTP_BROKEN, NULL);
    self->counts.opened--;
    struct tt_http_call *call = first_waiting(self);
    if (call)
        call_over(self, call, TT_HTTP_NO_CONNECT, reason);
}

static void link_take(struct tt_http_link *link, const char *bytes, size_t count) {
    if (link->state != LINK_BUSY) /* bytes without a request */
        link_close(link, TT_HTTP_MALFORMED, NULL);
    else
        parse(link, bytes, count);
}

static void tls_take(struct tt_http_link *link, size_t count) {
    struct tt_http_client *self = link->client;
    struct tt_tls_session *tls = link->tls;
    enum tt_tls_event event;
    tt_tls_session_feed(tls, self->buffer, count);
    while ((event = tt_tls_session_read(tls, self->plain, READ_BYTES, &count)) == TT_TLS_DATA) {
        if (link->state != LINK_DEAD)
            link_take(link, self->plain, count);
    }
    if (link->state == LINK_DEAD)
        return;
    tls_flush(link); /* also the reason why the server is refused */
    if (link->state == LINK_CONNECTING && event == TT_TLS_MORE && tls->is_established)
        link_move(link, &self->idle, LINK_IDLE);
    else if (link->state == LINK_CONNECTING && event != TT_TLS_MORE)
        link_not_made(link, tt_tls_session_reason(tls));
    else if (event == TT_TLS_END)
        link_ended(link, 0);
    else if (event == TT_TLS_FAILED)
        link_close(link, TT_HTTP_BROKEN, tt_tls_session_reason(tls));
}

/* The socket may have more: asks for another edge. */
static void link_read_later(struct tt_http_link *link) {
    struct epoll_event event = {.events = link_events, .data.ptr = link};
    if (epoll_ctl(link->client->epoll, EPOLL_CTL_MOD, link->fd, &event) < 0)
        link_close(link, TT_HTTP_BROKEN, broken_reason(errno));
}

static void link_read(struct tt_http_link *link) {
    struct tt_http_client *self = link->client;
    for (int reads = 0; reads < READS; reads++) {
        ssize_t count = read(link->fd, self->buffer, READ_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return;
        if (count <= 0 && link->state == LINK_CONNECTING) {
            link_not_made(link, "the server closed the connection within the TLS handshake");
            return;
        }
        if (count <= 0) {
            link_ended(link, count < 0 ? errno : 0);
            return;
        }
        if (link->tls)
            tls_take(link, (size_t)count);
        else
            link_take(link, self->buffer, (size_t)count);
        if (link->state == LINK_DEAD || count < READ_BYTES)
            return; /* a short read has emptied the socket; more bytes cause a new edge */
    }
    link_read_later(link);
}

static void link_connected(struct tt_http_link *link) {
    struct tt_http_client *self = link->client;
    int error = 0;
    socklen_t bytes = sizeof(error);
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (!error && self->address.is_tls) { /* it stays CONNECTING until the handshake is over */
        link->tls = tt_tls_session_connect(self->address.login->tls, self->address.host);
        if (link->tls)
            tls_flush(link);
        else
            link_not_made(link, "no memory for TLS");
        return;
    }
    if (!error)
        link_move(link, &self->idle, LINK_IDLE);
    else
        link_not_made(link, broken_reason(error));
}

static void on_event(struct tt_http_link *link, uint32_t events) {
    if (link->state == LINK_DEAD)
        return;
    if (link->state == LINK_CONNECTING && !link->tls) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            link_connected(link);
        return;
    }
    if ((events & EPOLLOUT) && link->tls && link->state != LINK_BUSY)
        tls_flush(link);
    if ((events & EPOLLOUT) && link->state == LINK_BUSY)
        link_send(link);
    if (link->state != LINK_DEAD && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        link_read(link);
        if (link->state == LINK_IDLE && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            link_close(link, TT_HTTP_BROKEN, NULL); /* closed after the answer */
        else if (link->state == LINK_BUSY && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            link_read(link); /* the end of the stream causes no edge of its own */
    }
}

static void give_up_on(struct tt_http_client *self, int64_t now) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->age)) != NULL) {
        struct tt_http_call *call = TT_CONTAINER_OF(node, struct tt_http_call, age_node);
        if (now - call->since_at < self->options.give_up_ns)
            return;
        if (call->link)
            link_close(call->link, TT_HTTP_GAVE_UP, "no answer in time");
        else
            call_over(self, call, TT_HTTP_GAVE_UP, "no connection in time");
    }
}

static int wait_events(struct tt_http_client *self, struct epoll_event *events, int64_t until_at) {
    int64_t left = until_at - tt_clock_now();
    left = left > 0 ? left : 0;
    if (!self->ms_only) {
        struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int count = epoll_pwait2(self->epoll, events, EVENTS, &timeout, NULL);
        if (count >= 0 || errno != ENOSYS)
            return count;
        self->ms_only = true;
    }
    /* Rounded down: the last millisecond is polled, so that no request is late. */
    return epoll_wait(self->epoll, events, EVENTS,
                      left > INT64_C(3600000000000) ? 3600000 : (int)(left / 1000000));
}

/* --- the client --- */

enum tt_err tt_http_client_open(const struct tt_http_client_options *options,
                                struct tt_http_client **out_client, struct tt_error *why) {
    tt_assert(options->connection_limit >= 1);
    tt_assert(options->done != NULL);
    const struct tt_http_address *address = options->address;
    if (address->is_tls && !(address->login && address->login->tls))
        return tt_fail(TT_ERR_INVALID, why, "https://%s: TLS is not set up for this address",
                       address->authority);
    struct tt_http_client *self = malloc(sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a client");
    memset(self, 0, offsetof(struct tt_http_client, buffer));
    self->options = *options;
    self->address = *options->address;
    self->options.address = NULL;
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (self->epoll < 0) {
        free(self);
        return tt_fail(TT_ERR_IO, why, "cannot wait for sockets: %s", strerror(errno));
    }
    struct tt_list *lists[] = {&self->idle,    &self->other, &self->dead,
                               &self->waiting, &self->age,   &self->over};
    for (size_t i = 0; i < TT_COUNT(lists); i++)
        tt_list_init(lists[i]);
    *out_client = self;
    return TT_OK;
}

void tt_http_client_close(struct tt_http_client *self) {
    if (!self)
        return;
    struct tt_list_node *node;
    struct tt_list *lists[] = {&self->idle, &self->other};
    for (size_t i = 0; i < TT_COUNT(lists); i++)
        while ((node = tt_list_first(lists[i])) != NULL)
            link_close(TT_CONTAINER_OF(node, struct tt_http_link, node), TT_HTTP_WITHDRAWN,
                       "ended by its sender");
    struct tt_http_call *call;
    while ((call = first_waiting(self)) != NULL)
        call_over(self, call, TT_HTTP_WITHDRAWN, "ended by its sender");
    hand_over(self);
    tt_assert(tt_list_empty(&self->age));
    bury(self);
    close(self->epoll);
    free(self);
}

void tt_http_client_start(struct tt_http_client *self, struct tt_http_call *call) {
    tt_assert(call->part_count > 0 && call->part_count <= TT_HTTP_CALL_PARTS);
    call->wait_node = call->age_node = (struct tt_list_node){0};
    call->link = NULL;
    call->sent_at = -1;
    call->status = 0;
    call->reason = NULL;
    call->body_bytes = 0;
    call->json_bytes = -1;
    tt_text_init(&call->body);
    tt_list_push_back(&self->waiting, &call->wait_node);
    tt_list_push_back(&self->age, &call->age_node);
    self->counts.waiting++;
    dispatch(self);
}

void tt_http_client_cancel(struct tt_http_client *self, struct tt_http_call *call) {
    static const char reason[] = "ended by its sender";
    if (!tt_list_linked(&call->age_node)) /* over already */
        return;
    if (call->link)
        link_close(call->link, TT_HTTP_WITHDRAWN, reason);
    else
        call_over(self, call, TT_HTTP_WITHDRAWN, reason);
}

void tt_http_client_poll(struct tt_http_client *self, int64_t until_at) {
    struct epoll_event events[EVENTS];
    struct tt_list_node *oldest = tt_list_first(&self->age);
    if (oldest) {
        int64_t since_at = TT_CONTAINER_OF(oldest, struct tt_http_call, age_node)->since_at;
        until_at = tt_instant_min(until_at, tt_instant_add(since_at, self->options.give_up_ns));
    }
    bool at_once = !tt_list_empty(&self->over); /* calls that ended before they began */
    int count = wait_events(self, events, at_once ? 0 : until_at);
    for (int i = 0; i < count; i++)
        on_event(events[i].data.ptr, events[i].events);
    give_up_on(self, tt_clock_now());
    dispatch(self);
    hand_over(self);
    bury(self);
}

struct tt_http_client_counts tt_http_client_counts(const struct tt_http_client *self) {
    return self->counts;
}
