/* threaded */
/* E7: answers of an engine on streams: each member's when its outputs are there, in order, with its
 * rows and the times of its task; all others with the batch. In virtual time, and on threads. */
#include "unit/engine/stream_bench.h"

#include "base/clock.h"
#include "base/instant.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS = 4, COPY_NS = 100000, LIMIT_S = 60 };

/* A batch, and what is known of it when its members were answered. */
struct watched {
    struct stream_batch batch; /* first */
    struct stream_bench bench;
    struct stream_request requests[REQUESTS];
    int64_t answered_at[REQUESTS];
    int32_t answers; /* atomic: read while the device works */
    int32_t order[REQUESTS], wrong;
    int64_t started_at, infer_ns;
};

static bool member_is_right(const struct watched *self, const struct tt_engine_member *member,
                            const struct stream_request *request) {
    struct tt_tensor_view view;
    bool right = member->result != NULL && member->err == TT_OK;
    if (!right)
        return false;
    self->bench.engine->ops->output(member->result, 0, member->first_row, member->rows, &view);
    for (int32_t row = 0; row < member->rows; row++)
        right &= ((const uint32_t *)view.bytes)[row] == stream_expected(request->values[row]);
    return right && view.size_bytes == (size_t)member->rows * 4;
}

/* The last member's answer is there with the batch, and has its rows only. */
static void take_last(struct watched *self) {
    struct tt_engine_member *last = &self->batch.members[REQUESTS - 1];
    assert_int_equal(last->first_row, 0);
    assert_true(member_is_right(self, last, &self->requests[REQUESTS - 1]));
    self->bench.engine->ops->result_release(last->result);
}

/* As a client does: takes the answer, and leaves nothing of it to the task. */
static void on_answered(struct tt_engine_task *task, struct tt_engine_member *member) {
    struct stream_batch *batch = TT_CONTAINER_OF(task, struct stream_batch, task);
    struct watched *self = (struct watched *)(void *)batch;
    int32_t i = (int32_t)(member - batch->members);
    self->answered_at[i] = tt_async_device_now(self->bench.device);
    self->started_at = task->head.started_at;
    self->infer_ns = task->infer_ns;
    self->wrong += !member_is_right(self, member, batch->requests[i]);
    self->bench.engine->ops->result_release(member->result);
    member->result = NULL;
    self->order[__atomic_load_n(&self->answers, __ATOMIC_RELAXED)] = i;
    __atomic_fetch_add(&self->answers, 1, __ATOMIC_RELEASE);
}

static void submit(struct watched *self, bool wants_answers) {
    stream_batch_init(&self->batch, &self->bench, 0, 0, STREAM_STEPS - 1);
    for (int32_t i = 0; i < REQUESTS; i++) {
        stream_request_init(&self->requests[i], 1 + i % 2, (uint32_t)i * 100);
        stream_batch_add(&self->batch, &self->requests[i]);
    }
    self->batch.task.answered = wants_answers ? on_answered : NULL;
    tt_engine_submit(self->bench.engine, &self->batch.task);
}

static void open_emulated(struct watched *self, enum tt_stream_transfer transfer) {
    *self = (struct watched){.bench = {.step_ns = TT_MS}};
    const struct tt_async_emulated_options options = {.memory_bytes = 1 << 22,
                                                      .max_streams = 16,
                                                      .queue_depth = 1024,
                                                      .out = {.fixed_ns = COPY_NS},
                                                      .take_order = stream_order(&self->bench)};
    assert_int_equal(tt_async_emulated_open(&options, &self->bench.device, NULL), TT_OK);
    stream_bench_open(&self->bench, transfer);
}

static void close_all(struct watched *self) {
    stream_bench_close(&self->bench);
    assert_string_equal(self->bench.conflict, "");
    tt_async_device_close(self->bench.device);
}

static struct tt_engine_task *take(struct watched *self) {
    return tt_ring_pop(&self->bench.returned[0]);
}

/* Outputs leave one after the other, and each answer with its own; the last one is the batch's. */
static void each_answer_leaves_with_its_outputs(void **state) {
    (void)state;
    static struct watched self;
    open_emulated(&self, TT_STREAM_EACH);
    submit(&self, true);
    tt_async_emulated_advance(self.bench.device, TT_S);
    assert_ptr_equal(take(&self), &self.batch.task);
    assert_int_equal(self.answers, REQUESTS - 1);
    assert_int_equal(self.wrong, 0);
    int64_t computed_at = STREAM_STEPS * TT_MS;
    for (int32_t i = 0; i < REQUESTS - 1; i++) {
        assert_int_equal(self.order[i], i);
        assert_int_equal(self.answered_at[i], computed_at + (i + 1) * COPY_NS);
        assert_int_equal(self.batch.members[i].err, TT_OK);
        assert_null(self.batch.members[i].result); /* not given again */
    }
    take_last(&self);
    assert_int_equal(self.started_at, 0);
    assert_int_equal(self.infer_ns, computed_at);
    assert_int_equal(self.batch.task.head.started_at, self.started_at);
    assert_int_equal(self.batch.task.head.ended_at, computed_at + REQUESTS * COPY_NS);
    assert_int_equal(self.batch.task.copies_out.end_at, self.batch.task.head.ended_at);
    close_all(&self);
}

/* Copied as a whole, or with a caller that does not want it: with the batch. */
static void answers_that_leave_with_the_batch(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        static struct watched self;
        open_emulated(&self, i == 0 ? TT_STREAM_WHOLE : TT_STREAM_EACH);
        submit(&self, i == 0);
        tt_async_emulated_advance(self.bench.device, TT_S);
        assert_ptr_equal(take(&self), &self.batch.task);
        assert_int_equal(self.answers, 0);
        assert_true(stream_batch_is_right(&self.batch, &self.bench));
        close_all(&self);
    }
}

/* A member at fault is left out, and one without device memory is refused: both have no answer, and
 * their reason comes with the batch. */
static void members_at_fault_have_none(void **state) {
    (void)state;
    static struct watched self;
    open_emulated(&self, TT_STREAM_EACH);
    self.bench.row_limit = 1;
    self.bench.limited_step = -1;
    submit(&self, true);
    tt_async_emulated_advance(self.bench.device, TT_S);
    assert_ptr_equal(take(&self), &self.batch.task);
    assert_int_equal(self.answers, 2);
    assert_int_equal(self.wrong, 0);
    for (int32_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(self.batch.members[i].err, i % 2 ? TT_ERR_NO_MEMORY : TT_OK);
        assert_null(self.batch.members[i].result);
    }
    close_all(&self);
}

/* The device fails between two answers: those that left are right, and the others have its reason.
 */
static void a_device_that_fails_between_answers(void **state) {
    (void)state;
    for (int32_t given = 0; given < REQUESTS - 1; given++) {
        static struct watched self;
        struct tt_error why;
        open_emulated(&self, TT_STREAM_EACH);
        submit(&self, true);
        tt_async_emulated_advance(self.bench.device, STREAM_STEPS * TT_MS + given * COPY_NS);
        assert_int_equal(self.answers, given);
        tt_async_device_fail(self.bench.device, "it is gone");
        assert_true(self.bench.engine->ops->has_failed(self.bench.engine, &why));
        assert_true(self.bench.engine->ops->return_failed(self.bench.engine));
        assert_ptr_equal(take(&self), &self.batch.task);
        assert_int_equal(self.batch.task.head.outcome, TT_OUTCOME_FAILED);
        assert_int_equal(self.answers, given);
        assert_int_equal(self.wrong, 0);
        for (int32_t i = given; i < REQUESTS; i++) {
            assert_int_equal(self.batch.members[i].err, TT_ERR_UNAVAILABLE);
            assert_non_null(strstr(self.requests[i].why.text, "it is gone"));
            assert_null(self.batch.members[i].result);
        }
        close_all(&self);
    }
}

/* On threads: `done` comes after all answers. */
static void answers_on_threads(void **state) {
    (void)state;
    static struct watched self;
    self = (struct watched){.bench = {.step_ns = 1}};
    const struct tt_async_host_options options = {.memory_bytes = 1 << 22,
                                                  .max_streams = 16,
                                                  .queue_depth = 1024,
                                                  .take_order = stream_order(&self.bench)};
    assert_int_equal(tt_async_host_open(&options, &self.bench.device, NULL), TT_OK);
    stream_bench_open(&self.bench, TT_STREAM_EACH);
    for (int round = 0; round < 50; round++) {
        __atomic_store_n(&self.answers, 0, __ATOMIC_RELAXED);
        submit(&self, true);
        int64_t until_at = tt_clock_now() + LIMIT_S * TT_S;
        while (!take(&self)) {
            assert_true(tt_clock_now() < until_at);
            sched_yield();
        }
        assert_int_equal(__atomic_load_n(&self.answers, __ATOMIC_ACQUIRE), REQUESTS - 1);
        assert_int_equal(self.batch.task.head.outcome, TT_OUTCOME_DONE);
        assert_int_equal(self.wrong, 0);
        take_last(&self);
    }
    close_all(&self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_answer_leaves_with_its_outputs),
        cmocka_unit_test(answers_that_leave_with_the_batch),
        cmocka_unit_test(members_at_fault_have_none),
        cmocka_unit_test(a_device_that_fails_between_answers),
        cmocka_unit_test(answers_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
