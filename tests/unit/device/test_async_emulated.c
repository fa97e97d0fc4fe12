/* threaded */
/* S11, D4, E1: the emulated device in virtual time: the suite, exact times, and thousands of
 * streams. */
#include "device/async_emulated.h"

#include "base/clock.h"
#include "core/slot_ring.h"
#include "unit/device/async_suite.h"

static const bool suite_limits_queues = true;
static const bool suite_hangs_for_good = true;

static struct tt_async_device *open_emulated(const struct tt_async_emulated_options *options) {
    struct tt_async_device *device = NULL;
    struct tt_error why;
    ok(tt_async_emulated_open(options, &device, &why), &why);
    return device;
}

static bool suite_is_real; /* the suite runs in virtual and in real time */

static struct tt_async_device *suite_open(const struct suite_options *options,
                                          struct tt_error *why) {
    const struct tt_async_emulated_options emulated = {.memory_bytes = options->memory_bytes,
                                                       .max_streams = options->max_streams,
                                                       .queue_depth = options->queue_depth,
                                                       .in = {100, 1000000000},
                                                       .out = {100, 500000000},
                                                       .within = {10, 0},
                                                       .real_time = suite_is_real,
                                                       .take_order = options->take_order};
    struct tt_async_device *device = NULL;
    return tt_async_emulated_open(&emulated, &device, why) ? NULL : device;
}

static void suite_hang(struct tt_async_stream *stream) {
    const struct tt_async_kernel kernel = {
        .name = "hang", .work_ns = TT_NEVER, .demand_ppm = 1000000};
    struct tt_error why;
    struct tt_async_event *event = NULL;
    ok(tt_async_event_open(stream->device, &event, &why), &why);
    ok(tt_async_record(stream, event, &why), &why);
    ok(tt_async_event_wait(event, TT_NEVER, &why), &why);
    tt_async_event_close(event);
    ok(tt_async_launch(stream, &kernel, &why), &why);
}

static void suite_unhang(struct tt_async_stream *stream) { (void)stream; }

static enum tt_err suite_enqueue_move(struct tt_async_device *device, void *context,
                                      void *native_stream, struct tt_error *why) {
    (void)device;
    (void)context;
    (void)native_stream;
    (void)why;
    return TT_ERR_INTERNAL; /* never called: there is no native stream */
}

static enum tt_err fail_kernel(struct tt_async_device *device, void *context) {
    (void)device;
    (void)context;
    return TT_ERR_INTERNAL;
}

static void suite_break(struct tt_async_device *device, struct tt_async_stream *stream) {
    const struct tt_async_kernel kernel = {
        .name = "broken", .run = fail_kernel, .work_ns = 10, .demand_ppm = 1000000};
    struct tt_error why;
    (void)device;
    ok(tt_async_launch(stream, &kernel, &why), &why);
}

/* ---- exact times ---- */

/* A megabyte in takes 1 ms, a megabyte out takes 2 ms. */
static const struct tt_async_transfer in_1_ms = {0, 1000000000}, out_2_ms = {0, 500000000};
enum { MEGABYTE = 1000000 };

struct timed {
    struct suite suite;
    struct tt_async_stream *streams[2];
    uint64_t memory;
    uint8_t *host;
};

static void timed_init(struct timed *self, int32_t copy_engines) {
    memset(self, 0, sizeof(*self));
    const struct tt_async_emulated_options options = {
        .memory_bytes = 8 << 20, .copy_engines = copy_engines, .in = in_1_ms, .out = out_2_ms};
    self->suite.device = open_emulated(&options);
    for (int32_t s = 0; s < 2; s++)
        self->streams[s] = open_stream(&self->suite);
    self->memory = reserve(&self->suite, 4 * MEGABYTE);
    self->host = pin(&self->suite, 4 * MEGABYTE);
}

static void timed_fini(struct timed *self) {
    for (int32_t s = 0; s < 2; s++)
        tt_async_stream_close(self->streams[s]);
    tt_async_release(self->suite.device, self->memory, 4 * MEGABYTE);
    tt_async_unpin(self->suite.device, self->host);
    suite_fini(&self->suite);
}

static int64_t now(struct timed *self) { return tt_async_device_now(self->suite.device); }

static void copy_both_ways(struct timed *self) {
    struct tt_error why;
    ok(tt_async_copy_in(self->streams[0], self->memory, self->host, MEGABYTE, &why), &why);
    ok(tt_async_copy_out(self->streams[1], self->host + MEGABYTE, self->memory + MEGABYTE, MEGABYTE,
                         &why),
       &why);
}

static void test_two_copy_engines_overlap(void **state) {
    (void)state;
    struct timed self;
    timed_init(&self, 2);
    assert_int_equal(tt_async_device_info(self.suite.device)->copy_engines, 2);
    assert_int_equal(now(&self), 0);
    assert_int_equal(tt_async_emulated_next_at(self.suite.device), TT_NEVER);
    copy_both_ways(&self);
    assert_int_equal(tt_async_emulated_next_at(self.suite.device), TT_MS);
    drain(&self.suite, self.streams[0]);
    assert_int_equal(now(&self), TT_MS);
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), 2 * TT_MS);
    timed_fini(&self);
    /* One engine: one after the other. */
    timed_init(&self, 1);
    copy_both_ways(&self);
    drain(&self.suite, self.streams[0]);
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), 2 * TT_MS); /* both at the speed of the one engine, 1 ms each */
    timed_fini(&self);
}

static struct tt_async_kernel timed_kernel(int64_t work_ns, int32_t demand_ppm) {
    return (struct tt_async_kernel){.name = "timed", .work_ns = work_ns, .demand_ppm = demand_ppm};
}

/* E6: a copy overlaps a kernel of another stream; kernels share the device. */
static void test_kernels_share_the_device(void **state) {
    (void)state;
    struct timed self;
    struct tt_error why;
    timed_init(&self, 2);
    struct tt_async_kernel kernel = timed_kernel(3 * TT_MS, 400000);
    for (int32_t s = 0; s < 2; s++)
        ok(tt_async_launch(self.streams[s], &kernel, &why), &why);
    drain(&self.suite, self.streams[0]);
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), 3 * TT_MS); /* 80 % of the device: neither slows the other */
    kernel = timed_kernel(3 * TT_MS, 1000000);
    for (int32_t s = 0; s < 2; s++)
        ok(tt_async_launch(self.streams[s], &kernel, &why), &why);
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), 9 * TT_MS);
    ok(tt_async_launch(self.streams[0], &kernel, &why), &why);
    ok(tt_async_copy_in(self.streams[1], self.memory, self.host, MEGABYTE, &why), &why);
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), 10 * TT_MS);
    drain(&self.suite, self.streams[0]);
    assert_int_equal(now(&self), 12 * TT_MS);
    timed_fini(&self);
}

/* D4: a stage follows another on the device, without the host: two stages, two buffers, and the
 * streams wait for each other. n batches take n + 1 stage times, not 2 n. */
static void test_stages_follow_each_other(void **state) {
    (void)state;
    enum { BATCHES = 10 };
    struct timed self;
    struct tt_error why;
    timed_init(&self, 2);
    struct tt_async_event *written[2], *read[2];
    for (int32_t b = 0; b < 2; b++) {
        written[b] = open_event(&self.suite);
        read[b] = open_event(&self.suite);
    }
    const struct tt_async_kernel stage = timed_kernel(TT_MS, 500000);
    for (int32_t i = 0; i < BATCHES; i++) {
        ok(tt_async_wait(self.streams[0], read[i % 2], &why), &why);
        ok(tt_async_launch(self.streams[0], &stage, &why), &why);
        ok(tt_async_record(self.streams[0], written[i % 2], &why), &why);
        ok(tt_async_wait(self.streams[1], written[i % 2], &why), &why);
        ok(tt_async_launch(self.streams[1], &stage, &why), &why);
        ok(tt_async_record(self.streams[1], read[i % 2], &why), &why);
    }
    drain(&self.suite, self.streams[1]);
    assert_int_equal(now(&self), (BATCHES + 1) * TT_MS);
    for (int32_t b = 0; b < 2; b++) {
        tt_async_event_close(written[b]);
        tt_async_event_close(read[b]);
    }
    timed_fini(&self);
}

/* ---- inputs that are copied as they arrive ---- */

enum { INPUT = 100000, BATCH = 8, RING = 4 * BATCH, RUNS = 50 };
#define INPUT_NS (TT_MS / 10)
#define COMPUTE_NS (12 * TT_MS / 10)

/* A ring of slots on the device, with an event per slot, and a worker (E1). */
struct inputs {
    struct suite suite;
    struct tt_slot_ring ring;
    struct tt_async_stream *copies, *worker;
    struct tt_async_event *copied[RING], *read[RING / BATCH];
    uint64_t slots;
    uint8_t *host;
    int32_t oldest, held; /* the slots of the batches that were not released: of all but one */
};

static void inputs_init(struct inputs *self) {
    memset(self, 0, sizeof(*self));
    const struct tt_async_order_options checks = {
        .max_streams = 4, .on_conflict = on_conflict, .context = &self->suite};
    struct tt_async_emulated_options options = {
        .memory_bytes = 8 << 20, .max_streams = 4, .queue_depth = 2048, .in = in_1_ms};
    assert_int_equal(tt_async_order_new(&checks, &options.take_order, NULL), TT_OK);
    self->suite.device = open_emulated(&options);
    assert_int_equal(tt_slot_ring_init(&self->ring, RING), TT_OK);
    self->copies = open_stream(&self->suite);
    self->worker = open_stream(&self->suite);
    for (int32_t i = 0; i < RING; i++)
        self->copied[i] = open_event(&self->suite);
    for (int32_t i = 0; i < RING / BATCH; i++)
        self->read[i] = open_event(&self->suite);
    self->slots = reserve(&self->suite, (size_t)RING * INPUT);
    self->host = pin(&self->suite, INPUT);
}

static void inputs_fini(struct inputs *self) {
    for (int32_t i = 0; i < RING; i++)
        tt_async_event_close(self->copied[i]);
    for (int32_t i = 0; i < RING / BATCH; i++)
        tt_async_event_close(self->read[i]);
    tt_async_stream_close(self->copies);
    tt_async_stream_close(self->worker);
    tt_async_release(self->suite.device, self->slots, (size_t)RING * INPUT);
    tt_async_unpin(self->suite.device, self->host);
    tt_slot_ring_fini(&self->ring);
    suite_fini(&self->suite);
}

/* One batch: each input is copied alone, in order; the worker waits for the event of the last slot
 * only. The copies wait until the batch that had the slots before has been read. */
static void run_batch(struct inputs *self, struct tt_async_stream *copies, int32_t waits_for) {
    struct tt_error why;
    if (self->held == RING / BATCH - 1) {
        tt_slot_ring_release(&self->ring, self->oldest, BATCH);
        self->oldest = (self->oldest + BATCH) % RING;
        self->held--;
    }
    int32_t first = tt_slot_ring_take(&self->ring, BATCH);
    assert_true(first >= 0);
    self->held++;
    uint64_t from = self->slots + (uint64_t)first * INPUT;
    ok(tt_async_wait(copies, self->read[first / BATCH], &why), &why);
    for (int32_t i = 0; i < BATCH; i++) {
        ok(tt_async_copy_in(copies, from + (uint64_t)i * INPUT, self->host, INPUT, &why), &why);
        ok(tt_async_record(copies, self->copied[first + i], &why), &why);
    }
    const struct tt_async_range range = {from, (size_t)BATCH * INPUT, false};
    struct tt_async_kernel kernel = timed_kernel(COMPUTE_NS, 1000000);
    kernel.ranges = &range;
    kernel.range_count = 1;
    ok(tt_async_wait(self->worker, self->copied[first + waits_for], &why), &why);
    ok(tt_async_launch(self->worker, &kernel, &why), &why);
    ok(tt_async_record(self->worker, self->read[first / BATCH], &why), &why);
}

/* E1, E6, E7: with inputs copied on a stream of their own, a batch costs the longer of copying and
 * computing; with whole batches one after the other, the sum. The share of time that is saved is
 * eq. 1, 1 / (1 + computing / copying). */
static void test_copies_hide_behind_kernels(void **state) {
    (void)state;
    struct inputs self;
    const int64_t copy_ns = BATCH * INPUT_NS;
    inputs_init(&self);
    for (int32_t i = 0; i < RUNS; i++)
        run_batch(&self, self.copies, BATCH - 1);
    drain(&self.suite, self.worker);
    const int64_t overlapped_ns = tt_async_device_now(self.suite.device);
    assert_int_equal(overlapped_ns, copy_ns + RUNS * COMPUTE_NS);
    assert_int_equal(self.suite.conflict_count, 0);
    inputs_fini(&self);

    inputs_init(&self);
    for (int32_t i = 0; i < RUNS; i++)
        run_batch(&self, self.worker, BATCH - 1);
    drain(&self.suite, self.worker);
    const int64_t serial_ns = tt_async_device_now(self.suite.device);
    assert_int_equal(serial_ns, RUNS * (copy_ns + COMPUTE_NS));
    inputs_fini(&self);

    const int64_t saved_ppm = (serial_ns - overlapped_ns) * 1000000 / serial_ns;
    const int64_t eq_1_ppm = copy_ns * 1000000 / (copy_ns + COMPUTE_NS);
    assert_in_range(saved_ppm, eq_1_ppm * 95 / 100, eq_1_ppm);
}

/* A worker that waits for the wrong slot reads inputs that are still being copied. */
static void test_a_wait_for_the_wrong_slot_is_found(void **state) {
    (void)state;
    struct inputs self;
    inputs_init(&self);
    run_batch(&self, self.copies, BATCH - 2);
    assert_int_equal(self.suite.conflict_count, 1);
    assert_non_null(strstr(self.suite.conflict, "timed (operation 1 of stream 1) reads 100000"));
    assert_non_null(strstr(self.suite.conflict, "copy in (operation 8 of stream 0) writes"));
    drain(&self.suite, self.copies);
    drain(&self.suite, self.worker);
    inputs_fini(&self);
}

/* Effects come when an operation ends, not before. */
static void test_advance(void **state) {
    (void)state;
    struct timed self;
    struct tt_error why;
    timed_init(&self, 2);
    struct tt_async_event *event = open_event(&self.suite);
    struct calls calls = {0};
    struct one_call call = {&calls, 4};
    self.host[0] = 77;
    ok(tt_async_copy_in(self.streams[0], self.memory, self.host, MEGABYTE, &why), &why);
    ok(tt_async_copy_out(self.streams[0], self.host + MEGABYTE, self.memory, MEGABYTE, &why), &why);
    ok(tt_async_call(self.streams[0], note_call, &call, &why), &why);
    ok(tt_async_record(self.streams[0], event, &why), &why);
    assert_int_equal(tt_async_event_wait(event, TT_MS, &why), TT_ERR_TIMEOUT);
    tt_async_emulated_advance(self.suite.device, 3 * TT_MS - 1);
    assert_int_equal(tt_async_event_query(event, &why), TT_ERR_BUSY);
    assert_int_equal(self.host[MEGABYTE], 0);
    assert_int_equal(calls.count, 0);
    tt_async_emulated_advance(self.suite.device, 3 * TT_MS);
    assert_int_equal(tt_async_event_query(event, &why), TT_OK);
    assert_int_equal(self.host[MEGABYTE], 77);
    assert_int_equal(calls.seen[0], 4);
    tt_async_event_close(event);
    timed_fini(&self);
}

/* S11: 4096 executors in one process, without threads. All start at once and share the device. */
static void test_thousands_of_streams(void **state) {
    (void)state;
    enum { MANY = 4096 };
    const struct tt_async_emulated_options options = {
        .memory_bytes = 64 << 20, .max_streams = MANY, .queue_depth = 8};
    struct suite self = {.device = open_emulated(&options)};
    struct tt_async_stream **streams = calloc(MANY, sizeof(struct tt_async_stream *));
    struct tt_async_event **events = calloc(MANY, sizeof(struct tt_async_event *));
    assert_non_null(streams);
    assert_non_null(events);
    struct tt_error why;
    const struct tt_async_kernel kernel = timed_kernel(TT_US, 1000000);
    for (int32_t s = 0; s < MANY; s++) {
        streams[s] = open_stream(&self);
        events[s] = open_event(&self);
        if (s > 0) /* a chain: each follows the one before */
            ok(tt_async_wait(streams[s], events[s - 1], &why), &why);
        ok(tt_async_launch(streams[s], &kernel, &why), &why);
        ok(tt_async_record(streams[s], events[s], &why), &why);
    }
    ok(tt_async_event_wait(events[MANY - 1], TT_NEVER, &why), &why);
    assert_int_equal(tt_async_device_now(self.device), MANY * TT_US);
    for (int32_t s = 0; s < MANY; s++) /* side by side */
        ok(tt_async_launch(streams[s], &kernel, &why), &why);
    for (int32_t s = 0; s < MANY; s++)
        ok(tt_async_record(streams[s], events[s], &why), &why);
    ok(tt_async_event_wait(events[0], TT_NEVER, &why), &why);
    assert_int_equal(tt_async_device_now(self.device), 2 * MANY * TT_US);
    for (int32_t s = 0; s < MANY; s++) {
        assert_int_equal(tt_async_event_query(events[s], &why), TT_OK);
        tt_async_stream_close(streams[s]);
        tt_async_event_close(events[s]);
    }
    free(streams);
    free(events);
    suite_fini(&self);
}

/* A device fails while one stream computes, one copies and one waits; what they hold is given back,
 * whatever is closed first, and the device starts again. */
static void test_a_failure_in_the_middle(void **state) {
    (void)state;
    for (int32_t events_first = 0; events_first < 2; events_first++) {
        struct timed self;
        struct tt_error why;
        timed_init(&self, 2);
        struct tt_async_stream *blocked = open_stream(&self.suite);
        struct tt_async_event *event = open_event(&self.suite);
        const struct tt_async_kernel kernel = timed_kernel(3 * TT_MS, 500000);
        ok(tt_async_launch(self.streams[0], &kernel, &why), &why);
        ok(tt_async_record(self.streams[0], event, &why), &why);
        ok(tt_async_copy_in(self.streams[1], self.memory, self.host, MEGABYTE, &why), &why);
        ok(tt_async_wait(blocked, event, &why), &why);
        ok(tt_async_launch(blocked, &kernel, &why), &why);
        tt_async_emulated_advance(self.suite.device, 1);
        assert_int_equal(tt_async_emulated_next_at(self.suite.device), TT_MS);
        tt_async_device_fail(self.suite.device, "for the test");
        tt_async_emulated_advance(self.suite.device, TT_S);
        if (events_first)
            tt_async_event_close(event);
        for (int32_t s = 0; s < 2; s++)
            tt_async_stream_close(self.streams[s]);
        tt_async_stream_close(blocked);
        if (!events_first)
            tt_async_event_close(event);
        assert_int_equal(tt_async_emulated_next_at(self.suite.device), TT_NEVER);
        assert_int_equal(self.host[0], 0);
        tt_async_release(self.suite.device, self.memory, 4 * MEGABYTE);
        tt_async_unpin(self.suite.device, self.host);
        ok(tt_async_device_restart(self.suite.device, &why), &why);
        struct tt_async_stream *stream = open_stream(&self.suite);
        int64_t begun_at = now(&self);
        ok(tt_async_launch(stream, &kernel, &why), &why);
        drain(&self.suite, stream);
        assert_int_equal(now(&self) - begun_at, 3 * TT_MS);
        tt_async_stream_close(stream);
        suite_fini(&self.suite);
    }
}

static void test_wrong_options(void **state) {
    (void)state;
    const struct tt_async_emulated_options options = {.copy_engines = 3};
    struct tt_async_device *device = NULL;
    struct tt_error why;
    assert_int_equal(tt_async_emulated_open(&options, &device, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "an emulated device has 1 or 2 copy engines, not 3");
}

static int to_virtual(void **state) {
    (void)state;
    suite_is_real = false;
    return 0;
}

static int to_real(void **state) {
    (void)state;
    suite_is_real = true;
    return 0;
}

int main(void) {
    const struct CMUnitTest suite[] = {SUITE_TESTS};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_two_copy_engines_overlap),
        cmocka_unit_test(test_kernels_share_the_device),
        cmocka_unit_test(test_stages_follow_each_other),
        cmocka_unit_test(test_copies_hide_behind_kernels),
        cmocka_unit_test(test_a_wait_for_the_wrong_slot_is_found),
        cmocka_unit_test(test_advance),
        cmocka_unit_test(test_thousands_of_streams),
        cmocka_unit_test(test_a_failure_in_the_middle),
        cmocka_unit_test(test_wrong_options),
    };
    return cmocka_run_group_tests_name("virtual time", suite, to_virtual, NULL) +
           cmocka_run_group_tests_name("real time", suite, to_real, NULL) +
           cmocka_run_group_tests(own, NULL, NULL);
}
