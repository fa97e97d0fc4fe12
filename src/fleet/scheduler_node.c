/* The scheduler's role in a process: cluster/scheduler_role.h with policy `deferred`, over the
 * devices of all backends. */
#include "base/clock.h"
#include "base/log/log.h"
#include "cluster/scheduler_role.h"
#include "fleet/fleet_roles.h"

#include <inttypes.h>
#include <stdlib.h>

struct scheduler_node {
    struct tt_fleet_node *node;
    struct tt_scheduler_role role;
    bool was_primary;
};

static void show_change(struct scheduler_node *self) {
    if (self->role.is_primary == self->was_primary)
        return;
    self->was_primary = self->role.is_primary;
    tt_log_write(tt_fleet_node_options(self->node)->log, TT_LOG_INFO, NULL,
                 self->was_primary ? "cluster: this scheduler is primary; epoch %" PRIu64
                                   : "cluster: this scheduler is a spare; epoch %" PRIu64,
                 self->role.primary.epoch);
}

static void received(void *context, int64_t now, uint16_t from,
                     const struct tt_received *received) {
    struct scheduler_node *self = context;
    tt_scheduler_role_receive(&self->role, now, from, &received->frame);
    show_change(self);
}

static void linked(void *context, int64_t now, uint16_t peer, enum tt_link link) {
    struct scheduler_node *self = context;
    tt_scheduler_role_link(&self->role, now, peer, link);
    show_change(self);
}

static void tick(void *context, int64_t now) {
    struct scheduler_node *self = context;
    tt_scheduler_role_tick(&self->role, now);
    show_change(self);
}

/* A client that came to the wrong address gets an answer. */
static void settle(void *context, int64_t now) {
    const struct scheduler_node *self = context;
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
}

static int64_t next_at(const void *context) {
    const struct scheduler_node *self = context;
    return tt_scheduler_role_next_at(&self->role);
}

static struct tt_outbox *outbox(void *context) {
    struct scheduler_node *self = context;
    return &self->role.outbox;
}

/* A description in a file records nothing: the epochs at the devices are what fences. */
static void record(void *context, int64_t now, uint64_t epoch) {
    (void)context;
    (void)now;
    (void)epoch;
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
    tt_remote_engine_attach(tt_fleet_node_options(node)->remote, tt_fleet_node_wake, node);
    *out_self = self;
    return TT_OK;
}

static void close_role(void *take_self) {
    struct scheduler_node *self = take_self;
    settle(self, tt_clock_now());
    tt_scheduler_role_fini(&self->role);
    free(self);
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
    show_change(self);
    return TT_OK;
}

static enum tt_err promote(void *context, int64_t now, struct tt_error *why) {
    struct scheduler_node *self = context;
    if (!tt_scheduler_role_promote(&self->role, now))
        return tt_fail(TT_ERR_UNAVAILABLE, why, "this scheduler is primary already");
    show_change(self);
    return TT_OK;
}

static void count(const void *context, struct tt_text *out) {
    const struct tt_scheduler_role *role = &((const struct scheduler_node *)context)->role;
    int32_t devices = 0;
    for (int32_t i = 0; i < role->device_count; i++)
        devices += role->devices[i].is_usable;
    tt_text_printf(out,
                   ", \"devices\": %d, \"requests\": %d, \"claims\": %" PRId64
                   ", \"granted\": %" PRId64 ", \"returned\": %" PRId64 ", \"suspected\": %" PRId64
                   ", \"avoided\": %" PRId64,
                   devices, role->mechanism.requests.in_use, role->claims, role->granted,
                   role->returned, role->suspected, role->avoided);
}

const struct tt_fleet_role tt_scheduler_node_role = {.open = open_role,
                                                     .close = close_role,
                                                     .received = received,
                                                     .linked = linked,
                                                     .tick = tick,
                                                     .next_at = next_at,
                                                     .outbox = outbox,
                                                     .settle = settle,
                                                     .epoch = epoch,
                                                     .state = state,
                                                     .drain = drain,
                                                     .promote = promote,
                                                     .count = count};
