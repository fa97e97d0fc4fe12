/* Which HTTP request means what: method and path to an operation of net/kserve.
 *
 * `tt_route` takes a complete request. Everything but inference, load, unload and long pages
 * (model_pages.h) is answered at once: it calls the operation and writes its page into the
 * reply. For inference it sets the
 * target; for load and unload it returns the command to submit. It decodes percent signs in names,
 * ignores the query, and replies 404 and 405 with a sentence in JSON.
 *
 * It never touches a connection. Implemented in http_routes.c (paths) and http_pages.c (replies).
 */
#ifndef TT_NET_HTTP_HTTP_ROUTES_H
#define TT_NET_HTTP_HTTP_ROUTES_H

#include "net/access/access_control.h"
#include "net/http/http_counts.h"
#include "net/http/http_reply.h"
#include "net/kserve/kserve_operations.h"
#include "net/kserve/request_journal.h"
#include "serve/model_command.h"

struct tt_dashboard_access;
struct tt_model_pages;

/* What replies are made from; all borrowed. */
struct tt_http_context {
    struct tt_kserve_service service;
    struct tt_model_pages *pages; /* of the thread */
    struct uv_loop_s *loop;       /* of the thread; NULL: long work is done at once, on it */
    struct tt_loop_turn *turn;    /* of the loop; may be NULL */
    struct tt_text *spare_body;   /* of the thread: memory for the next reply's body; NULL: none */
    /* The counts of a thread, from 0, or of all (-1). Returns how many threads there are. Any
     * thread. NULL: they are not on the metrics page. */
    int32_t (*counts)(const void *context, int32_t thread, struct tt_listener_counts *out_counts);
    const void *counts_context;
    int32_t json_depth;                          /* limit of nested JSON in inference requests */
    int64_t management_bytes;                    /* see tt_route_body_limit */
    struct tt_log *log;                          /* NULL: silent */
    struct tt_journal_options journal;           /* of this thread */
    const struct tt_dashboard_access *dashboard; /* of the live page's port; NULL: another port */
    struct tt_gate *gate;                        /* NULL: everything is allowed */
    const char *host;                            /* a name that the server may be reached by */
    void (*more_metrics)(const void *context, struct tt_text *page); /* NULL: none */
    const void *more_metrics_context;
};

struct tt_http_request {
    const char *method, *target; /* as in the request line */
    const char *body;            /* unpacked */
    size_t body_bytes;
    int64_t json_bytes; /* Inference-Header-Content-Length; -1: absent; -2: not a number */
    bool only_metrics;  /* it came by the port that answers only /metrics */
    bool reads_later;   /* a load's command is made, but not filled from the body */
    /* The headers Host and Origin, "" where they are not there or not usable, and whether there was
     * an Origin at all. */
    const char *host, *origin;
    bool has_origin, is_cross_site; /* see struct tt_http_message */
    struct tt_token token;
};

enum tt_route_kind {
    TT_ROUTE_REPLY, /* the reply is filled */
    TT_ROUTE_INFER, /* the target is set, here and in the next two */
    TT_ROUTE_GENERATE,
    TT_ROUTE_GENERATE_STREAM,
    TT_ROUTE_COMMAND, /* the command is set: submit it, and reply when it is finished */
    TT_ROUTE_METRICS, /* the page is to be written, from here on: see model_pages.h */
    TT_ROUTE_STATISTICS,
    TT_ROUTE_INDEX,
    TT_ROUTE_TRACE,
};

/* The most bytes that a body for this target may have: `other_bytes` for inference and load, else
 * at most `management_bytes`. */
int64_t tt_route_body_limit(const char *target, int64_t management_bytes, int64_t other_bytes);

/* The most bytes of such a body, unpacked, that are read at once: it takes about a millisecond. */
size_t tt_route_bytes_at_once(const char *target);

/* `reply` is zero-initialised; the caller owns its body afterwards, and the command. */
enum tt_route_kind tt_route(const struct tt_http_context *context,
                            const struct tt_http_request *request,
                            struct tt_kserve_target *out_target,
                            struct tt_model_command **out_command, struct tt_reply *reply);

/* --- replies of single paths, for tt_route --- */

void tt_page_openapi(const struct tt_http_context *context, struct tt_reply *reply);
void tt_page_root(const struct tt_http_context *context, struct tt_reply *reply);
void tt_page_server(const struct tt_http_context *context, struct tt_reply *reply);
void tt_page_live(const struct tt_http_context *context, struct tt_reply *reply);
void tt_page_ready(const struct tt_http_context *context, struct tt_reply *reply);
void tt_page_model(const struct tt_http_context *context, const struct tt_kserve_target *target,
                   struct tt_reply *reply);
void tt_page_model_ready(const struct tt_http_context *context,
                         const struct tt_kserve_target *target, struct tt_reply *reply);
void tt_page_config(const struct tt_http_context *context, const struct tt_kserve_target *target,
                    struct tt_reply *reply);
void tt_page_statistics(const struct tt_http_context *context,
                        const struct tt_kserve_target *target, struct tt_reply *reply);
void tt_page_index(const struct tt_http_context *context, bool only_ready, struct tt_reply *reply);
/* Shows the settings; `changes`: changes them first as the body says. `target` NULL: of all models.
 */
void tt_page_trace_settings(const struct tt_http_context *context,
                            const struct tt_kserve_target *target,
                            const struct tt_http_request *request, bool changes,
                            struct tt_reply *reply);
void tt_page_log_settings(const struct tt_http_context *context,
                          const struct tt_http_request *request, bool changes,
                          struct tt_reply *reply);
/* Of the region of that name; "": of all. */
void tt_page_memory_status(const struct tt_http_context *context, const char *name,
                           struct tt_reply *reply);
void tt_page_memory_change(const struct tt_http_context *context, const char *name, bool registers,
                           const struct tt_http_request *request, struct tt_reply *reply);
/* The command to submit, the caller's; NULL: the reply says what is wrong with the body. */
struct tt_model_command *tt_page_command(const char *model, bool is_load,
                                         const struct tt_http_request *request,
                                         struct tt_reply *reply);

#endif
