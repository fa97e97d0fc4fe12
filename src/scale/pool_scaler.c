#include "scale/pool_scaler.h"

#include "base/instant.h"

#include <stdlib.h>

static const struct tt_pool_node new_node = {.back_at = TT_NEVER, .ordered_at = TT_NEVER};

static double seconds(int64_t ns) { return (double)ns / 1e9; }

/* ---- life ---- */

enum tt_err tt_pool_scaler_init(struct tt_pool_scaler *self,
                                const struct tt_pool_scaler_settings *settings) {
    tt_assert(settings->node_count >= 1);
    tt_assert(settings->retry_ns > 0 && settings->retry_ns <= settings->retry_most_ns);
    size_t count = (size_t)settings->node_count;
    *self = (struct tt_pool_scaler){.settings = *settings,
                                    .devices = calloc(count, sizeof(*self->devices)),
                                    .nodes = calloc(count, sizeof(*self->nodes)),
                                    .start_up = {.given_s = seconds(settings->start_up_ns)},
                                    .until_at = TT_NEVER,
                                    .short_at = TT_NEVER,
                                    .backoff_ns = settings->retry_ns};
    if (!self->devices || !self->nodes) {
        tt_pool_scaler_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        self->devices[i] = settings->devices[i];
        self->nodes[i] = new_node;
    }
    self->settings.devices = self->devices;
    tt_pool_scaler_check(self);
    return TT_OK;
}

void tt_pool_scaler_fini(struct tt_pool_scaler *self) {
    free(self->devices);
    free(self->nodes);
    *self = (struct tt_pool_scaler){.devices = NULL};
}

const char *tt_pool_stage_name(enum tt_pool_stage stage) {
    static const char *const names[] = {"OFF",     "OBSERVING",  "STEADY",     "DRAINING",
                                        "CALLING", "DELIVERING", "BACKING_OFF"};
    return names[stage];
}

const char *tt_pool_mode_name(enum tt_pool_mode mode) {
    static const char *const names[] = {"AUTO", "PINNED", "STOPPED"};
    return names[mode];
}

/* ---- counts ---- */

int32_t tt_pool_scaler_devices(const struct tt_pool_scaler *self, int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += self->devices[i];
    return sum;
}

int32_t tt_pool_scaler_nodes(const struct tt_pool_scaler *self, int32_t devices) {
    int32_t count = 0, sum = 0;
    while (count < self->settings.node_count && sum < devices)
        sum += self->devices[count++];
    return count;
}

int32_t tt_pool_scaler_serving(const struct tt_pool_scaler *self) {
    int32_t sum = 0;
    for (int32_t i = 0; i < self->settings.node_count; i++)
        if (self->nodes[i].state == TT_POOL_NODE_SERVING)
            sum += self->devices[i];
    return sum;
}

/* Of the count in force. */
static int32_t noticed(const struct tt_pool_scaler *self) {
    int32_t count = 0;
    for (int32_t i = 0; i < self->asked; i++)
        count += self->nodes[i].is_noticed;
    return count;
}

/* Without the replacements. */
static int32_t needed(const struct tt_pool_scaler *self) {
    if (self->mode == TT_POOL_PINNED)
        return self->pinned;
    return self->is_advised ? tt_pool_scaler_nodes(self, self->autoscaler.target) : self->base;
}

static int32_t within(const struct tt_pool_scaler *self, int32_t count) {
    int32_t least = self->settings.least, most = self->settings.most;
    return count < least ? least : count > most ? most : count;
}

int32_t tt_pool_scaler_target(const struct tt_pool_scaler *self) {
    if (self->mode == TT_POOL_STOPPED)
        return self->asked;
    return within(self, needed(self) + noticed(self));
}

/* Nodes that run, by the highest number. */
static int32_t running(const struct tt_pool_scaler *self) {
    int32_t count = self->settings.node_count;
    while (count > 0 && self->nodes[count - 1].state == TT_POOL_NODE_ABSENT)
        count--;
    return count;
}

/* The nodes in force serve, but for those that are preempted. */
static bool is_complete(const struct tt_pool_scaler *self) {
    for (int32_t i = 0; i < self->asked; i++)
        if (self->nodes[i].state != TT_POOL_NODE_SERVING && !self->nodes[i].is_noticed)
            return false;
    return true;
}

/* This node and those behind it may be stopped: those before it serve what is needed. */
static bool is_spared(const struct tt_pool_scaler *self, int32_t node) {
    int32_t sum = 0, wanted = tt_pool_scaler_devices(self, within(self, needed(self)));
    for (int32_t i = 0; i < node; i++)
        if (self->nodes[i].state == TT_POOL_NODE_SERVING && !self->nodes[i].is_noticed)
            sum += self->devices[i];
    return sum >= wanted;
}

/* ---- what the caller sees ---- */

static void enter(struct tt_pool_scaler *self, enum tt_pool_stage stage, int64_t until_at) {
    self->stage = stage;
    self->until_at = until_at;
}

static void begin_term(struct tt_pool_scaler *self, enum tt_pool_stage stage, int64_t until_at) {
    self->serial++; /* a call that is under way was another term's */
    self->is_advised = self->must_ask = false;
    self->short_at = TT_NEVER;
    self->found = 0;
    self->backoff_ns = self->settings.retry_ns;
    for (int32_t i = 0; i < self->settings.node_count; i++)
        self->nodes[i] = new_node;
    enter(self, stage, until_at);
    tt_pool_scaler_check(self);
}

void tt_pool_scaler_lead(struct tt_pool_scaler *self, int64_t observed_at) {
    begin_term(self, TT_POOL_OBSERVING, observed_at);
}

void tt_pool_scaler_yield(struct tt_pool_scaler *self) { begin_term(self, TT_POOL_OFF, TT_NEVER); }

void tt_pool_scaler_found(struct tt_pool_scaler *self, int64_t now, int32_t count) {
    if (self->stage != TT_POOL_OBSERVING)
        return;
    int32_t all = self->settings.node_count;
    self->found = count < 0 ? 0 : count < all ? count : all;
    self->until_at = now;
}

void tt_pool_scaler_observe(struct tt_pool_scaler *self, int64_t now, int32_t node,
                            enum tt_pool_node_state state) {
    tt_assert(node >= 0 && node < self->settings.node_count);
    struct tt_pool_node *it = &self->nodes[node];
    bool serves = state == TT_POOL_NODE_SERVING;
    bool was_leaving = it->state == TT_POOL_NODE_LEAVING || it->state == TT_POOL_NODE_DRAINED;
    it->state = state;
    if (state == TT_POOL_NODE_ABSENT || (was_leaving && serves)) /* then it is a new process */
        it->is_ours = it->wants_drain = false;
    if (state == TT_POOL_NODE_ABSENT && node >= self->asked)
        it->is_noticed = false;
    if (!serves)
        it->back_at = TT_NEVER;
    else if (it->back_at == TT_NEVER)
        it->back_at = now;
    if (serves && it->ordered_at != TT_NEVER) {
        tt_start_up_time_learn(&self->start_up, seconds(now - it->ordered_at));
        it->ordered_at = TT_NEVER;
    }
    if (it->is_noticed && serves && now - it->back_at >= self->settings.hold_ns)
        it->is_noticed = false;
}

static void begin_advice(struct tt_pool_scaler *self) {
    int32_t devices = tt_pool_scaler_devices(self, within(self, self->asked));
    tt_autoscaler_init(
        &self->autoscaler, devices, tt_pool_scaler_devices(self, self->settings.least),
        tt_pool_scaler_devices(self, self->settings.most), seconds(self->settings.hold_ns));
}

bool tt_pool_scaler_is_settled(const struct tt_pool_scaler *self) {
    return self->stage == TT_POOL_STEADY && is_complete(self);
}

void tt_pool_scaler_advise(struct tt_pool_scaler *self, int64_t now,
                           const struct tt_devices_wanted *wanted, double bad) {
    if (self->stage == TT_POOL_OFF || self->stage == TT_POOL_OBSERVING)
        return;
    if (!self->is_advised)
        begin_advice(self);
    self->is_advised = true;
    self->wanted = *wanted;
    (void)tt_autoscaler_step(&self->autoscaler, seconds(now), wanted,
                             tt_pool_scaler_is_settled(self) ? bad : 0);
}

bool tt_pool_scaler_preempt(struct tt_pool_scaler *self, int32_t node) {
    struct tt_pool_node *it = &self->nodes[node];
    if (it->state == TT_POOL_NODE_ABSENT)
        return false;
    self->preempted += !it->is_noticed;
    it->is_noticed = it->wants_drain = true;
    it->back_at = TT_NEVER; /* it has not served since */
    return true;
}

/* The count in force was changed elsewhere: the next advice begins with that. */
static void adopt(struct tt_pool_scaler *self, int32_t count) {
    int32_t replacements = noticed(self);
    self->asked = count;
    self->base = count > replacements ? count - replacements : 0;
    self->is_advised = false;
}

/* What was ordered does not come by this order. */
static void forget_orders(struct tt_pool_scaler *self) {
    for (int32_t i = 0; i < self->settings.node_count; i++)
        self->nodes[i].ordered_at = TT_NEVER;
}

static void back_off(struct tt_pool_scaler *self, int64_t now) {
    self->failures++;
    enter(self, TT_POOL_BACKING_OFF, tt_instant_add(now, self->backoff_ns));
    self->backoff_ns = tt_instant_min(2 * self->backoff_ns, self->settings.retry_most_ns);
}

void tt_pool_scaler_answered(struct tt_pool_scaler *self, int64_t now, uint64_t serial,
                             enum tt_err err, int32_t found) {
    if (self->stage != TT_POOL_CALLING || serial != self->serial)
        return;
    if (err == TT_OK) {
        self->asked = self->goal;
        enter(self, TT_POOL_DELIVERING, tt_instant_add(now, self->settings.deliver_ns));
        return;
    }
    forget_orders(self);
    if (err != TT_ERR_BUSY) {
        back_off(self, now);
        return;
    }
    self->changed++;
    if (found >= 0)
        adopt(self, found < self->settings.node_count ? found : self->settings.node_count);
    enter(self, TT_POOL_BACKING_OFF, tt_instant_add(now, self->settings.retry_ns));
}

void tt_pool_scaler_drain_failed(struct tt_pool_scaler *self, int64_t now, int32_t node) {
    if (self->stage == TT_POOL_DRAINING && node == self->goal)
        back_off(self, now);
}

/* ---- commands ---- */

void tt_pool_scaler_stop(struct tt_pool_scaler *self) { self->mode = TT_POOL_STOPPED; }

void tt_pool_scaler_resume(struct tt_pool_scaler *self) {
    self->mode = TT_POOL_AUTO;
    adopt(self, self->asked);
}

enum tt_err tt_pool_scaler_pin(struct tt_pool_scaler *self, int32_t devices, struct tt_error *why) {
    int32_t count = tt_pool_scaler_nodes(self, devices);
    int32_t lowest = tt_pool_scaler_devices(self, self->settings.least);
    int32_t highest = tt_pool_scaler_devices(self, self->settings.most);
    if (count < self->settings.least || count > self->settings.most || devices > highest)
        return tt_fail(TT_ERR_INVALID, why, "%d devices; the limits of the pool are %d to %d",
                       devices, lowest, highest);
    self->mode = TT_POOL_PINNED;
    self->pinned = count;
    return TT_OK;
}

/* ---- steps ---- */

static struct tt_pool_action happened(enum tt_pool_event event) {
    return (struct tt_pool_action){.event = event};
}

static struct tt_pool_action call(struct tt_pool_scaler *self, int64_t now, int32_t count) {
    for (int32_t i = 0; i < count; i++) /* what is ordered again was ordered before */
        if (self->nodes[i].state == TT_POOL_NODE_ABSENT && self->nodes[i].ordered_at == TT_NEVER)
            self->nodes[i].ordered_at = now;
    for (int32_t i = count; i < self->settings.node_count; i++)
        self->nodes[i].ordered_at = TT_NEVER;
    self->goal = count;
    self->before = self->asked;
    self->must_ask = false;
    self->short_at = TT_NEVER;
    self->calls++;
    enter(self, TT_POOL_CALLING, TT_NEVER);
    return (struct tt_pool_action){.verb = TT_POOL_CALL, .count = count, .serial = ++self->serial};
}

static struct tt_pool_action drain(struct tt_pool_scaler *self, int32_t node) {
    self->nodes[node].is_ours = true;
    self->nodes[node].wants_drain = false;
    return (struct tt_pool_action){.verb = TT_POOL_DRAIN, .node = node};
}

/* One node fewer, or as many as do not run. */
static struct tt_pool_action shrink(struct tt_pool_scaler *self, int64_t now, int32_t target) {
    int32_t count = self->asked;
    while (count > target && self->nodes[count - 1].state == TT_POOL_NODE_ABSENT)
        count--;
    bool runs = count == self->asked;
    if (!is_spared(self, count - runs))
        return happened(TT_POOL_QUIET);
    if (!runs)
        return call(self, now, count);
    enum tt_pool_node_state state = self->nodes[count - 1].state;
    if (state == TT_POOL_NODE_DRAINED)
        return call(self, now, count - 1);
    self->goal = count - 1;
    enter(self, TT_POOL_DRAINING, tt_instant_add(now, self->settings.drain_ns));
    return state == TT_POOL_NODE_LEAVING ? happened(TT_POOL_QUIET) : drain(self, count - 1);
}

/* Nodes in force that do not run are the provider's to start, for a while. */
static void watch_short(struct tt_pool_scaler *self, int64_t now) {
    bool is_short = false;
    for (int32_t i = 0; i < self->asked; i++)
        is_short |= self->nodes[i].state == TT_POOL_NODE_ABSENT && !self->nodes[i].is_noticed;
    if (!is_short)
        self->short_at = TT_NEVER;
    else if (self->short_at == TT_NEVER)
        self->short_at = now;
}

/* A node that was drained for a change that failed serves again only after it was stopped. */
static bool is_half_way(const struct tt_pool_scaler *self) {
    const struct tt_pool_node *last = &self->nodes[self->asked - 1];
    return last->is_ours && last->state == TT_POOL_NODE_DRAINED && !last->is_noticed;
}

static struct tt_pool_action delivered(struct tt_pool_scaler *self) {
    self->delivered++;
    self->must_ask = false;
    self->backoff_ns = self->settings.retry_ns;
    enter(self, TT_POOL_STEADY, TT_NEVER);
    return happened(TT_POOL_DELIVERED);
}

static struct tt_pool_action late(struct tt_pool_scaler *self, int64_t now) {
    self->late++;
    self->must_ask = true;
    back_off(self, now);
    return happened(TT_POOL_LATE);
}

static struct tt_pool_action decide(struct tt_pool_scaler *self, int64_t now) {
    enter(self, TT_POOL_STEADY, TT_NEVER);
    if (running(self) > self->asked)
        adopt(self, running(self)); /* they were started elsewhere, or did not stop */
    if (self->must_ask && is_complete(self))
        return delivered(self);
    watch_short(self, now);
    if (self->mode == TT_POOL_STOPPED)
        return happened(TT_POOL_QUIET);
    int32_t target = tt_pool_scaler_target(self);
    if (self->asked > 0 && is_half_way(self))
        return call(self, now, self->asked - 1);
    if (target > self->asked || (target == self->asked && self->must_ask))
        return call(self, now, target);
    if (target < self->asked)
        return shrink(self, now, target);
    bool is_late = self->short_at != TT_NEVER &&
                   now >= tt_instant_add(self->short_at, self->settings.deliver_ns);
    return is_late ? late(self, now) : happened(TT_POOL_QUIET);
}

static struct tt_pool_action await_drain(struct tt_pool_scaler *self, int64_t now) {
    enum tt_pool_node_state state = self->nodes[self->goal].state;
    if (state == TT_POOL_NODE_DRAINED || state == TT_POOL_NODE_ABSENT)
        return call(self, now, self->goal);
    if (now < self->until_at)
        return happened(TT_POOL_QUIET);
    if (state == TT_POOL_NODE_LEAVING) {
        struct tt_pool_action action = call(self, now, self->goal);
        action.event = TT_POOL_DRAIN_LATE;
        return action;
    }
    back_off(self, now);
    return happened(TT_POOL_DRAIN_IGNORED);
}

static struct tt_pool_action await_delivery(struct tt_pool_scaler *self, int64_t now) {
    bool is_up = self->asked >= self->before;
    if (running(self) <= self->asked && (!is_up || is_complete(self)))
        return delivered(self);
    return now < self->until_at ? happened(TT_POOL_QUIET) : late(self, now);
}

struct tt_pool_action tt_pool_scaler_step(struct tt_pool_scaler *self, int64_t now) {
    struct tt_pool_action action = happened(TT_POOL_QUIET);
    tt_pool_scaler_check(self);
    for (int32_t i = 0; self->stage != TT_POOL_OFF && i < self->settings.node_count; i++)
        if (self->nodes[i].wants_drain)
            return drain(self, i);
    switch (self->stage) {
    case TT_POOL_OFF:
    case TT_POOL_CALLING: break;
    case TT_POOL_OBSERVING:
        if (now >= self->until_at) {
            adopt(self, running(self) > self->found ? running(self) : self->found);
            action = decide(self, now);
        }
        break;
    case TT_POOL_STEADY: action = decide(self, now); break;
    case TT_POOL_DRAINING: action = await_drain(self, now); break;
    case TT_POOL_DELIVERING: action = await_delivery(self, now); break;
    case TT_POOL_BACKING_OFF:
        if (now >= self->until_at)
            action = decide(self, now);
        break;
    }
    tt_pool_scaler_check(self);
    return action;
}

int64_t tt_pool_scaler_next_at(const struct tt_pool_scaler *self) {
    if (self->stage == TT_POOL_STEADY && self->short_at != TT_NEVER)
        return tt_instant_add(self->short_at, self->settings.deliver_ns);
    return self->until_at;
}

void tt_pool_scaler_check(const struct tt_pool_scaler *self) {
    const struct tt_pool_scaler_settings *settings = &self->settings;
    tt_assert(settings->least >= 1);
    tt_assert(settings->least <= settings->most);
    tt_assert(settings->most <= settings->node_count);
    tt_assert(self->asked >= 0);
    tt_assert(self->asked <= settings->node_count);
    tt_assert(self->backoff_ns >= settings->retry_ns);
    tt_assert(self->backoff_ns <= settings->retry_most_ns);
    bool has_change = self->stage == TT_POOL_DRAINING || self->stage == TT_POOL_CALLING;
    tt_assert(!has_change || self->goal >= 0);
    tt_assert(!has_change || self->goal <= settings->node_count);
    tt_assert(self->stage != TT_POOL_DRAINING || self->goal == self->asked - 1);
    tt_assert(self->stage != TT_POOL_CALLING || self->until_at == TT_NEVER);
    tt_assert(self->mode != TT_POOL_PINNED || self->pinned >= settings->least);
    tt_assert(self->mode != TT_POOL_PINNED || self->pinned <= settings->most);
    for (int32_t i = 0; i < settings->node_count; i++) {
        tt_assert(self->devices[i] >= 1);
        tt_assert(self->nodes[i].state == TT_POOL_NODE_SERVING ||
                  self->nodes[i].back_at == TT_NEVER);
    }
    if (self->is_advised)
        tt_autoscaler_check(&self->autoscaler);
}
