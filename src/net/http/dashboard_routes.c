#include "net/http/dashboard_routes.h"

#include "net/dashboard/dashboard_files.h"
#include "net/dashboard/dashboard_state.h"
#include "net/http/http_site.h"

#include <string.h>

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

static bool reject(const struct tt_http_context *context, const struct tt_http_request *request,
                   struct tt_reply *reply) {
    if (!tt_http_is_own_host(request->host, context->dashboard->host))
        tt_reply_fail(reply, 403,
                      "the live page answers by address, as localhost, by this machine's name, or "
                      "by the HOST of --dashboard; the Host header has another name");
    else if (!tt_http_is_own_origin(request))
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
