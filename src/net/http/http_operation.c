#include "net/http/http_operation.h"

#include "base/err.h"

#include <string.h>

#define ANY "*" /* a name: of a model, a version or a repository */

#define NONE TT_OPERATION_UNKNOWN

/* In the order of http_routes.c: the first row that matches decides. */
static const struct {
    int count;
    const char *parts[TT_HTTP_PATH_SEGMENTS];
    enum tt_operation get, post;
} rows[] = {
    {0, {NULL}, TT_OPERATION_METADATA, NONE},
    {1, {"metrics"}, TT_OPERATION_READ, NONE},
    {1, {"openapi.json"}, TT_OPERATION_METADATA, NONE},
    {1, {"v2"}, TT_OPERATION_METADATA, NONE},
    {3, {"v2", "health", "live"}, TT_OPERATION_HEALTH, NONE},
    {3, {"v2", "health", "ready"}, TT_OPERATION_HEALTH, NONE},
    {3, {"v2", "models", "stats"}, TT_OPERATION_READ, NONE},
    {3, {"v2", "trace", "setting"}, TT_OPERATION_READ, TT_OPERATION_MANAGE},
    {2, {"v2", "logging"}, TT_OPERATION_READ, TT_OPERATION_MANAGE},
    {3, {"v2", "debug", "trace"}, TT_OPERATION_DEBUG, NONE},
    {3, {"v2", "repository", "index"}, NONE, TT_OPERATION_READ},
    {4, {"v2", "repository", ANY, "index"}, NONE, TT_OPERATION_READ},
    {5, {"v2", "repository", "models", ANY, "load"}, NONE, TT_OPERATION_MANAGE},
    {5, {"v2", "repository", "models", ANY, "unload"}, NONE, TT_OPERATION_MANAGE},
    {6, {"v2", "repository", ANY, "models", ANY, "load"}, NONE, TT_OPERATION_MANAGE},
    {6, {"v2", "repository", ANY, "models", ANY, "unload"}, NONE, TT_OPERATION_MANAGE},
    {3, {"v2", "systemsharedmemory", "status"}, TT_OPERATION_READ, NONE},
    {3, {"v2", "systemsharedmemory", "unregister"}, NONE, TT_OPERATION_MANAGE},
    {5, {"v2", "systemsharedmemory", "region", ANY, "status"}, TT_OPERATION_READ, NONE},
    {5, {"v2", "systemsharedmemory", "region", ANY, "register"}, NONE, TT_OPERATION_MANAGE},
    {5, {"v2", "systemsharedmemory", "region", ANY, "unregister"}, NONE, TT_OPERATION_MANAGE},
    {5, {"v2", "models", ANY, "trace", "setting"}, TT_OPERATION_READ, TT_OPERATION_MANAGE},
    {3, {"v2", "models", ANY}, TT_OPERATION_METADATA, NONE},
    {4, {"v2", "models", ANY, "infer"}, NONE, TT_OPERATION_INFER},
    {4, {"v2", "models", ANY, "generate"}, NONE, TT_OPERATION_INFER},
    {4, {"v2", "models", ANY, "generate_stream"}, NONE, TT_OPERATION_INFER},
    {4, {"v2", "models", ANY, "ready"}, TT_OPERATION_HEALTH, NONE},
    {4, {"v2", "models", ANY, "config"}, TT_OPERATION_METADATA, NONE},
    {4, {"v2", "models", ANY, "stats"}, TT_OPERATION_READ, NONE},
    {5, {"v2", "models", ANY, "versions", ANY}, TT_OPERATION_METADATA, NONE},
    {6, {"v2", "models", ANY, "versions", ANY, "infer"}, NONE, TT_OPERATION_INFER},
    {6, {"v2", "models", ANY, "versions", ANY, "generate"}, NONE, TT_OPERATION_INFER},
    {6, {"v2", "models", ANY, "versions", ANY, "generate_stream"}, NONE, TT_OPERATION_INFER},
    {6, {"v2", "models", ANY, "versions", ANY, "ready"}, TT_OPERATION_HEALTH, NONE},
    {6, {"v2", "models", ANY, "versions", ANY, "config"}, TT_OPERATION_METADATA, NONE},
    {6, {"v2", "models", ANY, "versions", ANY, "stats"}, TT_OPERATION_READ, NONE},
};

static bool matches(const struct tt_http_path *path, int count, const char *const parts[]) {
    if (path->count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (strcmp(parts[i], ANY) != 0 && strcmp(parts[i], path->segments[i]) != 0)
            return false;
    return true;
}

/* The live page has paths of its own, which show what statistics show. */
static bool is_page(const struct tt_http_path *path) {
    static const char *const names[] = {"dashboard.css", "dashboard.js", "state"};
    if (path->count == 0)
        return true;
    for (size_t i = 0; i < TT_COUNT(names); i++)
        if (tt_http_path_is(path, 0, &names[i], 1))
            return true;
    return false;
}

enum tt_operation tt_http_operation(const struct tt_http_path *path, const char *method,
                                    bool is_dashboard) {
    bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (!is_get && strcmp(method, "POST") != 0)
        return TT_OPERATION_UNKNOWN;
    if (is_dashboard && is_page(path))
        return is_get ? TT_OPERATION_READ : TT_OPERATION_UNKNOWN;
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        if (matches(path, rows[i].count, rows[i].parts))
            return is_get ? rows[i].get : rows[i].post;
    return TT_OPERATION_UNKNOWN;
}
