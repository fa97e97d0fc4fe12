#include "net/http/http_reply.h"

#include "net/kserve/kserve_pages.h"

void tt_reply_fail(struct tt_reply *reply, int status, const char *sentence) {
    tt_assert(status >= 400);
    reply->status = status;
    reply->content_type = "application/json";
    tt_text_clear(&reply->body);
    tt_kserve_write_error(sentence, &reply->body);
}

void tt_reply_error(struct tt_reply *reply, enum tt_err err, const char *sentence) {
    int status = 500;
    switch (err) {
    case TT_ERR_INVALID:
    case TT_ERR_UNSUPPORTED:
    case TT_ERR_CANCELLED: status = 400; break;
    case TT_ERR_NOT_FOUND: status = 404; break;
    case TT_ERR_BUSY:
    case TT_ERR_TIMEOUT:
    case TT_ERR_NO_MEMORY:
        reply->retry_after_s = 1; /* overload: a later attempt may succeed */
        status = 503;
        break;
    case TT_ERR_UNAVAILABLE: status = 503; break;
    case TT_OK:
    case TT_ERR_IO:
    case TT_ERR_INTERNAL:
    default: break;
    }
    tt_reply_fail(reply, status, sentence && *sentence ? sentence : tt_err_name(err));
}

void tt_reply_wrong_method(struct tt_reply *reply, const char *allow) {
    tt_reply_fail(reply, 405, "Method Not Allowed");
    reply->allow = allow;
}

struct tt_text *tt_reply_json(struct tt_reply *reply) {
    reply->status = 200;
    reply->content_type = "application/json";
    return &reply->body;
}
