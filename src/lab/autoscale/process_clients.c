#include "lab/autoscale/process_clients.h"

#include "base/clock.h"
#include "base/list.h"
#include "client/http_client.h"
#include "client/kserve_client.h"
#include "lab/autoscale/request_source.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

enum { SENT_PER_TURN = 64, GIVE_UP_SLOS = 4 };

static const int64_t turn_ns = TT_MS; /* the others of several connections' sockets wait so long */

struct client_call {
    struct tt_http_call http;
    int32_t model;
    int64_t due_at;
    struct client_call *next_spare;
};

struct tt_process_clients {
    const struct tt_fleet_world_model *models;
    int32_t model_count;
    struct tt_http_client **clients; /* [client_count] */
    int32_t client_count, turn;
    struct tt_text *requests; /* [client_count][model_count]: whole requests */
    struct tt_request_source source;
    struct tt_fleet_count *counts; /* [model_count] */
    struct client_call *spare;
    int64_t in_flight;
};

static void on_done(void *context, struct tt_http_call *http) {
    struct tt_process_clients *self = context;
    struct client_call *call = TT_CONTAINER_OF(http, struct client_call, http);
    struct tt_fleet_count *count = &self->counts[call->model];
    bool is_good = http->outcome == TT_HTTP_ANSWERED && http->status == 200 &&
                   http->ended_at - call->due_at <= self->models[call->model].slo_ns;
    count->ok += is_good;
    count->bad += !is_good;
    self->in_flight--;
    tt_text_fini(&http->body);
    call->next_spare = self->spare;
    self->spare = call;
}

/* ---- opening ---- */

static enum tt_err write_request(struct tt_text *out, const char *authority, const char *model,
                                 struct tt_error *why) {
    struct tt_kserve_client_body body = {0};
    tt_text_init(&body.json);
    tt_text_init(&body.binary);
    tt_text_puts(&body.json, "\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT32\",\"shape\":[1,1],"
                             "\"data\":[1]}]}");
    const struct tt_kserve_client_request request = {
        .authority = authority, .model = model, .body = &body};
    tt_text_init(out);
    tt_kserve_client_head(&request, out);
    tt_text_puts(out, tt_text_string(&body.json));
    bool failed = out->failed || body.json.failed;
    tt_kserve_client_body_fini(&body);
    return failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for requests") : TT_OK;
}

static enum tt_err open_client(struct tt_process_clients *self, const char *url,
                               int32_t connection_limit, struct tt_error *why) {
    struct tt_http_address address;
    enum tt_err err = tt_http_address_parse(url, 8000, &address, why);
    if (err)
        return err;
    int64_t slowest_ns = 0;
    for (int32_t m = 0; m < self->model_count; m++)
        slowest_ns = tt_instant_max(slowest_ns, self->models[m].slo_ns);
    const struct tt_http_client_options options = {.address = &address,
                                                   .connection_limit = connection_limit,
                                                   .give_up_ns = GIVE_UP_SLOS * slowest_ns,
                                                   .done = on_done,
                                                   .done_context = self};
    err = tt_http_client_open(&options, &self->clients[self->client_count], why);
    for (int32_t m = 0; !err && m < self->model_count; m++)
        err = write_request(&self->requests[self->client_count * self->model_count + m],
                            address.authority, self->models[m].name, why);
    self->client_count++;
    return err;
}

enum tt_err tt_process_clients_open(const struct tt_process_clients_options *options,
                                    struct tt_process_clients **out_clients, struct tt_error *why) {
    size_t models = (size_t)options->model_count, urls = (size_t)options->url_count;
    struct tt_process_clients *self = tt_allocate(1, sizeof(*self));
    self->models = options->models;
    self->model_count = options->model_count;
    self->clients = tt_allocate(urls, sizeof(struct tt_http_client *));
    self->requests = tt_allocate(urls * models, sizeof(*self->requests));
    self->counts = tt_allocate(models, sizeof(*self->counts));
    enum tt_err err = tt_request_source_init(&self->source, options->model_count, 0, options->seed)
                          ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for requests")
                          : TT_OK;
    for (int32_t i = 0; !err && i < options->url_count; i++)
        err = open_client(self, options->urls[i], options->connection_limit, why);
    if (err)
        tt_process_clients_close(self);
    else
        *out_clients = self;
    return err;
}

void tt_process_clients_close(struct tt_process_clients *take_self) {
    struct tt_process_clients *self = take_self;
    if (!self)
        return;
    for (int32_t i = 0; i < self->client_count; i++)
        tt_http_client_close(self->clients[i]);
    tt_assert(self->in_flight == 0);
    for (int32_t i = 0; i < self->client_count * self->model_count; i++)
        tt_text_fini(&self->requests[i]);
    for (struct client_call *call; (call = self->spare);) {
        self->spare = call->next_spare;
        free(call);
    }
    tt_request_source_fini(&self->source);
    free(self->clients);
    free(self->requests);
    free(self->counts);
    free(self);
}

/* ---- running ---- */

void tt_process_clients_set_rates(struct tt_process_clients *self, const double *per_s) {
    tt_request_source_set_rates(&self->source, tt_clock_now(), per_s);
}

static void send_one(struct tt_process_clients *self) {
    int32_t model;
    int64_t due_at;
    bool is_due = tt_request_source_next(&self->source, &model, &due_at);
    tt_assert(is_due);
    struct client_call *call = self->spare;
    if (call)
        self->spare = call->next_spare;
    else
        call = tt_allocate(1, sizeof(*call));
    int32_t client = self->turn++ % self->client_count;
    const struct tt_text *request = &self->requests[client * self->model_count + model];
    call->model = model;
    call->due_at = due_at;
    call->http =
        (struct tt_http_call){.parts = {{.iov_base = request->bytes, .iov_len = request->length}},
                              .part_count = 1,
                              .since_at = due_at};
    self->counts[model].arrived++;
    self->in_flight++;
    tt_http_client_start(self->clients[client], &call->http);
}

void tt_process_clients_run(struct tt_process_clients *self, int64_t until_at) {
    for (int64_t now; (now = tt_clock_now()) < until_at;) {
        for (int32_t i = 0; i < SENT_PER_TURN && tt_request_source_next_at(&self->source) <= now;
             i++)
            send_one(self);
        int64_t wake_at = tt_instant_min(tt_instant_min(now + turn_ns, until_at),
                                         tt_request_source_next_at(&self->source));
        for (int32_t i = 0; i < self->client_count; i++)
            tt_http_client_poll(self->clients[i], i == 0 ? wake_at : now);
    }
}

void tt_process_clients_take(struct tt_process_clients *self, struct tt_fleet_count *out_counts) {
    size_t bytes = (size_t)self->model_count * sizeof(*self->counts);
    memcpy(out_counts, self->counts, bytes);
    memset(self->counts, 0, bytes);
}
