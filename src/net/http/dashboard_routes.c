#include "net/http/dashboard_routes.h"

#include "net/dashboard/dashboard_files.h"
#include "net/dashboard/dashboard_state.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The page loads nothing from elsewhere, and no other page may contain it. */
static const char page_headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";
static const char state_headers[] = "X-Content-Type-Options: nosniff\r\n"
                                    "Cache-Control: no-store\r\n";

/* ---- where a request comes from ---- */

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

/* A name that a foreign site could point to this machine is rejected (DNS rebinding). */
static bool is_own_host(const struct tt_dashboard_access *access, const char *host) {
    char name[256];
    return split_host(host, name, sizeof(name)) &&
           (is_address(name) || strcasecmp(name, "localhost") == 0 || is_this_machine(name) ||
            (access->host && strcasecmp(name, access->host) == 0));
}

/* "scheme://host:port" of the page itself. */
static bool is_own_origin(const struct tt_http_request *request) {
    const char *authority = strstr(request->origin, "://");
    return !request->has_origin || (authority && strcasecmp(authority + 3, request->host) == 0);
}

static bool reject(const struct tt_http_context *context, const struct tt_http_request *request,
                   struct tt_reply *reply) {
    if (!is_own_host(context->dashboard, request->host))
        tt_reply_fail(reply, 403,
                      "the live page answers by address, as localhost, by this machine's name, or "
                      "by the HOST of --dashboard; the Host header has another name");
    else if (!is_own_origin(request))
        tt_reply_fail(reply, 403,
                      "the request comes from another site (its Origin header is not this page)");
    else
        return false;
    return true;
}

void tt_dashboard_refuse_change(struct tt_reply *reply) {
    tt_reply_fail(reply, 403,
                  "the live page only shows: start the server with --dashboard-admin to load and "
                  "unload models here");
}

/* ---- what is asked ---- */

static const struct {
    const char *path, *type;
    const unsigned char *bytes;
    const size_t *size_bytes;
} files[] = {
    {"/", "text/html; charset=utf-8", tt_live_html, &tt_live_html_bytes},
    {"/dashboard.css", "text/css; charset=utf-8", tt_live_css, &tt_live_css_bytes},
    {"/dashboard.js", "text/javascript; charset=utf-8", tt_live_js, &tt_live_js_bytes},
};

static void reply_state(const struct tt_http_context *context, const char *query,
                        struct tt_reply *reply) {
    const struct tt_dashboard_source source = {.serving = context->service.serving,
                                               .port = context->service.port,
                                               .server_version = context->service.server_version,
                                               .is_admin = context->dashboard->is_admin};
    struct tt_error why;
    enum tt_err err = tt_dashboard_state(&source, query, tt_reply_json(reply), &why);
    reply->headers = state_headers;
    if (err)
        tt_reply_error(reply, err, why.text);
}

bool tt_dashboard_route(const struct tt_http_context *context,
                        const struct tt_http_request *request, struct tt_reply *reply) {
    if (reject(context, request, reply))
        return true;
    static const char state[] = "/state";
    const char *target = request->target;
    size_t length = strcspn(target, "?");
    bool is_state = length == sizeof(state) - 1 && memcmp(target, state, length) == 0;
    size_t file = 0;
    while (file < TT_COUNT(files) &&
           (strlen(files[file].path) != length || memcmp(target, files[file].path, length) != 0))
        file++;
    if (!is_state && file == TT_COUNT(files))
        return false;
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        tt_reply_wrong_method(reply, "GET, HEAD");
    } else if (is_state) {
        reply_state(context, target + length + (target[length] == '?'), reply);
    } else {
        reply->status = 200;
        reply->content_type = files[file].type;
        reply->headers = page_headers;
        tt_text_append(&reply->body, files[file].bytes, *files[file].size_bytes);
    }
    return true;
}
