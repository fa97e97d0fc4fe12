#include "lab/run/cluster_run.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/eventcount.h"
#include "client/http_client.h"
#include "client/json_tree.h"
#include "client/kserve_client.h"
#include "lab/processes/process_cluster.h"
#include "lab/run/cluster_batches.h"
#include "lab/scenario/allocate.h"
#include "profile/machine.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 64,        /* so that answers are read while many requests are due */
    CONNECTIONS = 12000, /* to each frontend, which accepts 16384 */
    REFUSAL_BYTES = 600,
};

static const int64_t lead_ns = 20 * TT_MS;  /* before the first arrival */
static const int64_t look_ns = 10 * TT_MS;  /* the longest sleep of the player */
static const int64_t turn_ns = TT_MS;       /* the same where it has several clients */
static const int64_t show_ns = 200 * TT_MS; /* between two looks at processes and progress */
static const int64_t drain_ns = 60 * TT_S;
static const int64_t long_us = INT64_C(1000000000000); /* no deadline */

/* A request in flight. */
struct call {
    struct tt_http_call http;
    struct tt_list_node link; /* in `in_flight`, or in `spare` */
    struct tt_sim_arrival arrival;
    int64_t number;
    struct tt_http_client *client;
    struct tt_text head;
    bool is_cancelled;
};

/* What all requests of a model that are so long and have so many rows share. */
struct shared_body {
    int32_t rows, length;
    struct tt_kserve_client_body body;
    struct shared_body *next;
};

struct player {
    const struct tt_live_run *run;
    const struct tt_scenario *scenario;
    struct tt_process_cluster cluster;
    struct tt_http_address addresses[TT_PROCESS_FRONTENDS];
    struct tt_http_client *clients[TT_PROCESS_FRONTENDS];
    int32_t client_count, turn;
    struct shared_body **bodies; /* [model_count] */
    struct tt_prng prng;
    struct tt_list in_flight, spare; /* of calls */
    int64_t cancelling;              /* requests in flight that have a cancel_at */
    struct tt_sim_arrival next;
    bool more;
    int64_t number, last_arrival_at, epoch_at, shown_at, bad;
    struct tt_histogram lag_ns;
    struct tt_live_figures figures;
    struct tt_scenario_result *result;
};

static struct call *call_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct call, link);
}

static int64_t since(const struct player *self, int64_t now) { return now - self->epoch_at; }

/* ---- how a request ended ---- */

/* An answer other than 200. Overload and deadlines are no failures; their messages say which. */
static enum tt_ending refused(struct player *self, const struct tt_http_call *http,
                              enum tt_drop_reason *out_reason) {
    json_t *json =
        http->body.length ? tt_json_tree_load(http->body.bytes, http->body.length, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(json, "error"));
    text = text ? text : "";
    enum tt_ending ending = TT_ENDING_DROPPED;
    if (http->status == 503 && strncmp(text, "Request timeout expired", 23) == 0)
        *out_reason = strstr(text, "(early)") ? TT_DROP_EARLY : TT_DROP_DEADLINE;
    else if (http->status == 503 && strncmp(text, "Exceeds maximum queue size", 26) == 0)
        *out_reason = TT_DROP_QUEUE_FULL;
    else
        ending = TT_ENDING_FAILED;
    if (ending == TT_ENDING_FAILED && !self->figures.failure[0])
        snprintf(self->figures.failure, sizeof(self->figures.failure), "%d: %s", http->status,
                 text);
    json_decref(json);
    return ending;
}

static enum tt_ending ending_of(struct player *self, const struct call *call,
                                enum tt_drop_reason *out_reason) {
    *out_reason = TT_DROP_NONE;
    if (call->http.outcome == TT_HTTP_ANSWERED)
        return call->http.status == 200 ? TT_ENDING_DONE : refused(self, &call->http, out_reason);
    if (call->http.outcome == TT_HTTP_WITHDRAWN)
        return TT_ENDING_CANCELLED;
    if (!self->figures.failure[0])
        snprintf(self->figures.failure, sizeof(self->figures.failure), "%s", call->http.reason);
    return TT_ENDING_FAILED;
}

static void on_done(void *context, struct tt_http_call *http) {
    struct player *self = context;
    struct call *call = TT_CONTAINER_OF(http, struct call, http);
    enum tt_drop_reason reason;
    enum tt_ending ending = ending_of(self, call, &reason);
    const struct tt_sim_ending end = {
        .number = call->number,
        .arrived_at = call->arrival.at,
        .deadline_at = call->arrival.deadline_at,
        .started_at = -1, /* the scheduler's recording says when */
        .ended_at = tt_instant_max(since(self, http->ended_at), call->arrival.at),
        .model = call->arrival.model,
        .ending = ending,
        .reason = reason};
    bool is_late = ending == TT_ENDING_DONE && !tt_sim_ending_in_time(&end);
    bool counts = end.arrived_at >= self->scenario->warm_up_ns;
    if (counts && http->sent_at >= 0)
        tt_histogram_add(&self->lag_ns,
                         tt_instant_max(since(self, http->sent_at) - end.arrived_at, 0));
    self->bad += counts && (is_late || ending == TT_ENDING_DROPPED || ending == TT_ENDING_FAILED);
    self->run->sink.ended(self->run->sink.context, &end);
    self->cancelling -= call->arrival.cancel_at != TT_NEVER;
    tt_text_fini(&http->body);
    tt_list_remove(&call->link);
    tt_list_push_front(&self->spare, &call->link);
}

/* ---- sending ---- */

static enum tt_err body_of(struct player *self, const struct tt_sim_arrival *arrival,
                           const struct tt_kserve_client_body **out_body, struct tt_error *why) {
    const struct tt_profile *profile = self->scenario->models[arrival->model].step_model.whole;
    bool has_lengths = profile->length_count > 1 || profile->lengths[0] > 0;
    int32_t length = has_lengths && arrival->length > 0 ? arrival->length : 1;
    struct shared_body **first = &self->bodies[arrival->model], *body = *first;
    while (body && (body->rows != arrival->rows || body->length != length))
        body = body->next;
    if (!body) {
        const struct tt_kserve_client_model model = {
            .input_count = 1, .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, has_lengths ? -1 : 1}}}}};
        body = tt_allocate(1, sizeof(*body));
        *body = (struct shared_body){.rows = arrival->rows, .length = length, .next = *first};
        enum tt_err err = tt_kserve_client_body_draw(&model, arrival->rows, length, true,
                                                     &self->prng, &body->body, why);
        if (err) {
            free(body);
            return err;
        }
        *first = body;
    }
    *out_body = &body->body;
    return TT_OK;
}

static struct call *take_call(struct player *self) {
    struct tt_list_node *node = tt_list_first(&self->spare);
    struct call *call = node ? call_at(node) : tt_allocate(1, sizeof(*call));
    if (node)
        tt_list_remove(node);
    else
        tt_text_init(&call->head);
    tt_text_clear(&call->head);
    tt_list_push_back(&self->in_flight, &call->link);
    return call;
}

static int64_t timeout_us(const struct player *self, int64_t now) {
    if (self->next.deadline_at == TT_NEVER)
        return long_us;
    int64_t left_ns = self->next.deadline_at - since(self, now) - self->scenario->cluster.reply_ns;
    return tt_instant_max(left_ns / TT_US, 1);
}

static enum tt_err send_next(struct player *self, int64_t now, struct tt_error *why) {
    const struct tt_kserve_client_body *body;
    enum tt_err err = body_of(self, &self->next, &body, why);
    if (err)
        return err;
    int32_t number = self->turn++ % self->client_count;
    struct call *call = take_call(self);
    call->arrival = self->next;
    call->number = self->number;
    call->client = self->clients[number];
    call->is_cancelled = false;
    const struct tt_kserve_client_request head = {.authority = self->addresses[number].authority,
                                                  .model =
                                                      self->scenario->models[self->next.model].name,
                                                  .body = body,
                                                  .timeout_us = timeout_us(self, now),
                                                  .binary = true};
    tt_kserve_client_head(&head, &call->head);
    call->http = (struct tt_http_call){
        .parts = {{.iov_base = call->head.bytes, .iov_len = call->head.length},
                  {.iov_base = body->json.bytes, .iov_len = body->json.length},
                  {.iov_base = body->binary.bytes, .iov_len = body->binary.length}},
        .part_count = 3,
        .since_at = self->epoch_at + self->next.at,
        .keep_refusal_bytes = REFUSAL_BYTES};
    self->cancelling += self->next.cancel_at != TT_NEVER;
    tt_live_figures_leave_out(&self->figures, self->next.exit_step >= 0, "exit_step");
    if (call->head.failed)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request");
    tt_http_client_start(call->client, &call->http);
    return TT_OK;
}

/* ---- cancelling ---- */

static void cancel(struct call *call) {
    if (!call->is_cancelled)
        tt_http_client_cancel(call->client, &call->http);
    call->is_cancelled = true;
}

static void cancel_all(struct player *self) {
    for (struct tt_list_node *node = tt_list_first(&self->in_flight); node;
         node = tt_list_next(&self->in_flight, node))
        cancel(call_at(node));
}

/* Returns when the next one is to be cancelled. */
static int64_t cancel_due(struct player *self, int64_t now) {
    int64_t next_at = TT_NEVER;
    for (struct tt_list_node *node = tt_list_first(&self->in_flight); node && self->cancelling > 0;
         node = tt_list_next(&self->in_flight, node)) {
        struct call *call = call_at(node);
        if (call->arrival.cancel_at <= since(self, now))
            cancel(call);
        else if (call->arrival.cancel_at != TT_NEVER)
            next_at = tt_instant_min(next_at, self->epoch_at + call->arrival.cancel_at);
    }
    return next_at;
}

/* ---- playing ---- */

/* Now and then: whether all processes live, and how far the run is. */
static enum tt_err look(struct player *self, int64_t now, struct tt_error *why) {
    if (now < self->shown_at + show_ns)
        return TT_OK;
    self->shown_at = now;
    tt_live_run_show(self->run, since(self, now));
    return tt_process_cluster_check(&self->cluster, why);
}

static enum tt_err send_due(struct player *self, int64_t now, struct tt_error *why) {
    const struct tt_sim_source *source = &self->run->source;
    for (int32_t i = 0; i < AT_ONCE && self->more && self->next.at <= since(self, now); i++) {
        enum tt_err err = send_next(self, now, why);
        if (err)
            return err;
        self->number++;
        self->last_arrival_at = self->next.at;
        self->more = source->next(source->context, &self->next);
    }
    return TT_OK;
}

/* The first client waits; the others look. */
static void poll_clients(struct player *self, int64_t now, int64_t until_at) {
    if (self->client_count > 1)
        until_at = tt_instant_min(until_at, now + turn_ns);
    for (int32_t i = 0; i < self->client_count; i++)
        tt_http_client_poll(self->clients[i], i == 0 ? until_at : now);
}

static enum tt_err play(struct player *self, struct tt_error *why) {
    bool is_ending = false;
    self->more = self->run->source.next(self->run->source.context, &self->next);
    while (self->more || !tt_list_empty(&self->in_flight)) {
        int64_t now = tt_clock_now();
        if (!is_ending && tt_live_run_is_stopped(self->run, self->bad, self->result)) {
            is_ending = true;
            self->more = false;
            cancel_all(self);
        }
        enum tt_err err = look(self, now, why);
        if (!err)
            err = send_due(self, now, why);
        if (err)
            return err;
        if (!self->more && !is_ending && since(self, now) - self->last_arrival_at > drain_ns) {
            is_ending = true;
            for (struct tt_list_node *node = tt_list_first(&self->in_flight); node;
                 node = tt_list_next(&self->in_flight, node))
                self->figures.left_waiting++;
            cancel_all(self);
        }
        int64_t until_at = tt_instant_min(cancel_due(self, now), now + look_ns);
        if (self->more)
            until_at = tt_instant_min(until_at, self->epoch_at + self->next.at);
        poll_clients(self, now, until_at);
    }
    return TT_OK;
}

/* ---- the cluster ---- */

static void recording_path(const struct player *self, char out[TT_PROCESS_PATH_BYTES]) {
    (void)tt_process_path(&self->cluster, "scheduler.recording", out);
}

static enum tt_err write_files(struct player *self, struct tt_error *why) {
    const struct tt_scenario *s = self->scenario;
    struct tt_process_model *models = tt_allocate((size_t)s->model_count, sizeof(*models));
    for (int32_t m = 0; m < s->model_count; m++) {
        const struct tt_step_model *model = &s->models[m].step_model;
        int64_t kept_ns = model->slo_ns == TT_NEVER ? 0 : s->cluster.reply_ns;
        models[m] = (struct tt_process_model){.name = s->models[m].name,
                                              .profile = model->whole,
                                              .max_batch = model->max_batch,
                                              .slo_ns = model->slo_ns - kept_ns};
        if (s->inside.policy && model->step_count > 1) {
            models[m].step_count = model->step_count;
            models[m].steps = model->steps;
        }
    }
    struct tt_option options_inside[TT_MAX_OPTIONS];
    for (ptrdiff_t i = 0; i < s->inside.option_count; i++)
        options_inside[i] = (struct tt_option){.key = s->inside.option_texts[2 * i],
                                               .value = s->inside.option_texts[2 * i + 1]};
    const struct tt_process_cluster_options options = {
        .models = models,
        .model_count = s->model_count,
        .frontends = s->cluster.frontends,
        .backends = s->cluster.backends,
        .devices = s->device_count,
        .slower = 1,
        .control_ns = s->d_ctrl_ns,
        .inside = {.policy = s->inside.policy,
                   .options = options_inside,
                   .option_count = s->inside.option_count,
                   .executors = s->inside.executors,
                   .grants = s->devices[0].executors}};
    enum tt_err err = tt_process_cluster_init(&self->cluster, &options, why);
    free(models);
    return err;
}

static enum tt_err start_all(struct player *self, struct tt_error *why) {
    char path[TT_PROCESS_PATH_BYTES];
    recording_path(self, path);
    const char *const scheduler[] = {"--exit-on-error", "true", "--record", path, NULL};
    const char *const frontend[] = {"--exit-on-error", "true", NULL};
    /* With --emulated a backend's models would not run on streams. */
    bool has_inside = self->scenario->inside.policy != NULL;
    const char *const backend[] = {"--exit-on-error", "true", has_inside ? NULL : "--emulated",
                                   NULL};
    int32_t first_backend = TT_PROCESS_FIRST_FRONTEND + self->cluster.frontends;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->cluster.file.count; i++)
        err = tt_process_cluster_start(&self->cluster, i,
                                       i == TT_PROCESS_SCHEDULER ? scheduler
                                       : i < first_backend       ? frontend
                                                                 : backend,
                                       why);
    return err;
}

static bool serves(void *context) {
    struct player *self = context;
    json_t *status;
    struct tt_error ignored;
    if (!tt_process_cluster_serves(&self->cluster) ||
        tt_process_cluster_ask(&self->cluster, TT_PROCESS_SCHEDULER, "status", &status, &ignored))
        return false;
    int64_t devices = json_integer_value(json_object_get(status, "devices"));
    json_decref(status);
    int64_t wanted = 0; /* batches that all devices have at once */
    for (int32_t d = 0; d < self->scenario->device_count; d++)
        wanted += self->scenario->devices[d].executors;
    return devices == wanted;
}

static bool is_idle(void *context) {
    const struct player *self = context;
    json_t *status;
    struct tt_error ignored;
    if (tt_process_cluster_ask(&self->cluster, TT_PROCESS_SCHEDULER, "status", &status, &ignored))
        return false;
    bool is_idle = json_integer_value(json_object_get(status, "busy")) == 0;
    json_decref(status);
    return is_idle;
}

/* A client may have its answer before the scheduler has the report of the batch. */
static enum tt_err await_reports(struct player *self, struct tt_error *why) {
    const struct tt_process_wait wait = {
        .is_over = is_idle, .context = self, .what = "the devices do not report the last batches"};
    return tt_process_cluster_await(&self->cluster, &wait, why);
}

static enum tt_err open_cluster(struct player *self, struct tt_error *why) {
    const struct tt_scenario_outputs *outputs = self->run->outputs;
    const struct tt_process_wait wait = {.is_over = serves,
                                         .context = self,
                                         .what = "the cluster does not serve",
                                         .stop = self->run->stop};
    enum tt_err err = write_files(self, why);
    if (!err)
        err = start_all(self, why);
    if (!err)
        err = tt_process_cluster_await(&self->cluster, &wait, why);
    if (err || !outputs || !outputs->say)
        return err;
    char line[160];
    snprintf(line, sizeof(line),
             "a scheduler, %d frontend%s and %d backend%s with %d device%s serve",
             self->cluster.frontends, tt_plural(self->cluster.frontends), self->cluster.backends,
             tt_plural(self->cluster.backends), self->scenario->device_count,
             tt_plural(self->scenario->device_count));
    outputs->say(outputs->progress_context, line);
    return TT_OK;
}

/* ---- the clients ---- */

static enum tt_err open_clients(struct player *self, struct tt_error *why) {
    enum tt_err err = TT_OK;
    /* A request in flight has a connection. Where the system allows fewer, requests wait for one.
     */
    int32_t limit = tt_process_connection_limit(self->cluster.frontends, CONNECTIONS);
    for (int32_t i = 0; !err && i < self->cluster.frontends; i++) {
        err = tt_http_address_parse(self->cluster.urls[i], 8000, &self->addresses[i], why);
        const struct tt_http_client_options options = {.address = &self->addresses[i],
                                                       .connection_limit = limit,
                                                       .give_up_ns = TT_NEVER / 2,
                                                       .done = on_done,
                                                       .done_context = self};
        if (!err)
            err = tt_http_client_open(&options, &self->clients[i], why);
        self->client_count += !err;
    }
    return err;
}

static void close_clients(struct player *self) {
    for (int32_t i = 0; i < self->client_count; i++)
        tt_http_client_close(self->clients[i]); /* ends what is in flight */
    tt_assert(tt_list_empty(&self->in_flight));
    for (struct tt_list_node *node; (node = tt_list_first(&self->spare));) {
        tt_list_remove(node);
        tt_text_fini(&call_at(node)->head);
        free(call_at(node));
    }
    for (int32_t m = 0; m < self->scenario->model_count; m++)
        for (struct shared_body *body; (body = self->bodies[m]);) {
            self->bodies[m] = body->next;
            tt_kserve_client_body_fini(&body->body);
            free(body);
        }
    free(self->bodies);
}

/* ---- the whole ---- */

/* The scheduler has ended, and its recording is complete. */
static enum tt_err read_batches(struct player *self, struct tt_error *why) {
    char path[TT_PROCESS_PATH_BYTES];
    struct tt_cluster_batches batches = {.run = self->run, .epoch_at = self->epoch_at};
    recording_path(self, path);
    tt_histogram_init(&batches.run_ppm);
    enum tt_err err = tt_cluster_batches_read(&batches, path, why);
    self->figures.run_ppm = tt_live_spread_of(&batches.run_ppm);
    self->result->events = 2 * self->number + batches.count;
    tt_histogram_fini(&batches.run_ppm);
    return err;
}

static enum tt_err run_cluster(struct player *self, struct tt_error *why) {
    enum tt_err err = open_cluster(self, why);
    if (!err)
        err = open_clients(self, why);
    self->epoch_at = tt_clock_now() + lead_ns;
    if (!err)
        err = play(self, why);
    self->result->simulated_ns = since(self, tt_clock_now());
    self->figures.peak_memory_bytes = tt_machine_peak_memory();
    close_clients(self);
    if (!err)
        err = await_reports(self, why);
    bool is_orderly = tt_process_cluster_end(&self->cluster);
    if (!err && !is_orderly)
        err = tt_fail(TT_ERR_UNAVAILABLE, why,
                      "a process of the cluster did not end as it was asked to");
    return err ? err : read_batches(self, why);
}

enum tt_err tt_cluster_run(const struct tt_live_run *run, struct tt_scenario_result *result,
                           struct tt_error *why) {
    if (run->check || (run->outputs && run->outputs->trace))
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "in the cluster world the scheduler is another process: leave --check and "
                       "--trace out");
    struct player self = {.run = run, .scenario = run->scenario, .result = result};
    tt_list_init(&self.in_flight);
    tt_list_init(&self.spare);
    tt_histogram_init(&self.lag_ns);
    tt_prng_init(&self.prng, run->scenario->seed, 0);
    self.bodies = tt_allocate((size_t)run->scenario->model_count, sizeof(struct shared_body *));
    tt_live_figures_begin(&self.figures);
    tt_live_figures_leave_out(&self.figures, run->scenario->perturbation_count > 0, "perturb");
    tt_machine_forget_peak_memory();
    tt_eventcount_be_punctual();
    enum tt_err err = run_cluster(&self, why);
    tt_process_cluster_fini(&self.cluster);
    if (!err) {
        self.figures.lag_ns = tt_live_spread_of(&self.lag_ns);
        result->live = self.figures;
        if (!result->interrupted)
            tt_live_run_show(run, run->scenario->duration_ns);
    }
    tt_histogram_fini(&self.lag_ns);
    return err;
}
