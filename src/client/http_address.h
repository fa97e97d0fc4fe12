/* Where a server is: an address as people write it, looked up once. */
#ifndef TT_CLIENT_HTTP_ADDRESS_H
#define TT_CLIENT_HTTP_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct tt_http_address {
    char host[256];      /* as it goes into the Host header, without the port */
    char authority[288]; /* host:port, brackets around an IPv6 address */
    int32_t port;
    struct sockaddr_storage socket_address;
    socklen_t socket_address_bytes;
    bool is_loopback;
};

/* Reads "http://HOST[:PORT][/]" or "HOST[:PORT]" and looks the host up. INVALID: no such form,
 * another scheme, a path, a host that is not known. */
TT_MUST_CHECK enum tt_err tt_http_address_parse(const char *url, int32_t default_port,
                                                struct tt_http_address *out_address,
                                                struct tt_error *why);

#endif
