#include "policy/lazy/lazy.h"

#include "base/instant.h"
#include "policy/lazy/lazy_admission.h"
#include "policy/queued.h"

#include <stdlib.h>

enum { SLACK, VOTES, MAX_BATCH, COVERAGE, DEC_TIMESTEPS, PATIENCE, FOREIGN, DROP, OPTION_COUNT };

/* A stack has room for this many maximum batches, if there are as many models. */
enum { STACK_BATCHES = 4 };

/* L4: lazy, and the Oracle with slack = curves. Serial and window are policies of their own. */
static const struct tt_option_spec options[OPTION_COUNT] = {
    [SLACK] =
        TT_CHOICE_SPEC("slack", "remaining|published|curves", 0,
                       "how the completion time of a larger batch is predicted; remaining: the sum "
                       "of the times that its requests still need alone; published: the sum of "
                       "their whole times alone, as in the LazyBatching paper; curves: the "
                       "profile's times of the actual batches"),
    [VOTES] =
        TT_CHOICE_SPEC("votes", "feasible|timely|all", 0,
                       "which requests may keep newcomers out to protect their deadline; feasible: "
                       "those that could have been in time without waiting; timely: of these, "
                       "those that still can; all: every request"),
    [MAX_BATCH] = TT_INTEGER_SPEC("max_batch", 1, TT_PROFILE_MAX_BATCH, TT_PROFILE_MAX_BATCH,
                                  "maximum number of rows of a model under way on an executor; the "
                                  "model's own limit holds as well"),
    [COVERAGE] = TT_PERMILLE_SPEC(
        "coverage", 0, 1000, 900,
        "the predicted output length is not exceeded by this share of the profiled outputs"),
    [DEC_TIMESTEPS] = TT_INTEGER_SPEC("dec_timesteps", 0, 1000000, 0,
                                      "the predicted output length itself; 0: from coverage"),
    [PATIENCE] = TT_PERMILLE_SPEC(
        "patience", 0, 1000000, 0,
        "newcomers join once their waiting time, in total, is this many times the delay "
        "that they cause to running requests; 0: as soon as the deadlines allow"),
    [FOREIGN] =
        TT_CHOICE_SPEC("foreign", "shorter|slack|never|turns", 0,
                       "when a request may interrupt a batch of another model; shorter: if it "
                       "needs less time than the batch still does; slack: if the deadlines "
                       "allow; never: not at all; turns: not at all, and models take turns"),
    [DROP] = TT_DROP_SPEC,
};

/* The last refusal of a YIELD to the head of the running model's queue, valid until `until_at`. */
struct refusal {
    const struct tt_request *head; /* NULL: none */
    int64_t number, until_at;
};

/* An executor and the requests under way on it. */
struct executor_state {
    struct tt_lazy_stack stack;
    struct tt_lazy_run run; /* of the top entry */
    struct refusal refusal; /* of that task */
    bool yielding;
    int64_t retry_at;
};

struct tt_policy {
    struct tt_queues queues;
    struct executor_state *executors; /* [executor_capacity] */
    struct tt_lazy_times *times;      /* [model_capacity]; zeroed: no such model */
    struct tt_lazy_admission admission;
    int64_t coverage_permille;
    int32_t dec_timesteps;
    int32_t yielding; /* number of executors with a pending YIELD */
};
TT_QUEUED_POLICY;

static void enqueue(struct tt_policy *self, struct tt_request *request, int64_t now) {
    tt_lazy_waiting_add(&self->admission.waits, request, now);
    tt_queues_put(&self->queues, request);
}

static int32_t step_count(const struct tt_policy *self, int32_t model) {
    return self->queues.domain->models[model]->step_count;
}

static void push(struct tt_policy *self, int32_t executor, const struct tt_lazy_group *group,
                 int64_t now) {
    struct executor_state *state = &self->executors[executor];
    struct tt_lazy_stack *stack = &state->stack;
    struct tt_fifo *fifo = &self->queues.fifos[group->model];
    tt_lazy_stack_push(stack, group->model, group->place.step);
    for (int32_t i = 0; i < group->count; i++) {
        struct tt_request *request = tt_fifo_first(fifo);
        struct tt_lazy_member member = tt_lazy_slack_member(&self->admission.slack, request, now);
        tt_lazy_waiting_remove(&self->admission.waits, request);
        tt_queues_take(&self->queues, request);
        request->policy_word = executor;
        tt_lazy_stack_add(stack, &member);
    }
    tt_lazy_slack_timed(&self->admission.slack, stack, group);
    tt_lazy_waiting_restart(&self->admission.waits, group->model, now);
}

/* ---- the next task of an executor ---- */

/* True if the top entry will reach the step of the entry below, and both fit one batch there. */
static inline bool will_merge(const struct tt_policy *self, const struct tt_lazy_stack *stack) {
    if (stack->depth < 2)
        return false;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack), *below = top - 1;
    return below->model == top->model && below->place.step >= top->place.step &&
           below->rows + top->rows <= tt_lazy_admission_max_rows(&self->admission, top->model) &&
           tt_lazy_admission_alike(&self->admission, top, below);
}

static void merge(const struct tt_policy *self, struct executor_state *state) {
    struct tt_lazy_stack *stack = &state->stack;
    while (will_merge(self, stack)) {
        const struct tt_lazy_entry *top = tt_lazy_stack_top(stack), *below = top - 1;
        if (below->place.step != top->place.step)
            return;
        tt_lazy_stack_merge(stack);
    }
}

/* L6: the length to which the top entry's inputs are padded, like those that it will merge with; 0:
 * no padding. */
static int32_t padding(const struct tt_policy *self, const struct tt_lazy_stack *stack,
                       bool meets) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    if (!self->queues.domain->models[top->model]->padded)
        return 0;
    int32_t length = meets ? (top - 1)->padded : 0;
    return length > top->length ? length : top->length;
}

static void run_top(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                    int64_t now) {
    struct executor_state *state = &self->executors[executor];
    struct tt_lazy_stack *stack = &state->stack;
    struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int32_t end = step_count(self, top->model);
    /* An entry that would find no slots at the meeting step runs through without a stop. */
    bool meets =
        will_merge(self, stack) && (self->queues.domain->models[top->model]->slots == 0 ||
                                    tt_lazy_stack_slots_lacking(stack) <=
                                        tt_mechanism_slot_room(self->queues.domain, top->model, 0));
    int32_t to = meets ? (top - 1)->place.step : end;
    if (top->place.step == 0)
        top->padded = padding(self, stack, meets);
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, top->model, top->place.step, to - 1);
    task->walk = TT_WALK_DIVERGING;
    task->length = top->padded;
    state->run.predicted_ns = state->run.consumed_ns = -1;
    state->run.to = to;
    const struct tt_lazy_member *members = &stack->members[top->first];
    for (int32_t i = 0, count = top->count; i < count; i++)
        tt_mechanism_run_add(actions, members[i].request);
    state->run.running = true;
    state->refusal.head = NULL;
    state->run.started_at = tt_queues_arrives_at(&self->queues, now, executor, top->rows);
    tt_heap_remove(&self->queues.idle, executor);
    tt_mechanism_run_commit(actions, state->run.started_at);
    tt_lazy_slack_started(&self->admission.slack, stack, &state->run);
}

/* True if requests of models other than the top entry's wait. */
static bool others_wait(const struct tt_policy *self, const struct executor_state *state) {
    const struct tt_heap *heads = &self->queues.heads;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(&state->stack);
    return top && (heads->count > 1 || (heads->count == 1 && heads->entries[0].id != top->model));
}

/* Stores a refusal. The top entry has just started, and at the boundary before, the sums did not
 * admit the head of its model's queue alone. Nothing has changed since, so the task must not yield
 * to it either. */
static void keep_refusal(const struct tt_policy *self, struct executor_state *state,
                         const struct tt_lazy_group *head_alone, const struct tt_request *head,
                         int64_t now) {
    int32_t model = tt_lazy_stack_top(&state->stack)->model;
    if (model != head->model || state->run.started_at != now ||
        self->queues.domain->models[model]->padded ||
        !tt_lazy_admission_refusal_holds(&self->admission, model))
        return;
    int64_t until_at =
        tt_lazy_slack_retry_at(&self->admission.slack, &state->stack, &state->run, head_alone, now);
    state->refusal = (struct refusal){.head = head, .number = head->number, .until_at = until_at};
}

/* At a boundary: merges, admits newcomers, runs the top entry. */
static void begin(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                  int64_t now) {
    struct executor_state *state = &self->executors[executor];
    struct tt_lazy_group groups[2]; /* one per turn */
    const struct tt_request *refused = NULL;
    merge(self, state);
    for (int32_t turn = 0; turn < 2 && (turn == 0 || others_wait(self, state)); turn++) {
        const struct tt_request *head =
            tt_lazy_admission_candidate(&self->admission, &state->stack, turn);
        if (!head)
            continue;
        if (!tt_lazy_admission_admits(&self->admission, &state->stack, &state->run, head, now,
                                      &groups[turn])) {
            if (turn == 0 && groups[turn].count == 1)
                refused = head;
            continue;
        }
        push(self, executor, &groups[turn], now);
        merge(self, state); /* merges with an entry of which no step has run yet */
    }
    if (state->stack.depth == 0)
        return;
    run_top(self, actions, executor, now);
    if (refused)
        keep_refusal(self, state, &groups[0], refused, now);
}

/* True if the top entry has a boundary before its end. */
static bool can_stop(const struct tt_policy *self, const struct tt_lazy_entry *top) {
    const struct tt_step_model *model = self->queues.domain->models[top->model];
    int32_t last = model->step_count - 1;
    return top->place.step < last || model->steps[last].kind != TT_STEP_STATIC;
}

/* True if the running task must yield to the head. If false, retry_at is at most the instant at
 * which to ask again. */
static bool opens(const struct tt_policy *self, struct executor_state *state,
                  const struct tt_request *head, bool own, int64_t now) {
    const struct refusal *last = &state->refusal;
    int64_t at = TT_NEVER;
    bool known = own && last->head == head && last->number == head->number && now < last->until_at;
    if (!known &&
        tt_lazy_admission_opens(&self->admission, &state->stack, &state->run, head, now, &at))
        return true;
    if (known)
        at = last->until_at;
    else if (own && tt_lazy_admission_refusal_holds(&self->admission, head->model))
        state->refusal = (struct refusal){.head = head, .number = head->number, .until_at = at};
    state->retry_at = tt_instant_min(state->retry_at, at);
    return false;
}

/* While a task runs: requests a YIELD if a waiting request should join. */
static void look(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                 int64_t now) {
    struct executor_state *state = &self->executors[executor];
    const struct tt_lazy_entry *top = tt_lazy_stack_top(&state->stack);
    if (self->yielding > 0 || !can_stop(self, top))
        return;
    for (int32_t turn = 0; turn < 2 && (turn == 0 || others_wait(self, state)); turn++) {
        const struct tt_request *head =
            tt_lazy_admission_candidate(&self->admission, &state->stack, turn);
        if (!head || !opens(self, state, head, turn == 0, now))
            continue;
        state->yielding = true;
        self->yielding++;
        tt_mechanism_yield(actions, executor);
        return;
    }
}

static void drop_hopeless(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->queues.hopeless)) && top->key < now) {
        tt_lazy_waiting_remove(&self->admission.waits, tt_fifo_first(&self->queues.fifos[top->id]));
        (void)tt_queues_drop_one(&self->queues, now, actions);
    }
}

static void lazy_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_mechanism *domain = self->queues.domain;
    drop_hopeless(self, now, actions);
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (tt_heap_contains(&self->queues.idle, e)) {
            begin(self, actions, e, now);
            drop_hopeless(self, now, actions); /* the new heads may be hopeless already */
        }
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        self->executors[e].retry_at = TT_NEVER;
        if (self->executors[e].run.running && self->queues.heads.count > 0)
            look(self, actions, e, now);
    }
}

static int64_t lazy_next_at(const struct tt_policy *self) {
    int64_t at = tt_queues_hopeless_at(&self->queues);
    for (int32_t e = 0; e < self->queues.domain->executor_capacity; e++)
        at = tt_instant_min(at, self->executors[e].retry_at);
    return at;
}

/* ---- events ---- */

static void lazy_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    enqueue(self, request, now);
}

/* Returns all members of the stack to the queues, at the steps that they have reached. */
static void requeue_members(struct tt_policy *self, struct executor_state *state, int64_t now) {
    struct tt_lazy_stack *stack = &state->stack;
    for (int32_t i = stack->count - 1; i >= 0; i--)
        enqueue(self, stack->members[i].request, now);
    tt_lazy_stack_cut(stack, 0);
}

static void lazy_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    struct executor_state *state = &self->executors[task->executor];
    struct tt_lazy_stack *stack = &state->stack;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    tt_assert(state->run.running && top->count == task->count);
    tt_assert(stack->members[top->first].request == task->items[0].request);
    tt_lazy_stack_settle(stack);
    self->yielding -= state->yielding;
    state->yielding = false;
    state->run.running = false;
    if (self->queues.domain->executors[task->executor].state != TT_EXECUTOR_UP)
        requeue_members(self, state, now);
    tt_queues_executor_freed(&self->queues, task->executor);
}

static void lazy_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (tt_list_linked(&request->link)) {
        tt_lazy_waiting_remove(&self->admission.waits, request);
        tt_queues_take(&self->queues, request);
        return;
    }
    struct executor_state *state = &self->executors[request->policy_word];
    bool found = tt_lazy_stack_remove(&state->stack, request);
    tt_assert(found);
    state->refusal.head = NULL;
}

/* The given length of outputs; 0: none is given. */
static int32_t given_output(const struct tt_policy *self, const struct tt_step_model *model) {
    return model->dec_timesteps > 0 ? model->dec_timesteps : self->dec_timesteps;
}

static int32_t predicted_output(const struct tt_policy *self, const struct tt_step_model *model) {
    int32_t given = given_output(self, model);
    return given > 0 ? given : tt_lazy_times_output(model, self->coverage_permille);
}

/* Other latencies, or lengths of outputs, are believed of the model. */
static void believe(struct tt_policy *self, int32_t model) {
    const struct tt_step_model *believed = self->queues.domain->models[model];
    if (believed->output_quantiles)
        tt_lazy_times_predict(&self->times[model], predicted_output(self, believed),
                              given_output(self, believed) > 0);
    tt_lazy_times_fill(&self->times[model]);
    for (int32_t e = 0; e < self->queues.domain->executor_capacity; e++) {
        struct executor_state *state = &self->executors[e];
        tt_lazy_stack_outdate(&state->stack, model);
        state->run.predicted_ns = state->run.consumed_ns = -1;
        state->refusal.head = NULL;
    }
}

static void lazy_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                               enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    const struct tt_step_model *step_model = self->queues.domain->models[model];
    if (change == TT_CHANGE_ADDED) { /* in advance of its first request, like the model itself */
        enum tt_err err =
            tt_lazy_times_init(&self->times[model], step_model, predicted_output(self, step_model),
                               given_output(self, step_model) > 0);
        tt_assert(err == TT_OK);
    } else if (change == TT_CHANGE_BELIEF) {
        believe(self, model);
    } else if (change == TT_CHANGE_GONE) {
        tt_lazy_times_fini(&self->times[model]);
    }
}

static void lazy_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                  enum tt_change change) {
    (void)now;
    struct executor_state *state = &self->executors[executor];
    tt_queues_executor_changed(&self->queues, executor, change);
    if (change != TT_CHANGE_DRAINING)
        return;
    if (!state->run.running) {
        requeue_members(self, state, now);
        return;
    }
    /* Returns the members below the running entry, so that it is the only one on the stack. */
    struct tt_lazy_stack *stack = &state->stack;
    while (stack->depth > 1) {
        const struct tt_lazy_entry *bottom = &stack->entries[0];
        struct tt_request *request = stack->members[bottom->first].request;
        (void)tt_lazy_stack_remove(stack, request);
        enqueue(self, request, now);
    }
}

const struct tt_lazy_stack *tt_lazy_stack_of(const struct tt_policy *self, int32_t executor) {
    return &self->executors[executor].stack;
}

/* ---- invariants ---- */

static void lazy_check(const struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    tt_queues_check(&self->queues);
    int32_t yielding = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        const struct executor_state *state = &self->executors[e];
        const struct tt_lazy_stack *stack = &state->stack;
        tt_lazy_stack_check(stack);
        yielding += state->yielding;
        tt_assert(state->run.running == (domain->executors[e].queued > 0));
        tt_assert(!state->yielding || state->run.running);
        tt_assert(!state->run.running || stack->depth > 0);
        tt_assert(!state->run.running || !tt_lazy_stack_top(stack)->unissued);
        for (int32_t i = 0; i < stack->count; i++) {
            bool runs = state->run.running && i >= tt_lazy_stack_top(stack)->first;
            const struct tt_request *request = stack->members[i].request;
            tt_assert(request->state == (runs ? TT_REQUEST_RUNNING : TT_REQUEST_QUEUED));
            tt_assert(request->policy_word == e);
        }
        for (int32_t m = 0; m < domain->model_capacity; m++) {
            int32_t rows = 0;
            for (int32_t i = 0; i < stack->count; i++)
                if (stack->members[i].request->model == m)
                    rows += stack->members[i].request->rows;
            tt_assert(rows == stack->rows_of_model[m]);
            tt_assert(rows == 0 || rows <= domain->models[m]->max_batch);
        }
    }
    tt_assert(yielding == self->yielding);
    for (int32_t m = 0; m < domain->model_capacity; m++)
        tt_assert(self->admission.waits.count[m] == self->queues.fifos[m].count);
}

/* ---- creation ---- */

static void lazy_free(struct tt_policy *take_self) {
    const struct tt_mechanism *domain = take_self->queues.domain;
    for (int32_t e = 0; take_self->executors && e < domain->executor_capacity; e++)
        tt_lazy_stack_fini(&take_self->executors[e].stack);
    for (int32_t m = 0; take_self->times && m < domain->model_capacity; m++)
        tt_lazy_times_fini(&take_self->times[m]);
    free(take_self->executors);
    free(take_self->times);
    tt_lazy_waiting_fini(&take_self->admission.waits);
    tt_queued_free(take_self);
}

static enum tt_err lanes_init(struct tt_policy *self, const struct tt_mechanism *domain) {
    int32_t models = domain->model_capacity, executors = domain->executor_capacity;
    self->executors = calloc((size_t)executors, sizeof(*self->executors));
    self->times = calloc((size_t)models, sizeof(*self->times));
    if (!self->executors || !self->times ||
        tt_lazy_waiting_init(&self->admission.waits, models) != TT_OK)
        return TT_ERR_NO_MEMORY;
    int32_t batches = models < STACK_BATCHES ? models : STACK_BATCHES;
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < executors; e++) {
        int32_t items = domain->executors[e].tasks[0].capacity;
        err = tt_lazy_stack_init(&self->executors[e].stack, items * batches, models);
        self->executors[e].retry_at = TT_NEVER;
    }
    return err;
}

static enum tt_err lazy_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                             const int64_t *values, struct tt_error *why) {
    (void)why;
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0);
    if (!err)
        err = lanes_init(self, setup->domain);
    self->admission.queues = &self->queues;
    self->admission.slack = (struct tt_lazy_slack){.times = self->times,
                                                   .form = (enum tt_lazy_slack_form)values[SLACK],
                                                   .votes = (enum tt_lazy_votes)values[VOTES]};
    self->coverage_permille = values[COVERAGE];
    self->dec_timesteps = (int32_t)values[DEC_TIMESTEPS];
    self->admission.max_batch = (int32_t)values[MAX_BATCH];
    self->admission.ski_rental =
        (struct tt_lazy_ski_rental){.times = self->times,
                                    .patience_permille = values[PATIENCE],
                                    .foreign = (enum tt_lazy_foreign)values[FOREIGN]};
    return err;
}

static const struct tt_policy_ops ops = {
    .arrived = lazy_arrived,
    .finished = lazy_finished,
    .cancelled = lazy_cancelled,
    .decide = lazy_decide,
    .next_at = lazy_next_at,
    .model_changed = lazy_model_changed,
    .executor_changed = lazy_executor_changed,
    .check = lazy_check,
    .free = lazy_free,
};

static const struct tt_policy_variant variants[] = {
    {TT_VARIANT_STAGES, 1, {{"patience", "1"}}},
};

const struct tt_policy_kind tt_lazy_kind = {
    .name = "lazy",
    .summary = "newcomers interrupt a batch between two steps, catch up and merge, if no deadline "
               "is missed",
    .traits = {.granularity = TT_GRANULARITY_NODE,
               .needs_profiles = true,
               .composes = true,
               .default_depth = 1},
    .serving = {.computes_late = TT_DROP_NONE_OPTION,
                .variants = variants,
                .variant_count = TT_COUNT(variants)},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = lazy_init,
    .ops = &ops,
};
