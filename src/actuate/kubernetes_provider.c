#include "actuate/kubernetes_provider.h"

#include "client/http_fetch.h"
#include "client/http_login.h"
#include "client/json_tree.h"
#include "net/tls/tls_context.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HTTPS_TCP_PORT = 443,
    CONFLICT = 409,
    MAX_FILE_BYTES = 1 << 16,
    MAX_NAME_BYTES = 253,
    SHOWN_BYTES = 600
};

static const char pods_account[] = "/var/run/secrets/kubernetes.io/serviceaccount";

struct kubernetes_provider {
    char *name, *account, *namespace_name, *url;
    int64_t limit_ns;
};

static void close_provider(void *take_self) {
    struct kubernetes_provider *self = take_self;
    free(self->name);
    free(self->account);
    free(self->namespace_name);
    free(self->url);
    free(self);
}

/* ---- opening ---- */

/* The first line of a file of the account. */
static enum tt_err read_account(const struct kubernetes_provider *self, const char *file,
                                struct tt_text *out, struct tt_error *why) {
    struct tt_text path;
    tt_text_init(&path);
    tt_text_printf(&path, "%s/%s", self->account, file);
    enum tt_err err = tt_text_read_file(tt_text_string(&path), MAX_FILE_BYTES, out, why);
    if (!err) {
        size_t length = strcspn(tt_text_string(out), "\r\n");
        for (size_t i = 0; i < length; i++)
            if (!isgraph((unsigned char)out->bytes[i]))
                length = 0;
        if (length == 0)
            err = tt_fail(TT_ERR_INVALID, why, "%s: the first line is empty or has blanks",
                          tt_text_string(&path));
        else
            out->bytes[out->length = length] = '\0';
    }
    tt_text_fini(&path);
    return err;
}

static enum tt_err read_namespace(struct kubernetes_provider *self, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = read_account(self, "namespace", &text, why);
    if (!err && !(self->namespace_name = strdup(tt_text_string(&text))))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_text_fini(&text);
    return err;
}

/* As the environment of every pod states it. */
static enum tt_err find_server(struct kubernetes_provider *self, struct tt_error *why) {
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *tcp_port = getenv("KUBERNETES_SERVICE_PORT");
    char url[400];
    if (!host || !*host)
        return tt_fail(TT_ERR_INVALID, why,
                       "KUBERNETES_SERVICE_HOST is not set, as it is in a pod of Kubernetes; "
                       "elsewhere the URL of the API server must be given");
    bool is_bare = strchr(host, ':') != NULL; /* an IPv6 address */
    snprintf(url, sizeof(url), "https://%s%.256s%s:%.8s", is_bare ? "[" : "", host,
             is_bare ? "]" : "", tcp_port && *tcp_port ? tcp_port : "443");
    self->url = strdup(url);
    return self->url ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

/* ---- requests ---- */

/* The API server, as it is to be reached now. */
struct server {
    struct tt_http_address address;
    struct tt_http_login login;
    struct tt_text headers, path;
};

static void close_server(struct server *self) {
    tt_http_login_close(&self->login);
    tt_text_fini(&self->headers);
    tt_text_fini(&self->path);
}

/* A name of Kubernetes goes into the path as it is. */
static bool is_name(const char *text) {
    size_t length = strlen(text);
    return length > 0 && length <= MAX_NAME_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == length;
}

static enum tt_err put_path(const struct kubernetes_provider *self,
                            const struct tt_scale_request *request, struct tt_text *out,
                            struct tt_error *why) {
    struct tt_text name;
    enum tt_err err = TT_OK;
    tt_text_init(&name);
    tt_scale_template_put(self->name, request, &name);
    if (is_name(tt_text_string(&name)) && is_name(self->namespace_name))
        tt_text_printf(out, "/apis/apps/v1/namespaces/%s/statefulsets/%s/scale",
                       self->namespace_name, tt_text_string(&name));
    else
        err = tt_fail(TT_ERR_INVALID, why,
                      "'%.100s' in '%.100s' is no name of a StatefulSet: lower-case letters, "
                      "digits, '-' and '.'",
                      tt_text_string(&name), self->namespace_name);
    tt_text_fini(&name);
    return err;
}

static enum tt_err open_server(const struct kubernetes_provider *self,
                               const struct tt_scale_request *request, struct server *out,
                               struct tt_error *why) {
    struct tt_text token, ca;
    *out = (struct server){.login = {.tls = NULL}};
    tt_text_init(&token);
    tt_text_init(&ca);
    enum tt_err err = put_path(self, request, &out->path, why);
    if (!err)
        err = tt_http_address_parse(self->url, HTTPS_TCP_PORT, &out->address, why);
    if (!err && !out->address.is_tls)
        err = tt_fail(TT_ERR_INVALID, why,
                      "%s: the API server is reached by https, so that the token is not shown",
                      self->url);
    if (!err)
        err = read_account(self, "token", &token, why);
    tt_text_printf(&ca, "%s/ca.crt", self->account);
    if (!err)
        err = tt_tls_client_new(tt_text_string(&ca), &out->login.tls, why);
    tt_text_printf(&out->headers, "Authorization: Bearer %s\r\nAccept: application/json\r\n",
                   tt_text_string(&token));
    out->address.login = &out->login;
    tt_text_fini(&token);
    tt_text_fini(&ca);
    return err;
}

/* The reason of a Status object, or the answer as it is. */
static enum tt_err refused(const struct server *server, int32_t status, const struct tt_text *body,
                           struct tt_error *why) {
    json_error_t ignored;
    json_t *json = tt_json_tree_load(tt_text_string(body), body->length, 0, &ignored);
    const char *message = json_string_value(json_object_get(json, "message"));
    enum tt_err err = status == CONFLICT ? TT_ERR_BUSY
                      : status >= 500    ? TT_ERR_UNAVAILABLE
                                         : TT_ERR_INVALID;
    char shown[SHOWN_BYTES];
    (void)tt_http_shown(message ? message : tt_text_string(body),
                        message ? strlen(message) : body->length, shown, SHOWN_BYTES);
    tt_fail(err, why, "%s: HTTP status %d: %s", tt_text_string(&server->path), status, shown);
    json_decref(json);
    return err;
}

struct scale_object {
    int64_t replicas;
    char version[64];
};

static enum tt_err ask(const struct kubernetes_provider *self, const struct server *server,
                       const char *method, const char *body, const struct tt_flag *stopping,
                       struct scale_object *out, struct tt_error *why) {
    const struct tt_http_ask request = {.address = &server->address,
                                        .method = method,
                                        .path = tt_text_string(&server->path),
                                        .headers = tt_text_string(&server->headers),
                                        .body = body,
                                        .content_type = "application/merge-patch+json",
                                        .give_up_ns = self->limit_ns,
                                        .stopping = stopping};
    int32_t status;
    struct tt_text answer;
    enum tt_err err = tt_http_ask(&request, &status, &answer, why);
    if (err)
        return err;
    if (status != 200) {
        err = refused(server, status, &answer, why);
        tt_text_fini(&answer);
        return err;
    }
    json_error_t problem;
    json_t *json = tt_json_tree_load(tt_text_string(&answer), answer.length, 0, &problem);
    const json_t *replicas = json_object_get(json_object_get(json, "spec"), "replicas");
    const char *version =
        json_string_value(json_object_get(json_object_get(json, "metadata"), "resourceVersion"));
    bool is_scale = version && *version && strlen(version) < sizeof(out->version) &&
                    !strpbrk(version, "\"\\") && (!replicas || json_is_integer(replicas));
    if (is_scale) { /* no replicas: 0, as the API leaves zeros out */
        out->replicas = json_integer_value(replicas);
        snprintf(out->version, sizeof(out->version), "%s", version);
    } else {
        err = tt_fail(TT_ERR_INVALID, why, "%s: the answer is no Scale object",
                      tt_text_string(&server->path));
    }
    json_decref(json);
    tt_text_fini(&answer);
    return err;
}

static enum tt_err patch(const struct kubernetes_provider *self, const struct server *server,
                         const struct tt_scale_request *request, const struct scale_object *seen,
                         struct tt_error *why) {
    char body[200];
    struct scale_object changed;
    snprintf(body, sizeof(body),
             "{\"metadata\": {\"resourceVersion\": \"%s\"}, \"spec\": {\"replicas\": %d}}",
             seen->version, request->count);
    enum tt_err err = ask(self, server, "PATCH", body, request->stopping, &changed, why);
    if (!err && changed.replicas != request->count)
        err = tt_fail(TT_ERR_INVALID, why, "%s: %d replicas were asked for, the answer has %lld",
                      tt_text_string(&server->path), request->count, (long long)changed.replicas);
    return err;
}

static enum tt_err scale(void *context, const struct tt_scale_request *request, int32_t *out_found,
                         struct tt_error *why) {
    const struct kubernetes_provider *self = context;
    struct server server;
    struct scale_object seen;
    *out_found = -1;
    enum tt_err err = open_server(self, request, &server, why);
    if (!err)
        err = ask(self, &server, "GET", NULL, request->stopping, &seen, why);
    bool is_there = !err && seen.replicas == request->count;
    if (!err && !is_there && seen.replicas != request->before && seen.replicas >= 0 &&
        seen.replicas <= INT32_MAX) {
        *out_found = (int32_t)seen.replicas;
        err = tt_fail(TT_ERR_BUSY, why, "%s has %d replicas, not the %d that were asked for last",
                      tt_text_string(&server.path), *out_found, request->before);
    }
    if (!err && !is_there)
        err = request->confirm(request->context, why);
    if (!err && !is_there)
        err = patch(self, &server, request, &seen, why);
    close_server(&server);
    return err;
}

static enum tt_err look(void *context, const struct tt_scale_request *request, int32_t *out_found,
                        struct tt_error *why) {
    const struct kubernetes_provider *self = context;
    struct server server;
    struct scale_object seen;
    enum tt_err err = open_server(self, request, &server, why);
    if (!err)
        err = ask(self, &server, "GET", NULL, request->stopping, &seen, why);
    if (!err)
        *out_found = seen.replicas < INT32_MAX ? (int32_t)seen.replicas : INT32_MAX;
    close_server(&server);
    return err;
}

enum tt_err tt_kubernetes_provider_open(const struct tt_kubernetes_options *options,
                                        struct tt_scale_provider *out_provider,
                                        struct tt_error *why) {
    enum tt_err err = tt_scale_template_check(options->name, why);
    struct kubernetes_provider *self = err ? NULL : calloc(1, sizeof(*self));
    if (!self)
        return err ? err : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->limit_ns = options->limit_ns;
    self->name = strdup(options->name);
    self->account = strdup(options->account ? options->account : pods_account);
    self->url = options->url ? strdup(options->url) : NULL;
    if (!self->name || !self->account || (options->url && !self->url))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err && !self->url)
        err = find_server(self, why);
    if (!err)
        err = read_namespace(self, why);
    if (err) {
        close_provider(self);
        return err;
    }
    *out_provider = (struct tt_scale_provider){
        .name = "kubernetes", .self = self, .scale = scale, .look = look, .close = close_provider};
    return TT_OK;
}
