/* The scheduler of a cluster learns from its backends' reports how long batches take, and plans
 * with that: where profiles are wrong, where they become right again, and after a takeover. */
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

enum { PLAYED_S = 6 };

struct seen {
    struct virtual_world world;
    struct tt_virtual_options options;
    int64_t from_at, all, bad; /* of requests that came from that instant on */
    int64_t changes_at;        /* batches take what their profile says from then on */
    int64_t rises_at;          /* 20 times the load from then on, so that batches are large */
    int64_t share_permille;    /* believed of a batch of most rows, of its profile; the last seen */
    struct tt_virtual_result result;
};

static void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct seen *self = context;
    if (ending->accepted_at < self->from_at)
        return;
    self->all++;
    self->bad += ending->answer != TT_ANSWER_DONE || ending->ended_at > ending->deadline_at;
}

static void look(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct seen *self = context;
    int32_t rows = self->world.models[0].max_batch;
    const struct tt_profile *believed = primary->pools[0].mechanism.models[0]->whole;
    self->share_permille = tt_profile_latency(believed, rows, 0) * 1000 /
                           tt_profile_latency(self->world.profile, rows, 0);
    if (now >= self->changes_at)
        self->options.run_permille = 1000;
    if (now >= self->rises_at)
        self->options.gap_ns = 100 * TT_US;
}

static void begin(struct seen *self, int32_t run_permille, uint64_t seed) {
    *self = (struct seen){.from_at = TT_S, .changes_at = TT_NEVER, .rises_at = TT_NEVER};
    virtual_world_init(&self->world);
    self->world.settings.overdue_ns = 100 * TT_MS;
    self->options = virtual_world_options(&self->world, seed);
    self->options.until_at = PLAYED_S * TT_S;
    self->options.gap_ns = 2 * TT_MS; /* so few that batches wait for the last instant */
    self->options.delay_ns = 20 * TT_US;
    self->options.run_permille = run_permille;
    self->options.context = self;
    self->options.ended = on_ended;
    self->options.place_gap_ns = 10 * TT_MS;
    self->options.place = look;
}

static double bad_share(struct seen *self) {
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&self->options, &self->result, &why), TT_OK);
    assert_string_equal(self->result.violation, "");
    assert_true(self->all > 1000);
    virtual_world_fini(&self->world);
    return (double)self->bad / (double)self->all;
}

static const char *const policies[] = {"symphony", "timeout", "deferred"};

/* Batches take 2.5 times what their profile says: a policy that waits for the last instant is late.
 */
static void less_is_late_than_by_profiles(void **state) {
    (void)state;
    static const struct tt_option share = {"share", "0.97"};
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        const struct tt_scheduler_policy policy = {
            .name = policies[i], .options = &share, .option_count = i == 1};
        double bad[2] = {0};
        for (int32_t learns = 0; learns < 2; learns++) {
            struct seen seen;
            begin(&seen, 2500, test_seed(1));
            seen.options.policy = &policy;
            if (!learns)
                seen.world.settings.learn_percent = 0;
            bad[learns] = bad_share(&seen);
            assert_true(!learns || (seen.share_permille > 2300 && seen.share_permille < 2700));
            assert_true(learns || seen.share_permille == 1000);
        }
        print_message("%s: %.2f %% bad by profiles, %.2f %% learnt\n", policy.name, 100 * bad[0],
                      100 * bad[1]);
        assert_true(bad[1] <= bad[0]);
        assert_true(i == 2 || (bad[0] > 0.1 && bad[1] < 0.02));
    }
}

/* Fifty times as long for two seconds: nothing could be in time, and so would nothing ever be. */
static void it_does_not_starve(void **state) {
    (void)state;
    struct seen seen;
    begin(&seen, 50000, test_seed(2));
    seen.changes_at = 2 * TT_S;
    seen.from_at = 3 * TT_S;
    double bad = bad_share(&seen);
    print_message("%.2f %% bad; %lld permille of the profile believed\n", 100 * bad,
                  (long long)seen.share_permille);
    assert_true(bad < 0.01);
    assert_true(seen.share_permille > 900 && seen.share_permille < 1100);
}

/* Grants are not overdue before they take longer than is believed. What small batches teach helps
 * large ones. */
static void slow_backends_are_not_suspected(void **state) {
    (void)state;
    static const struct tt_scheduler_policy policy = {.name = "symphony"};
    int64_t suspected[2];
    for (int32_t learns = 0; learns < 2; learns++) {
        struct seen seen;
        begin(&seen, 3000, test_seed(3));
        seen.options.policy = &policy;
        seen.world.settings.overdue_ns = 3 * TT_MS;
        seen.rises_at = 3 * TT_S;
        if (!learns)
            seen.world.settings.learn_percent = 0;
        (void)bad_share(&seen);
        suspected[learns] = seen.result.suspected;
    }
    print_message("%lld suspicions by profiles, %lld learnt\n", (long long)suspected[0],
                  (long long)suspected[1]);
    assert_true(suspected[0] > 10 && suspected[1] == 0);
}

/* All batches take longer than the time after which they are overdue: the scheduler waits longer
 * each time, until some end, and learns from them. */
static void a_slow_fleet_is_learnt(void **state) {
    (void)state;
    struct seen seen;
    begin(&seen, 8000, test_seed(5));
    seen.world.settings.overdue_ns = 5 * TT_MS;
    seen.from_at = 2 * TT_S;
    double bad = bad_share(&seen);
    print_message("%.2f %% bad, %lld suspicions\n", 100 * bad, (long long)seen.result.suspected);
    assert_true(bad < 0.02);
    assert_true(seen.share_permille > 7000 && seen.share_permille < 9000);
    assert_true(seen.result.suspected < 50);
}

/* The next primary begins with profiles, and learns. */
static void the_next_primary_learns(void **state) {
    (void)state;
    static const struct tt_fault faults[] = {{.at = 3 * TT_S,
                                              .duration_ns = 10 * TT_S,
                                              .kind = TT_FAULT_CRASH,
                                              .node = 0,
                                              .other = TT_CLUSTER_NO_NODE}};
    static const struct tt_scheduler_policy policy = {.name = "symphony"};
    struct seen seen;
    begin(&seen, 2500, test_seed(4));
    seen.options.policy = &policy;
    seen.options.faults = faults;
    seen.options.fault_count = 1;
    seen.from_at = 4 * TT_S;
    seen.options.until_at = 8 * TT_S;
    double bad = bad_share(&seen);
    print_message("%.2f %% bad\n", 100 * bad);
    assert_true(seen.result.claims > 1);
    assert_true(bad < 0.02);
    assert_true(seen.share_permille > 2300 && seen.share_permille < 2700);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_is_late_than_by_profiles),   cmocka_unit_test(it_does_not_starve),
        cmocka_unit_test(slow_backends_are_not_suspected), cmocka_unit_test(a_slow_fleet_is_learnt),
        cmocka_unit_test(the_next_primary_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
