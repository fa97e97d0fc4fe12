/* The failure matrix in virtual time: one failure at a time, and what clients see of it. Devices
 * have room, so whatever is late is late because of the failure. */
#include "base/prng.h"
#include "unit/cluster/virtual_world.h"

#include <stdlib.h>

enum { MAX_CLAIMS = 16 };

struct seen {
    int64_t answers[TT_ANSWER_QUARANTINED + 1];
    int64_t in_time, not_in_time;
    int64_t claim_count, claimed_at[MAX_CLAIMS];
    uint64_t digest; /* of all endings, in order */
    struct tt_virtual_result result;
};

static void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct seen *self = context;
    self->answers[ending->answer]++;
    if (ending->answer == TT_ANSWER_DONE && ending->ended_at <= ending->deadline_at)
        self->in_time++;
    else
        self->not_in_time++;
    uint64_t state = self->digest ^ (uint64_t)ending->accepted_at;
    self->digest = tt_prng_mix(&state) ^ (uint64_t)ending->ended_at;
}

static void on_claimed(void *context, int64_t now, uint64_t epoch) {
    (void)epoch;
    struct seen *self = context;
    assert_true(self->claim_count < MAX_CLAIMS);
    self->claimed_at[self->claim_count++] = now;
}

/* Of inputs that backends read by themselves: all tests run without and with such memory. */
static int32_t shared_permille, remote_permille;

/* One second of requests with these faults; the invariants hold. */
static struct seen run(const struct tt_fault *faults, int32_t count, int64_t slo_ns) {
    struct virtual_world world;
    virtual_world_init(&world);
    struct seen seen = {0};
    struct tt_virtual_options options = virtual_world_options(&world, 1);
    options.faults = faults;
    options.fault_count = count;
    options.slo_ns = slo_ns;
    options.until_at = 2 * TT_S;
    options.shared_permille = shared_permille;
    options.remote_permille = remote_permille;
    options.context = &seen;
    options.ended = on_ended;
    options.claimed = on_claimed;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, &seen.result, &why), TT_OK);
    if (seen.result.violation[0])
        print_message("%s\n", seen.result.violation);
    assert_string_equal(seen.result.violation, "");
    assert_true(seen.result.accepted > 3000);
    assert_true((seen.result.shared > 1000) == (shared_permille > 0));
    virtual_world_fini(&world);
    return seen;
}

static struct tt_fault fault(enum tt_fault_kind kind, uint16_t node, uint16_t other,
                             int64_t duration_ns) {
    return (struct tt_fault){
        .at = 500 * TT_MS, .duration_ns = duration_ns, .kind = kind, .node = node, .other = other};
}

enum { PRIMARY = 0, SPARE = 1, FRONTEND = 2, BACKEND = WORLD_FIRST_BACKEND };

static struct seen run_one(enum tt_fault_kind kind, uint16_t node, uint16_t other,
                           int64_t duration_ns) {
    struct tt_fault one = fault(kind, node, other, duration_ns);
    return run(&one, 1, WORLD_SLO);
}

static void nothing_fails(void **state) {
    (void)state;
    struct seen seen = run(NULL, 0, WORLD_SLO);
    assert_int_equal(seen.claim_count, 1);
    assert_int_equal(seen.not_in_time, 0);
    assert_int_equal(seen.result.stale + seen.result.returned + seen.result.suspected, 0);
}

/* The spare sees the connection end, so it claims after one message. */
static void the_primary_dies(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CRASH, PRIMARY, TT_CLUSTER_NO_NODE, TT_S);
    assert_int_equal(seen.claim_count, 2);
    assert_true(seen.claimed_at[1] - 500 * TT_MS < TT_MS);
    assert_int_equal(seen.not_in_time, 0);
}

/* Within the silence, the time for opinions, and a beat. */
static void the_primary_freezes(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_FREEZE, PRIMARY, TT_CLUSTER_NO_NODE, 500 * TT_MS);
    assert_int_equal(seen.claim_count, 2);
    assert_true(seen.claimed_at[1] - 500 * TT_MS <= (20 + 2 + 2) * TT_MS);
    assert_int_equal(seen.not_in_time, 0);
}

static void the_primary_is_cut_off(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CUT, PRIMARY, TT_CLUSTER_NO_NODE, TT_S);
    assert_int_equal(seen.claim_count, 2);
    assert_true(seen.claimed_at[1] - 500 * TT_MS <= (20 + 2 + 2) * TT_MS);
    assert_int_equal(seen.not_in_time, 0);
}

/* Frontends keep what still fits, then refuse; all is well after the restart. */
static void both_schedulers_die(void **state) {
    (void)state;
    struct tt_fault both[] = {fault(TT_FAULT_CRASH, PRIMARY, TT_CLUSTER_NO_NODE, 1200 * TT_MS),
                              fault(TT_FAULT_CRASH, SPARE, TT_CLUSTER_NO_NODE, 1200 * TT_MS)};
    struct seen seen = run(both, 2, WORLD_SLO);
    assert_true(seen.result.refused > 0);
    assert_true(seen.answers[TT_ANSWER_TIMED_OUT] > 0);
    assert_int_equal(seen.claim_count, 2);
    assert_true(seen.claimed_at[1] > 1700 * TT_MS);
}

static void the_spare_dies(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CRASH, SPARE, TT_CLUSTER_NO_NODE, TT_S);
    assert_int_equal(seen.claim_count, 1);
    assert_int_equal(seen.not_in_time, 0);
}

/* A deferred batch has no time to run again, so those of the dead devices are lost, and no others.
 */
static void a_backend_dies(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CRASH, BACKEND, TT_CLUSTER_NO_NODE, TT_S);
    assert_int_equal(seen.claim_count, 1);
    assert_true(seen.not_in_time <= seen.result.returned);
    assert_true(seen.not_in_time <= 2 * 32);
    assert_int_equal(seen.answers[TT_ANSWER_QUARANTINED], 0);
}

static void a_backend_freezes(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_FREEZE, BACKEND, TT_CLUSTER_NO_NODE, 300 * TT_MS);
    assert_int_equal(seen.claim_count, 1);
    assert_int_equal(seen.result.suspected, 1);
    assert_true(seen.result.returned > 0 && seen.not_in_time <= seen.result.returned);
    assert_true(seen.not_in_time <= 2 * 32);
    assert_int_equal(seen.answers[TT_ANSWER_TIMED_OUT], 0);
}

/* It is suspected, tried again when its batches have ended, and used as before when it is not slow
 * any more: nothing is late at the end. */
static void a_backend_is_slow(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_SLOW, BACKEND, TT_CLUSTER_NO_NODE, 300 * TT_MS);
    assert_int_equal(seen.claim_count, 1);
    assert_true(seen.result.suspected > 1);
    assert_true(seen.result.returned > 0 && seen.not_in_time <= seen.result.returned);
    assert_int_equal(seen.answers[TT_ANSWER_TIMED_OUT], 0);
}

static void a_frontend_dies(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CRASH, FRONTEND, TT_CLUSTER_NO_NODE, 300 * TT_MS);
    assert_true(seen.result.gone > 0);
    assert_int_equal(seen.not_in_time, 0); /* of those that still have a frontend */
}

/* Inputs do not come: their members go back at once and are not left to time out. */
static void a_frontend_and_a_backend_lose_each_other(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CUT, FRONTEND, BACKEND, TT_S);
    assert_int_equal(seen.claim_count, 1);
    assert_true(seen.result.returned > 0);
    assert_true(seen.not_in_time <= seen.result.returned);
    assert_true(seen.answers[TT_ANSWER_TIMED_OUT] <= 2 * 32); /* fetched before the cut */
}

/* The backend takes nothing while the two do not reach each other, and its share again after. */
static void a_lost_pair_is_avoided(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CUT, FRONTEND, BACKEND, TT_S);
    assert_true(seen.result.avoided > 0);
    /* Each time the backend is tried again costs a batch or two. */
    assert_true(seen.result.returned <= 64 * seen.result.avoided);
}

/* The others still hear the primary, so nothing happens. */
static void the_schedulers_lose_each_other(void **state) {
    (void)state;
    struct seen seen = run_one(TT_FAULT_CUT, PRIMARY, SPARE, 1400 * TT_MS);
    assert_int_equal(seen.claim_count, 1);
    assert_int_equal(seen.not_in_time, 0);
}

/* A crash of the primary ends the same, to the last answer, with and without the service. */
static void the_coordination_service_is_away(void **state) {
    (void)state;
    struct tt_fault both[] = {fault(TT_FAULT_RECORD, PRIMARY, TT_CLUSTER_NO_NODE, TT_S),
                              fault(TT_FAULT_CRASH, PRIMARY, TT_CLUSTER_NO_NODE, TT_S)};
    both[0].at = 0;
    struct seen without = run(both, 2, WORLD_SLO);
    assert_int_equal(without.claim_count, 2);
    assert_int_equal(without.not_in_time, 0);
    struct tt_fault away = fault(TT_FAULT_RECORD, PRIMARY, TT_CLUSTER_NO_NODE, TT_S);
    assert_true(run(&away, 1, WORLD_SLO).digest == run(NULL, 0, WORLD_SLO).digest);
}

/* A planned hand-over, with an objective in which a takeover by silence would not fit. */
static void the_primary_hands_over(void **state) {
    (void)state;
    struct tt_fault one = fault(TT_FAULT_RESIGN, PRIMARY, TT_CLUSTER_NO_NODE, 0);
    struct seen seen = run(&one, 1, 25 * TT_MS);
    assert_int_equal(seen.claim_count, 2);
    assert_int_equal(seen.not_in_time, 0);
}

/* A rolling update: nothing is lost, nothing is tried again. */
static void backends_are_replaced(void **state) {
    (void)state;
    struct tt_fault both[] = {fault(TT_FAULT_LEAVE, BACKEND, TT_CLUSTER_NO_NODE, 300 * TT_MS),
                              fault(TT_FAULT_LEAVE, BACKEND + 1, TT_CLUSTER_NO_NODE, 300 * TT_MS)};
    both[1].at += 400 * TT_MS;
    struct seen seen = run(both, 2, WORLD_SLO);
    assert_int_equal(seen.claim_count, 1);
    assert_int_equal(seen.not_in_time, 0);
    assert_int_equal(seen.result.returned + seen.result.suspected, 0);
}

/* The spare learns of it when it claims. */
static void a_backend_leaves_and_the_primary_dies(void **state) {
    (void)state;
    struct tt_fault both[] = {fault(TT_FAULT_LEAVE, BACKEND, TT_CLUSTER_NO_NODE, 600 * TT_MS),
                              fault(TT_FAULT_CRASH, PRIMARY, TT_CLUSTER_NO_NODE, TT_S)};
    both[1].at += 100 * TT_MS;
    struct seen seen = run(both, 2, WORLD_SLO);
    assert_int_equal(seen.claim_count, 2);
    assert_int_equal(seen.not_in_time, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails),
        cmocka_unit_test(the_primary_dies),
        cmocka_unit_test(the_primary_freezes),
        cmocka_unit_test(the_primary_is_cut_off),
        cmocka_unit_test(both_schedulers_die),
        cmocka_unit_test(the_spare_dies),
        cmocka_unit_test(a_backend_dies),
        cmocka_unit_test(a_backend_freezes),
        cmocka_unit_test(a_backend_is_slow),
        cmocka_unit_test(a_frontend_dies),
        cmocka_unit_test(a_frontend_and_a_backend_lose_each_other),
        cmocka_unit_test(a_lost_pair_is_avoided),
        cmocka_unit_test(the_schedulers_lose_each_other),
        cmocka_unit_test(the_coordination_service_is_away),
        cmocka_unit_test(the_primary_hands_over),
        cmocka_unit_test(backends_are_replaced),
        cmocka_unit_test(a_backend_leaves_and_the_primary_dies),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shared_permille = 700;
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    shared_permille = 800;
    remote_permille = 1000; /* of the others */
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
