#include "serve/domain_answers.h"

#include "core/early_answer.h"
#include "serve/domain.h"
#include "serve/domain_task.h"
#include "serve/emissions.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "serve/mailbox.h"
#include "serve/served_model_state.h"

#include <stdlib.h>

enum tt_err tt_domain_answers_init(struct tt_domain_answers *self, int32_t executors,
                                   int32_t capacity) {
    enum tt_err err = TT_OK;
    self->rings = calloc((size_t)executors, sizeof(*self->rings));
    self->reported = calloc((size_t)executors, sizeof(*self->reported));
    if (!self->rings || !self->reported || tt_dirty_set_init(&self->reports, executors))
        return TT_ERR_NO_MEMORY;
    for (; !err && self->ring_count < executors; self->ring_count += !err)
        err = tt_ring_init(&self->rings[self->ring_count], capacity);
    return err;
}

void tt_domain_answers_fini(struct tt_domain_answers *self) {
    for (int32_t i = 0; i < self->ring_count; i++)
        tt_ring_fini(&self->rings[i]);
    free(self->rings);
    free(self->reported);
    tt_dirty_set_fini(&self->reports);
    *self = (struct tt_domain_answers){0};
}

/* In the lowest bit of what the rings hold. */
enum { HAS_WORDS = 1 };

static void push(const struct tt_engine_task *task, const struct tt_engine_member *member,
                 uintptr_t what) {
    struct tt_domain *self = task->head.user;
    int32_t executor = task->head.executor - self->first_executor;
    bool pushed = tt_ring_push(&self->answers.rings[executor], (void *)((uintptr_t)member | what));
    tt_assert(pushed);
    tt_dirty_set_add_one(&self->answers.reports, executor);
    self->client.wake(self->client.context);
}

void tt_domain_answered(struct tt_engine_task *task, struct tt_engine_member *member) {
    push(task, member, 0);
}

bool tt_domain_emitted(struct tt_engine_task *task, struct tt_engine_member *member,
                       const void *rows, int32_t count) {
    const struct tt_inference *inference = member->user;
    struct tt_emissions *stream = inference->emissions;
    bool announces = false, is_read = true;
    for (int32_t i = 0; is_read && i < count; i++) {
        bool is_news;
        is_read =
            tt_emissions_put(stream, (const char *)rows + (size_t)i * stream->row_bytes, &is_news);
        announces |= is_news;
    }
    if (announces)
        push(task, member, HAS_WORDS);
    return is_read;
}

/* ---- traces ---- */

static void trace_copy(const struct tt_domain *self, const struct tt_task *task,
                       enum tt_trace_direction direction, int32_t rows, int32_t requests,
                       struct tt_engine_copies copies) {
    if (copies.begin_at > 0 && copies.end_at >= copies.begin_at)
        tt_trace_copied(
            self->tap, task,
            &(struct tt_trace_copies){direction, rows, requests, copies.begin_at, copies.end_at});
}

/* E1: the copy of a request's inputs, if they were copied when they arrived. */
static void trace_arrival(const struct tt_domain *self, const struct tt_task *task,
                          const struct tt_inference *inference) {
    const struct tt_input_ring *ring = inference->model->inputs;
    if (self->tap && ring && ring->model && task->first_step == 0)
        trace_copy(self, task, TT_TRACE_ARRIVAL, inference->rows, 1,
                   tt_input_ring_copies(ring, inference));
}

void tt_domain_answers_trace(const struct tt_domain *self, const struct tt_served_model *model,
                             const struct tt_task *task, const struct tt_engine_task *engine_task) {
    if (!self->tap)
        return;
    for (int32_t i = 0; model->inputs && i < task->count; i++)
        if (engine_task->members[i].user)
            trace_arrival(self, task, engine_task->members[i].user);
    trace_copy(self, task, TT_TRACE_IN, task->rows, task->count, engine_task->copies_in);
    trace_copy(self, task, TT_TRACE_OUT, task->rows, task->count, engine_task->copies_out);
}

/* ---- answers ---- */

/* The task of the member; NULL: the member's answer waits for it. */
static struct tt_task *task_of(const struct tt_engine_member *member,
                               const struct tt_request *request) {
    struct tt_task *task = request && !request->cancelled ? request->task : NULL;
    const struct tt_domain_task *slot = task ? task->user : NULL;
    /* The last one ends with its task, so a model with a task has an inference, and is not removed.
     */
    bool is_its = slot && member >= slot->engine_task.members &&
                  member < slot->engine_task.members + task->count - 1;
    return is_its && !task->after ? task : NULL; /* else of one that it follows */
}

static void answer(struct tt_domain *self, int64_t now, struct tt_engine_member *member) {
    struct tt_inference *inference = member->user; /* NULL: rows that fill the batch up */
    struct tt_request *request = inference ? inference->request : NULL;
    struct tt_task *task = task_of(member, request);
    if (!task)
        return;
    const struct tt_domain_task *slot = task->user;
    const struct tt_engine_task *engine_task = &slot->engine_task;
    trace_arrival(self, task, inference);
    inference->result = member->result;
    inference->first_row = member->first_row;
    inference->state = NULL; /* the task's, until it ends */
    inference->err = TT_OK;
    if (task->first_step == 0) {
        inference->started_at = engine_task->head.started_at;
        inference->input_ns = inference->infer_ns = 0;
    }
    inference->input_ns += engine_task->input_ns;
    inference->infer_ns += engine_task->infer_ns;
    inference->computed_at = now;
    member->result = NULL;
    member->user = NULL;
    tt_mechanism_answered(&self->mechanism, now, request);
    request->user = NULL; /* the port's */
}

/* There are words to read: its port is notified. */
static void announce(int64_t now, struct tt_inference *inference) {
    if (!inference->emissions->is_announced) {
        inference->emissions->is_announced = true;
        tt_duration_histogram_add(&inference->model->stats->first_word,
                                  now - inference->submitted_at);
    }
    tt_mailbox_announce(inference->mailbox, inference);
}

void tt_domain_answers_take(struct tt_domain *self, int64_t now, int32_t executor) {
    uintptr_t item;
    while (self->answers.rings && (item = (uintptr_t)tt_ring_pop(&self->answers.rings[executor]))) {
        struct tt_engine_member *member = (struct tt_engine_member *)(item & ~(uintptr_t)HAS_WORDS);
        if (item & HAS_WORDS)
            announce(now, member->user);
        else
            answer(self, now, member);
    }
}

void tt_domain_answers_take_all(struct tt_domain *self, int64_t now) {
    struct tt_domain_answers *answers = &self->answers;
    int32_t count = answers->rings ? tt_dirty_set_take(&answers->reports, answers->reported) : 0;
    for (int32_t i = 0; i < count; i++)
        tt_domain_answers_take(self, now, answers->reported[i]);
}
