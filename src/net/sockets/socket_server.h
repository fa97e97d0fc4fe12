/* Listening sockets, their event loop, and the thread that runs it, for any protocol: accepting,
 * the port of the scheduler, time limits, and an orderly end.
 *
 * Life: init; `_bind` per socket; `_open_port`; `_run` serves on the calling thread until `_stop`
 * was called and every accepted request is finished or its grace is over; `_close` frees
 * everything. If a step fails, `_close` is legal from init on.
 *
 * It owns one struct tt_port, its thread's side of the scheduler. It installs no signal handlers
 * and has no locks: other threads reach it only by `wake`, by its inbox and by the pipe of
 * `_stop`. It never looks at a byte.
 *
 * Several servers can serve the same sockets (net/sockets/socket_group.h): the first one accepts,
 * and hands each client to the server with the fewest connections, itself included. When it stops
 * accepting, it stops the others, which take what was handed to them before. Implemented in
 * socket_server.c. */
#ifndef TT_NET_SOCKETS_SOCKET_SERVER_H
#define TT_NET_SOCKETS_SOCKET_SERVER_H

#include "base/err.h"
#include "base/loop_turn.h"
#include "base/threads/counter.h"
#include "net/sockets/busy_poll.h"
#include "net/sockets/loop_wake.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct tt_log;
struct tt_port;
struct tt_serving;
struct tt_socket_inbox;

enum { TT_SOCKET_SERVER_SOCKETS = 2 };

/* Moves the client's socket to `tcp`, which belongs to the loop and is new. A libuv error: the
 * client is gone. */
typedef int tt_take_socket_fn(void *client, uv_tcp_t *tcp);

/* What a protocol supplies. All but `ended` are called on the loop's thread. */
struct tt_socket_protocol {
    /* Accepts a client of socket `which`. `is_full`: to be refused. False: no memory, and `take`
     * was not called. */
    bool (*accept)(void *context, tt_take_socket_fn *take, void *client, int which, bool is_full);
    /* How many accepted connections have ended so far. Any thread. */
    int64_t (*ended)(const void *context);
    /* Ends what exceeded its time limit; every `tick_ms`, while anything is open. */
    void (*expire)(void *context);
    uint64_t (*tick_ms)(const void *context);
    /* Writes the answers that came; true: there were any. NULL: answers are written at once. */
    bool (*flush)(void *context);
    /* The loop was woken: does what other threads asked for. NULL: nothing. */
    void (*relieve)(void *context);
    /* No new requests; those that have begun are finished. */
    void (*stop)(void *context);
    void (*close_all)(void *context);
    /* True: no connection and no request is left. */
    bool (*is_empty)(const void *context);
};

/* Of a listening socket: the client that libuv has accepted, if it waits. */
struct tt_socket_accepts {
    struct tt_socket_server *server;
    struct tt_loop_behind behind; /* for the loop's turn */
    bool needs_memory;            /* for the next tick */
};

struct tt_socket_server {
    uv_loop_t loop;
    union {
        uv_tcp_t tcp;
        uv_pipe_t pipe; /* if is_local */
    } sockets[TT_SOCKET_SERVER_SOCKETS];
    struct tt_loop_wake wake;
    uv_poll_t stop_poll;
    int stop_pipe[2]; /* carries the grace, in ms, from _stop to the loop */
    uv_timer_t tick, grace, drain;
    uv_prepare_t before_wait; /* both hand requests over to the scheduler, once per loop turn */
    uv_check_t after_wait;
    const struct tt_socket_protocol *protocol;
    void *context; /* of the protocol */
    struct tt_serving *serving;
    struct tt_port *port; /* NULL before _open_port */
    struct tt_log *log;
    struct tt_loop_turn turn;      /* what its connections may still do in this one */
    struct tt_counter turns;       /* of the loop so far; any thread reads it */
    struct tt_counter answer_ns;   /* tt_port_answer_ns(); any thread reads it */
    int64_t drain_ms, grace_ms;    /* grace: of the last _stop */
    struct tt_busy_poll busy_poll; /* initialised before _run; zero: it sleeps at once */
    bool has_new_socket;           /* the loop does not watch it yet */
    bool has_loop, draining, stopping, stopped;
    bool is_local; /* its sockets are Unix sockets; set before _init */
    bool is_quiet; /* logs no stop: another server of the process does; set before _init */
    struct tt_socket_accepts accepts[TT_SOCKET_SERVER_SOCKETS];
    int spare_fd; /* closed when no descriptor is left, to accept and refuse a client; an eventfd,
                     which needs no file; -1 */
    /* Of several servers: */
    struct tt_socket_inbox *inbox;   /* clients that the first one hands over; NULL: the first, or
                                        alone */
    struct tt_socket_server **peers; /* the first one's: all, in order; borrowed; NULL: none */
    int32_t peer_count, last_peer;   /* the first one's; which one got the last client */
    int64_t given_count;             /* clients that it got; the first one's thread writes it */
    struct tt_counter lost_count;    /* of those, without memory for a connection */
};

/* True: "unix:PATH", the address of a Unix socket. */
bool tt_socket_is_local(const char *host);
/* True: only clients of this machine reach the address: a Unix socket, or loopback. */
bool tt_socket_is_loopback(const char *host);
/* True: a port cannot be listened on at both hosts. Neither is a Unix socket. */
bool tt_socket_hosts_meet(const char *a, const char *b);

/* `self` is zero-initialised, but for `is_local` and `drain_ms`: after the first _stop it is not
 * ready, but serves on, for so long. IO. */
TT_MUST_CHECK enum tt_err tt_socket_server_init(struct tt_socket_server *self,
                                                struct tt_serving *serving,
                                                const struct tt_socket_protocol *protocol,
                                                void *context, struct tt_log *log,
                                                struct tt_error *why);
/* Whether the address can be listened on now, without keeping it. INVALID (host), IO (port in use,
 * not allowed). */
TT_MUST_CHECK enum tt_err tt_socket_server_check(const char *host, int32_t tcp_port,
                                                 struct tt_error *why);
/* `tcp_port` 0: any free one. A Unix socket is readable and writable by its owner only; one that a
 * server left behind is replaced. INVALID (host, port number), IO (port in use, not allowed). */
TT_MUST_CHECK enum tt_err tt_socket_server_bind(struct tt_socket_server *self, int which,
                                                const char *host, int32_t tcp_port,
                                                int32_t *out_tcp_port, struct tt_error *why);
/* NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_socket_server_open_port(struct tt_socket_server *self,
                                                     struct tt_error *why);
/* It gets its clients from the server that accepts; before _run, and without _bind. NO_MEMORY, IO.
 */
TT_MUST_CHECK enum tt_err tt_socket_server_open_inbox(struct tt_socket_server *self,
                                                      struct tt_error *why);
/* `peers[0]` is the server itself, the others have inboxes; before _run. */
void tt_socket_server_set_peers(struct tt_socket_server *self, struct tt_socket_server **peers,
                                int32_t count);
/* Serves on the calling thread until stopped. */
void tt_socket_server_run(struct tt_socket_server *self);
/* From any thread or a signal handler, once or more. The server is no longer ready. After
 * drain_ms, or the second call: no new connections, idle ones are closed, requests that have begun
 * are finished. After `grace_ms` more the rest is cut off. */
void tt_socket_server_stop(struct tt_socket_server *self, int64_t grace_ms);
/* A protocol calls it when its last connection or request has ended. */
void tt_socket_server_check_stopped(struct tt_socket_server *self);
/* Wakes the loop, `server`. Any thread, until the protocol's `stop` was called. */
void tt_socket_server_wake(void *server);
/* After run has returned, or instead of it. */
void tt_socket_server_close(struct tt_socket_server *self);

#endif
