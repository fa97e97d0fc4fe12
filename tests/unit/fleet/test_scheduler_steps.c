/* slow */
/* S4, S6, S10: a cluster in virtual time whose schedulers have the multicore scheduler. Its turns
 * run within decide, so that the same seed gives the same events. */
#include "multicore/threaded_policy.h"
#include "unit/cluster/fault_worlds.h"

enum { WORLDS = 100, ENDINGS = 1 << 16 };

static void no_wake(void *context) { (void)context; }

/* The context: the number of threads that the turns are for. */
static enum tt_err create(void *context, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, bool is_again,
                          struct tt_error *why) {
    (void)is_again;
    const struct tt_threaded_policy_options options = {.threads = *(const int32_t *)context,
                                                       .max_batch = limits->max_batch,
                                                       .request_limit = limits->request_limit,
                                                       .wake = no_wake};
    return tt_threaded_policy_create(mechanism, "deferred", setup, &options, why);
}

static struct tt_scheduler_policy policy_of(int32_t *threads) {
    return (struct tt_scheduler_policy){.name = "deferred", .create = create, .context = threads};
}

struct endings {
    struct tt_virtual_ending all[ENDINGS];
    int32_t count, ahead; /* ahead: devices seen with a second batch, which was sent ahead */
};

static void note(void *context, const struct tt_virtual_ending *ending) {
    struct endings *self = context;
    assert_true(self->count < ENDINGS);
    self->all[self->count++] = *ending;
}

static void look(void *context, int64_t now, struct tt_scheduler_role *primary) {
    (void)now;
    struct endings *self = context;
    for (int32_t i = 0; i < primary->device_count; i++)
        self->ahead += primary->devices[i].count == 2;
}

/* One thread decides as the policy on the node's thread does: the same endings at the same
 * instants, through a takeover, and the loss of a backend. */
static void one_thread_decides_as_none(void **state) {
    (void)state;
    static struct endings endings[2];
    const struct tt_fault faults[] = {
        {.at = 200 * TT_MS,
         .duration_ns = 100 * TT_MS,
         .kind = TT_FAULT_CRASH,
         .node = 0,
         .other = TT_CLUSTER_NO_NODE},
        {.at = 500 * TT_MS,
         .duration_ns = 100 * TT_MS,
         .kind = TT_FAULT_FREEZE,
         .node = WORLD_FIRST_BACKEND,
         .other = TT_CLUSTER_NO_NODE},
    };
    struct virtual_world world;
    virtual_world_init(&world);
    world.settings.learn_percent = 0; /* threads decide by profiles */
    int32_t threads = 1;
    const struct tt_scheduler_policy threaded = policy_of(&threads);
    struct tt_virtual_result results[2];
    for (int32_t i = 0; i < 2; i++) {
        struct tt_virtual_options options = virtual_world_options(&world, test_seed(3));
        options.gap_ns = 100 * TT_US;
        options.faults = faults;
        options.fault_count = 2;
        options.context = &endings[i];
        options.ended = note;
        options.place_gap_ns = 5 * TT_MS;
        options.place = look;
        if (i)
            options.policy = &threaded;
        struct tt_error why;
        endings[i].count = endings[i].ahead = 0;
        assert_int_equal(tt_virtual_cluster_run(&options, &results[i], &why), TT_OK);
        assert_string_equal(results[i].violation, "");
    }
    assert_true(results[0].claims > 1 && results[0].returned > 0 && results[0].suspected > 0);
    assert_true(endings[0].ahead > 0); /* S4 */
    assert_int_equal(endings[0].ahead, endings[1].ahead);
    assert_int_equal(endings[0].count, endings[1].count);
    for (int32_t i = 0; i < endings[0].count; i++) {
        assert_int_equal(endings[0].all[i].accepted_at, endings[1].all[i].accepted_at);
        assert_int_equal(endings[0].all[i].ended_at, endings[1].all[i].ended_at);
        assert_int_equal(endings[0].all[i].answer, endings[1].all[i].answer);
    }
    assert_int_equal(results[0].events, results[1].events);
    virtual_world_fini(&world);
}

static void invariants_hold_with(int32_t threads) {
    const struct tt_scheduler_policy policy = policy_of(&threads);
    play_worlds(&(struct fault_worlds){.count = WORLDS, .policy = &policy});
}

static void invariants_hold_with_one_thread(void **state) {
    (void)state;
    invariants_hold_with(1);
}

/* Three threads: two of models, and one that ranks. */
static void invariants_hold_with_three_threads(void **state) {
    (void)state;
    invariants_hold_with(3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_decides_as_none),
                                       cmocka_unit_test(invariants_hold_with_one_thread),
                                       cmocka_unit_test(invariants_hold_with_three_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
