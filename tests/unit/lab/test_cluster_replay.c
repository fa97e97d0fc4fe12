/* threaded */
/* S4: what the primary of a cluster decides while it learns how far its backends are replays to the
 * same decisions. Backends lack models, so that devices change places; a backend and a primary end
 * meanwhile. (Threads of a scheduler are recorded in tests/integration/test_cluster_recording.py.)
 */
#include "core/observer.h"
#include "lab/replay/replay.h"
#include "record/recorder_streams.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_DOMAINS = 32, WORLDS = 3 };

struct domain {
    const struct tt_mechanism *mechanism; /* NULL: it has ended */
    struct tt_recorder_streams streams;
    struct tt_observer observer;
};

struct recorded {
    struct tt_recorder *recorder;
    struct domain domains[MOST_DOMAINS];
    int32_t count;
    int64_t moved, ahead; /* executors to another device; batches sent to one that has a batch */
};

static struct recorded recorded;

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    (void)observer;
    recorded.moved += event->kind == TT_EVENT_EXECUTOR && event->change == TT_CHANGE_MOVED;
    recorded.ahead +=
        event->kind == TT_EVENT_RUN && event->domain->executors[event->task->executor].queued == 2;
}

static enum tt_err create(void *context, struct tt_mechanism *mechanism,
                          const struct tt_policy_setup *setup,
                          const struct tt_mechanism_options *limits, bool is_again,
                          struct tt_error *why) {
    (void)context;
    (void)is_again;
    enum tt_err err = tt_policy_create(mechanism, "deferred", setup, why);
    char name[] = "deferred";
    const struct tt_record_domain domain = {.policy = name,
                                            .limits = *limits,
                                            .d_ctrl_ns = setup->d_ctrl_ns,
                                            .d_data_ns = setup->d_data_ns};
    assert_int_equal(err, TT_OK);
    assert_true(recorded.count < MOST_DOMAINS);
    struct domain *self = &recorded.domains[recorded.count++];
    self->mechanism = mechanism;
    self->observer.observe = observe;
    tt_mechanism_observe(mechanism, &self->observer);
    return tt_recorder_streams_add(recorded.recorder, mechanism, &domain, &self->streams, why);
}

static void destroyed(void *context, struct tt_mechanism *mechanism) {
    (void)context;
    for (int32_t i = 0; i < recorded.count; i++)
        if (recorded.domains[i].mechanism == mechanism) {
            tt_recorder_streams_leave(&recorded.domains[i].streams);
            recorded.domains[i].mechanism = NULL;
        }
}

static void play(uint64_t seed) {
    static const struct tt_scheduler_policy policy = {
        .name = "deferred", .create = create, .destroyed = destroyed};
    static const int64_t far_ns[WORLD_NODES] = {0, 0, 0, 0, 0, TT_MS, 2 * TT_MS, 3 * TT_MS};
    static const struct tt_fault faults[] = {
        {.at = 400 * TT_MS,
         .duration_ns = 100 * TT_MS,
         .kind = TT_FAULT_CRASH,
         .node = WORLD_FIRST_BACKEND,
         .other = TT_CLUSTER_NO_NODE},
        {.at = 700 * TT_MS,
         .duration_ns = 100 * TT_MS,
         .kind = TT_FAULT_RESIGN,
         .node = 0,
         .other = TT_CLUSTER_NO_NODE},
    };
    bool lacks[WORLD_NODES * WORLD_MODELS] = {false};
    struct virtual_world world;
    struct tt_virtual_result result;
    struct tt_error why;
    virtual_world_init(&world);
    world.settings.overdue_ns = 50 * TT_MS;
    for (int32_t i = 0; i < WORLD_MODELS; i++) /* the nearest ones */
        lacks[(WORLD_FIRST_BACKEND + i) * WORLD_MODELS + i] = true;
    struct tt_virtual_options options = virtual_world_options(&world, seed);
    options.policy = &policy;
    options.gap_ns = 100 * TT_US;
    options.delay_ns = 20 * TT_US;
    options.far_ns = far_ns;
    options.lacks = lacks;
    options.faults = faults;
    options.fault_count = 2;
    assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
    assert_string_equal(result.violation, "");
    assert_true(result.claims > 1);
    virtual_world_fini(&world);
}

static void replay(const char *path) {
    struct tt_recording recording;
    struct tt_error why;
    int64_t decisions = 0;
    assert_int_equal(tt_recording_open(path, &recording, &why), TT_OK);
    assert_int_equal(recording.domain_count, recorded.count);
    for (int32_t i = 0; i < recording.domain_count; i++) {
        struct tt_replay one;
        enum tt_err err = tt_replay_run(&recording, i, true, NULL, &one, &why);
        if (err || one.differs)
            print_message("%s\n", err ? why.text : one.difference.text);
        assert_int_equal(err, TT_OK);
        assert_true(!one.differs && !one.cut && one.lost == 0);
        decisions += one.decisions;
        tt_replay_fini(&one);
    }
    assert_true(decisions > 500);
    tt_recording_close(&recording);
}

static void it_replays(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/tutti-cluster-replay-%d", (int)getpid());
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        const struct tt_recorder_options options = {
            .path = path, .ring_bytes = 16 << 20, .program = "test"};
        struct tt_error why;
        recorded = (struct recorded){0};
        assert_int_equal(tt_recorder_open(&options, &recorded.recorder, &why), TT_OK);
        play(seed);
        assert_int_equal(tt_recorder_close(recorded.recorder, &why), TT_OK);
        print_message("%d domains, %d moves to other devices, %d batches sent ahead\n",
                      (int)recorded.count, (int)recorded.moved, (int)recorded.ahead);
        assert_true(recorded.moved > 0 && recorded.ahead > 0);
        replay(path);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_replays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
