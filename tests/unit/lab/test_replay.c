/* threaded */
/* slow */
/* A recording replays to the same decisions: random worlds under every policy, with learning and
 * without. A recording that is cut or damaged, has gaps, or is of a policy that decides differently
 * is distinguished from a complete one. */
#include "base/text.h"
#include "lab/replay/replay.h"
#include "lab/run/scenario_run.h"
#include "unit/lab/recorded_world.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

/* Worlds of each policy. The recorder's thread does the same in every one, and sanitizers make each
 * up to 30 times as long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WORLDS 2
#else
#define WORLDS 12
#endif

static char path[64];

static struct tt_recorder *record(size_t ring_bytes) {
    struct tt_recorder_options options = {
        .path = path, .ring_bytes = ring_bytes, .program = "test"};
    struct tt_recorder *recorder;
    struct tt_error why;
    assert_int_equal(tt_recorder_open(&options, &recorder, &why), TT_OK);
    return recorder;
}

/* The file of a world's recording. */
static void make_learning(struct recorded_world *world, uint64_t seed, int64_t requests,
                          const char *policy, const struct tt_option *options, int32_t option_count,
                          int32_t learn_percent) {
    struct tt_recorder *recorder = record(64 << 20);
    learning_world_run(world, seed, requests, policy, options, option_count, recorder,
                       learn_percent);
    struct tt_error why;
    enum tt_err err = tt_recorder_close(recorder, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
}

static void make(struct recorded_world *world, uint64_t seed, int64_t requests, const char *policy,
                 const struct tt_option *options, int32_t option_count) {
    make_learning(world, seed, requests, policy, options, option_count, 0);
}

static void replay_file(struct tt_recording *recording, struct tt_replay *replay) {
    struct tt_error why;
    enum tt_err err = tt_recording_open(path, recording, &why);
    if (!err)
        err = tt_replay_run(recording, 0, true, NULL, replay, &why);
    if (err)
        print_message("%s\n", why.text);
    assert_int_equal(err, TT_OK);
}

/* Returns how often a belief moved. */
static int64_t replays_learning(const char *policy, const struct tt_option *options,
                                int32_t option_count, uint64_t seed, int32_t learn_percent) {
    struct recorded_world world;
    make_learning(&world, seed, 1500, policy, options, option_count, learn_percent);
    struct tt_recording recording;
    struct tt_replay replay;
    replay_file(&recording, &replay);
    if (replay.differs)
        print_message("policy %s, seed %d: %s\n", policy, (int)seed, replay.difference.text);
    assert_false(replay.differs);
    assert_true(recording.complete);
    assert_false(replay.cut);
    assert_int_equal(replay.lost, 0);
    assert_int_equal(replay.arrival_count, 1500);
    /* The same happened: what the world saw end is what the replay saw end. */
    struct tt_measure_model total;
    tt_measure_total(&replay.measure, &total);
    assert_int_equal(total.ok + total.late, world.ended[TT_ENDING_DONE]);
    assert_int_equal(total.cancelled, world.ended[TT_ENDING_CANCELLED]);
    assert_int_equal(total.failed, world.ended[TT_ENDING_FAILED]);
    assert_int_equal(total.batch_rows.count, world.executions);
    assert_true(replay.decisions >= world.executions);
    tt_measure_model_fini(&total);
    tt_replay_fini(&replay);
    tt_recording_close(&recording);
    return world.moves;
}

static void replays(const char *policy, const struct tt_option *options, int32_t option_count,
                    uint64_t seed) {
    assert_int_equal(replays_learning(policy, options, option_count, seed, 0), 0);
}

/* Devices change their speed; what policies believed is computed again from the recording. */
static void beliefs_replay(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        int64_t moves = 0;
        for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
            print_message("policy %s seed %d\n", tt_policy_at(i)->name, (int)seed);
            moves +=
                replays_learning(tt_policy_at(i)->name, NULL, 0, seed, 80 + (int32_t)(seed % 20));
        }
        assert_true(moves > 0);
    }
}

static void every_policy_replays(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++)
        for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
            print_message("policy %s seed %d\n", tt_policy_at(i)->name, (int)seed);
            replays(tt_policy_at(i)->name, NULL, 0, seed);
        }
}

static void options_are_part_of_it(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        struct tt_option options[3];
        int32_t count;
    } variants[] = {
        {"serial", {{"drop", "deadline"}}, 1},
        {"window", {{"max_delay", "3ms"}, {"order", "round_robin"}, {"drop", "deadline"}}, 3},
        {"window", {{"max_delay", "5ms"}, {"same_length", "on"}, {"max_batch", "4"}}, 3},
        {"nexus", {{"epoch", "20ms"}, {"frontends", "3"}}, 2},
        {"shepherd", {{"threshold", "1.5"}, {"abort_cost", "1ms"}}, 2},
    };
    for (size_t i = 0; i < TT_COUNT(variants); i++)
        for (uint64_t seed = test_seed(100), end = seed + 5; seed < end; seed++)
            replays(variants[i].policy, variants[i].options, variants[i].count, seed);
}

/* ---- files that are not as they should be ---- */

static void read_back(struct tt_text *bytes) {
    struct tt_error why;
    tt_text_init(bytes);
    assert_int_equal(tt_text_read_file(path, 1 << 30, bytes, &why), TT_OK);
}

static void a_cut_file_replays_up_to_the_cut(void **state) {
    (void)state;
    struct recorded_world world;
    struct tt_recorder *recorder = record(64 << 20);
    recorded_world_run(&world, 7, 400, "deferred", NULL, 0, recorder);
    usleep(30000); /* so that there is more than one block, mostly */
    struct tt_error why;
    assert_int_equal(tt_recorder_close(recorder, &why), TT_OK);
    struct tt_text bytes;
    read_back(&bytes);
    size_t step = bytes.length / 97 + 1;
    for (size_t length = TT_RECORDING_HEADER_BYTES; length < bytes.length; length += step) {
        struct tt_recording recording;
        assert_int_equal(tt_recording_open_memory(bytes.bytes, length, "cut", &recording, &why),
                         TT_OK);
        assert_false(recording.complete);
        if (recording.stream_count > 0) {
            struct tt_replay replay;
            assert_int_equal(tt_replay_run(&recording, 0, true, NULL, &replay, &why), TT_OK);
            assert_false(replay.differs);
            assert_true(replay.cut);
            tt_replay_fini(&replay);
        }
        tt_recording_close(&recording);
    }
    tt_text_fini(&bytes);
}

static void refused(const struct tt_text *bytes, size_t length, const char *says) {
    struct tt_recording recording;
    struct tt_error why;
    assert_int_equal(tt_recording_open_memory(bytes->bytes, length, "f", &recording, &why),
                     TT_ERR_INVALID);
    if (!strstr(why.text, says))
        print_message("'%s' lacks '%s'\n", why.text, says);
    assert_non_null(strstr(why.text, says));
    assert_non_null(strstr(why.text, "offset"));
}

static void damage_is_told_with_its_offset(void **state) {
    (void)state;
    struct recorded_world world;
    make(&world, 3, 200, "window", NULL, 0);
    struct tt_text bytes;
    read_back(&bytes);
    refused(&bytes, 0, "not a recording");
    refused(&bytes, 20, "offset 20: the file ends within its header");
    bytes.bytes[60] ^= 1; /* in the first block, however many there are */
    refused(&bytes, bytes.length, "offset 40: the block is damaged");
    bytes.bytes[60] ^= 1; /* in the first block, however many there are */
    bytes.bytes[8] = 9;
    refused(&bytes, bytes.length, "version 9; this program reads versions 1 to 4");
    bytes.bytes[8] = TT_RECORDING_VERSION;
    bytes.bytes[17] ^= 1;
    refused(&bytes, bytes.length, "the header is damaged");
    bytes.bytes[17] ^= 1;
    bytes.bytes[40] ^= 1;
    refused(&bytes, bytes.length, "offset 40: no block begins");
    bytes.bytes[40] ^= 1;
    bytes.bytes[0] = 'X';
    refused(&bytes, bytes.length, "offset 0: this is not a recording");
    bytes.bytes[0] = 'T';
    tt_text_append(&bytes, "more", 4);
    refused(&bytes, bytes.length, "after the end mark");
    /* What a machine that went down may leave behind. */
    bytes.length -= 4 + TT_RECORDING_BLOCK_BYTES;
    char zeros[100] = {0};
    tt_text_append(&bytes, zeros, sizeof(zeros));
    struct tt_recording recording;
    struct tt_error why;
    assert_int_equal(tt_recording_open_memory(bytes.bytes, bytes.length, "f", &recording, &why),
                     TT_OK);
    assert_false(recording.complete);
    tt_recording_close(&recording);
    tt_text_fini(&bytes);
}

/* A ring that is never emptied in time: events are lost, the file says so, and what is before the
 * first gap replays. */
/* No file of this process grows over so many bytes from now on; 0: as it was. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full for a while, and so is then the ring. */
/* Of version 1: it had fewer kinds of events, those as they are now. */
static void an_older_file_replays(void **state) {
    (void)state;
    struct recorded_world world;
    make(&world, 5, 200, "deferred", NULL, 0);
    struct tt_text bytes;
    read_back(&bytes);
    tt_put_u32((uint8_t *)bytes.bytes + 8, 1);
    tt_put_u32((uint8_t *)bytes.bytes + 36, (uint32_t)crc32(0, (uint8_t *)bytes.bytes, 36));
    struct tt_recording recording;
    struct tt_replay replay;
    struct tt_error why;
    assert_int_equal(tt_recording_open_memory(bytes.bytes, bytes.length, "f", &recording, &why),
                     TT_OK);
    assert_int_equal(tt_replay_run(&recording, 0, true, NULL, &replay, &why), TT_OK);
    assert_false(replay.differs);
    assert_true(replay.decisions > 10);
    tt_replay_fini(&replay);
    tt_recording_close(&recording);
    tt_text_fini(&bytes);
}

static void gaps_are_marked(void **state) {
    (void)state;
    struct recorded_world world;
    signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
    struct tt_recorder *recorder = record(16384);
    limit_files(16384);
    recorded_world_run(&world, 5, 20000, "eager", NULL, 0, recorder);
    limit_files(0);
    int64_t lost = tt_recorder_stats(recorder).lost_events;
    struct tt_error why;
    enum tt_err err = tt_recorder_close(recorder, &why);
    assert_true(lost > 0);
    assert_int_equal(err, TT_ERR_IO);
    assert_non_null(strstr(why.text, "gaps"));
    struct tt_recording recording;
    struct tt_replay replay;
    replay_file(&recording, &replay);
    assert_false(replay.differs);
    assert_true(recording.complete);
    assert_true(replay.lost > 0 && replay.lost <= lost);
    assert_true(replay.events > 100);
    /* All losses are in the file. */
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *event;
    assert_int_equal(tt_recording_cursor_init(&cursor, &recording, 0, &why), TT_OK);
    int64_t told = 0;
    do {
        assert_int_equal(tt_recording_next(&cursor, &event, &why), TT_OK);
        told += event && event->kind == TT_RECORD_GAP ? event->lost : 0;
    } while (event);
    assert_int_equal(told, lost);
    tt_recording_cursor_fini(&cursor);
    tt_replay_fini(&replay);
    tt_recording_close(&recording);
}

/* ---- decisions that differ ---- */

/* The recording of a policy, relabelled as another's: blocks are rebuilt so that only that differs.
 */
static void another_policy_differs(void **state) {
    (void)state;
    struct recorded_world world;
    make(&world, 11, 500, "eager", NULL, 0);
    struct tt_text bytes;
    read_back(&bytes);
    /* "eager" and "nexus" have the same length: the description stays in shape. */
    char *name = memmem(bytes.bytes, bytes.length, "eager", 5);
    assert_non_null(name);
    memcpy(name, "nexus", 5);
    struct tt_recording recording;
    struct tt_error why;
    size_t payload = tt_get_u32((uint8_t *)bytes.bytes + 48);
    uint32_t crc =
        tt_recording_crc((uint8_t *)bytes.bytes + 40,
                         (uint8_t *)bytes.bytes + 40 + TT_RECORDING_BLOCK_BYTES, payload);
    tt_put_u32((uint8_t *)bytes.bytes + 52, crc);
    assert_int_equal(tt_recording_open_memory(bytes.bytes, bytes.length, "f", &recording, &why),
                     TT_OK);
    struct tt_replay replay;
    assert_int_equal(tt_replay_run(&recording, 0, true, NULL, &replay, &why), TT_OK);
    assert_true(replay.differs);
    print_message("%s\n", replay.difference.text);
    assert_non_null(strstr(replay.difference.text, "recorded RUN on executor"));
    assert_non_null(strstr(replay.difference.text, "replayed "));
    tt_replay_fini(&replay);
    tt_recording_close(&recording);
    tt_text_fini(&bytes);
}

static void nothing_to_carry(void *context, int64_t now, struct tt_request *request,
                             enum tt_ending ending, enum tt_drop_reason reason) {
    (void)context, (void)now, (void)request, (void)ending, (void)reason;
}

/* Records one request of the length to a model whose only step runs once per element. */
static void make_long(int32_t length) {
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_MS};
    assert_int_equal(tt_profile_new_points(&point, 1, 1, &profile, &why), TT_OK);
    struct tt_step step = {.name = "s", .profile = profile, .kind = TT_STEP_ENCODER};
    struct tt_step_model model = {.name = "m",
                                  .step_count = 1,
                                  .steps = &step,
                                  .whole = profile,
                                  .slo_ns = TT_S,
                                  .max_batch = 1};
    struct tt_record_domain domain = {.policy = "serial",
                                      .limits = {.model_capacity = 1,
                                                 .executor_capacity = 1,
                                                 .max_batch = 1,
                                                 .depth = 1,
                                                 .request_limit = 1}};
    struct tt_carrier carrier = {.ended = nothing_to_carry};
    struct tt_mechanism mechanism;
    assert_int_equal(tt_mechanism_init(&mechanism, &domain.limits, &carrier, &why), TT_OK);
    struct tt_policy_setup setup = tt_record_domain_setup(&domain, &mechanism);
    assert_int_equal(tt_policy_create(&mechanism, "serial", &setup, &why), TT_OK);
    struct tt_recorder *recorder = record(0);
    struct tt_recorder_stream *stream;
    assert_int_equal(tt_recorder_add(recorder, &mechanism, &domain, &stream, &why), TT_OK);
    tt_mechanism_add_model(&mechanism, 1, 0, &model);
    struct tt_arrival arrival = {.rows = 1, .length = length, .deadline_at = TT_S};
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(&mechanism, 2, &arrival, &request), TT_OK);
    tt_mechanism_cancelled(&mechanism, 3, request);
    tt_policy_destroy(&mechanism);
    tt_mechanism_fini(&mechanism);
    assert_int_equal(tt_recorder_close(recorder, &why), TT_OK);
    tt_profile_free(profile);
}

/* It could not be simulated by cells. */
static void no_request_has_more_cells_than_a_graph(void **state) {
    (void)state;
    for (int32_t beyond = 0; beyond < 2; beyond++) {
        make_long(TT_CELL_GRAPH_MAX_CELLS + beyond);
        struct tt_error why;
        struct tt_recording recording;
        struct tt_replay replay;
        assert_int_equal(tt_recording_open(path, &recording, &why), TT_OK);
        enum tt_err err = tt_replay_run(&recording, 0, true, NULL, &replay, &why);
        assert_int_equal(err, beyond ? TT_ERR_INVALID : TT_OK);
        if (err)
            assert_non_null(strstr(why.text, "a request of more cells than there can be"));
        else
            tt_replay_fini(&replay);
        tt_recording_close(&recording);
    }
}

/* ---- what another policy would have done ---- */

static void other_policies_get_the_same_requests(void **state) {
    (void)state;
    struct recorded_world world;
    make(&world, 21, 2000, "serial", NULL, 0);
    struct tt_recording recording;
    struct tt_replay replay;
    replay_file(&recording, &replay);
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        struct tt_scenario scenario;
        struct tt_scenario_result result;
        struct tt_error why;
        assert_int_equal(
            tt_replay_scenario(&replay, tt_policy_at(i)->name, NULL, 0, &scenario, &why), TT_OK);
        assert_int_equal(tt_scenario_run(&scenario, true, NULL, NULL, &result, &why), TT_OK);
        struct tt_measure_model total;
        tt_measure_total(&result.measure, &total);
        assert_int_equal(total.arrived, 2000);
        assert_true(total.ok > 0);
        tt_measure_model_fini(&total);
        tt_measure_fini(&result.measure);
        tt_scenario_fini(&scenario);
    }
    struct tt_scenario scenario;
    struct tt_error why;
    assert_int_equal(tt_replay_scenario(&replay, "no such", NULL, 0, &scenario, &why), TT_OK);
    struct tt_scenario_result result;
    assert_int_equal(tt_scenario_run(&scenario, true, NULL, NULL, &result, &why), TT_ERR_NOT_FOUND);
    tt_scenario_fini(&scenario);
    tt_replay_fini(&replay);
    tt_recording_close(&recording);
}

static int remove_file(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

int main(void) {
    snprintf(path, sizeof(path), "/tmp/tutti-test-replay-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_replays),
        cmocka_unit_test(beliefs_replay),
        cmocka_unit_test(options_are_part_of_it),
        cmocka_unit_test(a_cut_file_replays_up_to_the_cut),
        cmocka_unit_test(damage_is_told_with_its_offset),
        cmocka_unit_test(an_older_file_replays),
        cmocka_unit_test(gaps_are_marked),
        cmocka_unit_test(another_policy_differs),
        cmocka_unit_test(no_request_has_more_cells_than_a_graph),
        cmocka_unit_test(other_policies_get_the_same_requests),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
