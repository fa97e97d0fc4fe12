#include "net/kserve/kserve_pages.h"

#include "net/json/json_tensor.h"

#include <string.h>

void tt_page_root(const struct tt_route_world *world, struct tt_reply *reply) {
    reply->status = 200;
    reply->content_type = "text/plain; charset=utf-8";
    tt_text_printf(&reply->body,
                   "Tutti %s, an inference server: KServe v2 over HTTP.\n"
                   "GET  /v2                      what this is\n"
                   "GET  /v2/health/ready         200 when the server serves\n"
                   "POST /v2/repository/index     the models\n"
                   "GET  /v2/models/NAME          inputs and outputs of one\n"
                   "GET  /v2/models/NAME/stats    what it has done\n"
                   "POST /v2/models/NAME/infer    inference\n"
                   "GET  /v2/debug/trace?seconds=5  what just ran, for ui.perfetto.dev\n"
                   "GET  /metrics                 for Prometheus\n",
                   world->server_version);
}

void tt_page_server(const struct tt_route_world *world, struct tt_reply *reply) {
    struct tt_text *json = tt_reply_json(reply);
    tt_text_puts(json, "{\"name\":\"tutti\",\"version\":");
    tt_json_write_string(json, world->server_version, strlen(world->server_version));
    tt_text_puts(json, ",\"extensions\":[\"model_repository\","
                       "\"model_repository(unload_dependents)\",\"schedule_policy\","
                       "\"model_configuration\",\"binary_tensor_data\",\"parameters\","
                       "\"statistics\",\"trace\",\"logging\"]}");
}

void tt_page_live(const struct tt_route_world *world, struct tt_reply *reply) {
    (void)world;
    reply->status = 200;
}

void tt_page_ready(const struct tt_route_world *world, struct tt_reply *reply) {
    /* 400 is what the protocol's users know */
    reply->status = tt_serving_ready(world->serving) ? 200 : 400;
}

/* The conservation of requests: what came has been answered, has gone, or is in flight. */
static void add_counts(struct tt_text *page, const struct tt_listener_counts *counts) {
    const struct {
        const char *name, *help, *type;
        int64_t value;
    } rows[] = {
        {"tutti_http_connections_accepted_total", "Connections accepted", "counter",
         counts->accepted},
        {"tutti_http_connections", "Connections open", "gauge", counts->connections},
        {"tutti_http_requests_total", "HTTP requests that came whole, or were refused", "counter",
         counts->requests},
        {"tutti_http_answered_total", "HTTP requests whose answer was written", "counter",
         counts->answered},
        {"tutti_http_gone_total", "HTTP requests whose client left before its answer", "counter",
         counts->gone},
        {"tutti_http_in_flight", "HTTP requests not answered yet", "gauge", counts->in_flight},
    };
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", rows[i].name, rows[i].help,
                       rows[i].name, rows[i].type, rows[i].name, (long long)rows[i].value);
}

void tt_page_metrics(const struct tt_route_world *world, struct tt_reply *reply) {
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    tt_serving_metrics(world->port, &reply->body);
    if (world->counts)
        add_counts(&reply->body, world->counts);
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

struct versions {
    struct tt_text *json;
    const char *model;
    bool any;
};

static void add_version(void *context, const char *name, const char *version, const char *state,
                        const char *reason) {
    (void)reason;
    struct versions *versions = context;
    if (strcmp(name, versions->model) != 0 || strcmp(state, "READY") != 0)
        return;
    tt_text_puts(versions->json, versions->any ? "," : "");
    tt_json_write_string(versions->json, version, strlen(version));
    versions->any = true;
}

void tt_page_model(const struct tt_route_world *world, const struct tt_served_model *model,
                   struct tt_reply *reply) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    const char *name = tt_served_model_name(model), *platform = tt_served_model_platform(model);
    struct tt_text *json = tt_reply_json(reply);
    tt_text_puts(json, "{\"name\":");
    tt_json_write_string(json, name, strlen(name));
    tt_text_puts(json, ",\"versions\":[");
    struct versions versions = {.json = json, .model = name};
    tt_serving_index(world->port, add_version, &versions);
    tt_text_puts(json, "],\"platform\":");
    tt_json_write_string(json, platform, strlen(platform));
    write_specs(json, ",\"inputs\":[", signature->inputs, signature->input_count,
                signature->batched);
    write_specs(json, ",\"outputs\":[", signature->outputs, signature->output_count,
                signature->batched);
    tt_text_puts(json, "}");
}

void tt_page_config(const struct tt_served_model *model, struct tt_reply *reply) {
    enum tt_err err = tt_served_model_config_json(model, tt_reply_json(reply));
    if (err)
        tt_reply_error(reply, err, "the model's configuration could not be written as JSON");
}
