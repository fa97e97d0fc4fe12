#include "net/http/http_site.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The host without its port, and without the brackets of an IPv6 address. False: malformed. */
static bool split_host(const char *host, char *out, size_t size) {
    const char *end = host[0] == '[' ? strchr(host, ']') : strrchr(host, ':');
    const char *from = host[0] == '[' ? host + 1 : host;
    if (host[0] == '[' && !end)
        return false;
    size_t length = end ? (size_t)(end - from) : strlen(from);
    if (length == 0 || length >= size)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

static bool is_address(const char *name) {
    unsigned char bytes[16];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* The machine's own name, whole or up to its first dot. */
static bool is_this_machine(const char *name) {
    char own[256];
    if (gethostname(own, sizeof(own)) != 0)
        return false;
    own[sizeof(own) - 1] = '\0';
    if (strcasecmp(name, own) == 0)
        return true;
    own[strcspn(own, ".")] = '\0';
    return *own && strcasecmp(name, own) == 0;
}

bool tt_http_is_own_host(const char *host, const char *own) {
    char name[256];
    return split_host(host, name, sizeof(name)) &&
           (is_address(name) || strcasecmp(name, "localhost") == 0 || is_this_machine(name) ||
            (own && strcasecmp(name, own) == 0));
}

bool tt_http_is_own_origin(const struct tt_http_request *request) {
    const char *authority = strstr(request->origin, "://");
    return !request->has_origin || (authority && strcasecmp(authority + 3, request->host) == 0);
}
