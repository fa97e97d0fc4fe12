/* Whether a socket's address is the machine's own. */
#ifndef TT_BASE_LOOPBACK_H
#define TT_BASE_LOOPBACK_H

#include <stdbool.h>
#include <sys/socket.h>

/* True: 127.0.0.0/8, also within IPv6, or ::1. */
bool tt_address_is_loopback(const struct sockaddr *address);

#endif
