/* A node's membership and the record of the primary: leases are renewed and taken again, the record
 * never goes back, whatever is late, lost or overtaken; and an hour without the service changes
 * nothing for requests. */
#include "base/prng.h"
#include "cluster/membership.h"
#include "unit/breach.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

#define TTL (30 * TT_S)
#define TIMEOUT (2 * TT_S)

/* ---- one member ---- */

struct member {
    struct tt_membership membership;
    struct tt_coordination_request last;
    int32_t sent, reports;
    uint64_t reported;
};

static void on_send(void *context, const struct tt_coordination_request *request) {
    struct member *self = context;
    self->last = *request;
    self->sent++;
}

static void on_recorded(void *context, int64_t now, uint64_t epoch) {
    (void)now;
    struct member *self = context;
    self->reports++;
    self->reported = epoch;
}

static void member_init(struct member *self) {
    *self = (struct member){.sent = 0};
    tt_membership_init(&self->membership, 0, "n", "v", TTL, TIMEOUT);
    self->membership.context = self;
    self->membership.send = on_send;
    self->membership.recorded = on_recorded;
}

static void tick(struct member *self, int64_t now) {
    tt_membership_tick(&self->membership, now);
    tt_membership_check(&self->membership);
}

/* Answers what was sent last. */
static void answer(struct member *self, int64_t now, struct tt_coordination_answer answer) {
    answer.number = self->last.number;
    tt_membership_answered(&self->membership, now, &answer);
    tt_membership_check(&self->membership);
}

static void join(struct member *self) {
    member_init(self);
    tick(self, 0);
    assert_int_equal(self->last.verb, TT_COORDINATION_LEASE);
    assert_true(self->last.ttl_ns == TTL);
    answer(self, 0, (struct tt_coordination_answer){.lease = 7, .ttl_ns = TTL});
    assert_int_equal(self->last.verb, TT_COORDINATION_JOIN);
    assert_string_equal(self->last.name, "n");
    assert_true(self->last.lease == 7);
    answer(self, 0, (struct tt_coordination_answer){.ttl_ns = TTL});
    assert_int_equal(self->membership.state, TT_MEMBERSHIP_IN);
}

static void a_lease_is_renewed_and_taken_again(void **state) {
    (void)state;
    struct member member;
    join(&member);
    assert_true(tt_membership_next_at(&member.membership) == TTL / 3);
    tick(&member, TTL / 3 - 1);
    assert_int_equal(member.sent, 2);
    tick(&member, TTL / 3);
    assert_int_equal(member.last.verb, TT_COORDINATION_KEEP);
    tick(&member, TTL / 3 + TIMEOUT); /* no answer: again a second later */
    assert_int_equal(member.sent, 3);
    tick(&member, TTL / 3 + TIMEOUT + TT_S);
    assert_int_equal(member.sent, 4);
    answer(&member, TTL / 2, (struct tt_coordination_answer){.ttl_ns = TTL});
    tick(&member, TTL);
    answer(&member, TTL, (struct tt_coordination_answer){.err = TT_ERR_NOT_FOUND});
    assert_int_equal(member.membership.state, TT_MEMBERSHIP_OUT);
    tick(&member, TTL);
    assert_int_equal(member.last.verb, TT_COORDINATION_LEASE);
    answer(&member, TTL, (struct tt_coordination_answer){.lease = 8, .ttl_ns = TTL});
    answer(&member, TTL, (struct tt_coordination_answer){.ttl_ns = TTL});
    tt_membership_leave(&member.membership);
    assert_int_equal(member.last.verb, TT_COORDINATION_LEAVE);
    assert_true(member.last.lease == 8);
    assert_true(tt_membership_next_at(&member.membership) == TT_NEVER);
}

static void answers_of_the_past_count_nothing(void **state) {
    (void)state;
    struct member member;
    member_init(&member);
    tick(&member, 0);
    struct tt_coordination_answer late = {.number = member.last.number, .lease = 7};
    tick(&member, TIMEOUT);
    tick(&member, TIMEOUT + TT_S); /* another request for a lease */
    tt_membership_answered(&member.membership, TIMEOUT + TT_S, &late);
    assert_int_equal(member.membership.state, TT_MEMBERSHIP_LEASING);
    answer(&member, TIMEOUT + TT_S, (struct tt_coordination_answer){.lease = 9, .ttl_ns = TTL});
    assert_true(member.membership.lease == 9);
}

static void the_higher_record_stands(void **state) {
    (void)state;
    struct member member;
    join(&member);
    tt_membership_record(&member.membership, 0, 100);
    assert_int_equal(member.last.verb, TT_COORDINATION_SWAP);
    assert_int_equal(member.last.revision, 0);
    answer(&member, 0, (struct tt_coordination_answer){.epoch = 50, .revision = 4});
    assert_int_equal(member.last.revision, 4); /* a lower one: over it */
    assert_int_equal(member.reports, 0);
    answer(&member, 0,
           (struct tt_coordination_answer){.is_done = true, .epoch = 100, .revision = 5});
    assert_true(member.reported == 100);
    tt_membership_record(&member.membership, 0, 200);
    answer(&member, 0, (struct tt_coordination_answer){.epoch = 300, .revision = 6});
    assert_true(member.reported == 300); /* another scheduler was elected */
    int32_t sent = member.sent;
    tt_membership_record(&member.membership, 0, 250);
    assert_int_equal(member.sent, sent);
    tt_membership_saw(&member.membership, 0, 400, 7);
    assert_true(member.reported == 400);
    tt_membership_saw(&member.membership, 0, 10, 6); /* older than what is known */
    assert_int_equal(member.sent, sent);
    tt_membership_saw(&member.membership, 0, 10, 8); /* it went back: it is written again */
    assert_int_equal(member.sent, sent + 1);
    assert_true(member.last.epoch == 250 && member.last.revision == 8);
}

static void a_record_waits_for_the_service(void **state) {
    (void)state;
    struct member member;
    join(&member);
    tt_membership_record(&member.membership, 0, 100);
    answer(&member, 0, (struct tt_coordination_answer){.err = TT_ERR_UNAVAILABLE});
    assert_int_equal(member.membership.failures, 1);
    tick(&member, TT_S - 1);
    int32_t sent = member.sent;
    tick(&member, TT_S);
    assert_int_equal(member.sent, sent + 1);
    assert_int_equal(member.last.verb, TT_COORDINATION_SWAP);
    tt_membership_record(&member.membership, TT_S, 101); /* while that is under way */
    assert_int_equal(member.sent, sent + 1);
    answer(&member, TT_S,
           (struct tt_coordination_answer){.is_done = true, .epoch = 100, .revision = 1});
    assert_true(member.last.epoch == 101 && member.last.revision == 1);
}

/* The service comes back without data: the lease is unknown, the record is gone, and revisions
 * begin anew. A service that has lost the lease only says what is recorded. */
static void a_lost_record_is_written_again(void **state) {
    (void)state;
    for (int32_t has_record = 0; has_record < 2; has_record++) {
        struct member member;
        join(&member);
        tt_membership_record(&member.membership, 0, 5);
        answer(&member, 0, (struct tt_coordination_answer){.epoch = 5, .revision = 900});
        assert_int_equal(member.reports, 1);
        tick(&member, TTL / 3);
        assert_int_equal(member.last.verb, TT_COORDINATION_KEEP);
        answer(&member, TTL / 3, (struct tt_coordination_answer){.err = TT_ERR_NOT_FOUND});
        tick(&member, TTL / 3);
        assert_int_equal(member.last.verb, TT_COORDINATION_SWAP);
        assert_true(member.last.epoch == 5 && member.last.revision == 0);
        uint64_t epoch = has_record ? 6 : 5;
        int64_t revision = has_record ? 901 : 2;
        answer(&member, TTL / 3,
               (struct tt_coordination_answer){.epoch = epoch, .revision = revision});
        assert_true(member.reports == 2 && member.reported == epoch);
        tt_membership_saw(&member.membership, TTL / 3, 7, revision + 1);
        assert_true(member.reports == 3 && member.reported == 7);
    }
}

static void forget_the_record(void) {
    struct member member;
    join(&member);
    tt_membership_record(&member.membership, 0, 100);
    member.membership.record.number = 0; /* and nothing is planned */
    tt_membership_check(&member.membership);
}

static void joined_without_lease(void) {
    struct member member;
    join(&member);
    member.membership.lease = 0;
    tt_membership_check(&member.membership);
}

static void broken_members_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(forget_the_record, "is_recorded || is_pursued"),
        BREACH(joined_without_lease, "lease != 0"),
    };
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

/* ---- many members, one record ---- */

enum { MEMBERS = 4, MESSAGES = 64, STEPS = 4000 };

struct message {
    int32_t member;
    bool is_answer;
    struct tt_coordination_request request;
    struct tt_coordination_answer answer;
};

struct crowd {
    struct tt_membership members[MEMBERS];
    struct message messages[MESSAGES];
    int32_t count, sender;
    uint64_t epoch;
    int64_t revision;
};

static void add(struct crowd *self, const struct message *message) {
    if (self->count < MESSAGES)
        self->messages[self->count++] = *message; /* else it is lost */
}

static void on_crowd_send(void *context, const struct tt_coordination_request *request) {
    struct crowd *self = context;
    add(self, &(struct message){.member = self->sender, .request = *request});
}

/* Carries one message, drawn among all. */
static void carry(struct crowd *self, int64_t now, struct tt_prng *prng, bool may_lose) {
    int32_t drawn = (int32_t)tt_prng_below(prng, (uint64_t)self->count);
    struct message message = self->messages[drawn];
    self->messages[drawn] = self->messages[--self->count];
    uint64_t fate = may_lose ? tt_prng_below(prng, 10) : 9;
    if (fate == 0)
        return;
    if (fate == 1 && message.is_answer) /* a request repeated would be another's swap */
        add(self, &message);
    self->sender = message.member;
    if (message.is_answer) {
        tt_membership_answered(&self->members[message.member], now, &message.answer);
        return;
    }
    struct tt_coordination_answer *answer = &message.answer;
    *answer = (struct tt_coordination_answer){
        .number = message.request.number, .lease = 1, .ttl_ns = TTL};
    if (message.request.verb == TT_COORDINATION_SWAP) {
        answer->is_done = message.request.revision == self->revision;
        if (answer->is_done) {
            assert_true(message.request.epoch > self->epoch); /* it never goes back */
            self->epoch = message.request.epoch;
            self->revision++;
        }
        answer->epoch = self->epoch;
        answer->revision = self->revision;
    }
    message.is_answer = true;
    add(self, &message);
}

static void the_record_ends_at_the_highest_epoch(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    static struct crowd crowd;
    crowd = (struct crowd){.count = 0};
    for (int32_t i = 0; i < MEMBERS; i++) {
        tt_membership_init(&crowd.members[i], 0, "n", "v", TTL, TIMEOUT);
        crowd.members[i].context = &crowd;
        crowd.members[i].send = on_crowd_send;
    }
    uint64_t highest = 0;
    int64_t now = 0;
    for (int32_t step = 0; step < STEPS; step++, now += 20 * TT_MS) {
        crowd.sender = (int32_t)tt_prng_below(&prng, MEMBERS);
        struct tt_membership *member = &crowd.members[crowd.sender];
        if (step < STEPS / 2 && tt_prng_below(&prng, 20) == 0)
            tt_membership_record(member, now, ++highest);
        tt_membership_tick(member, now);
        if (crowd.count > 0 && tt_prng_below(&prng, 3))
            carry(&crowd, now, &prng, step < STEPS / 2);
        tt_membership_check(member);
    }
    assert_true(highest > 10);
    assert_true(crowd.epoch == highest);
}

/* ---- an hour without the service ---- */

struct endings {
    uint64_t digest;
    int64_t count, in_time;
};

static void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct endings *self = context;
    self->count++;
    self->in_time += ending->answer == TT_ANSWER_DONE && ending->ended_at <= ending->deadline_at;
    self->digest = (self->digest ^ (uint64_t)ending->accepted_at) * UINT64_C(1099511628211);
    self->digest = (self->digest ^ (uint64_t)ending->ended_at) * UINT64_C(1099511628211);
    self->digest = (self->digest ^ (uint64_t)ending->answer) * UINT64_C(1099511628211);
}

/* Ten requests a second and slow beats, so that an hour has few events. */
static struct endings run_an_hour(const struct tt_fault *faults, int32_t count,
                                  struct tt_virtual_result *out_result) {
    struct virtual_world world;
    virtual_world_init(&world);
    world.settings.silence_ns = 10 * TT_S;
    world.settings.beat_ns = world.settings.ask_ns = TT_S;
    world.settings.patience_ns = 60 * TT_S;
    struct tt_virtual_options options = virtual_world_options(&world, test_seed(1));
    struct endings endings = {.count = 0};
    options.until_at = 3700 * TT_S;
    options.gap_ns = 100 * TT_MS;
    options.check_every = 4096;
    options.faults = faults;
    options.fault_count = count;
    options.context = &endings;
    options.ended = on_ended;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, out_result, &why), TT_OK);
    assert_string_equal(out_result->violation, "");
    virtual_world_fini(&world);
    return endings;
}

static void an_hour_without_the_service_changes_nothing(void **state) {
    (void)state;
    struct tt_virtual_result with, without;
    const struct tt_fault away = {.at = 40 * TT_S,
                                  .duration_ns = 3600 * TT_S,
                                  .kind = TT_FAULT_RECORD,
                                  .other = TT_CLUSTER_NO_NODE};
    struct endings usual = run_an_hour(NULL, 0, &with), alone = run_an_hour(&away, 1, &without);
    assert_true(usual.count > 30000 && usual.in_time == usual.count);
    assert_true(alone.count == usual.count && alone.digest == usual.digest);
    assert_true(without.claims == with.claims);
    assert_int_equal(with.members, WORLD_NODES);
    assert_int_equal(without.members, WORLD_NODES); /* all have joined again */
    /* It takes no answer from the service to become primary: it is away from the beginning. */
    struct tt_fault always = away;
    always.at = 0;
    always.duration_ns = 3700 * TT_S;
    struct endings never = run_an_hour(&always, 1, &without);
    assert_true(never.digest == usual.digest && without.claims == with.claims);
    assert_int_equal(without.members, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_renewed_and_taken_again),
        cmocka_unit_test(answers_of_the_past_count_nothing),
        cmocka_unit_test(the_higher_record_stands),
        cmocka_unit_test(a_record_waits_for_the_service),
        cmocka_unit_test(a_lost_record_is_written_again),
        cmocka_unit_test(broken_members_are_found),
        cmocka_unit_test(the_record_ends_at_the_highest_epoch),
        cmocka_unit_test(an_hour_without_the_service_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
