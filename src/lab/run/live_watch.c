#include "lab/run/live_watch.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"
#include "serve/domain.h"
#include "serve/inference_state.h"

#include <stdlib.h>

/* NULL: it is not a request of the run, or its end was reported. */
static struct tt_live_request *live_of(const struct tt_request *request) {
    const struct tt_inference *inference = tt_domain_inference_of(request);
    return inference ? inference->context : NULL;
}

/* ---- how requests end ---- */

/* The tokens of an answer at `ended_at`. Those of a request without cells come with it, as one. */
static struct tt_token_times tokens_of(const struct tt_live_watch *self,
                                       const struct tt_request *request, int64_t ended_at) {
    if (!request->graph)
        return (struct tt_token_times){.first_at = ended_at, .last_at = ended_at, .count = 1};
    struct tt_token_times tokens = request->graph->tokens;
    tokens.first_at -= self->epoch_at;
    tokens.last_at -= self->epoch_at;
    return tokens;
}

/* `from`: as the mechanism knows it; NULL: it never entered the domain. */
static void report_end(struct tt_live_watch *self, int64_t at, struct tt_live_request *request,
                       const struct tt_request *from, enum tt_ending ending,
                       enum tt_drop_reason reason) {
    request->ended = true;
    /* A turn may begin slightly before the instant of its event. */
    int64_t not_before_at = tt_instant_max(request->arrival.at, request->last_ended_at);
    struct tt_sim_ending end = {.number = request->number,
                                .arrived_at = request->arrival.at,
                                .deadline_at = request->arrival.deadline_at,
                                .started_at = request->started_at,
                                .ended_at = tt_instant_max(at, not_before_at),
                                .model = request->arrival.model,
                                .ending = ending,
                                .reason = reason};
    if (from && ending == TT_ENDING_DONE) {
        const struct tt_token_slo *slo = &self->mechanism->models[from->model]->tokens;
        if (tt_token_slo_given(slo))
            end.tokens = tokens_of(self, from, end.ended_at);
        end.tokens_late = !tt_token_slo_kept(slo, end.arrived_at, &end.tokens);
    }
    bool late = ending == TT_ENDING_DONE && !tt_sim_ending_in_time(&end);
    if (late || ending == TT_ENDING_DROPPED || ending == TT_ENDING_FAILED)
        tt_counter_add(&self->bad, end.arrived_at >= self->warm_up_ns);
    tt_counter_add(&self->events, 1);
    self->sink->ended(self->sink->context, &end);
}

void tt_live_watch_refused(struct tt_live_watch *self, int64_t now, struct tt_live_request *request,
                           enum tt_ending ending, enum tt_drop_reason reason) {
    tt_lock_take(&self->lock);
    report_end(self, now - self->epoch_at, request, NULL, ending, reason);
    tt_lock_give(&self->lock);
}

/* ---- steps ---- */

/* Copies the task with instants from the beginning of the run, without cells whose result is
 * unused. False: it has no request of the run. */
static bool copy_task(struct tt_live_watch *self, const struct tt_task *task) {
    self->task = *task;
    self->task.items = self->items;
    self->task.count = 0;
    tt_assert(task->count <= self->capacity);
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_request *request = task->items[i].request;
        const struct tt_live_request *live = live_of(request);
        if (!live)
            continue;
        int32_t at = self->task.count++;
        self->items[at] = task->items[i];
        self->items[at].request = &self->requests[at];
        self->requests[at] = *request;
        self->requests[at].arrived_at = live->arrival.at;
        self->requests[at].deadline_at = live->arrival.deadline_at;
        self->numbers[at] = live->number;
    }
    return self->task.count > 0;
}

/* More rows than the step takes run as several batches in sequence (C7). */
static int64_t step_ns(const struct tt_profile *profile, int32_t rows, int32_t length) {
    int64_t full = rows / profile->max_batch, sum_ns = 0;
    if (full > 0)
        sum_ns = full * tt_profile_latency(profile, profile->max_batch, length);
    return sum_ns + tt_profile_latency(profile, rows % profile->max_batch, length);
}

/* A part of a task that is measured as one: a step, `count` times; or `count` steps of a recurrent
 * block in cyclic order from `step`. */
struct part {
    int32_t step, count;
    struct tt_step_block block;
    int64_t ended_at; /* as it was measured */
};

static int32_t part_step(const struct part *part, int32_t i) {
    int32_t around = part->block.last - part->block.first + 1;
    return part->block.first + (part->step - part->block.first + i) % around;
}

/* The part that begins with `step`. A step outside any block is a part of its own. False: `step` is
 * after the last one. */
static bool find_part(const struct tt_live_watch *self, const struct tt_task *task, int32_t step,
                      struct part *out_part) {
    if (step > task->last_step_done && step > task->first_step)
        return false;
    struct tt_step_block block = tt_step_block_of(self->mechanism->models[task->model], step);
    if (block.first < 0)
        block = (struct tt_step_block){.first = step, .last = step};
    *out_part = (struct part){.step = step,
                              .count = tt_domain_step_rounds(task, step),
                              .block = block,
                              .ended_at = tt_domain_step_ended_at(task, step)};
    return true;
}

static int64_t part_step_ns(const struct tt_live_watch *self, const struct tt_task *task,
                            const struct part *part, int32_t i, int32_t length) {
    const struct tt_step *steps = self->mechanism->models[task->model]->steps;
    return step_ns(steps[part_step(part, i)].profile, task->rows, length);
}

static int32_t longest_of(const struct tt_task *task) {
    int32_t length = task->length;
    for (int32_t i = 0; i < task->count; i++)
        length = length > task->items[i].request->length ? length : task->items[i].request->length;
    return length;
}

static int64_t predicted_ns(const struct tt_live_watch *self, const struct tt_task *task) {
    const struct tt_step_model *model = self->mechanism->models[task->model];
    int32_t length = longest_of(task);
    bool whole = task->first_step == 0 && task->last_step_done == model->step_count - 1 &&
                 !task->items[0].subgraph && model->steps[0].kind == TT_STEP_STATIC;
    int64_t sum_ns = 0;
    struct part part;
    for (int32_t step = task->first_step; find_part(self, task, step, &part);
         step = part.block.last + 1) {
        for (int32_t i = 0; i < part.count; i++)
            sum_ns += part_step_ns(self, task, &part, i, length);
        whole = whole && part.count == 1;
    }
    return whole ? tt_profile_latency(model->whole, task->rows, length) : sum_ns;
}

static void tell_step(struct tt_live_watch *self, int32_t step, int64_t from_at, int64_t to_at) {
    bool aborted = self->task.outcome == TT_OUTCOME_ABORTED;
    self->sink->step_started(self->sink->context, from_at - self->epoch_at, &self->task, step,
                             self->numbers);
    self->sink->step_ended(self->sink->context, to_at - self->epoch_at, &self->task,
                           aborted ? -1 : step);
}

/* Divides the time among its steps in the ratio of their profiles. */
static void tell_part(struct tt_live_watch *self, const struct tt_task *task,
                      const struct part *part, int64_t from_at, int64_t to_at) {
    int32_t length = longest_of(task);
    int64_t all_ns = 0, behind_ns = 0, begin_at = from_at;
    for (int32_t i = 0; i < part->count; i++)
        all_ns += part_step_ns(self, task, part, i, length);
    for (int32_t i = 0; i < part->count; i++) {
        behind_ns += part_step_ns(self, task, part, i, length);
        __int128 share_ns = (__int128)(to_at - from_at) * behind_ns;
        int64_t end_at = from_at + (int64_t)(share_ns / (all_ns > 0 ? all_ns : 1));
        tell_step(self, part_step(part, i), begin_at, end_at);
        begin_at = end_at;
    }
}

static void tell_steps(struct tt_live_watch *self, const struct tt_task *task) {
    int64_t from_at = task->started_at;
    if (task->outcome == TT_OUTCOME_ABORTED) {
        tell_step(self, task->first_step, from_at, task->ended_at);
        return;
    }
    struct part part, next;
    bool more = find_part(self, task, task->first_step, &part);
    while (more) {
        more = find_part(self, task, part.block.last + 1, &next);
        int64_t to_at = more ? part.ended_at : task->ended_at;
        if (to_at > task->ended_at || to_at < from_at)
            to_at = from_at;
        tell_part(self, task, &part, from_at, to_at);
        from_at = to_at;
        part = next;
    }
}

static void measure_task(struct tt_live_watch *self, const struct tt_task *task) {
    int64_t could_at = tt_instant_max(tt_instant_max(task->dispatched_at, task->start_at),
                                      self->free_since_at[task->executor]);
    tt_histogram_add(&self->start_late_ns, tt_instant_max(task->started_at - could_at, 0));
    int64_t predicted = predicted_ns(self, task);
    if (predicted > 0 && task->outcome != TT_OUTCOME_ABORTED)
        tt_histogram_add(&self->run_ppm, (int64_t)((__int128)(task->ended_at - task->started_at) *
                                                   1000000 / predicted));
}

static void finished(struct tt_live_watch *self, const struct tt_task *task) {
    tt_counter_add(&self->events, 1);
    if (task->started_at < 0 || !copy_task(self, task))
        return;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_live_request *live = live_of(task->items[i].request);
        if (!live)
            continue;
        if (live->started_at < 0)
            live->started_at = task->started_at - self->epoch_at;
        live->last_ended_at = task->ended_at - self->epoch_at;
    }
    if (task->started_at - self->epoch_at >= self->warm_up_ns)
        measure_task(self, task);
    self->free_since_at[task->executor] = task->ended_at;
    tell_steps(self, task);
}

/* ---- how punctual decisions are ---- */

/* At the first event after a decision: measures how late a timer of the policy is. */
static void measure_decision(struct tt_live_watch *self, int64_t now) {
    if (!self->is_fresh)
        return;
    self->is_fresh = false;
    int64_t due_at = tt_mechanism_next_at(self->mechanism);
    if (due_at <= now && now - self->epoch_at >= self->warm_up_ns)
        tt_histogram_add(&self->decision_late_ns, now - due_at);
}

static void observe(struct tt_observer *observer, const struct tt_event *event) {
    struct tt_live_watch *self = TT_CONTAINER_OF(observer, struct tt_live_watch, observer);
    switch (event->kind) {
    case TT_EVENT_FINISHED:
        measure_decision(self, event->now);
        tt_lock_take(&self->lock);
        finished(self, event->task);
        tt_lock_give(&self->lock);
        break;
    case TT_EVENT_ENDED: {
        struct tt_live_request *live = live_of(event->request);
        if (!live)
            break;
        tt_lock_take(&self->lock);
        report_end(self, event->now - self->epoch_at, live, event->request, event->ending,
                   event->reason);
        tt_lock_give(&self->lock);
        break;
    }
    case TT_EVENT_DECIDE:
        measure_decision(self, event->now);
        self->is_fresh = true;
        break;
    case TT_EVENT_ARRIVED:
    case TT_EVENT_REFUSED:
    case TT_EVENT_READY:
    case TT_EVENT_CANCELLED: measure_decision(self, event->now); break;
    case TT_EVENT_MODEL:
    case TT_EVENT_EXECUTOR:
    case TT_EVENT_RUN:
    case TT_EVENT_DROP:
    case TT_EVENT_YIELD:
    case TT_EVENT_ABORT:
    case TT_EVENT_STAGE: break;
    }
}

/* ---- construction ---- */

void tt_live_watch_init(struct tt_live_watch *self, struct tt_mechanism *mechanism,
                        int32_t max_batch, const struct tt_sim_observer *sink) {
    *self = (struct tt_live_watch){
        .observer.observe = observe, .sink = sink, .mechanism = mechanism, .capacity = max_batch};
    tt_lock_init(&self->lock);
    tt_histogram_init(&self->decision_late_ns);
    tt_histogram_init(&self->start_late_ns);
    tt_histogram_init(&self->run_ppm);
    self->free_since_at =
        tt_allocate((size_t)mechanism->executor_capacity, sizeof(*self->free_since_at));
    self->items = tt_allocate((size_t)max_batch, sizeof(*self->items));
    self->requests = tt_allocate((size_t)max_batch, sizeof(*self->requests));
    self->numbers = tt_allocate((size_t)max_batch, sizeof(*self->numbers));
    tt_mechanism_observe(mechanism, &self->observer);
}

void tt_live_watch_fini(struct tt_live_watch *self) {
    if (!self->sink)
        return;
    tt_lock_fini(&self->lock);
    tt_histogram_fini(&self->decision_late_ns);
    tt_histogram_fini(&self->start_late_ns);
    tt_histogram_fini(&self->run_ppm);
    free(self->free_since_at);
    free(self->items);
    free(self->requests);
    free(self->numbers);
    *self = (struct tt_live_watch){0};
}

void tt_live_watch_figures(const struct tt_live_watch *self, struct tt_live_figures *out) {
    out->decision_late_ns = tt_live_spread_of(&self->decision_late_ns);
    out->start_late_ns = tt_live_spread_of(&self->start_late_ns);
    out->run_ppm = tt_live_spread_of(&self->run_ppm);
}
