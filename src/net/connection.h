/* One HTTP connection, and the listener as its connections see it. See listener.h for the life of
 * either; nothing outside these two includes this. */
#ifndef TT_NET_CONNECTION_H
#define TT_NET_CONNECTION_H

#include "base/list.h"
#include "net/http/http1.h"
#include "net/listener.h"

#include <uv.h>

/* What a connection waits for. Each kind has one time limit, so a list in order of arrival is in
 * order of expiry. */
enum tt_wait {
    TT_WAIT_IDLE,
    TT_WAIT_HEAD,
    TT_WAIT_BODY,
    TT_WAIT_FLIGHT, /* for the inference: no limit of ours, deadlines are the scheduler's */
    TT_WAIT_WRITE,
    TT_WAIT_LINGER,
    TT_WAIT_CLOSED,
    TT_WAIT_COUNT,
};

enum { TT_READ_BUFFER_BYTES = 65536, TT_LINGER_MS = 1000 };

struct tt_listener {
    uv_loop_t loop;
    uv_tcp_t server, metrics_server;
    uv_async_t wake;
    uv_poll_t stop;
    int stop_pipe[2]; /* carries the grace, in ms, from whoever stops to the loop */
    uv_timer_t tick, grace;
    uv_prepare_t before_wait; /* both tell the scheduler what a turn of the loop has brought */
    uv_check_t after_wait;
    struct tt_serving *serving;
    struct tt_port *port;
    struct tt_listener_options options;
    struct tt_http1_limits http_limits;
    struct tt_http1_budget body_budget;
    struct tt_list waits[TT_WAIT_COUNT];
    uint64_t limits_ms[TT_WAIT_COUNT]; /* 0: none */
    struct tt_listener_counts counts;
    int32_t exchange_count; /* answers that are still being made or written */
    int32_t bound_port;
    bool stopping, stopped;
    bool accept_waits[2]; /* a client that there was no memory for; of metrics */
    int spare_fd;         /* given up when there are no more, so that a client can be told; or -1 */
    char read_buffer[TT_READ_BUFFER_BYTES]; /* one for all: libuv reads and hands over at once */
};

struct tt_exchange;

struct tt_connection {
    uv_tcp_t tcp;
    uv_shutdown_t shutdown;
    struct tt_listener *listener;
    struct tt_http1 http;
    struct tt_exchange *exchange; /* the request in flight or being answered */
    struct tt_text ahead;         /* bytes of requests after that */
    size_t ahead_used;
    struct tt_list_node node;
    uint64_t since_ms;
    enum tt_wait wait;
    bool reading;
    bool of_metrics; /* it came by the port that has metrics alone */
};

/* Takes a waiting client from the server socket, or from that of the metrics. */
void tt_connection_accept(struct tt_listener *listener, bool of_metrics);
/* Its time for what it waits for is over. */
void tt_connection_expire(struct tt_connection *self);
/* Cuts it off; what is in flight is cancelled. */
void tt_connection_close(struct tt_connection *self);
/* The listener's: everything may be finished now. */
void tt_listener_check_stopped(struct tt_listener *listener);

#endif
