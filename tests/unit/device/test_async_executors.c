/* threaded */
/* D3, D4, C6: tasks that follow each other on the device: on threads, and in virtual time with
 * exact instants. */
#include "device/async_executors.h"

#include "base/clock.h"
#include "base/instant.h"
#include "core/stage_states.h"
#include "device/async_emulated.h"
#include "device/async_host.h"
#include "device/async_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <semaphore.h>

enum { BATCHES = 40, STAGES = 3, PAIRS = 2, BLOCK = 64 };

/* A pipeline: stage s of batch b adds s + 1 to what stage s - 1 left. Buffer (s, j) lies between
 * the stages, as in core/stage_states.h. */
struct pipeline {
    struct tt_async_device *device;
    struct tt_async_executors *set;
    uint64_t buffers[STAGES + 1][PAIRS];
    struct stage {
        struct tt_async_task task; /* first */
        struct pipeline *pipeline;
        uint64_t to, from;
        int32_t number;
        struct tt_async_range ranges[2];
        struct tt_async_task *after[2];
    } stages[BATCHES][STAGES];
    int32_t results[BATCHES];
    sem_t gate; /* the first task waits for it */
    bool is_gated;
    struct tt_async_task *fails; /* NULL: none */
    sem_t came_back;
    int32_t done_count, failed_count; /* each written by one thread at a time */
    char conflict[512];
};

static enum tt_err run_stage(struct tt_async_device *device, void *context) {
    struct stage *self = context;
    struct pipeline *pipeline = self->pipeline;
    if (pipeline->is_gated && self == &pipeline->stages[0][0])
        while (sem_wait(&pipeline->gate) != 0)
            ;
    if (pipeline->fails == &self->task)
        return TT_ERR_INTERNAL;
    const int32_t *from = tt_async_pointer(device, self->from);
    int32_t *to = tt_async_pointer(device, self->to);
    int32_t batch = (int32_t)(self - pipeline->stages[0]) / STAGES;
    *to = (self->number == 0 ? batch * 100 : *from) + self->number + 1;
    if (self->number == STAGES - 1)
        pipeline->results[batch] = *to;
    return TT_OK;
}

static void done(void *context, struct tt_device_task *task) {
    struct pipeline *self = context;
    if (task->outcome == TT_OUTCOME_DONE)
        __atomic_fetch_add(&self->done_count, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&self->failed_count, 1, __ATOMIC_RELAXED);
    sem_post(&self->came_back);
}

static void on_conflict(void *context, const char *text) {
    struct pipeline *self = context;
    snprintf(self->conflict, sizeof(self->conflict), "%s", text);
}

static struct tt_async_order *order_for(struct pipeline *self) {
    const struct tt_async_order_options options = {
        .max_streams = 8, .on_conflict = on_conflict, .context = self};
    struct tt_async_order *order = NULL;
    assert_int_equal(tt_async_order_new(&options, &order, NULL), TT_OK);
    return order;
}

static struct tt_async_device *open_host(struct pipeline *self) {
    const struct tt_async_host_options options = {
        .memory_bytes = 1 << 20, .max_streams = 8, .take_order = order_for(self)};
    struct tt_async_device *device = NULL;
    assert_int_equal(tt_async_host_open(&options, &device, NULL), TT_OK);
    return device;
}

static struct tt_async_device *open_emulated(struct pipeline *self) {
    const struct tt_async_emulated_options options = {.memory_bytes = 1 << 20,
                                                      .max_streams = 8,
                                                      .queue_depth = 512,
                                                      .take_order = order_for(self)};
    struct tt_async_device *device = NULL;
    assert_int_equal(tt_async_emulated_open(&options, &device, NULL), TT_OK);
    return device;
}

static struct pipeline *pipeline_new(struct tt_async_device *(*open)(struct pipeline *self),
                                     bool notify_apart) {
    struct pipeline *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    self->device = open(self);
    sem_init(&self->gate, 0, 0);
    sem_init(&self->came_back, 0, 0);
    const struct tt_async_executors_options options = {.device = self->device,
                                                       .executor_count = STAGES,
                                                       .depth = BATCHES,
                                                       .notify_apart = notify_apart,
                                                       .done = done,
                                                       .done_context = self};
    assert_int_equal(tt_async_executors_open(&options, &self->set, NULL), TT_OK);
    for (int32_t s = 0; s <= STAGES; s++)
        for (int32_t j = 0; j < PAIRS; j++)
            assert_int_equal(tt_async_reserve(self->device, BLOCK, &self->buffers[s][j], NULL),
                             TT_OK);
    return self;
}

/* Closes the set, which returns what a failure held back. */
static void pipeline_close_set(struct pipeline *self) {
    tt_async_executors_close(self->set);
    self->set = NULL;
}

static void pipeline_free(struct pipeline *self) {
    pipeline_close_set(self);
    for (int32_t s = 0; s <= STAGES; s++)
        for (int32_t j = 0; j < PAIRS; j++)
            tt_async_release(self->device, self->buffers[s][j], BLOCK);
    tt_async_device_close(self->device);
    free(self);
}

/* Submits one stage of a batch. It comes after the stage that writes its input, and after the stage
 * that last read its output. */
static void submit_stage(struct pipeline *self, int32_t batch, int32_t number) {
    int32_t pair = batch % PAIRS;
    struct stage *stage = &self->stages[batch][number];
    *stage = (struct stage){.pipeline = self,
                            .number = number,
                            .to = self->buffers[number + 1][pair],
                            .from = self->buffers[number][pair]};
    stage->ranges[0] = (struct tt_async_range){stage->to, BLOCK, true};
    stage->ranges[1] = (struct tt_async_range){stage->from, BLOCK, false};
    stage->task.head = (struct tt_device_task){.executor = number,
                                               .first_step = number,
                                               .last_step = number,
                                               .submitted_at = tt_async_device_now(self->device)};
    stage->task.kernel = (struct tt_async_kernel){.name = "stage",
                                                  .run = run_stage,
                                                  .context = stage,
                                                  .ranges = stage->ranges,
                                                  .range_count = 2,
                                                  .work_ns = TT_MS,
                                                  .demand_ppm = 250000};
    int32_t count = 0;
    if (number > 0)
        stage->after[count++] = &self->stages[batch][number - 1].task;
    if (batch >= PAIRS && number < STAGES - 1)
        stage->after[count++] = &self->stages[batch - PAIRS][number + 1].task;
    stage->task.after = stage->after;
    stage->task.after_count = count;
    tt_async_executors_submit(self->set, &stage->task);
}

static void submit_all(struct pipeline *self) {
    for (int32_t b = 0; b < BATCHES; b++)
        for (int32_t s = 0; s < STAGES; s++)
            submit_stage(self, b, s);
}

static void assert_results(struct pipeline *self) {
    for (int32_t b = 0; b < BATCHES; b++)
        assert_int_equal(self->results[b], b * 100 + 1 + 2 + 3);
    assert_string_equal(self->conflict, "");
}

static void take_back(struct pipeline *self, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        while (sem_wait(&self->came_back) != 0)
            ;
}

/* D4: all stages of all batches are submitted while the first has not ended, so no stage waits for
 * the host. The order checker finds every access ordered. */
static void test_stages_follow_on_threads(void **state) {
    (void)state;
    for (int32_t apart = 0; apart < 2; apart++) {
        struct pipeline *self = pipeline_new(open_host, apart != 0);
        self->is_gated = true;
        submit_all(self);
        assert_int_equal(__atomic_load_n(&self->done_count, __ATOMIC_RELAXED), 0);
        sem_post(&self->gate);
        take_back(self, BATCHES * STAGES);
        assert_results(self);
        const struct tt_async_executors_counts counts = tt_async_executors_counts(self->set);
        assert_int_equal(counts.tasks, BATCHES * STAGES);
        assert_int_equal(counts.records, (apart ? 1 : 2) * counts.tasks); /* began, ended */
        assert_true(counts.waits <= 2 * counts.tasks);
        pipeline_free(self);
    }
}

/* Without the tasks that it comes after, a stage's accesses are not ordered, and that is found. The
 * device is stopped first, so that no two of them really run at once. */
static void test_a_forgotten_order_is_found(void **state) {
    (void)state;
    struct pipeline *self = pipeline_new(open_emulated, false);
    submit_stage(self, 0, 0);
    submit_stage(self, 0, 1);
    assert_string_equal(self->conflict, "");
    struct stage *stage = &self->stages[0][2];
    *stage = self->stages[0][1];
    stage->number = 2;
    stage->task.head.executor = 2;
    stage->task.after_count = 0;
    stage->task.kernel.context = stage;
    tt_async_executors_submit(self->set, &stage->task);
    assert_non_null(strstr(self->conflict, "stage"));
    assert_non_null(strstr(self->conflict, "no event orders the two"));
    tt_async_emulated_advance(self->device, TT_S);
    pipeline_free(self);
}

/* In virtual time: stages of 1 ms, each of a quarter of the device. A stage begins at the instant
 * at which the one before ends: the gap is 0. */
static void test_stages_follow_without_a_gap(void **state) {
    (void)state;
    for (int32_t apart = 0; apart < 2; apart++) {
        struct pipeline *self = pipeline_new(open_emulated, apart != 0);
        submit_all(self);
        tt_async_emulated_advance(self->device, TT_S);
        assert_int_equal(self->done_count, BATCHES * STAGES);
        assert_results(self);
        for (int32_t b = 0; b < BATCHES; b++)
            for (int32_t s = 0; s < STAGES; s++) {
                const struct tt_device_task *task = &self->stages[b][s].task.head;
                /* With two pairs, a batch begins when stage 1 of the batch two before has ended. */
                int64_t begins_at = (b + s) * TT_MS;
                assert_int_equal(task->ended_at, begins_at + TT_MS);
                if (!apart)
                    assert_int_equal(task->started_at, begins_at);
                assert_int_equal(task->last_step_done, s);
            }
        pipeline_free(self);
    }
}

/* A kernel fails: its task and all under way come back as FAILED when the set is closed, each once;
 * so do those submitted later, at once. */
static void test_a_failed_device_returns_all(void **state) {
    (void)state;
    for (int32_t kind = 0; kind < 2; kind++) {
        struct pipeline *self = pipeline_new(kind ? open_emulated : open_host, false);
        self->fails = &self->stages[BATCHES / 2][1].task;
        submit_all(self);
        if (kind)
            tt_async_emulated_advance(self->device, TT_S);
        while (tt_async_device_status(self->device, NULL) == TT_OK)
            sched_yield();
        struct tt_async_task late = {.kernel = self->stages[0][0].task.kernel};
        int32_t failed_before = __atomic_load_n(&self->failed_count, __ATOMIC_RELAXED);
        tt_async_executors_submit(self->set, &late);
        assert_int_equal(late.head.outcome, TT_OUTCOME_FAILED);
        assert_int_equal(late.head.last_step_done, -1);
        assert_int_equal(__atomic_load_n(&self->failed_count, __ATOMIC_RELAXED), failed_before + 1);
        pipeline_close_set(self);
        take_back(self, BATCHES * STAGES + 1);
        assert_int_equal(sem_trywait(&self->came_back), -1);
        assert_int_equal(self->done_count + self->failed_count, BATCHES * STAGES + 1);
        /* Those before the failure are done: two batches may have been ahead. */
        assert_true(self->done_count >= BATCHES / 2 + 1);
        assert_int_equal(self->stages[BATCHES / 2][2].task.head.outcome, TT_OUTCOME_FAILED);
        pipeline_free(self);
    }
}

/* D3: the states of stages and buffers allow just what the device does. Stages are submitted when
 * the states allow them, and complete when their tasks come back. */
static void test_states_drive_the_pipeline(void **state) {
    (void)state;
    struct pipeline *self = pipeline_new(open_emulated, false);
    struct tt_stage_states states;
    tt_stage_states_init(&states, STAGES, PAIRS);
    int32_t next[STAGES] = {0}, ended[STAGES] = {0}, at_once = 0;
    while (ended[STAGES - 1] < BATCHES) {
        for (int32_t s = STAGES - 1; s >= 0; s--) {
            bool has_batch = s == 0 ? next[0] < BATCHES : next[s] < ended[s - 1];
            if (!has_batch || states.executors[s] != TT_STAGE_EXECUTOR_ACTIVE)
                continue;
            tt_stage_states_pull(&states, s, next[s] % PAIRS);
            if (tt_stage_states_check(&states, s))
                submit_stage(self, next[s]++, s);
        }
        int32_t working = 0;
        for (int32_t s = 0; s < STAGES; s++)
            working += states.executors[s] == TT_STAGE_EXECUTOR_WORKING;
        at_once = working > at_once ? working : at_once;
        assert_true(working > 0);
        tt_async_emulated_advance(self->device, tt_async_emulated_next_at(self->device));
        for (int32_t s = 0; s < STAGES; s++) {
            bool is_working = states.executors[s] == TT_STAGE_EXECUTOR_WORKING;
            if (is_working && self->stages[ended[s]][s].task.head.ended_at > 0) {
                ended[s]++;
                tt_stage_states_complete(&states, s);
            }
        }
        tt_stage_states_verify(&states);
    }
    assert_int_equal(at_once, STAGES); /* two pairs are enough for all stages at once */
    assert_results(self);
    pipeline_free(self);
}

/* ---- limits ---- */

static void test_wrong_options(void **state) {
    (void)state;
    struct tt_async_executors_options options = {.executor_count = 0, .depth = 1};
    struct tt_async_executors *set = NULL;
    struct tt_error why;
    assert_int_equal(tt_async_executors_open(&options, &set, &why), TT_ERR_INVALID);
    assert_string_equal(why.text, "0 executors with a depth of 1 tasks; both must be at least 1");
    /* More streams than the device has; those that were opened are closed. */
    struct pipeline *self = pipeline_new(open_host, false);
    options = (struct tt_async_executors_options){
        .device = self->device, .executor_count = 3, .depth = 1, .notify_apart = true};
    assert_int_equal(tt_async_executors_open(&options, &set, &why), TT_ERR_BUSY);
    pipeline_free(self);
    tt_async_executors_close(NULL);
}

/* As a device set, with a short queue: events are used again and again, and a task may name one
 * that ended long ago. */
static void test_places_are_used_again(void **state) {
    (void)state;
    struct pipeline *self = pipeline_new(open_host, false);
    struct tt_async_executors *set = NULL;
    const struct tt_async_executors_options options = {.device = self->device,
                                                       .executor_count = 2,
                                                       .depth = 2,
                                                       .done = done,
                                                       .done_context = self};
    assert_int_equal(tt_async_executors_open(&options, &set, NULL), TT_OK);
    const struct tt_device_set devices = tt_async_executors_set(set);
    struct tt_async_task tasks[200] = {0};
    for (int32_t i = 0; i < 200; i++) {
        struct tt_async_task *after[] = {&tasks[0], &tasks[i > 0 ? i - 1 : 0]};
        tasks[i].head.executor = i % 2;
        tasks[i].kernel.name = "nothing";
        tasks[i].after = after;
        tasks[i].after_count = i > 0 ? 2 : 0;
        if (i >= 2)
            take_back(self, 1);
        devices.ops.submit(devices.self, &tasks[i].head);
    }
    take_back(self, 2);
    assert_int_equal(self->done_count, 200);
    tt_async_executors_close(set);
    pipeline_free(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_follow_on_threads),
        cmocka_unit_test(test_a_forgotten_order_is_found),
        cmocka_unit_test(test_stages_follow_without_a_gap),
        cmocka_unit_test(test_a_failed_device_returns_all),
        cmocka_unit_test(test_states_drive_the_pipeline),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_places_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
