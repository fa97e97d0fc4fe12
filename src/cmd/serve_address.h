/* The addresses that `tutti serve` takes besides --http-host: [HOST:]PORT, and unix:PATH where a
 * flag allows it. */
#ifndef TT_CMD_SERVE_ADDRESS_H
#define TT_CMD_SERVE_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_SERVE_HOST_BYTES = 256 };

/* A host as it stands in a URL: an IPv6 address in brackets. */
struct tt_serve_url_host {
    char text[TT_SERVE_HOST_BYTES + 2];
};

struct tt_serve_address {
    char host[TT_SERVE_HOST_BYTES]; /* without brackets; or "unix:PATH" */
    int32_t tcp_port;               /* 0: any free one */
};

/* An IPv6 address has brackets; without HOST it is the loopback address. INVALID: the message names
 * `flag` and says what is right. */
TT_MUST_CHECK enum tt_err tt_serve_address_read(const char *flag, const char *text,
                                                bool may_be_local,
                                                struct tt_serve_address *out_address,
                                                struct tt_error *why);
/* Longer hosts are cut. */
struct tt_serve_url_host tt_serve_url_host(const char *host);

#endif
