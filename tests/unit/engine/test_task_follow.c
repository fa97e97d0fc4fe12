/* threaded */
/* D4: engines run a task that takes up the members of another when that one has ended, whatever
 * came first, and on which executor. */
#include "engine/emulated/emulated.h"
#include "unit/engine/engine_bench.h"
#include "unit/serve/stuck_engine.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int32_t numbers[] = {7, 8, 9, 10};
static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 8,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, 2}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, 2}}}},
};

/* Two requests that run a model of two steps as two tasks. */
struct pair {
    struct tt_tensor_view inputs[2];
    struct tt_error why[2];
    struct tt_engine_member members[2][2]; /* of each task */
    struct tt_engine_task first, second;
};

static void pair_init(struct pair *self, struct tt_engine_model *model, int32_t first_executor,
                      int32_t second_executor) {
    *self = (struct pair){.inputs = {{numbers, 8, {2, {1, 2}}}, {numbers + 2, 8, {2, {1, 2}}}}};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++)
            self->members[t][i] = (struct tt_engine_member){
                .rows = 1, .inputs = &self->inputs[i], .why = &self->why[i]};
    self->first = (struct tt_engine_task){.head.executor = first_executor,
                                          .model = model,
                                          .member_count = 2,
                                          .members = self->members[0]};
    self->second = self->first;
    self->second.head.executor = second_executor;
    self->second.head.first_step = self->second.head.last_step = 1;
    self->second.members = self->members[1];
    self->second.after = &self->first;
}

static void release(const struct tt_engine *engine, const struct pair *pair) {
    for (int i = 0; i < 2; i++)
        if (pair->members[1][i].result)
            engine->ops->result_release(pair->members[1][i].result);
}

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    (void)rows;
    (void)length;
    return *(const int64_t *)context * (1 + last_step - first_step);
}

static struct tt_engine *open_emulated(struct bench *bench, const int64_t *latency_ns,
                                       struct tt_engine_model **out_model) {
    struct tt_engine *engine;
    struct tt_error why;
    bench_init(bench);
    struct tt_engine_options options = {2, BENCH_DEPTH, bench_done, bench};
    assert_int_equal(tt_emulated_engine_open(&options, &engine, &why), TT_OK);
    struct tt_engine_emulation load = {&signature, 2, latency, (void *)latency_ns};
    assert_int_equal(tt_emulated_engine_load(engine, &load, out_model, &why), TT_OK);
    return engine;
}

static void close_all(struct tt_engine *engine, struct tt_engine_model *model,
                      struct bench *bench) {
    engine->ops->unload(model);
    engine->ops->close(engine);
    bench_fini(bench);
}

/* On an emulated device the second task begins at the very instant at which the first one ended on
 * the device, however late its threads wake up. */
static void the_device_goes_on_without_a_gap(void **state) {
    (void)state;
    struct bench bench;
    struct tt_engine_model *model;
    const int64_t latency_ns = TT_MS;
    struct tt_engine *engine = open_emulated(&bench, &latency_ns, &model);
    for (int32_t executor = 0; executor < 2; executor++) { /* another one, and the same one */
        struct pair pair;
        int64_t ended_at[2] = {0, 0};
        pair_init(&pair, model, 0, executor);
        pair.first.step_ends = &ended_at[0];
        pair.second.step_ends = &ended_at[1];
        pair.first.step_ends_capacity = pair.second.step_ends_capacity = 1;
        tt_engine_submit(engine, &pair.first);
        tt_engine_submit(engine, &pair.second);
        bench_wait(&bench);
        bench_wait(&bench);
        assert_int_equal(pair.first.head.outcome, TT_OUTCOME_DONE);
        assert_int_equal(pair.second.head.outcome, TT_OUTCOME_DONE);
        assert_int_equal(pair.second.head.started_at, ended_at[0]);
        assert_int_equal(ended_at[1] - ended_at[0], latency_ns);
        assert_null(pair.members[0][0].result);
        for (int i = 0; i < 2; i++) {
            struct tt_tensor_view view;
            engine->ops->output(pair.members[1][i].result, 0, pair.members[1][i].first_row, 1,
                                &view);
            assert_memory_equal(view.bytes, numbers + 2 * i, 8);
        }
        release(engine, &pair);
    }
    close_all(engine, model, &bench);
}

/* The first task may have run before the second is submitted, or be running, or wait. */
static void submitted_at_any_moment(void **state) {
    (void)state;
    struct bench bench;
    struct tt_engine_model *model;
    const int64_t latency_ns = TT_US;
    struct tt_engine *engine = open_emulated(&bench, &latency_ns, &model);
    for (int round = 0; round < 500; round++) {
        struct pair pair;
        pair_init(&pair, model, round & 1, round >> 1 & 1);
        tt_engine_submit(engine, &pair.first);
        for (volatile int spin = 0; spin < round * 40; spin++)
            continue;
        tt_engine_submit(engine, &pair.second); /* the first has not been taken back */
        struct tt_engine_task *one = bench_wait(&bench), *other = bench_wait(&bench);
        assert_true(one != other);
        assert_int_equal(pair.second.head.outcome, TT_OUTCOME_DONE);
        assert_true(pair.second.head.started_at >= pair.first.head.started_at + TT_US);
        assert_non_null(pair.members[1][1].result);
        release(engine, &pair);
    }
    close_all(engine, model, &bench);
}

static void a_member_that_failed_is_not_computed(void **state) {
    (void)state;
    struct bench bench;
    struct tt_engine_model *model;
    const int64_t latency_ns = TT_US;
    struct tt_engine *engine = open_emulated(&bench, &latency_ns, &model);
    struct pair pair;
    pair_init(&pair, model, 0, 1);
    pair.inputs[1].size_bytes = 3;
    tt_engine_submit(engine, &pair.first);
    tt_engine_submit(engine, &pair.second);
    bench_wait(&bench);
    bench_wait(&bench);
    assert_int_equal(pair.members[0][1].err, TT_ERR_INVALID);
    assert_int_equal(pair.members[1][1].err, TT_ERR_INVALID);
    assert_non_null(strstr(pair.why[1].text, "3 bytes"));
    assert_null(pair.members[1][1].result);
    assert_int_equal(pair.members[1][0].err, TT_OK);
    assert_non_null(pair.members[1][0].result);
    assert_int_equal(pair.second.head.outcome, TT_OUTCOME_DONE);
    release(engine, &pair);
    close_all(engine, model, &bench);
}

/* ---- a first task that does not end as DONE ---- */

struct stuck {
    struct bench bench;
    struct tt_engine *engine;
    struct stuck_model *model;
    struct pair pair;
};

static void open_stuck(struct stuck *self, enum stuck_mode mode, int32_t second_executor) {
    bench_init(&self->bench);
    struct tt_engine_options options = {2, BENCH_DEPTH, bench_done, &self->bench};
    self->engine = stuck_open(&options);
    self->model = stuck_load(self->engine, &signature);
    self->model->steps = 2;
    atomic_store(&self->model->mode, mode);
    pair_init(&self->pair, &self->model->model, 0, second_executor);
    tt_engine_submit(self->engine, &self->pair.first);
    tt_engine_submit(self->engine, &self->pair.second);
    while (atomic_load(&self->model->inside) == 0)
        stuck_pause();
}

static void expect_refused(const struct stuck *self) {
    assert_int_equal(self->pair.second.head.outcome, TT_OUTCOME_ABORTED);
    assert_int_equal(self->pair.second.head.last_step_done, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(self->pair.members[1][i].err, TT_ERR_CANCELLED);
        assert_null(self->pair.members[1][i].result);
    }
    assert_int_equal(atomic_load(&self->model->runs), 1); /* it never began */
}

static void what_follows_an_aborted_task_is_aborted(void **state) {
    (void)state;
    for (int32_t executor = 0; executor < 2; executor++) {
        struct stuck stuck;
        open_stuck(&stuck, STUCK_OBEYS, executor);
        tt_engine_abort(stuck.engine, &stuck.pair.first);
        bench_wait(&stuck.bench);
        bench_wait(&stuck.bench);
        assert_int_equal(stuck.pair.first.head.outcome, TT_OUTCOME_ABORTED);
        expect_refused(&stuck);
        close_all(stuck.engine, &stuck.model->model, &stuck.bench);
    }
}

/* The executor of a run that does not return is replaced. What follows that run comes back at once,
 * also if it waited on the same executor, and both executors go on. */
static void what_follows_a_lost_task_comes_back(void **state) {
    (void)state;
    for (int32_t executor = 0; executor < 2; executor++) {
        struct stuck stuck;
        struct tt_error why;
        struct tt_engine_running running;
        open_stuck(&stuck, STUCK_DEAF, executor);
        const struct tt_engine_watch_ops *watch = stuck.engine->ops->watch;
        assert_true(watch->running(stuck.engine, 0, &running));
        assert_int_equal(watch->prepare(stuck.engine, 0, &why), TT_OK);
        assert_true(watch->replace(stuck.engine, &running));
        assert_ptr_equal(bench_wait(&stuck.bench), &stuck.pair.second);
        expect_refused(&stuck);
        atomic_store(&stuck.model->mode, STUCK_ANSWERS);
        struct pair next;
        pair_init(&next, &stuck.model->model, 0, 1);
        tt_engine_submit(stuck.engine, &next.first);
        tt_engine_submit(stuck.engine, &next.second);
        bench_wait(&stuck.bench);
        bench_wait(&stuck.bench);
        assert_non_null(next.members[1][0].result);
        release(stuck.engine, &next);
        atomic_store(&stuck.model->is_let_go, true);
        assert_ptr_equal(bench_wait(&stuck.bench), &stuck.pair.first);
        assert_int_equal(stuck.pair.first.head.outcome, TT_OUTCOME_LOST);
        close_all(stuck.engine, &stuck.model->model, &stuck.bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_goes_on_without_a_gap),
        cmocka_unit_test(submitted_at_any_moment),
        cmocka_unit_test(a_member_that_failed_is_not_computed),
        cmocka_unit_test(what_follows_an_aborted_task_is_aborted),
        cmocka_unit_test(what_follows_a_lost_task_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
