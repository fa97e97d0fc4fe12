/* Replies of http_routes.h: each calls one operation of net/kserve and writes its page. */
#include "net/http/http_routes.h"

#include "base/instant.h"
#include "net/kserve/kserve_bodies.h"
#include "net/kserve/kserve_pages.h"

#include <stdlib.h>
#include <string.h>

void tt_page_root(const struct tt_http_context *context, struct tt_reply *reply) {
    reply->status = 200;
    reply->content_type = "text/plain; charset=utf-8";
    tt_text_printf(&reply->body,
                   "Tutti %s, an inference server: KServe v2 over HTTP.\n"
                   "GET  /v2                      what this is\n"
                   "GET  /v2/health/ready         200 when it serves what it should\n"
                   "POST /v2/repository/index     the models\n"
                   "GET  /v2/models/NAME          inputs and outputs of one\n"
                   "GET  /v2/models/NAME/stats    what it has done\n"
                   "POST /v2/models/NAME/infer    inference\n"
                   "GET  /v2/debug/trace?seconds=5  what just ran, for ui.perfetto.dev\n"
                   "GET  /metrics                 for Prometheus\n"
                   "GET  /openapi.json            all paths, for tools\n",
                   context->service.server_version);
}

/* openapi.json of this folder, put into the program by cmake/embed_page.cmake. */
extern const unsigned char tt_openapi[];
extern const size_t tt_openapi_bytes;

void tt_page_openapi(const struct tt_http_context *context, struct tt_reply *reply) {
    (void)context;
    reply->status = 200;
    reply->content_type = "application/json";
    tt_text_append(&reply->body, (const char *)tt_openapi, tt_openapi_bytes);
}

void tt_page_server(const struct tt_http_context *context, struct tt_reply *reply) {
    struct tt_kserve_server server;
    tt_kserve_server(&context->service, &server);
    tt_kserve_write_server(&server, tt_reply_json(reply));
}

void tt_page_live(const struct tt_http_context *context, struct tt_reply *reply) {
    reply->status = tt_kserve_live(&context->service) ? 200 : 400;
}

void tt_page_ready(const struct tt_http_context *context, struct tt_reply *reply) {
    reply->status = tt_kserve_ready(&context->service) ? 200 : 503;
}

/* --- one model --- */

void tt_page_model(const struct tt_http_context *context, const struct tt_kserve_target *target,
                   struct tt_reply *reply) {
    struct tt_error why;
    struct tt_kserve_metadata metadata;
    enum tt_err err = tt_kserve_metadata_init(&metadata, &context->service, target, &why);
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    tt_kserve_write_metadata(&metadata, tt_reply_json(reply));
    tt_kserve_metadata_fini(&metadata);
}

void tt_page_model_ready(const struct tt_http_context *context,
                         const struct tt_kserve_target *target, struct tt_reply *reply) {
    struct tt_error why;
    enum tt_err err = tt_kserve_model_ready(&context->service, target, &why);
    reply->status = 200;
    if (err == TT_ERR_UNAVAILABLE) /* as the protocol says */
        tt_reply_fail(reply, 400, why.text);
    else if (err)
        tt_reply_error(reply, err, why.text);
}

void tt_page_config(const struct tt_http_context *context, const struct tt_kserve_target *target,
                    struct tt_reply *reply) {
    struct tt_error why;
    enum tt_err err = tt_kserve_config(&context->service, target, tt_reply_json(reply), &why);
    if (err)
        tt_reply_error(reply, err, why.text);
}

void tt_page_statistics(const struct tt_http_context *context,
                        const struct tt_kserve_target *target, struct tt_reply *reply) {
    struct tt_error why;
    struct tt_kserve_statistics statistics;
    enum tt_err err = tt_kserve_statistics_init(&statistics, &context->service, target, &why);
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    tt_kserve_write_statistics(&statistics, tt_reply_json(reply));
    tt_kserve_statistics_fini(&statistics);
}

/* --- the repository --- */

void tt_page_index(const struct tt_http_context *context, bool only_ready, struct tt_reply *reply) {
    struct tt_error why;
    struct tt_kserve_index index;
    enum tt_err err = tt_kserve_index_init(&index, &context->service, only_ready, &why);
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    tt_kserve_write_index(&index, tt_reply_json(reply));
    tt_kserve_index_fini(&index);
}

struct tt_model_command *tt_page_command(const char *model, bool is_load,
                                         const struct tt_http_request *request,
                                         struct tt_reply *reply) {
    struct tt_model_command *command = NULL;
    struct tt_error why = {{0}};
    enum tt_err err = tt_model_command_new(model, is_load, &command);
    if (!err && !request->reads_later)
        err = tt_kserve_read_load(request->body, request->body_bytes, command, &why);
    if (!err) {
        tt_assert(command != NULL);
        return command;
    }
    tt_model_command_free(command);
    tt_reply_error(reply, err, why.text);
    return NULL;
}

/* --- settings --- */

void tt_page_trace_settings(const struct tt_http_context *context,
                            const struct tt_kserve_target *target,
                            const struct tt_http_request *request, bool changes,
                            struct tt_reply *reply) {
    struct tt_error why = {{0}};
    enum tt_err err = target ? tt_kserve_model_ready(&context->service, target, &why) : TT_OK;
    if (!err && changes)
        err = tt_kserve_read_trace_change(request->body, request->body_bytes, &why);
    if (err)
        tt_reply_error(reply, err, why.text);
    else
        tt_kserve_write_trace_settings(&tt_kserve_trace_settings, tt_reply_json(reply));
}

void tt_page_log_settings(const struct tt_http_context *context,
                          const struct tt_http_request *request, bool changes,
                          struct tt_reply *reply) {
    struct tt_error why = {{0}};
    struct tt_kserve_log_settings settings;
    enum tt_err err = tt_kserve_log_settings(&context->service, &settings, &why);
    if (!err && changes) {
        err = tt_kserve_read_log_change(request->body, request->body_bytes, &settings, &why);
        if (!err)
            err = tt_kserve_log_settings_change(&context->service, &settings, &why);
        if (!err)
            err = tt_kserve_log_settings(&context->service, &settings, &why);
    }
    if (err)
        tt_reply_error(reply, err, why.text);
    else
        tt_kserve_write_log_settings(&settings, tt_reply_json(reply));
}
