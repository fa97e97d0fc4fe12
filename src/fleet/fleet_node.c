#include "fleet/fleet_node.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"
#include "base/threads/time_slice.h"
#include "fleet/frame_sender.h"
#include "fleet/model_visits.h"
#include "fleet/node_coordination.h"
#include "fleet/visit.h"
#include "net/sockets/loop_wake.h"
#include "serve/serving.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MAX_MESSAGE_BYTES = 1 << 30, MAX_ROUNDS = 16, DEPTH = 2 };

struct tt_fleet_node {
    struct tt_fleet_options options;
    struct tt_cluster_file file;
    struct tt_cluster_key key;
    struct tt_live_tls tls;
    struct tt_cluster_node *nodes; /* [file.count] */
    struct tt_cluster_settings settings;
    struct tt_fleet_models models;
    struct tt_model_exchange exchange;
    struct tt_model_visits visits;
    struct tt_identity identity;
    uint16_t number;
    const struct tt_fleet_role *role;
    void *self;
    uv_loop_t loop;
    struct tt_loop_wake wake;
    uv_prepare_t before_wait;
    uv_poll_t timer;
    int timer_fd;
    int64_t timer_at; /* what it is set to; TT_NEVER: nothing */
    bool has_fired;   /* and is readable until it is set again */
    struct tt_node_links links;
    struct tt_node_memory memory;
    struct tt_node_coordination coordination;
    struct tt_frame_sender sender;
    pthread_t thread;
    bool has_loop, has_handles, has_links, has_thread;
    struct tt_flag stopping, retiring, has_address;
    bool has_retired;
    char address[300]; /* written before has_address is raised */
};

/* ---- turns ---- */

/* A timer that is set to an earlier instant stays: it is set again when that has come. Most
 * instants move on before, and each call of the system costs as much as a request. */
static void set_timer(struct tt_fleet_node *self, int64_t at) {
    if (!self->has_fired && self->timer_at <= at)
        return;
    self->has_fired = false;
    self->timer_at = at;
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at != TT_NEVER) { /* 0 would stop it */
        int64_t due = at > 0 ? at : 1;
        when.it_value =
            (struct timespec){.tv_sec = (time_t)(due / TT_S), .tv_nsec = (long)(due % TT_S)};
    }
    timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Those that the role wants to read at an instant only do not wake the node. */
static void read_datagrams(struct tt_fleet_node *self, int64_t now) {
    int64_t at = self->role->datagrams_at ? self->role->datagrams_at(self->self) : INT64_MIN;
    tt_node_links_watch_datagrams(&self->links, at == INT64_MIN);
    if (at != INT64_MIN && now >= at)
        tt_node_links_read_datagrams(&self->links);
}

/* A role that wants another look at once gets it, but the network is served in between. */
static void end_turn(struct tt_fleet_node *self) {
    int64_t began_at = tt_clock_now();
    int64_t look_at = tt_node_coordination_turn(&self->coordination, began_at);
    read_datagrams(self, began_at);
    int64_t now = tt_clock_now(); /* what these brought was dated when it came: later than before */
    int64_t next_at = self->role->next_at(self->self);
    for (int32_t round = 0; round < MAX_ROUNDS && next_at <= now; round++) {
        self->role->tick(self->self, now);
        next_at = self->role->next_at(self->self);
    }
    if (self->role->settle) {
        self->role->settle(self->self, now);
        next_at = self->role->next_at(self->self);
    }
    tt_frame_sender_send(&self->sender, self->self);
    tt_node_links_flush(&self->links);
    /* A link that failed while it was written to may have left more. */
    if (self->role->outbox(self->self)->frame_count > 0 || next_at <= now)
        tt_loop_wake_send(&self->wake);
    set_timer(self, tt_instant_min(next_at, look_at));
}

static void on_before_wait(uv_prepare_t *prepare) {
    struct tt_fleet_node *self = prepare->data;
    if (tt_flag_is_raised(&self->stopping))
        return;
    for (int32_t round = 0; round < MAX_ROUNDS; round++) {
        end_turn(self);
        if (tt_node_memory_rest(&self->memory))
            return;
    }
    tt_loop_wake_send(&self->wake);
}

static void on_timer(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tt_fleet_node *self = poll->data;
    self->has_fired = true; /* setting it clears what a read would */
}

static void on_wake(void *context) {
    struct tt_fleet_node *self = context;
    if (tt_flag_is_raised(&self->retiring) && !self->has_retired) {
        struct tt_error ignored; /* of a spare, that it is one */
        self->has_retired = true;
        if (self->options.role != TT_ROLE_FRONTEND)
            (void)self->role->drain(self->self, tt_clock_now(), &ignored);
    }
    if (tt_flag_is_raised(&self->stopping))
        uv_stop(&self->loop);
    else if (self->role->woken)
        self->role->woken(self->self);
}

void tt_fleet_node_wake(void *context) {
    struct tt_fleet_node *self = context;
    tt_loop_wake_send(&self->wake);
}

void tt_fleet_node_retire(struct tt_fleet_node *self) {
    tt_flag_raise(&self->retiring);
    tt_loop_wake_send(&self->wake); /* a signal handler may call it */
}

void tt_fleet_node_metrics(const void *node, struct tt_text *page) {
    const struct tt_fleet_node *self = node;
    if (self->role->metrics)
        self->role->metrics(self->self, page);
}

/* ---- what the links report ---- */

static void on_linked(void *context, uint16_t peer, enum tt_link link) {
    struct tt_fleet_node *self = context;
    tt_node_memory_link(&self->memory, peer, link == TT_LINK_UP);
    tt_model_exchange_link(&self->exchange, peer, link == TT_LINK_UP);
    self->role->linked(self->self, tt_clock_now(), peer, link);
}

static void on_received(void *context, uint16_t peer, const struct tt_received *received) {
    struct tt_fleet_node *self = context;
    if (received->frame.type == TT_FRAME_REMOTE) {
        tt_node_memory_receive(&self->memory, peer, received->payload,
                               received->frame.records[0].length);
        return;
    }
    if (received->frame.type == TT_FRAME_MODEL) {
        tt_model_exchange_receive(&self->exchange, peer, received);
        return;
    }
    struct tt_received own = *received;
    tt_model_exchange_translate(&self->exchange, peer, &own.frame);
    self->role->received(self->self, tt_clock_now(), peer, &own);
}

static void on_fetched(void *context, uint16_t peer, uint64_t id, uint16_t attempt,
                       const uint8_t *payload, size_t bytes) {
    struct tt_fleet_node *self = context;
    self->role->fetched(self->self, tt_clock_now(), peer, id, attempt, payload, bytes);
}

static void on_came(void *context, int32_t model, uint16_t peer, bool serves) {
    struct tt_fleet_node *self = context;
    tt_assert(model == self->settings.model_count - 1);
    self->role->model_came(self->self, tt_clock_now(), peer, serves);
}

static void on_held(void *context, int32_t model, uint16_t peer, bool is_held) {
    struct tt_fleet_node *self = context;
    if (self->role->model_held)
        self->role->model_held(self->self, tt_clock_now(), model, peer, is_held);
}

static void on_paced(void *context, int32_t model, uint16_t peer,
                     const struct tt_model_notice *notice) {
    struct tt_fleet_node *self = context;
    if (self->role->model_paced)
        self->role->model_paced(self->self, tt_clock_now(), model, peer, notice);
}

void tt_fleet_node_model_changed(struct tt_fleet_node *self, int32_t group) {
    if (self->has_links) /* else the peers get notice when they link */
        tt_model_exchange_changed(&self->exchange, group);
}

static void describe(const struct tt_fleet_node *self, struct tt_text *out) {
    uint64_t epoch = self->role->epoch(self->self);
    uint16_t primary = tt_epoch_scheduler(epoch);
    bool is_primary =
        primary == self->number && strcmp(self->role->state(self->self), "PRIMARY") == 0;
    tt_text_printf(out,
                   "{\"name\": \"%s\", \"role\": \"%s\", \"pid\": %d, \"primary\": %s, \"epoch\": "
                   "%" PRIu64 ", \"state\": \"%s\", \"release\": \"%s\", \"scheduler\": \"%s\"",
                   self->file.places[self->number].name, tt_cluster_role_name(self->options.role),
                   (int)getpid(), is_primary ? "true" : "false", epoch,
                   self->role->state(self->self), self->options.version,
                   primary < self->file.count ? self->file.places[primary].name : "");
    tt_text_printf(
        out, ", \"memory\": {\"peers\": %d, \"inputs\": %" PRId64 ", \"results\": %" PRId64 "}",
        self->memory.agreement.shared, self->memory.inputs, self->memory.results);
    tt_node_coordination_show(&self->coordination, out);
    if (tt_flag_is_raised(&self->has_address))
        tt_text_printf(out, ", \"http\": \"%s\"", self->address);
    self->role->count(self->self, out);
    tt_text_puts(out, "}");
}

/* What follows "placement " or the like; NULL: the line begins with something else. */
static const char *behind(const char *line, const char *word) {
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

/* "drain", or "drain EPOCH" of a primary: a node that obeys a later one refuses. */
static enum tt_err on_drain(struct tt_fleet_node *self, const char *line, struct tt_error *why) {
    const char *number = behind(line, "drain ");
    uint64_t epoch = number ? strtoull(number, NULL, 10) : UINT64_MAX;
    uint64_t own = self->role->epoch(self->self);
    if (epoch < own)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "node %s obeys epoch %" PRIu64 "; a primary of epoch %" PRIu64
                       " does not drain it",
                       self->file.places[self->number].name, own, epoch);
    return self->role->drain(self->self, tt_clock_now(), why);
}

static enum tt_err answer_as_role(struct tt_fleet_node *self, const char *line,
                                  struct tt_text *answer, struct tt_error *why) {
    int64_t now = tt_clock_now();
    const char *placement = self->role->place ? behind(line, "placement ") : NULL;
    const char *scale = self->role->scale ? behind(line, "scale ") : NULL;
    if (placement)
        return self->role->place(self->self, now, placement, answer, why);
    if (scale)
        return self->role->scale(self->self, now, scale, answer, why);
    enum tt_err err = TT_OK;
    if (strcmp(line, "drain") == 0 || behind(line, "drain "))
        err = on_drain(self, line, why);
    else if (strcmp(line, "promote") == 0)
        err = self->role->promote(self->self, now, why);
    else if (strcmp(line, "status") != 0)
        err = tt_fail(TT_ERR_INVALID, why, "'%.40s' is no command of a node", line);
    if (!err)
        describe(self, answer);
    return err;
}

static void on_visited(void *context, const char *line, struct tt_text *answer) {
    struct tt_fleet_node *self = context;
    const struct tt_cluster_place *place = &self->file.places[self->number];
    struct tt_error why = {{0}};
    enum tt_err err = tt_model_visits_answer(&self->visits, place->name,
                                             tt_cluster_role_name(place->role), line, answer, &why);
    if (err == TT_ERR_NOT_FOUND) /* not about models */
        err = answer_as_role(self, line, answer, &why);
    if (err)
        tt_text_printf(answer, "error: %s", why.text);
}

static const struct tt_node_links_events events = {
    .linked = on_linked, .received = on_received, .visited = on_visited};

/* ---- opening and closing ---- */

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value > 0 ? value : otherwise;
}

static enum tt_err fill_settings(struct tt_fleet_node *self, struct tt_error *why) {
    const struct tt_cluster_times *times = &self->file.times;
    int64_t silence_ns = or_default(times->silence_ns, 20 * TT_MS);
    self->nodes = calloc((size_t)self->file.count, sizeof(*self->nodes));
    if (!self->nodes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < self->file.count; i++)
        self->nodes[i] = (struct tt_cluster_node){
            .role = self->file.places[i].role,
            .devices = self->file.places[i].devices * self->file.places[i].grants,
            .pool = self->file.places[i].pool_number,
            .name = self->file.places[i].name,
            .memory_bytes = self->file.places[i].memory_mib * INT64_C(0x100000),
            .pool_name = self->file.places[i].pool};
    self->settings =
        (struct tt_cluster_settings){.node_count = self->file.count,
                                     .nodes = self->nodes,
                                     .model_count = self->models.count,
                                     .model_capacity = self->models.capacity,
                                     .max_rows = self->models.max_rows,
                                     .models = self->models.step_models,
                                     .groups = self->models.groups,
                                     .silence_ns = silence_ns,
                                     .beat_ns = silence_ns / 10,
                                     .ask_ns = silence_ns / 10,
                                     .control_ns = or_default(times->control_ns, 100 * TT_US),
                                     .learns_delays = true,
                                     .learn_percent = self->options.learn_percent,
                                     .overdue_ns = or_default(times->overdue_ns, 25 * TT_MS),
                                     .fetch_ns = or_default(times->fetch_ns, 50 * TT_MS),
                                     .patience_ns = or_default(times->patience_ns, TT_S),
                                     .vacancy_ns = or_default(times->vacancy_ns, 10 * TT_S),
                                     .grace_ns = or_default(times->grace_ns, TT_S),
                                     .placing_ns = or_default(times->plan_load_ns, 600 * TT_S),
                                     .request_limit = self->options.request_limit,
                                     .depth = DEPTH};
    return TT_OK;
}

static void no_wake(void *context) { (void)context; }

static enum tt_err read_models(struct tt_fleet_node *self, struct tt_error *why) {
    struct tt_port *port;
    enum tt_err err = tt_serving_open_port(self->options.serving, no_wake, NULL, &port, why);
    if (err)
        return err;
    err = tt_fleet_models_init(&self->models, port, tt_cluster_file_grants(&self->file), why);
    tt_port_close(port);
    return err;
}

static enum tt_err open_exchange(struct tt_fleet_node *self, struct tt_error *why) {
    const struct tt_model_exchange_options options = {.models = &self->models,
                                                      .settings = &self->settings,
                                                      .links = &self->links,
                                                      .file = &self->file,
                                                      .number = self->number,
                                                      .log = self->options.log,
                                                      .came = on_came,
                                                      .held = on_held,
                                                      .paced = on_paced,
                                                      .context = self};
    enum tt_err err = tt_model_exchange_init(&self->exchange, &options);
    return err ? tt_fail(err, why, "out of memory") : TT_OK;
}

/* Handles that cannot fail but for a lack of descriptors. */
static enum tt_err open_loop(struct tt_fleet_node *self, struct tt_error *why) {
    self->timer_at = TT_NEVER;
    self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (self->timer_fd < 0)
        return tt_fail(TT_ERR_IO, why, "cannot create a timer: %s", strerror(errno));
    int result = uv_loop_init(&self->loop);
    self->has_loop = result == 0;
    if (result == 0)
        result = tt_loop_wake_open(&self->wake, &self->loop, on_wake, self);
    if (result < 0)
        return tt_fail(TT_ERR_IO, why, "cannot create an event loop: %s", uv_strerror(result));
    self->has_handles = true;
    uv_prepare_init(&self->loop, &self->before_wait);
    uv_poll_init(&self->loop, &self->timer, self->timer_fd);
    self->before_wait.data = self->timer.data = self;
    return TT_OK;
}

enum tt_err tt_fleet_node_open(const struct tt_fleet_options *options,
                               struct tt_fleet_node **out_node, struct tt_error *why) {
    struct tt_fleet_node *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    self->timer_fd = -1;
    tt_loop_wake_init(&self->wake);
    enum tt_err err = tt_fleet_describe(options->cluster, &options->tls.etcd, options->node,
                                        options->key, &self->file, &self->key, &self->number, why);
    tt_assert(err || self->file.places[self->number].role == options->role);
    if (!err)
        err = tt_live_tls_init(&self->tls, &options->tls, options->log, why);
    if (!err)
        err = read_models(self, why);
    if (!err)
        err = fill_settings(self, why);
    if (!err)
        err = open_exchange(self, why);
    if (!err)
        err = open_loop(self, why);
    self->identity =
        (struct tt_identity){.release = tt_release_parse(options->version),
                             .node = self->number,
                             .abilities = options->ucx ? (uint16_t)TT_ABILITY_REMOTE : 0u,
                             .incarnation = (uint64_t)(tt_clock_wall() / TT_MS),
                             .cluster_digest = self->file.digest};
    self->role = options->steps;
    self->sender = (struct tt_frame_sender){
        .links = &self->links, .memory = &self->memory, .role = options->steps};
    if (!err)
        err = self->role->open(self, &self->self, why);
    if (err) {
        self->self = NULL;
        tt_fleet_node_close(self);
        return err;
    }
    tt_model_visits_init(&self->visits, self->role->service(self->self), tt_fleet_node_wake, self);
    *out_node = self;
    return TT_OK;
}

static void close_role(struct tt_fleet_node *self) {
    self->role->close(self->self);
    self->self = NULL;
    tt_model_visits_fini(&self->visits);
}

static void *run(void *argument) {
    struct tt_fleet_node *self = argument;
    tt_time_slice_be_short();
    while (!tt_flag_is_raised(&self->stopping))
        uv_run(&self->loop, UV_RUN_DEFAULT);
    close_role(self);
    return NULL;
}

static void on_recorded(void *context, int64_t now, uint64_t epoch) {
    struct tt_fleet_node *self = context;
    if (self->role->recorded)
        self->role->recorded(self->self, now, epoch);
}

static void on_plan_recorded(void *context, int64_t now, bool is_recorded) {
    struct tt_fleet_node *self = context;
    if (self->role->plan_recorded)
        self->role->plan_recorded(self->self, now, is_recorded);
}

void tt_fleet_node_record_plan(struct tt_fleet_node *self, int64_t now, uint64_t epoch,
                               const char *text) {
    tt_node_coordination_record_plan(&self->coordination, now, epoch, text);
}

const char *tt_fleet_node_recorded_plan(const struct tt_fleet_node *self) {
    return self->file.plan;
}

void tt_fleet_node_record(struct tt_fleet_node *self, int64_t now, uint64_t epoch) {
    tt_node_coordination_record(&self->coordination, now, epoch);
}

static const uint8_t *session_of(void *context, uint16_t peer) {
    struct tt_fleet_node *self = context;
    return tt_node_links_session(&self->links, peer);
}

static uint16_t abilities_of(void *context, uint16_t peer) {
    struct tt_fleet_node *self = context;
    return tt_node_links_abilities(&self->links, peer);
}

static uint8_t *send_to(void *context, uint16_t peer, const struct tt_frame *frame,
                        size_t payload_bytes) {
    struct tt_fleet_node *self = context;
    return tt_node_links_send(&self->links, peer, frame, payload_bytes);
}

static enum tt_err open_memory(struct tt_fleet_node *self, struct tt_error *why) {
    const struct tt_node_memory_options options = {.file = &self->file,
                                                   .number = self->number,
                                                   .use = self->options.memory_use,
                                                   .request_limit = self->options.request_limit,
                                                   .log = self->options.log,
                                                   .session = session_of,
                                                   .ucx = self->options.ucx,
                                                   .accepts_emulated =
                                                       self->options.accepts_emulated,
                                                   .abilities = abilities_of,
                                                   .send = send_to,
                                                   .fetched = on_fetched,
                                                   .context = self};
    return tt_node_memory_open(&self->memory, &self->loop, &options, why);
}

enum tt_err tt_fleet_node_start(struct tt_fleet_node *self, struct tt_error *why) {
    const struct tt_node_links_options links = {.file = &self->file,
                                                .number = self->number,
                                                .identity = self->identity,
                                                .key = &self->key,
                                                .tls = &self->tls,
                                                .log = self->options.log,
                                                .limit_bytes = MAX_MESSAGE_BYTES,
                                                .events = &events,
                                                .context = self};
    self->has_links = true;
    enum tt_err err = tt_node_links_open(&self->links, &self->loop, &links, why);
    if (!err)
        err = open_memory(self, why);
    if (err)
        return err;
    const struct tt_node_coordination_options coordination = {.spec = self->options.cluster,
                                                              .tls = &self->options.tls.etcd,
                                                              .file = &self->file,
                                                              .number = self->number,
                                                              .log = self->options.log,
                                                              .wake = tt_fleet_node_wake,
                                                              .recorded = on_recorded,
                                                              .plan_recorded = on_plan_recorded,
                                                              .context = self};
    err = tt_node_coordination_open(&self->coordination, &coordination, why);
    if (err)
        return err;
    uv_prepare_start(&self->before_wait, on_before_wait);
    uv_poll_start(&self->timer, UV_READABLE, on_timer);
    int problem = pthread_create(&self->thread, NULL, run, self);
    if (problem)
        return tt_fail(TT_ERR_IO, why, "cannot start a thread: %s", strerror(problem));
    self->has_thread = true;
    return TT_OK;
}

void tt_fleet_node_show_address(struct tt_fleet_node *self, const char *host, int32_t tcp_port) {
    bool is_bare = strchr(host, ':') != NULL; /* an IPv6 address */
    snprintf(self->address, sizeof(self->address), "http://%s%.256s%s:%d", is_bare ? "[" : "", host,
             is_bare ? "]" : "", tcp_port);
    tt_flag_raise(&self->has_address);
}

static void close_handles(struct tt_fleet_node *self) {
    if (self->has_links)
        tt_node_links_close(&self->links);
    tt_node_memory_close(&self->memory);
    if (self->has_handles) {
        uv_close((uv_handle_t *)&self->wake.poll, NULL);
        uv_close((uv_handle_t *)&self->before_wait, NULL);
        uv_close((uv_handle_t *)&self->timer, NULL);
    }
    if (self->has_loop) {
        while (uv_run(&self->loop, UV_RUN_DEFAULT) != 0)
            continue;
        int result = uv_loop_close(&self->loop);
        tt_assert(result == 0);
    }
    tt_node_memory_fini(&self->memory);
    if (self->has_links)
        tt_node_links_fini(&self->links);
    tt_loop_wake_fini(&self->wake);
    if (self->timer_fd >= 0)
        close(self->timer_fd);
}

void tt_fleet_node_close(struct tt_fleet_node *take_self) {
    if (!take_self)
        return;
    tt_flag_raise(&take_self->stopping);
    if (take_self->has_thread) {
        tt_loop_wake_send(&take_self->wake);
        pthread_join(take_self->thread, NULL);
    }
    if (take_self->self)
        close_role(take_self);
    tt_node_coordination_close(&take_self->coordination);
    close_handles(take_self);
    tt_model_exchange_fini(&take_self->exchange);
    tt_fleet_models_fini(&take_self->models);
    tt_cluster_file_fini(&take_self->file);
    tt_live_tls_fini(&take_self->tls);
    free(take_self->nodes);
    tt_frame_sender_fini(&take_self->sender);
    free(take_self);
}

const struct tt_fleet_options *tt_fleet_node_options(const struct tt_fleet_node *self) {
    return &self->options;
}
const struct tt_cluster_settings *tt_fleet_node_settings(const struct tt_fleet_node *self) {
    return &self->settings;
}
struct tt_fleet_models *tt_fleet_node_models(struct tt_fleet_node *self) {
    return &self->models;
}
const char *tt_fleet_node_name(const struct tt_fleet_node *self, uint16_t number) {
    return self->file.places[number].name;
}
const struct tt_cluster_times *tt_fleet_node_times(const struct tt_fleet_node *self) {
    return &self->file.times;
}
enum tt_err tt_fleet_node_visit(struct tt_fleet_node *self, uint16_t peer, const char *line,
                                int64_t timeout_ns, struct tt_text *out_answer,
                                struct tt_error *why) {
    struct tt_published_view view = {0};
    const struct tt_visit visit = {.file = &self->file,
                                   .number = peer,
                                   .key = &self->key,
                                   .tls = tt_live_tls_get(&self->tls, &view),
                                   .release = self->identity.release,
                                   .timeout_ns = timeout_ns};
    enum tt_err err = tt_visit(&visit, line, out_answer, why);
    tt_published_view_fini(&view);
    return err;
}
uv_loop_t *tt_fleet_node_loop(struct tt_fleet_node *self) { return &self->loop; }
uint16_t tt_fleet_node_number(const struct tt_fleet_node *self) { return self->number; }
uint64_t tt_fleet_node_incarnation(const struct tt_fleet_node *self) {
    return self->identity.incarnation;
}
struct tt_node_memory *tt_fleet_node_memory(struct tt_fleet_node *self) {
    return &self->memory;
}
bool tt_fleet_node_is_linked(const struct tt_fleet_node *self, uint16_t peer) {
    return tt_node_links_is_up(&self->links, peer);
}
