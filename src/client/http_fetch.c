#include "client/http_fetch.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_client.h"
#include "client/http_login.h"

#include <string.h>

enum { KEEP_BYTES = 16 << 20, SHOWN_BYTES = 700 };

static const int64_t look_ns = 100 * TT_MS; /* between two looks at `stopping` */

const char *tt_http_shown(const char *text, size_t length, char *out, size_t out_bytes) {
    size_t count = length < out_bytes ? length : out_bytes - 1;
    for (size_t i = 0; i < count; i++)
        out[i] = (char)(text[i] >= ' ' && text[i] < 127 ? text[i] : '.');
    out[count] = '\0';
    return out;
}

static void on_done(void *context, struct tt_http_call *call) {
    (void)call;
    *(bool *)context = true;
}

static enum tt_err judge(const struct tt_http_ask *ask, struct tt_http_call *call,
                         struct tt_text *out_body, struct tt_error *why) {
    const char *scheme = ask->address->scheme, *where = ask->address->authority;
    switch (call->outcome) {
    case TT_HTTP_ANSWERED: break;
    case TT_HTTP_GAVE_UP:
        return tt_fail(TT_ERR_TIMEOUT, why, "%s://%s%s: %s", scheme, where, ask->path,
                       call->reason);
    case TT_HTTP_MALFORMED:
        return tt_fail(TT_ERR_INVALID, why, "%s://%s%s: %s", scheme, where, ask->path,
                       call->reason);
    case TT_HTTP_NO_CONNECT:
    case TT_HTTP_BROKEN:
    case TT_HTTP_WITHDRAWN:
    default: return tt_fail(TT_ERR_UNAVAILABLE, why, "%s://%s: %s", scheme, where, call->reason);
    }
    bool is_kept = !call->body.failed && call->body.length == call->body_bytes;
    if (call->status == 200 && !is_kept)
        return tt_fail(TT_ERR_INVALID, why, "%s://%s%s: an answer of %zu bytes; at most %d", scheme,
                       where, ask->path, call->body_bytes, KEEP_BYTES);
    tt_assert(call->reason == NULL);
    *out_body = call->body;
    tt_text_init(&call->body);
    return TT_OK;
}

/* The request's bytes. */
static void put(const struct tt_http_ask *ask, struct tt_text *out) {
    tt_text_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", ask->method,
                   ask->path, ask->address->authority);
    if (ask->body)
        tt_text_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", ask->content_type,
                       strlen(ask->body));
    if (ask->address->login)
        tt_text_puts(out, ask->address->login->header);
    if (ask->headers)
        tt_text_puts(out, ask->headers);
    tt_text_puts(out, "\r\n");
    if (ask->body)
        tt_text_puts(out, ask->body);
}

/* False: it was given up. */
static bool await(struct tt_http_client *client, const struct tt_http_ask *ask, const bool *done) {
    while (!*done) {
        tt_http_client_poll(client, ask->stopping ? tt_clock_now() + look_ns : TT_NEVER);
        if (ask->stopping && tt_flag_is_raised(ask->stopping))
            return false;
    }
    return true;
}

enum tt_err tt_http_ask(const struct tt_http_ask *ask, int32_t *out_status,
                        struct tt_text *out_body, struct tt_error *why) {
    bool done = false;
    struct tt_http_client *client;
    struct tt_http_client_options options = {.address = ask->address,
                                             .connection_limit = 1,
                                             .give_up_ns = ask->give_up_ns,
                                             .done = on_done,
                                             .done_context = &done};
    enum tt_err err = tt_http_client_open(&options, &client, why);
    if (err)
        return err;
    struct tt_text request;
    tt_text_init(&request);
    put(ask, &request);
    struct tt_http_call call = {.part_count = 1,
                                .since_at = tt_clock_now(),
                                .keep_bytes = KEEP_BYTES,
                                .keep_refusal_bytes = SHOWN_BYTES};
    if (request.failed) {
        err = tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a request");
    } else {
        call.parts[0] = (struct iovec){.iov_base = request.bytes, .iov_len = request.length};
        tt_http_client_start(client, &call);
        if (await(client, ask, &done))
            err = judge(ask, &call, out_body, why);
        else
            err = tt_fail(TT_ERR_CANCELLED, why, "the request was given up");
        if (!err)
            *out_status = call.status;
    }
    tt_http_client_close(client);
    tt_text_fini(&call.body);
    tt_text_fini(&request);
    return err;
}

enum tt_err tt_http_fetch(const struct tt_http_address *address, const char *path, const char *body,
                          int64_t give_up_ns, struct tt_text *out_body, struct tt_error *why) {
    const struct tt_http_ask ask = {.address = address,
                                    .method = body ? "POST" : "GET",
                                    .path = path,
                                    .body = body,
                                    .content_type = "application/json",
                                    .give_up_ns = give_up_ns};
    int32_t status;
    char shown[SHOWN_BYTES];
    struct tt_text answer;
    enum tt_err err = tt_http_ask(&ask, &status, &answer, why);
    if (err)
        return err;
    if (status == 200) {
        *out_body = answer;
        return TT_OK;
    }
    err =
        tt_fail(status == 503 ? TT_ERR_UNAVAILABLE : TT_ERR_INVALID, why,
                "%s://%s%s: HTTP status %d: %s", address->scheme, address->authority, path, status,
                tt_http_shown(tt_text_string(&answer), answer.length, shown, SHOWN_BYTES));
    tt_text_fini(&answer);
    return err;
}
