/* Which request means what: the paths of the Open Inference Protocol over HTTP, all but inference
 * answered on the spot.
 *
 * `tt_route` takes a complete request and either fills the reply, or says which model is to infer.
 * It decodes percent signs in names, drops the query, and answers 404 and 405 with a sentence in
 * JSON. It never touches a connection. */
#ifndef TT_NET_KSERVE_ROUTES_H
#define TT_NET_KSERVE_ROUTES_H

#include "base/text.h"
#include "rt/serving.h"

struct tt_reply {
    int status;
    const char *content_type; /* NULL: no body */
    struct tt_text body;
    const char *allow; /* see struct tt_http1_answer */
    int32_t retry_after_s;
};

struct tt_infer_target {
    char model[TT_MAX_NAME_BYTES];
    char version[32]; /* "": the highest */
};

enum tt_route_kind { TT_ROUTE_REPLY, TT_ROUTE_INFER };

/* A status, and the body {"error": "..."}. */
void tt_reply_fail(struct tt_reply *reply, int status, const char *sentence);
/* The same, with the status that belongs to `err`. */
void tt_reply_error(struct tt_reply *reply, enum tt_err err, const char *sentence);

/* `reply` is initialised to zero; its body is the caller's afterwards. */
enum tt_route_kind tt_route(struct tt_serving *serving, const char *server_version,
                            const char *method, const char *target, const char *body,
                            size_t body_bytes, struct tt_infer_target *out_target,
                            struct tt_reply *reply);

#endif
