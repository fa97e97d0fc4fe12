/* The address of a server as people write it, resolved once. Implemented in http_address.c. */
#ifndef TT_CLIENT_HTTP_ADDRESS_H
#define TT_CLIENT_HTTP_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct tt_http_login;

struct tt_http_address {
    char host[256];      /* without port number and brackets */
    char authority[288]; /* host:port for the Host header; brackets around an IPv6 address */
    int32_t tcp_port;
    struct sockaddr_storage socket_address;
    socklen_t socket_address_bytes;
    bool is_loopback, is_tls;
    const char *scheme;                /* "http" or "https" */
    const struct tt_http_login *login; /* borrowed: http_login.h; NULL: none, and no TLS */
};

/* Reads "http://HOST[:PORT][/]", the same with https, or "HOST[:PORT]" and resolves the host.
 * INVALID: another form or scheme, a path, an unknown host. */
TT_MUST_CHECK enum tt_err tt_http_address_parse(const char *url, int32_t default_tcp_port,
                                                struct tt_http_address *out_address,
                                                struct tt_error *why);

#endif
