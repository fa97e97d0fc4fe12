#include "core/mechanism.h"
#include "core/early_answer.h"

#include "base/instant.h"
#include "base/line.h"
#include "core/follow.h"
#include "core/mechanism_delays.h"
#include "core/observer.h"
#include "core/slot_quota.h"
#include "core/waiting.h"

#include <stdlib.h>
#include <string.h>

static enum tt_err executor_init(struct tt_executor *executor,
                                 const struct tt_mechanism_options *options) {
    executor->depth = options->depth;
    executor->tasks = calloc((size_t)options->depth, sizeof(*executor->tasks));
    if (!executor->tasks)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < options->depth; i++) {
        struct tt_task *task = &executor->tasks[i];
        task->capacity = options->max_batch;
        task->items = malloc((size_t)options->max_batch * sizeof(*task->items));
        if (!task->items)
            return TT_ERR_NO_MEMORY;
    }
    return TT_OK;
}

enum tt_err tt_mechanism_init(struct tt_mechanism *self, const struct tt_mechanism_options *options,
                              const struct tt_carrier *carrier, struct tt_error *why) {
    tt_assert(options->model_capacity > 0 && options->executor_capacity > 0);
    tt_assert(options->max_batch > 0 && options->depth > 0);
    *self = (struct tt_mechanism){.carrier = *carrier,
                                  .model_capacity = options->model_capacity,
                                  .executor_capacity = options->executor_capacity,
                                  .learns_outputs = options->learns_outputs,
                                  .longest_delay = {-1, -1},
                                  .delays_dropped_at = TT_NEVER,
                                  .now = INT64_MIN};
    self->models = calloc((size_t)options->model_capacity, sizeof(*self->models));
    self->model_requests = calloc((size_t)options->model_capacity, sizeof(*self->model_requests));
    self->kept_rows = calloc((size_t)options->model_capacity, sizeof(*self->kept_rows));
    self->executors = calloc((size_t)options->executor_capacity, sizeof(*self->executors));
    tt_list_init(&self->late);
    tt_lateness_init(&self->lateness, options->lateness_ns, options->learn_percent);
    bool made = self->models && self->model_requests && self->kept_rows && self->executors;
    if (options->learns_delays) {
        self->delays = calloc((size_t)options->executor_capacity, sizeof(*self->delays));
        made = made && self->delays;
    }
    for (int32_t i = 0; self->delays && i < options->executor_capacity; i++)
        tt_delay_estimate_init(&self->delays[i], options->delay,
                               options->learn_percent > 0 ? options->learn_percent
                                                          : TT_BELIEF_PERCENT);
    if (options->learn_percent > 0) {
        self->beliefs = calloc((size_t)options->model_capacity, sizeof(struct tt_belief *));
        made = made && self->beliefs;
    }
    enum tt_err err = made ? TT_OK : TT_ERR_NO_MEMORY;
    if (!err)
        err = tt_sharing_init(&self->sharing, options->executor_capacity);
    for (int32_t i = 0; !err && i < options->executor_capacity; i++)
        err = executor_init(&self->executors[i], options);
    if (!err && options->has_rules) {
        size_t levels = (size_t)options->model_capacity * (TT_QUEUE_MAX_LEVELS + 1);
        self->waiting = calloc(levels, sizeof(*self->waiting));
        int32_t indices = tt_request_pool_indices(options->request_reserve, options->request_limit);
        err = self->waiting ? tt_heap_init(&self->latest, indices) : TT_ERR_NO_MEMORY;
        if (!err)
            err = tt_heap_init(&self->by_age, indices);
        self->allowed_ns = calloc((size_t)indices, sizeof(*self->allowed_ns));
        if (!err && !self->allowed_ns)
            err = TT_ERR_NO_MEMORY;
        if (!err && options->refuses_early) {
            self->overloads = calloc((size_t)options->model_capacity, sizeof(*self->overloads));
            err = self->overloads ? TT_OK : TT_ERR_NO_MEMORY;
        }
        if (!err)
            err = tt_backlog_init(&self->backlog, options->model_capacity);
    }
    if (!err)
        err =
            tt_request_pool_init(&self->requests, options->request_reserve, options->request_limit);
    if (err) {
        tt_mechanism_fini(self);
        return tt_fail(err, why, "out of memory for a domain of %d models and %d executors",
                       options->model_capacity, options->executor_capacity);
    }
    return TT_OK;
}

void tt_mechanism_fini(struct tt_mechanism *self) {
    for (int32_t i = 0; i < self->requests.chunk_count * TT_REQUEST_CHUNK; i++) {
        struct tt_request *request = tt_request_pool_at(&self->requests, (uint32_t)i);
        if (request->state != TT_REQUEST_FREE && request->graph)
            self->carrier.gone(self->carrier.context, request);
    }
    for (int32_t i = 0; self->executors && i < self->executor_capacity; i++) {
        struct tt_executor *executor = &self->executors[i];
        for (int32_t k = 0; executor->tasks && k < executor->depth; k++)
            free(executor->tasks[k].items);
        free(executor->tasks);
    }
    for (int32_t m = 0; self->beliefs && m < self->model_capacity; m++)
        tt_belief_free(self->beliefs[m]);
    free((void *)self->beliefs);
    tt_sharing_fini(&self->sharing);
    free(self->delays);
    free(self->executors);
    free(self->models);
    free(self->model_requests);
    free(self->kept_rows);
    free(self->waiting);
    tt_heap_fini(&self->latest);
    tt_heap_fini(&self->by_age);
    free(self->allowed_ns);
    free(self->overloads);
    tt_backlog_fini(&self->backlog);
    tt_request_pool_fini(&self->requests);
    *self = (struct tt_mechanism){0};
}

void tt_mechanism_attach(struct tt_mechanism *self, const struct tt_policy_ops *ops,
                         const struct tt_policy_traits *traits, struct tt_policy *policy) {
    tt_assert(self->policy == NULL);
    tt_assert(tt_policy_runs_cells(traits) == (ops->released != NULL));
    self->ops = ops;
    self->traits = traits;
    self->policy = policy;
    self->backlog.alone = traits->runs_alone;
    self->backlog.in_order = traits->runs_as_they_came;
}

int32_t tt_mechanism_max_tasks(const struct tt_mechanism *self, int32_t depth) {
    int32_t count = self->ops->max_tasks ? self->ops->max_tasks(self->policy) : depth;
    return count < depth ? count : depth;
}

void tt_mechanism_observe(struct tt_mechanism *self, struct tt_observer *observer) {
    struct tt_observer **at = &self->observers;
    while (*at)
        at = &(*at)->next;
    observer->next = NULL;
    *at = observer;
}

TT_APART static void notify(const struct tt_mechanism *self, struct tt_event event) {
    event.now = self->now;
    event.domain = self;
    for (struct tt_observer *at = self->observers; at; at = at->next)
        at->observe(at, &event);
}

/* A macro, so that no event is built when there is no observer. */
#define NOTIFY(self, ...)                                                                          \
    do {                                                                                           \
        if (__builtin_expect((self)->observers != NULL, 0))                                        \
            notify((self), (struct tt_event){__VA_ARGS__});                                        \
    } while (0)

void tt_mechanism_stage_moved(const struct tt_mechanism *self, const struct tt_stage_event *move) {
    NOTIFY(self, .kind = TT_EVENT_STAGE, .stage = move);
}

/* `now` never goes back. All events of one instant have the same `now`. */
static void advance(struct tt_mechanism *self, int64_t now) {
    tt_assert(now >= self->now);
    tt_assert(!self->deciding);
    self->now = now;
    self->due_known = false;
}

static void tell_model(struct tt_mechanism *self, int64_t now, int32_t model,
                       enum tt_change change) {
    NOTIFY(self, .kind = TT_EVENT_MODEL, .index = model, .change = change);
    if (self->ops->model_changed)
        self->ops->model_changed(self->policy, now, model, change);
}

static void tell_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                          enum tt_change change) {
    NOTIFY(self, .kind = TT_EVENT_EXECUTOR, .index = executor, .change = change);
    self->ops->executor_changed(self->policy, now, executor, change);
}

/* ---- beliefs ---- */

static void belief_moved(struct tt_mechanism *self, int64_t now, int32_t model) {
    if (self->models[model]->rules)
        tt_backlog_believe(&self->backlog, model, self->models[model],
                           tt_mechanism_prior(self, model));
    tell_model(self, now, model, TT_CHANGE_BELIEF);
}

/* Of the requests that have done all steps: `round` is then the length of the output. */
static bool learn_outputs(struct tt_belief *belief, const struct tt_task *task) {
    bool moved = false;
    bool ends = task->last_step_done + 1 == belief->prior->step_count;
    bool ran = task->outcome != TT_OUTCOME_FAILED && task->outcome != TT_OUTCOME_ABORTED;
    for (int32_t i = 0; ends && ran && i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        if (item->fate == TT_FATE_GOES_ON && !item->request->cancelled && item->round > 0)
            moved |= tt_belief_output(belief, item->round);
    }
    return moved;
}

TT_APART static void learn(struct tt_mechanism *self, int64_t now, const struct tt_task *task) {
    struct tt_belief *belief = self->beliefs[task->model];
    bool moved = tt_belief_finished(belief, task);
    if (belief->outputs && !task->items[0].subgraph)
        moved |= learn_outputs(belief, task);
    if (moved)
        belief_moved(self, now, task->model);
}

/* S4: the believed delay of these messages has moved. */
static void tell_network(struct tt_mechanism *self, int64_t now, int32_t network) {
    tt_mechanism_delays_find_longest(self);
    for (int32_t e = 0; e < self->executor_capacity; e++)
        if (self->executors[e].state != TT_EXECUTOR_GONE && self->executors[e].network == network)
            tell_executor(self, now, e, TT_CHANGE_BELIEF);
}

TT_APART static void feed_delays(struct tt_mechanism *self, int64_t now) {
    self->delays_starve = false;
    self->delays_dropped_at = TT_NEVER;
    for (int32_t i = 0; i < self->executor_capacity; i++)
        if (tt_delay_estimate_starved(&self->delays[i]))
            tell_network(self, now, i);
}

/* Counts a request that ends, for early refusal. */
TT_APART static void note_end(struct tt_mechanism *self, const struct tt_request *request,
                              enum tt_ending ending, enum tt_drop_reason reason) {
    struct tt_overload *overload = &self->overloads[request->model];
    if (ending == TT_ENDING_DONE) {
        tt_overload_served(overload, request->rows);
        if (self->now > request->deadline_at)
            tt_overload_lost(overload, request->rows);
    } else if (reason == TT_DROP_DEADLINE || reason == TT_DROP_EARLY) {
        tt_overload_lost(overload, request->rows);
    }
}

TT_APART static void note_drop(struct tt_mechanism *self, const struct tt_request *request,
                               enum tt_drop_reason reason) {
    if (self->beliefs && (reason == TT_DROP_DEADLINE || reason == TT_DROP_EARLY))
        tt_belief_dropped(self->beliefs[request->model], self->now);
    if (self->delays && reason == TT_DROP_DEADLINE)
        tt_mechanism_delays_dropped(self, request);
}

/* ---- arrivals and endings ---- */

int64_t tt_mechanism_promised_at(const struct tt_mechanism *self,
                                 const struct tt_request *request) {
    if (!tt_waiting_rule(self, request) || self->allowed_ns[request->handle.index] == TT_NEVER)
        return request->deadline_at;
    return request->arrived_at + self->allowed_ns[request->handle.index];
}

int64_t tt_mechanism_ahead_ns(const struct tt_mechanism *self, const struct tt_request *request) {
    return tt_backlog_ahead(&self->backlog, request, self->executors_up);
}

static inline void report_end(struct tt_mechanism *self, struct tt_request *request,
                              enum tt_ending ending, enum tt_drop_reason reason) {
    NOTIFY(self, .kind = TT_EVENT_ENDED, .request = request, .ending = ending, .reason = reason);
    self->ended[ending]++;
    self->carrier.ended(self->carrier.context, self->now, request, ending, reason);
}

/* Reports the end; the request's memory stays. */
static inline void tell_end(struct tt_mechanism *self, struct tt_request *request,
                            enum tt_ending ending, enum tt_drop_reason reason) {
    tt_waiting_end(self, request);
    if (self->overloads)
        note_end(self, request, ending, reason);
    if (ending == TT_ENDING_DROPPED) {
        NOTIFY(self, .kind = TT_EVENT_DROP, .request = request, .reason = reason);
        note_drop(self, request, reason);
    }
    report_end(self, request, ending, reason);
}

static inline void let_go(struct tt_mechanism *self, struct tt_request *request) {
    tt_assert(request->cells_in_flight == 0);
    if (request->graph)
        self->carrier.gone(self->carrier.context, request);
    self->model_requests[request->model]--;
    tt_slot_quota_give(self, request);
    tt_request_pool_give(&self->requests, request);
}

/* Ends the request. While cells of it are in flight it stays, with its end reported. */
static void end_request(struct tt_mechanism *self, struct tt_request *request,
                        enum tt_ending ending, enum tt_drop_reason reason) {
    tt_assert(!request->reported);
    tell_end(self, request, ending, reason);
    if (request->cells_in_flight == 0) {
        let_go(self, request);
        return;
    }
    request->state = TT_REQUEST_LEAVING;
    request->reported = true;
    self->reported++;
}

void tt_mechanism_answered(struct tt_mechanism *self, int64_t now, struct tt_request *request) {
    advance(self, now);
    tt_assert(request->state == TT_REQUEST_RUNNING && !request->graph);
    tt_assert(!request->reported && !request->cancelled);
    tt_assert(!request->task->after && !request->task->follower);
    tt_assert(request->task->last_step == self->models[request->model]->step_count - 1);
    report_end(self, request, TT_ENDING_DONE, TT_DROP_NONE);
    request->reported = true;
    self->reported++;
}

/* Ends a request that leaves with its task. E7: its end may have been reported; what decisions
 * depend on is noted here in any case. */
static void end_with_task(struct tt_mechanism *self, struct tt_request *request,
                          enum tt_ending ending) {
    if (!request->reported) {
        end_request(self, request, ending, TT_DROP_NONE);
        return;
    }
    if (self->overloads)
        note_end(self, request, TT_ENDING_DONE, TT_DROP_NONE);
    self->reported--;
    let_go(self, request);
}

/* What an arriving request exceeds: its level is full, or it cannot be in time, alone or behind the
 * waiting requests. */
static enum tt_drop_reason excess_of(const struct tt_mechanism *self, int64_t now,
                                     const struct tt_request *request) {
    const struct tt_queue_rule *rule = tt_waiting_rule(self, request);
    if (rule->max_count > 0 && *tt_waiting_count(self, request) >= rule->max_count)
        return TT_DROP_QUEUE_FULL;
    int64_t latest_at = tt_waiting_latest(self, request);
    if (latest_at == TT_NEVER || latest_at - tt_mechanism_ahead_ns(self, request) >= now)
        return TT_DROP_NONE;
    return tt_waiting_latest_alone(self, request) < now ? TT_DROP_DEADLINE : TT_DROP_EARLY;
}

static bool drops(const struct tt_queue_rule *rule, enum tt_drop_reason excess) {
    return excess == TT_DROP_QUEUE_FULL || (excess != TT_DROP_NONE && !rule->delay_late);
}

/* Admits the request, late or in time, or ends it; false: it has ended. */
TT_APART static bool admit(struct tt_mechanism *self, int64_t now, struct tt_request *request) {
    enum tt_drop_reason excess = excess_of(self, now, request);
    self->allowed_ns[request->handle.index] = TT_NEVER;
    if (drops(tt_waiting_rule(self, request), excess)) {
        end_request(self, request, TT_ENDING_DROPPED, excess);
        return false;
    }
    if (excess != TT_DROP_NONE)
        tt_waiting_make_late(self, request);
    tt_waiting_begin(self, request);
    return true;
}

bool tt_mechanism_refuses(const struct tt_mechanism *self, int64_t now,
                          const struct tt_arrival *arrival) {
    const struct tt_step_model *model = self->models[arrival->model];
    const struct tt_belief *belief = self->beliefs ? self->beliefs[arrival->model] : NULL;
    const struct tt_request request = {.model = arrival->model,
                                       .rows = arrival->rows,
                                       .length = arrival->length,
                                       .priority = arrival->priority,
                                       .arrived_at = now,
                                       .deadline_at = arrival->deadline_at};
    if (!model->rules || (belief && belief->starving) ||
        (self->overloads && tt_overload_is_over(&self->overloads[arrival->model], now, model)))
        return false; /* the arrival itself changes what decides on it */
    return drops(tt_waiting_rule(self, &request), excess_of(self, now, &request));
}

static void release(void *context, struct tt_cell_subgraph *subgraph) {
    struct tt_mechanism *self = context;
    self->ops->released(self->policy, self->now, subgraph);
}

TT_APART static void release_first(struct tt_mechanism *self, struct tt_cell_graph *graph,
                                   struct tt_request *request) {
    for (int32_t i = 0; i < graph->subgraph_count; i++) {
        struct tt_cell_subgraph *subgraph = &graph->subgraphs[i];
        subgraph->request = request;
        subgraph->model = request->model;
        subgraph->rows = request->rows;
        subgraph->user = graph->user;
    }
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        if (graph->subgraphs[i].waits_for == 0)
            release(self, &graph->subgraphs[i]);
}

enum tt_err tt_mechanism_arrived(struct tt_mechanism *self, int64_t now,
                                 const struct tt_arrival *arrival,
                                 struct tt_request **out_request) {
    advance(self, now);
    tt_assert((uint32_t)arrival->model < (uint32_t)self->model_capacity);
    const struct tt_step_model *model = self->models[arrival->model];
    tt_assert(model != NULL);
    tt_assert(arrival->rows >= 1 && arrival->rows <= model->max_batch);
    tt_assert((arrival->graph != NULL) == tt_policy_runs_cells(self->traits));
    if (self->beliefs && self->beliefs[arrival->model]->starving &&
        tt_belief_starved(self->beliefs[arrival->model]))
        belief_moved(self, now, arrival->model);
    if (self->delays_starve)
        feed_delays(self, now);
    struct tt_request *request = tt_request_pool_take(&self->requests);
    if (!request) {
        NOTIFY(self, .kind = TT_EVENT_REFUSED, .arrival = arrival);
        return TT_ERR_BUSY;
    }
    self->model_requests[arrival->model]++;
    request->number = self->arrivals++;
    request->arrived_at = now;
    request->deadline_at = arrival->deadline_at;
    request->model = arrival->model;
    request->rows = arrival->rows;
    request->length = arrival->length;
    request->priority = arrival->priority;
    request->user = arrival->user;
    request->graph = arrival->graph;
    request->slot = -1;
    request->state = TT_REQUEST_QUEUED;
    NOTIFY(self, .kind = TT_EVENT_ARRIVED, .request = request, .arrival = arrival);
    if (self->overloads)
        tt_overload_arrived(&self->overloads[request->model], now, model, request->rows,
                            request->length, self->executors_up);
    if (model->rules && !admit(self, now, request))
        return TT_OK;
    if (out_request) /* before the policy owns it: from then on it may end at any time */
        *out_request = request;
    self->ops->arrived(self->policy, now, request);
    if (request->graph)
        release_first(self, request->graph, request);
    return TT_OK;
}

void tt_mechanism_ready(struct tt_mechanism *self, int64_t now, struct tt_request *request) {
    advance(self, now);
    request->is_ready = true;
    NOTIFY(self, .kind = TT_EVENT_READY, .request = request);
    if (self->ops->ready)
        self->ops->ready(self->policy, now, request);
}

void tt_mechanism_cancelled(struct tt_mechanism *self, int64_t now, struct tt_request *request) {
    advance(self, now);
    if (request->reported)
        return;
    NOTIFY(self, .kind = TT_EVENT_CANCELLED, .request = request);
    if (request->state == TT_REQUEST_RUNNING && !request->graph) {
        request->cancelled = true; /* it stays in its task; the result is discarded */
        return;
    }
    tt_assert(request->state == TT_REQUEST_QUEUED || request->graph);
    self->ops->cancelled(self->policy, now, request);
    end_request(self, request, TT_ENDING_CANCELLED, TT_DROP_NONE);
}

/* Moves one request of a finished task on: to QUEUED at its next step, or to LEAVING. Returns how
 * it ends if it leaves. */
static enum tt_ending settle(const struct tt_mechanism *self, const struct tt_task *task,
                             const struct tt_task_item *item) {
    struct tt_request *request = item->request;
    tt_assert(request->state == TT_REQUEST_RUNNING && request->task == task);
    request->task = NULL;
    request->state = TT_REQUEST_QUEUED;
    if (request->reported) { /* E7 */
        request->state = TT_REQUEST_LEAVING;
        return TT_ENDING_DONE;
    }
    enum tt_ending ending = TT_ENDING_DONE;
    bool leaves = false;
    if (request->cancelled) {
        leaves = true;
        ending = TT_ENDING_CANCELLED;
    } else if (task->outcome == TT_OUTCOME_FAILED || item->fate == TT_FATE_FAILS) {
        leaves = true;
        ending = TT_ENDING_FAILED;
    } else if (task->outcome == TT_OUTCOME_ABORTED) {
        leaves = false;
    } else if (item->fate == TT_FATE_LEAVES) {
        leaves = true;
    } else {
        request->step = item->fate == TT_FATE_JUMPS ? item->jump : task->last_step_done + 1;
        request->round = item->round;
        tt_assert(request->step >= 0);
        leaves = request->step >= self->models[task->model]->step_count;
    }
    if (leaves)
        request->state = TT_REQUEST_LEAVING;
    return ending;
}

/* An aborted request of a model whose late requests are served waits for its first step as before:
 * else the policy could drop it. */
static void wait_again(struct tt_mechanism *self, struct tt_request *request) {
    const struct tt_queue_rule *rule = tt_waiting_rule(self, request);
    if (rule && rule->late_every > 0 && request->state == TT_REQUEST_QUEUED && request->step == 0 &&
        request->round == 0)
        tt_waiting_begin(self, request);
}

static void leave(struct tt_request *request, struct tt_task_item *item, enum tt_ending ending) {
    request->state = TT_REQUEST_LEAVING;
    item->ends = true;
    item->ending = ending;
}

/* Updates subgraph and request after one cell has come back, computed or not. */
static void settle_cell(struct tt_mechanism *self, const struct tt_task *task,
                        struct tt_task_item *item, bool failed) {
    struct tt_request *request = item->request;
    struct tt_cell_subgraph *subgraph = item->subgraph;
    tt_assert(request->cells_in_flight > 0 && subgraph->in_flight > 0);
    tt_assert(subgraph->executor == task->executor);
    if (--subgraph->in_flight == 0)
        subgraph->executor = -1;
    item->last = --request->cells_in_flight == 0;
    if (request->state == TT_REQUEST_LEAVING)
        return;
    if (failed || item->fate == TT_FATE_FAILS) {
        leave(request, item, TT_ENDING_FAILED);
        return;
    }
    bool ends = subgraph->open_ended && item->fate == TT_FATE_LEAVES;
    bool all_done = subgraph->in_flight == 0 && subgraph->submitted == subgraph->count;
    bool over = (ends || all_done) && !subgraph->over;
    if (over)
        tt_cell_subgraph_over(request->graph, subgraph, release, self);
    if (over && request->graph->over_count == request->graph->subgraph_count)
        leave(request, item, TT_ENDING_DONE);
    else if (item->last)
        request->state = TT_REQUEST_QUEUED;
}

/* Its cells are tokens, for which some model has objectives. */
static void count_tokens(const struct tt_mechanism *self, const struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        if (item->request->state != TT_REQUEST_LEAVING && !item->subgraph->over &&
            item->fate != TT_FATE_FAILS)
            tt_token_times_add(&item->request->graph->tokens, self->now);
    }
}

TT_APART static void settle_cells(struct tt_mechanism *self, struct tt_task *task) {
    tt_assert(task->outcome == TT_OUTCOME_DONE || task->outcome == TT_OUTCOME_FAILED);
    bool failed = task->outcome == TT_OUTCOME_FAILED;
    const struct tt_step_model *model = self->models[task->model];
    bool decodes = !failed && model->steps[task->first_step].kind == TT_STEP_DECODER;
    if (decodes && (task->is_mixed || tt_token_slo_given(&model->tokens)))
        count_tokens(self, task);
    struct tt_task_item *items = task->items;
    for (int32_t i = 0, count = task->count; i < count; i++)
        settle_cell(self, task, &items[i], failed);
}

/* Called after the policy's `finished`. Reports the end of each request that left because of a
 * cell, and releases it with its last cell. */
TT_APART static void end_cells(struct tt_mechanism *self, const struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        struct tt_request *request = item->request;
        if (item->ends) {
            tell_end(self, request, item->ending, TT_DROP_NONE);
            request->reported = true;
            self->reported++;
        }
        if (item->last && request->state == TT_REQUEST_LEAVING) {
            tt_assert(request->reported);
            self->reported--;
            let_go(self, request);
        }
    }
}

/* Moves the requests of a finished task on. */
static void settle_requests(struct tt_mechanism *self, struct tt_task *task) {
    for (int32_t i = 0, count = task->count; i < count; i++) {
        task->items[i].ending = settle(self, task, &task->items[i]);
        tt_slot_quota_settle(self, task->items[i].request);
        if (task->outcome == TT_OUTCOME_ABORTED)
            wait_again(self, task->items[i].request);
    }
}

/* Called after the policy's `finished`: ends the requests that left. */
static void end_requests(struct tt_mechanism *self, const struct tt_task *task) {
    for (int32_t i = 0, count = task->count; i < count; i++)
        if (task->items[i].request->state == TT_REQUEST_LEAVING)
            end_with_task(self, task->items[i].request, task->items[i].ending);
}

void tt_mechanism_finished(struct tt_mechanism *self, int64_t now, struct tt_task *task) {
    advance(self, now);
    tt_assert(task->state == TT_TASK_QUEUED);
    struct tt_executor *executor = &self->executors[task->executor];
    tt_assert(executor->queued > 0 && task == &executor->tasks[executor->oldest]);
    tt_assert(task->last_step_done >= -1); /* a block may take it back before its first step */
    tt_assert(task->last_step_done <= task->last_step);
    tt_assert(task->outcome != TT_OUTCOME_DONE || task->last_step_done == task->last_step);
    tt_assert(task->after == NULL);
    NOTIFY(self, .kind = TT_EVENT_FINISHED, .task = task);
    task->lost_ns = tt_sharing_end(&self->sharing, now, task->executor);
    if (self->beliefs)
        learn(self, now, task);
    if (self->delays && tt_mechanism_delays_learn(self, task))
        tell_network(self, now, executor->network);
    executor->oldest = executor->oldest + 1 == executor->depth ? 0 : executor->oldest + 1;
    executor->queued--;
    executor->stopping = false;
    if (executor->queued > 0)
        tt_sharing_begin(&self->sharing, now, &executor->tasks[executor->oldest],
                         self->models[executor->tasks[executor->oldest].model]);
    bool by_cells = task->items[0].subgraph != NULL;
    if (by_cells)
        settle_cells(self, task);
    else if (task->follower)
        tt_follow_finished(self, task);
    else
        settle_requests(self, task);
    self->ops->finished(self->policy, now, task);
    if (by_cells)
        end_cells(self, task);
    else
        end_requests(self, task);
    task->state = TT_TASK_FREE;
}

enum tt_err tt_mechanism_model_reserve(struct tt_mechanism *self, int32_t model,
                                       const struct tt_step_model *step_model) {
    struct tt_belief *belief = NULL;
    tt_assert(self->models[model] == NULL);
    if (!self->beliefs || self->beliefs[model])
        return TT_OK;
    enum tt_err err = tt_belief_new(step_model, self->lateness.percent, &belief);
    if (!err && self->learns_outputs)
        err = tt_belief_learn_outputs(belief);
    if (err) {
        tt_belief_free(belief);
        return err;
    }
    self->beliefs[model] = belief;
    return TT_OK;
}

void tt_mechanism_add_model(struct tt_mechanism *self, int64_t now, int32_t model,
                            const struct tt_step_model *step_model) {
    advance(self, now);
    tt_assert(model >= 0 && model < self->model_capacity);
    tt_assert(self->models[model] == NULL);
    tt_assert(step_model->max_batch <= step_model->whole->max_batch);
    tt_assert(!step_model->rules || self->waiting);
    tt_assert(step_model->rule_count <= TT_QUEUE_MAX_LEVELS + 1);
    if (self->overloads)
        self->overloads[model] = (struct tt_overload){.window_at = now};
    if (self->beliefs) {
        enum tt_err err = tt_mechanism_model_reserve(self, model, step_model);
        tt_assert(err == TT_OK);
        tt_assert(self->beliefs[model]->prior == step_model);
    }
    self->models[model] = self->beliefs ? &self->beliefs[model]->model : step_model;
    if (step_model->rules)
        tt_backlog_add_model(&self->backlog, model, step_model);
    tell_model(self, now, model, TT_CHANGE_ADDED);
}

void tt_mechanism_drain_model(struct tt_mechanism *self, int64_t now, int32_t model) {
    advance(self, now);
    tt_assert(self->models[model] != NULL);
    tell_model(self, now, model, TT_CHANGE_DRAINING);
}

void tt_mechanism_remove_model(struct tt_mechanism *self, int64_t now, int32_t model) {
    advance(self, now);
    tt_assert(self->models[model] != NULL);
    tt_assert(self->model_requests[model] == 0);
    tell_model(self, now, model, TT_CHANGE_GONE);
    self->models[model] = NULL;
    if (self->beliefs) {
        tt_belief_free(self->beliefs[model]);
        self->beliefs[model] = NULL;
    }
}

void tt_mechanism_add_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                               int32_t device) {
    advance(self, now);
    tt_assert(executor >= 0 && executor < self->executor_capacity);
    struct tt_executor *e = &self->executors[executor];
    tt_assert(e->state == TT_EXECUTOR_GONE);
    e->state = TT_EXECUTOR_UP;
    self->executors_up++;
    tt_mechanism_delays_seat(self, executor, device);
    tt_sharing_seat(&self->sharing, now, executor, device);
    tell_executor(self, now, executor, TT_CHANGE_ADDED);
}

void tt_mechanism_move_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                                int32_t device) {
    advance(self, now);
    tt_assert(self->executors[executor].state != TT_EXECUTOR_GONE);
    tt_mechanism_delays_seat(self, executor, device);
    tt_sharing_seat(&self->sharing, now, executor, device);
    NOTIFY(self, .kind = TT_EVENT_EXECUTOR, .index = executor, .change = TT_CHANGE_MOVED);
    if (self->delays)
        tell_executor(self, now, executor, TT_CHANGE_BELIEF);
}

void tt_mechanism_drain_executor(struct tt_mechanism *self, int64_t now, int32_t executor) {
    advance(self, now);
    tt_assert(self->executors[executor].state == TT_EXECUTOR_UP);
    self->executors[executor].state = TT_EXECUTOR_DRAINING;
    self->executors_up--;
    tt_mechanism_delays_find_longest(self);
    tell_executor(self, now, executor, TT_CHANGE_DRAINING);
}

void tt_mechanism_remove_executor(struct tt_mechanism *self, int64_t now, int32_t executor) {
    advance(self, now);
    struct tt_executor *e = &self->executors[executor];
    tt_assert(e->state != TT_EXECUTOR_GONE);
    tt_assert(e->queued == 0);
    self->executors_up -= e->state == TT_EXECUTOR_UP;
    e->state = TT_EXECUTOR_GONE;
    tt_mechanism_delays_find_longest(self);
    tt_sharing_leave(&self->sharing, now, executor);
    tell_executor(self, now, executor, TT_CHANGE_GONE);
}

/* Returns a request that was made late, or has a turn, to the policy. */
static void arrive_again(struct tt_mechanism *self, int64_t now, struct tt_request *request) {
    self->ops->arrived(self->policy, now, request);
    if (request->graph)
        release_first(self, request->graph, request);
    if (request->is_ready && self->ops->ready)
        self->ops->ready(self->policy, now, request);
}

/* Takes the waiting requests from the policy that cannot meet their deadline any more. */
TT_APART static void expire(struct tt_mechanism *self, int64_t now) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->latest)) && top->key < now) {
        struct tt_request *request = tt_request_pool_at(&self->requests, (uint32_t)top->id);
        tt_assert(request->state == TT_REQUEST_QUEUED && request->waits);
        bool alone = tt_waiting_latest_alone(self, request) >= now;
        if (alone && tt_waiting_latest(self, request) >= now) {
            tt_waiting_look_again(self, now, request);
            continue;
        }
        self->ops->cancelled(self->policy, now, request);
        if (tt_waiting_rule(self, request)->delay_late) {
            tt_waiting_make_late(self, request);
            arrive_again(self, now, request);
        } else {
            end_request(self, request, TT_ENDING_DROPPED, alone ? TT_DROP_EARLY : TT_DROP_DEADLINE);
        }
    }
}

/* Gives the oldest late requests the turns that are due. */
TT_APART static void give_turns(struct tt_mechanism *self, int64_t now) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->by_age))) {
        struct tt_request *request = tt_request_pool_at(&self->requests, (uint32_t)top->id);
        int32_t every = tt_waiting_rule(self, request)->late_every;
        if (self->passed_rows < every)
            return;
        self->passed_rows -= every;
        self->ops->cancelled(self->policy, now, request);
        tt_waiting_renew(self, request);
        arrive_again(self, now, request);
    }
}

static void decide(struct tt_mechanism *self, int64_t now) {
    self->deciding = true;
    self->ops->decide(self->policy, now, self);
    self->deciding = false;
    tt_assert(self->building == NULL);
}

/* Lets the requests that were made late during decide arrive again, and decides on them. Ends,
 * since a request is made late only once. */
TT_APART static void readmit(struct tt_mechanism *self, int64_t now) {
    struct tt_list_node *node;
    while (!tt_list_empty(&self->late)) {
        while ((node = tt_list_first(&self->late))) {
            tt_list_remove(node);
            arrive_again(self, now, TT_CONTAINER_OF(node, struct tt_request, link));
        }
        decide(self, now);
    }
}

void tt_mechanism_decide(struct tt_mechanism *self, int64_t now) {
    advance(self, now);
    NOTIFY(self, .kind = TT_EVENT_DECIDE);
    if (self->beliefs)
        tt_lateness_decided(&self->lateness, now);
    if (self->latest.count > 0)
        expire(self, now);
    if (self->by_age.count > 0)
        give_turns(self, now);
    decide(self, now);
    if (!tt_list_empty(&self->late))
        readmit(self, now);
    if (self->beliefs) {
        self->lateness.due_at = tt_mechanism_next_at(self);
        self->due_known = true;
    }
}

int64_t tt_mechanism_next_at(const struct tt_mechanism *self) {
    if (self->due_known)
        return self->lateness.due_at;
    int64_t next_at = self->ops->next_at(self->policy);
    const struct tt_heap_entry *top = self->latest.count > 0 ? tt_heap_top(&self->latest) : NULL;
    return top ? tt_instant_min(next_at, tt_instant_add(top->key, 1)) : next_at;
}

struct tt_task *tt_mechanism_run_begin(struct tt_mechanism *self, int32_t executor, int32_t model,
                                       int32_t first_step, int32_t last_step) {
    tt_assert(self->deciding);
    tt_assert(self->building == NULL);
    tt_assert(executor >= 0 && executor < self->executor_capacity);
    tt_assert(tt_mechanism_has_room(self, executor));
    tt_assert(model >= 0 && model < self->model_capacity);
    tt_assert(self->models[model] != NULL);
    tt_assert(first_step >= 0 && first_step <= last_step);
    tt_assert(last_step < self->models[model]->step_count);
    struct tt_executor *e = &self->executors[executor];
    int32_t at = e->oldest + e->queued;
    struct tt_task *task = &e->tasks[at < e->depth ? at : at - e->depth];
    tt_assert(task->state == TT_TASK_FREE);
    task->state = TT_TASK_BUILDING;
    task->executor = executor;
    task->model = model;
    task->first_step = first_step;
    task->last_step = last_step;
    task->repeat = 1;
    task->walk = TT_WALK_TOGETHER;
    task->is_mixed = false;
    task->length = 0;
    task->rows = task->padded_rows = 0;
    task->count = task->begin_count = 0;
    task->user = NULL;
    task->after = task->follower = NULL;
    task->outcome = TT_OUTCOME_DONE;
    task->last_step_done = first_step - 1;
    task->started_at = task->ended_at = task->received_at = -1;
    self->building = task;
    return task;
}

void tt_mechanism_run_add(struct tt_mechanism *self, struct tt_request *request) {
    struct tt_task *task = self->building;
    tt_assert(task != NULL);
    tt_assert(request->state == TT_REQUEST_QUEUED);
    tt_assert(request->model == task->model);
    tt_assert(request->step == task->first_step);
    tt_assert(!tt_list_linked(&request->link)); /* the policy must unlink it first */
    tt_assert(task->count < task->capacity);
    task->rows += request->rows;
    tt_assert(task->rows <= self->models[task->model]->max_batch);
    tt_waiting_start(self, request);
    task->items[task->count++] =
        (struct tt_task_item){.request = request, .begins = !request->begun};
    task->begin_count += !request->begun;
    request->begun = true;
    request->state = TT_REQUEST_RUNNING;
    request->task = task;
}

/* What changes for a request with its first cell. */
static void begin_cells(struct tt_mechanism *self, struct tt_request *request) {
    tt_line_fetch(request->user); /* observers and the carrier read it next */
    tt_waiting_start(self, request);
    self->building->begin_count++;
    request->begun = true;
}

void tt_mechanism_run_add_cell(struct tt_mechanism *self, struct tt_cell_subgraph *subgraph) {
    struct tt_task *task = self->building;
    tt_assert(task != NULL);
    struct tt_request *request = subgraph->request;
    tt_assert(request->state == TT_REQUEST_QUEUED || request->state == TT_REQUEST_RUNNING);
    bool is_other = subgraph->model != task->model;
    tt_assert(is_other ||
              (subgraph->first_step == task->first_step && subgraph->last_step == task->last_step));
    task->is_mixed |= is_other;
    /* C5: a subgraph stays on one executor while cells of it are in flight. */
    tt_assert(subgraph->executor < 0 || subgraph->executor == task->executor);
    tt_assert(task->count < task->capacity);
    struct tt_task_item *item = &task->items[task->count++];
    *item =
        (struct tt_task_item){.request = request, .subgraph = subgraph, .begins = !request->begun};
    task->rows += subgraph->rows;
    subgraph->executor = task->executor;
    subgraph->in_flight++;
    request->cells_in_flight++;
    request->state = TT_REQUEST_RUNNING;
    item->cell = tt_cell_subgraph_take(request->graph, subgraph);
    if (!request->begun)
        begin_cells(self, request);
}

/* C1: the cells of other models are of the same type. */
static void check_mixed(const struct tt_mechanism *self, const struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        tt_assert(subgraph->model == task->model ||
                  tt_step_same_cell(self->models[subgraph->model], subgraph->first_step,
                                    subgraph->last_step, self->models[task->model],
                                    task->first_step, task->last_step));
    }
}

/* All cells are in the task, so the cells that read them may follow in the next one. */
TT_APART static void submit_cells(const struct tt_mechanism *self, struct tt_task *task) {
    tt_assert(task->rows <=
              tt_step_max_rows(self->models[task->model], task->first_step, task->last_step));
    task->walk = TT_WALK_ONCE;
    if (task->is_mixed)
        check_mixed(self, task);
    const struct tt_task_item *items = task->items;
    for (int32_t i = 0, count = task->count; i < count; i++)
        tt_cell_subgraph_submitted(items[i].request->graph, items[i].subgraph, items[i].cell);
}

void tt_mechanism_run_commit(struct tt_mechanism *self, int64_t start_at) {
    struct tt_task *task = self->building;
    tt_assert(task != NULL);
    tt_assert(task->count > 0);
    tt_assert(task->repeat >= 1);
    tt_assert(task->state == TT_TASK_BUILDING);
    if (task->items[0].subgraph)
        submit_cells(self, task);
    if (task->last_step < self->models[task->model]->step_count - 1)
        tt_slot_quota_take(self, task);
    self->building = NULL;
    task->state = TT_TASK_QUEUED;
    task->number = self->runs++;
    task->dispatched_at = self->now;
    task->start_at = start_at > self->now ? start_at : self->now;
    if (++self->executors[task->executor].queued == 1)
        tt_sharing_begin(&self->sharing, self->now, task, self->models[task->model]);
    NOTIFY(self, .kind = TT_EVENT_RUN, .task = task);
    self->carrier.start(self->carrier.context, self->now, task);
}

void tt_mechanism_drop(struct tt_mechanism *self, struct tt_request *request,
                       enum tt_drop_reason reason) {
    tt_assert(self->deciding);
    tt_assert(request->state == TT_REQUEST_QUEUED || (request->graph && !request->reported));
    const struct tt_queue_rule *rule = request->waits ? tt_waiting_rule(self, request) : NULL;
    if (rule && rule->delay_late && !tt_waiting_is_late(request) &&
        (reason == TT_DROP_DEADLINE || reason == TT_DROP_EARLY)) {
        tt_waiting_make_late(self, request);
        tt_list_push_back(&self->late, &request->link);
        return;
    }
    end_request(self, request, TT_ENDING_DROPPED, reason);
}

static void stop_oldest(struct tt_mechanism *self, int32_t executor) {
    tt_assert(self->deciding);
    struct tt_executor *e = &self->executors[executor];
    tt_assert(e->queued > 0);
    tt_assert(!e->stopping);
    tt_assert(e->tasks[e->oldest].after == NULL);
    tt_assert(e->tasks[e->oldest].follower == NULL);
    e->stopping = true;
}

void tt_mechanism_yield(struct tt_mechanism *self, int32_t executor) {
    stop_oldest(self, executor);
    tt_slot_quota_take(self, tt_mechanism_oldest(self, executor));
    NOTIFY(self, .kind = TT_EVENT_YIELD, .index = executor);
    self->carrier.yield(self->carrier.context, self->now, executor);
}

void tt_mechanism_abort(struct tt_mechanism *self, int32_t executor) {
    stop_oldest(self, executor);
    NOTIFY(self, .kind = TT_EVENT_ABORT, .index = executor);
    self->carrier.abort(self->carrier.context, self->now, executor);
}
