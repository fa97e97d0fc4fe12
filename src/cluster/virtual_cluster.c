#include "cluster/virtual_cluster.h"

#include "base/array.h"
#include "base/instant.h"
#include "cluster/virtual_network.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long after the last client's request everything must be answered. */
#define END_NS (20 * TT_S)

struct node {
    struct virtual_cluster *cluster;
    union {
        struct tt_frontend frontend;
        struct tt_scheduler_role scheduler;
        struct tt_backend backend;
    } as;
    enum tt_cluster_role role;
    uint16_t number;
    bool is_alive;
    uint32_t life;
    int64_t frozen_until_at; /* in the past: it is not */
    int64_t tick_at;         /* of the tick to come */
    uint64_t claimed;        /* backend: the highest epoch of the claims delivered to this life */
    uint64_t obeyed;         /* backend: of the latest grant that it accepted */
};

struct client_request {
    int64_t accepted_at, deadline_at;
    uint16_t frontend;
    bool is_answered, is_gone;
};

struct virtual_cluster {
    const struct tt_virtual_options *options;
    const struct tt_cluster_settings *settings;
    struct tt_virtual_network network;
    struct tt_prng prng;
    struct node *nodes; /* [node_count] */
    bool *sees;         /* [node_count][node_count]: the first knows of a link to the second */
    struct client_request *requests;
    int64_t request_count, request_capacity;
    uint64_t recorded; /* epoch in the coordination service */
    int32_t record_faults;
    struct tt_frame_record records[TT_FRAME_MAX_RECORDS];
    uint8_t bytes[TT_FRAME_HEAD_BYTES + TT_FRAME_MAX_RECORDS * TT_FRAME_RECORD_BYTES];
    struct tt_virtual_result *result;
    struct tt_error *why;
};

static void violate(struct virtual_cluster *self, int64_t now, const char *format, ...)
    TT_PRINTF(3, 4);
static void violate(struct virtual_cluster *self, int64_t now, const char *format, ...) {
    if (self->result->violation[0])
        return;
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(self->result->violation, sizeof(self->result->violation),
             "at %" PRId64 ".%06" PRId64 " ms: %s", now / TT_MS, now % TT_MS, text);
}

/* ---- what the roles ask for ---- */

static void on_answered(void *context, void *user, enum tt_answer answer, int32_t reason) {
    (void)reason;
    struct node *node = context;
    struct virtual_cluster *self = node->cluster;
    struct client_request *request = &self->requests[(intptr_t)user];
    int64_t now = self->network.now;
    if (request->is_answered || request->is_gone)
        violate(self, now, "request %d is answered twice", (int)(intptr_t)user);
    request->is_answered = true;
    self->result->answered++;
    if (self->options->ended)
        self->options->ended(self->options->context,
                             &(struct tt_virtual_ending){.accepted_at = request->accepted_at,
                                                         .ended_at = now,
                                                         .deadline_at = request->deadline_at,
                                                         .answer = answer});
}

/* The batch takes as long as its profile says, within 2 %. */
static void on_run(void *context, int64_t now, int32_t device, const struct tt_plan *plan) {
    struct node *node = context;
    struct virtual_cluster *self = node->cluster;
    int32_t rows = 0;
    for (int32_t i = 0; i < plan->count; i++)
        rows += plan->members[i].is_here ? plan->members[i].rows : 0;
    int64_t run = tt_profile_latency(self->settings->models[plan->model]->whole, rows, 0);
    run = run * (980 + (int64_t)tt_prng_below(&self->prng, 41)) / 1000;
    tt_virtual_network_schedule(&self->network, (struct tt_virtual_event){.at = now + run,
                                                                          .kind = TT_EVENT_RAN,
                                                                          .to = node->number,
                                                                          .life = node->life,
                                                                          .number = device});
}

static void on_record(void *context, int64_t now, uint64_t epoch) {
    struct node *node = context;
    struct virtual_cluster *self = node->cluster;
    self->result->claims++;
    if (self->options->claimed)
        self->options->claimed(self->options->context, now, epoch);
    if (self->record_faults > 0)
        return; /* no answer; the claim stands without it */
    if (epoch > self->recorded)
        self->recorded = epoch;
    int64_t takes = 2 * TT_MS + (int64_t)tt_prng_below(&self->prng, 10 * TT_MS);
    tt_virtual_network_schedule(&self->network,
                                (struct tt_virtual_event){.at = now + takes,
                                                          .kind = TT_EVENT_RECORDED,
                                                          .to = node->number,
                                                          .life = node->life,
                                                          .number = (int64_t)self->recorded});
}

/* ---- life of a node ---- */

static enum tt_err start_node(struct virtual_cluster *self, struct node *node, int64_t now) {
    enum tt_err err = TT_OK;
    node->life++;
    node->claimed = node->obeyed = 0;
    node->tick_at = TT_NEVER;
    if (node->role == TT_ROLE_FRONTEND) {
        err = tt_frontend_init(&node->as.frontend, self->settings, node->number,
                               (uint16_t)node->life, now);
        node->as.frontend.context = node;
        node->as.frontend.answered = on_answered;
    } else if (node->role == TT_ROLE_BACKEND) {
        err = tt_backend_init(&node->as.backend, self->settings, node->number);
        node->as.backend.context = node;
        node->as.backend.run = on_run;
    } else {
        err = tt_scheduler_role_init(&node->as.scheduler, self->settings, node->number, now,
                                     self->options->policy, NULL, 0, self->why);
        node->as.scheduler.context = node;
        node->as.scheduler.record = on_record;
    }
    node->is_alive = err == TT_OK;
    return err;
}

static void add_counts(struct virtual_cluster *self, const struct node *node) {
    if (node->role == TT_ROLE_SCHEDULER) {
        self->result->returned += node->as.scheduler.returned;
        self->result->suspected += node->as.scheduler.suspected;
        self->result->avoided += node->as.scheduler.avoided;
    } else if (node->role == TT_ROLE_BACKEND) {
        self->result->stale += node->as.backend.refused;
    }
}

static void stop_node(struct virtual_cluster *self, struct node *node) {
    if (!node->is_alive)
        return;
    add_counts(self, node);
    node->is_alive = false;
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_fini(&node->as.frontend);
    else if (node->role == TT_ROLE_BACKEND)
        tt_backend_fini(&node->as.backend);
    else
        tt_scheduler_role_fini(&node->as.scheduler);
}

static struct tt_outbox *outbox_of(struct node *node) {
    if (node->role == TT_ROLE_FRONTEND)
        return &node->as.frontend.outbox;
    return node->role == TT_ROLE_BACKEND ? &node->as.backend.outbox : &node->as.scheduler.outbox;
}

static int64_t next_at(const struct node *node) {
    if (node->role == TT_ROLE_FRONTEND)
        return tt_frontend_next_at(&node->as.frontend);
    return node->role == TT_ROLE_BACKEND ? tt_backend_next_at(&node->as.backend)
                                         : tt_scheduler_role_next_at(&node->as.scheduler);
}

static bool is_datagram(enum tt_frame_type type) {
    return type == TT_FRAME_BEAT || type == TT_FRAME_ASK || type == TT_FRAME_OPINION;
}

/* Sends what the node left in its outbox, and plans its next tick. */
static void end_turn(struct virtual_cluster *self, struct node *node, int64_t now) {
    struct tt_outbox *outbox = outbox_of(node);
    for (int64_t i = 0; i < outbox->frame_count; i++) {
        struct tt_frame frame = tt_outbox_frame(outbox, i);
        tt_frame_write(&frame, self->bytes);
        tt_virtual_network_send(&self->network, now, node->number, outbox->frames[i].to,
                                self->bytes, tt_frame_bytes(frame.count), is_datagram(frame.type));
    }
    tt_outbox_clear(outbox);
    int64_t at = next_at(node);
    if (at == TT_NEVER || (node->tick_at > now && node->tick_at <= at))
        return;
    node->tick_at = tt_instant_max(at, now);
    tt_virtual_network_schedule(&self->network, (struct tt_virtual_event){.at = node->tick_at,
                                                                          .kind = TT_EVENT_TICK,
                                                                          .to = node->number,
                                                                          .life = node->life});
}

/* ---- links ---- */

static bool *sees(struct virtual_cluster *self, uint16_t observer, uint16_t peer) {
    return &self->sees[(size_t)observer * (size_t)self->settings->node_count + peer];
}

static void tell(struct virtual_cluster *self, int64_t at, uint16_t observer, uint16_t peer,
                 enum tt_link link) {
    struct node *node = &self->nodes[observer];
    if (!node->is_alive)
        return;
    *sees(self, observer, peer) = link == TT_LINK_UP;
    tt_virtual_network_schedule(&self->network, (struct tt_virtual_event){.at = at,
                                                                          .kind = TT_EVENT_LINK,
                                                                          .from = peer,
                                                                          .to = observer,
                                                                          .life = node->life,
                                                                          .number = link});
}

/* Two roles talk to each other unless they are of the same kind; schedulers always do. */
static bool may_talk(const struct virtual_cluster *self, uint16_t a, uint16_t b) {
    return a != b &&
           (self->nodes[a].role != self->nodes[b].role || self->nodes[a].role == TT_ROLE_SCHEDULER);
}

static void connect_pair(struct virtual_cluster *self, int64_t now, uint16_t a, uint16_t b) {
    struct tt_virtual_link *there = tt_virtual_network_link(&self->network, a, b);
    struct tt_virtual_link *back = tt_virtual_network_link(&self->network, b, a);
    if (!may_talk(self, a, b) || !there->is_lost || there->cuts > 0 || !self->nodes[a].is_alive ||
        !self->nodes[b].is_alive)
        return;
    int64_t at = now + 2 * self->options->delay_ns;
    for (int32_t i = 0; i < 2; i++) {
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*sees(self, observer, peer))
            tell(self, at, observer, peer, TT_LINK_LOST);
        tell(self, at, observer, peer, TT_LINK_UP);
    }
    there->is_lost = back->is_lost = false;
    there->last_at = back->last_at = at;
}

static void disconnect_pair(struct virtual_cluster *self, uint16_t a, uint16_t b) {
    tt_virtual_network_reset(&self->network, a, b);
    tt_virtual_network_link(&self->network, a, b)->is_lost = true;
    tt_virtual_network_link(&self->network, b, a)->is_lost = true;
}

/* ---- faults ---- */

static void mark_gone(struct virtual_cluster *self, uint16_t frontend) {
    for (int64_t i = 0; i < self->request_count; i++) {
        struct client_request *request = &self->requests[i];
        if (request->frontend == frontend && !request->is_answered && !request->is_gone) {
            request->is_gone = true;
            self->result->gone++;
        }
    }
}

static void crash(struct virtual_cluster *self, int64_t now, uint16_t number) {
    struct node *node = &self->nodes[number];
    if (!node->is_alive)
        return;
    stop_node(self, node);
    node->frozen_until_at = now;
    if (node->role == TT_ROLE_FRONTEND)
        mark_gone(self, number);
    for (uint16_t peer = 0; peer < self->settings->node_count; peer++) {
        if (!may_talk(self, number, peer))
            continue;
        *sees(self, number, peer) = false;
        bool is_cut = tt_virtual_network_link(&self->network, number, peer)->cuts > 0;
        if (*sees(self, peer, number) && !is_cut)
            tell(self, now + self->options->delay_ns, peer, number, TT_LINK_CLOSED);
        disconnect_pair(self, number, peer);
    }
}

static bool is_cut_by(const struct virtual_cluster *self, const struct tt_fault *fault, uint16_t a,
                      uint16_t b) {
    bool is_pair = fault->other == TT_CLUSTER_NO_NODE ? a == fault->node || b == fault->node
                                                      : (a == fault->node && b == fault->other) ||
                                                            (b == fault->node && a == fault->other);
    return is_pair && may_talk(self, a, b);
}

static void for_cut_pairs(struct virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                          void (*act)(struct virtual_cluster *self, int64_t now,
                                      const struct tt_fault *fault, uint16_t a, uint16_t b)) {
    for (uint16_t a = 0; a < self->settings->node_count; a++)
        for (uint16_t b = 0; b < a; b++)
            if (is_cut_by(self, fault, a, b))
                act(self, now, fault, a, b);
}

static void cut_pair(struct virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                     uint16_t a, uint16_t b) {
    (void)fault;
    tt_virtual_network_cut(&self->network, now, a, b);
}

/* The connections of a pair that is cut since this fault began, or longer, give up. */
static void time_out_pair(struct virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                          uint16_t a, uint16_t b) {
    const struct tt_virtual_link *link = tt_virtual_network_link(&self->network, a, b);
    if (link->cuts == 0 || link->cut_since > fault->at)
        return;
    disconnect_pair(self, a, b);
    for (int32_t i = 0; i < 2; i++) {
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*sees(self, observer, peer))
            tell(self, now, observer, peer, TT_LINK_LOST);
    }
}

static void heal_pair(struct virtual_cluster *self, int64_t now, const struct tt_fault *fault,
                      uint16_t a, uint16_t b) {
    (void)fault;
    tt_virtual_network_heal(&self->network, now, a, b);
    if (tt_virtual_network_link(&self->network, a, b)->cuts > 0)
        return;
    for (int32_t i = 0; i < 2; i++) { /* a peer that died meanwhile answers with a reset */
        uint16_t observer = i ? a : b, peer = i ? b : a;
        if (*sees(self, observer, peer) && !self->nodes[peer].is_alive)
            tell(self, now + self->options->delay_ns, observer, peer, TT_LINK_CLOSED);
    }
    connect_pair(self, now, a, b);
}

static void begin_fault(struct virtual_cluster *self, int64_t now, int64_t index) {
    const struct tt_fault *fault = &self->options->faults[index];
    struct node *node = &self->nodes[fault->node];
    if (fault->kind == TT_FAULT_CRASH) {
        crash(self, now, fault->node);
    } else if (fault->kind == TT_FAULT_FREEZE) {
        node->frozen_until_at = tt_instant_max(node->frozen_until_at, now + fault->duration_ns);
    } else if (fault->kind == TT_FAULT_CUT) {
        for_cut_pairs(self, now, fault, cut_pair);
        if (fault->duration_ns >= self->options->link_timeout_ns)
            tt_virtual_network_schedule(
                &self->network,
                (struct tt_virtual_event){.at = now + self->options->link_timeout_ns,
                                          .kind = TT_EVENT_TIMEOUT,
                                          .number = index});
    } else if (fault->kind == TT_FAULT_RECORD) {
        self->record_faults++;
    } else if (fault->kind == TT_FAULT_LEAVE) {
        if (node->is_alive && node->role == TT_ROLE_BACKEND) {
            tt_backend_leave(&node->as.backend);
            end_turn(self, node, now);
        }
    } else if (node->is_alive && node->role == TT_ROLE_SCHEDULER) {
        tt_scheduler_role_resign(&node->as.scheduler, now);
        end_turn(self, node, now);
    }
}

static void end_fault(struct virtual_cluster *self, int64_t now, int64_t index) {
    const struct tt_fault *fault = &self->options->faults[index];
    struct node *node = &self->nodes[fault->node];
    bool is_replaced = fault->kind == TT_FAULT_LEAVE && node->role == TT_ROLE_BACKEND;
    if (is_replaced)
        crash(self, now, fault->node);
    if ((fault->kind == TT_FAULT_CRASH || is_replaced) && !node->is_alive) {
        enum tt_err err = start_node(self, node, now);
        tt_assert(err == TT_OK); /* it started once */
        for (uint16_t peer = 0; peer < self->settings->node_count; peer++)
            connect_pair(self, now, fault->node, peer);
        end_turn(self, node, now);
    } else if (fault->kind == TT_FAULT_CUT) {
        for_cut_pairs(self, now, fault, heal_pair);
    } else if (fault->kind == TT_FAULT_RECORD) {
        self->record_faults--;
    }
}

/* ---- clients ---- */

static struct node *pick_frontend(struct virtual_cluster *self) {
    int32_t count = self->settings->node_count;
    int32_t first = (int32_t)tt_prng_below(&self->prng, (uint64_t)count);
    for (int32_t i = 0; i < count; i++) {
        struct node *node = &self->nodes[(first + i) % count];
        if (node->role == TT_ROLE_FRONTEND && node->is_alive &&
            node->frozen_until_at <= self->network.now)
            return node;
    }
    return NULL;
}

static void arrive(struct virtual_cluster *self, int64_t now) {
    const struct tt_virtual_options *options = self->options;
    int64_t gap = 1 + (int64_t)tt_prng_below(&self->prng, 2 * (uint64_t)options->gap_ns);
    if (now + gap < options->until_at)
        tt_virtual_network_schedule(
            &self->network, (struct tt_virtual_event){.at = now + gap, .kind = TT_EVENT_ARRIVAL});
    struct node *node = pick_frontend(self);
    uint16_t model = (uint16_t)tt_prng_below(&self->prng, (uint64_t)self->settings->model_count);
    if (!node)
        return;
    bool reserved =
        TT_ARRAY_RESERVE(self->requests, &self->request_capacity, self->request_count + 1);
    tt_assert(reserved);
    self->requests[self->request_count] = (struct client_request){
        .accepted_at = now, .deadline_at = now + options->slo_ns, .frontend = node->number};
    struct tt_frontend_submission submission = {.model = model,
                                                .rows = 1,
                                                .deadline_at = now + options->slo_ns,
                                                .user = (void *)(intptr_t)self->request_count};
    uint64_t id;
    if (tt_frontend_submit(&node->as.frontend, now, &submission, &id)) {
        self->result->refused++;
    } else {
        self->request_count++;
        self->result->accepted++;
    }
    end_turn(self, node, now);
}

/* ---- events ---- */

static void check_grant(struct virtual_cluster *self, int64_t now, struct node *node,
                        const struct tt_frame *frame, int64_t accepted_before) {
    if (frame->type == TT_FRAME_CLAIM && frame->epoch > node->claimed)
        node->claimed = frame->epoch;
    if (node->role != TT_ROLE_BACKEND || node->as.backend.accepted == accepted_before)
        return;
    if (frame->epoch < node->claimed || frame->epoch < node->obeyed)
        violate(self, now, "node %d obeys epoch %" PRIx64 " after %" PRIx64 " was claimed",
                (int)node->number, frame->epoch, node->claimed);
    node->obeyed = frame->epoch;
}

static void deliver(struct virtual_cluster *self, int64_t now, struct node *node,
                    const struct tt_virtual_event *event) {
    struct tt_frame frame;
    size_t used;
    struct tt_error why;
    if (tt_frame_read(event->bytes, event->length, self->records, &frame, &used, &why) ||
        used != event->length) {
        violate(self, now, "a frame of node %d is damaged: %.100s", (int)event->from, why.text);
        return;
    }
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

static void report_link(struct node *node, int64_t now, const struct tt_virtual_event *event) {
    enum tt_link link = (enum tt_link)event->number;
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_link(&node->as.frontend, now, event->from, link);
    else if (node->role == TT_ROLE_SCHEDULER)
        tt_scheduler_role_link(&node->as.scheduler, now, event->from, link);
    else
        tt_backend_link(&node->as.backend, now, event->from, link);
}

static void tick(struct node *node, int64_t now) {
    node->tick_at = TT_NEVER;
    if (node->role == TT_ROLE_FRONTEND)
        tt_frontend_tick(&node->as.frontend, now);
    else if (node->role == TT_ROLE_SCHEDULER)
        tt_scheduler_role_tick(&node->as.scheduler, now);
    else
        tt_backend_tick(&node->as.backend, now);
}

/* An event of one node, if it is not frozen and the event is of this life. */
static void node_event(struct virtual_cluster *self, int64_t now, struct tt_virtual_event *event) {
    struct node *node = &self->nodes[event->to];
    bool is_message = event->kind == TT_EVENT_MESSAGE;
    uint32_t life = is_message
                        ? tt_virtual_network_link(&self->network, event->from, event->to)->life
                        : node->life;
    if (!node->is_alive || event->life != life ||
        (event->kind == TT_EVENT_TICK && event->at != node->tick_at))
        return;
    if (node->frozen_until_at > now) {
        event->at = node->frozen_until_at;
        if (event->kind == TT_EVENT_TICK)
            node->tick_at = event->at;
        tt_virtual_network_schedule(&self->network, *event);
        event->bytes = NULL; /* they went along */
        return;
    }
    if (is_message)
        deliver(self, now, node, event);
    else if (event->kind == TT_EVENT_LINK)
        report_link(node, now, event);
    else if (event->kind == TT_EVENT_RAN)
        tt_backend_ran(&node->as.backend, now, (int32_t)event->number, true);
    else if (event->kind == TT_EVENT_RECORDED)
        tt_scheduler_role_recorded(&node->as.scheduler, now, (uint64_t)event->number);
    else
        tick(node, now);
    end_turn(self, node, now);
}

static void handle(struct virtual_cluster *self, struct tt_virtual_event *event) {
    switch (event->kind) {
    case TT_EVENT_ARRIVAL: arrive(self, event->at); break;
    case TT_EVENT_FAULT: begin_fault(self, event->at, event->number); break;
    case TT_EVENT_FAULT_ENDS: end_fault(self, event->at, event->number); break;
    case TT_EVENT_TIMEOUT:
        for_cut_pairs(self, event->at, &self->options->faults[event->number], time_out_pair);
        break;
    case TT_EVENT_MESSAGE:
    case TT_EVENT_LINK:
    case TT_EVENT_RAN:
    case TT_EVENT_RECORDED:
    case TT_EVENT_TICK: node_event(self, event->at, event); break;
    }
}

static void check_books(struct virtual_cluster *self, int64_t now) {
    int64_t live = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        const struct node *node = &self->nodes[i];
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
    if (result->accepted != result->answered + result->gone + live)
        violate(self, now,
                "%" PRId64 " requests accepted, %" PRId64 " answered, %" PRId64 " gone, %" PRId64
                " under way",
                result->accepted, result->answered, result->gone, live);
}

static void run(struct virtual_cluster *self) {
    const struct tt_virtual_options *options = self->options;
    struct tt_virtual_result *result = self->result;
    int64_t now = 0;
    for (struct tt_virtual_event event;
         !result->violation[0] && tt_virtual_network_next(&self->network, &event);) {
        now = self->network.now = event.at;
        handle(self, &event);
        free(event.bytes);
        if (++result->events % options->check_every == 0)
            check_books(self, now);
        bool is_over = now >= options->until_at;
        if (is_over && result->accepted == result->answered + result->gone)
            break;
        if (now >= options->until_at + END_NS)
            violate(self, now, "%" PRId64 " requests are never answered",
                    result->accepted - result->answered - result->gone);
    }
    check_books(self, now);
}

static enum tt_err start_all(struct virtual_cluster *self) {
    const struct tt_cluster_settings *settings = self->settings;
    for (int32_t i = 0; i < settings->node_count; i++) {
        struct node *node = &self->nodes[i];
        node->cluster = self;
        node->number = (uint16_t)i;
        node->role = settings->nodes[i].role;
        enum tt_err err = start_node(self, node, 0);
        if (err)
            return err;
        for (int32_t peer = 0; peer < i; peer++) {
            disconnect_pair(self, (uint16_t)i, (uint16_t)peer);
            connect_pair(self, 0, (uint16_t)i, (uint16_t)peer);
        }
        end_turn(self, node, 0);
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
    return TT_OK;
}

enum tt_err tt_virtual_cluster_run(const struct tt_virtual_options *options,
                                   struct tt_virtual_result *out_result, struct tt_error *why) {
    int32_t count = options->settings->node_count;
    *out_result = (struct tt_virtual_result){0};
    struct virtual_cluster *self = calloc(1, sizeof(*self));
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
    if (!self->nodes || !self->sees)
        err = TT_ERR_NO_MEMORY;
    if (!err)
        err = start_all(self);
    if (!err)
        run(self);
    for (int32_t i = 0; self->nodes && i < count; i++)
        stop_node(self, &self->nodes[i]);
    tt_virtual_network_fini(&self->network);
    free(self->requests);
    free(self->nodes);
    free(self->sees);
    free(self);
    return err;
}

const char *tt_fault_text(const struct tt_fault *fault, char *out, size_t capacity) {
    static const char *const kinds[TT_FAULT_KINDS] = {
        [TT_FAULT_CRASH] = "crash of node",
        [TT_FAULT_FREEZE] = "freeze of node",
        [TT_FAULT_CUT] = "cut of node",
        [TT_FAULT_RECORD] = "no coordination service; node",
        [TT_FAULT_RESIGN] = "resignation of node",
        [TT_FAULT_LEAVE] = "drain of node",
    };
    char other[32] = "";
    if (fault->kind == TT_FAULT_CUT && fault->other != TT_CLUSTER_NO_NODE)
        snprintf(other, sizeof(other), " from node %d", (int)fault->other);
    snprintf(out, capacity, "%s %d%s at %" PRId64 " us for %" PRId64 " us", kinds[fault->kind],
             (int)fault->node, other, fault->at / TT_US, fault->duration_ns / TT_US);
    return out;
}
