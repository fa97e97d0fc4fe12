/* threaded */
/* D4, E1: whole graphs on streams of a GPU by ONNX Runtime's CUDA provider, over stand-ins for the
 * driver and for the library (tests/standin): that answers are right, that each call that can fail
 * does so with a reason and leaves nothing, and that completions may submit. */
#include "base/clock.h"
#include "base/prng.h"
#include "device/async_cuda.h"
#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_compute.h"
#include "engine/onnxruntime/ort_gpu.h"
#include "engine/streams/stream_engine.h"
#include "standin/cuda_standin.h"
#include "standin/onnxruntime_standin.h"
#include "unit/engine/engine_bench.h"
#include "unit/engine/tiny_onnx.h"
#include "unit/seed.h"

#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXECUTORS = 2, DEPTH = 2, BATCH = 8, WIDTH = 3, LIMIT_S = 60, ARENA = 1 << 20 };

static const char *const driver_path = TUTTI_BUILD_DIR "/tests/standin/cuda_standin.so";
static const char *const runtime_path = TUTTI_BUILD_DIR "/tests/standin/onnxruntime_standin.so";
static const struct cuda_standin *driver;
static const struct onnxruntime_standin *runtime;
static char model_path[64];

/* y = a + b, of INT32 rows. */
static const struct tt_signature signature = {
    .batched = true,
    .max_batch = BATCH,
    .input_count = 2,
    .output_count = 1,
    .inputs = {{"a", TT_DTYPE_INT32, {2, {-1, WIDTH}}}, {"b", TT_DTYPE_INT32, {2, {-1, WIDTH}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, WIDTH}}}},
};

struct request {
    int32_t a[BATCH * WIDTH], b[BATCH * WIDTH];
    struct tt_tensor_view inputs[2];
    struct tt_error why;
};

struct batch {
    struct tt_engine_task task; /* first */
    struct tt_engine_member members[BATCH];
    struct request requests[BATCH];
    struct rig *rig;
    int32_t repeats;    /* how often its completion submits it again */
    struct batch *with; /* its first completion submits this one, too; NULL */
};

struct rig {
    struct tt_ort_library *library;
    struct tt_engine *cpu, *streams;
    struct tt_engine_model *loaded, *model;
    struct tt_async_device *device;
    struct tt_engine_on_gpu *on_gpu;
    struct tt_dataflow dataflow;
    struct tt_ring returned;
    int32_t wrong;
};

/* ---- the program of the model: what control/device_streams does ---- */

static enum tt_err prepare(void *context, void *const *streams, int32_t count,
                           struct tt_error *why) {
    struct rig *rig = context;
    const struct tt_engine_gpu_options options = {.signature = &signature,
                                                  .dataflow = &rig->dataflow,
                                                  .streams = streams,
                                                  .stream_count = count,
                                                  .memory_bytes = ARENA};
    return tt_ort_gpu.open(rig->loaded, &options, &rig->on_gpu, why);
}

static enum tt_err enqueue(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    const struct rig *rig = context;
    (void)native_stream;
    return tt_ort_gpu.enqueue(rig->on_gpu, executor, step, rows, in, out, why);
}

static void release(void *context) {
    struct rig *rig = context;
    tt_ort_gpu.close(rig->on_gpu);
    rig->on_gpu = NULL;
}

/* ---- batches ---- */

static void release_results(struct batch *batch) {
    for (int32_t i = 0; i < batch->task.member_count; i++)
        if (batch->members[i].result)
            batch->rig->streams->ops->result_release(batch->members[i].result);
}

static bool is_right(const struct batch *batch, int32_t i) {
    const struct tt_engine_member *member = &batch->members[i];
    const struct request *request = &batch->requests[i];
    struct tt_tensor_view view;
    if (member->err || !member->result)
        return false;
    batch->rig->streams->ops->output(member->result, 0, member->first_row, member->rows, &view);
    bool right = true;
    for (int32_t k = 0; k < member->rows * WIDTH; k++)
        right &= ((const int32_t *)view.bytes)[k] == request->a[k] + request->b[k];
    return right;
}

/* Submits from within, which CUDA forbids to functions that streams call. */
static void done(void *context, struct tt_device_task *head) {
    struct rig *rig = context;
    struct batch *batch = (struct batch *)(void *)head;
    if (batch->with)
        tt_engine_submit(rig->streams, &batch->with->task);
    batch->with = NULL;
    if (batch->repeats > 0 && head->outcome == TT_OUTCOME_DONE) {
        batch->repeats--;
        for (int32_t i = 0; i < batch->task.member_count; i++)
            rig->wrong += !is_right(batch, i);
        release_results(batch);
        tt_engine_submit(rig->streams, &batch->task);
        return;
    }
    bool pushed = tt_ring_push(&rig->returned, batch);
    tt_assert(pushed);
}

static void batch_init(struct batch *batch, struct rig *rig, int32_t executor, int32_t members,
                       struct tt_prng *prng) {
    *batch = (struct batch){.rig = rig,
                            .task = {.head.executor = executor,
                                     .model = rig->model,
                                     .members = batch->members,
                                     .member_count = members}};
    for (int32_t i = 0; i < members; i++) {
        struct request *request = &batch->requests[i];
        int32_t rows = members <= BATCH / 2 ? 1 + (int32_t)tt_prng_below(prng, 2) : 1;
        for (int32_t k = 0; k < rows * WIDTH; k++) {
            request->a[k] = (int32_t)tt_prng_below(prng, 1 << 20);
            request->b[k] = (int32_t)tt_prng_below(prng, 1 << 20);
        }
        size_t bytes = (size_t)rows * WIDTH * sizeof(int32_t);
        request->inputs[0] = (struct tt_tensor_view){request->a, bytes, {2, {rows, WIDTH}}};
        request->inputs[1] = (struct tt_tensor_view){request->b, bytes, {2, {rows, WIDTH}}};
        batch->members[i] = (struct tt_engine_member){
            .rows = rows, .inputs = request->inputs, .why = &request->why};
    }
}

/* Waits for a batch, as a server does: a failed device returns its tasks. */
static struct batch *await(struct rig *rig) {
    struct tt_error why;
    struct batch *batch;
    int64_t until_at = tt_clock_now() + LIMIT_S * TT_S;
    while (!(batch = tt_ring_pop(&rig->returned))) {
        assert_true(tt_clock_now() < until_at);
        if (rig->streams->ops->has_failed(rig->streams, &why))
            (void)rig->streams->ops->return_failed(rig->streams);
        sched_yield();
    }
    return batch;
}

/* Runs a batch; how many of its members have right answers. */
static int32_t run_batch(struct rig *rig, struct batch *batch) {
    tt_engine_submit(rig->streams, &batch->task);
    assert_ptr_equal(await(rig), batch);
    int32_t right = 0;
    for (int32_t i = 0; i < batch->task.member_count; i++)
        right += is_right(batch, i);
    release_results(batch);
    return right;
}

/* ---- the rig ---- */

static void open_device(struct rig *rig) {
    const struct tt_async_cuda_options cuda = {.driver_path = driver_path};
    struct tt_error why = {""};
    if (tt_async_cuda_open(&cuda, &rig->device, &why))
        fail_msg("%s", why.text);
}

static enum tt_err open_streams(struct rig *rig, struct tt_error *why) {
    const struct tt_stream_engine_options options = {.engine = {.executor_count = EXECUTORS,
                                                                .queue_depth = DEPTH,
                                                                .done = done,
                                                                .done_context = rig},
                                                     .device = rig->device};
    const struct tt_stream_program program = {.signature = &signature,
                                              .step_count = 1,
                                              .context = rig,
                                              .prepare = prepare,
                                              .enqueue = enqueue,
                                              .release = release};
    assert_int_equal(tt_stream_engine_open(&options, &rig->streams, why), TT_OK);
    enum tt_err err = tt_stream_engine_load(rig->streams, &program, &rig->model, why);
    if (err)
        rig->streams->ops->close(rig->streams);
    return err;
}

static void close_streams(struct rig *rig) {
    rig->streams->ops->unload(rig->model);
    rig->streams->ops->close(rig->streams);
    assert_int_equal(runtime->open_things(), 0);
}

static void open_runtime(struct rig *rig, const char *path) {
    const struct tt_ort_library_options library = {.path = path};
    const struct tt_engine_options cpu = {.executor_count = 1, .queue_depth = 1};
    const struct tt_ort_model_options model = {
        .path = model_path, .batched = true, .max_batch = BATCH};
    struct tt_error why = {""};
    *rig = (struct rig){0};
    assert_int_equal(tt_ring_init(&rig->returned, 64), TT_OK);
    if (tt_ort_library_open(&library, &rig->library, &why) ||
        tt_ort_engine_open(rig->library, &cpu, &rig->cpu, &why) ||
        tt_ort_engine_load(rig->cpu, &model, &rig->loaded, &why) ||
        tt_ort_lay_out(rig->loaded, &signature, &rig->dataflow, &why))
        fail_msg("%s", why.text);
}

static void close_runtime(struct rig *rig) {
    tt_dataflow_fini(&rig->dataflow);
    rig->cpu->ops->unload(rig->loaded);
    rig->cpu->ops->close(rig->cpu);
    tt_ort_library_close(rig->library);
    tt_ring_fini(&rig->returned);
    assert_int_equal(rig->wrong, 0);
}

static void rig_open(struct rig *rig) {
    struct tt_error why = {""};
    driver->reset(1, 1 << 20);
    open_runtime(rig, runtime_path);
    open_device(rig);
    if (open_streams(rig, &why))
        fail_msg("%s", why.text);
}

static void rig_close(struct rig *rig) {
    close_streams(rig);
    tt_async_device_close(rig->device);
    close_runtime(rig);
}

/* ---- tests ---- */

static void answers_are_right(void **state) {
    (void)state;
    struct rig rig;
    struct tt_prng prng;
    static struct batch batches[EXECUTORS];
    tt_prng_init(&prng, test_seed(31), 0);
    int before = runtime->runs();
    rig_open(&rig);
    const struct onnxruntime_standin_provider given = runtime->provider();
    assert_int_equal(given.device_id, 0);
    assert_true(given.gpu_mem_limit == ARENA);
    assert_non_null(given.user_compute_stream);
    enum { REPEATS = 40 };
    for (int32_t e = 0; e < EXECUTORS; e++) {
        batch_init(&batches[e], &rig, e, 1 + (int32_t)tt_prng_below(&prng, BATCH), &prng);
        batches[e].repeats = REPEATS;
    }
    batches[0].with = &batches[1];
    tt_engine_submit(rig.streams, &batches[0].task); /* all others from completions: one thread */
    for (int32_t e = 0; e < EXECUTORS; e++) {
        struct batch *batch = await(&rig);
        assert_int_equal(batch->task.head.outcome, TT_OUTCOME_DONE);
        for (int32_t i = 0; i < batch->task.member_count; i++)
            assert_true(is_right(batch, i));
        release_results(batch);
    }
    assert_int_equal(runtime->runs() - before, EXECUTORS * (REPEATS + 1));
    rig_close(&rig);
}

/* A member that does not fit the signature is left out, and the others are computed. */
static void a_member_at_fault(void **state) {
    (void)state;
    struct rig rig;
    struct tt_prng prng;
    static struct batch batch;
    tt_prng_init(&prng, test_seed(32), 0);
    rig_open(&rig);
    batch_init(&batch, &rig, 0, 3, &prng);
    batch.requests[1].inputs[0].size_bytes--;
    assert_int_equal(run_batch(&rig, &batch), 2);
    assert_int_equal(batch.members[1].err, TT_ERR_INVALID);
    rig_close(&rig);
}

/* Calls while a model is loaded: it is refused with the reason, and loading it again works. */
static void every_call_of_loading_fails_in_turn(void **state) {
    (void)state;
    static const char *const functions[] = {"CreateMemoryInfo",
                                            "CreateRunOptions",
                                            "AddRunConfigEntry",
                                            "CreateCUDAProviderOptions",
                                            "UpdateCUDAProviderOptions",
                                            "UpdateCUDAProviderOptionsWithValue",
                                            "SessionOptionsAppendExecutionProvider_CUDA_V2",
                                            "CreateSession",
                                            "CreateIoBinding",
                                            "Run"};
    struct rig rig;
    struct tt_prng prng;
    static struct batch batch;
    tt_prng_init(&prng, test_seed(33), 0);
    driver->reset(1, 1 << 20);
    open_runtime(&rig, runtime_path);
    open_device(&rig);
    for (size_t f = 0; f < TT_COUNT(functions); f++)
        for (int skip = 0;; skip++) {
            struct tt_error why = {""};
            runtime->fail_call(functions[f], skip, "it was armed");
            enum tt_err err = open_streams(&rig, &why);
            bool happened = runtime->happened();
            assert_int_equal(err != TT_OK, happened);
            if (!happened) {
                assert_true(skip >= 1);
                batch_init(&batch, &rig, 1, 2, &prng);
                assert_int_equal(run_batch(&rig, &batch), 2);
                close_streams(&rig);
                break;
            }
            assert_non_null(strstr(why.text, "it was armed"));
            assert_int_equal(strstr(why.text, "make cuda") != NULL, f >= 3 && f <= 6);
            assert_int_equal(runtime->open_things(), 0);
        }
    tt_async_device_close(rig.device);
    close_runtime(&rig);
}

/* Calls of a run: the batch is tried again member by member, so the fault hits one of them. */
static void every_call_of_a_run_fails_in_turn(void **state) {
    (void)state;
    static const char *const functions[] = {"CreateTensorWithDataAsOrtValue", "BindInput",
                                            "BindOutput", "RunWithBinding"};
    struct rig rig;
    struct tt_prng prng;
    static struct batch batch;
    tt_prng_init(&prng, test_seed(34), 0);
    rig_open(&rig);
    for (size_t f = 0; f < TT_COUNT(functions); f++) {
        int skip = 0;
        for (bool happened = true; happened; skip++) {
            batch_init(&batch, &rig, 0, 1, &prng);
            runtime->fail_call(functions[f], skip, "it was armed");
            int32_t right = run_batch(&rig, &batch);
            happened = runtime->happened();
            assert_int_equal(right, happened ? 0 : 1);
            assert_int_equal(batch.members[0].err, happened ? TT_ERR_INVALID : TT_OK);
            assert_int_equal(strstr(batch.requests[0].why.text, "it was armed") != NULL, happened);
        }
        assert_true(skip > 1);
        batch_init(&batch, &rig, 0, 5, &prng);
        runtime->fail_call(functions[f], 0, "it was armed");
        assert_int_equal(run_batch(&rig, &batch), 5);
        assert_true(runtime->happened());
    }
    rig_close(&rig);
}

/* The arena is at its limit: the batch runs in halves, and a request that does not fit alone is
 * refused. */
static void a_batch_without_memory_is_split(void **state) {
    (void)state;
    static const char full[] = "Available memory of 16 is smaller than requested bytes of 64";
    struct rig rig;
    struct tt_prng prng;
    static struct batch batch;
    tt_prng_init(&prng, test_seed(35), 0);
    rig_open(&rig);
    int before = runtime->runs();
    batch_init(&batch, &rig, 0, 6, &prng);
    runtime->fail_call("RunWithBinding", 0, full);
    assert_int_equal(run_batch(&rig, &batch), 6);
    assert_int_equal(runtime->runs() - before, 2);
    batch_init(&batch, &rig, 0, 1, &prng);
    runtime->fail_call("RunWithBinding", 0, full);
    assert_int_equal(run_batch(&rig, &batch), 0);
    assert_int_equal(batch.members[0].err, TT_ERR_NO_MEMORY);
    assert_non_null(strstr(batch.requests[0].why.text, "has no memory for"));
    rig_close(&rig);
}

/* A kernel is at fault: the device fails with what the driver says, and serves again after a
 * restart. */
static void a_kernel_at_fault(void **state) {
    (void)state;
    struct rig rig;
    struct tt_prng prng;
    struct tt_error why = {""};
    static struct batch batch;
    tt_prng_init(&prng, test_seed(36), 0);
    rig_open(&rig);
    batch_init(&batch, &rig, 0, 4, &prng);
    runtime->fail_kernel();
    assert_int_equal(run_batch(&rig, &batch), 0);
    assert_int_equal(batch.task.head.outcome, TT_OUTCOME_FAILED);
    assert_non_null(strstr(batch.requests[0].why.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    close_streams(&rig);
    assert_int_equal(tt_async_device_restart(rig.device, &why), TT_OK);
    assert_int_equal(open_streams(&rig, &why), TT_OK);
    batch_init(&batch, &rig, 1, 4, &prng);
    assert_int_equal(run_batch(&rig, &batch), 4);
    rig_close(&rig);
}

/* The library for the processor has no CUDA: the message says what has. */
static void a_library_without_cuda(void **state) {
    (void)state;
    struct rig rig;
    struct tt_error why = {""};
    driver->reset(1, 1 << 20);
    open_runtime(&rig, bench_library_path());
    open_device(&rig);
    assert_int_equal(open_streams(&rig, &why), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "cannot use GPU 0 (`make cuda` fetches a library with CUDA)"));
    tt_async_device_close(rig.device);
    close_runtime(&rig);
}

static int set_up(void **state) {
    (void)state;
    struct tiny_onnx model;
    setenv("TUTTI_CUDA_DRIVER", driver_path, 1);
    void *cuda = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
    void *onnxruntime = dlopen(runtime_path, RTLD_NOW | RTLD_LOCAL);
    if (!cuda || !onnxruntime)
        return -1;
    driver = dlsym(cuda, "cuda_standin");
    runtime = dlsym(onnxruntime, "onnxruntime_standin");
    tiny_onnx_begin(&model);
    tiny_onnx_input(&model, "a", TINY_INT32, TINY_DIMS(-1, WIDTH));
    tiny_onnx_input(&model, "b", TINY_INT32, TINY_DIMS(-1, WIDTH));
    tiny_onnx_output(&model, "y", TINY_INT32, TINY_DIMS(-1, WIDTH));
    tiny_onnx_node(&model, "Add", "a", "b", "y", NULL, 0);
    struct tt_text bytes = tiny_onnx_end(&model);
    snprintf(model_path, sizeof(model_path), "/tmp/test_ort_gpu.XXXXXX");
    int file = mkstemp(model_path);
    bool written = file >= 0 && write(file, bytes.bytes, bytes.length) == (ssize_t)bytes.length;
    if (file >= 0)
        close(file);
    tt_text_fini(&bytes);
    return written && driver && runtime ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return unlink(model_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_right),
        cmocka_unit_test(a_member_at_fault),
        cmocka_unit_test(every_call_of_loading_fails_in_turn),
        cmocka_unit_test(every_call_of_a_run_fails_in_turn),
        cmocka_unit_test(a_batch_without_memory_is_split),
        cmocka_unit_test(a_kernel_at_fault),
        cmocka_unit_test(a_library_without_cuda),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
