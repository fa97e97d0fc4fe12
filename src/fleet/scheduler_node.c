/* The scheduler's role in a process: cluster/scheduler_role.h with policy `deferred`, over the
 * devices of all backends, on the node's thread or with threads of its own. */
#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"
#include "cluster/scheduler_role.h"
#include "fleet/cluster_demand.h"
#include "fleet/cluster_figures.h"
#include "fleet/fleet_roles.h"
#include "fleet/load_reasons.h"
#include "fleet/model_service.h"
#include "fleet/new_models.h"
#include "fleet/placement_record.h"
#include "fleet/placement_service.h"
#include "fleet/scaling_service.h"
#include "fleet/scheduler_threads.h"
#include "serve/serving.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct scheduler_node {
    struct tt_fleet_node *node;
    struct tt_scheduler_threads threads;
    struct tt_scheduler_role role;
    struct tt_model_service service; /* refuses clients' commands */
    struct tt_port *port;            /* for models that clients ask for */
    struct tt_new_models news;
    struct tt_new_model_wish refused; /* the latest, and why */
    struct tt_text refusal;
    struct tt_placement_service placement;
    struct tt_load_reasons reasons;
    struct tt_cluster_demand demand;
    struct tt_scaling_service scaling;
    struct tt_cluster_figures figures;
    bool was_primary, is_closing;
};

/* ---- times that differ between hosts ---- */

static void adopt(void *context) {
    struct scheduler_node *self = context;
    tt_fleet_models_adopt_slowest(tt_fleet_node_models(self->node));
    tt_cluster_demand_retime(&self->demand, tt_fleet_node_settings(self->node));
    tt_cluster_figures_adopted(&self->figures);
}

/* A spare plans with the slowest backend's times at once, a primary from its next term on. A search
 * that it began as primary reads the former ones on another thread: its end wakes the node. */
static void adopt_slowest(struct scheduler_node *self, int64_t now) {
    if (!self->role.is_primary && !self->placement.search &&
        tt_fleet_models_has_slower(tt_fleet_node_models(self->node)))
        (void)tt_scheduler_role_retime(&self->role, now, adopt, self);
}

static void model_paced(void *context, int64_t now, int32_t model, uint16_t peer,
                        const struct tt_model_notice *notice) {
    struct scheduler_node *self = context;
    struct tt_fleet_models *models = tt_fleet_node_models(self->node);
    tt_fleet_models_note_pace(models, model, notice);
    adopt_slowest(self, now);
    int32_t pace = tt_fleet_models_pace(models, model, notice);
    tt_scheduler_role_pace(&self->role, peer, model, pace);
    tt_cluster_figures_pace(&self->figures,
                            &(struct tt_pace_figure){.model = models->models[model].name,
                                                     .version = models->models[model].version,
                                                     .place = tt_fleet_node_name(self->node, peer),
                                                     .permille = pace});
    if (pace > 1000 && self->role.is_primary)
        tt_log_limited(tt_fleet_node_options(self->node)->log, TT_LOG_WARNING, NULL,
                       "cluster: model '%s' takes %d.%03d times as long on node %s as this primary "
                       "plans with; it counts from the next takeover on (tutti cluster promote)",
                       models->models[model].name, pace / 1000, pace % 1000,
                       tt_fleet_node_name(self->node, peer));
}

static int32_t usable_devices(const struct tt_scheduler_role *role) {
    int32_t count = 0;
    for (int32_t i = 0; i < role->device_count; i++)
        count += role->devices[i].is_usable;
    return count;
}

/* Devices with a batch that runs or is on its way. */
static int32_t busy_devices(const struct tt_scheduler_role *role) {
    int32_t count = 0;
    for (int32_t i = 0; i < role->device_count; i++)
        count += role->devices[i].count > 0;
    return count;
}

static void show_change(struct scheduler_node *self, int64_t now) {
    if (self->role.is_primary == self->was_primary)
        return;
    self->was_primary = self->role.is_primary;
    if (!self->was_primary)
        adopt_slowest(self, now);
    tt_cluster_demand_begin(&self->demand, now, self->was_primary);
    tt_log_write(tt_fleet_node_options(self->node)->log, TT_LOG_INFO, NULL,
                 self->was_primary ? "cluster: this scheduler is primary; epoch %" PRIu64
                                   : "cluster: this scheduler is a spare; epoch %" PRIu64,
                 self->role.primary.epoch);
}

static void on_ended(void *context, const struct tt_model_wish *wish, uint16_t failure) {
    struct scheduler_node *self = context;
    const char *reasons = tt_load_reasons_of_wish(&self->reasons, wish);
    tt_log_write(tt_fleet_node_options(self->node)->log, failure ? TT_LOG_WARNING : TT_LOG_INFO,
                 NULL, "cluster: model %s is %s%sloaded%s%s",
                 tt_fleet_node_models(self->node)->models[wish->model].name, failure ? "not " : "",
                 wish->is_load ? "" : "un", failure ? ": " : "", failure ? reasons : "");
}

static void record_plan(void *context, int64_t now) {
    const struct scheduler_node *self = context;
    uint64_t epoch = self->role.primary.epoch;
    struct tt_text text;
    tt_text_init(&text);
    tt_placement_record_put(&self->role.models.placement, epoch, &text);
    tt_fleet_node_record_plan(self->node, now, epoch, tt_text_string(&text));
    tt_text_fini(&text);
}

static void plan_recorded(void *context, int64_t now, bool is_recorded) {
    struct scheduler_node *self = context;
    tt_scheduler_role_plan_recorded(&self->role, now, is_recorded);
}

/* What is recorded is in force again when all schedulers have started anew. */
static void take_record(struct scheduler_node *self) {
    const char *text = tt_fleet_node_recorded_plan(self->node);
    struct tt_placement *placement = &self->role.models.placement;
    struct tt_log *log = tt_fleet_node_options(self->node)->log;
    struct tt_error why;
    struct tt_text note;
    if (!text)
        return;
    tt_text_init(&note);
    enum tt_err err = tt_placement_record_read(text, placement, &note, &why);
    if (err)
        tt_log_write(log, TT_LOG_WARNING, NULL, "cluster: the recorded placement has no effect: %s",
                     why.text);
    else if (note.length > 0)
        tt_log_write(log, TT_LOG_WARNING, NULL,
                     "cluster: the recorded placement %" PRIu64 " is in force%s",
                     placement->version, tt_text_string(&note));
    tt_text_fini(&note);
}

static void on_placed(void *context, const struct tt_placement_outcome *outcome) {
    struct scheduler_node *self = context;
    tt_placement_service_placed(&self->placement, outcome, tt_text_string(&self->reasons.plan));
    if (outcome->end == TT_PLACEMENT_DONE && self->role.is_primary)
        record_plan(self, tt_clock_now());
}

static const char *text(void *context, enum tt_frame_type type,
                        const struct tt_frame_record *record) {
    const struct scheduler_node *self = context;
    if (type == TT_FRAME_SERVED || record->code == 0)
        return "";
    if (record->model == TT_CLUSTER_NO_MODEL)
        return self->refused.number == record->id ? tt_text_string(&self->refusal) : "";
    if (record->code == (uint16_t)-TT_ERR_BUSY)
        return "too many commands wait for the scheduler of the cluster";
    return self->reasons.wish.length ? tt_text_string(&self->reasons.wish)
                                     : "no backend of the cluster is there to load it";
}

/* ---- models that come ---- */

static void model_came(void *context, int64_t now, uint16_t peer, bool serves) {
    struct scheduler_node *self = context;
    const struct tt_cluster_settings *settings = tt_fleet_node_settings(self->node);
    bool is_backend = peer != TT_CLUSTER_NO_NODE && settings->nodes[peer].role == TT_ROLE_BACKEND;
    const struct tt_step_model *model = settings->models[settings->model_count - 1];
    tt_scheduler_role_add_model(&self->role, now, serves,
                                is_backend ? settings->nodes[peer].pool : TT_CLUSTER_NO_POOL);
    tt_cluster_demand_add(&self->demand, model);
    if (serves)
        tt_model_set_announce(&self->role.models);
    tt_log_write(tt_fleet_node_options(self->node)->log, TT_LOG_INFO, NULL,
                 "cluster: model %s has come from node %s", model->name,
                 tt_fleet_node_name(self->node, peer == TT_CLUSTER_NO_NODE
                                                    ? tt_fleet_node_number(self->node)
                                                    : peer));
}

static void model_held(void *context, int64_t now, int32_t model, uint16_t peer, bool is_held) {
    (void)now;
    struct scheduler_node *self = context;
    if (tt_fleet_node_settings(self->node)->nodes[peer].role == TT_ROLE_BACKEND)
        tt_scheduler_role_hold(&self->role, peer, model, is_held);
}

/* The primary that the wish was sent to is this one, still. */
static bool is_awaited(const struct scheduler_node *self, const struct tt_new_model_wish *wish) {
    return self->role.is_primary && self->role.primary.epoch == wish->epoch;
}

/* The group of this name that serves; -1: none does. */
static int32_t find_serving(const struct scheduler_node *self, const char *name) {
    const struct tt_fleet_models *models = tt_fleet_node_models(self->node);
    for (int32_t i = 0; i < tt_fleet_node_settings(self->node)->model_count; i++)
        if (models->groups[i] == i && self->role.models.front[i].serves &&
            strcmp(models->models[i].name, name) == 0)
            return i;
    return -1;
}

static bool serves(void *context, const char *name) { return find_serving(context, name) >= 0; }

static void on_resolved(void *context, const struct tt_new_model_wish *wish, int32_t group) {
    struct scheduler_node *self = context;
    tt_fleet_node_model_changed(self->node, group);
    if (!is_awaited(self, wish))
        return;
    int32_t serving = find_serving(self, wish->name);
    const struct tt_frame_record record = {.id = wish->number,
                                           .model = (uint16_t)(serving >= 0 ? serving : group),
                                           .code = wish->is_load};
    bool makes_sense = tt_model_set_wish(&self->role.models, wish->frontend, &record);
    tt_assert(makes_sense); /* a frontend's, of a group that is there */
}

static void on_refused(void *context, const struct tt_new_model_wish *wish, enum tt_err err,
                       const char *why) {
    struct scheduler_node *self = context;
    uint16_t number = tt_fleet_node_number(self->node);
    if (!is_awaited(self, wish))
        return;
    self->refused = *wish;
    tt_text_clear(&self->refusal);
    tt_text_printf(&self->refusal, "%s: %.*s", tt_fleet_node_name(self->node, number),
                   TT_LOAD_REASON_BYTES, why);
    tt_outbox_begin(&self->role.outbox, wish->frontend, TT_FRAME_WISHED, wish->epoch,
                    &(struct tt_frame_record){
                        .id = wish->number, .model = TT_CLUSTER_NO_MODEL, .code = (uint16_t)-err});
}

/* Frontends name models; the role has numbers. */
static void take_wishes(struct scheduler_node *self, int64_t now, uint16_t from,
                        const struct tt_received *received) {
    const uint8_t *at = received->payload;
    bool is_frontend = tt_fleet_node_settings(self->node)->nodes[from].role == TT_ROLE_FRONTEND;
    for (int32_t i = 0; i < received->frame.count; i++) {
        const struct tt_frame_record *record = &received->frame.records[i];
        const struct tt_new_model_wish wish = {.number = record->id,
                                               .epoch = received->frame.epoch,
                                               .frontend = from,
                                               .is_load = record->code == 1};
        struct tt_frame one = received->frame;
        one.count = 1;
        one.records = record;
        if (is_frontend && record->model == TT_CLUSTER_NO_MODEL && is_awaited(self, &wish))
            tt_new_models_wish(&self->news, wish, at, record->length);
        else
            tt_scheduler_role_receive(&self->role, now, from, &one);
        at += record->length;
    }
}

/* Attempts that follow are no new load. */
static void count_tickets(struct scheduler_node *self, int64_t now, const struct tt_frame *frame) {
    for (int32_t i = 0; i < frame->count; i++)
        if (frame->records[i].attempt == 1)
            tt_cluster_demand_arrived(&self->demand, now, frame->records[i].model,
                                      frame->records[i].rows);
}

static void received(void *context, int64_t now, uint16_t from,
                     const struct tt_received *received) {
    struct scheduler_node *self = context;
    if (received->frame.type == TT_FRAME_SERVED)
        tt_load_reasons_note(&self->reasons, &self->role.models, from, received);
    if (received->frame.type == TT_FRAME_TICKET && self->was_primary)
        count_tickets(self, now, &received->frame);
    if (received->frame.type == TT_FRAME_WISH)
        take_wishes(self, now, from, received);
    else
        tt_scheduler_role_receive(&self->role, now, from, &received->frame);
    show_change(self, now);
}

static void linked(void *context, int64_t now, uint16_t peer, enum tt_link link) {
    struct scheduler_node *self = context;
    tt_scheduler_role_link(&self->role, now, peer, link);
    tt_scaling_service_linked(&self->scaling, peer, link);
    show_change(self, now);
}

static void tick(void *context, int64_t now) {
    struct scheduler_node *self = context;
    tt_scheduler_role_tick(&self->role, now);
    tt_placement_service_tick(&self->placement, now);
    show_change(self, now);
    tt_scaling_service_tick(&self->scaling, now);
    if (now < self->demand.note_at)
        return;
    tt_cluster_demand_note(&self->demand, now, usable_devices(&self->role));
    tt_cluster_figures_note(&self->figures, &self->placement, &self->scaling);
}

static void woken(void *context) {
    struct scheduler_node *self = context;
    if (self->threads.count > 0)
        tt_scheduler_role_decided(&self->role);
    adopt_slowest(self, tt_clock_now());
}

/* A client that came to the wrong address gets an answer. */
static void settle(void *context, int64_t now) {
    struct scheduler_node *self = context;
    struct tt_remote_engine *remote = tt_fleet_node_options(self->node)->remote;
    struct tt_engine_member *withdrawn = NULL;
    for (struct tt_engine_task *task;
         (task = tt_remote_engine_take(remote, &withdrawn)) || withdrawn;) {
        for (int32_t i = 0; task && i < task->member_count; i++) {
            struct tt_engine_member *member = &task->members[i];
            member->result = NULL;
            member->next_step = -1;
            member->skips = 0;
            member->err = tt_fail(TT_ERR_UNAVAILABLE, member->why,
                                  "this is a scheduler of a cluster; requests go to a frontend");
        }
        if (task)
            tt_remote_engine_done(task, now, false);
    }
    if (self->is_closing)
        return;
    tt_port_drain(self->port);
    tt_new_models_settle(&self->news);
    tt_model_service_settle(&self->service);
}

static int64_t next_at(const void *context) {
    const struct scheduler_node *self = context;
    int64_t role_at = tt_instant_min(tt_scheduler_role_next_at(&self->role), self->demand.note_at);
    role_at = tt_instant_min(role_at, tt_scaling_service_next_at(&self->scaling));
    return tt_instant_min(role_at, tt_placement_service_next_at(&self->placement));
}

/* A primary needs the answers to its beats with the next one, and each of them would wake it. */
static int64_t datagrams_at(const void *context) {
    const struct scheduler_node *self = context;
    return self->role.is_primary ? self->role.next_beat_at : INT64_MIN;
}

static struct tt_outbox *outbox(void *context) {
    struct scheduler_node *self = context;
    return &self->role.outbox;
}

/* Not waited for: the epochs at the devices are what fences. */
static void record(void *context, int64_t now, uint64_t epoch) {
    const struct scheduler_node *self = context;
    tt_fleet_node_record(self->node, now, epoch);
}

static void recorded(void *context, int64_t now, uint64_t epoch) {
    struct scheduler_node *self = context;
    tt_scheduler_role_recorded(&self->role, now, epoch);
    show_change(self, now);
}

/* The parts are zeroed where they were not made. */
static void free_parts(struct scheduler_node *take_self) {
    tt_cluster_figures_fini(&take_self->figures);
    tt_scaling_service_fini(&take_self->scaling);
    if (take_self->port)
        tt_port_close(take_self->port); /* waits for a load that is under way */
    tt_cluster_demand_fini(&take_self->demand);
    if (take_self->placement.node)
        tt_placement_service_fini(&take_self->placement);
    tt_model_service_fini(&take_self->service);
    tt_text_fini(&take_self->refusal);
    tt_load_reasons_fini(&take_self->reasons);
    tt_scheduler_role_fini(&take_self->role);
    free(take_self);
}

static enum tt_err open_parts(struct scheduler_node *self, struct tt_error *why) {
    struct tt_fleet_node *node = self->node;
    const struct tt_fleet_options *options = tt_fleet_node_options(node);
    enum tt_err err =
        tt_serving_open_port(options->serving, tt_fleet_node_wake, node, &self->port, why);
    if (err)
        return err;
    self->news = (struct tt_new_models){.models = tt_fleet_node_models(node),
                                        .port = self->port,
                                        .context = self,
                                        .serves = serves,
                                        .resolved = on_resolved,
                                        .refused = on_refused};
    tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler");
    err = tt_model_service_init(&self->service, tt_fleet_node_models(node), NULL, NULL,
                                options->commands, NULL);
    if (!err)
        err = tt_placement_service_init(&self->placement, node, &self->role);
    if (!err)
        err = tt_cluster_demand_init(&self->demand, tt_fleet_node_settings(node));
    if (!err)
        err = tt_scaling_service_init(&self->scaling, node, &self->role, &self->demand, why);
    if (!err && (err = tt_cluster_figures_init(&self->figures, &self->scaling)))
        tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler");
    return err;
}

static enum tt_err open_role(struct tt_fleet_node *node, void **out_self, struct tt_error *why) {
    struct scheduler_node *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->node = node;
    const struct tt_fleet_options *options = tt_fleet_node_options(node);
    tt_scheduler_threads_init(&self->threads, options->scheduler_threads, tt_fleet_node_wake, node,
                              options->log, tt_serving_recorder(options->serving));
    enum tt_err err = tt_scheduler_role_init(&self->role, tt_fleet_node_settings(node),
                                             tt_fleet_node_number(node), tt_clock_now(),
                                             &self->threads.policy, why);
    if (err) {
        free(self);
        return err;
    }
    self->role.context = self;
    self->role.record = record;
    self->role.record_plan = record_plan;
    self->role.models.context = self;
    self->role.models.ended = on_ended;
    self->role.models.placed = on_placed;
    tt_load_reasons_init(&self->reasons, node);
    tt_text_init(&self->refusal);
    err = open_parts(self, why);
    if (err) {
        free_parts(self);
        return err;
    }
    tt_command_inbox_attach(options->commands, tt_fleet_node_wake, node);
    tt_remote_engine_attach(options->remote, tt_fleet_node_wake, node);
    take_record(self);
    *out_self = self;
    return TT_OK;
}

static void close_role(void *take_self) {
    struct scheduler_node *self = take_self;
    self->is_closing = true;
    tt_command_inbox_close(tt_fleet_node_options(self->node)->commands);
    settle(self, tt_clock_now());
    free_parts(self);
}

static struct tt_model_service *service(void *context) {
    return &((struct scheduler_node *)context)->service;
}

static uint64_t epoch(const void *context) {
    return ((const struct scheduler_node *)context)->role.primary.epoch;
}

static const char *state(const void *context) {
    return ((const struct scheduler_node *)context)->role.is_primary ? "PRIMARY" : "SPARE";
}

static enum tt_err drain(void *context, int64_t now, struct tt_error *why) {
    (void)why;
    struct scheduler_node *self = context;
    tt_scheduler_role_resign(&self->role, now);
    show_change(self, now);
    return TT_OK;
}

static enum tt_err promote(void *context, int64_t now, struct tt_error *why) {
    struct scheduler_node *self = context;
    if (!tt_scheduler_role_promote(&self->role, now))
        return tt_fail(TT_ERR_UNAVAILABLE, why, "this scheduler is primary already");
    show_change(self, now);
    return TT_OK;
}

static enum tt_err place(void *context, int64_t now, const char *command,
                         struct tt_text *out_answer, struct tt_error *why) {
    struct scheduler_node *self = context;
    return tt_placement_service_command(&self->placement, now, command, out_answer, why);
}

static enum tt_err scale(void *context, int64_t now, const char *command,
                         struct tt_text *out_answer, struct tt_error *why) {
    struct scheduler_node *self = context;
    return tt_scaling_service_command(&self->scaling, now, command, out_answer, why);
}

static void metrics(void *context, struct tt_text *page) {
    struct scheduler_node *self = context;
    if (tt_cluster_demand_metrics(&self->demand, page))
        tt_cluster_figures_put(&self->figures, page);
}

static void put_advice(const struct tt_cluster_advice *advice, struct tt_text *out) {
    tt_text_puts(out, ", \"policy\": \"deferred\"");
    if (advice->is_known)
        tt_text_printf(out,
                       ", \"devices_wanted\": %d, \"devices_wanted_fewest\": %d, "
                       "\"devices_wanted_most\": %d, \"confidence\": %.4f",
                       advice->wanted.count, advice->wanted.fewest, advice->wanted.most,
                       advice->wanted.confidence);
}

static void count(void *context, struct tt_text *out) {
    struct scheduler_node *self = context;
    const struct tt_scheduler_role *role = &self->role;
    tt_text_printf(out,
                   ", \"threads\": %d, \"devices\": %d, \"busy\": %d, \"requests\": %d"
                   ", \"claims\": %" PRId64 ", \"granted\": %" PRId64 ", \"returned\": %" PRId64
                   ", \"suspected\": %" PRId64 ", \"avoided\": %" PRId64 ", \"placement\": %" PRIu64
                   ", \"plan\": \"%s\"",
                   self->threads.count, usable_devices(role), busy_devices(role),
                   tt_scheduler_role_requests(role), role->claims, role->granted, role->returned,
                   role->suspected, role->avoided, role->models.placement.version,
                   tt_placement_stage_name(role->models.placement.stage));
    tt_cluster_figures_show_paces(&self->figures, out);
    tt_cluster_figures_show_delays(&self->figures, role, out);
    struct tt_cluster_advice advice = tt_cluster_demand_advise(&self->demand);
    if (advice.is_primary)
        put_advice(&advice, out);
    if (advice.is_primary && self->scaling.options) {
        tt_text_puts(out, ", \"scaling\": ");
        tt_scaling_service_show(&self->scaling, out);
    }
}

const struct tt_fleet_role tt_scheduler_node_role = {.open = open_role,
                                                     .close = close_role,
                                                     .received = received,
                                                     .linked = linked,
                                                     .tick = tick,
                                                     .woken = woken,
                                                     .next_at = next_at,
                                                     .datagrams_at = datagrams_at,
                                                     .outbox = outbox,
                                                     .settle = settle,
                                                     .text = text,
                                                     .model_came = model_came,
                                                     .model_held = model_held,
                                                     .model_paced = model_paced,
                                                     .service = service,
                                                     .epoch = epoch,
                                                     .state = state,
                                                     .recorded = recorded,
                                                     .plan_recorded = plan_recorded,
                                                     .drain = drain,
                                                     .promote = promote,
                                                     .metrics = metrics,
                                                     .place = place,
                                                     .scale = scale,
                                                     .count = count};
