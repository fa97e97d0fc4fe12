/* S9: the actuator of one pool against a modelled provider of machines, in virtual time. */
#include "scale/pool_scaler.h"

#include "base/instant.h"
#include "base/prng.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NODES = 6, WORLDS = 300, ROUNDS = 4000 };

static const int32_t devices[NODES] = {2, 2, 2, 2, 2, 2};

static const struct tt_pool_scaler_settings settings = {.devices = devices,
                                                        .node_count = NODES,
                                                        .least = 1,
                                                        .most = NODES,
                                                        .hold_ns = 60 * TT_S,
                                                        .deliver_ns = 100 * TT_S,
                                                        .drain_ns = 20 * TT_S,
                                                        .retry_ns = 10 * TT_S,
                                                        .retry_most_ns = 80 * TT_S};

/* ---- a provider and its machines ---- */

struct machine {
    enum tt_pool_node_state state;
    int64_t next_at; /* of its next state */
};

struct world {
    struct tt_pool_scaler scaler;
    struct tt_prng random;
    int64_t now;
    struct machine machines[NODES];
    int32_t count; /* that the provider runs */
    /* The call under way. */
    bool has_call;
    uint64_t serial;
    int32_t called;
    int64_t answer_at;
    enum tt_err outcome;
    /* How it behaves. */
    int64_t start_ns, finish_ns, answer_ns;
    bool refuses, starts_none, ignores_drains;
    bool restarts; /* machines that ended */
    /* What was seen. */
    int32_t wanted;
    int64_t wanted_most_at; /* the load needed all devices in force, or the count changed, then */
    int64_t last_failure_at, last_gap_ns;
    int32_t calls, drains, drain_node;
    enum tt_pool_event events[64];
    int32_t event_count;
};

static void begin(struct world *self, uint64_t seed) {
    *self = (struct world){
        .now = TT_S, .start_ns = 5 * TT_S, .finish_ns = 3 * TT_S, .answer_ns = TT_S, .wanted = 2};
    tt_prng_init(&self->random, seed, 0);
    assert_int_equal(tt_pool_scaler_init(&self->scaler, &settings), TT_OK);
}

static int64_t below(struct world *self, int64_t limit) {
    return (int64_t)(tt_prng_next(&self->random) % (uint64_t)limit);
}

static bool runs(const struct world *self, int32_t node) {
    return self->machines[node].state != TT_POOL_NODE_ABSENT;
}

/* The provider starts and stops machines as it was asked. */
static void apply(struct world *self, int32_t count) {
    self->count = count;
    for (int32_t i = 0; i < NODES; i++) {
        struct machine *machine = &self->machines[i];
        if (i >= count) {
            *machine = (struct machine){.state = TT_POOL_NODE_ABSENT};
        } else if (!runs(self, i) && !self->starts_none) {
            machine->state = TT_POOL_NODE_BUSY;
            machine->next_at = self->now + self->start_ns;
        }
    }
}

static void move_machines(struct world *self) {
    for (int32_t i = 0; i < NODES; i++) {
        struct machine *machine = &self->machines[i];
        if (machine->state == TT_POOL_NODE_BUSY && self->now >= machine->next_at)
            machine->state = TT_POOL_NODE_SERVING;
        if (machine->state == TT_POOL_NODE_LEAVING && self->now >= machine->next_at)
            machine->state = TT_POOL_NODE_DRAINED;
        tt_pool_scaler_observe(&self->scaler, self->now, i, machine->state);
    }
}

/* Nothing that serves is stopped; none is stopped while fewer than needed stay. */
static void check_call(const struct world *self, const struct tt_pool_action *action) {
    assert_false(self->has_call);
    assert_true(action->count >= 0 && action->count <= settings.most);
    int32_t staying = 0;
    for (int32_t i = 0; i < NODES; i++) {
        enum tt_pool_node_state state = self->machines[i].state;
        if (i < action->count)
            staying += state == TT_POOL_NODE_SERVING;
        else if (action->event == TT_POOL_DRAIN_LATE)
            assert_true(state == TT_POOL_NODE_LEAVING || state == TT_POOL_NODE_ABSENT);
        else
            assert_true(state == TT_POOL_NODE_DRAINED || state == TT_POOL_NODE_ABSENT);
    }
    if (action->count < self->scaler.before)
        assert_true(staying >= 1 || self->scaler.nodes[action->count].is_ours);
}

static void act(struct world *self, const struct tt_pool_action *action) {
    if (action->event != TT_POOL_QUIET && self->event_count < (int32_t)TT_COUNT(self->events))
        self->events[self->event_count++] = action->event;
    if (action->verb == TT_POOL_DRAIN) {
        self->drains++;
        self->drain_node = action->node;
        struct machine *machine = &self->machines[action->node];
        if (machine->state == TT_POOL_NODE_SERVING && !self->ignores_drains) {
            machine->state = TT_POOL_NODE_LEAVING;
            machine->next_at = self->now + self->finish_ns;
        }
    } else if (action->verb == TT_POOL_CALL) {
        check_call(self, action);
        self->calls++;
        self->has_call = true;
        self->serial = action->serial;
        self->called = action->count;
        self->answer_at = self->now + self->answer_ns;
        self->outcome = self->refuses ? TT_ERR_UNAVAILABLE : TT_OK;
    }
}

static void advise(struct world *self) {
    const struct tt_devices_wanted wanted = {
        .count = self->wanted, .fewest = self->wanted, .most = self->wanted};
    tt_pool_scaler_advise(&self->scaler, self->now, &wanted, 0);
}

static void settle(struct world *self) {
    for (int32_t i = 0; i < 20; i++) {
        struct tt_pool_action action = tt_pool_scaler_step(&self->scaler, self->now);
        act(self, &action);
        if (action.event == TT_POOL_QUIET && action.verb == TT_POOL_NOTHING)
            return;
    }
    fail_msg("the scaler does not come to rest");
}

static void second(struct world *self) {
    self->now += TT_S;
    if (self->restarts)
        apply(self, self->count);
    if (self->has_call && self->now >= self->answer_at) {
        self->has_call = false;
        if (self->outcome == TT_OK)
            apply(self, self->called);
        tt_pool_scaler_answered(&self->scaler, self->now, self->serial, self->outcome, -1);
    }
    move_machines(self);
    advise(self);
    settle(self);
}

static void run(struct world *self, int32_t seconds) {
    for (int32_t i = 0; i < seconds; i++)
        second(self);
}

/* A pool with `count` nodes that serve, observed and advised. */
static void begin_with(struct world *self, int32_t count) {
    begin(self, 1);
    apply(self, count);
    self->wanted = 2 * count;
    tt_pool_scaler_lead(&self->scaler, self->now + 2 * TT_S);
    run(self, 20);
    assert_int_equal(self->scaler.stage, TT_POOL_STEADY);
    assert_int_equal(self->scaler.asked, count);
    assert_int_equal(self->calls, 0);
}

/* ---- stories ---- */

static void up_at_once_and_down_after_the_hold(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 1);
    w.wanted = 5;
    second(&w);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.called, 3); /* nodes of two devices */
    run(&w, 10);
    assert_int_equal(w.scaler.stage, TT_POOL_STEADY);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 6);
    w.wanted = 1;
    run(&w, 59);
    assert_int_equal(w.drains, 0);
    run(&w, 30);
    /* One after the other, the last first. */
    assert_int_equal(w.drains, 2);
    assert_int_equal(w.calls, 3);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.scaler.stage, TT_POOL_STEADY);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_short_lull_stops_nothing(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 3);
    for (int32_t i = 0; i < 10; i++) {
        w.wanted = 1;
        run(&w, 50);
        w.wanted = 6;
        run(&w, 5);
    }
    assert_int_equal(w.drains + w.calls, 0);
    tt_pool_scaler_fini(&w.scaler);
}

/* It promises and does not deliver: the old nodes serve on, the advice stays, calls are repeated
 * after 10, 20, 40, 80, 80 s on top of the time that it has. */
static void a_provider_that_does_not_deliver_is_asked_again(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 1);
    w.starts_none = true;
    w.wanted = 4;
    int64_t since = w.now, gaps[5];
    for (int32_t i = 0; i < 5; i++) {
        int32_t calls = w.calls;
        while (w.calls == calls)
            second(&w);
        gaps[i] = (w.now - since) / TT_S;
        since = w.now;
        assert_int_equal(w.called, 2);
        assert_int_equal(tt_pool_scaler_serving(&w.scaler), 2);
    }
    const int64_t expected[5] = {1, 1 + 100 + 10, 1 + 100 + 20, 1 + 100 + 40, 1 + 100 + 80};
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(gaps[i], expected[i]);
    assert_int_equal(w.scaler.late, 4);
    assert_int_equal(w.events[0], TT_POOL_LATE);
    w.starts_none = false;
    run(&w, 400);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 4);
    assert_int_equal(w.scaler.stage, TT_POOL_STEADY);
    assert_int_equal(w.scaler.backoff_ns, settings.retry_ns);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_refused_call_leaves_the_old_count(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    w.refuses = true;
    w.wanted = 8;
    run(&w, 5);
    assert_int_equal(w.scaler.asked, 2);
    assert_int_equal(w.scaler.stage, TT_POOL_BACKING_OFF);
    assert_int_equal(w.scaler.failures, 1);
    run(&w, 200);
    assert_in_range(w.calls, 3, 6);
    w.refuses = false;
    run(&w, 100);
    assert_int_equal(w.count, 4);
    tt_pool_scaler_fini(&w.scaler);
}

/* A drained node whose stop fails is stopped later even if it is needed again: it cannot serve. */
static void a_drained_node_is_stopped_before_it_serves_again(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    w.wanted = 1;
    run(&w, 62);
    assert_int_equal(w.drains, 1);
    w.refuses = true;
    run(&w, 10);
    assert_true(w.calls >= 1);
    w.refuses = false;
    w.wanted = 4;
    run(&w, 120);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 4);
    assert_int_equal(w.scaler.stage, TT_POOL_STEADY);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_drain_that_takes_too_long_is_given_up(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    w.finish_ns = 1000 * TT_S;
    w.wanted = 1;
    run(&w, 62 + 25);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.events[0], TT_POOL_DRAIN_LATE);
    tt_pool_scaler_fini(&w.scaler);
}

/* A node that does not obey is not stopped: it may have another primary. */
static void a_node_that_takes_work_is_not_stopped(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    w.ignores_drains = true;
    w.wanted = 1;
    run(&w, 600);
    assert_int_equal(w.calls, 0);
    assert_int_equal(w.events[0], TT_POOL_DRAIN_IGNORED);
    assert_true(w.scaler.failures >= 2);
    tt_pool_scaler_fini(&w.scaler);
}

/* Cut off from its backends, a scheduler sees no load and no node. It must stop nothing. */
static void a_scheduler_that_is_cut_off_stops_nothing(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 4);
    w.wanted = 1;
    for (int32_t i = 0; i < 300; i++) {
        w.now += TT_S;
        for (int32_t node = 0; node < NODES; node++)
            tt_pool_scaler_observe(&w.scaler, w.now, node, TT_POOL_NODE_ABSENT);
        advise(&w);
        settle(&w);
    }
    assert_int_equal(w.calls + w.drains, 0);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_preempted_node_is_drained_and_replaced(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    assert_false(tt_pool_scaler_preempt(&w.scaler, 4));
    assert_true(tt_pool_scaler_preempt(&w.scaler, 0));
    settle(&w);
    assert_int_equal(w.drains, 1);
    assert_int_equal(w.drain_node, 0);
    assert_int_equal(w.called, 3);
    run(&w, 15);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 4);
    assert_int_equal(w.machines[0].state, TT_POOL_NODE_DRAINED);
    w.machines[0].state = TT_POOL_NODE_ABSENT; /* preempted */
    run(&w, 200);
    assert_int_equal(w.calls, 1); /* the replacement stays */
    w.machines[0] = (struct machine){.state = TT_POOL_NODE_SERVING};
    run(&w, 59);
    assert_int_equal(w.calls, 1);
    run(&w, 10);
    assert_int_equal(w.count, 2); /* the node has served again for the hold */
    assert_int_equal(w.scaler.preempted, 1);
    tt_pool_scaler_fini(&w.scaler);
}

static void without_advice_a_preempted_node_is_replaced_too(void **state) {
    (void)state;
    struct world w;
    begin(&w, 1);
    apply(&w, 2);
    tt_pool_scaler_lead(&w.scaler, w.now + 2 * TT_S);
    for (int32_t i = 0; i < 10; i++) {
        w.now += TT_S;
        move_machines(&w);
        settle(&w);
    }
    assert_int_equal(w.calls, 0);
    assert_true(tt_pool_scaler_preempt(&w.scaler, 1));
    settle(&w);
    assert_int_equal(w.called, 3);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_pinned_pool_ignores_the_advice(void **state) {
    (void)state;
    struct world w;
    struct tt_error why;
    begin_with(&w, 2);
    assert_int_equal(tt_pool_scaler_pin(&w.scaler, 13, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "13 devices; the limits of the pool are 2 to 12");
    assert_int_equal(tt_pool_scaler_pin(&w.scaler, 0, &why), TT_ERR_INVALID);
    assert_int_equal(tt_pool_scaler_pin(&w.scaler, 7, &why), TT_OK);
    w.wanted = 2;
    run(&w, 500);
    assert_int_equal(w.count, 4);
    assert_int_equal(tt_pool_scaler_pin(&w.scaler, 2, &why), TT_OK);
    run(&w, 60); /* at once, one by one */
    assert_int_equal(w.count, 1);
    tt_pool_scaler_resume(&w.scaler);
    w.wanted = 6;
    run(&w, 30);
    assert_int_equal(w.count, 3);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_stopped_pool_stays(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    tt_pool_scaler_stop(&w.scaler);
    w.wanted = 12;
    run(&w, 300);
    w.wanted = 1;
    run(&w, 300);
    assert_int_equal(w.calls + w.drains, 0);
    tt_pool_scaler_resume(&w.scaler);
    run(&w, 30);
    assert_int_equal(w.drains, 0); /* the hold begins anew */
    run(&w, 100);
    assert_int_equal(w.count, 1);
    tt_pool_scaler_fini(&w.scaler);
}

/* Nodes that are started by hand get the hold, too. */
static void nodes_that_others_start_are_taken_over(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 1);
    apply(&w, 3);
    run(&w, 50);
    assert_int_equal(w.scaler.asked, 3);
    assert_int_equal(w.calls + w.drains, 0);
    run(&w, 100);
    assert_int_equal(w.count, 1);
    tt_pool_scaler_fini(&w.scaler);
}

static void a_count_that_was_changed_is_taken_over(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 1);
    w.wanted = 4;
    second(&w);
    assert_true(w.has_call);
    tt_pool_scaler_answered(&w.scaler, w.now, w.serial, TT_ERR_BUSY, 5);
    w.has_call = false;
    assert_int_equal(w.scaler.asked, 5);
    assert_int_equal(w.scaler.changed, 1);
    assert_int_equal(w.scaler.failures, 0);
    tt_pool_scaler_fini(&w.scaler);
}

/* When all processes start at once, backends come later than the primary. */
/* Advice that is not sure grows a pool only if requests are bad although all its devices serve. */
static void bad_requests_make_unsure_advice_count(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 2);
    const struct tt_devices_wanted unsure = {.count = 6, .fewest = 3, .most = 9};
    tt_pool_scaler_advise(&w.scaler, w.now, &unsure, 0.005);
    assert_int_equal(tt_pool_scaler_target(&w.scaler), 2);
    assert_true(tt_pool_scaler_is_settled(&w.scaler));
    w.machines[1] = (struct machine){.state = TT_POOL_NODE_BUSY, .next_at = TT_NEVER};
    move_machines(&w);
    assert_false(tt_pool_scaler_is_settled(&w.scaler));
    tt_pool_scaler_advise(&w.scaler, w.now, &unsure, 0.05);
    assert_int_equal(tt_pool_scaler_target(&w.scaler), 2);
    w.machines[1].state = TT_POOL_NODE_SERVING;
    move_machines(&w);
    tt_pool_scaler_advise(&w.scaler, w.now, &unsure, 0.05);
    assert_int_equal(tt_pool_scaler_target(&w.scaler), 3);
    tt_pool_scaler_fini(&w.scaler);
}

/* ---- the start-up time ---- */

static void starts_are_learnt_from_orders(void **state) {
    (void)state;
    struct world self;
    begin_with(&self, 1);
    assert_true(tt_start_up_time_of(&self.scaler.start_up).seconds == 0);
    self.wanted = 8;
    run(&self, 40); /* a second until the answer, five until they serve */
    struct tt_start_up_estimate seen = tt_start_up_time_of(&self.scaler.start_up);
    assert_int_equal(self.scaler.start_up.seen_count, 3);
    assert_true(seen.seconds >= 5 && seen.seconds <= 8);
    assert_true(seen.confidence > 0.5 && seen.confidence < 1);
    /* What comes later than promised took longer, and is counted from the first order. */
    self.starts_none = true;
    self.wanted = 10;
    run(&self, 130);
    assert_int_equal(self.scaler.late, 1);
    self.starts_none = false;
    run(&self, 300);
    assert_int_equal(self.scaler.start_up.seen_count, 4);
    assert_true(self.scaler.start_up.seen_s[3] > 100);
    struct tt_start_up_estimate spread = tt_start_up_time_of(&self.scaler.start_up);
    assert_true(spread.seconds > seen.seconds && spread.confidence < seen.confidence);
    tt_pool_scaler_fini(&self.scaler);
}

/* A node that comes without an order, or although its order failed, says nothing. */
static void other_starts_are_not_learnt(void **state) {
    (void)state;
    struct world self;
    begin_with(&self, 1);
    self.refuses = true;
    self.wanted = 8;
    run(&self, 5);
    assert_true(self.scaler.failures > 0);
    self.machines[1] = (struct machine){.state = TT_POOL_NODE_SERVING}; /* of no order */
    self.count = 2;
    move_machines(&self);
    assert_int_equal(self.scaler.start_up.seen_count, 0);
    tt_pool_scaler_fini(&self.scaler);
}

static void a_given_start_up_time_is_sure(void **state) {
    (void)state;
    struct tt_pool_scaler scaler;
    struct tt_pool_scaler_settings given = settings;
    given.start_up_ns = 90 * TT_S;
    assert_int_equal(tt_pool_scaler_init(&scaler, &given), TT_OK);
    tt_start_up_time_learn(&scaler.start_up, 5);
    struct tt_start_up_estimate estimate = tt_start_up_time_of(&scaler.start_up);
    assert_true(estimate.seconds == 90 && estimate.confidence == 1);
    tt_pool_scaler_fini(&scaler);
}

static void the_latest_starts_count(void **state) {
    (void)state;
    struct tt_start_up_time time = {0};
    tt_start_up_time_learn(&time, 30);
    assert_true(tt_start_up_time_of(&time).seconds == 30);
    assert_true(tt_start_up_time_of(&time).confidence == 0); /* one says nothing of the others */
    for (int32_t i = 0; i < TT_START_UP_KEPT; i++)
        tt_start_up_time_learn(&time, 10);
    assert_true(tt_start_up_time_of(&time).seconds == 10);
    assert_true(tt_start_up_time_of(&time).confidence > 0.9);
}

static void nodes_that_only_start_are_not_stopped(void **state) {
    (void)state;
    struct world w;
    begin(&w, 1);
    w.start_ns = 50 * TT_S;
    apply(&w, 4);
    for (int32_t i = 0; i < NODES; i++)
        w.machines[i].state = TT_POOL_NODE_ABSENT; /* has no link yet */
    tt_pool_scaler_lead(&w.scaler, TT_NEVER);
    run(&w, 30);
    assert_int_equal(w.scaler.stage, TT_POOL_OBSERVING);
    tt_pool_scaler_found(&w.scaler, w.now, 4);
    w.wanted = 8;
    run(&w, 30);
    assert_int_equal(w.scaler.asked, 4);
    assert_int_equal(w.calls + w.drains, 0);
    apply(&w, 4);
    run(&w, 60);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 8);
    assert_int_equal(w.calls + w.drains, 0);
    tt_pool_scaler_fini(&w.scaler);
}

/* The answer to a call of a former term means nothing. */
static void a_spare_does_nothing(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 1);
    w.wanted = 8;
    second(&w);
    assert_true(w.has_call);
    uint64_t serial = w.serial;
    tt_pool_scaler_yield(&w.scaler);
    tt_pool_scaler_answered(&w.scaler, w.now, serial, TT_OK, -1);
    assert_int_equal(w.scaler.stage, TT_POOL_OFF);
    w.has_call = false;
    run(&w, 100);
    assert_int_equal(w.calls, 1);
    tt_pool_scaler_lead(&w.scaler, w.now + 2 * TT_S);
    tt_pool_scaler_answered(&w.scaler, w.now, serial, TT_OK, -1);
    assert_int_equal(w.scaler.stage, TT_POOL_OBSERVING);
    run(&w, 30);
    assert_int_equal(w.count, 4);
    tt_pool_scaler_fini(&w.scaler);
}

/* A node of the count in force that ends is the provider's to start again, for a while. */
static void a_lost_node_is_asked_for_again(void **state) {
    (void)state;
    struct world w;
    begin_with(&w, 3);
    w.machines[1].state = TT_POOL_NODE_ABSENT;
    run(&w, 99);
    assert_int_equal(w.calls, 0);
    run(&w, 30);
    assert_int_equal(w.calls, 1);
    assert_int_equal(w.called, 3);
    assert_int_equal(w.events[0], TT_POOL_LATE);
    run(&w, 30);
    assert_int_equal(tt_pool_scaler_serving(&w.scaler), 6);
    tt_pool_scaler_fini(&w.scaler);
}

/* ---- random worlds ---- */

static void disturb(struct world *self) {
    struct tt_error why;
    int32_t node = (int32_t)below(self, NODES);
    switch (below(self, 14)) {
    case 0: self->refuses = !self->refuses; break;
    case 1: self->starts_none = !self->starts_none; break;
    case 2: self->ignores_drains = !self->ignores_drains; break;
    case 3: self->start_ns = (1 + below(self, 150)) * TT_S; break;
    case 4: self->finish_ns = (1 + below(self, 40)) * TT_S; break;
    case 5: self->machines[node].state = TT_POOL_NODE_ABSENT; break;
    case 6: (void)tt_pool_scaler_preempt(&self->scaler, node); break;
    case 7: tt_pool_scaler_stop(&self->scaler); break;
    case 8: tt_pool_scaler_resume(&self->scaler); break;
    case 9: (void)!tt_pool_scaler_pin(&self->scaler, (int32_t)below(self, 14), &why); break;
    case 10:
        if (below(self, 2))
            tt_pool_scaler_yield(&self->scaler);
        else
            tt_pool_scaler_lead(&self->scaler, self->now + below(self, 20) * TT_S);
        self->has_call = false;
        break;
    case 11: tt_pool_scaler_drain_failed(&self->scaler, self->now, node); break;
    case 12: self->answer_ns = (1 + below(self, 60)) * TT_S; break;
    default: self->wanted = 1 + (int32_t)below(self, 14); break;
    }
}

/* Whatever happens, no rule is broken; and when all is well again, what is wanted runs. */
static void random_worlds_converge(void **state) {
    (void)state;
    uint64_t seed = test_seed(20261123);
    for (uint64_t i = 0; i < WORLDS; i++) {
        struct world w;
        begin(&w, seed + i);
        apply(&w, (int32_t)below(&w, NODES + 1));
        tt_pool_scaler_lead(&w.scaler, w.now + 2 * TT_S);
        for (int32_t round = 0; round < ROUNDS / 20; round++) {
            if (below(&w, 3) == 0)
                disturb(&w);
            run(&w, (int32_t)below(&w, 20));
        }
        w.refuses = w.starts_none = w.ignores_drains = false;
        w.restarts = true;
        w.start_ns = w.finish_ns = w.answer_ns = TT_S;
        for (int32_t node = 0; node < NODES; node++) /* preempted ones come back */
            if (w.scaler.nodes[node].is_noticed)
                w.machines[node].state = TT_POOL_NODE_ABSENT;
        second(&w);
        tt_pool_scaler_resume(&w.scaler);
        if (w.scaler.stage == TT_POOL_OFF)
            tt_pool_scaler_lead(&w.scaler, w.now + 2 * TT_S);
        for (int32_t node = 0; node < w.count; node++) /* a drained one is started again by hand */
            if (w.machines[node].state >= TT_POOL_NODE_LEAVING)
                w.machines[node] = (struct machine){.state = TT_POOL_NODE_SERVING};
        run(&w, 1500);
        int32_t nodes = (w.wanted + 1) / 2;
        assert_int_equal(w.scaler.stage, TT_POOL_STEADY);
        assert_int_equal(w.count, nodes < NODES ? nodes : NODES);
        assert_int_equal(w.scaler.asked, w.count);
        assert_int_equal(tt_pool_scaler_serving(&w.scaler), 2 * w.count);
        tt_pool_scaler_fini(&w.scaler);
    }
}

/* ---- the check sees broken objects ---- */

static void asked_for_too_many(void) {
    struct world w;
    begin(&w, 1);
    w.scaler.asked = NODES + 1;
    tt_pool_scaler_check(&w.scaler);
}

static void drains_the_wrong_node(void) {
    struct world w;
    begin(&w, 1);
    w.scaler.asked = 3;
    w.scaler.goal = 1;
    w.scaler.stage = TT_POOL_DRAINING;
    tt_pool_scaler_check(&w.scaler);
}

static void pins_beyond_the_limits(void) {
    struct world w;
    begin(&w, 1);
    w.scaler.mode = TT_POOL_PINNED;
    w.scaler.pinned = 0;
    tt_pool_scaler_check(&w.scaler);
}

static void the_check_sees_broken_objects(void **state) {
    (void)state;
    assert_breaks(asked_for_too_many, "asked", "self->asked <= settings->node_count");
    assert_breaks(drains_the_wrong_node, "drain", "self->goal == self->asked - 1");
    assert_breaks(pins_beyond_the_limits, "pin", "self->pinned >= settings->least");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_at_once_and_down_after_the_hold),
        cmocka_unit_test(a_short_lull_stops_nothing),
        cmocka_unit_test(a_provider_that_does_not_deliver_is_asked_again),
        cmocka_unit_test(a_refused_call_leaves_the_old_count),
        cmocka_unit_test(a_drained_node_is_stopped_before_it_serves_again),
        cmocka_unit_test(a_drain_that_takes_too_long_is_given_up),
        cmocka_unit_test(a_node_that_takes_work_is_not_stopped),
        cmocka_unit_test(a_scheduler_that_is_cut_off_stops_nothing),
        cmocka_unit_test(a_preempted_node_is_drained_and_replaced),
        cmocka_unit_test(without_advice_a_preempted_node_is_replaced_too),
        cmocka_unit_test(a_pinned_pool_ignores_the_advice),
        cmocka_unit_test(a_stopped_pool_stays),
        cmocka_unit_test(nodes_that_others_start_are_taken_over),
        cmocka_unit_test(a_count_that_was_changed_is_taken_over),
        cmocka_unit_test(nodes_that_only_start_are_not_stopped),
        cmocka_unit_test(bad_requests_make_unsure_advice_count),
        cmocka_unit_test(starts_are_learnt_from_orders),
        cmocka_unit_test(other_starts_are_not_learnt),
        cmocka_unit_test(a_given_start_up_time_is_sure),
        cmocka_unit_test(the_latest_starts_count),
        cmocka_unit_test(a_spare_does_nothing),
        cmocka_unit_test(a_lost_node_is_asked_for_again),
        cmocka_unit_test(random_worlds_converge),
        cmocka_unit_test(the_check_sees_broken_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
