/* threaded */
/* D4, E1: the CUDA device over a stand-in for the driver (tests/standin): the suite, and every way
 * in which the driver can fail.
 *
 * TUTTI_TEST_GPU=1 runs the suite on this machine's GPU instead. */
#include "device/async_cuda.h"

#include "base/clock.h"
#include "device/cuda_driver.h"
#include "standin/cuda_standin.h"
#include "unit/device/hang_calls.h"

#include <dlfcn.h>
#include <pthread.h>

static const bool suite_limits_queues = false;

static const char *const standin_path = TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so";
static const struct cuda_standin *standin;
static struct tt_cuda_driver driver; /* of the library that the device uses */
static bool on_gpu;

static const char *driver_path(void) { return on_gpu ? NULL : standin_path; }

static struct tt_async_device *suite_open(const struct suite_options *options,
                                          struct tt_error *why) {
    if (!on_gpu)
        standin->reset(1, options->memory_bytes);
    const struct tt_async_cuda_options cuda = {.driver_path = driver_path(),
                                               .max_streams = options->max_streams,
                                               .take_order = options->take_order};
    struct tt_async_device *device = NULL;
    return tt_async_cuda_open(&cuda, &device, why) ? NULL : device;
}

static enum tt_err suite_enqueue_move(struct tt_async_device *device, void *context,
                                      void *native_stream, struct tt_error *why) {
    const struct move *self = context;
    (void)device;
    (void)why;
    return driver.cuMemcpyDtoDAsync_v2(self->to, self->from, BLOCK, native_stream) ? TT_ERR_INTERNAL
                                                                                   : TT_OK;
}

/* In turn: an operation that fails, and one on what is no device memory. */
static void suite_break(struct tt_async_device *device, struct tt_async_stream *stream) {
    static int32_t turn;
    struct tt_error why;
    if (on_gpu) {
        tt_async_device_fail(device, "a GPU is not broken on purpose");
        return;
    }
    static uint8_t host[64];
    if (turn++ % 2 == 0)
        standin->fail_operation(TT_CUDA_LAUNCH_FAILED);
    ok(tt_async_copy_in(stream, 0x1000, host, sizeof(host), &why), &why);
}

/* ---- finding a GPU ---- */

static enum tt_err count(const char *path, struct tt_error *why) {
    int32_t gpus = -5;
    enum tt_err err = tt_async_cuda_count(path, &gpus, why);
    assert_int_equal(gpus, err ? -5 : 2);
    return err;
}

static void test_machines_without_a_gpu(void **state) {
    (void)state;
    struct tt_error why;
    standin->reset(2, 1 << 20);
    assert_int_equal(count("/no/such/libcuda.so.1", &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "no CUDA driver: /no/such/libcuda.so.1"));
    assert_int_equal(count(TUTTI_BUILD_DIR "/tests/standin/cuda_standin_old.so", &why),
                     TT_ERR_UNSUPPORTED);
    assert_string_equal(
        why.text, "the CUDA driver has no cuLaunchHostFunc; one for CUDA 11 or later is needed");
    standin->fail_call("cuInit", 0, TT_CUDA_NO_DEVICE);
    assert_int_equal(count(standin_path, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "the CUDA driver cannot start: CUDA_ERROR_NO_DEVICE");
    standin->fail_call("cuInit", 0, 12345);
    assert_int_equal(count(standin_path, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "the CUDA driver cannot start: an unknown error");
    standin->fail_call("cuDeviceGetCount", 0, TT_CUDA_NO_DEVICE);
    assert_int_equal(count(standin_path, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text,
                        "the CUDA driver cannot list its GPUs: CUDA_ERROR_NO_DEVICE (100)");
    assert_int_equal(count(standin_path, &why), TT_OK);
    standin->reset(0, 1 << 20);
    assert_int_equal(count(standin_path, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "the CUDA driver finds no GPU");
}

static enum tt_err open_fails(const struct tt_async_cuda_options *options, struct tt_error *why) {
    struct tt_async_device *device = NULL;
    struct tt_async_cuda_options checked = *options;
    const struct tt_async_order_options order = {.max_streams = 4};
    assert_int_equal(tt_async_order_new(&order, &checked.take_order, why), TT_OK);
    enum tt_err err = tt_async_cuda_open(&checked, &device, why);
    assert_null(device);
    return err;
}

static void test_a_gpu_that_cannot_be_opened(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_async_cuda_options options = {.driver_path = "/no/such/driver"};
    assert_int_equal(open_fails(&options, &why), TT_ERR_NOT_FOUND);
    options.driver_path = standin_path;
    standin->reset(0, 1 << 20);
    assert_int_equal(open_fails(&options, &why), TT_ERR_UNAVAILABLE);
    standin->reset(2, 1 << 20);
    options.index = 2;
    assert_int_equal(open_fails(&options, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "there is no GPU 2: this machine has 2, counted from 0");
    options.index = -1;
    assert_int_equal(open_fails(&options, &why), TT_ERR_INVALID);
    options.index = 1;
    static const char *const calls[] = {"cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceTotalMem_v2",
                                        "cuDeviceGetAttribute",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2"};
    for (size_t i = 0; i < TT_COUNT(calls); i++) {
        standin->fail_call(calls[i], 0, TT_CUDA_OUT_OF_MEMORY);
        assert_int_equal(open_fails(&options, &why), TT_ERR_UNAVAILABLE);
        assert_string_equal(why.text, "GPU 1 cannot be opened: CUDA_ERROR_OUT_OF_MEMORY (2)");
    }
    assert_true(standin->all_happened());
    struct tt_async_device *device = NULL;
    ok(tt_async_cuda_open(&options, &device, &why), &why);
    assert_string_equal(tt_async_device_info(device)->name, "stand-in");
    assert_int_equal(tt_async_device_info(device)->copy_engines, 2);
    assert_int_equal(tt_async_device_info(device)->memory_bytes, 1 << 20);
    assert_int_equal(tt_async_device_info(device)->max_streams, 64);
    tt_async_device_close(device);
}

/* A device that failed was closed, and left its context unusable: opening it again resets it. */
static void test_a_context_that_was_left_unusable(void **state) {
    (void)state;
    struct tt_error why;
    struct tt_async_cuda_options options = {.driver_path = standin_path};
    struct tt_async_device *device = NULL;
    standin->reset(1, 1 << 20);
    standin->break_context(TT_CUDA_ILLEGAL_ADDRESS);
    ok(tt_async_cuda_open(&options, &device, &why), &why);
    ok(tt_async_device_probe(device, &why), &why);
    tt_async_device_close(device);
    standin->break_context(TT_CUDA_ILLEGAL_ADDRESS);
    standin->fail_call("cuDevicePrimaryCtxReset_v2", 0, TT_CUDA_LAUNCH_FAILED);
    assert_int_equal(open_fails(&options, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "GPU 0 cannot be opened"));
    ok(tt_async_cuda_open(&options, &device, &why), &why);
    tt_async_device_close(device);
}

/* The driver is that in the environment, unless a path is given. */
static void test_a_driver_by_the_environment(void **state) {
    (void)state;
    struct tt_error why;
    standin->reset(2, 1 << 20);
    setenv("TUTTI_CUDA_DRIVER", standin_path, 1);
    assert_int_equal(count(NULL, &why), TT_OK);
    setenv("TUTTI_CUDA_DRIVER", "/no/such/driver.so", 1);
    assert_int_equal(count(NULL, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "/no/such/driver.so"));
    assert_int_equal(count(standin_path, &why), TT_OK);
    unsetenv("TUTTI_CUDA_DRIVER");
}

/* ---- calls that fail ---- */

/* Everything that a device in use has. */
struct used {
    struct suite suite;
    struct tt_async_stream *stream;
    struct tt_async_event *event;
    uint64_t memory;
    uint8_t *host;
    struct move move;
};

static void used_init(struct used *self) {
    suite_init(&self->suite, 4, 64);
    struct tt_error why;
    self->stream = open_stream(&self->suite);
    self->event = open_event(&self->suite);
    self->memory = reserve(&self->suite, 2 * BLOCK);
    self->host = pin(&self->suite, BLOCK);
    ok(tt_async_record(self->stream, self->event, &why), &why);
    ok(tt_async_event_wait(self->event, TT_NEVER, &why), &why);
}

static void used_close(struct used *self) {
    tt_async_stream_close(self->stream);
    tt_async_event_close(self->event);
    tt_async_release(self->suite.device, self->memory, 2 * BLOCK);
    tt_async_unpin(self->suite.device, self->host);
}

static enum tt_err do_open_stream(struct used *self, struct tt_error *why) {
    struct tt_async_stream *stream = NULL;
    enum tt_err err = tt_async_stream_open(self->suite.device, &stream, why);
    if (stream)
        tt_async_stream_close(stream);
    return err;
}

static enum tt_err do_open_event(struct used *self, struct tt_error *why) {
    struct tt_async_event *event = NULL;
    enum tt_err err = tt_async_event_open(self->suite.device, &event, why);
    if (event)
        tt_async_event_close(event);
    return err;
}

static enum tt_err do_reserve(struct used *self, struct tt_error *why) {
    uint64_t address = 0;
    enum tt_err err = tt_async_reserve(self->suite.device, BLOCK, &address, why);
    if (address)
        tt_async_release(self->suite.device, address, BLOCK);
    return err;
}

static enum tt_err do_pin(struct used *self, struct tt_error *why) {
    void *made = NULL;
    enum tt_err err = tt_async_pin(self->suite.device, BLOCK, &made, why);
    if (made)
        tt_async_unpin(self->suite.device, made);
    return err;
}

static enum tt_err do_query(struct used *self, struct tt_error *why) {
    return tt_async_event_query(self->event, why);
}
static enum tt_err do_wait(struct used *self, struct tt_error *why) {
    return tt_async_event_wait(self->event, TT_NEVER, why);
}
static enum tt_err do_wait_until(struct used *self, struct tt_error *why) {
    return tt_async_event_wait(self->event, tt_clock_now() + TT_S, why);
}
static enum tt_err do_record(struct used *self, struct tt_error *why) {
    return tt_async_record(self->stream, self->event, why);
}
static enum tt_err do_stream_wait(struct used *self, struct tt_error *why) {
    return tt_async_wait(self->stream, self->event, why);
}
static enum tt_err do_copy_in(struct used *self, struct tt_error *why) {
    return tt_async_copy_in(self->stream, self->memory, self->host, BLOCK, why);
}
static enum tt_err do_copy_out(struct used *self, struct tt_error *why) {
    return tt_async_copy_out(self->stream, self->host, self->memory, BLOCK, why);
}
static enum tt_err do_copy_within(struct used *self, struct tt_error *why) {
    return tt_async_copy_within(self->stream, self->memory, self->memory + BLOCK, BLOCK, why);
}
static enum tt_err do_fill(struct used *self, struct tt_error *why) {
    return tt_async_fill(self->stream, self->memory, 1, BLOCK, why);
}
static enum tt_err do_call(struct used *self, struct tt_error *why) {
    static struct calls calls;
    static struct one_call call = {&calls, 0};
    calls.count = 0;
    return tt_async_call(self->stream, note_call, &call, why);
}
static enum tt_err do_launch(struct used *self, struct tt_error *why) {
    const struct tt_async_kernel kernel =
        move_kernel(&self->move, self->memory, self->memory + BLOCK);
    return tt_async_launch(self->stream, &kernel, why);
}

static const struct {
    const char *call; /* of the driver */
    enum tt_err (*act)(struct used *self, struct tt_error *why);
} uses[] = {
    {"cuStreamCreate", do_open_stream},
    {"cuEventCreate", do_open_event},
    {"cuMemAlloc_v2", do_reserve},
    {"cuMemHostAlloc", do_pin},
    {"cuEventQuery", do_query},
    {"cuEventSynchronize", do_wait},
    {"cuEventQuery", do_wait_until},
    {"cuEventRecord", do_record},
    {"cuStreamWaitEvent", do_stream_wait},
    {"cuMemcpyHtoDAsync_v2", do_copy_in},
    {"cuMemcpyDtoHAsync_v2", do_copy_out},
    {"cuMemcpyDtoDAsync_v2", do_copy_within},
    {"cuMemsetD8Async", do_fill},
    {"cuLaunchHostFunc", do_call},
    /* The context cannot be made current. */
    {"cuCtxSetCurrent", do_open_stream},
    {"cuCtxSetCurrent", do_open_event},
    {"cuCtxSetCurrent", do_reserve},
    {"cuCtxSetCurrent", do_pin},
    {"cuCtxSetCurrent", do_query},
    {"cuCtxSetCurrent", do_wait},
    {"cuCtxSetCurrent", do_wait_until},
    {"cuCtxSetCurrent", do_fill},
};

/* The message names the call, without the suffix that it has in the library. */
static void assert_names(const struct tt_error *why, const char *call, const char *result) {
    char name[64];
    snprintf(name, sizeof(name), "%s", call);
    char *suffix = strstr(name, "_v2");
    if (suffix)
        *suffix = '\0';
    assert_non_null(strstr(why->text, name));
    assert_non_null(strstr(why->text, result));
}

/* A result that does not concern the context is this call's alone: the next one works. */
static void test_single_calls_fail(void **state) {
    (void)state;
    struct used self;
    struct tt_error why;
    used_init(&self);
    for (size_t i = 0; i < TT_COUNT(uses); i++) {
        standin->fail_call(uses[i].call, 0, 1);
        assert_int_equal(uses[i].act(&self, &why), TT_ERR_INTERNAL);
        assert_names(&why, uses[i].call, "on device stand-in: CUDA_ERROR_INVALID_VALUE (1)");
        assert_true(standin->all_happened());
        ok(uses[i].act(&self, &why), &why);
        drain(&self.suite, self.stream);
    }
    /* A kernel's own form on the stream fails, or is missing. */
    standin->fail_call("cuMemcpyDtoDAsync_v2", 0, 1);
    assert_int_equal(do_launch(&self, &why), TT_ERR_INTERNAL);
    assert_string_equal(why.text, "kernel move was not put on its stream: internal error");
    const struct tt_async_kernel kernel = {.name = "for threads"};
    assert_int_equal(tt_async_launch(self.stream, &kernel, &why), TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text, "kernel for threads has no form for CUDA");
    standin->fail_call("cuMemHostAlloc", 0, TT_CUDA_OUT_OF_MEMORY);
    assert_int_equal(do_pin(&self, &why), TT_ERR_NO_MEMORY);
    assert_int_equal(self.suite.conflict_count, 0);
    used_close(&self);
    suite_fini(&self.suite);
}

/* After these the context is lost, whichever call reports it. */
static void test_sticky_results(void **state) {
    (void)state;
    static const int results[] = {TT_CUDA_DEINITIALIZED,
                                  TT_CUDA_DEVICE_UNAVAILABLE,
                                  TT_CUDA_NO_DEVICE,
                                  TT_CUDA_INVALID_DEVICE,
                                  TT_CUDA_ECC_UNCORRECTABLE,
                                  TT_CUDA_NVLINK_UNCORRECTABLE,
                                  TT_CUDA_ILLEGAL_ADDRESS,
                                  TT_CUDA_LAUNCH_TIMEOUT,
                                  TT_CUDA_CONTEXT_IS_DESTROYED,
                                  TT_CUDA_ASSERT,
                                  TT_CUDA_HARDWARE_STACK_ERROR,
                                  715,
                                  716,
                                  717,
                                  718,
                                  TT_CUDA_LAUNCH_FAILED,
                                  TT_CUDA_UNKNOWN};
    for (size_t i = 0; i < TT_COUNT(uses) + TT_COUNT(results); i++) {
        struct used self;
        struct tt_error why;
        char reason[64];
        int result = results[i % TT_COUNT(results)];
        used_init(&self);
        standin->fail_call(uses[i % TT_COUNT(uses)].call, 0, result);
        assert_int_equal(uses[i % TT_COUNT(uses)].act(&self, &why), TT_ERR_UNAVAILABLE);
        snprintf(reason, sizeof(reason), "(%d)", result);
        assert_names(&why, uses[i % TT_COUNT(uses)].call, reason);
        assert_failed(&self.suite, self.stream, self.event, self.memory, self.host);
        used_close(&self);
        ok(tt_async_device_restart(self.suite.device, &why), &why);
        suite_fini(&self.suite);
    }
}

/* ---- waiting ---- */

struct late_failure {
    struct tt_async_device *device;
    sem_t begun;
};

static void *fail_later(void *argument) {
    struct late_failure *self = argument;
    while (sem_wait(&self->begun) != 0)
        ;
    tt_async_device_fail(self->device, "the watchdog gave up");
    return NULL;
}

/* A wait with a limit ends when the device fails, by the driver or by a watchdog. */
static void test_waiting_ends_with_a_failure(void **state) {
    (void)state;
    struct used self;
    struct tt_error why;
    used_init(&self);
    suite_hang(self.stream);
    ok(tt_async_record(self.stream, self.event, &why), &why);
    standin->fail_call("cuEventQuery", 3, TT_CUDA_ILLEGAL_ADDRESS);
    assert_int_equal(tt_async_event_wait(self.event, tt_clock_now() + 1000 * TT_S, &why),
                     TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
    suite_unhang(self.stream);
    used_close(&self);
    ok(tt_async_device_restart(self.suite.device, &why), &why);
    suite_fini(&self.suite);

    used_init(&self);
    suite_hang(self.stream);
    ok(tt_async_record(self.stream, self.event, &why), &why);
    struct late_failure late = {.device = self.suite.device};
    pthread_t thread;
    sem_init(&late.begun, 0, 0);
    pthread_create(&thread, NULL, fail_later, &late);
    sem_post(&late.begun);
    assert_int_equal(tt_async_event_wait(self.event, tt_clock_now() + 1000 * TT_S, &why),
                     TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "the watchdog gave up"));
    pthread_join(thread, NULL);
    suite_unhang(self.stream);
    used_close(&self);
    suite_fini(&self.suite);
    assert_true(standin->end_process() > 0); /* the watchdog's reason keeps what was there */
}

/* ---- quarantine ---- */

static struct {
    sem_t entered, gate, drained;
    _Atomic int calls;
} hung;

static void block_kernel(void *context) {
    (void)context;
    sem_post(&hung.entered);
    while (sem_wait(&hung.gate) != 0)
        continue;
}

static void post_drained(void *context) {
    (void)context;
    sem_post(&hung.drained);
}

static void count_call(void *context) {
    (void)context;
    hung.calls++;
}

/* What the GPU itself runs: the context says which. */
static enum tt_err enqueue_own(struct tt_async_device *device, void *context, void *native_stream,
                               struct tt_error *why) {
    (void)device;
    (void)why;
    void (*work)(void *) = *(void (**)(void *))context;
    return driver.cuLaunchHostFunc(native_stream, work, NULL) ? TT_ERR_INTERNAL : TT_OK;
}

static void launch_own(struct used *self, void (**work)(void *)) {
    struct tt_error why;
    const struct tt_async_kernel kernel = {
        .name = "own", .enqueue = enqueue_own, .context = (void *)work};
    ok(tt_async_launch(self->stream, &kernel, &why), &why);
}

/* Its stream hangs, with a call behind; the watchdog gives up, and all is closed. */
static void give_up(struct used *self) {
    static void (*blocks)(void *) = block_kernel;
    static void (*drains)(void *) = post_drained;
    struct tt_error why;
    used_init(self);
    sem_init(&hung.entered, 0, 0);
    sem_init(&hung.gate, 0, 0);
    sem_init(&hung.drained, 0, 0);
    hung.calls = 0;
    launch_own(self, &blocks);
    ok(tt_async_call(self->stream, count_call, NULL, &why), &why);
    launch_own(self, &drains);
    while (sem_wait(&hung.entered) != 0)
        continue;
    assert_false(tt_async_device_keeps(self->suite.device));
    tt_async_device_fail(self->suite.device, "the watchdog gave up");
    assert_true(tt_async_device_keeps(self->suite.device));
    static int thing; /* what the caller has there besides */
    tt_async_device_keep(self->suite.device, &thing);
    used_close(self); /* it waits for nothing that hangs */
}

static void let_go(void) {
    sem_post(&hung.gate);
    while (sem_wait(&hung.drained) != 0)
        continue;
    assert_int_equal(hung.calls, 0); /* its context is closed */
}

/* Nothing of a stream that hangs is freed or used again, also by another device of the GPU, until
 * the process ends. */
static void test_what_hangs_is_kept(void **state) {
    (void)state;
    struct used self;
    struct tt_error why;
    struct tt_async_device *device;
    uint64_t address;
    const struct tt_async_cuda_options cuda = {.driver_path = driver_path()};
    give_up(&self);
    suite_fini(&self.suite);
    ok(tt_async_cuda_open(&cuda, &device, &why), &why);
    ok(tt_async_reserve(device, 2 * BLOCK, &address, &why), &why);
    assert_true(address + 2 * BLOCK <= self.memory || address >= self.memory + 2 * BLOCK);
    tt_async_release(device, address, 2 * BLOCK);
    let_go();
    tt_async_device_close(device);
    assert_true(standin->end_process() == 2 * BLOCK);
}

/* Or until the device restarts. */
static void test_a_restart_ends_the_quarantine(void **state) {
    (void)state;
    struct used self;
    struct tt_error why;
    give_up(&self);
    let_go();
    ok(tt_async_device_restart(self.suite.device, &why), &why);
    assert_false(tt_async_device_keeps(self.suite.device));
    uint64_t address;
    ok(tt_async_reserve(self.suite.device, BLOCK, &address, &why), &why);
    tt_async_release(self.suite.device, address, BLOCK);
    suite_fini(&self.suite);
    assert_true(standin->end_process() == 0);
}

/* A call needs memory of the host's; the stream goes on without it. */
static void test_no_memory_for_a_call(void **state) {
    (void)state;
    struct used self;
    struct tt_error why = {""};
    used_init(&self);
    hung.calls = 0;
    failing_allocation = 1;
    assert_int_equal(tt_async_call(self.stream, count_call, NULL, &why), TT_ERR_NO_MEMORY);
    failing_allocation = 0;
    assert_string_equal(why.text, "out of memory for a call on stream 0");
    ok(tt_async_call(self.stream, count_call, NULL, &why), &why);
    drain(&self.suite, self.stream);
    assert_int_equal(hung.calls, 1);
    used_close(&self);
    suite_fini(&self.suite);
}

/* A GPU that falls off the bus: all calls fail, and so does a restart, until it is back. */
static void test_a_vanished_gpu(void **state) {
    (void)state;
    struct used self;
    struct tt_error why;
    used_init(&self);
    standin->vanish(TT_CUDA_NO_DEVICE);
    assert_int_equal(do_fill(&self, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "device stand-in has failed: cuCtxSetCurrent: "
                                  "CUDA_ERROR_NO_DEVICE (100)");
    assert_failed(&self.suite, self.stream, self.event, self.memory, self.host);
    used_close(&self);
    assert_int_equal(tt_async_device_restart(self.suite.device, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "device stand-in cannot be restarted: cuDevicePrimaryCtxReset: "
                                  "CUDA_ERROR_NO_DEVICE (100); restart the process");
    assert_int_equal(tt_async_device_status(self.suite.device, &why), TT_ERR_UNAVAILABLE);
    standin->vanish(0);
    ok(tt_async_device_restart(self.suite.device, &why), &why);
    ok(tt_async_device_status(self.suite.device, &why), &why);
    uint64_t memory = reserve(&self.suite, BLOCK);
    tt_async_release(self.suite.device, memory, BLOCK);
    suite_fini(&self.suite);
}

static void test_restarts_that_fail(void **state) {
    (void)state;
    static const char *const calls[] = {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemFree_v2"};
    struct suite self;
    struct tt_error why;
    suite_init(&self, 4, 64);
    for (size_t i = 0; i < TT_COUNT(calls); i++) {
        tt_async_device_fail(self.device, "for the test");
        standin->fail_call(calls[i], 0, TT_CUDA_ILLEGAL_ADDRESS);
        assert_int_equal(tt_async_device_restart(self.device, &why), TT_ERR_UNAVAILABLE);
        assert_non_null(strstr(why.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700); restart the process"));
        assert_int_equal(tt_async_device_status(self.device, &why), TT_ERR_UNAVAILABLE);
        assert_true(standin->all_happened());
    }
    ok(tt_async_device_restart(self.device, &why), &why);
    suite_fini(&self);
    suite_init(&self, 4, 64);
    tt_async_device_fail(self.device, "for the test");
    standin->fail_call("cuDevicePrimaryCtxReset_v2", 0, TT_CUDA_ILLEGAL_ADDRESS);
    assert_int_equal(tt_async_device_restart(self.device, &why), TT_ERR_UNAVAILABLE);
    suite_fini(&self); /* without a context */
}

static int find_driver(void **state) {
    (void)state;
    struct tt_error why;
    if (!on_gpu) {
        void *library = dlopen(standin_path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        standin = dlsym(library, "cuda_standin");
        assert_non_null(standin);
    }
    ok(tt_cuda_driver_load(driver_path(), &driver, &why), &why);
    return 0;
}

/* Each call that an instant needs fails once: it is not known, and nothing else is wrong. */
static void test_instants_that_are_not_known(void **state) {
    (void)state;
    static const struct {
        const char *function;
        int result;
        enum tt_err err;
        int skip; /* calls of it that do not fail */
    } cases[] = {{"cuCtxSetCurrent", 201, TT_ERR_INTERNAL},
                 {"cuEventQuery", TT_CUDA_NOT_READY, TT_ERR_BUSY},
                 {"cuStreamCreate", 201, TT_ERR_INTERNAL},
                 {"cuEventCreate", TT_CUDA_OUT_OF_MEMORY, TT_ERR_NO_MEMORY},
                 {"cuEventCreate", TT_CUDA_OUT_OF_MEMORY, TT_ERR_NO_MEMORY, .skip = 1},
                 {"cuEventRecord", 201, TT_ERR_INTERNAL},
                 {"cuEventSynchronize", 201, TT_ERR_INTERNAL},
                 {"cuEventElapsedTime", 201, TT_ERR_INTERNAL}};
    struct suite self;
    struct tt_error why;
    suite_init(&self, 4, 16);
    struct tt_async_stream *stream = open_stream(&self);
    struct tt_async_event *event;
    int64_t at = -7;
    ok(tt_async_event_open_timed(self.device, &event, &why), &why);
    ok(tt_async_record(stream, event, &why), &why);
    drain(&self, stream);
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        standin->fail_call(cases[i].function, cases[i].skip, cases[i].result);
        assert_int_equal(tt_async_event_instant(event, 1, &at, &why), cases[i].err);
        assert_int_equal(at, -7);
        assert_true(standin->all_happened());
    }
    ok(tt_async_event_instant(event, 1, &at, &why), &why);
    assert_true(at > 0);
    tt_async_event_close(event);
    tt_async_stream_close(stream);
    suite_fini(&self);
}

int main(void) {
    on_gpu = getenv("TUTTI_TEST_GPU") != NULL;
    const struct CMUnitTest suite[] = {SUITE_TESTS};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_machines_without_a_gpu),
        cmocka_unit_test(test_a_gpu_that_cannot_be_opened),
        cmocka_unit_test(test_a_context_that_was_left_unusable),
        cmocka_unit_test(test_a_driver_by_the_environment),
        cmocka_unit_test(test_single_calls_fail),
        cmocka_unit_test(test_sticky_results),
        cmocka_unit_test(test_waiting_ends_with_a_failure),
        cmocka_unit_test(test_what_hangs_is_kept),
        cmocka_unit_test(test_a_restart_ends_the_quarantine),
        cmocka_unit_test(test_no_memory_for_a_call),
        cmocka_unit_test(test_a_vanished_gpu),
        cmocka_unit_test(test_restarts_that_fail),
        cmocka_unit_test(test_instants_that_are_not_known),
    };
    int failed = cmocka_run_group_tests_name("suite", suite, find_driver, NULL);
    return on_gpu ? failed : failed + cmocka_run_group_tests(own, find_driver, NULL);
}
