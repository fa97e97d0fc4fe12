/* threaded */
/* A recording as the recorder's thread writes it, and rules that end the program if they are
 * broken: when a stream may be added and left, and what an event must be. */
#include "record/recorder.h"

#include "base/instant.h"
#include "base/threads/flag.h"
#include "record/recording_reader.h"
#include "unit/breach.h"

#include <stdlib.h>

enum { MAX_BATCH = 4 };

static const struct tt_record_domain domain = {.policy = (char[]){"serial"},
                                               .limits = {.model_capacity = 1,
                                                          .executor_capacity = 1,
                                                          .max_batch = MAX_BATCH,
                                                          .depth = 1,
                                                          .request_limit = 8}};

/* A recorder and two domains, whose events the test makes up. */
struct world {
    char path[64];
    struct tt_recorder *recorder;
    struct tt_mechanism mechanisms[2];
    struct tt_recorder_stream *streams[2];
    struct tt_flag fails; /* the recorder has said so */
};

/* On the recorder's thread. */
static void say(void *context, enum tt_log_level level, const char *line) {
    (void)level;
    struct world *self = context;
    if (strstr(line, "events are lost until"))
        tt_flag_raise(&self->fails);
}

static void open_world(struct world *self, int64_t max_bytes) {
    *self = (struct world){.path = "/tmp/tutti-recorder-XXXXXX"};
    int fd = mkstemp(self->path);
    assert_true(fd >= 0);
    close(fd);
    struct tt_recorder_options options = {.path = self->path,
                                          .max_bytes = max_bytes,
                                          .program = "test",
                                          .say = say,
                                          .say_context = self};
    struct tt_error why;
    assert_int_equal(tt_recorder_open(&options, &self->recorder, &why), TT_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            tt_recorder_add(self->recorder, &self->mechanisms[i], &domain, &self->streams[i], &why),
            TT_OK);
}

static void observe(struct world *self, int index, const struct tt_event *event) {
    struct tt_observer *observer = self->mechanisms[index].observers;
    observer->observe(observer, event);
}

static void decide(struct world *self, int index, int64_t now) {
    observe(self, index, &(struct tt_event){.kind = TT_EVENT_DECIDE, .now = now});
}

static int64_t count_events(const struct tt_recording *recording, int32_t number) {
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *event;
    struct tt_error why;
    int64_t count = 0;
    int32_t stream = tt_recording_domain_stream(recording, number);
    assert_int_equal(tt_recording_cursor_init(&cursor, recording, stream, &why), TT_OK);
    for (;; count++) {
        assert_int_equal(tt_recording_next(&cursor, &event, &why), TT_OK);
        if (!event)
            break;
        assert_int_equal(event->kind, count == 0 ? TT_RECORD_DOMAIN : TT_RECORD_DECIDE);
    }
    tt_recording_cursor_fini(&cursor);
    return count;
}

static void streams_are_whole_and_in_order(void **state) {
    (void)state;
    struct world world;
    struct tt_recording recording;
    struct tt_error why;
    open_world(&world, 0);
    for (int64_t i = 0; i < 1000; i++)
        decide(&world, i % 3 != 0, i);
    tt_recorder_leave(world.streams[1]);
    decide(&world, 0, TT_S);
    assert_int_equal(tt_recorder_close(world.recorder, &why), TT_OK);
    assert_int_equal(tt_recording_open(world.path, &recording, &why), TT_OK);
    tt_recording_check(&recording);
    assert_true(tt_recording_has_end(&recording));
    assert_int_equal(recording.domain_count, 2);
    assert_int_equal(count_events(&recording, 0), 1 + 334 + 1);
    assert_int_equal(count_events(&recording, 1), 1 + 666);
    tt_recording_close(&recording);
    unlink(world.path);
}

/* A second recorder is refused, and what the first one wrote stays. */
static void a_file_has_one_recorder(void **state) {
    (void)state;
    struct world world;
    struct tt_recorder *second = NULL;
    struct tt_recording recording;
    struct tt_error why;
    open_world(&world, 0);
    decide(&world, 0, 1);
    const struct tt_recorder_options options = {
        .path = world.path, .program = "test", .say = say, .say_context = &world};
    assert_int_equal(tt_recorder_open(&options, &second, &why), TT_ERR_IO);
    assert_non_null(strstr(why.text, "another server records to it"));
    assert_int_equal(tt_recorder_close(world.recorder, &why), TT_OK);
    assert_int_equal(tt_recording_open(world.path, &recording, &why), TT_OK);
    assert_int_equal(count_events(&recording, 0), 2);
    tt_recording_close(&recording);
    assert_int_equal(tt_recorder_open(&options, &second, &why), TT_OK);
    assert_int_equal(tt_recorder_close(second, &why), TT_OK);
    unlink(world.path);
}

static void a_full_file_ends_and_stays_so(void **state) {
    (void)state;
    struct world world;
    struct tt_recording recording;
    struct tt_error why;
    const int64_t limit = 2000;
    open_world(&world, limit);
    for (int64_t i = 0; i < 100000; i++)
        decide(&world, i % 2 != 0, i * TT_MS);
    assert_int_equal(tt_recorder_close(world.recorder, &why), TT_OK);
    assert_int_equal(tt_recording_open(world.path, &recording, &why), TT_OK);
    tt_recording_check(&recording);
    assert_true(recording.limited);
    assert_true((int64_t)recording.size_bytes <= limit);
    tt_recording_close(&recording);
    unlink(world.path);
}

/* Files of this process end at `bytes`, as on a full disk. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Puts events until the disk is full, with a block that fits in part. */
static int64_t fill_the_disk(struct world *world) {
    enum { LIMIT = 4096, MANY = 10000 };
    int64_t count = 0;
    while (tt_recorder_stats(world->recorder).bytes == TT_RECORDING_HEADER_BYTES)
        usleep(1000); /* until the domains' descriptions are there */
    signal(SIGXFSZ, SIG_IGN);
    limit_files(LIMIT);
    while (!tt_flag_is_raised(&world->fails)) {
        for (int i = 0; i < MANY && count < 100 * MANY; i++, count++)
            decide(world, 0, count);
        usleep(1000);
    }
    return count;
}

static void a_full_disk_that_is_emptied_loses_nothing(void **state) {
    (void)state;
    struct world world;
    struct tt_recording recording;
    struct tt_error why;
    open_world(&world, 0);
    int64_t count = fill_the_disk(&world);
    limit_files(RLIM_INFINITY);
    assert_int_equal(tt_recorder_close(world.recorder, &why), TT_OK);
    assert_int_equal(tt_recording_open(world.path, &recording, &why), TT_OK);
    assert_true(tt_recording_has_end(&recording));
    assert_int_equal(count_events(&recording, 0), 1 + count);
    tt_recording_close(&recording);
    unlink(world.path);
}

static void a_full_disk_ends_the_recording_with_a_whole_block(void **state) {
    (void)state;
    struct world world;
    struct tt_recording recording;
    struct tt_error why;
    open_world(&world, 0);
    int64_t count = fill_the_disk(&world);
    assert_int_equal(tt_recorder_close(world.recorder, &why), TT_ERR_IO);
    assert_non_null(strstr(why.text, "ends early"));
    limit_files(RLIM_INFINITY);
    assert_int_equal(tt_recording_open(world.path, &recording, &why), TT_OK);
    assert_false(recording.complete);
    assert_int_equal(recording.end_bytes, recording.size_bytes);
    assert_in_range(count_events(&recording, 0), 1, count);
    tt_recording_close(&recording);
    unlink(world.path);
}

/* ---- broken rules ---- */

static void left_twice(void) {
    struct world world;
    open_world(&world, 0);
    unlink(world.path);
    tt_recorder_leave(world.streams[0]);
    tt_recorder_leave(world.streams[0]);
}
static void added_behind_its_first_arrival(void) {
    struct world world;
    struct tt_mechanism used = {.arrivals = 1};
    struct tt_recorder_stream *stream;
    struct tt_error why;
    open_world(&world, 0);
    unlink(world.path);
    if (tt_recorder_add(world.recorder, &used, &domain, &stream, &why))
        _exit(3);
}
static void a_thread_of_a_domain_that_left(void) {
    struct world world;
    struct tt_record_party party = {.parties = 3, .models = 1, .batches = 1};
    struct tt_recorder_stream *stream;
    struct tt_turn_log *log;
    struct tt_error why;
    open_world(&world, 0);
    unlink(world.path);
    tt_recorder_leave(world.streams[0]);
    if (tt_recorder_add_party(world.recorder, world.streams[0], &party, &stream, &log, &why))
        _exit(3);
}
static void a_thread_of_a_thread(void) {
    struct world world;
    struct tt_record_party party = {.parties = 3, .models = 1, .batches = 1};
    struct tt_recorder_stream *stream, *other;
    struct tt_turn_log *log;
    struct tt_error why;
    open_world(&world, 0);
    unlink(world.path);
    if (tt_recorder_add_party(world.recorder, world.streams[0], &party, &stream, &log, &why) ||
        tt_recorder_add_party(world.recorder, stream, &party, &other, &log, &why))
        _exit(3);
}
static void time_going_back(void) {
    struct world world;
    open_world(&world, 0);
    unlink(world.path);
    decide(&world, 0, 5);
    decide(&world, 1, 4); /* another domain: it is another clock's instant */
    decide(&world, 0, 4);
}
static void a_batch_that_no_policy_may_make(void) {
    struct world world;
    struct tt_request request = {.state = TT_REQUEST_RUNNING};
    struct tt_task_item items[MAX_BATCH + 1] = {{.request = &request}};
    struct tt_task task = {.count = MAX_BATCH + 1, .items = items};
    open_world(&world, 0);
    unlink(world.path);
    observe(&world, 0, &(struct tt_event){.kind = TT_EVENT_RUN, .task = &task});
}
static void a_request_that_does_not_run(void) {
    struct world world;
    struct tt_request request = {.state = TT_REQUEST_QUEUED};
    struct tt_task_item item = {.request = &request};
    struct tt_task task = {.count = 1, .items = &item};
    open_world(&world, 0);
    unlink(world.path);
    observe(&world, 0, &(struct tt_event){.kind = TT_EVENT_RUN, .task = &task});
}
static void counts_that_disagree(void) {
    struct tt_recording recording = {.size_bytes = TT_RECORDING_HEADER_BYTES,
                                     .end_bytes = TT_RECORDING_HEADER_BYTES,
                                     .stream_count = 2,
                                     .of_thread = (bool[]){false, true},
                                     .domain_count = 2};
    tt_recording_check(&recording);
}

static void broken_rules_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(left_twice, "!tt_flag_is_raised(&stream->left)"),
        BREACH(added_behind_its_first_arrival, "mechanism->arrivals == 0"),
        BREACH(a_thread_of_a_domain_that_left, "!tt_flag_is_raised(&domain->left)"),
        BREACH(a_thread_of_a_thread, "domain->encoder.observer.observe"),
        BREACH(time_going_back, "now >= self->last_at"),
        BREACH(a_batch_that_no_policy_may_make, "task->count <= self->max_batch"),
        BREACH(a_request_that_does_not_run, "item->request->state == TT_REQUEST_RUNNING"),
        BREACH(counts_that_disagree, "domains == self->domain_count"),
    };
    assert_all_break(breaches, TT_COUNT(breaches)); /* before this process has a thread */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_rules_are_caught),
        cmocka_unit_test(streams_are_whole_and_in_order),
        cmocka_unit_test(a_file_has_one_recorder),
        cmocka_unit_test(a_full_file_ends_and_stays_so),
        cmocka_unit_test(a_full_disk_that_is_emptied_loses_nothing),
        cmocka_unit_test(a_full_disk_ends_the_recording_with_a_whole_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
