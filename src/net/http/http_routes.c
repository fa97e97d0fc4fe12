#include "net/http/http_routes.h"

#include "net/http/dashboard_routes.h"
#include "net/http/http_path.h"
#include "net/kserve/kserve_parameters.h"

#include <string.h>

/* Paths whose bodies may be large, by their ends. A load is rare, and its files wait in memory. */
static const struct {
    const char *tail;
    size_t bytes_at_once;
} large[] = {{"/infer", (size_t)128 * 1024},
             {"/load", 512},
             {"/generate", (size_t)128 * 1024},
             {"/generate_stream", (size_t)128 * 1024}};

/* The row of the target; -1: another path. */
static int large_row(const char *target) {
    size_t length = strcspn(target, "?");
    while (length && target[length - 1] == '/')
        length--;
    for (size_t i = 0; i < TT_COUNT(large); i++) {
        size_t tail = strlen(large[i].tail);
        if (length >= tail && memcmp(target + length - tail, large[i].tail, tail) == 0)
            return (int)i;
    }
    return -1;
}

int64_t tt_route_body_limit(const char *target, int64_t management_bytes, int64_t other_bytes) {
    if (large_row(target) >= 0)
        return other_bytes;
    return management_bytes < other_bytes ? management_bytes : other_bytes;
}

size_t tt_route_bytes_at_once(const char *target) {
    int row = large_row(target);
    return row < 0 ? SIZE_MAX : large[row].bytes_at_once;
}

/* What is asked of a model, by the part of the path after its name (and version). */
enum verb {
    VERB_MODEL,
    VERB_INFER,
    VERB_GENERATE,
    VERB_GENERATE_STREAM,
    VERB_READY,
    VERB_CONFIG,
    VERB_STATS,
    VERB_TRACE,
    VERB_NONE
};

static enum verb verb_of(const struct tt_http_path *path, int at, bool versioned) {
    static const char *const names[] = {[VERB_INFER] = "infer",
                                        [VERB_GENERATE] = "generate",
                                        [VERB_GENERATE_STREAM] = "generate_stream",
                                        [VERB_READY] = "ready",
                                        [VERB_CONFIG] = "config",
                                        [VERB_STATS] = "stats"};
    static const char *const trace[] = {"trace", "setting"};
    if (path->count == at)
        return VERB_MODEL;
    if (!versioned && tt_http_path_is(path, at, trace, 2))
        return VERB_TRACE;
    for (int i = VERB_INFER; i <= VERB_STATS; i++)
        if (tt_http_path_is(path, at, &names[i], 1))
            return (enum verb)i;
    return VERB_NONE;
}

/* v2/models/M[/versions/V][/verb] */
static enum tt_route_kind route_model(const struct tt_http_context *context,
                                      const struct tt_http_path *path,
                                      const struct tt_http_request *request, bool is_get,
                                      bool is_post, struct tt_kserve_target *out_target,
                                      struct tt_reply *reply) {
    bool versioned = path->count >= 5 && strcmp(path->segments[3], "versions") == 0;
    const char *model = path->segments[2], *version = versioned ? path->segments[4] : "";
    enum verb verb = verb_of(path, versioned ? 5 : 3, versioned);
    if (verb == VERB_NONE) {
        tt_reply_fail(reply, 404, "Not Found");
        return TT_ROUTE_REPLY;
    }
    bool infers = verb >= VERB_INFER && verb <= VERB_GENERATE_STREAM;
    if (infers ? !is_post : !is_get && !(verb == VERB_TRACE && is_post)) {
        tt_reply_wrong_method(reply, infers               ? "POST"
                                     : verb == VERB_TRACE ? "GET, HEAD, POST"
                                                          : "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    size_t model_bytes = strlen(model), version_bytes = strlen(version);
    if (model_bytes >= sizeof(out_target->model) || version_bytes >= sizeof(out_target->version)) {
        struct tt_error why;
        tt_reply_error(reply, tt_kserve_refuse_long_name(&why), why.text);
        return TT_ROUTE_REPLY;
    }
    memcpy(out_target->model, model, model_bytes + 1);
    memcpy(out_target->version, version, version_bytes + 1);
    switch (verb) {
    case VERB_INFER: return TT_ROUTE_INFER;
    case VERB_GENERATE: return TT_ROUTE_GENERATE;
    case VERB_GENERATE_STREAM: return TT_ROUTE_GENERATE_STREAM;
    case VERB_READY: tt_page_model_ready(context, out_target, reply); break;
    case VERB_CONFIG: tt_page_config(context, out_target, reply); break;
    case VERB_STATS: tt_page_statistics(context, out_target, reply); break;
    case VERB_TRACE:
        if (is_post && !tt_dashboard_may_change(context))
            tt_dashboard_refuse_change(reply);
        else
            tt_page_trace_settings(context, out_target, request, is_post, reply);
        break;
    case VERB_MODEL:
    case VERB_NONE: tt_page_model(context, out_target, reply); break;
    }
    return TT_ROUTE_REPLY;
}

/* v2/repository[/R]/index and v2/repository[/R]/models/M/load|unload */
static enum tt_route_kind route_repository(const struct tt_http_context *context,
                                           const struct tt_http_path *path,
                                           const struct tt_http_request *request, bool is_post,
                                           struct tt_model_command **out_command,
                                           struct tt_reply *reply) {
    static const char *const index_path[] = {"index"};
    bool named = path->count == 6 || (path->count == 4 && tt_http_path_is(path, 3, index_path, 1));
    int at = named ? 3 : 2;
    bool is_index = tt_http_path_is(path, at, index_path, 1);
    const char *verb = path->count == at + 3 && strcmp(path->segments[at], "models") == 0 &&
                               *path->segments[at + 1]
                           ? path->segments[at + 2]
                           : "";
    bool is_load = strcmp(verb, "load") == 0;
    if (!is_index && !is_load && strcmp(verb, "unload") != 0) {
        tt_reply_fail(reply, 404, "Not Found");
    } else if (!is_post) {
        tt_reply_wrong_method(reply, "POST");
    } else if (is_index) {
        return TT_ROUTE_INDEX;
    } else if (!tt_dashboard_may_change(context)) {
        tt_dashboard_refuse_change(reply);
    } else if (named) {
        struct tt_error why;
        (void)tt_kserve_refuse_repository(&why);
        tt_reply_fail(reply, 501, why.text);
    } else {
        *out_command = tt_page_command(path->segments[at + 1], is_load, request, reply);
        return *out_command ? TT_ROUTE_COMMAND : TT_ROUTE_REPLY;
    }
    return TT_ROUTE_REPLY;
}

static const struct {
    int count;
    const char *names[3];
    void (*write)(const struct tt_http_context *context, struct tt_reply *reply);
} pages[] = {
    {0, {NULL}, tt_page_root},
    {1, {"openapi.json"}, tt_page_openapi},
    {1, {"v2"}, tt_page_server},
    {3, {"v2", "health", "live"}, tt_page_live},
    {3, {"v2", "health", "ready"}, tt_page_ready},
};

static const char *const metrics_path[] = {"metrics"}, *const stats_path[] = {"v2", "models",
                                                                              "stats"};

/* The pages of all models. False: neither of them. */
static bool route_model_pages(const struct tt_http_path *path, bool is_get,
                              enum tt_route_kind *out_kind, struct tt_reply *reply) {
    bool is_metrics = tt_http_path_is(path, 0, metrics_path, 1);
    if (!is_metrics && !tt_http_path_is(path, 0, stats_path, 3))
        return false;
    *out_kind = !is_get ? TT_ROUTE_REPLY : is_metrics ? TT_ROUTE_METRICS : TT_ROUTE_STATISTICS;
    if (!is_get)
        tt_reply_wrong_method(reply, "GET, HEAD");
    return true;
}

/* v2/trace/setting, v2/logging. False: none of these. */
static bool route_settings(const struct tt_http_context *context, const struct tt_http_path *path,
                           const struct tt_http_request *request, bool is_get, bool is_post,
                           struct tt_reply *reply) {
    static const char *const trace[] = {"v2", "trace", "setting"};
    static const char *const logging[] = {"v2", "logging"};
    bool is_trace = tt_http_path_is(path, 0, trace, 3);
    bool is_logging = tt_http_path_is(path, 0, logging, 2);
    if (!is_trace && !is_logging)
        return false;
    if (!is_get && !is_post)
        tt_reply_wrong_method(reply, "GET, HEAD, POST");
    else if (is_post && !tt_dashboard_may_change(context))
        tt_dashboard_refuse_change(reply);
    else if (is_trace)
        tt_page_trace_settings(context, NULL, request, is_post, reply);
    else
        tt_page_log_settings(context, request, is_post, reply);
    return true;
}

/* The port that answers only /metrics. */
static enum tt_route_kind route_metrics(const struct tt_http_path *path, bool is_get,
                                        struct tt_reply *reply) {
    enum tt_route_kind kind = TT_ROUTE_REPLY;
    if (!tt_http_path_is(path, 0, metrics_path, 1))
        tt_reply_fail(reply, 404, "this port answers only /metrics");
    else
        (void)route_model_pages(path, is_get, &kind, reply);
    return kind;
}

/* v2/systemsharedmemory[/region/NAME]/status|register|unregister. False: none of these, or the
 * server shares no memory. */
static bool route_memory(const struct tt_http_context *context, const struct tt_http_path *path,
                         const struct tt_http_request *request, bool is_get, bool is_post,
                         struct tt_reply *reply) {
    bool is_named = path->count == 5 && strcmp(path->segments[2], "region") == 0;
    if (!context->service.memory || (path->count != 3 && !is_named) ||
        strcmp(path->segments[0], "v2") != 0 ||
        strcmp(path->segments[1], "systemsharedmemory") != 0)
        return false;
    const char *name = is_named ? path->segments[3] : "", *verb = path->segments[path->count - 1];
    bool is_status = strcmp(verb, "status") == 0, registers = strcmp(verb, "register") == 0;
    if (!is_status && strcmp(verb, "unregister") != 0 && !(registers && is_named))
        return false;
    if (is_status ? !is_get : !is_post)
        tt_reply_wrong_method(reply, is_status ? "GET, HEAD" : "POST");
    else if (is_status)
        tt_page_memory_status(context, name, reply);
    else
        tt_page_memory_change(context, name, registers, request, reply);
    return true;
}

/* Paths of protocols and extensions that clients of other servers try. */
static void refuse_path(const struct tt_http_path *path, struct tt_reply *reply) {
    bool is_v1 = path->count >= 1 && strcmp(path->segments[0], "v1") == 0;
    const char *extension =
        path->count >= 2 && strcmp(path->segments[0], "v2") == 0 ? path->segments[1] : "";
    struct tt_error why = {{0}};
    if (strcmp(extension, "systemsharedmemory") == 0)
        (void)tt_kserve_refuse_shared_memory(&why);
    else if (strcmp(extension, "cudasharedmemory") == 0)
        (void)tt_kserve_refuse_cuda_memory(&why);
    tt_reply_fail(reply, 404,
                  *why.text ? why.text
                  : is_v1   ? "Not Found: inference is POST /v2/models/NAME/infer (KServe v2)"
                            : "Not Found");
}

enum tt_route_kind tt_route(const struct tt_http_context *context,
                            const struct tt_http_request *request,
                            struct tt_kserve_target *out_target,
                            struct tt_model_command **out_command, struct tt_reply *reply) {
    static const char *const debug_trace_path[] = {"v2", "debug", "trace"};
    bool is_get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    bool is_post = strcmp(request->method, "POST") == 0;
    enum tt_route_kind kind;
    struct tt_http_path path;
    tt_http_path_split(request->target, &path);
    if (request->only_metrics)
        return route_metrics(&path, is_get, reply);
    if (path.count < 0) {
        tt_reply_fail(reply, 400,
                      "the path is malformed: it starts with '/', has at most 8 parts of UTF-8 "
                      "text, and '%' is followed by two hexadecimal digits (not 00)");
        return TT_ROUTE_REPLY;
    }
    if (context->dashboard && tt_dashboard_route(context, request, reply))
        return TT_ROUTE_REPLY;
    bool is_v2 = path.count >= 3 && strcmp(path.segments[0], "v2") == 0;
    bool is_model = is_v2 && strcmp(path.segments[1], "models") == 0 && *path.segments[2];
    if (is_model && path.count > 3) /* first, since nearly all requests are inferences */
        return route_model(context, &path, request, is_get, is_post, out_target, reply);
    if (route_model_pages(&path, is_get, &kind, reply))
        return kind;
    for (size_t i = 0; i < TT_COUNT(pages); i++) {
        if (!tt_http_path_is(&path, 0, pages[i].names, pages[i].count))
            continue;
        if (is_get)
            pages[i].write(context, reply);
        else
            tt_reply_wrong_method(reply, "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (route_settings(context, &path, request, is_get, is_post, reply) ||
        route_memory(context, &path, request, is_get, is_post, reply))
        return TT_ROUTE_REPLY;
    if (tt_http_path_is(&path, 0, debug_trace_path, 3)) {
        if (is_get)
            return TT_ROUTE_TRACE;
        tt_reply_wrong_method(reply, "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (is_v2 && strcmp(path.segments[1], "repository") == 0)
        return route_repository(context, &path, request, is_post, out_command, reply);
    if (is_model)
        return route_model(context, &path, request, is_get, is_post, out_target, reply);
    refuse_path(&path, reply);
    return TT_ROUTE_REPLY;
}
