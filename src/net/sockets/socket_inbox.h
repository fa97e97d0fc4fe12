/* Clients on their way from the server that accepts them to another one, which serves them on a
 * thread of its own (net/sockets/socket_server.h).
 *
 * Life of a client: the accepting thread puts its descriptor and wakes the receiving loop; that
 * loop takes it, and owns it from then on. What is left when the inbox closes is closed.
 *
 * One thread puts, one loop takes. It never looks at a byte. Implemented in socket_inbox.c. */
#ifndef TT_NET_SOCKETS_SOCKET_INBOX_H
#define TT_NET_SOCKETS_SOCKET_INBOX_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_socket_inbox;

struct tt_handed_socket {
    int fd;
    int which;    /* the listening socket that it came by */
    bool is_full; /* no descriptor was left: it is to be refused */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_socket_inbox_open(struct tt_socket_inbox **out_inbox,
                                               struct tt_error *why);
/* After its loop was closed. NULL-safe. */
void tt_socket_inbox_close(struct tt_socket_inbox *take_self);

/* The accepting thread, which then wakes the loop. False: it is full; the descriptor is still the
 * caller's. */
TT_MUST_CHECK bool tt_socket_inbox_put(struct tt_socket_inbox *self,
                                       struct tt_handed_socket socket);
/* The loop's thread. False: it is empty. */
bool tt_socket_inbox_take(struct tt_socket_inbox *self, struct tt_handed_socket *out_socket);

#endif
