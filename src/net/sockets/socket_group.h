/* The connection threads of a listener: one socket server each, with a loop and a port of its own.
 *
 * The first server listens, and runs on the thread that calls `_run`; the others run on threads
 * that
 * `_start` makes. A client is handed to one server when it is accepted and stays there: all that
 * happens on its connection happens on one thread. The first server chooses the one with the fewest
 * connections. Sockets of their own (SO_REUSEPORT) would spread clients by a hash of their address:
 * a few kept-alive connections would be uneven, and a second program could listen at the same
 * address unnoticed.
 *
 * Life: init; the caller initialises each server, and binds the first; `_open_ports`; `_start`
 * starts the threads; `_run`; `_close` ends all of it, after `_run` or instead of it. With one
 * server nothing is added to it. Implemented in socket_group.c. */
#ifndef TT_NET_SOCKETS_SOCKET_GROUP_H
#define TT_NET_SOCKETS_SOCKET_GROUP_H

#include "net/sockets/socket_server.h"

#include <pthread.h>

enum { TT_SOCKET_GROUP_MAX = 64 };

struct tt_socket_group {
    struct tt_socket_server *servers[TT_SOCKET_GROUP_MAX]; /* borrowed */
    pthread_t threads[TT_SOCKET_GROUP_MAX];                /* [0] is not used */
    int32_t count;                                         /* of initialised servers */
    int32_t thread_count;                                  /* that run, and [0] */
};

/* Adds an initialised server; the first one listens. At most TT_SOCKET_GROUP_MAX. */
void tt_socket_group_add(struct tt_socket_group *self, struct tt_socket_server *server);
/* A port of the scheduler for each server. NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_socket_group_open_ports(struct tt_socket_group *self,
                                                     struct tt_error *why);
/* `name` is that of the threads; at most 10 bytes. NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_socket_group_start(struct tt_socket_group *self, const char *name,
                                                struct tt_error *why);
/* Serves until the first server was stopped and all have ended. */
void tt_socket_group_run(struct tt_socket_group *self);
/* Closes the servers. `self` was zero-initialised. */
void tt_socket_group_close(struct tt_socket_group *self);

#endif
