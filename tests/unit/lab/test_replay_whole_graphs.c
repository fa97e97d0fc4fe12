/* threaded */
/* The record of a domain that runs whole graphs, scheduled on threads or not, changed such that a
 * task ends as none of it can: between two steps. */
#include "base/clock.h"
#include "base/text.h"
#include "lab/replay/replay.h"
#include "multicore/threaded_policy.h"
#include "record/recorder.h"
#include "unit/multicore/lone_carrier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { PARTIES = 3 };

static char path[64];

static void wake(void *context) { (void)context; }

static void open_recorder(struct tt_recorder **out_recorder) {
    struct tt_recorder_options options = {.path = path, .program = "test"};
    struct tt_error why;
    assert_int_equal(tt_recorder_open(&options, out_recorder, &why), TT_OK);
}

/* Its policy, all parties recorded, its threads, if it has any, started. */
static void open_domain(struct tt_recorder *recorder, struct tt_mechanism *mechanism,
                        const struct tt_carrier *carrier, int32_t threads) {
    struct tt_error why;
    struct tt_record_domain domain = {.policy = "deferred",
                                      .limits = {.model_capacity = 1,
                                                 .executor_capacity = 1,
                                                 .max_batch = 1,
                                                 .depth = 1,
                                                 .request_limit = 4},
                                      .scheduler_threads = threads};
    assert_int_equal(tt_mechanism_init(mechanism, &domain.limits, carrier, &why), TT_OK);
    struct tt_policy_setup setup = tt_record_domain_setup(&domain, mechanism);
    struct tt_threaded_policy_options options = {
        .threads = threads, .max_batch = 1, .request_limit = 4, .wake = wake};
    enum tt_err err = threads
                          ? tt_threaded_policy_create(mechanism, "deferred", &setup, &options, &why)
                          : tt_policy_create(mechanism, "deferred", &setup, &why);
    assert_int_equal(err, TT_OK);
    struct tt_recorder_stream *stream, *parties[PARTIES];
    assert_int_equal(tt_recorder_add(recorder, mechanism, &domain, &stream, &why), TT_OK);
    if (!threads)
        return;
    struct tt_turn_log *turn_logs[PARTIES];
    assert_int_equal(tt_threaded_policy_parties(mechanism->policy), PARTIES);
    struct tt_record_party party = {.parties = PARTIES, .models = 1, .batches = 1};
    for (; party.party < PARTIES; party.party++)
        assert_int_equal(tt_recorder_add_party(recorder, stream, &party, &parties[party.party],
                                               &turn_logs[party.party], &why),
                         TT_OK);
    tt_threaded_policy_use_turn_logs(mechanism->policy, turn_logs);
    assert_int_equal(tt_threaded_policy_start(mechanism->policy, &why), TT_OK);
}

/* One request to a model of two steps runs through both. */
static void record(int32_t threads) {
    struct tt_error why;
    struct tt_profile *profile;
    struct tt_profile_point point = {.batch = 1, .latency_ns = TT_US};
    assert_int_equal(tt_profile_new_points(&point, 1, 1, &profile, &why), TT_OK);
    struct tt_step steps[2] = {{.name = "a", .profile = profile},
                               {.name = "b", .profile = profile}};
    struct tt_step_model model = {.name = "m",
                                  .step_count = 2,
                                  .steps = steps,
                                  .whole = profile,
                                  .slo_ns = TT_S,
                                  .max_batch = 1};
    struct tt_task *running = NULL;
    struct tt_carrier carrier = lone_carrier(&running);
    struct tt_mechanism mechanism;
    struct tt_recorder *recorder;
    open_recorder(&recorder);
    open_domain(recorder, &mechanism, &carrier, threads);
    tt_mechanism_add_model(&mechanism, tt_clock_now(), 0, &model);
    tt_mechanism_add_executor(&mechanism, tt_clock_now(), 0, 0);
    int64_t now = tt_clock_now();
    struct tt_arrival arrival = {.rows = 1, .deadline_at = now + 60 * TT_S};
    struct tt_request *request;
    assert_int_equal(tt_mechanism_arrived(&mechanism, now, &arrival, &request), TT_OK);
    while (!running) {
        usleep(1000);
        tt_mechanism_decide(&mechanism, tt_clock_now());
    }
    now = tt_clock_now();
    running->outcome = TT_OUTCOME_DONE;
    running->last_step_done = 1;
    running->started_at = running->ended_at = now;
    tt_mechanism_finished(&mechanism, now, running);
    tt_policy_destroy(&mechanism);
    tt_mechanism_fini(&mechanism);
    assert_int_equal(tt_recorder_close(recorder, &why), TT_OK);
    tt_profile_free(profile);
}

/* Where the task's outcome is, and behind it its last step, a byte each. */
static size_t outcome_at(const struct tt_recording *recording, const uint8_t *bytes) {
    struct tt_error why;
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *event;
    assert_int_equal(tt_recording_cursor_init(&cursor, recording,
                                              tt_recording_domain_stream(recording, 0), &why),
                     TT_OK);
    do {
        assert_int_equal(tt_recording_next(&cursor, &event, &why), TT_OK);
        assert_non_null(event);
    } while (event->kind != TT_RECORD_FINISHED);
    const uint8_t *at = bytes + event->offset + 1;
    uint64_t number;
    assert_true(tt_varint_get(&at, at + TT_VARINT_BYTES, &number)); /* the time */
    assert_true(tt_varint_get(&at, at + TT_VARINT_BYTES, &number)); /* the executor */
    tt_recording_cursor_fini(&cursor);
    return (size_t)(at - bytes);
}

static void ends_between_two_steps(int32_t threads) {
    record(threads);
    struct tt_error why;
    struct tt_text file;
    tt_text_init(&file);
    assert_int_equal(tt_text_read_file(path, 1 << 20, &file, &why), TT_OK);
    uint8_t *bytes = (uint8_t *)file.bytes;
    struct tt_recording recording;
    assert_int_equal(tt_recording_open_memory(bytes, file.length, "file", &recording, &why), TT_OK);
    uint8_t *at = bytes + outcome_at(&recording, bytes); /* its checksum was believed already */
    for (int32_t outcome = TT_OUTCOME_DONE; outcome <= TT_OUTCOME_DIVERGED; outcome++) {
        struct tt_replay replay;
        at[0] = (uint8_t)outcome;
        at[1] = (uint8_t)tt_zigzag(outcome == TT_OUTCOME_DONE);
        enum tt_err err = tt_replay_run(&recording, 0, true, NULL, &replay, &why);
        if (err)
            print_message("%s\n", why.text);
        assert_int_equal(err, outcome == TT_OUTCOME_DONE ? TT_OK : TT_ERR_INVALID);
        if (err)
            assert_non_null(strstr(why.text, "ended in a way that it cannot"));
        else
            tt_replay_fini(&replay);
    }
    tt_recording_close(&recording);
    tt_text_fini(&file);
}

static void no_whole_graph_ends_between_two_steps(void **state) {
    (void)state;
    ends_between_two_steps(0);
    ends_between_two_steps(1);
}

static int remove_file(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

int main(void) {
    snprintf(path, sizeof(path), "/tmp/tutti-test-replay-threads-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_whole_graph_ends_between_two_steps),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
