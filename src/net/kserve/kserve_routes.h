/* Which request means what: the paths of the Open Inference Protocol over HTTP, all but inference
 * answered on the spot.
 *
 * `tt_route` takes a complete request and either fills the reply, or says which model is to infer,
 * or what is to be done with the models.
 * It decodes percent signs in names, drops the query, and answers 404 and 405 with a sentence in
 * JSON. It never touches a connection. */
#ifndef TT_NET_KSERVE_KSERVE_ROUTES_H
#define TT_NET_KSERVE_KSERVE_ROUTES_H

#include "base/log_settings.h"
#include "base/text.h"
#include "net/http/http_counts.h"
#include "serve/model_command.h"
#include "serve/serving.h"
#include "serve/trace_settings.h"

struct tt_reply {
    int status;
    const char *content_type; /* NULL: no body */
    struct tt_text body;
    const char *allow; /* see struct tt_http1_answer */
    int32_t retry_after_s;
};

/* What the routes speak of: borrowed, for the calls. */
struct tt_route_world {
    struct tt_serving *serving;
    struct tt_port *port;
    const char *server_version;
    struct tt_trace_settings *trace;         /* NULL: there are none */
    struct tt_log_settings *log;             /* NULL: there are none */
    const struct tt_listener_counts *counts; /* NULL: not shown */
};

struct tt_route_request {
    const char *method, *target; /* as they stood in the request line */
    const char *body;
    size_t body_bytes;
};

struct tt_inference_target {
    char model[TT_MAX_NAME_BYTES];
    char version[32]; /* "": the highest */
};

enum tt_route_kind {
    TT_ROUTE_REPLY,   /* the reply is filled */
    TT_ROUTE_INFER,   /* the target is */
    TT_ROUTE_COMMAND, /* the command is: to be submitted, and answered when it is done */
};

/* A status, and the body {"error": "..."}. */
void tt_reply_fail(struct tt_reply *reply, int status, const char *sentence);
/* The same, with the status that belongs to `err`. */
void tt_reply_error(struct tt_reply *reply, enum tt_err err, const char *sentence);
/* Status 200 and JSON; returns where the body goes. */
struct tt_text *tt_reply_json(struct tt_reply *reply);

/* `reply` is initialised to zero; its body is the caller's afterwards, and so is the command. */
enum tt_route_kind tt_route(const struct tt_route_world *world,
                            const struct tt_route_request *request,
                            struct tt_inference_target *out_target,
                            struct tt_model_command **out_command, struct tt_reply *reply);
/* The same for the port that answers /metrics and nothing else. */
void tt_route_metrics(const struct tt_route_world *world, const struct tt_route_request *request,
                      struct tt_reply *reply);

#endif
