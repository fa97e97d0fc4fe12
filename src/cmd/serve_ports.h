/* Whether the listeners of `tutti serve` have ports of their own. It is checked before models are
 * loaded: each port may be free although two flags ask for it. */
#ifndef TT_CMD_SERVE_PORTS_H
#define TT_CMD_SERVE_PORTS_H

#include "base/err.h"

#include <stdint.h>

struct tt_serve_port {
    const char *flag, *host; /* borrowed; the host of a TCP address */
    int32_t tcp_port;        /* 0: any free one, or no listener */
};

/* INVALID: two of them would listen on one port of one address; the message names both flags. */
TT_MUST_CHECK enum tt_err tt_serve_ports_check(const struct tt_serve_port *ports, int32_t count,
                                               struct tt_error *why);

#endif
