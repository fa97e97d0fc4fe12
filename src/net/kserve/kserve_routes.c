#include "net/kserve/kserve_routes.h"

#include "net/json/json_tensor.h"
#include "net/kserve/kserve_pages.h"

#include <string.h>

void tt_reply_fail(struct tt_reply *reply, int status, const char *sentence) {
    reply->status = status;
    reply->content_type = "application/json";
    tt_text_clear(&reply->body);
    tt_text_puts(&reply->body, "{\"error\":");
    tt_json_write_string(&reply->body, sentence, strlen(sentence));
    tt_text_puts(&reply->body, "}");
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
        reply->retry_after_s = 1; /* overload: another moment is another matter */
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

struct tt_text *tt_reply_json(struct tt_reply *reply) {
    reply->status = 200;
    reply->content_type = "application/json";
    return &reply->body;
}

/* --- the path --- */

enum { MAX_SEGMENTS = 8 };

struct path {
    int count; /* -1: malformed */
    char *segments[MAX_SEGMENTS];
    char bytes[2048];
};

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Splits at '/', then decodes, so that an encoded slash stays within its name. */
static void split(const char *target, struct path *out) {
    if (strncmp(target, "http://", 7) == 0) { /* the form that is meant for proxies is legal too */
        target = strchr(target + 7, '/');
        target = target ? target : "/";
    }
    out->count = -1;
    if (*target != '/')
        return;
    size_t used = 0;
    int count = 0;
    while (*target == '/') {
        target++;
        if (!*target || *target == '?')
            break; /* one slash at the end means nothing */
        if (count == MAX_SEGMENTS)
            return;
        out->segments[count++] = out->bytes + used;
        for (; *target && *target != '/' && *target != '?'; target++) {
            char c = *target;
            if (c == '%') {
                int high = hex(target[1]), low = high < 0 ? -1 : hex(target[2]);
                if (low < 0 || (high == 0 && low == 0))
                    return;
                c = (char)(high * 16 + low);
                target += 2;
            }
            if (used + 2 >= sizeof(out->bytes))
                return;
            out->bytes[used++] = c;
        }
        out->bytes[used++] = '\0';
    }
    out->count = count;
}

static bool path_is(const struct path *path, int from, const char *const names[], int count) {
    if (path->count != from + count)
        return false;
    for (int i = 0; i < count; i++)
        if (strcmp(path->segments[from + i], names[i]) != 0)
            return false;
    return true;
}

static void wrong_method(struct tt_reply *reply, const char *allow) {
    tt_reply_fail(reply, 405, "Method Not Allowed");
    reply->allow = allow;
}

/* Method and kind of what stands behind a model's name (and version). */
enum verb { VERB_MODEL, VERB_INFER, VERB_READY, VERB_CONFIG, VERB_STATS, VERB_TRACE, VERB_NONE };

static enum verb verb_of(const struct path *path, int at, bool versioned) {
    static const char *const names[] = {[VERB_INFER] = "infer",
                                        [VERB_READY] = "ready",
                                        [VERB_CONFIG] = "config",
                                        [VERB_STATS] = "stats"};
    static const char *const trace[] = {"trace", "setting"};
    if (path->count == at)
        return VERB_MODEL;
    if (!versioned && path_is(path, at, trace, 2))
        return VERB_TRACE;
    for (int i = VERB_INFER; i <= VERB_STATS; i++)
        if (path_is(path, at, &names[i], 1))
            return (enum verb)i;
    return VERB_NONE;
}

static void say_of_model(const struct tt_route_world *world,
                         const struct tt_inference_target *target, enum verb verb,
                         struct tt_reply *reply) {
    struct tt_error why;
    struct tt_served_model *model;
    enum tt_err err = tt_serving_find(world->port, target->model, target->version, &model, &why);
    if (err == TT_ERR_UNAVAILABLE && verb == VERB_READY)
        tt_reply_fail(reply, 400, why.text);
    else if (err)
        tt_reply_error(reply, err, why.text);
    else if (verb == VERB_READY)
        reply->status = 200;
    else if (verb == VERB_CONFIG)
        tt_page_config(model, reply);
    else if (verb == VERB_STATS)
        tt_page_stats(world, target->model, target->version, reply);
    else
        tt_page_model(world, model, reply);
}

/* v2/models/M[/versions/V][/verb] */
static enum tt_route_kind route_model(const struct tt_route_world *world, const struct path *path,
                                      const struct tt_route_request *request, bool is_get,
                                      bool is_post, struct tt_inference_target *out_target,
                                      struct tt_reply *reply) {
    bool versioned = path->count >= 5 && strcmp(path->segments[3], "versions") == 0;
    const char *model_name = path->segments[2], *version = versioned ? path->segments[4] : "";
    enum verb verb = verb_of(path, versioned ? 5 : 3, versioned);
    if (verb == VERB_NONE) {
        tt_reply_fail(reply, 404, "Not Found");
    } else if (verb == VERB_INFER ? !is_post : !is_get && !(verb == VERB_TRACE && is_post)) {
        wrong_method(reply, verb == VERB_INFER   ? "POST"
                            : verb == VERB_TRACE ? "GET, HEAD, POST"
                                                 : "GET, HEAD");
    } else if (strlen(model_name) >= sizeof(out_target->model) ||
               strlen(version) >= sizeof(out_target->version)) {
        tt_reply_fail(reply, 404, "no model has so long a name or version");
    } else {
        strcpy(out_target->model, model_name);
        strcpy(out_target->version, version);
        if (verb == VERB_INFER)
            return TT_ROUTE_INFER;
        if (verb == VERB_TRACE)
            tt_page_trace(world, model_name, is_post, request->body, request->body_bytes, reply);
        else
            say_of_model(world, out_target, verb, reply);
    }
    return TT_ROUTE_REPLY;
}

/* v2/repository[/R]/index and v2/repository[/R]/models/M/load|unload */
static enum tt_route_kind route_repository(const struct tt_route_world *world,
                                           const struct path *path,
                                           const struct tt_route_request *request, bool is_post,
                                           struct tt_model_command **out_command,
                                           struct tt_reply *reply) {
    static const char *const index_path[] = {"index"};
    bool named = path->count == 6 || (path->count == 4 && path_is(path, 3, index_path, 1));
    int at = named ? 3 : 2;
    bool is_index = path_is(path, at, index_path, 1);
    const char *verb = path->count == at + 3 && strcmp(path->segments[at], "models") == 0 &&
                               *path->segments[at + 1]
                           ? path->segments[at + 2]
                           : "";
    bool is_load = strcmp(verb, "load") == 0;
    if (!is_index && !is_load && strcmp(verb, "unload") != 0) {
        tt_reply_fail(reply, 404, "Not Found");
    } else if (!is_post) {
        wrong_method(reply, "POST");
    } else if (is_index) {
        tt_page_index(world, request->body, request->body_bytes, reply);
    } else if (named) {
        tt_reply_fail(reply, 501, "'repository_name' specification is not supported");
    } else {
        *out_command = tt_page_command(path->segments[at + 1], is_load, request->body,
                                       request->body_bytes, reply);
        return *out_command ? TT_ROUTE_COMMAND : TT_ROUTE_REPLY;
    }
    return TT_ROUTE_REPLY;
}

static const struct {
    int count;
    const char *names[3];
    void (*say)(const struct tt_route_world *world, struct tt_reply *reply);
} pages[] = {
    {0, {NULL}, tt_page_root},
    {1, {"metrics"}, tt_page_metrics},
    {1, {"v2"}, tt_page_server},
    {3, {"v2", "health", "live"}, tt_page_live},
    {3, {"v2", "health", "ready"}, tt_page_ready},
};

/* v2/models/stats, v2/trace/setting, v2/logging. False: none of these. */
static bool route_settings(const struct tt_route_world *world, const struct path *path,
                           const struct tt_route_request *request, bool is_get, bool is_post,
                           struct tt_reply *reply) {
    static const char *const stats[] = {"v2", "models", "stats"};
    static const char *const trace[] = {"v2", "trace", "setting"};
    static const char *const logging[] = {"v2", "logging"};
    bool is_stats = path_is(path, 0, stats, 3), is_trace = path_is(path, 0, trace, 3);
    bool is_logging = path_is(path, 0, logging, 2);
    if (!is_stats && !is_trace && !is_logging)
        return false;
    if (!is_get && (is_stats || !is_post))
        wrong_method(reply, is_stats ? "GET, HEAD" : "GET, HEAD, POST");
    else if (is_stats)
        tt_page_stats(world, NULL, "", reply);
    else if (is_trace)
        tt_page_trace(world, NULL, is_post, request->body, request->body_bytes, reply);
    else
        tt_page_logging(world, is_post, request->body, request->body_bytes, reply);
    return true;
}

enum tt_route_kind tt_route(const struct tt_route_world *world,
                            const struct tt_route_request *request,
                            struct tt_inference_target *out_target,
                            struct tt_model_command **out_command, struct tt_reply *reply) {
    static const char *const debug_trace_path[] = {"v2", "debug", "trace"};
    bool is_get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    bool is_post = strcmp(request->method, "POST") == 0;
    struct path path;
    split(request->target, &path);
    if (path.count < 0) {
        tt_reply_fail(reply, 400,
                      "the path is malformed: it starts with '/', has at most 8 parts, "
                      "and '%' is followed by two hexadecimal digits (not 00)");
        return TT_ROUTE_REPLY;
    }
    for (size_t i = 0; i < TT_COUNT(pages); i++) {
        if (!path_is(&path, 0, pages[i].names, pages[i].count))
            continue;
        if (is_get)
            pages[i].say(world, reply);
        else
            wrong_method(reply, "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (route_settings(world, &path, request, is_get, is_post, reply))
        return TT_ROUTE_REPLY;
    if (path_is(&path, 0, debug_trace_path, 3)) {
        if (is_get)
            tt_page_debug_trace(world, request->target, reply);
        else
            wrong_method(reply, "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (path.count >= 3 && strcmp(path.segments[0], "v2") == 0) {
        if (strcmp(path.segments[1], "repository") == 0)
            return route_repository(world, &path, request, is_post, out_command, reply);
        if (strcmp(path.segments[1], "models") == 0 && *path.segments[2])
            return route_model(world, &path, request, is_get, is_post, out_target, reply);
    }
    tt_reply_fail(reply, 404, "Not Found");
    return TT_ROUTE_REPLY;
}

void tt_route_metrics(const struct tt_route_world *world, const struct tt_route_request *request,
                      struct tt_reply *reply) {
    static const char *const metrics[] = {"metrics"};
    struct path path;
    split(request->target, &path);
    if (!path_is(&path, 0, metrics, 1))
        tt_reply_fail(reply, 404, "this port has /metrics alone");
    else if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        wrong_method(reply, "GET, HEAD");
    else
        tt_page_metrics(world, reply);
}
