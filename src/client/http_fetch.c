#include "client/http_fetch.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_client.h"
#include "client/http_login.h"

#include <string.h>

enum { KEEP_BYTES = 16 << 20, KEEP_REFUSAL_BYTES = 700 };

static void on_done(void *context, struct tt_http_call *call) {
    (void)call;
    *(bool *)context = true;
}

static enum tt_err judge(const struct tt_http_address *address, const char *path,
                         struct tt_http_call *call, struct tt_text *out_body,
                         struct tt_error *why) {
    const char *scheme = address->scheme, *where = address->authority;
    switch (call->outcome) {
    case TT_HTTP_ANSWERED: break;
    case TT_HTTP_GAVE_UP:
        return tt_fail(TT_ERR_TIMEOUT, why, "%s://%s%s: %s", scheme, where, path, call->reason);
    case TT_HTTP_MALFORMED:
        return tt_fail(TT_ERR_INVALID, why, "%s://%s%s: %s", scheme, where, path, call->reason);
    case TT_HTTP_NO_CONNECT:
    case TT_HTTP_BROKEN:
    case TT_HTTP_WITHDRAWN:
    default: return tt_fail(TT_ERR_UNAVAILABLE, why, "%s://%s: %s", scheme, where, call->reason);
    }
    if (call->status != 200)
        return tt_fail(call->status == 503 ? TT_ERR_UNAVAILABLE : TT_ERR_INVALID, why,
                       "%s://%s%s: HTTP status %d: %.*s", scheme, where, path, call->status,
                       (int)call->body.length, tt_text_string(&call->body));
    if (call->body.failed || call->body.length < call->body_bytes)
        return tt_fail(TT_ERR_INVALID, why, "%s://%s%s: an answer of %zu bytes; at most %d", scheme,
                       where, path, call->body_bytes, KEEP_BYTES);
    tt_assert(call->reason == NULL);
    *out_body = call->body;
    tt_text_init(&call->body);
    return TT_OK;
}

enum tt_err tt_http_fetch(const struct tt_http_address *address, const char *path, const char *body,
                          int64_t give_up_ns, struct tt_text *out_body, struct tt_error *why) {
    bool done = false;
    struct tt_http_client *client;
    struct tt_http_client_options options = {.address = address,
                                             .connection_limit = 1,
                                             .give_up_ns = give_up_ns,
                                             .done = on_done,
                                             .done_context = &done};
    enum tt_err err = tt_http_client_open(&options, &client, why);
    if (err)
        return err;
    struct tt_text head;
    tt_text_init(&head);
    tt_text_printf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n",
                   body ? "POST" : "GET", path, address->authority);
    if (body)
        tt_text_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       strlen(body));
    if (address->login)
        tt_text_puts(&head, address->login->header);
    tt_text_puts(&head, "\r\n");
    if (body)
        tt_text_puts(&head, body);
    struct tt_http_call call = {.part_count = 1,
                                .since_at = tt_clock_now(),
                                .keep_bytes = KEEP_BYTES,
                                .keep_refusal_bytes = KEEP_REFUSAL_BYTES};
    if (head.failed) {
        err = tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a request");
    } else {
        call.parts[0] = (struct iovec){.iov_base = head.bytes, .iov_len = head.length};
        tt_http_client_start(client, &call);
        while (!done)
            tt_http_client_poll(client, TT_NEVER);
        err = judge(address, path, &call, out_body, why);
        tt_text_fini(&call.body);
    }
    tt_text_fini(&head);
    tt_http_client_close(client);
    return err;
}
