/* threaded */
/* What a stream engine does with rows: those at fault fail alone, batches that do not fit are
 * refused when their model is loaded, and copies are measured apart from the computation. */
#include "unit/engine/stream_bench.h"

#include "base/instant.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { UNLUCKY = 13, ROWS = 4 };

/* y = x, unless a row is UNLUCKY. */
static enum tt_err copy_lucky(void *context, int32_t step, int32_t rows, const void *const *in,
                              void *const *out, struct tt_error *why) {
    uint32_t *runs = context;
    __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED);
    assert_int_equal(step, 0);
    const uint32_t *from = in[0];
    for (int32_t row = 0; row < rows; row++)
        if (from[row] == UNLUCKY)
            return tt_fail(TT_ERR_INVALID, why, "row %d is %d", row, UNLUCKY);
    memcpy(out[0], in[0], (size_t)rows * 4);
    return TT_OK;
}

static void count_release(void *context) { (*(uint32_t *)context) |= 1u << 31; }

static void open_on_host(struct stream_bench *bench) {
    *bench = (struct stream_bench){.step_ns = 1};
    const struct tt_async_host_options options = {
        .max_streams = 16, .queue_depth = 1024, .take_order = stream_order(bench)};
    assert_int_equal(tt_async_host_open(&options, &bench->device, NULL), TT_OK);
    stream_bench_open(bench, TT_STREAM_EACH);
}

static void close_bench(struct stream_bench *bench) {
    stream_bench_close(bench);
    assert_string_equal(bench->conflict, "");
    tt_async_device_close(bench->device);
}

static void rows_at_fault_fail_alone(void **state) {
    (void)state;
    struct stream_bench bench;
    struct stream_request requests[ROWS];
    struct stream_batch batch;
    static const uint32_t firsts[ROWS] = {1, UNLUCKY, 3, 4};
    uint32_t runs = 0;
    open_on_host(&bench);
    struct tt_stream_program program = {.signature = &stream_signature,
                                        .step_count = 1,
                                        .context = &runs,
                                        .compute = copy_lucky,
                                        .release = count_release};
    struct tt_engine_model *model;
    assert_int_equal(tt_stream_engine_load(bench.engine, &program, &model, NULL), TT_OK);
    stream_batch_init(&batch, &bench, 0, 0, 0);
    batch.task.model = model;
    for (int i = 0; i < ROWS; i++) {
        stream_request_init(&requests[i], 1 + i % 2, firsts[i]);
        stream_batch_add(&batch, &requests[i]);
    }
    tt_engine_submit(bench.engine, &batch.task);
    while (!tt_ring_pop(&bench.returned[0]))
        sched_yield();
    assert_int_equal(batch.task.head.outcome, TT_OUTCOME_DONE);
    assert_int_equal(runs, 1 + ROWS);
    for (int i = 0; i < ROWS; i++) {
        struct tt_engine_member *member = &batch.members[i];
        if (firsts[i] == UNLUCKY) {
            assert_int_equal(member->err, TT_ERR_INVALID);
            assert_string_equal(requests[i].why.text, "row 0 is 13");
            assert_null(member->result);
            continue;
        }
        struct tt_tensor_view view;
        assert_int_equal(member->err, TT_OK);
        bench.engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
        assert_memory_equal(view.bytes, requests[i].values, (size_t)member->rows * 4);
        bench.engine->ops->result_release(member->result);
    }
    bench.engine->ops->unload(model);
    assert_true(runs >> 31);
    close_bench(&bench);
}

static void large_batches_are_refused(void **state) {
    (void)state;
    struct stream_bench bench = {0};
    struct tt_error why;
    assert_int_equal(
        tt_async_host_open(&(struct tt_async_host_options){.max_streams = 16}, &bench.device, NULL),
        TT_OK);
    /* Two places: of 8 rows each takes 20 operations. */
    assert_int_equal(tt_stream_engine_operations(&stream_signature, 2), 40);
    struct tt_stream_engine_options options = {.engine = {.executor_count = 1, .queue_depth = 2},
                                               .device = bench.device,
                                               .max_rows = STREAM_BATCH,
                                               .queue_depth = 39};
    assert_int_equal(tt_stream_engine_open(&options, &bench.engine, &why), TT_OK);
    assert_int_equal(stream_load(&bench, 8, &bench.model, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "batches of 8 rows may take 40 operations of a stream, which "
                                     "holds 39"));
    bench.engine->ops->close(bench.engine);
    options.queue_depth = 40;
    options.max_rows = STREAM_BATCH - 1;
    assert_int_equal(tt_stream_engine_open(&options, &bench.engine, &why), TT_OK);
    assert_int_equal(stream_load(&bench, 8, &bench.model, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "batches of 8 rows; the device's engine runs up to 7");
    bench.engine->ops->close(bench.engine);
    options.max_rows = STREAM_BATCH;
    assert_int_equal(tt_stream_engine_open(&options, &bench.engine, &why), TT_OK);
    assert_int_equal(stream_load(&bench, 8, &bench.model, &why), TT_OK);
    bench.engine->ops->unload(bench.model);
    bench.engine->ops->close(bench.engine);
    tt_async_device_close(bench.device);
}

/* Copies of 0.1 ms each: requests alone, or the batch. */
static void check_times(enum tt_stream_transfer transfer) {
    struct stream_bench bench = {.step_ns = TT_MS};
    struct stream_request requests[ROWS];
    struct stream_batch batch;
    const struct tt_async_emulated_options options = {.max_streams = 16,
                                                      .queue_depth = 1024,
                                                      .in = {.fixed_ns = TT_MS / 10},
                                                      .out = {.fixed_ns = TT_MS / 10}};
    int64_t copies_ns = (transfer == TT_STREAM_EACH ? ROWS : 1) * (TT_MS / 10);
    int64_t work_ns = STREAM_STEPS * TT_MS;
    assert_int_equal(tt_async_emulated_open(&options, &bench.device, NULL), TT_OK);
    stream_bench_open(&bench, transfer);
    tt_async_emulated_advance(bench.device, TT_S);
    stream_batch_init(&batch, &bench, 0, 0, STREAM_STEPS - 1);
    for (int i = 0; i < ROWS; i++) {
        stream_request_init(&requests[i], 1, (uint32_t)i);
        stream_batch_add(&batch, &requests[i]);
    }
    tt_engine_submit(bench.engine, &batch.task);
    tt_async_emulated_advance(bench.device, 2 * TT_S);
    assert_ptr_equal(tt_ring_pop(&bench.returned[0]), &batch.task);
    assert_true(stream_batch_is_right(&batch, &bench));
    const struct tt_engine_task *task = &batch.task;
    assert_int_equal(task->copies_in.begin_at, TT_S);
    assert_int_equal(task->copies_in.end_at, TT_S + copies_ns);
    assert_int_equal(task->copies_out.begin_at, TT_S + copies_ns + work_ns);
    assert_int_equal(task->copies_out.end_at, TT_S + 2 * copies_ns + work_ns);
    assert_int_equal(task->head.started_at, TT_S);
    assert_int_equal(task->head.ended_at, task->copies_out.end_at);
    assert_int_equal(task->input_ns, copies_ns);
    assert_int_equal(task->infer_ns, work_ns);
    assert_int_equal(task->gathered_bytes, ROWS * 4);
    close_bench(&bench);
}

static void copies_are_measured_apart(void **state) {
    (void)state;
    check_times(TT_STREAM_EACH);
    check_times(TT_STREAM_WHOLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_at_fault_fail_alone),
        cmocka_unit_test(large_batches_are_refused),
        cmocka_unit_test(copies_are_measured_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
