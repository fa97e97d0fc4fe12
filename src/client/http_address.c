#include "client/http_address.h"

#include "base/loopback.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Splits `text` into host and port number; false: it does not have that form. */
static bool cut(const char *text, size_t length, int32_t default_tcp_port,
                struct tt_http_address *address) {
    const char *end = text + length, *host = text, *host_end, *port = NULL;
    if (length && *text == '[') {
        host = text + 1;
        host_end = memchr(host, ']', length - 1);
        if (!host_end || (host_end + 1 < end && host_end[1] != ':'))
            return false;
        port = host_end + 1 < end ? host_end + 2 : NULL;
    } else {
        const char *colon = memchr(text, ':', length);
        host_end = colon ? colon : end;
        port = colon ? colon + 1 : NULL;
    }
    size_t host_length = (size_t)(host_end - host);
    if (host_length == 0 || host_length >= sizeof(address->host))
        return false;
    memcpy(address->host, host, host_length);
    address->host[host_length] = '\0';
    address->tcp_port = default_tcp_port;
    if (!port)
        return true;
    address->tcp_port = 0;
    for (const char *at = port; at < end; at++) {
        if (*at < '0' || *at > '9' || address->tcp_port > 65535)
            return false;
        address->tcp_port = address->tcp_port * 10 + (*at - '0');
    }
    return port < end && address->tcp_port >= 1 && address->tcp_port <= 65535;
}

enum tt_err tt_http_address_parse(const char *url, int32_t default_tcp_port,
                                  struct tt_http_address *out_address, struct tt_error *why) {
    struct tt_http_address address = {.tcp_port = default_tcp_port, .scheme = "http"};
    const char *at = url, *scheme = strstr(url, "://");
    if (scheme) {
        address.is_tls = scheme - url == 5 && strncasecmp(url, "https", 5) == 0;
        if (!address.is_tls && (scheme - url != 4 || strncasecmp(url, "http", 4) != 0))
            return tt_fail(TT_ERR_INVALID, why, "'%s': only http:// and https:// are supported",
                           url);
        address.scheme = address.is_tls ? "https" : "http";
        at = scheme + 3;
    }
    size_t length = strcspn(at, "/?#@");
    if (at[length] && strcmp(at + length, "/") != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s': expected a server's address, as http://127.0.0.1:8000, without path "
                       "or user",
                       url);
    if (!cut(at, length, default_tcp_port, &address))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s' is not the address of a server, as http://127.0.0.1:8000", url);
    char service[16];
    snprintf(service, sizeof(service), "%d", address.tcp_port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int problem = getaddrinfo(address.host, service, &hints, &found);
    if (problem)
        return tt_fail(TT_ERR_INVALID, why, "the host '%s' is unknown: %s", address.host,
                       gai_strerror(problem));
    /* IPv4 is preferred where a name has both: it is the default of servers. */
    struct addrinfo *chosen = found;
    for (struct addrinfo *other = found; other; other = other->ai_next)
        if (chosen->ai_family != AF_INET && other->ai_family == AF_INET)
            chosen = other;
    memcpy(&address.socket_address, chosen->ai_addr, chosen->ai_addrlen);
    address.socket_address_bytes = chosen->ai_addrlen;
    address.is_loopback = tt_address_is_loopback(chosen->ai_addr);
    freeaddrinfo(found);
    bool colons = strchr(address.host, ':') != NULL;
    snprintf(address.authority, sizeof(address.authority), colons ? "[%s]:%d" : "%s:%d",
             address.host, address.tcp_port);
    *out_address = address;
    return TT_OK;
}
