/* Whole sequences of requests over several connections of one loop: clients of HTTP/1.1, HTTP/2 and
 * gRPC that send messages and any bytes, stop in the middle, read late, close one side, leave, or
 * pause beyond the time limits, while inferences wait, the server is busy, or it stops. The input
 * is a list of such steps, so that it can be changed at any place.
 *
 * At the end every connection has ended, every request was answered or its client has gone, and
 * every quota is whole again. Build with -fsanitize=fuzzer,address,undefined. */
/* covers: net/http/connection.c net/http/http_stream.c net/http/exchange.c
 * net/http/http_transaction.c net/http2/http2_connection.c net/http2/http2_session.c
 * net/grpc/grpc_call.c */
#include "fuzz/wire_messages.h"
#include "unit/net/fake_serving.h"

#include "net/grpc/grpc_operations.h"
#include "net/grpc/grpc_work.h"
#include "net/http/connection.h"
#include "net/http/http_stream.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 4, TURNS = 3, SEND_BUFFER_BYTES = 4096, END_ROUNDS = 100000 };

enum step {
    OPEN_HTTP,
    OPEN_GRPC,
    OPEN_METRICS,
    SEND_BYTES,
    SEND_HTTP1,
    SEND_PREFACE,
    SEND_FRAME,
    SEND_HTTP2,
    SEND_CALL,
    SEND_MESSAGE,
    READ,
    CLOSE_HALF,
    LEAVE,
    PAUSE,
    LET_FINISH,
    CHANGE_SERVER,
    STEPS
};

struct client {
    int fd;              /* -1: none */
    struct tt_text left; /* of what it was to send */
};

struct world {
    uv_loop_t loop;
    struct tt_serving serving;
    struct tt_port *port;
    struct tt_limits limits;
    struct tt_network_quotas quotas;
    struct tt_answer_budget answers;
    struct tt_http_transactions transactions;
    struct tt_connections connections;
    struct tt_http_streams streams;
    struct tt_http2_connections http2, grpc;
    struct tt_grpc_calls calls;
    struct client clients[CLIENTS];
    struct tt_loop_turn turn; /* over at once: each further request waits for the next one */
    bool is_stopping;
};

struct input {
    const uint8_t *at, *end;
};

/* Of the loop, for the time limits: in place of libuv's, so that the input decides it. */
static uint64_t now_ms;

uint64_t uv_now(const uv_loop_t *loop) {
    (void)loop;
    return now_ms;
}

static uint8_t next(struct input *input) { return input->at < input->end ? *input->at++ : 0; }

static void no_end(void *owner) { (void)owner; }
static void no_wake(void *context) { (void)context; }

/* --- the server --- */

static void open_world(struct world *self) {
    struct tt_error why;
    now_ms = 1000;
    fake_serving_init(&self->serving);
    enum tt_err err = tt_serving_open_port(&self->serving, no_wake, NULL, &self->port, &why);
    tt_assert(err == TT_OK);
    int failed = uv_loop_init(&self->loop);
    tt_assert(failed == 0);
    tt_limits_default(&self->limits);
    self->limits.connections = 8; /* with one for probes */
    self->limits.body_bytes = self->limits.unpacked_bytes = 4096;
    self->limits.receive_bytes = 6000;
    self->limits.send_bytes = 4000;
    self->limits.streams = 8;
    self->limits.pipeline_bytes = 512;
    self->limits.header_timeout_ms = self->limits.body_timeout_ms = 200;
    self->limits.idle_timeout_ms = self->limits.write_timeout_ms = 400;
    tt_network_quotas_init(&self->quotas, &self->limits);
    const struct tt_kserve_service service = {
        .serving = &self->serving, .port = self->port, .server_version = "0.1.0"};
    const struct tt_http_context context = {
        .service = service, .loop = &self->loop, .json_depth = 8, .management_bytes = 1024};
    tt_http_transactions_init(&self->transactions, &self->loop, &self->limits, &self->quotas,
                              &context, no_end, self);
    self->streams = (struct tt_http_streams){.transactions = &self->transactions,
                                             .touch = tt_http2_connections_touch};
    tt_http2_connections_init(&self->http2, &self->loop, &self->limits, &self->quotas,
                              &tt_http_stream_handler, &self->streams, no_end, self);
    tt_connections_init(&self->connections, &self->transactions, &self->http2, &self->quotas);
    tt_grpc_calls_init(&self->calls, &tt_grpc_operations, &service, &self->limits, &self->quotas,
                       NULL);
    self->calls.loop = &self->loop;
    tt_grpc_pages_init(&self->calls);
    self->calls.touch = tt_http2_connections_touch;
    self->calls.on_gone = no_end;
    tt_http2_connections_init(&self->grpc, &self->loop, &self->limits, &self->quotas,
                              &tt_grpc_handler, &self->calls, no_end, self);
    tt_answer_budget_init(&self->answers, &self->quotas.send_bytes, &self->quotas.answers, NULL);
    self->connections.answers = self->http2.answers = self->grpc.answers = &self->answers;
    self->connections.is_local = self->http2.is_local = self->grpc.is_local = true;
    tt_loop_turn_init(&self->turn, NULL, NULL);
    self->turn.length_ns = 0;
    self->connections.turn = self->http2.turn = self->grpc.turn = &self->turn;
    for (int i = 0; i < CLIENTS; i++) {
        self->clients[i].fd = -1;
        tt_text_init(&self->clients[i].left);
    }
}

static void turn(struct world *self) {
    for (int i = 0; i < TURNS; i++) {
        uv_run(&self->loop, UV_RUN_NOWAIT);
        tt_port_drain(self->port);
        tt_loop_turn_go_on(&self->turn);
        tt_loop_turn_next(&self->turn);
        tt_http2_connections_flush(&self->http2);
        tt_http2_connections_flush(&self->grpc);
    }
}

static void pause_for(struct world *self, uint64_t ms) {
    now_ms += ms;
    tt_connections_expire(&self->connections);
    tt_http2_connections_expire(&self->http2);
    tt_grpc_calls_watch(&self->calls);
    tt_http2_connections_expire(&self->grpc);
}

static void stop(struct world *self) {
    self->is_stopping = true;
    self->transactions.stopping = true;
    tt_body_budget_leave(&self->transactions.body_budget);
    tt_connections_stop(&self->connections);
    tt_http2_connections_stop(&self->http2);
    tt_grpc_calls_stop(&self->calls);
    tt_http2_connections_stop(&self->grpc);
}

static bool is_empty(const struct world *self) {
    return tt_connections_empty(&self->connections) && tt_http2_connections_empty(&self->http2) &&
           tt_http2_connections_empty(&self->grpc) && self->transactions.count == 0 &&
           self->calls.call_count == 0;
}

/* --- its clients --- */

static void leave(struct client *client) {
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    tt_text_clear(&client->left);
}

static int take_end(void *client, uv_tcp_t *tcp) {
    int fd = *(int *)client, failed = uv_pipe_open((uv_pipe_t *)tcp, fd);
    if (failed)
        close(fd);
    return failed;
}

static void open_client(struct world *self, struct client *client, enum step how) {
    int ends[2], bytes = SEND_BUFFER_BYTES;
    leave(client);
    if (self->is_stopping)
        return;
    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
    tt_assert(failed == 0);
    /* Little room, so that a client that does not read holds up its answers. */
    failed = setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    tt_assert(failed == 0);
    bool is_taken = how == OPEN_GRPC
                        ? tt_http2_connections_accept(&self->grpc, take_end, &ends[0], false)
                        : tt_connections_accept(&self->connections, take_end, &ends[0],
                                                how == OPEN_METRICS, false);
    tt_assert(is_taken);
    client->fd = ends[1];
}

static void send_left(struct client *client, size_t count) {
    struct tt_text *left = &client->left;
    size_t length = left->length < count ? left->length : count;
    ssize_t sent = length ? send(client->fd, left->bytes, length, MSG_NOSIGNAL) : 0;
    if (sent <= 0)
        return;
    memmove(left->bytes, left->bytes + sent, left->length - (size_t)sent);
    left->length -= (size_t)sent;
}

static void read_some(const struct client *client) {
    char bytes[16384];
    for (ssize_t count = 1; count > 0;)
        count = recv(client->fd, bytes, sizeof(bytes), 0);
}

/* Appends what the step says to what the client is to send. */
static void compose(struct client *client, enum step step, struct input *input) {
    uint8_t which = next(input), stream, payload[64];
    switch ((int)step) {
    case SEND_BYTES:
        for (size_t i = 0; i < (size_t)which % 64 + 1; i++)
            payload[i] = next(input);
        tt_text_append(&client->left, payload, (size_t)which % 64 + 1);
        break;
    case SEND_HTTP1: wire_put_http1(&client->left, which & 127, which & 128); break;
    case SEND_PREFACE: wire_put_preface(&client->left); break;
    case SEND_FRAME:
        stream = next(input);
        size_t count = next(input) % sizeof(payload);
        for (size_t i = 0; i < count; i++)
            payload[i] = next(input);
        wire_put_frame(&client->left, which & 15, which >> 4, stream, payload, count);
        break;
    case SEND_HTTP2: wire_put_http2(&client->left, which & 127, next(input), which & 128); break;
    case SEND_CALL: wire_put_call(&client->left, which, next(input)); break;
    case SEND_MESSAGE:
        wire_put_message(&client->left, which & 127, next(input), which & 128);
        break;
    default: tt_assert(step == SEND_BYTES); /* the others do not send */
    }
}

/* One step: the low four bits say which, two its client, and the highest one whether all is sent.
 */
static void take_step(struct world *self, struct input *input) {
    uint8_t first = next(input);
    struct client *client = &self->clients[first >> 4 & 3];
    enum step step = (enum step)(first & 15);
    if (step <= OPEN_METRICS) {
        open_client(self, client, step);
    } else if (step >= PAUSE) {
        if (step == PAUSE)
            pause_for(self, (uint64_t)next(input) * 8);
        else if (step == LET_FINISH)
            fake_release_held(&self->serving);
        else if (first & 128 && !self->is_stopping)
            stop(self);
        else
            fake_set_busy(&self->serving, first & 64);
    } else if (client->fd >= 0) {
        if (step == READ)
            read_some(client);
        else if (step == CLOSE_HALF)
            shutdown(client->fd, SHUT_WR);
        else if (step == LEAVE)
            leave(client);
        else
            compose(client, step, input);
        if (client->fd >= 0)
            send_left(client, first & 128 ? client->left.length / 2 : SIZE_MAX);
    }
    turn(self);
}

static void check(const struct world *self) {
    static const struct tt_counter none;
    struct tt_listener_counts counts = {0};
    tt_http_counters_add(&self->transactions.counts, &none, &counts);
    tt_assert(counts.requests == counts.answered + counts.gone);
    tt_assert(tt_counter_get(&self->calls.requests) ==
              tt_counter_get(&self->calls.answered) + tt_counter_get(&self->calls.gone));
    tt_assert(tt_counter_get(&self->calls.in_flight) == 0);
    tt_assert(tt_quota_used(&self->quotas.connections) == 0);
}

static void close_world(struct world *self) {
    for (int i = 0; i < CLIENTS; i++) {
        leave(&self->clients[i]);
        tt_text_fini(&self->clients[i].left);
    }
    fake_set_busy(&self->serving, false);
    for (int i = 0; !is_empty(self); i++) {
        tt_assert(i < END_ROUNDS); /* else something never ends */
        fake_release_held(&self->serving);
        pause_for(self, 100);
        turn(self);
        if (i > 20)
            usleep(100); /* for work in the pool */
    }
    check(self);
    tt_connections_fini(&self->connections);
    tt_http2_connections_fini(&self->http2);
    tt_http2_connections_fini(&self->grpc);
    tt_http_transactions_fini(&self->transactions);
    tt_grpc_calls_fini(&self->calls);
    tt_assert(tt_quota_used(&self->quotas.receive_bytes) == 0);
    tt_answer_budget_fini(&self->answers);
    tt_assert(tt_quota_used(&self->quotas.send_bytes) == 0);
    int failed = uv_loop_close(&self->loop);
    tt_assert(failed == 0);
    tt_port_close(self->port);
    fake_serving_fini(&self->serving);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct world world; /* too large for the stack */
    struct input input = {data, data + size};
    memset(&world, 0, sizeof(world));
    signal(SIGPIPE, SIG_IGN); /* as the program does: clients leave */
    open_world(&world);
    while (input.at < input.end)
        take_step(&world, &input);
    close_world(&world);
    return 0;
}
