#include "sim/simulation.h"

#include "base/heap.h"
#include "base/instant.h"
#include "base/prng.h"
#include "core/policy_ops.h"
#include "core/walk.h"
#include "sim/cancel_heap.h"
#include "sim/input_pool.h"
#include "sim/step_work.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_REQUEST_LIMIT = 4 << 20,
    SAME_INSTANT_LIMIT = 1000000, /* a policy that turns in circles at one instant is a bug */
};
/* How long a policy may sit on its last requests after the last arrival before they are taken from
 * it. */
#define DRAIN_LIMIT_NS (3600 * TT_S)

enum phase {
    PHASE_IDLE,
    PHASE_WAITING,
    PHASE_COPYING_IN,
    PHASE_RUNNING,
    PHASE_BETWEEN, /* two steps of a task: until the instant is over */
    PHASE_COPYING_OUT,
    PHASE_STOPPING
};

struct sim_executor {
    int32_t device;
    enum phase phase;
    struct tt_walk walk; /* PHASE_RUNNING: where it is */
    int32_t last_step_done;
    bool walked; /* a step of the task has ended */
    bool yielding;
    enum tt_outcome outcome; /* PHASE_STOPPING */
    int64_t appears_at;
    struct tt_cell_cost cell_cost;
};

/* What only the world knows of a request in the system; found by the index of its handle. */
struct sim_request {
    int64_t number;
    int64_t started_at;
    int32_t exit_step, exit_to;
    int32_t output_length;
    int32_t *ends; /* of given cells, by spec; NULL: as long as the output */
};

struct tt_simulation {
    struct tt_mechanism mechanism;
    struct tt_sim_model *models;
    struct tt_device *devices;
    struct tt_copy_engine *copies_in, *copies_out; /* of each device */
    struct sim_executor *executors;
    int32_t executor_count, device_count, model_count;
    struct tt_heap device_ends; /* devices by when their first running step ends */
    struct tt_heap due;         /* executors that wait, copy or stop, by when that is over */
    struct tt_heap appearing;   /* executors that are not there yet */
    int32_t *between;           /* [between_count]: executors between two steps of a task */
    int32_t between_count;
    struct tt_cancel_heap cancels;
    struct tt_input_pool pool;  /* where pooled */
    struct tt_sim_cells unfold; /* where the policy works by cells */
    bool pooled;
    struct sim_request *requests;
    int64_t request_capacity;
    int64_t *numbers; /* scratch for the observer */
    struct tt_sim_source source;
    struct tt_sim_observer observer;
    struct tt_sim_arrival next; /* the arrival that comes next, if more */
    bool admitting;   /* the request that ends now came but now: a rule of its queue refused it */
    int64_t admitted; /* its number */
    bool more, any_exit, check, told;
    int64_t arrived; /* number of the next arrival */
    int64_t last_arrival_at;
    int64_t now, timer_at, events;
    int32_t turns; /* at this instant */
    int64_t d_ctrl_ns, d_data_ns, abort_ns;
    int32_t jitter_permille;
    uint64_t seed;
    struct tt_prng prng;
};

/* ---- executing tasks ---- */

static void refresh_device(struct tt_simulation *self, int32_t device) {
    int64_t at = tt_device_next_at(&self->devices[device]);
    if (at == TT_NEVER)
        tt_heap_remove(&self->device_ends, device);
    else
        tt_heap_set(&self->device_ends, device, at, device);
}

/* L3: where the model's decoder is stopped, whatever it still wants to say. */
static int32_t most_output(const struct tt_simulation *self, int32_t model) {
    const int32_t *quantiles = self->models[model].step_model->output_quantiles;
    return quantiles ? quantiles[TT_QUANTILES - 1] : INT32_MAX;
}

/* What a request will really do in a recurrent block. */
static int32_t rounds_of(const struct tt_simulation *self, const struct tt_request *request,
                         enum tt_step_kind kind) {
    int32_t rounds = request->length;
    if (kind == TT_STEP_DECODER) {
        int32_t most = most_output(self, request->model);
        rounds = self->requests[request->handle.index].output_length;
        rounds = rounds < most ? rounds : most;
    }
    return rounds > 0 ? rounds : 1;
}

/* Those of a task on their way. */
struct walkers {
    const struct tt_simulation *self;
    const struct tt_task *task;
};

static int32_t rounds_in_all(void *context, int32_t member, enum tt_step_kind kind) {
    const struct walkers *walkers = context;
    return rounds_of(walkers->self, walkers->task->items[member].request, kind);
}

static int32_t rounds_behind(void *context, int32_t member) {
    const struct walkers *walkers = context;
    return walkers->task->items[member].request->round;
}

static struct tt_walk_members members_of(struct walkers *walkers) {
    return (struct tt_walk_members){.context = walkers,
                                    .count = walkers->task->count,
                                    .rounds = rounds_in_all,
                                    .behind = rounds_behind};
}

/* Starts the step where the task's walk stands. */
static void start_step(struct tt_simulation *self, struct tt_task *task) {
    struct sim_executor *executor = &self->executors[task->executor];
    int32_t step = executor->walk.step;
    const struct tt_profile *profile = self->models[task->model].step_model->steps[step].profile;
    executor->phase = PHASE_RUNNING;
    if (task->started_at < 0)
        task->started_at = self->now;
    for (int32_t i = 0; i < task->count; i++) {
        struct sim_request *request = &self->requests[task->items[i].request->handle.index];
        if (request->started_at < 0)
            request->started_at = self->now;
        self->numbers[i] = request->number;
    }
    if (self->observer.step_started)
        self->observer.step_started(self->observer.context, self->now, task, step, self->numbers);
    int64_t work_ns = tt_step_work(profile, task, self->jitter_permille, &self->prng);
    if (task->items[0].subgraph && step == task->first_step)
        work_ns +=
            tt_cell_cost_begin(&executor->cell_cost, task, &self->models[task->model].cell_rates);
    tt_device_start(&self->devices[executor->device], self->now, task->executor, work_ns,
                    tt_step_demand(profile, task));
    refresh_device(self, executor->device);
}

static void wait_until(struct tt_simulation *self, int32_t executor, enum phase phase, int64_t at) {
    self->executors[executor].phase = phase;
    tt_heap_set(&self->due, executor, at, executor);
}

static void start_first(struct tt_simulation *self, struct tt_task *task) {
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    struct tt_walk_course course = {.first_step = task->first_step,
                                    .last_step = task->last_step,
                                    .repeat = task->repeat,
                                    .walk = task->walk,
                                    .length = task->length};
    tt_walk_begin(&self->executors[task->executor].walk, self->models[task->model].step_model,
                  &course, &members);
    start_step(self, task);
}

/* The task's message is there and its time has come. */
static void enter(struct tt_simulation *self, struct tt_task *task) {
    struct sim_executor *executor = &self->executors[task->executor];
    int64_t bytes = self->models[task->model].input_bytes * tt_task_computed_rows(task);
    if (bytes > 0 && !self->pooled && task->first_step == 0) {
        int64_t done_at = tt_copy_engine_add(&self->copies_in[executor->device], self->now, bytes);
        if (done_at > self->now) {
            wait_until(self, task->executor, PHASE_COPYING_IN, done_at);
            return;
        }
    }
    start_first(self, task);
}

static void begin_oldest(struct tt_simulation *self, int32_t number) {
    struct sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    executor->yielding = false;
    executor->walked = false;
    executor->last_step_done = task->first_step - 1;
    int64_t delay_ns = self->d_ctrl_ns + self->d_data_ns * task->rows; /* S4 */
    int64_t at = tt_instant_max(tt_instant_add(task->dispatched_at, delay_ns), task->start_at);
    if (at > self->now)
        wait_until(self, number, PHASE_WAITING, at);
    else
        enter(self, task);
}

/* Which of the task's cells are the last of their open-ended chains. */
static void find_ends(struct tt_simulation *self, struct tt_task *task) {
    enum tt_step_kind kind = self->models[task->model].step_model->steps[task->first_step].kind;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_task_item *item = &task->items[i];
        item->fate = TT_FATE_GOES_ON;
        if (!item->subgraph->open_ended)
            continue;
        const int32_t *ends = self->requests[item->request->handle.index].ends;
        int32_t rounds = ends ? ends[item->subgraph->spec] : rounds_of(self, item->request, kind);
        if (item->cell + 1 == rounds)
            item->fate = TT_FATE_LEAVES;
    }
}

/* D8: where the request goes from the end of the task. */
static void take_exit(const struct tt_simulation *self, const struct tt_task *task,
                      struct tt_task_item *item) {
    const struct sim_request *request = &self->requests[item->request->handle.index];
    if (request->exit_step < 0 || task->last_step_done < request->exit_step)
        return;
    if (request->exit_to == 0) {
        item->fate = TT_FATE_LEAVES;
    } else if (task->last_step_done + 1 < request->exit_to) {
        item->fate = TT_FATE_JUMPS;
        item->jump = request->exit_to;
    }
}

/* Where the walk has left everybody. */
static void settle_walk(struct tt_simulation *self, const struct tt_walk *walk,
                        struct tt_task *task) {
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_walk_place place = tt_walk_place_of(walk, &members, i);
        task->items[i].round = place.round;
        if (place.step == task->last_step_done + 1)
            continue;
        task->items[i].fate = TT_FATE_JUMPS;
        task->items[i].jump = place.step;
    }
}

static void finish(struct tt_simulation *self, int32_t number, enum tt_outcome outcome) {
    struct sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    executor->phase = PHASE_IDLE;
    task->outcome = outcome;
    task->last_step_done =
        outcome == TT_OUTCOME_ABORTED ? task->first_step - 1 : executor->last_step_done;
    if (task->items[0].subgraph) {
        find_ends(self, task);
    } else if (executor->walked && outcome != TT_OUTCOME_ABORTED) {
        settle_walk(self, &executor->walk, task);
    }
    for (int32_t i = 0; self->any_exit && outcome != TT_OUTCOME_ABORTED && i < task->count; i++)
        take_exit(self, task, &task->items[i]);
    tt_mechanism_finished(&self->mechanism, self->now, task);
    self->told = true;
    self->events++;
    if (self->mechanism.executors[number].queued > 0)
        begin_oldest(self, number);
}

static void step_ended(struct tt_simulation *self, int32_t number) {
    struct sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    tt_assert(executor->phase == PHASE_RUNNING);
    executor->last_step_done = executor->walk.step;
    executor->walked = true;
    task->ended_at = self->now;
    if (self->observer.step_ended)
        self->observer.step_ended(self->observer.context, self->now, task, executor->walk.step);
    enum tt_walk_next next = tt_walk_step_done(&executor->walk);
    if (next == TT_WALK_GOES_ON && !executor->yielding) {
        executor->phase = PHASE_BETWEEN;
        self->between[self->between_count++] = number;
        return;
    }
    if (next != TT_WALK_ENDS) {
        finish(self, number, next == TT_WALK_PARTS ? TT_OUTCOME_PARTED : TT_OUTCOME_PREEMPTED);
        return;
    }
    int64_t bytes = self->models[task->model].output_bytes * tt_task_computed_rows(task);
    int64_t done_at = self->now;
    bool ends = task->last_step == self->models[task->model].step_model->step_count - 1;
    if (bytes > 0 && !self->pooled && ends)
        done_at = tt_copy_engine_add(&self->copies_out[executor->device], self->now, bytes);
    if (done_at > self->now)
        wait_until(self, number, PHASE_COPYING_OUT, done_at);
    else
        finish(self, number, TT_OUTCOME_DONE);
}

/* From one step of a task to the next. */
static void go_on(struct tt_simulation *self, int32_t number) {
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    tt_walk_go_on(&self->executors[number].walk, &members);
    start_step(self, task);
}

/* The policy has spoken: who is between two steps, and was not asked to yield, goes on. */
static void all_go_on(struct tt_simulation *self) {
    for (int32_t i = 0; i < self->between_count; i++)
        if (self->executors[self->between[i]].phase == PHASE_BETWEEN)
            go_on(self, self->between[i]);
    self->between_count = 0;
}

static void executor_due(struct tt_simulation *self, int32_t number) {
    struct sim_executor *executor = &self->executors[number];
    switch (executor->phase) {
    case PHASE_WAITING: enter(self, tt_mechanism_oldest(&self->mechanism, number)); break;
    case PHASE_COPYING_IN: {
        struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
        start_first(self, task);
        break;
    }
    case PHASE_COPYING_OUT: finish(self, number, TT_OUTCOME_DONE); break;
    case PHASE_STOPPING: finish(self, number, executor->outcome); break;
    case PHASE_IDLE:
    case PHASE_BETWEEN:
    case PHASE_RUNNING: tt_assert(!"an executor that is due waits, copies or stops");
    }
}

/* ---- what the mechanism asks of its carrier ---- */

static void on_start(void *context, int64_t now, struct tt_task *task) {
    struct tt_simulation *self = context;
    tt_assert(now == self->now);
    if (self->executors[task->executor].phase == PHASE_IDLE)
        begin_oldest(self, task->executor);
}

static void stop(struct tt_simulation *self, int32_t number, enum tt_outcome outcome, int64_t at) {
    self->executors[number].outcome = outcome;
    wait_until(self, number, PHASE_STOPPING, at);
}

static void on_yield(void *context, int64_t now, int32_t number) {
    struct tt_simulation *self = context;
    struct sim_executor *executor = &self->executors[number];
    executor->yielding = true;
    /* It stands between two steps, or nothing of it has run yet: the boundary is here. While
     * outputs are copied it is too late. */
    if (executor->phase == PHASE_WAITING || executor->phase == PHASE_COPYING_IN ||
        executor->phase == PHASE_BETWEEN)
        stop(self, number, TT_OUTCOME_PREEMPTED, now);
}

static void on_abort(void *context, int64_t now, int32_t number) {
    struct tt_simulation *self = context;
    struct sim_executor *executor = &self->executors[number];
    if (executor->phase == PHASE_BETWEEN) /* in the middle of its work all the same */
        go_on(self, number);
    if (executor->phase == PHASE_RUNNING) {
        tt_device_stop(&self->devices[executor->device], now, number);
        refresh_device(self, executor->device);
        struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
        task->ended_at = now;
        if (self->observer.step_ended)
            self->observer.step_ended(self->observer.context, now, task, -1);
        stop(self, number, TT_OUTCOME_ABORTED, tt_instant_add(now, self->abort_ns));
        return;
    }
    stop(self, number, TT_OUTCOME_ABORTED, now); /* it had not begun to compute, or has done so */
}

static void on_gone(void *context, struct tt_request *request) {
    struct tt_simulation *self = context;
    tt_cell_graph_free(request->graph);
    free(self->requests[request->handle.index].ends);
    self->requests[request->handle.index].ends = NULL;
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct tt_simulation *self = context;
    self->events++;
    int64_t ended_at = now;
    if (self->pooled && !self->admitting) { /* E1: the output comes back alone */
        int64_t bytes = self->models[request->model].output_bytes * request->rows;
        if (ending == TT_ENDING_DONE && bytes > 0)
            ended_at = tt_copy_engine_add(&self->copies_out[0], now, bytes);
        tt_input_pool_left(&self->pool, now, request);
    }
    if (!self->observer.ended)
        return;
    const struct sim_request refused = {.number = self->admitted, .started_at = -1};
    const struct sim_request *known =
        self->admitting ? &refused : &self->requests[request->handle.index];
    bool is_done = ending == TT_ENDING_DONE;
    struct tt_sim_ending report = {.number = known->number,
                                   .arrived_at = request->arrived_at,
                                   .deadline_at = request->deadline_at,
                                   .started_at = known->started_at,
                                   .ended_at = ended_at,
                                   .model = request->model,
                                   .ending = ending,
                                   .reason = reason,
                                   .cut_short = is_done && known->output_length >
                                                               most_output(self, request->model)};
    self->observer.ended(self->observer.context, &report);
}

/* ---- what is told ---- */

/* No room in the domain: the request never enters it. */
static void turn_away(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                      int64_t number) {
    self->events++;
    if (!self->observer.ended)
        return;
    struct tt_sim_ending report = {.number = number,
                                   .arrived_at = arrival->at,
                                   .deadline_at = arrival->deadline_at,
                                   .started_at = -1,
                                   .ended_at = arrival->at,
                                   .model = arrival->model,
                                   .ending = TT_ENDING_DROPPED,
                                   .reason = TT_DROP_QUEUE_FULL};
    self->observer.ended(self->observer.context, &report);
}

static void grow_requests(struct tt_simulation *self, int64_t index) {
    int64_t capacity = self->request_capacity ? self->request_capacity : 1024;
    while (capacity <= index)
        capacity *= 2;
    struct sim_request *requests = realloc(self->requests, (size_t)capacity * sizeof(*requests));
    tt_assert(requests != NULL);
    memset(requests + self->request_capacity, 0,
           (size_t)(capacity - self->request_capacity) * sizeof(*requests));
    self->requests = requests;
    self->request_capacity = capacity;
}

static int32_t *copy_ends(const struct tt_sim_given *given) {
    if (!given->ends)
        return NULL;
    int32_t *ends = malloc((size_t)given->spec_count * sizeof(*ends));
    tt_assert(ends != NULL);
    memcpy(ends, given->ends, (size_t)given->spec_count * sizeof(*ends));
    return ends;
}

/* The graph and, for who records it, what it is made of; nothing where the policy does not work by
 * cells. Returns the ends of given chains, the caller's. */
static int32_t *unfold(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                       int64_t number, struct tt_arrival *out_told) {
    if (!self->mechanism.ops->released)
        return NULL;
    const struct tt_sim_model *model = &self->models[arrival->model];
    struct tt_cell_graph *graph = NULL;
    struct tt_sim_given given = {0};
    enum tt_err err;
    if (self->source.given && self->source.given(self->source.context, number, &given))
        err = tt_cell_graph_new(given.specs, given.spec_count, model->step_model->step_count,
                                &graph, NULL);
    else if (arrival->tree)
        err = tt_sim_cells_text(&self->unfold, model->step_model, arrival->tree, &graph, NULL);
    else if (model->tree == TT_TREE_NONE)
        err = tt_sim_cells_steps(&self->unfold, model->step_model, arrival->length,
                                 (struct tt_sim_exit){arrival->exit_step, arrival->exit_to}, &graph,
                                 NULL);
    else
        err = tt_sim_cells_tree(&self->unfold, model->step_model, model->tree, arrival->length,
                                self->seed + (uint64_t)number, &graph, NULL);
    tt_assert(err == TT_OK);
    out_told->graph = graph;
    out_told->spec_count = graph->spec_count;
    out_told->specs = given.specs ? given.specs : self->unfold.specs;
    return copy_ends(&given);
}

/* The arrival enters the domain, or is turned away. */
static void admit(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                  int64_t number) {
    /* The mechanism hands out pool indices itself, so room for the largest possible next index is
     * made ahead. */
    int64_t highest = (int64_t)self->mechanism.requests.chunk_count * 1024 + 1024;
    if (highest > self->request_capacity)
        grow_requests(self, highest);
    struct tt_arrival told = {.model = arrival->model,
                              .rows = arrival->rows,
                              .length = arrival->length,
                              .priority = arrival->priority,
                              .deadline_at = arrival->deadline_at};
    int32_t *ends = unfold(self, arrival, number, &told);
    struct tt_request *request = NULL;
    bool fits = !self->pooled || arrival->rows <= self->pool.rings[arrival->model].capacity;
    self->admitting = true;
    self->admitted = number;
    if (!fits || tt_mechanism_arrived(&self->mechanism, self->now, &told, &request) != TT_OK) {
        tt_cell_graph_free(told.graph);
        turn_away(self, arrival, number);
    }
    self->admitting = false;
    if (!request) {
        free(ends);
        return;
    }
    self->requests[request->handle.index] =
        (struct sim_request){.number = number,
                             .started_at = -1,
                             .exit_step = arrival->exit_step,
                             .exit_to = arrival->exit_to,
                             .output_length = arrival->output_length,
                             .ends = ends};
    if (arrival->exit_step >= 0 && !told.graph) /* a graph of cells has its course in itself */
        self->any_exit = true;
    if (self->pooled)
        tt_input_pool_arrived(&self->pool, self->now, request,
                              self->models[arrival->model].input_bytes * arrival->rows);
    else
        tt_mechanism_ready(&self->mechanism, self->now, request);
    if (arrival->cancel_at != TT_NEVER)
        tt_cancel_heap_push(&self->cancels, tt_instant_max(arrival->cancel_at, self->now), number,
                            request->handle);
}

static void arrive(struct tt_simulation *self) {
    self->last_arrival_at = self->next.at;
    self->told = true;
    self->events++;
    admit(self, &self->next, self->arrived++);
    self->more = self->source.next(self->source.context, &self->next);
    tt_assert(!self->more || self->next.at >= self->last_arrival_at);
}

static void cancel_due(struct tt_simulation *self) {
    struct tt_handle handle = tt_cancel_heap_pop(&self->cancels);
    struct tt_request *request = tt_request_pool_find(&self->mechanism.requests, handle);
    if (!request || request->cancelled)
        return;
    tt_mechanism_cancelled(&self->mechanism, self->now, request);
    self->told = true;
}

static int64_t heap_next(const struct tt_heap *heap) {
    const struct tt_heap_entry *top = tt_heap_top(heap);
    return top ? top->key : TT_NEVER;
}

static int64_t next_instant(const struct tt_simulation *self) {
    int64_t at = self->more ? self->next.at : TT_NEVER;
    at = tt_instant_min(at, heap_next(&self->device_ends));
    at = tt_instant_min(at, heap_next(&self->due));
    at = tt_instant_min(at, heap_next(&self->appearing));
    at = tt_instant_min(at, tt_cancel_heap_next_at(&self->cancels));
    if (self->pooled)
        at = tt_instant_min(at, tt_input_pool_next_at(&self->pool));
    at = tt_instant_min(at, self->timer_at);
    return tt_instant_max(at, self->now);
}

/* Everything of the instant that does not come from the policy. */
static void tell(struct tt_simulation *self) {
    while (heap_next(&self->appearing) <= self->now) {
        int32_t number = tt_heap_top(&self->appearing)->id;
        tt_heap_remove(&self->appearing, number);
        tt_mechanism_add_executor(&self->mechanism, self->now, number,
                                  self->executors[number].device);
        self->told = true;
    }
    while (heap_next(&self->due) <= self->now) {
        int32_t number = tt_heap_top(&self->due)->id;
        tt_heap_remove(&self->due, number);
        executor_due(self, number);
    }
    while (heap_next(&self->device_ends) <= self->now) {
        int32_t device = tt_heap_top(&self->device_ends)->id;
        int32_t number = tt_device_take_ended(&self->devices[device], self->now);
        refresh_device(self, device);
        if (number >= 0)
            step_ended(self, number);
    }
    while (self->more && self->next.at <= self->now)
        arrive(self);
    while (tt_cancel_heap_next_at(&self->cancels) <= self->now)
        cancel_due(self);
    struct tt_request *ready;
    while (self->pooled && (ready = tt_input_pool_take_ready(&self->pool, self->now))) {
        tt_mechanism_ready(&self->mechanism, self->now, ready);
        self->told = true;
    }
}

/* A policy that keeps requests without asking for a timer, or for longer than any promise, loses
 * them: the clients are taken to have gone. */
static void cancel_leftovers(struct tt_simulation *self) {
    const struct tt_request_pool *pool = &self->mechanism.requests;
    for (int32_t chunk = 0; chunk < pool->chunk_count; chunk++)
        for (int32_t i = 0; i < 1024; i++) {
            struct tt_request *request = &pool->chunks[chunk][i];
            if (request->state == TT_REQUEST_QUEUED)
                tt_mechanism_cancelled(&self->mechanism, self->now, request);
        }
}

static bool over(const struct tt_simulation *self, int64_t next_at) {
    if (self->more)
        return false;
    if (self->mechanism.requests.in_use == 0)
        return true;
    return next_at == TT_NEVER || next_at > tt_instant_add(self->last_arrival_at, DRAIN_LIMIT_NS);
}

bool tt_simulation_run(struct tt_simulation *self, int64_t budget) {
    for (int64_t i = 0; i < budget; i++) {
        int64_t at = next_instant(self);
        if (over(self, at)) {
            cancel_leftovers(self);
            for (int32_t d = 0; d < self->device_count; d++)
                (void)tt_device_take_ended(&self->devices[d], self->now);
            return false;
        }
        self->turns = at == self->now ? self->turns + 1 : 0;
        tt_assert(self->turns < SAME_INSTANT_LIMIT);
        self->now = at;
        self->told = false;
        tell(self);
        if (self->told || self->timer_at <= self->now) {
            tt_mechanism_decide(&self->mechanism, self->now);
            self->timer_at = tt_mechanism_next_at(&self->mechanism);
        }
        all_go_on(self);
        if (self->check) {
            tt_mechanism_check(&self->mechanism);
            if (self->pooled)
                tt_input_pool_check(&self->pool);
        }
    }
    return true;
}

/* ---- making one ---- */

static enum tt_err init_devices(struct tt_simulation *self, const struct tt_sim_options *options) {
    size_t devices = (size_t)options->device_count, executors = (size_t)self->executor_count;
    self->devices = calloc(devices, sizeof(*self->devices));
    self->copies_in = calloc(devices, sizeof(*self->copies_in));
    self->copies_out = calloc(devices, sizeof(*self->copies_out));
    self->executors = calloc(executors, sizeof(*self->executors));
    self->between = calloc(executors, sizeof(*self->between));
    if (!self->devices || !self->copies_in || !self->copies_out || !self->executors ||
        !self->between)
        return TT_ERR_NO_MEMORY;
    self->device_count = options->device_count;
    int32_t number = 0;
    for (int32_t d = 0; d < options->device_count; d++) {
        const struct tt_sim_device *device = &options->devices[d];
        self->copies_in[d] = device->copy_in;
        self->copies_out[d] = device->copy_out;
        enum tt_err err = tt_device_init(&self->devices[d], device->executors);
        if (err)
            return err;
        for (int32_t e = 0; e < device->executors; e++)
            self->executors[number++] = (struct sim_executor){
                .device = d, .appears_at = tt_instant_max(device->busy_until_at, 0)};
    }
    return TT_OK;
}

static enum tt_err init_tables(struct tt_simulation *self, const struct tt_sim_options *options,
                               int32_t max_batch) {
    self->models = calloc((size_t)options->model_count, sizeof(*self->models));
    self->numbers = calloc((size_t)max_batch, sizeof(*self->numbers));
    if (!self->models || !self->numbers)
        return TT_ERR_NO_MEMORY;
    self->model_count = options->model_count;
    for (int32_t m = 0; m < options->model_count; m++)
        self->models[m] = options->models[m];
    enum tt_err err = init_devices(self, options);
    if (!err)
        err = tt_heap_init(&self->device_ends, options->device_count);
    if (!err)
        err = tt_heap_init(&self->due, self->executor_count);
    if (!err)
        err = tt_heap_init(&self->appearing, self->executor_count);
    self->pooled = options->devices[0].pool_slots > 0;
    if (!err && self->pooled) {
        tt_assert(options->device_count == 1);
        err = tt_input_pool_init(&self->pool, options->model_count, options->devices[0].pool_slots,
                                 &self->copies_in[0], &self->mechanism.requests);
    }
    return err;
}

static enum tt_err init_mechanism(struct tt_simulation *self, const struct tt_sim_options *options,
                                  int32_t max_batch, struct tt_message *why) {
    struct tt_mechanism_options mechanism = {.model_capacity = options->model_count,
                                             .executor_capacity = self->executor_count,
                                             .max_batch = max_batch,
                                             .depth = options->depth,
                                             .request_limit = options->request_limit > 0
                                                                  ? options->request_limit
                                                                  : DEFAULT_REQUEST_LIMIT,
                                             .request_reserve = 0};
    for (int32_t m = 0; m < options->model_count; m++)
        mechanism.has_rules |= options->models[m].step_model->rules != NULL;
    struct tt_carrier carrier = {.context = self,
                                 .start = on_start,
                                 .yield = on_yield,
                                 .abort = on_abort,
                                 .ended = on_ended,
                                 .gone = on_gone};
    enum tt_err err = tt_mechanism_init(&self->mechanism, &mechanism, &carrier, why);
    if (!err)
        err = options->create_policy(options->create_context, &self->mechanism, why);
    if (err)
        return err;
    for (int32_t m = 0; m < options->model_count; m++)
        tt_mechanism_add_model(&self->mechanism, 0, m, options->models[m].step_model);
    for (int32_t e = 0; e < self->executor_count; e++)
        tt_heap_set(&self->appearing, e, self->executors[e].appears_at, e);
    return TT_OK;
}

enum tt_err tt_simulation_new(const struct tt_sim_options *options,
                              struct tt_simulation **out_simulation, struct tt_message *why) {
    tt_assert(options->model_count > 0 && options->device_count > 0 && options->depth > 0);
    struct tt_simulation *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a simulation");
    int32_t max_batch = 1;
    for (int32_t m = 0; m < options->model_count; m++) {
        const struct tt_step_model *model = options->models[m].step_model;
        for (int32_t step = 0; step < model->step_count; step++)
            if (model->steps[step].profile->max_batch > max_batch)
                max_batch = model->steps[step].profile->max_batch;
    }
    for (int32_t d = 0; d < options->device_count; d++) {
        tt_assert(options->devices[d].executors > 0);
        self->executor_count += options->devices[d].executors;
    }
    self->source = options->source;
    self->observer = options->observer;
    self->check = options->check;
    self->d_ctrl_ns = options->d_ctrl_ns;
    self->d_data_ns = options->d_data_ns;
    self->abort_ns = options->abort_ns;
    self->jitter_permille = options->jitter_permille;
    self->timer_at = TT_NEVER;
    self->seed = options->seed;
    tt_prng_init(&self->prng, options->seed, UINT64_C(0x6a69747465720000));
    enum tt_err err = init_tables(self, options, max_batch);
    if (err)
        err = tt_fail(err, why, "out of memory for a simulation");
    else
        err = init_mechanism(self, options, max_batch, why);
    if (err) {
        tt_simulation_free(self);
        return err;
    }
    self->more = self->source.next(self->source.context, &self->next);
    *out_simulation = self;
    return TT_OK;
}

void tt_simulation_free(struct tt_simulation *take_simulation) {
    struct tt_simulation *self = take_simulation;
    if (!self)
        return;
    if (self->mechanism.policy)
        self->mechanism.ops->free(self->mechanism.policy);
    self->mechanism.policy = NULL;
    tt_mechanism_fini(&self->mechanism);
    tt_sim_cells_fini(&self->unfold);
    for (int32_t e = 0; self->executors && e < self->executor_count; e++)
        tt_cell_cost_fini(&self->executors[e].cell_cost);
    for (int32_t d = 0; self->devices && d < self->device_count; d++)
        tt_device_fini(&self->devices[d]);
    tt_heap_fini(&self->device_ends);
    tt_heap_fini(&self->due);
    tt_heap_fini(&self->appearing);
    tt_cancel_heap_fini(&self->cancels);
    if (self->pooled)
        tt_input_pool_fini(&self->pool);
    free(self->devices);
    free(self->copies_in);
    free(self->copies_out);
    free(self->executors);
    free(self->between);
    free(self->models);
    free(self->numbers);
    free(self->requests);
    free(self);
}

int64_t tt_simulation_now(const struct tt_simulation *self) { return self->now; }

int64_t tt_simulation_events(const struct tt_simulation *self) { return self->events; }

const struct tt_mechanism *tt_simulation_mechanism(const struct tt_simulation *self) {
    return &self->mechanism;
}

const struct tt_device *tt_simulation_device(const struct tt_simulation *self, int32_t device) {
    tt_assert(device >= 0 && device < self->device_count);
    return &self->devices[device];
}
