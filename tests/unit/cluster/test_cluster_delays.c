/* S4: the delays between a scheduler and its backends, some of which are far. The scheduler does
 * not know them at first, and learns them from round trips. Then the timers of each policy of the
 * family count with them, and less is late. */
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

enum { BACKENDS = WORLD_NODES - WORLD_FIRST_BACKEND };

struct seen {
    struct virtual_world world;
    int64_t far_ns[WORLD_NODES], later_ns[WORLD_NODES]; /* later_ns: from `changes_at` on */
    int64_t changes_at;
    int64_t all, bad; /* of requests that came after the first second */
    struct tt_network_delay believed[WORLD_NODES];
    int32_t counts[WORLD_NODES];
    struct tt_virtual_result result;
};

static void on_ended(void *context, const struct tt_virtual_ending *ending) {
    struct seen *self = context;
    if (ending->accepted_at < TT_S)
        return;
    self->all++;
    self->bad += ending->answer != TT_ANSWER_DONE || ending->ended_at > ending->deadline_at;
}

static void look(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct seen *self = context;
    for (uint16_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++) {
        bool is_known = tt_scheduler_role_delay(primary, i, &self->believed[i], &self->counts[i]);
        assert_true(is_known);
    }
    for (int32_t i = 0; now >= self->changes_at && i < WORLD_NODES; i++)
        self->far_ns[i] = self->later_ns[i];
}

/* So far is each backend. */
static void begin(struct seen *self, const int64_t far_ns[BACKENDS]) {
    *self = (struct seen){.changes_at = TT_NEVER};
    virtual_world_init(&self->world);
    self->world.settings.control_ns = 0;
    self->world.settings.overdue_ns = 100 * TT_MS;
    self->world.settings.fetch_ns = 100 * TT_MS;
    for (int32_t i = 0; i < BACKENDS; i++)
        self->far_ns[WORLD_FIRST_BACKEND + i] = far_ns[i];
}

static struct tt_virtual_options options_of(struct seen *self, uint64_t seed) {
    struct tt_virtual_options options = virtual_world_options(&self->world, seed);
    options.until_at = 4 * TT_S;
    options.delay_ns = 20 * TT_US;
    options.far_ns = self->far_ns;
    options.context = self;
    options.ended = on_ended;
    options.place_gap_ns = 10 * TT_MS;
    options.place = look;
    return options;
}

static void play(struct seen *self, const struct tt_virtual_options *options) {
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(options, &self->result, &why), TT_OK);
    assert_string_equal(self->result.violation, "");
    assert_true(self->all > 1000);
    virtual_world_fini(&self->world);
}

/* A grant, a fetch, an input and a report, each as far; and one message in 100 is slow. */
static void assert_near(const struct seen *self, int32_t node, int64_t far_ns, int32_t messages) {
    int64_t error_ns = tt_network_delay_of(self->believed[node], 4) - messages * far_ns;
    if (error_ns < -messages * far_ns / 20 || error_ns > messages * far_ns / 10 + TT_MS)
        print_message("node %d: %lld ns and %lld ns per row for %d messages of %lld ns\n",
                      (int)node, (long long)self->believed[node].control_ns,
                      (long long)self->believed[node].data_ns, (int)messages, (long long)far_ns);
    assert_true(self->counts[node] == TT_NETWORK_DELAY_WINDOW);
    assert_true(error_ns >= -messages * far_ns / 20);
    assert_true(error_ns <= messages * far_ns / 10 + TT_MS);
}

static const int64_t distances[BACKENDS] = {0, TT_MS, 2 * TT_MS, 4 * TT_MS};

static void each_backend_has_its_own(void **state) {
    (void)state;
    for (int32_t is_shared = 0; is_shared < 2; is_shared++) {
        struct seen seen;
        begin(&seen, distances);
        struct tt_virtual_options options = options_of(&seen, test_seed(1));
        options.gap_ns = 60 * TT_US; /* so that the last devices have work, too */
        options.shared_permille = is_shared ? 1000 : 0;
        play(&seen, &options);
        for (int32_t i = 0; i < BACKENDS; i++)
            assert_near(&seen, WORLD_FIRST_BACKEND + i, distances[i], is_shared ? 2 : 4);
    }
}

/* The far one comes near, and the near one is far. */
static void what_is_learnt_follows(void **state) {
    (void)state;
    struct seen seen;
    begin(&seen, distances);
    seen.changes_at = 2 * TT_S;
    for (int32_t i = 0; i < BACKENDS; i++)
        seen.later_ns[WORLD_FIRST_BACKEND + i] = distances[BACKENDS - 1 - i];
    struct tt_virtual_options options = options_of(&seen, test_seed(2));
    options.gap_ns = 60 * TT_US;
    play(&seen, &options);
    for (int32_t i = 0; i < BACKENDS; i++)
        assert_near(&seen, WORLD_FIRST_BACKEND + i, distances[BACKENDS - 1 - i], 4);
}

/* Inputs take time by their number: a delay per row. */
static void inputs_take_time(void **state) {
    (void)state;
    static const int64_t equal[BACKENDS] = {TT_MS, TT_MS, TT_MS, TT_MS};
    struct seen seen;
    begin(&seen, equal);
    struct tt_virtual_options options = options_of(&seen, test_seed(3));
    options.gap_ns = 60 * TT_US;
    options.input_ns = 200 * TT_US;
    play(&seen, &options);
    int64_t data_ns = 0;
    for (int32_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++)
        data_ns += seen.believed[i].data_ns / BACKENDS;
    /* Rows come from two frontends at once. */
    print_message("%lld ns per row\n", (long long)data_ns);
    assert_true(data_ns >= 60 * TT_US && data_ns <= 220 * TT_US);
}

static const struct {
    const char *name;
    struct tt_option option;
    bool defers; /* to the last instant: without delays its batches are late */
} policies[] = {{"deferred", {NULL, NULL}, false},
                {"eager", {NULL, NULL}, false},
                {"symphony", {NULL, NULL}, true},
                {"timeout", {"share", "0.9"}, true}};

static double bad_share(const struct tt_scheduler_policy *policy, bool learns, int64_t given_ns,
                        uint64_t seed) {
    static const int64_t equal[BACKENDS] = {2 * TT_MS, 2 * TT_MS, 2 * TT_MS, 2 * TT_MS};
    struct seen seen;
    begin(&seen, equal);
    seen.world.settings.learns_delays = learns;
    seen.world.settings.control_ns = given_ns;
    struct tt_virtual_options options = options_of(&seen, seed);
    options.policy = policy;
    options.gap_ns = 2 * TT_MS; /* so few that batches wait for the last instant */
    if (!learns)
        options.place_gap_ns = 0;
    play(&seen, &options);
    return (double)seen.bad / (double)seen.all;
}

static void less_is_late_than_without(void **state) {
    (void)state;
    for (size_t i = 0; i < TT_COUNT(policies); i++) {
        const struct tt_scheduler_policy policy = {.name = policies[i].name,
                                                   .options = &policies[i].option,
                                                   .option_count = policies[i].option.key != NULL};
        uint64_t seed = test_seed(4);
        double given = bad_share(&policy, false, 4 * 2 * TT_MS, seed);
        double without = bad_share(&policy, false, 0, seed);
        double learnt = bad_share(&policy, true, 0, seed);
        print_message("%s: %.2f %% bad with the true delay, %.2f %% learnt, %.2f %% without\n",
                      policy.name, 100 * given, 100 * learnt, 100 * without);
        assert_true(learnt <= given + 0.02);
        assert_true(learnt <= without);
        assert_true(!policies[i].defers || (without > 0.1 && learnt < without / 2));
    }
}

/* All backends are farther than the objective allows for two seconds. What was learnt then would
 * drop every request for ever. */
static void it_does_not_starve(void **state) {
    (void)state;
    static const int64_t equal[BACKENDS] = {20 * TT_MS, 20 * TT_MS, 20 * TT_MS, 20 * TT_MS};
    struct seen seen;
    begin(&seen, equal);
    seen.changes_at = 2 * TT_S; /* 0 from then on */
    struct tt_virtual_options options = options_of(&seen, test_seed(5));
    options.gap_ns = TT_MS;
    play(&seen, &options);
    for (int32_t i = WORLD_FIRST_BACKEND; i < WORLD_FIRST_BACKEND + 1; i++)
        assert_near(&seen, i, 0, 4);
    assert_true(seen.bad < seen.all / 2); /* a third came while nothing could be in time */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_backend_has_its_own), cmocka_unit_test(what_is_learnt_follows),
        cmocka_unit_test(inputs_take_time),         cmocka_unit_test(less_is_late_than_without),
        cmocka_unit_test(it_does_not_starve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
