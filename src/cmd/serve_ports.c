#include "cmd/serve_ports.h"

#include "net/sockets/socket_server.h"

enum tt_err tt_serve_ports_check(const struct tt_serve_port *ports, int32_t count,
                                 struct tt_error *why) {
    for (int32_t b = 1; b < count; b++)
        for (int32_t a = 0; a < b; a++)
            if (ports[a].tcp_port > 0 && ports[a].tcp_port == ports[b].tcp_port &&
                tt_socket_hosts_meet(ports[a].host, ports[b].host))
                return tt_fail(TT_ERR_INVALID, why,
                               "--%s and --%s both ask for port %d; give each its own",
                               ports[a].flag, ports[b].flag, (int)ports[a].tcp_port);
    return TT_OK;
}
