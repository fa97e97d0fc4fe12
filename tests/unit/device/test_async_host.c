/* threaded */
/* D4, E1, C6: the host device: the suite, that streams and copies really overlap, and that code of
 * the host cannot reach the device's memory. */
#include "device/async_host.h"

#include "base/clock.h"
#include "unit/device/hang_calls.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const bool suite_limits_queues = true;

static struct tt_async_device *suite_open(const struct suite_options *options,
                                          struct tt_error *why) {
    const struct tt_async_host_options host = {.memory_bytes = options->memory_bytes,
                                               .max_streams = options->max_streams,
                                               .queue_depth = options->queue_depth,
                                               .take_order = options->take_order};
    struct tt_async_device *device = NULL;
    return tt_async_host_open(&host, &device, why) ? NULL : device;
}

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

/* In turn: a kernel that fails, and a copy of what is no device memory. */
static void suite_break(struct tt_async_device *device, struct tt_async_stream *stream) {
    static int32_t turn;
    struct tt_error why;
    (void)device;
    if (turn++ % 2 == 0) {
        const struct tt_async_kernel kernel = {.name = "broken", .run = fail_kernel};
        ok(tt_async_launch(stream, &kernel, &why), &why);
    } else {
        ok(tt_async_copy_within(stream, 0x1000, 0x2000, 64, &why), &why);
    }
}

/* ---- copies overlap ---- */

/* Two transfers that wait for each other while they are under way. */
struct meeting {
    sem_t came[2];
};

static enum tt_err meet(void *context, enum tt_async_op_kind kind, size_t bytes) {
    struct meeting *self = context;
    (void)bytes;
    int32_t own = kind == TT_ASYNC_COPY_IN ? 0 : 1;
    sem_post(&self->came[own]);
    while (sem_wait(&self->came[1 - own]) != 0)
        ;
    return TT_OK;
}

static void test_copies_of_two_directions_overlap(void **state) {
    (void)state;
    struct meeting meeting;
    sem_init(&meeting.came[0], 0, 0);
    sem_init(&meeting.came[1], 0, 0);
    const struct tt_async_host_options options = {
        .memory_bytes = 1 << 20, .moving = meet, .moving_context = &meeting};
    struct suite self = {0};
    struct tt_error why;
    ok(tt_async_host_open(&options, &self.device, &why), &why);
    struct tt_async_stream *in = open_stream(&self), *out = open_stream(&self);
    uint64_t a = reserve(&self, BLOCK), b = reserve(&self, BLOCK);
    uint8_t *host = pin(&self, 2 * BLOCK);
    /* Neither ends before both are under way; the test would hang if one waited for the other. */
    ok(tt_async_copy_in(in, a, host, BLOCK, &why), &why);
    ok(tt_async_copy_out(out, host + BLOCK, b, BLOCK, &why), &why);
    drain(&self, in);
    drain(&self, out);
    tt_async_stream_close(in);
    tt_async_stream_close(out);
    tt_async_release(self.device, a, BLOCK);
    tt_async_release(self.device, b, BLOCK);
    tt_async_unpin(self.device, host);
    suite_fini(&self);
}

static enum tt_err refuse_move(void *context, enum tt_async_op_kind kind, size_t bytes) {
    (void)context;
    (void)bytes;
    return kind == TT_ASYNC_COPY_OUT ? TT_ERR_IO : TT_OK;
}

static void test_a_failed_copy_fails_the_device(void **state) {
    (void)state;
    const struct tt_async_host_options options = {.memory_bytes = 1 << 20, .moving = refuse_move};
    struct suite self = {0};
    struct tt_error why;
    ok(tt_async_host_open(&options, &self.device, &why), &why);
    struct tt_async_stream *stream = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    uint64_t a = reserve(&self, BLOCK);
    uint8_t *host = pin(&self, BLOCK);
    ok(tt_async_copy_in(stream, a, host, BLOCK, &why), &why);
    drain(&self, stream);
    ok(tt_async_copy_out(stream, host, a, BLOCK, &why), &why);
    if (!tt_async_record(stream, event, &why))
        assert_int_equal(tt_async_event_wait(event, TT_NEVER, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "a transfer of 256 bytes on stream 0 failed: "));
    tt_async_stream_close(stream);
    tt_async_event_close(event);
    tt_async_release(self.device, a, BLOCK);
    tt_async_unpin(self.device, host);
    suite_fini(&self);
}

/* ---- streams share threads ---- */

enum { MANY = 6 };

static enum tt_err kernel_posts(struct tt_async_device *device, void *context) {
    (void)device;
    sem_post(context);
    return TT_OK;
}

static enum tt_err kernel_awaits(struct tt_async_device *device, void *context) {
    (void)device;
    while (sem_wait(context) != 0)
        ;
    return TT_OK;
}

static void call_posts(void *context) { sem_post(context); }

/* What an event makes ready goes on while the stream that recorded it computes, whether it is a
 * call, a short one, a note or a kernel. The test would hang if it waited for the kernel. */
static void test_a_kernel_holds_up_no_other_stream(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *first = open_stream(&self), *second = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    sem_t came;
    sem_init(&came, 0, 0);
    const struct tt_async_kernel waits = {.name = "a", .run = kernel_awaits, .context = &came};
    const struct tt_async_kernel posts = {.name = "b", .run = kernel_posts, .context = &came};
    for (int32_t i = 0; i < 200; i++) {
        ok(tt_async_record(first, event, &why), &why);
        tt_async_hold(self.device);
        ok(tt_async_launch(first, &waits, &why), &why);
        ok(tt_async_wait(second, event, &why), &why);
        if (i % 4 == 0)
            ok(tt_async_launch(second, &posts, &why), &why);
        else if (i % 4 == 1)
            ok(tt_async_call(second, call_posts, &came, &why), &why);
        else if (i % 4 == 2)
            ok(tt_async_call_short(second, call_posts, &came, &why), &why);
        else
            ok(tt_async_call_note(second, call_posts, &came, &why), &why);
        tt_async_let_go(self.device);
        if (i % 3 == 0) /* else the streams may be at work when the next ones come */
            drain(&self, second);
        drain(&self, first);
    }
    tt_async_stream_close(first);
    tt_async_stream_close(second);
    tt_async_event_close(event);
    suite_fini(&self);
}

struct round_table {
    sem_t came[MANY];
};

struct guest {
    struct round_table *table;
    int32_t index;
};

/* Waits until the kernels of all streams are under way. */
static enum tt_err meet_all(struct tt_async_device *device, void *context) {
    const struct guest *self = context;
    (void)device;
    for (int32_t i = 0; i < MANY; i++)
        if (i != self->index)
            sem_post(&self->table->came[i]);
    for (int32_t i = 0; i < MANY - 1; i++)
        while (sem_wait(&self->table->came[self->index]) != 0)
            ;
    return TT_OK;
}

/* One event makes all of them ready at once. */
static void test_kernels_of_all_streams_overlap(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, MANY + 1, 64);
    struct tt_error why;
    struct tt_async_stream *streams[MANY], *first = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    struct round_table table;
    struct guest guests[MANY];
    sem_t gate;
    sem_init(&gate, 0, 0);
    const struct tt_async_kernel waits = {.name = "gate", .run = kernel_awaits, .context = &gate};
    for (int32_t i = 0; i < MANY; i++) {
        streams[i] = open_stream(&self);
        sem_init(&table.came[i], 0, 0);
        guests[i] = (struct guest){&table, i};
    }
    for (int32_t round = 0; round < 20; round++) {
        ok(tt_async_launch(first, &waits, &why), &why);
        ok(tt_async_record(first, event, &why), &why);
        for (int32_t i = 0; i < MANY; i++) {
            const struct tt_async_kernel meets = {
                .name = "meet", .run = meet_all, .context = &guests[i]};
            ok(tt_async_wait(streams[i], event, &why), &why);
            ok(tt_async_launch(streams[i], &meets, &why), &why);
        }
        sem_post(&gate);
        for (int32_t i = 0; i < MANY; i++)
            drain(&self, streams[i]);
        drain(&self, first);
    }
    for (int32_t i = 0; i < MANY; i++)
        tt_async_stream_close(streams[i]);
    tt_async_stream_close(first);
    tt_async_event_close(event);
    suite_fini(&self);
}

static void note_thread(void *context) { *(pthread_t *)context = pthread_self(); }

/* The submitting thread does notes and short copies of a stream with nothing to do. */
static void test_what_is_short_needs_no_thread(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 2, 64);
    struct tt_error why;
    struct tt_async_stream *stream = open_stream(&self);
    uint64_t a = reserve(&self, BLOCK);
    uint8_t *host = pin(&self, 2 * BLOCK);
    pthread_t noted_by = 0, called_by = 0;
    memset(host, 7, BLOCK);
    ok(tt_async_call_note(stream, note_thread, &noted_by, &why), &why);
    ok(tt_async_copy_in(stream, a, host, BLOCK, &why), &why);
    ok(tt_async_copy_out(stream, host + BLOCK, a, BLOCK, &why), &why);
    assert_true(pthread_equal(noted_by, pthread_self()));
    assert_memory_equal(host + BLOCK, host, BLOCK);
    ok(tt_async_call(stream, note_thread, &called_by, &why), &why);
    drain(&self, stream);
    assert_false(pthread_equal(called_by, pthread_self()));
    tt_async_stream_close(stream);
    tt_async_release(self.device, a, BLOCK);
    tt_async_unpin(self.device, host);
    suite_fini(&self);
}

/* ---- failures end all waiting ---- */

struct waiting_thread {
    struct tt_async_event *event;
    sem_t begun;
    enum tt_err err;
};

static void *wait_main(void *argument) {
    struct waiting_thread *self = argument;
    struct tt_error why;
    sem_post(&self->begun);
    self->err = tt_async_event_wait(self->event, TT_NEVER, &why);
    return NULL;
}

static void test_a_failure_ends_all_waiting(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *hung = open_stream(&self), *blocked = open_stream(&self);
    struct waiting_thread threads[3];
    pthread_t ids[3];
    suite_hang(hung);
    struct tt_async_event *event = open_event(&self), *behind = open_event(&self);
    ok(tt_async_record(hung, event, &why), &why);
    ok(tt_async_wait(blocked, event, &why), &why); /* a stream waits, too */
    ok(tt_async_record(blocked, behind, &why), &why);
    for (int32_t i = 0; i < 3; i++) {
        threads[i].event = i == 0 ? behind : event;
        sem_init(&threads[i].begun, 0, 0);
        pthread_create(&ids[i], NULL, wait_main, &threads[i]);
        while (sem_wait(&threads[i].begun) != 0)
            ;
    }
    tt_async_device_fail(self.device, "the watchdog gave up");
    tt_async_device_fail(self.device, "later reasons do not count");
    for (int32_t i = 0; i < 3; i++) {
        pthread_join(ids[i], NULL);
        assert_int_equal(threads[i].err, TT_ERR_UNAVAILABLE);
    }
    assert_int_equal(tt_async_device_status(self.device, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "device host has failed: the watchdog gave up");
    suite_unhang(hung);
    tt_async_stream_close(hung);
    tt_async_stream_close(blocked);
    tt_async_event_close(event);
    tt_async_event_close(behind);
    suite_fini(&self);
}

/* What a kernel does not state, the order checker cannot check; so it may not touch it. */
static void test_a_kernel_touches_what_it_states(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    struct tt_error why;
    struct tt_async_stream *stream = open_stream(&self);
    struct tt_async_event *event = open_event(&self);
    uint64_t a = reserve(&self, BLOCK), b = reserve(&self, BLOCK);
    struct move move;
    struct tt_async_kernel kernel = move_kernel(&move, b, a);
    ok(tt_async_launch(stream, &kernel, &why), &why);
    drain(&self, stream);
    kernel.range_count = 1; /* it does not state what it reads */
    ok(tt_async_launch(stream, &kernel, &why), &why);
    if (!tt_async_record(stream, event, &why))
        assert_int_equal(tt_async_event_wait(event, TT_NEVER, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "kernel move touches 0x"));
    tt_async_stream_close(stream);
    tt_async_event_close(event);
    tt_async_release(self.device, a, BLOCK);
    tt_async_release(self.device, b, BLOCK);
    suite_fini(&self);
}

/* ---- the device's memory is out of reach ---- */

static bool dies(void (*act)(uint64_t address), uint64_t address) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(0);
        act(address);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void read_address(uint64_t address) {
    const volatile uint8_t *bytes = (const volatile uint8_t *)(uintptr_t)address;
    (void)*bytes;
}

static void write_address(uint64_t address) { *(volatile uint8_t *)(uintptr_t)address = 1; }

static void do_nothing(uint64_t address) { (void)address; }

static void test_host_code_cannot_touch_device_memory(void **state) {
    (void)state;
    struct suite self;
    suite_init(&self, 4, 64);
    uint64_t a = reserve(&self, BLOCK);
    assert_false(dies(do_nothing, a));
    assert_true(dies(read_address, a));
    assert_true(dies(write_address, a));
    tt_async_release(self.device, a, BLOCK);
    suite_fini(&self);
}

/* More than this machine's address space. */
static void test_wrong_memory(void **state) {
    (void)state;
    const struct tt_async_host_options options = {.memory_bytes = UINT64_C(1) << 62};
    struct tt_async_device *device = NULL;
    struct tt_error why;
    assert_int_equal(tt_async_host_open(&options, &device, &why), TT_ERR_NO_MEMORY);
    assert_string_equal(why.text, "no room for a device memory of 4611686018427387904 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SUITE_TESTS,
        cmocka_unit_test(test_copies_of_two_directions_overlap),
        cmocka_unit_test(test_a_failed_copy_fails_the_device),
        cmocka_unit_test(test_a_kernel_holds_up_no_other_stream),
        cmocka_unit_test(test_kernels_of_all_streams_overlap),
        cmocka_unit_test(test_what_is_short_needs_no_thread),
        cmocka_unit_test(test_a_failure_ends_all_waiting),
        cmocka_unit_test(test_a_kernel_touches_what_it_states),
        cmocka_unit_test(test_host_code_cannot_touch_device_memory),
        cmocka_unit_test(test_wrong_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
