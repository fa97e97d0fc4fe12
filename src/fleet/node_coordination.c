#include "fleet/node_coordination.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"

#include <stdio.h>
#include <stdlib.h>

#define LEASE_NS (30 * TT_S)
#define ANSWER_NS (4 * TT_S)

/* ---- what the service reports ---- */

static void on_answered(void *context, const struct tt_coordination_answer *answer) {
    struct tt_node_coordination *self = context;
    tt_membership_answered(&self->membership, tt_clock_now(), answer);
    tt_plan_record_answered(&self->plan, tt_clock_now(), answer);
}

static void on_member(void *context, const char *name, const char *value, bool is_there) {
    (void)value;
    struct tt_node_coordination *self = context;
    int32_t number = tt_cluster_file_find(self->options.file, name);
    if (number < 0 || self->is_member[number] == is_there)
        return;
    self->is_member[number] = is_there;
    tt_log_limited(self->options.log, TT_LOG_INFO, NULL, "cluster: etcd says that %s is %s member",
                   name, is_there ? "a" : "no");
}

static void on_seen(void *context, uint64_t epoch, int64_t revision) {
    struct tt_node_coordination *self = context;
    tt_membership_saw(&self->membership, tt_clock_now(), epoch, revision);
}

static const struct tt_coordination_events events = {
    .answered = on_answered, .member = on_member, .recorded = on_seen};

int64_t tt_node_coordination_turn(struct tt_node_coordination *self, int64_t now) {
    if (!self->service)
        return TT_NEVER;
    self->coordination.receive(self->coordination.self, &events, self);
    tt_membership_tick(&self->membership, now);
    tt_plan_record_tick(&self->plan, now);
    return tt_instant_min(tt_membership_next_at(&self->membership),
                          tt_plan_record_next_at(&self->plan));
}

/* ---- what the membership asks ---- */

static void on_send(void *context, const struct tt_coordination_request *request) {
    struct tt_node_coordination *self = context;
    self->coordination.send(self->coordination.self, request);
}

static void on_recorded(void *context, int64_t now, uint64_t epoch) {
    struct tt_node_coordination *self = context;
    self->options.recorded(self->options.context, now, epoch);
}

void tt_node_coordination_record(struct tt_node_coordination *self, int64_t now, uint64_t epoch) {
    if (self->service)
        tt_membership_record(&self->membership, now, epoch);
}

static void on_plan_recorded(void *context, int64_t now, bool is_recorded) {
    struct tt_node_coordination *self = context;
    self->options.plan_recorded(self->options.context, now, is_recorded);
}

void tt_node_coordination_record_plan(struct tt_node_coordination *self, int64_t now,
                                      uint64_t epoch, const char *text) {
    if (self->service)
        tt_plan_record_write(&self->plan, now, epoch, text);
    else
        self->options.plan_recorded(self->options.context, now, true);
}

void tt_node_coordination_show(const struct tt_node_coordination *self, struct tt_text *out_json) {
    if (self->service)
        tt_text_printf(out_json, ", \"member\": %s",
                       self->is_member[self->options.number] ? "true" : "false");
}

/* ---- life ---- */

enum tt_err tt_node_coordination_open(struct tt_node_coordination *self,
                                      const struct tt_node_coordination_options *options,
                                      struct tt_error *why) {
    *self = (struct tt_node_coordination){.options = *options};
    if (!tt_etcd_address_is(options->spec))
        return TT_OK;
    const struct tt_cluster_place *place = &options->file->places[options->number];
    enum tt_err err = tt_etcd_address_parse(options->spec, options->tls, &self->address, why);
    const struct tt_etcd_service_options service = {.address = &self->address,
                                                    .wake = options->wake,
                                                    .context = options->context,
                                                    .log = options->log};
    tt_assert(options->file->count > 0);
    self->is_member = calloc((size_t)options->file->count, sizeof(*self->is_member));
    if (!err && !self->is_member)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err)
        err = tt_etcd_service_open(&service, &self->service, why);
    if (err)
        return err;
    self->coordination = tt_etcd_service_coordination(self->service);
    snprintf(self->value, sizeof(self->value), "%s %s:%d", tt_cluster_role_name(place->role),
             place->host, place->tcp_port);
    tt_membership_init(&self->membership, tt_clock_now(), place->name, self->value, LEASE_NS,
                       ANSWER_NS);
    self->membership.context = self;
    self->membership.send = on_send;
    self->membership.recorded = on_recorded;
    tt_plan_record_init(&self->plan, ANSWER_NS);
    self->plan.context = self;
    self->plan.send = on_send;
    self->plan.ended = on_plan_recorded;
    return TT_OK;
}

void tt_node_coordination_close(struct tt_node_coordination *self) {
    if (self->service)
        tt_membership_leave(&self->membership);
    tt_etcd_service_close(self->service);
    tt_etcd_address_fini(&self->address);
    tt_plan_record_fini(&self->plan);
    free(self->is_member);
    *self = (struct tt_node_coordination){.service = NULL};
}
