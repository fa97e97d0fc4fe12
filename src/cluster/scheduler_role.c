/* Which scheduler is primary: beats, opinions, claims, links. */
#include "cluster/scheduler_role.h"

#include "base/instant.h"

#include <stdlib.h>
#include <string.h>

enum { AVOIDED_SILENCES = 10 };

/* ---- memory ---- */

static bool make_entries(struct tt_scheduler_role *self) {
    const struct tt_cluster_settings *settings = self->settings;
    int32_t frontends = 0;
    tt_assert(settings->node_count > 0);
    self->entries = calloc((size_t)settings->node_count, sizeof(struct tt_ticket_entry *));
    for (int32_t i = 0; self->entries && i < settings->node_count; i++) {
        if (settings->nodes[i].role != TT_ROLE_FRONTEND)
            continue;
        frontends++;
        self->entries[i] = calloc((size_t)settings->request_limit, sizeof(*self->entries[i]));
        if (!self->entries[i])
            return false;
    }
    /* Twice: a request that is tried again may still be in a task of its former attempt. */
    self->origin_count = tt_request_pool_indices(0, 2 * frontends * settings->request_limit);
    return self->entries != NULL;
}

static bool is_linked(const struct tt_scheduler_role *self, int32_t node) {
    enum tt_peer_state state = self->peers[node].state;
    return state != TT_PEER_DOWN && state != TT_PEER_DEAD;
}

/* Spares before this one, by number: each claims half a silence before the next one does. */
static int64_t turn_ns(const struct tt_scheduler_role *self) {
    int32_t rank = 0;
    for (int32_t i = 0; i < self->number; i++)
        rank += self->settings->nodes[i].role == TT_ROLE_SCHEDULER && is_linked(self, i) &&
                i != tt_epoch_scheduler(self->primary.epoch);
    return rank * self->settings->silence_ns / 2;
}

static int64_t patience(const struct tt_scheduler_role *self) {
    return self->settings->silence_ns + turn_ns(self);
}

enum tt_err tt_scheduler_role_init(struct tt_scheduler_role *self,
                                   const struct tt_cluster_settings *settings, uint16_t number,
                                   int64_t now, const struct tt_scheduler_policy *policy,
                                   struct tt_error *why) {
    tt_assert(settings->node_count > 0 && settings->node_count <= TT_CLUSTER_MAX_NODES);
    tt_assert(settings->nodes[number].role == TT_ROLE_SCHEDULER);
    *self = (struct tt_scheduler_role){
        .settings = settings,
        .number = number,
        .policy = policy,
        .primary = {.heard_at = now},
        .asked_until_at = TT_NEVER,
        .next_beat_at = TT_NEVER,
        .peers = calloc((size_t)settings->node_count, sizeof(*self->peers))};
    for (int32_t i = 0; self->peers && i < settings->node_count; i++)
        self->peers[i].lost_frontend = TT_CLUSTER_NO_NODE;
    for (int32_t i = 0; i < settings->model_count; i++)
        tt_assert(settings->models[i]->step_count == 1);
    self->max_batch = tt_cluster_max_rows(settings);
    if (self->peers)
        self->claim_at = now + patience(self);
    if (!self->peers || !make_entries(self) || !tt_scheduler_pools_init(self) ||
        tt_model_set_init(&self->models, settings, number, &self->outbox)) {
        tt_scheduler_role_fini(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the tables of the scheduler");
    }
    /* A spare has everything ready, so that a claim allocates nothing. */
    enum tt_err err = tt_scheduler_pools_open(self, now, why);
    if (err)
        tt_scheduler_role_fini(self);
    return err;
}

void tt_scheduler_role_fini(struct tt_scheduler_role *self) {
    tt_scheduler_pools_close(self);
    for (int32_t i = 0; self->entries && i < self->settings->node_count; i++)
        free(self->entries[i]);
    free(self->entries);
    tt_scheduler_pools_fini(self);
    tt_model_set_fini(&self->models);
    free(self->peers);
    tt_outbox_fini(&self->outbox);
    *self = (struct tt_scheduler_role){0};
}

void tt_scheduler_role_add_model(struct tt_scheduler_role *self, int64_t now, bool serves,
                                 uint16_t pool) {
    int32_t model = self->settings->model_count - 1;
    tt_assert(model < tt_cluster_model_capacity(self->settings));
    tt_assert(self->settings->models[model]->step_count == 1);
    tt_assert(self->settings->models[model]->max_batch <= self->max_batch);
    tt_model_set_add(&self->models, serves, pool);
    self->routes[model] = self->models.placement.homes[model];
    self->tickets[model] = 0;
    tt_scheduler_pools_add_model(self, now);
    self->holders_changed = true;
}

/* ---- claims ---- */

static void send_all(struct tt_scheduler_role *self, enum tt_frame_type type, uint64_t epoch) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (i != self->number && is_linked(self, i))
            tt_outbox_signal(&self->outbox, (uint16_t)i, type, epoch);
}

/* S10: a spare takes over when the primary has closed its links, or is silent for most nodes. */
static void claim(struct tt_scheduler_role *self, int64_t now) {
    tt_assert(!self->is_primary && self->has_mechanisms);
    self->is_primary = true;
    self->succeeds = false;
    tt_scheduler_holders_lead(self, now);
    self->claims++;
    self->primary = (struct tt_allegiance){
        .epoch = tt_epoch(tt_epoch_term(self->primary.epoch) + 1, self->number), .heard_at = now};
    self->claim_at = self->asked_until_at = TT_NEVER;
    self->next_beat_at = now + self->settings->beat_ns;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        self->peers[i].heard_at = now;
        if (is_linked(self, i))
            self->peers[i].state = TT_PEER_UNKNOWN;
    }
    send_all(self, TT_FRAME_CLAIM, self->primary.epoch);
    tt_model_set_lead(&self->models, self->primary.epoch);
    tt_scheduler_plans_lead(self);
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (i != self->number && self->settings->nodes[i].role == TT_ROLE_SCHEDULER &&
            is_linked(self, i))
            tt_model_set_join(&self->models, (uint16_t)i); /* others answer the claim first */
    self->record(self->context, now, self->primary.epoch);
}

static void open_again(struct tt_scheduler_role *self, int64_t now) {
    enum tt_err err = tt_scheduler_pools_open(self, now, NULL);
    tt_assert(err == TT_OK); /* the same was possible before */
}

/* It is a spare again, with an empty mechanism. */
static void step_down(struct tt_scheduler_role *self, int64_t now) {
    tt_assert(self->is_primary);
    self->is_primary = false;
    tt_model_set_yield(&self->models);
    self->next_beat_at = TT_NEVER;
    self->primary.heard_at = now;
    self->claim_at = now + patience(self);
    tt_scheduler_pools_close(self);
    open_again(self, now);
}

bool tt_scheduler_role_retime(struct tt_scheduler_role *self, int64_t now,
                              void (*change)(void *context), void *context) {
    if (self->is_primary)
        return false;
    tt_scheduler_pools_close(self);
    change(context);
    memset(self->paces, 0,
           (size_t)self->settings->node_count * (size_t)tt_cluster_model_capacity(self->settings) *
               sizeof(*self->paces));
    open_again(self, now);
    return true;
}

/* The primary was heard, so there is nothing to claim. */
static void heard_primary(struct tt_scheduler_role *self, int64_t now) {
    self->succeeds = false;
    self->primary.heard_at = now;
    self->asked_until_at = TT_NEVER;
    self->claim_at = now + patience(self);
}

/* A node knows this epoch. */
static void learn_epoch(struct tt_scheduler_role *self, int64_t now, uint64_t epoch) {
    if (epoch <= self->primary.epoch)
        return;
    if (self->is_primary)
        step_down(self, now);
    self->primary.epoch = epoch;
    if (tt_epoch_scheduler(epoch) != self->number) /* else of an earlier life of this node */
        heard_primary(self, now);
}

/* The primary is dead or hands over: no opinion is needed. Spares wait for the claims of those
 * before them. */
static void succeed(struct tt_scheduler_role *self, int64_t now) {
    self->succeeds = true;
    self->asked_until_at = TT_NEVER;
    self->claim_at = now + turn_ns(self);
}

void tt_scheduler_role_recorded(struct tt_scheduler_role *self, int64_t now, uint64_t epoch) {
    learn_epoch(self, now, epoch);
}

void tt_scheduler_role_resign(struct tt_scheduler_role *self, int64_t now) {
    if (!self->is_primary)
        return;
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->settings->nodes[i].role == TT_ROLE_SCHEDULER && is_linked(self, i))
            tt_outbox_signal(&self->outbox, (uint16_t)i, TT_FRAME_RESIGN, self->primary.epoch);
    step_down(self, now);
}

bool tt_scheduler_role_promote(struct tt_scheduler_role *self, int64_t now) {
    if (self->is_primary)
        return false;
    claim(self, now);
    return true;
}

/* ---- opinions: is the primary silent for the others, too? ---- */

static void ask(struct tt_scheduler_role *self, int64_t now) {
    self->asked_until_at = now + self->settings->ask_ns;
    self->claim_at = TT_NEVER;
    for (int32_t i = 0; i < self->settings->node_count; i++)
        self->peers[i].has_opinion = false;
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->settings->nodes[i].role != TT_ROLE_SCHEDULER && is_linked(self, i))
            tt_outbox_signal(&self->outbox, (uint16_t)i, TT_FRAME_ASK, 0);
}

static void count_opinions(struct tt_scheduler_role *self, int64_t now) {
    int32_t silent = 0, heard = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->peers[i].has_opinion) {
            silent += self->peers[i].finds_it_silent;
            heard += !self->peers[i].finds_it_silent;
        }
    self->asked_until_at = TT_NEVER;
    if (silent > heard)
        claim(self, now);
    else /* this scheduler is the one that is cut off */
        self->claim_at = now + patience(self);
}

static void on_opinion(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                       const struct tt_frame *frame) {
    learn_epoch(self, now, frame->epoch);
    if (self->asked_until_at == TT_NEVER)
        return;
    self->peers[from].has_opinion = true;
    /* A little less than this scheduler's own: the last beats did not arrive at the same instant.
     */
    self->peers[from].finds_it_silent =
        frame->records[0].duration_ns >= self->settings->silence_ns - 2 * self->settings->beat_ns;
}

/* ---- what the driver reports ---- */

static void from_node(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                      const struct tt_frame *frame) {
    struct tt_peer *peer = &self->peers[from];
    bool is_backend = self->settings->nodes[from].role == TT_ROLE_BACKEND;
    if (frame->type == TT_FRAME_STATE) {
        peer->state = TT_PEER_KNOWN;
        tt_model_set_join(&self->models, from);
        self->holders_changed = true;
        if (is_backend)
            tt_scheduler_grants_state(self, now, from, frame);
        return;
    }
    if (frame->type == TT_FRAME_SERVED) {
        tt_model_set_served(&self->models, from, frame);
        return;
    }
    if (frame->type == TT_FRAME_LEAVE && is_backend && peer->state == TT_PEER_KNOWN) {
        peer->state = TT_PEER_LEAVING;
        self->holders_changed = true;
        tt_model_set_drop_plan(&self->models, TT_PLACEMENT_LOST, from);
        tt_scheduler_grants_leave(self, now, from);
    }
    for (int32_t i = 0; i < frame->count; i++) {
        const struct tt_frame_record *record = &frame->records[i];
        if (!is_backend && frame->type == TT_FRAME_TICKET)
            tt_scheduler_grants_ticket(self, now, from, record);
        else if (!is_backend && frame->type == TT_FRAME_CANCEL)
            tt_scheduler_grants_cancel(self, now, from, record);
        else if (is_backend && frame->type == TT_FRAME_ACCEPTED)
            tt_scheduler_grants_accepted(self, from, record);
        else if (is_backend && frame->type == TT_FRAME_DONE)
            tt_scheduler_grants_done(self, now, from, record);
        else if (is_backend && frame->type == TT_FRAME_MISSING)
            tt_scheduler_grants_missing(self, now, from, record);
        else if (frame->type != TT_FRAME_WISH || !tt_model_set_wish(&self->models, from, record))
            self->rejected++;
    }
}

/* The set of models goes from the primary to its spares. */
static bool on_models(struct tt_scheduler_role *self, uint16_t from, const struct tt_frame *frame) {
    if (frame->epoch != self->primary.epoch)
        return false;
    if (self->is_primary)
        return frame->type == TT_FRAME_SERVED && tt_model_set_served(&self->models, from, frame);
    if (frame->type != TT_FRAME_SERVE || from != tt_epoch_scheduler(frame->epoch) ||
        !tt_model_set_follow(&self->models, frame))
        return false;
    tt_outbox_begin(&self->outbox, from, TT_FRAME_SERVED, frame->epoch,
                    &(struct tt_frame_record){.id = frame->records[0].id});
    return true;
}

static void from_scheduler(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                           const struct tt_frame *frame) {
    bool is_own = tt_epoch_scheduler(frame->epoch) == from;
    if (is_own && (frame->type == TT_FRAME_CLAIM || frame->type == TT_FRAME_BEAT)) {
        if (frame->epoch < self->primary.epoch)
            tt_outbox_signal(&self->outbox, from, TT_FRAME_STALE, self->primary.epoch);
        learn_epoch(self, now, frame->epoch);
    } else if (frame->type != TT_FRAME_BEAT && frame->type != TT_FRAME_RESIGN &&
               !on_models(self, from, frame)) {
        self->rejected++;
    }
    if (self->is_primary || from != tt_epoch_scheduler(self->primary.epoch))
        return;
    heard_primary(self, now);
    if (frame->type == TT_FRAME_RESIGN && frame->epoch == self->primary.epoch)
        succeed(self, now);
}

void tt_scheduler_role_receive(struct tt_scheduler_role *self, int64_t now, uint16_t from,
                               const struct tt_frame *frame) {
    self->peers[from].heard_at = now;
    bool is_scheduler = self->settings->nodes[from].role == TT_ROLE_SCHEDULER;
    if (frame->type == TT_FRAME_STALE || (frame->type == TT_FRAME_BEAT && !is_scheduler)) {
        learn_epoch(self, now, frame->epoch);
    } else if (is_scheduler) {
        from_scheduler(self, now, from, frame);
    } else if (frame->type == TT_FRAME_OPINION) {
        on_opinion(self, now, from, frame);
    } else if (self->is_primary && frame->epoch == self->primary.epoch) {
        from_node(self, now, from, frame);
    }
    tt_scheduler_plans_settle(self, now);
    tt_scheduler_holders_settle(self, now);
}

void tt_scheduler_role_link(struct tt_scheduler_role *self, int64_t now, uint16_t peer,
                            enum tt_link link) {
    enum tt_cluster_role role = self->settings->nodes[peer].role;
    bool was_linked = is_linked(self, peer);
    self->peers[peer].heard_at = now;
    if (link == TT_LINK_UP) {
        self->peers[peer].state = TT_PEER_UNKNOWN;
        self->peers[peer].lost_frontend = TT_CLUSTER_NO_NODE;
        self->holders_changed = true;
        if (self->is_primary)
            tt_outbox_signal(&self->outbox, peer, TT_FRAME_CLAIM, self->primary.epoch);
        if (self->is_primary && role == TT_ROLE_SCHEDULER)
            tt_model_set_join(&self->models, peer);
        else if (!self->is_primary && role == TT_ROLE_SCHEDULER &&
                 self->primary.epoch == 0) /* its turn may be first */
            self->claim_at = now + patience(self);
        return;
    }
    self->peers[peer].state = link == TT_LINK_CLOSED ? TT_PEER_DEAD : TT_PEER_DOWN;
    tt_model_set_part(&self->models, peer);
    if (self->is_primary && was_linked && role == TT_ROLE_BACKEND)
        tt_scheduler_grants_lose(self, now, peer, link == TT_LINK_CLOSED);
    else if (self->is_primary && was_linked && role == TT_ROLE_FRONTEND)
        tt_scheduler_grants_forget(self, now, peer);
    else if (!self->is_primary && peer == tt_epoch_scheduler(self->primary.epoch) &&
             link == TT_LINK_CLOSED)
        succeed(self, now);
    self->holders_changed = true;
    tt_scheduler_plans_settle(self, now);
    tt_scheduler_holders_settle(self, now);
}

/* True if this process did nothing for a while, so that the silence may be its own. */
static bool slept(const struct tt_scheduler_role *self, int64_t now, int64_t planned_at) {
    return now - planned_at > self->settings->silence_ns / 2;
}

static bool is_alone(const struct tt_scheduler_role *self, int64_t now) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (i != self->number && self->settings->nodes[i].role != TT_ROLE_SCHEDULER &&
            now - self->peers[i].heard_at < self->settings->silence_ns)
            return false;
    return true;
}

/* A backend and a frontend that are both there lost each other since the last beats. */
static bool has_lost(const struct tt_scheduler_role *self, int64_t now, int32_t backend,
                     uint16_t frontend) {
    const struct tt_peer *peer = &self->peers[backend];
    return is_linked(self, backend) && peer->lost_frontend == frontend &&
           is_linked(self, frontend) &&
           now - peer->lost_at < AVOIDED_SILENCES * self->settings->silence_ns;
}

/* True if the frontend reaches at least half of the backends, so that it is not the reason. */
static bool reaches_most(const struct tt_scheduler_role *self, int64_t now, uint16_t frontend) {
    int32_t lost = 0, linked = 0;
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        if (self->settings->nodes[i].role != TT_ROLE_BACKEND || !is_linked(self, i))
            continue;
        linked++;
        lost += has_lost(self, now, i, frontend);
    }
    return 2 * lost <= linked;
}

static void avoid_lost(struct tt_scheduler_role *self, int64_t now) {
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        struct tt_peer *peer = &self->peers[i];
        if (peer->state != TT_PEER_KNOWN || peer->lost_frontend == TT_CLUSTER_NO_NODE ||
            !has_lost(self, now, i, peer->lost_frontend) ||
            !reaches_most(self, now, peer->lost_frontend))
            continue;
        self->avoided++;
        peer->state = TT_PEER_AVOIDED;
        self->holders_changed = true;
        tt_model_set_drop_plan(&self->models, TT_PLACEMENT_LOST, (uint16_t)i);
        peer->probe_at = now + AVOIDED_SILENCES * self->settings->silence_ns;
        tt_scheduler_grants_leave(self, now, (uint16_t)i);
    }
}

static void beat(struct tt_scheduler_role *self, int64_t now) {
    bool was_asleep = slept(self, now, self->next_beat_at);
    self->next_beat_at = now + self->settings->beat_ns;
    for (int32_t i = 0; was_asleep && i < self->settings->node_count; i++)
        self->peers[i].heard_at = now; /* what they sent may still have to be read */
    if (is_alone(self, now)) {
        step_down(self, now);
        return;
    }
    send_all(self, TT_FRAME_BEAT, self->primary.epoch);
    avoid_lost(self, now);
    for (int32_t i = 0; i < self->settings->node_count; i++) {
        struct tt_peer *peer = &self->peers[i];
        bool is_waiting = peer->state == TT_PEER_SUSPECT || peer->state == TT_PEER_UNKNOWN ||
                          peer->state == TT_PEER_AVOIDED;
        bool must_answer = is_waiting && self->settings->nodes[i].role != TT_ROLE_SCHEDULER;
        if (i == self->number || !must_answer || now < peer->probe_at)
            continue;
        peer->probe_at = now + self->settings->silence_ns;
        tt_outbox_signal(&self->outbox, (uint16_t)i, TT_FRAME_CLAIM, self->primary.epoch);
    }
}

static void suspect_overdue(struct tt_scheduler_role *self, int64_t now) {
    for (uint16_t backend;
         (backend = tt_scheduler_grants_overdue(self, now)) != TT_CLUSTER_NO_NODE;) {
        self->suspected++;
        self->peers[backend].state = TT_PEER_SUSPECT;
        self->holders_changed = true;
        self->peers[backend].late++;
        tt_model_set_drop_plan(&self->models, TT_PLACEMENT_LOST, backend);
        self->peers[backend].probe_at = now + self->settings->silence_ns;
        tt_scheduler_grants_lose(self, now, backend, false);
    }
}

/* A spare: the primary was silent for too long. */
static void watch(struct tt_scheduler_role *self, int64_t now) {
    if (self->succeeds)
        claim(self, now);
    else if (slept(self, now, self->claim_at)) /* beats may still have to be read */
        self->claim_at = now + patience(self);
    else
        ask(self, now);
}

void tt_scheduler_role_tick(struct tt_scheduler_role *self, int64_t now) {
    if (!self->is_primary && now >= self->asked_until_at)
        count_opinions(self, now);
    else if (!self->is_primary && now >= self->claim_at)
        watch(self, now);
    if (self->is_primary && now >= self->next_beat_at)
        beat(self, now);
    if (!self->is_primary)
        return;
    suspect_overdue(self, now);
    tt_scheduler_plans_tick(self, now);
    tt_scheduler_plans_settle(self, now);
    tt_scheduler_holders_settle(self, now);
    tt_scheduler_pools_decide(self, now);
}

int64_t tt_scheduler_role_next_at(const struct tt_scheduler_role *self) {
    if (!self->is_primary)
        return tt_instant_min(self->claim_at, self->asked_until_at);
    int64_t next_at = tt_instant_min(self->next_beat_at, tt_scheduler_grants_overdue_at(self));
    next_at = tt_instant_min(next_at, tt_scheduler_plans_next_at(self));
    next_at = tt_instant_min(next_at, tt_scheduler_holders_next_at(self));
    return tt_instant_min(next_at, tt_scheduler_pools_next_at(self));
}

void tt_scheduler_role_check(const struct tt_scheduler_role *self) {
    tt_assert(!self->is_primary || tt_epoch_scheduler(self->primary.epoch) == self->number);
    tt_assert(self->models.epoch == (self->is_primary ? self->primary.epoch : 0));
    tt_model_set_check(&self->models);
    tt_scheduler_pools_check(self);
    tt_scheduler_holders_check(self);
}
