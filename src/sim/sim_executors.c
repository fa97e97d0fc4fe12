#include "sim/sim_executors.h"

#include "base/instant.h"
#include "base/line.h"
#include "sim/sim_inside.h"
#include "sim/step_work.h"

/* The device whose time an executor of `device` takes. */
static struct tt_device *clock_of(struct tt_simulation *self, int32_t device) {
    bool shares = self->has_server && self->threads.options.runs_models;
    return shares ? &self->threads.processors : &self->devices[device];
}

static void refresh_device(struct tt_simulation *self, int32_t device) {
    int64_t at = tt_device_next_at(&self->devices[device]);
    if (at == TT_NEVER)
        tt_heap_remove(&self->device_ends, device);
    else
        tt_heap_set(&self->device_ends, device, at, device);
}

/* The real number of repeats of a request in a recurrent block. */
static int32_t rounds_of(const struct tt_simulation *self, const struct tt_request *request,
                         enum tt_step_kind kind) {
    int32_t rounds = request->length;
    if (kind == TT_STEP_DECODER) {
        int32_t most = tt_sim_max_output(self, request->model);
        rounds = self->requests[request->handle.index].output_length;
        rounds = rounds < most ? rounds : most;
    }
    return rounds > 0 ? rounds : 1;
}

/* The repeats of all members of a running task. */
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
                                    .rounds_done = rounds_behind};
}

/* The requests of a task begin. */
static void note_start(struct tt_simulation *self, struct tt_task *task) {
    task->started_at = self->now;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_sim_request *request = &self->requests[task->items[i].request->handle.index];
        if (request->started_at < 0)
            request->started_at = self->now;
    }
}

/* The numbers of the task's requests, as scratch; NULL: the observer does not read them. */
static const int64_t *numbers_of(struct tt_simulation *self, const struct tt_task *task) {
    if (self->observer.ignores_numbers)
        return NULL;
    for (int32_t i = 0; i < task->count; i++)
        self->numbers[i] = self->requests[task->items[i].request->handle.index].number;
    return self->numbers;
}

static void tell_start(struct tt_simulation *self, const struct tt_task *task, int32_t step) {
    if (self->observer.step_started)
        self->observer.step_started(self->observer.context, self->now, task, step,
                                    numbers_of(self, task));
}

/* The profile of the current step of the task's walk. */
static const struct tt_profile *profile_of(const struct tt_simulation *self,
                                           const struct tt_task *task) {
    int32_t step = self->executors[task->executor].walk.step;
    return self->models[task->model].step_model->steps[step].profile;
}

/* The current step of the task's walk begins. Returns its work. */
static int64_t begin_step(struct tt_simulation *self, struct tt_task *task) {
    struct tt_sim_executor *executor = &self->executors[task->executor];
    int32_t step = executor->walk.step;
    executor->phase = TT_SIM_RUNNING;
    int64_t beside_ns = executor->walked ? 0 : self->task_ns;
    if (!executor->walked)
        note_start(self, task);
    tell_start(self, task, step);
    int64_t work_ns =
        tt_step_work(profile_of(self, task), task, self->jitter_permille, &self->prng);
    if (self->spread)
        work_ns = work_ns * tt_spread_draw(self->spread, &self->prng) / 1000;
    work_ns = tt_noise_of(&self->noise, &self->prng, work_ns);
    work_ns += beside_ns;
    if (task->items[0].subgraph && step == task->first_step)
        work_ns +=
            tt_cell_cost_begin(&executor->cell_cost, task, &self->models[task->model].cell_rates);
    if (self->perturbation_count > 0)
        work_ns =
            tt_perturbation_end(self->perturbations, self->perturbation_count, self->now, work_ns) -
            self->now;
    return work_ns;
}

/* Its device does the work of the step that has begun. */
static void compute_step(struct tt_simulation *self, const struct tt_task *task, int64_t work_ns) {
    const struct tt_sim_executor *executor = &self->executors[task->executor];
    struct tt_device *clock = clock_of(self, executor->device);
    bool is_own = clock == &self->devices[executor->device];
    int32_t demand_ppm = !is_own                    ? tt_server_threads_demand(&self->threads)
                         : executor->demand_ppm > 0 ? executor->demand_ppm
                                                    : tt_step_demand(profile_of(self, task), task);
    tt_device_start(clock, self->now, task->executor, work_ns, demand_ppm);
    refresh_device(self, executor->device);
}

static void start_step(struct tt_simulation *self, struct tt_task *task) {
    compute_step(self, task, begin_step(self, task));
}

static void wait_until(struct tt_simulation *self, int32_t executor, enum tt_sim_phase phase,
                       int64_t at) {
    self->executors[executor].phase = phase;
    tt_heap_set(&self->due, executor, at, executor);
}

static void start_first(struct tt_simulation *self, struct tt_task *task) {
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    struct tt_walk_route route = {.first_step = task->first_step,
                                  .last_step = task->last_step,
                                  .repeat = task->repeat,
                                  .walk = task->walk,
                                  .length = task->length};
    tt_walk_begin(&self->executors[task->executor].walk, self->models[task->model].step_model,
                  &route, &members);
    start_step(self, task);
}

/* The task's message has arrived and its start time has come. */
static void enter(struct tt_simulation *self, struct tt_task *task) {
    struct tt_sim_executor *executor = &self->executors[task->executor];
    if (self->insides) {
        note_start(self, task);
        tell_start(self, task, task->first_step);
        tt_sim_inside_begin(self, task);
        return;
    }
    int64_t bytes = self->models[task->model].input_bytes * tt_task_computed_rows(task);
    if (bytes > 0 && !self->pooled && task->first_step == 0) {
        int64_t done_at = tt_copy_engine_add(&self->copies_in[executor->device], self->now, bytes);
        if (done_at > self->now) {
            wait_until(self, task->executor, TT_SIM_COPYING_IN, done_at);
            return;
        }
    }
    start_first(self, task);
}

static void begin_oldest(struct tt_simulation *self, int32_t number) {
    struct tt_sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    executor->yielding = false;
    executor->walked = false;
    executor->last_step_done = task->first_step - 1;
    if (task->after) {
        executor->phase = TT_SIM_FOLLOWING;
        return;
    }
    int64_t delay_ns = tt_network_delay_of(executor->delay, task->rows); /* S4 */
    task->received_at = tt_instant_add(task->dispatched_at, delay_ns);
    int64_t at = tt_instant_max(task->received_at, task->start_at);
    if (at > self->now)
        wait_until(self, number, TT_SIM_WAITING, at);
    else
        enter(self, task);
}

/* By cells: counts the task's cells as tokens if a model has objectives for them. */
static void count_cells(struct tt_simulation *self, const struct tt_task *task) {
    const struct tt_step_model *model = self->models[task->model].step_model;
    bool decodes = model->steps[task->first_step].kind == TT_STEP_DECODER;
    if (!decodes || (!task->is_mixed && !tt_token_slo_given(&model->tokens)))
        return;
    for (int32_t i = 0; i < task->count; i++)
        if (!task->items[i].subgraph->over)
            tt_token_times_add(&self->requests[task->items[i].request->handle.index].tokens,
                               self->now);
}

/* Finds the cells of the task that are the last of their open-ended chains. */
static void find_ends(struct tt_simulation *self, struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_task_item *item = &task->items[i];
        item->fate = TT_FATE_GOES_ON;
        if (!item->subgraph->open_ended)
            continue;
        const struct tt_step_model *model = self->models[item->request->model].step_model;
        enum tt_step_kind kind = model->steps[item->subgraph->first_step].kind;
        const int32_t *ends = self->requests[item->request->handle.index].ends;
        int32_t rounds = ends ? ends[item->subgraph->spec] : rounds_of(self, item->request, kind);
        if (item->cell + 1 == rounds)
            item->fate = TT_FATE_LEAVES;
    }
}

/* An aborted task runs again from where it began: so do its tokens. */
static void forget_tokens(struct tt_simulation *self, const struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_request *request = task->items[i].request;
        struct tt_token_times *tokens = &self->requests[request->handle.index].tokens;
        bool decodes =
            self->models[request->model].step_model->steps[request->step].kind == TT_STEP_DECODER;
        tokens->count = decodes ? request->round : 0;
    }
}

/* D8: the step at which the request continues after the task. */
static void take_exit(const struct tt_simulation *self, const struct tt_task *task,
                      struct tt_task_item *item) {
    const struct tt_sim_request *request = &self->requests[item->request->handle.index];
    if (request->exit_step < 0 || task->last_step_done < request->exit_step)
        return;
    if (request->exit_to == 0) {
        item->fate = TT_FATE_LEAVES;
    } else if (task->last_step_done + 1 < request->exit_to) {
        item->fate = TT_FATE_JUMPS;
        item->jump = request->exit_to;
    }
}

/* The elements that the decoder of a request made that has done all steps; 0: it has no decoder. */
static int32_t output_of(const struct tt_simulation *self, const struct tt_request *request) {
    bool decodes = self->models[request->model].step_model->output_quantiles != NULL;
    return decodes ? rounds_of(self, request, TT_STEP_DECODER) : 0;
}

/* Sets where each member stands after the walk. */
static void settle_walk(struct tt_simulation *self, const struct tt_walk *walk,
                        struct tt_task *task) {
    bool decodes = walk->model->output_quantiles != NULL;
    if (walk->block.first < 0 && !(decodes && self->mechanism.learns_outputs))
        return; /* all go on with the step after the last one done, as the items say */
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_walk_place place = tt_walk_place_of(walk, &members, i);
        task->items[i].round = place.round;
        if (place.step == walk->model->step_count && self->mechanism.learns_outputs)
            task->items[i].round = output_of(self, task->items[i].request);
        if (place.step == task->last_step_done + 1)
            continue;
        task->items[i].fate = TT_FATE_JUMPS;
        task->items[i].jump = place.step;
    }
}

void tt_sim_executor_plan(struct tt_simulation *self, int32_t number, int64_t at) {
    tt_assert(self->mechanism.executors[number].state == TT_EXECUTOR_GONE);
    self->executors[number].appears_at = at;
    tt_heap_set(&self->appearing, number, at, number);
}

void tt_sim_executor_leave(struct tt_simulation *self, int32_t number) {
    tt_mechanism_remove_executor(&self->mechanism, self->now, number);
    tt_sim_executor_plan(self, number, TT_NEVER);
}

/* D4: the task has ended, so the one that takes up its members may begin if its executor has come
 * to it. */
static void let_follow(struct tt_simulation *self, const struct tt_task *follower) {
    int32_t number = follower->executor;
    if (self->executors[number].phase == TT_SIM_FOLLOWING &&
        tt_mechanism_oldest(&self->mechanism, number) == follower)
        begin_oldest(self, number);
}

/* The task's requests were last used when it began: their lines come all at once, not one after
 * another. */
static void fetch_requests(const struct tt_simulation *self, const struct tt_task *task) {
    for (int32_t i = 0; i < task->count; i++)
        tt_line_fetch_all(task->items[i].request, sizeof(*task->items[i].request));
    for (int32_t i = 0; i < task->count; i++)
        tt_line_fetch(&self->requests[task->items[i].request->handle.index]);
}

static void finish(struct tt_simulation *self, int32_t number, enum tt_outcome outcome) {
    struct tt_sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    fetch_requests(self, task);
    const struct tt_task *follower = task->follower;
    executor->phase = TT_SIM_IDLE;
    if (task->received_at > self->now) /* it was stopped before */
        task->received_at = -1;
    task->outcome = outcome;
    task->last_step_done =
        outcome == TT_OUTCOME_ABORTED ? task->first_step - 1 : executor->last_step_done;
    if (task->items[0].subgraph) {
        count_cells(self, task);
        find_ends(self, task);
    } else if (executor->walked && outcome != TT_OUTCOME_ABORTED) {
        settle_walk(self, &executor->walk, task);
    } else if (outcome == TT_OUTCOME_ABORTED) {
        forget_tokens(self, task);
    }
    /* With a follower a request exits where that one ends. */
    bool may_exit = self->any_exit && outcome != TT_OUTCOME_ABORTED && !follower && !self->insides;
    for (int32_t i = 0; may_exit && i < task->count; i++)
        take_exit(self, task, &task->items[i]);
    tt_mechanism_finished(&self->mechanism, self->now, task);
    self->reported = true;
    self->events++;
    if (self->mechanism.executors[number].queued > 0)
        begin_oldest(self, number);
    else if (self->mechanism.executors[number].state == TT_EXECUTOR_DRAINING)
        tt_sim_executor_leave(self, number);
    if (follower)
        let_follow(self, follower);
}

/* By steps: a round of the decoder has ended, and each member that is not through with it has a
 * token. Clients get it at once, although the answer waits for the task. */
static void count_tokens(struct tt_simulation *self, const struct tt_task *task, int32_t step) {
    const struct tt_step_model *model = self->models[task->model].step_model;
    if (!tt_token_slo_given(&model->tokens) || model->steps[step].kind != TT_STEP_DECODER ||
        step != tt_step_last_of(model, step))
        return;
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_request *request = task->items[i].request;
        struct tt_token_times *tokens = &self->requests[request->handle.index].tokens;
        if (tokens->count < rounds_of(self, request, TT_STEP_DECODER))
            tt_token_times_add(tokens, self->now);
    }
}

/* Ends the current step. True: the next one follows, and the executor stands between them. */
static bool end_step(struct tt_simulation *self, int32_t number) {
    struct tt_sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    tt_assert(executor->phase == TT_SIM_RUNNING);
    executor->last_step_done = executor->walk.step;
    executor->walked = true;
    task->ended_at = self->now;
    if (self->observer.step_ended)
        self->observer.step_ended(self->observer.context, self->now, task, executor->walk.step);
    if (!task->items[0].subgraph)
        count_tokens(self, task, executor->walk.step);
    enum tt_walk_next next = tt_walk_step_done(&executor->walk);
    if (next == TT_WALK_GOES_ON && !executor->yielding) {
        executor->phase = TT_SIM_BETWEEN;
        return true;
    }
    if (next != TT_WALK_ENDS) {
        finish(self, number, next == TT_WALK_DIVERGES ? TT_OUTCOME_DIVERGED : TT_OUTCOME_PREEMPTED);
        return false;
    }
    int64_t bytes = self->models[task->model].output_bytes * tt_task_computed_rows(task);
    int64_t done_at = self->now;
    bool ends = task->last_step == self->models[task->model].step_model->step_count - 1;
    if (bytes > 0 && !self->pooled && ends)
        done_at = tt_copy_engine_add(&self->copies_out[executor->device], self->now, bytes);
    if (done_at > self->now)
        wait_until(self, number, TT_SIM_COPYING_OUT, done_at);
    else
        finish(self, number, TT_OUTCOME_DONE);
    return false;
}

static void step_ended(struct tt_simulation *self, int32_t number) {
    if (end_step(self, number))
        self->between[self->between_count++] = number;
}

/* Moves from one step of a task to the next. */
static void go_on(struct tt_simulation *self, int32_t number) {
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    tt_walk_go_on(&self->executors[number].walk, &members);
    start_step(self, task);
}

/* Whether steps take the device's own time alone, and requests come that limit how far it goes. */
static bool may_go_ahead(const struct tt_simulation *self, int32_t number) {
    return self->more && !self->has_server && self->perturbation_count == 0 &&
           self->devices[self->executors[number].device].count == 0;
}

/* As go_on(), but steps that end before anything else happens end at once: nothing can see the
 * instants between them. True: the task does not go on from the last of them, so the simulation is
 * at its end. */
static bool go_ahead(struct tt_simulation *self, int32_t number) {
    struct tt_sim_executor *executor = &self->executors[number];
    struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
    struct tt_walk_members members = members_of(&(struct walkers){self, task});
    int64_t until_at = tt_instant_min(tt_simulation_next_at(self), self->until_at);
    do {
        tt_walk_go_on(&executor->walk, &members);
        int64_t work_ns = begin_step(self, task), end_at = tt_instant_add(self->now, work_ns);
        if (end_at >= until_at) {
            compute_step(self, task, work_ns);
            return false;
        }
        tt_device_pass(&self->devices[executor->device], self->now, work_ns);
        self->now = end_at;
    } while (end_step(self, number));
    return true;
}

bool tt_sim_executors_go_on(struct tt_simulation *self) {
    int32_t count = self->between_count, first = self->between[0];
    self->between_count = 0;
    if (count == 1 && self->executors[first].phase == TT_SIM_BETWEEN && may_go_ahead(self, first))
        return go_ahead(self, first);
    for (int32_t i = 0; i < count; i++)
        if (self->executors[self->between[i]].phase == TT_SIM_BETWEEN)
            go_on(self, self->between[i]);
    return false;
}

static void executor_due(struct tt_simulation *self, int32_t number) {
    struct tt_sim_executor *executor = &self->executors[number];
    switch (executor->phase) {
    case TT_SIM_WAITING: enter(self, tt_mechanism_oldest(&self->mechanism, number)); break;
    case TT_SIM_COPYING_IN: {
        struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
        start_first(self, task);
        break;
    }
    case TT_SIM_INSIDE: /* the last of its requests has ended */
    case TT_SIM_COPYING_OUT: finish(self, number, TT_OUTCOME_DONE); break;
    case TT_SIM_STOPPING: finish(self, number, executor->outcome); break;
    case TT_SIM_IDLE:
    case TT_SIM_FOLLOWING:
    case TT_SIM_BETWEEN:
    case TT_SIM_RUNNING: {
        const bool is_due = false;
        tt_assert(is_due);
    }
    }
}

void tt_sim_executors_report(struct tt_simulation *self) {
    while (tt_heap_next_key(&self->appearing) <= self->now) {
        int32_t number = tt_heap_top(&self->appearing)->id;
        tt_heap_remove(&self->appearing, number);
        tt_mechanism_add_executor(&self->mechanism, self->now, number,
                                  self->executors[number].device);
        self->reported = true;
    }
    while (tt_heap_next_key(&self->due) <= self->now) {
        int32_t number = tt_heap_top(&self->due)->id;
        tt_heap_remove(&self->due, number);
        executor_due(self, number);
    }
    while (tt_heap_next_key(&self->device_ends) <= self->now) {
        int32_t device = tt_heap_top(&self->device_ends)->id;
        int32_t number = tt_device_take_ended(&self->devices[device], self->now);
        refresh_device(self, device);
        if (number >= 0)
            step_ended(self, number);
    }
    while (self->has_server && tt_device_next_at(&self->threads.processors) <= self->now) {
        int32_t number = tt_device_take_ended(&self->threads.processors, self->now);
        if (number >= self->executor_count)
            tt_server_threads_ended(&self->threads, self->now, number);
        else if (number >= 0)
            step_ended(self, number);
    }
}

void tt_sim_executor_start(void *context, int64_t now, struct tt_task *task) {
    struct tt_simulation *self = context;
    tt_assert(now == self->now);
    if (self->executors[task->executor].phase == TT_SIM_IDLE)
        begin_oldest(self, task->executor);
}

static void stop(struct tt_simulation *self, int32_t number, enum tt_outcome outcome, int64_t at) {
    self->executors[number].outcome = outcome;
    wait_until(self, number, TT_SIM_STOPPING, at);
}

void tt_sim_executor_yield(void *context, int64_t now, int32_t number) {
    struct tt_simulation *self = context;
    struct tt_sim_executor *executor = &self->executors[number];
    if (executor->phase == TT_SIM_INSIDE)
        return;
    executor->yielding = true;
    /* It stands between two steps, or nothing of it has run yet: the boundary is here. While
     * outputs are copied it is too late. */
    if (executor->phase == TT_SIM_WAITING || executor->phase == TT_SIM_COPYING_IN ||
        executor->phase == TT_SIM_BETWEEN)
        stop(self, number, TT_OUTCOME_PREEMPTED, now);
}

void tt_sim_executor_abort(void *context, int64_t now, int32_t number) {
    struct tt_simulation *self = context;
    struct tt_sim_executor *executor = &self->executors[number];
    if (executor->phase == TT_SIM_INSIDE)
        return;
    if (executor->phase == TT_SIM_BETWEEN) /* between two steps, but not finished */
        go_on(self, number);
    if (executor->phase == TT_SIM_RUNNING) {
        tt_device_stop(clock_of(self, executor->device), now, number);
        refresh_device(self, executor->device);
        struct tt_task *task = tt_mechanism_oldest(&self->mechanism, number);
        task->ended_at = now;
        if (self->observer.step_ended)
            self->observer.step_ended(self->observer.context, now, task, -1);
        stop(self, number, TT_OUTCOME_ABORTED, tt_instant_add(now, self->abort_ns));
        return;
    }
    stop(self, number, TT_OUTCOME_ABORTED,
         now); /* it had not begun to compute, or has finished computing */
}
