/* The scheduler's role in a process: cluster/scheduler_role.h with policy `deferred`, over the
 * devices of all backends. */
#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"
#include "cluster/scheduler_role.h"
#include "fleet/cluster_demand.h"
#include "fleet/cluster_figures.h"
#include "fleet/fleet_roles.h"
#include "fleet/model_service.h"
#include "fleet/placement_record.h"
#include "fleet/placement_service.h"
#include "fleet/scaling_service.h"

#include <inttypes.h>
#include <stdlib.h>

struct scheduler_node {
    struct tt_fleet_node *node;
    struct tt_scheduler_role role;
    struct tt_model_service service; /* refuses clients' commands */
    struct tt_placement_service placement;
    struct tt_text reasons;      /* why a load failed, node by node */
    struct tt_text plan_reasons; /* the same, of a plan */
    struct tt_model_wish noted;  /* that they are about */
    struct tt_cluster_demand demand;
    struct tt_scaling_service scaling;
    struct tt_cluster_figures figures;
    bool was_primary;
};

enum { MAX_REASON = 300 };

static int32_t usable_devices(const struct tt_scheduler_role *role) {
    int32_t count = 0;
    for (int32_t i = 0; i < role->device_count; i++)
        count += role->devices[i].is_usable;
    return count;
}

static void show_change(struct scheduler_node *self, int64_t now) {
    if (self->role.is_primary == self->was_primary)
        return;
    self->was_primary = self->role.is_primary;
    tt_cluster_demand_begin(&self->demand, now, self->was_primary);
    tt_log_write(tt_fleet_node_options(self->node)->log, TT_LOG_INFO, NULL,
                 self->was_primary ? "cluster: this scheduler is primary; epoch %" PRIu64
                                   : "cluster: this scheduler is a spare; epoch %" PRIu64,
                 self->role.primary.epoch);
}

/* The reasons that were noted for another wish are of no use. */
static void note_about(struct scheduler_node *self, const struct tt_model_wish *wish) {
    if (self->noted.number != wish->number || self->noted.frontend != wish->frontend)
        tt_text_clear(&self->reasons);
    self->noted = *wish;
}

static void on_ended(void *context, const struct tt_model_wish *wish, uint16_t failure) {
    struct scheduler_node *self = context;
    note_about(self, wish);
    tt_log_write(tt_fleet_node_options(self->node)->log, failure ? TT_LOG_WARNING : TT_LOG_INFO,
                 NULL, "cluster: model %s is %s%sloaded%s%s",
                 tt_fleet_node_models(self->node)->models[wish->model].name, failure ? "not " : "",
                 wish->is_load ? "" : "un", failure ? ": " : "",
                 failure ? tt_text_string(&self->reasons) : "");
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
    struct tt_error why;
    if (!text)
        return;
    enum tt_err err = tt_placement_record_read(text, placement, &why);
    if (err)
        tt_log_write(tt_fleet_node_options(self->node)->log, TT_LOG_WARNING, NULL,
                     "cluster: the recorded placement has no effect: %s", why.text);
}

static void on_placed(void *context, const struct tt_placement_outcome *outcome) {
    struct scheduler_node *self = context;
    tt_placement_service_placed(&self->placement, outcome, tt_text_string(&self->plan_reasons));
    if (outcome->end == TT_PLACEMENT_DONE && self->role.is_primary)
        record_plan(self, tt_clock_now());
}

/* Notes why a node cannot load what a plan moves to it: the last reason is the one that counts. */
static void note_plan_reason(struct scheduler_node *self, const struct tt_received *received) {
    const struct tt_frame *frame = &received->frame;
    const char *at = (const char *)received->payload;
    tt_text_clear(&self->plan_reasons);
    for (int32_t i = 0; i < frame->count; i++) {
        int32_t length = (int32_t)frame->records[i].length;
        if (length > 0 && self->plan_reasons.length == 0)
            tt_text_printf(&self->plan_reasons, "%.*s", length < MAX_REASON ? length : MAX_REASON,
                           at);
        at += frame->records[i].length;
    }
}

/* Notes what a node says of the wish that is carried out. */
static void note_reasons(struct scheduler_node *self, uint16_t from,
                         const struct tt_received *received) {
    const struct tt_model_set *set = &self->role.models;
    const struct tt_frame *frame = &received->frame;
    const char *at = (const char *)received->payload;
    if (tt_placement_is_open(&set->placement))
        note_plan_reason(self, received);
    if (set->stage == TT_MODEL_STAGE_NONE)
        return;
    const struct tt_model_wish *wish = &set->wishes[set->first_wish];
    note_about(self, wish);
    for (int32_t i = 0; i < frame->count; i++) {
        const struct tt_frame_record *record = &frame->records[i];
        int32_t length = record->length < MAX_REASON ? (int32_t)record->length : MAX_REASON;
        if (i > 0 && record->id == set->awaited[from] && record->model == wish->model)
            tt_text_printf(&self->reasons, "%s%s: %.*s", self->reasons.length ? "; " : "",
                           tt_fleet_node_name(self->node, from), length, at);
        at += record->length;
    }
}

static const char *text(void *context, enum tt_frame_type type,
                        const struct tt_frame_record *record) {
    const struct scheduler_node *self = context;
    if (type == TT_FRAME_SERVED || record->code == 0)
        return "";
    if (record->code == (uint16_t)-TT_ERR_BUSY)
        return "too many commands wait for the scheduler of the cluster";
    return self->reasons.length ? tt_text_string(&self->reasons)
                                : "no backend of the cluster is there to load it";
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
        note_reasons(self, from, received);
    if (received->frame.type == TT_FRAME_TICKET && self->was_primary)
        count_tickets(self, now, &received->frame);
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
            tt_remote_engine_done(task, now);
    }
    tt_model_service_settle(&self->service);
}

static int64_t next_at(const void *context) {
    const struct scheduler_node *self = context;
    int64_t role_at = tt_instant_min(tt_scheduler_role_next_at(&self->role), self->demand.note_at);
    role_at = tt_instant_min(role_at, tt_scaling_service_next_at(&self->scaling));
    return tt_instant_min(role_at, tt_placement_service_next_at(&self->placement));
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
    tt_cluster_demand_fini(&take_self->demand);
    if (take_self->placement.node)
        tt_placement_service_fini(&take_self->placement);
    tt_model_service_fini(&take_self->service);
    tt_text_fini(&take_self->plan_reasons);
    tt_text_fini(&take_self->reasons);
    tt_scheduler_role_fini(&take_self->role);
    free(take_self);
}

static enum tt_err open_parts(struct scheduler_node *self, struct tt_error *why) {
    struct tt_fleet_node *node = self->node;
    tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler");
    enum tt_err err = tt_model_service_init(&self->service, tt_fleet_node_models(node), NULL, NULL,
                                            tt_fleet_node_options(node)->commands, NULL);
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
    enum tt_err err = tt_scheduler_role_init(&self->role, tt_fleet_node_settings(node),
                                             tt_fleet_node_number(node), tt_clock_now(), "deferred",
                                             NULL, 0, why);
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
    tt_text_init(&self->reasons);
    tt_text_init(&self->plan_reasons);
    err = open_parts(self, why);
    if (err) {
        free_parts(self);
        return err;
    }
    tt_command_inbox_attach(tt_fleet_node_options(node)->commands, tt_fleet_node_wake, node);
    tt_remote_engine_attach(tt_fleet_node_options(node)->remote, tt_fleet_node_wake, node);
    take_record(self);
    *out_self = self;
    return TT_OK;
}

static void close_role(void *take_self) {
    struct scheduler_node *self = take_self;
    tt_command_inbox_close(tt_fleet_node_options(self->node)->commands);
    settle(self, tt_clock_now());
    free_parts(self);
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
                   ", \"devices\": %d, \"requests\": %d, \"claims\": %" PRId64
                   ", \"granted\": %" PRId64 ", \"returned\": %" PRId64 ", \"suspected\": %" PRId64
                   ", \"avoided\": %" PRId64 ", \"placement\": %" PRIu64 ", \"plan\": \"%s\"",
                   usable_devices(role), tt_scheduler_role_requests(role), role->claims,
                   role->granted, role->returned, role->suspected, role->avoided,
                   role->models.placement.version,
                   tt_placement_stage_name(role->models.placement.stage));
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
                                                     .next_at = next_at,
                                                     .outbox = outbox,
                                                     .settle = settle,
                                                     .text = text,
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
