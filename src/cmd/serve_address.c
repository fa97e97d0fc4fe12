#include "cmd/serve_address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tt_err tt_serve_address_read(const char *flag, const char *text, bool may_be_local,
                                  struct tt_serve_address *out_address, struct tt_error *why) {
    static const char loopback[] = "127.0.0.1", local[] = "unix:";
    if (may_be_local && strncmp(text, local, sizeof(local) - 1) == 0 &&
        strlen(text) < TT_SERVE_HOST_BYTES) {
        *out_address = (struct tt_serve_address){.tcp_port = 0};
        memcpy(out_address->host, text, strlen(text));
        return TT_OK;
    }
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text, *from = text;
    size_t length = colon ? (size_t)(colon - text) : 0;
    char *end;
    long port = strtol(digits, &end, 10);
    bool good = *digits >= '0' && *digits <= '9' && !*end && port <= 65535;
    if (length && from[0] == '[') {
        good = good && length > 2 && from[length - 1] == ']';
        from++;
        length -= good ? 2 : 0;
    } else {
        good = good && !(length && memchr(from, ':', length)) && (length || !colon);
    }
    if (!good || length >= TT_SERVE_HOST_BYTES)
        return tt_fail(TT_ERR_INVALID, why,
                       "--%s %s: it must be PORT, HOST:PORT or [IPv6]:PORT, with a port from 0 "
                       "(any) to 65535%s",
                       flag, text, may_be_local ? ", or unix:PATH" : "");
    *out_address = (struct tt_serve_address){.tcp_port = (int32_t)port};
    memcpy(out_address->host, length ? from : loopback, length ? length : sizeof(loopback) - 1);
    return TT_OK;
}

struct tt_serve_url_host tt_serve_url_host(const char *host) {
    struct tt_serve_url_host in_url;
    snprintf(in_url.text, sizeof(in_url.text), strchr(host, ':') ? "[%s]" : "%s", host);
    return in_url;
}
