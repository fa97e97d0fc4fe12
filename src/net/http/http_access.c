#include "net/http/http_access.h"

#include "base/clock.h"
#include "net/http/http_operation.h"
#include "net/http/http_site.h"

#include <stdio.h>
#include <string.h>

static const char bearer_header[] = "WWW-Authenticate: Bearer\r\n";
static const char basic_header[] = "WWW-Authenticate: Basic realm=\"tutti: the token is the "
                                   "password\"\r\n";

/* A web page of another site can make a browser send a request, but not with a token, nor without
 * these headers. The port of the live page has rules of its own. */
static bool is_foreign(const struct tt_http_context *context,
                       const struct tt_http_request *request) {
    if (context->dashboard || request->token.is_given)
        return false;
    return request->is_cross_site ||
           (request->has_origin && (!tt_http_is_own_origin(request) ||
                                    !tt_http_is_own_host(request->host, context->host)));
}

static void refuse(const struct tt_http_context *context, enum tt_verdict verdict,
                   const char *sentence, struct tt_reply *reply) {
    switch (verdict) {
    case TT_VERDICT_NO_TOKEN:
        tt_reply_fail(reply, 401, sentence);
        reply->headers = context->dashboard ? basic_header : bearer_header;
        break;
    case TT_VERDICT_LIMIT:
        tt_reply_fail(reply, 429, sentence);
        reply->retry_after_s = 1;
        break;
    case TT_VERDICT_ALLOWED:
    case TT_VERDICT_ROLE:
    case TT_VERDICT_ELSEWHERE: tt_reply_fail(reply, 403, sentence); break;
    }
}

static bool is_inference(const char *target) {
    static const char tail[] = "/infer";
    enum { TAIL = sizeof(tail) - 1 };
    size_t length = strlen(target);
    return length > TAIL && memcmp(target + length - TAIL, tail, TAIL) == 0;
}

/* Without restrictions only management is looked at, for its audit line. */
static bool is_open(const struct tt_http_context *context, const struct tt_http_request *request) {
    const struct tt_access_control *access = context->gate ? context->gate->access : NULL;
    return !access || (!tt_access_control_restricts(access) && is_inference(request->target));
}

bool tt_http_claim_init(struct tt_http_claim *self, const struct tt_http_context *context,
                        const struct tt_http_request *request, struct tt_reply *reply) {
    if (is_open(context, request))
        return true;
    struct tt_http_path path;
    struct tt_error why;
    tt_http_path_split(request->target, &path);
    enum tt_operation operation = TT_OPERATION_UNKNOWN;
    if (path.count >= 0)
        operation = tt_http_operation(&path, request->method, context->dashboard != NULL);
    enum tt_verdict verdict = tt_gate_check(context->gate, operation, &request->token,
                                            tt_clock_now(), &self->identity, &why);
    if (verdict == TT_VERDICT_ALLOWED && operation == TT_OPERATION_MANAGE &&
        is_foreign(context, request)) {
        tt_fail(TT_ERR_INVALID, &why,
                "the request comes from a web page of another site; send it without a browser, or "
                "with a token");
        verdict = TT_VERDICT_ROLE;
    }
    if (verdict == TT_VERDICT_ALLOWED && operation == TT_OPERATION_INFER) {
        self->is_counted = tt_identity_enter(self->identity, &why);
        if (!self->is_counted)
            verdict = TT_VERDICT_LIMIT;
    }
    self->is_audited = verdict == TT_VERDICT_ALLOWED && tt_operation_is_management(operation);
    if (self->is_audited) {
        snprintf(self->method, sizeof(self->method), "%s", request->method);
        snprintf(self->target, sizeof(self->target), "%s", request->target);
    }
    if (verdict == TT_VERDICT_ALLOWED)
        return true;
    refuse(context, verdict, why.text, reply);
    tt_gate_audit(context->gate, self->identity, request->method, request->target, false, why.text);
    return false;
}

void tt_http_claim_fini(struct tt_http_claim *self, const struct tt_http_context *context,
                        int status) {
    if (self->is_audited) {
        char result[32];
        snprintf(result, sizeof(result), "status %d", status);
        tt_gate_audit(context->gate, self->identity, self->method, self->target, status == 200,
                      status ? result : "the client has left");
    }
    if (self->is_counted)
        tt_identity_leave(self->identity);
    tt_identity_unref(self->identity);
    tt_http_claim_clear(self);
}
