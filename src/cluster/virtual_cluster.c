#include "cluster/virtual_cluster.h"

#include "base/array.h"
#include "base/instant.h"
#include "cluster/virtual_node.h"

#include <inttypes.h>
#include <stdlib.h>

/* How long after the last client's request everything must be answered. */
#define END_NS (20 * TT_S)
/* How long after the last answer and the last fault the primary and the backends may have requests:
 * longer than a slow batch of the tests. */
#define SETTLE_NS (1500 * TT_MS)
/* How long a run goes on after that, so that what is under way arrives. */
#define REST_NS (20 * TT_MS)

/* ---- clients ---- */

static struct tt_virtual_node *pick_frontend(struct tt_virtual_cluster *self) {
    int32_t count = self->settings->node_count;
    int32_t first = (int32_t)tt_prng_below(&self->prng, (uint64_t)count);
    for (int32_t i = 0; i < count; i++) {
        struct tt_virtual_node *node = &self->nodes[(first + i) % count];
        if (node->role == TT_ROLE_FRONTEND && node->is_alive &&
            node->frozen_until_at <= self->network.now)
            return node;
    }
    return NULL;
}

static uint16_t pick_model(struct tt_virtual_cluster *self) {
    const int32_t *shares = self->options->shares;
    int32_t count = self->settings->model_count, model = 0;
    if (!shares)
        return (uint16_t)tt_prng_below(&self->prng, (uint64_t)count);
    int32_t drawn = (int32_t)tt_prng_below(&self->prng, 1000);
    for (; model < count - 1 && drawn >= shares[model]; model++)
        drawn -= shares[model];
    return (uint16_t)model;
}

/* The client that was drawn waits for ever, but goes some time. */
static void plan_cancellation(struct tt_virtual_cluster *self, int64_t now,
                              const struct tt_virtual_node *node) {
    int64_t stays = (int64_t)tt_prng_below(&self->prng, 2 * (uint64_t)self->options->slo_ns);
    tt_virtual_network_schedule(&self->network,
                                (struct tt_virtual_event){.at = now + stays,
                                                          .kind = TT_EVENT_CANCEL,
                                                          .to = node->number,
                                                          .life = node->life,
                                                          .number = self->request_count});
}

static void cancel(struct tt_virtual_cluster *self, int64_t now, struct tt_virtual_node *node,
                   int64_t number) {
    const struct tt_virtual_client *request = &self->requests[number];
    bool was_answered = request->is_answered;
    if (tt_frontend_cancel(&node->as.frontend, request->id) == was_answered)
        tt_virtual_violate(self, now, "request %d is %s", (int)number,
                           was_answered ? "cancelled after its answer" : "not cancelled");
}

static void arrive(struct tt_virtual_cluster *self, int64_t now) {
    const struct tt_virtual_options *options = self->options;
    int64_t gap = 1 + (int64_t)tt_prng_below(&self->prng, 2 * (uint64_t)options->gap_ns);
    if (now + gap < options->until_at)
        tt_virtual_network_schedule(
            &self->network, (struct tt_virtual_event){.at = now + gap, .kind = TT_EVENT_ARRIVAL});
    struct tt_virtual_node *node = pick_frontend(self);
    uint16_t model = pick_model(self);
    if (!node)
        return;
    bool reserved =
        TT_ARRAY_RESERVE(self->requests, &self->request_capacity, self->request_count + 1);
    tt_assert(reserved);
    bool goes = options->cancel_permille > 0 &&
                tt_prng_below(&self->prng, 1000) < (uint64_t)options->cancel_permille;
    int64_t deadline_at = goes ? TT_NEVER : now + options->slo_ns;
    struct tt_virtual_client *request = &self->requests[self->request_count];
    bool streams = self->options->emits && model == 0;
    *request = (struct tt_virtual_client){.accepted_at = now,
                                          .deadline_at = deadline_at,
                                          .frontend = node->number,
                                          .streams = streams};
    struct tt_frontend_submission submission = {.model = model,
                                                .rows = 1,
                                                .deadline_at = deadline_at,
                                                .streams = streams,
                                                .user = (void *)(intptr_t)self->request_count};
    const struct tt_model_duty *duty = tt_virtual_models_duty(node);
    bool serves = duty->epoch != 0 && tt_model_duty_serves(duty, model);
    if (!serves || tt_frontend_submit(&node->as.frontend, now, &submission, &request->id)) {
        self->result->refused++;
    } else {
        if (goes)
            plan_cancellation(self, now, node);
        self->request_count++;
        self->result->accepted++;
    }
    tt_virtual_node_end_turn(self, node, now);
}

/* ---- events ---- */

static void check_grant(struct tt_virtual_cluster *self, int64_t now, struct tt_virtual_node *node,
                        const struct tt_frame *frame, int64_t accepted_before) {
    if (frame->type == TT_FRAME_CLAIM && frame->epoch > node->claimed)
        node->claimed = frame->epoch;
    if (node->role != TT_ROLE_BACKEND || node->as.backend.accepted == accepted_before)
        return;
    if (frame->epoch < node->claimed || frame->epoch < node->obeyed)
        tt_virtual_violate(self, now,
                           "node %d obeys epoch %" PRIx64 " after %" PRIx64 " was claimed",
                           (int)node->number, frame->epoch, node->claimed);
    node->obeyed = frame->epoch;
}

static void deliver(struct tt_virtual_cluster *self, int64_t now, struct tt_virtual_node *node,
                    const struct tt_virtual_event *event) {
    struct tt_frame frame;
    size_t used;
    struct tt_error why;
    if (tt_frame_read(event->bytes, event->length, self->records, &frame, &used, &why) ||
        used != event->length) {
        tt_virtual_violate(self, now, "a frame of node %d is damaged: %.100s", (int)event->from,
                           why.text);
        return;
    }
    tt_virtual_models_complete(self, &frame);
    if (node->role == TT_ROLE_FRONTEND) {
        tt_frontend_receive(&node->as.frontend, now, event->from, &frame);
    } else if (node->role == TT_ROLE_SCHEDULER) {
        tt_scheduler_role_receive(&node->as.scheduler, now, event->from, &frame);
    } else {
        int64_t accepted = node->as.backend.accepted;
        tt_backend_receive(&node->as.backend, now, event->from, &frame);
        check_grant(self, now, node, &frame, accepted);
    }
}

static void report_link(struct tt_virtual_node *node, int64_t now,
                        const struct tt_virtual_event *event) {
    enum tt_link link = (enum tt_link)event->number;
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_link(&node->as.frontend, now, event->from, link);
    else if (node->role == TT_ROLE_SCHEDULER)
        tt_scheduler_role_link(&node->as.scheduler, now, event->from, link);
    else
        tt_backend_link(&node->as.backend, now, event->from, link);
}

static void tick(struct tt_virtual_node *node, int64_t now) {
    node->tick_at = TT_NEVER;
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_tick(&node->as.frontend, now);
    else if (node->role == TT_ROLE_SCHEDULER)
        tt_scheduler_role_tick(&node->as.scheduler, now);
    else
        tt_backend_tick(&node->as.backend, now);
}

/* An event of one node, if it is not frozen and the event is of this life. */
static void node_event(struct tt_virtual_cluster *self, int64_t now,
                       struct tt_virtual_event *event) {
    struct tt_virtual_node *node = &self->nodes[event->to];
    bool is_message = event->kind == TT_EVENT_MESSAGE;
    uint32_t life = is_message
                        ? tt_virtual_network_link(&self->network, event->from, event->to)->life
                        : node->life;
    if (!node->is_alive || event->life != life ||
        (event->kind == TT_EVENT_TICK && event->at != node->tick_at) ||
        (event->kind == TT_EVENT_MEMBER && event->at != node->member_at))
        return;
    if (node->frozen_until_at > now) {
        event->at = node->frozen_until_at;
        if (event->kind == TT_EVENT_TICK)
            node->tick_at = event->at;
        if (event->kind == TT_EVENT_MEMBER)
            node->member_at = event->at;
        tt_virtual_network_schedule(&self->network, *event);
        event->bytes = NULL; /* they went along */
        return;
    }
    if (is_message)
        deliver(self, now, node, event);
    else if (event->kind == TT_EVENT_LINK)
        report_link(node, now, event);
    else if (event->kind == TT_EVENT_READ)
        tt_virtual_node_read(self, node, now, event);
    else if (event->kind == TT_EVENT_EMITTED)
        tt_virtual_node_emitted(node, event);
    else if (event->kind == TT_EVENT_RAN || event->kind == TT_EVENT_RAN_IN_VAIN)
        tt_backend_ran(&node->as.backend, now, (int32_t)event->number, event->kind == TT_EVENT_RAN);
    else if (event->kind == TT_EVENT_CANCEL)
        cancel(self, now, node, event->number);
    else if (event->kind == TT_EVENT_ACTED)
        tt_virtual_models_acted(self, now, node);
    else if (event->kind == TT_EVENT_TOLD)
        tt_virtual_member_told(node, now, event);
    else if (event->kind == TT_EVENT_MEMBER)
        tt_virtual_member_look(node, now);
    else
        tick(node, now);
    if (event->kind == TT_EVENT_TOLD || event->kind == TT_EVENT_MEMBER)
        tt_virtual_member_plan(node);
    tt_virtual_node_end_turn(self, node, now);
}

static void wish(struct tt_virtual_cluster *self, int64_t now) {
    struct tt_virtual_node *frontend = pick_frontend(self);
    tt_virtual_models_wish(self, now, frontend);
    if (frontend)
        tt_virtual_node_end_turn(self, frontend, now);
}

static void place(struct tt_virtual_cluster *self, int64_t now) {
    const struct tt_virtual_options *options = self->options;
    if (now + options->place_gap_ns < options->until_at)
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = now + options->place_gap_ns, .kind = TT_EVENT_PLACE});
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        struct tt_virtual_node *node = &self->nodes[i];
        if (node->role != TT_ROLE_SCHEDULER || !node->is_alive || node->frozen_until_at > now ||
            !node->as.scheduler.is_primary)
            continue;
        options->place(options->context, now, &node->as.scheduler);
        tt_virtual_node_end_turn(self, node, now);
    }
}

/* If there is room for it. */
static void let_model_come(struct tt_virtual_cluster *self, int64_t now) {
    const struct tt_virtual_options *options = self->options;
    if (now + options->model_gap_ns < options->until_at)
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = now + options->model_gap_ns, .kind = TT_EVENT_MODEL});
    if (self->settings->model_count == self->settings->model_capacity)
        return;
    options->come(options->context);
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        struct tt_virtual_node *node = &self->nodes[i];
        if (node->is_alive && node->role == TT_ROLE_SCHEDULER)
            tt_scheduler_role_add_model(&node->as.scheduler, now, false, TT_CLUSTER_NO_POOL);
        else if (node->is_alive)
            tt_model_duty_add(tt_virtual_models_duty(node));
        if (node->is_alive && node->frozen_until_at <= now)
            tt_virtual_node_end_turn(self, node, now);
    }
}

static void handle(struct tt_virtual_cluster *self, struct tt_virtual_event *event) {
    switch (event->kind) {
    case TT_EVENT_ARRIVAL: arrive(self, event->at); break;
    case TT_EVENT_FAULT: tt_virtual_fault_begin(self, event->at, event->number); break;
    case TT_EVENT_FAULT_ENDS: tt_virtual_fault_end(self, event->at, event->number); break;
    case TT_EVENT_TIMEOUT: tt_virtual_fault_time_out(self, event->at, event->number); break;
    case TT_EVENT_WISH: wish(self, event->at); break;
    case TT_EVENT_MODEL: let_model_come(self, event->at); break;
    case TT_EVENT_PLACE: place(self, event->at); break;
    case TT_EVENT_ASKED: tt_virtual_coordination_asked(self, event); break;
    case TT_EVENT_MESSAGE:
    case TT_EVENT_ACTED:
    case TT_EVENT_CANCEL:
    case TT_EVENT_LINK:
    case TT_EVENT_READ:
    case TT_EVENT_EMITTED:
    case TT_EVENT_RAN:
    case TT_EVENT_RAN_IN_VAIN:
    case TT_EVENT_TOLD:
    case TT_EVENT_MEMBER:
    case TT_EVENT_TICK: node_event(self, event->at, event); break;
    }
}

static int64_t under_way(const struct tt_virtual_result *result) {
    return result->accepted - result->answered - result->cancelled - result->gone;
}

static void check_books(struct tt_virtual_cluster *self, int64_t now) {
    int64_t live = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        const struct tt_virtual_node *node = &self->nodes[i];
        if (!node->is_alive)
            continue;
        if (node->role == TT_ROLE_FRONTEND) {
            tt_frontend_check(&node->as.frontend);
            live += node->as.frontend.live;
        } else if (node->role == TT_ROLE_SCHEDULER) {
            tt_scheduler_role_check(&node->as.scheduler);
        } else {
            tt_backend_check(&node->as.backend);
        }
    }
    const struct tt_virtual_result *result = self->result;
    if (under_way(result) != live)
        tt_virtual_violate(self, now,
                           "%" PRId64 " requests accepted, %" PRId64 " answered, %" PRId64
                           " cancelled, %" PRId64 " gone, %" PRId64 " under way",
                           result->accepted, result->answered, result->cancelled, result->gone,
                           live);
}

/* No request is under way: the primary has none, and no device has a batch. */
static bool is_settled(const struct tt_virtual_cluster *self) {
    int32_t left = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        const struct tt_virtual_node *node = &self->nodes[i];
        if (node->is_alive && node->role == TT_ROLE_SCHEDULER && node->as.scheduler.is_primary)
            left += tt_scheduler_role_requests(&node->as.scheduler);
        if (node->is_alive && node->role == TT_ROLE_BACKEND)
            left += !tt_backend_is_idle(&node->as.backend);
    }
    return left == 0;
}

/* When no client and no fault comes any more. */
static int64_t quiet_from(const struct tt_virtual_cluster *self) {
    int64_t from = self->options->until_at;
    for (int32_t i = 0; i < self->options->fault_count; i++)
        from = tt_instant_max(from,
                              self->options->faults[i].at + self->options->faults[i].duration_ns);
    return from;
}

static void run(struct tt_virtual_cluster *self) {
    const struct tt_virtual_options *options = self->options;
    struct tt_virtual_result *result = self->result;
    int64_t now = 0, quiet_at = quiet_from(self), answered_at = 0, busy_at = 0;
    for (struct tt_virtual_event event;
         !result->violation[0] && tt_virtual_network_next(&self->network, &event);) {
        now = self->network.now = event.at;
        handle(self, &event);
        free(event.bytes);
        if (++result->events % options->check_every == 0)
            check_books(self, now);
        if (now < quiet_at || under_way(result) > 0)
            answered_at = now;
        if (now == answered_at || !is_settled(self) || !tt_virtual_models_are_settled(self))
            busy_at = now;
        if (now >= busy_at + REST_NS)
            break;
        if (now == busy_at && now >= answered_at + SETTLE_NS)
            tt_virtual_violate(self, now,
                               is_settled(self)
                                   ? "the nodes do not serve what the primary says"
                                   : "answered requests are left at schedulers or backends");
        if (now >= quiet_at + END_NS)
            tt_virtual_violate(self, now, "%" PRId64 " requests are never answered",
                               under_way(result));
    }
    check_books(self, now);
}

static enum tt_err start_all(struct tt_virtual_cluster *self) {
    const struct tt_cluster_settings *settings = self->settings;
    for (int32_t i = 0; i < settings->node_count; i++) {
        struct tt_virtual_node *node = &self->nodes[i];
        node->cluster = self;
        node->number = (uint16_t)i;
        node->role = settings->nodes[i].role;
        enum tt_err err = tt_virtual_node_start(self, node, 0);
        if (err)
            return err;
        for (int32_t peer = 0; peer < i; peer++) {
            tt_virtual_pair_disconnect(self, (uint16_t)i, (uint16_t)peer);
            tt_virtual_pair_connect(self, 0, (uint16_t)i, (uint16_t)peer);
        }
        tt_virtual_node_end_turn(self, node, 0);
    }
    for (int32_t i = 0; i < self->options->fault_count; i++) {
        const struct tt_fault *fault = &self->options->faults[i];
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = fault->at, .kind = TT_EVENT_FAULT, .number = i});
        tt_virtual_network_schedule(&self->network,
                                    (struct tt_virtual_event){.at = fault->at + fault->duration_ns,
                                                              .kind = TT_EVENT_FAULT_ENDS,
                                                              .number = i});
    }
    /* Clients come when the cluster has its first primary. */
    tt_virtual_network_schedule(
        &self->network,
        (struct tt_virtual_event){.at = 3 * settings->silence_ns, .kind = TT_EVENT_ARRIVAL});
    if (self->options->wish_gap_ns > 0)
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = 4 * settings->silence_ns, .kind = TT_EVENT_WISH});
    if (self->options->model_gap_ns > 0)
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = 4 * settings->silence_ns, .kind = TT_EVENT_MODEL});
    if (self->options->place_gap_ns > 0)
        tt_virtual_network_schedule(
            &self->network,
            (struct tt_virtual_event){.at = 4 * settings->silence_ns, .kind = TT_EVENT_PLACE});
    return TT_OK;
}

enum tt_err tt_virtual_cluster_run(const struct tt_virtual_options *options,
                                   struct tt_virtual_result *out_result, struct tt_error *why) {
    int32_t count = options->settings->node_count;
    *out_result = (struct tt_virtual_result){0};
    struct tt_virtual_cluster *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a virtual cluster");
    self->options = options;
    self->settings = options->settings;
    self->result = out_result;
    self->why = why;
    self->nodes = calloc((size_t)count, sizeof(*self->nodes));
    self->sees = calloc((size_t)count * (size_t)count, sizeof(*self->sees));
    tt_prng_init(&self->prng, options->seed, 0);
    enum tt_err err = tt_virtual_network_init(&self->network, count, options->seed,
                                              options->delay_ns, options->loss_permille);
    if (!self->nodes || !self->sees ||
        tt_virtual_coordination_init(&self->service, count, options->seed))
        err = TT_ERR_NO_MEMORY;
    if (!err)
        err = start_all(self);
    if (!err)
        run(self);
    if (!err)
        out_result->members = tt_virtual_coordination_members(self, self->network.now);
    for (int32_t i = 0; self->nodes && i < count; i++)
        tt_virtual_node_stop(self, &self->nodes[i]);
    tt_virtual_network_fini(&self->network);
    tt_virtual_coordination_fini(&self->service);
    free(self->requests);
    free(self->nodes);
    free(self->sees);
    free(self);
    return err;
}
