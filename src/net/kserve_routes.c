#include "net/kserve_routes.h"

#include "net/json_tensor.h"

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
    case TT_ERR_NO_MEMORY:
        reply->retry_after_s = 1;
        status = 503;
        break;
    case TT_ERR_UNAVAILABLE:
    case TT_ERR_TIMEOUT: status = 503; break;
    default: break;
    }
    tt_reply_fail(reply, status, sentence && *sentence ? sentence : tt_err_name(err));
}

static struct tt_text *reply_json(struct tt_reply *reply) {
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

/* --- what is answered --- */

static void say_root(struct tt_serving *serving, const char *version, struct tt_reply *reply) {
    (void)serving;
    reply->status = 200;
    reply->content_type = "text/plain; charset=utf-8";
    tt_text_printf(&reply->body,
                   "Tutti %s, an inference server: KServe v2 over HTTP.\n"
                   "GET  /v2                      what this is\n"
                   "GET  /v2/health/ready         200 when every model serves\n"
                   "POST /v2/repository/index     the models\n"
                   "GET  /v2/models/NAME          inputs and outputs of one\n"
                   "POST /v2/models/NAME/infer    inference\n"
                   "GET  /metrics                 for Prometheus\n",
                   version);
}

static void say_server(struct tt_serving *serving, const char *version, struct tt_reply *reply) {
    (void)serving;
    struct tt_text *json = reply_json(reply);
    tt_text_puts(json, "{\"name\":\"tutti\",\"version\":");
    tt_json_write_string(json, version, strlen(version));
    tt_text_puts(json, ",\"extensions\":[\"schedule_policy\",\"model_configuration\","
                       "\"binary_tensor_data\",\"parameters\"]}");
}

static void say_live(struct tt_serving *serving, const char *version, struct tt_reply *reply) {
    (void)serving;
    (void)version;
    reply->status = 200;
}

static void say_ready(struct tt_serving *serving, const char *version, struct tt_reply *reply) {
    (void)version;
    reply->status =
        tt_serving_ready(serving) ? 200 : 400; /* 400 is what the protocol's users know */
}

static void say_metrics(struct tt_serving *serving, const char *version, struct tt_reply *reply) {
    (void)version;
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    tt_serving_metrics(serving, &reply->body);
}

struct index {
    struct tt_text *json;
    bool only_ready, any;
};

static void index_entry(void *context, const char *name, const char *version, const char *state,
                        const char *reason) {
    struct index *index = context;
    if (index->only_ready && strcmp(state, "READY") != 0)
        return;
    const char *const members[] = {"\"name\":", ",\"version\":", ",\"state\":", ",\"reason\":"};
    const char *const values[] = {name, version, state, reason};
    tt_text_puts(index->json, index->any ? ",{" : "{");
    for (int i = 0; i < 4; i++) {
        tt_text_puts(index->json, members[i]);
        tt_json_write_string(index->json, values[i] ? values[i] : "",
                             values[i] ? strlen(values[i]) : 0);
    }
    tt_text_puts(index->json, "}");
    index->any = true;
}

/* The body may be empty, or an object with "ready". */
static enum tt_err read_index_request(const char *body, size_t body_bytes, bool *out_only_ready,
                                      struct tt_message *why) {
    struct tt_json json;
    tt_json_init(&json, body, body_bytes, why);
    if (tt_json_peek(&json) == '\0' && json.at == json.end)
        return TT_OK;
    enum tt_err err = tt_json_open(&json, '{');
    bool first = true, more = false;
    while (!err) {
        err = tt_json_next(&json, '}', &first, &more);
        if (err || !more)
            break;
        char key[16];
        err = tt_json_key(&json, key, sizeof(key));
        if (!err)
            err = strcmp(key, "ready") == 0 ? tt_json_bool(&json, key, out_only_ready)
                                            : tt_json_skip(&json);
    }
    return err ? err : tt_json_end(&json);
}

static void say_index(struct tt_serving *serving, const char *body, size_t body_bytes,
                      struct tt_reply *reply) {
    struct tt_message why;
    struct index index = {.json = &reply->body};
    enum tt_err err = read_index_request(body, body_bytes, &index.only_ready, &why);
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    tt_text_puts(reply_json(reply), "[");
    tt_serving_index(serving, index_entry, &index);
    tt_text_puts(&reply->body, "]");
}

static void write_specs(struct tt_text *json, const char *name, const struct tt_tensor_spec *specs,
                        int32_t count, bool batched) {
    tt_text_puts(json, name);
    for (int32_t i = 0; i < count; i++) {
        struct tt_shape shape = specs[i].shape;
        if (batched)
            shape.dims[0] = -1;
        char printed[8 * 21 + 3];
        tt_text_puts(json, i ? ",{\"name\":" : "{\"name\":");
        tt_json_write_string(json, specs[i].name, strlen(specs[i].name));
        tt_text_printf(json, ",\"datatype\":\"%s\",\"shape\":%s}", tt_dtype_name(specs[i].dtype),
                       tt_shape_print(&shape, printed, sizeof(printed)));
    }
    tt_text_puts(json, "]");
}

static void say_model(const struct tt_served_model *model, struct tt_reply *reply) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    const char *name = tt_served_model_name(model), *platform = tt_served_model_platform(model);
    struct tt_text *json = reply_json(reply);
    tt_text_puts(json, "{\"name\":");
    tt_json_write_string(json, name, strlen(name));
    tt_text_puts(json, ",\"versions\":[");
    for (int32_t i = 0; i < tt_served_model_version_count(model); i++) {
        const char *version = tt_served_model_version_at(model, i);
        tt_text_puts(json, i ? "," : "");
        tt_json_write_string(json, version, strlen(version));
    }
    tt_text_puts(json, "],\"platform\":");
    tt_json_write_string(json, platform, strlen(platform));
    write_specs(json, ",\"inputs\":[", signature->inputs, signature->input_count,
                signature->batched);
    write_specs(json, ",\"outputs\":[", signature->outputs, signature->output_count,
                signature->batched);
    tt_text_puts(json, "}");
}

static void say_config(const struct tt_served_model *model, struct tt_reply *reply) {
    enum tt_err err = tt_served_model_config_json(model, reply_json(reply));
    if (err)
        tt_reply_error(reply, err, "the model's configuration could not be written as JSON");
}

static void wrong_method(struct tt_reply *reply, const char *allow) {
    tt_reply_fail(reply, 405, "Method Not Allowed");
    reply->allow = allow;
}

/* v2/models/M[/versions/V][/verb] */
static enum tt_route_kind route_model(struct tt_serving *serving, const struct path *path,
                                      bool is_get, bool is_post, struct tt_infer_target *out_target,
                                      struct tt_reply *reply) {
    bool versioned = path->count >= 5 && strcmp(path->segments[3], "versions") == 0;
    const char *model_name = path->segments[2], *version = versioned ? path->segments[4] : "";
    int at = versioned ? 5 : 3;
    const char *verb = path->count > at ? path->segments[at] : "";
    bool infer = strcmp(verb, "infer") == 0, ready = strcmp(verb, "ready") == 0;
    if (path->count > at + 1 || (*verb && !infer && !ready && strcmp(verb, "config") != 0) ||
        (path->count > at && !*verb)) {
        tt_reply_fail(reply, 404, "Not Found");
        return TT_ROUTE_REPLY;
    }
    if (infer ? !is_post : !is_get) {
        wrong_method(reply, infer ? "POST" : "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (strlen(model_name) >= sizeof(out_target->model) ||
        strlen(version) >= sizeof(out_target->version)) {
        tt_reply_fail(reply, 404, "no model has so long a name or version");
        return TT_ROUTE_REPLY;
    }
    strcpy(out_target->model, model_name);
    strcpy(out_target->version, version);
    if (infer)
        return TT_ROUTE_INFER;
    struct tt_message why;
    struct tt_served_model *model;
    enum tt_err err = tt_serving_find(serving, model_name, version, &model, &why);
    if (err && ready && err == TT_ERR_UNAVAILABLE)
        tt_reply_fail(reply, 400, why.text);
    else if (err)
        tt_reply_error(reply, err, why.text);
    else if (ready)
        reply->status = 200;
    else if (*verb)
        say_config(model, reply);
    else
        say_model(model, reply);
    return TT_ROUTE_REPLY;
}

static const struct {
    int count;
    const char *names[3];
    void (*say)(struct tt_serving *serving, const char *version, struct tt_reply *reply);
} pages[] = {
    {0, {NULL}, say_root},
    {1, {"metrics"}, say_metrics},
    {1, {"v2"}, say_server},
    {3, {"v2", "health", "live"}, say_live},
    {3, {"v2", "health", "ready"}, say_ready},
};

enum tt_route_kind tt_route(struct tt_serving *serving, const char *server_version,
                            const char *method, const char *target, const char *body,
                            size_t body_bytes, struct tt_infer_target *out_target,
                            struct tt_reply *reply) {
    static const char *const index_path[] = {"v2", "repository", "index"};
    bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    bool is_post = strcmp(method, "POST") == 0;
    struct path path;
    split(target, &path);
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
            pages[i].say(serving, server_version, reply);
        else
            wrong_method(reply, "GET, HEAD");
        return TT_ROUTE_REPLY;
    }
    if (path_is(&path, 0, index_path, 3)) {
        if (is_post)
            say_index(serving, body, body_bytes, reply);
        else
            wrong_method(reply, "POST");
        return TT_ROUTE_REPLY;
    }
    if (path.count >= 3 && strcmp(path.segments[0], "v2") == 0 &&
        strcmp(path.segments[1], "models") == 0 && *path.segments[2])
        return route_model(serving, &path, is_get, is_post, out_target, reply);
    tt_reply_fail(reply, 404, "Not Found");
    return TT_ROUTE_REPLY;
}
