#include "policy/lazy/lazy.h"

#include "base/instant.h"
#include "policy/lazy/lazy_admission.h"
#include "policy/queued.h"

#include <stdlib.h>

enum { SLACK, VOTES, MAX_BATCH, COVERAGE, DEC_TIMESTEPS, PATIENCE, FOREIGN, DROP, OPTION_COUNT };

/* A stack holds this many largest batches, if there are as many models. */
enum { STACK_BATCHES = 4 };

/* L4: lazy and, with slack = curves, the Oracle; serial and window are policies of their own. */
static const struct tt_option_spec options[OPTION_COUNT] = {
    [SLACK] = {.key = "slack",
               .type = TT_OPTION_CHOICE,
               .choices = "remaining|published|curves",
               .help = "how the time of a would-be batch is estimated: the sum of what its members "
                       "still need alone, equation 2 to the letter, or the profile's batch times"},
    [VOTES] = {.key = "votes",
               .type = TT_OPTION_CHOICE,
               .choices = "feasible|timely|all",
               .help = "which requests may refuse newcomers: those that could have been in time "
                       "without waiting, those of them that still can, or all"},
    [MAX_BATCH] = {.key = "max_batch",
                   .type = TT_OPTION_INTEGER,
                   .minimum = 1,
                   .maximum = TT_PROFILE_MAX_BATCH,
                   .default_value = TT_PROFILE_MAX_BATCH,
                   .help = "most rows of a model on a stack, where the model allows more"},
    [COVERAGE] = {.key = "coverage",
                  .type = TT_OPTION_PERMILLE,
                  .minimum = 0,
                  .maximum = 1000,
                  .default_value = 900,
                  .help = "share of the profiled outputs that the predicted length covers"},
    [DEC_TIMESTEPS] = {.key = "dec_timesteps",
                       .type = TT_OPTION_INTEGER,
                       .minimum = 0,
                       .maximum = 1000000,
                       .help = "the predicted output length itself; 0: by coverage"},
    [PATIENCE] = {.key = "patience",
                  .type = TT_OPTION_PERMILLE,
                  .minimum = 0,
                  .maximum = 1000000,
                  .help = "newcomers wait until they have waited this many times what their coming "
                          "costs those under way; 0: whoever may come in comes in"},
    [FOREIGN] = {.key = "foreign",
                 .type = TT_OPTION_CHOICE,
                 .choices = "shorter|slack|never|turns",
                 .help = "when a request may preempt a batch of another model; turns: never, and "
                         "whoever came after one of another model does not join before it"},
    [DROP] = {.key = "drop",
              .type = TT_OPTION_CHOICE,
              .choices = "none|deadline",
              .help = "deadline: drop waiting requests that cannot meet their deadline any more"},
};

/* The door was shut to the head of the running model's queue, and is until then. */
struct refusal {
    const struct tt_request *head; /* NULL: to nobody */
    int64_t number, until_at;
};

/* An executor and what it has under way. */
struct lane {
    struct tt_lazy_stack stack;
    struct tt_lazy_run run; /* of the top entry */
    struct refusal refusal; /* while that task runs */
    bool yielding;
    int64_t retry_at;
};

struct tt_policy {
    struct tt_queues queues;
    struct lane *lanes;          /* [executor_capacity] */
    struct tt_lazy_times *times; /* [model_capacity]; zeroed: no such model */
    struct tt_lazy_admission admission;
    int64_t coverage_permille;
    int32_t dec_timesteps;
    int32_t yielding; /* lanes that were asked to */
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
    struct lane *lane = &self->lanes[executor];
    struct tt_lazy_stack *stack = &lane->stack;
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
    tt_lazy_slack_timed(stack, group);
    tt_lazy_waiting_restart(&self->admission.waits, group->model, now);
}

/* ---- what an executor does next ---- */

/* The entry below stands where the top one is going to come by, and there is room to go on
 * together. */
static inline bool will_merge(const struct tt_policy *self, const struct tt_lazy_stack *stack) {
    if (stack->depth < 2)
        return false;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack), *below = top - 1;
    return below->model == top->model && below->place.step >= top->place.step &&
           below->rows + top->rows <= tt_lazy_door_max_rows(&self->admission, top->model) &&
           tt_lazy_admission_alike(&self->admission, top, below);
}

static void merge(const struct tt_policy *self, struct lane *lane) {
    struct tt_lazy_stack *stack = &lane->stack;
    while (will_merge(self, stack)) {
        const struct tt_lazy_entry *top = tt_lazy_stack_top(stack), *below = top - 1;
        if (below->place.step != top->place.step)
            return;
        tt_lazy_stack_merge(stack);
    }
}

/* L6: what the top entry's inputs are padded to; 0 where they are not. Like those that it will
 * merge with. */
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
    struct lane *lane = &self->lanes[executor];
    struct tt_lazy_stack *stack = &lane->stack;
    struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int32_t end = step_count(self, top->model);
    /* Who would find no slots where they meet goes through without stopping there. */
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
    lane->run.predicted_ns = lane->run.consumed_ns = -1;
    lane->run.to = to;
    const struct tt_lazy_member *members = &stack->members[top->first];
    for (int32_t i = 0, count = top->count; i < count; i++)
        tt_mechanism_run_add(actions, members[i].request);
    lane->run.running = true;
    lane->refusal.head = NULL;
    lane->run.started_at = now + self->queues.d_ctrl_ns + self->queues.d_data_ns * top->rows;
    tt_heap_remove(&self->queues.idle, executor);
    tt_mechanism_run_commit(actions, lane->run.started_at);
    tt_lazy_slack_started(stack, &lane->run);
}

/* Does anybody wait of another model than the top entry's? */
static bool others_wait(const struct tt_policy *self, const struct lane *lane) {
    const struct tt_heap *heads = &self->queues.heads;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(&lane->stack);
    return top && (heads->count > 1 || (heads->count == 1 && heads->entries[0].id != top->model));
}

/* The top entry has just begun to run, and a moment ago, at its boundary, the sums did not allow
 * the head of its model's queue, alone, to come in. Nothing has changed since, so neither is the
 * task to make room for it. */
static void keep_shut(const struct tt_policy *self, struct lane *lane,
                      const struct tt_lazy_group *head_alone, const struct tt_request *head,
                      int64_t now) {
    int32_t model = tt_lazy_stack_top(&lane->stack)->model;
    if (model != head->model || lane->run.started_at != now ||
        self->queues.domain->models[model]->padded ||
        !tt_lazy_admission_stays_shut(&self->admission, model))
        return;
    int64_t until_at =
        tt_lazy_slack_retry_at(&self->admission.slack, &lane->stack, &lane->run, head_alone, now);
    lane->refusal = (struct refusal){.head = head, .number = head->number, .until_at = until_at};
}

/* At a boundary: merge, let in who may, run. */
static void begin(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                  int64_t now) {
    struct lane *lane = &self->lanes[executor];
    struct tt_lazy_group groups[2]; /* by turns */
    const struct tt_request *shut = NULL;
    merge(self, lane);
    for (int32_t turn = 0; turn < 2 && (turn == 0 || others_wait(self, lane)); turn++) {
        const struct tt_request *head =
            tt_lazy_admission_candidate(&self->admission, &lane->stack, turn);
        if (!head)
            continue;
        if (!tt_lazy_admission_admits(&self->admission, &lane->stack, &lane->run, head, now,
                                      &groups[turn])) {
            if (turn == 0 && groups[turn].count == 1)
                shut = head;
            continue;
        }
        push(self, executor, &groups[turn], now);
        merge(self, lane); /* with an entry of which no step has run yet */
    }
    if (lane->stack.depth == 0)
        return;
    run_top(self, actions, executor, now);
    if (shut)
        keep_shut(self, lane, &groups[0], shut, now);
}

/* Is there a boundary inside the way that the top entry has before it? */
static bool can_stop(const struct tt_policy *self, const struct tt_lazy_entry *top) {
    const struct tt_step_model *model = self->queues.domain->models[top->model];
    int32_t last = model->step_count - 1;
    return top->place.step < last || model->steps[last].kind != TT_STEP_STATIC;
}

/* Is the running task to make room for the head? If not, retry_at is when to ask again. */
static bool opens(const struct tt_policy *self, struct lane *lane, const struct tt_request *head,
                  bool own, int64_t now) {
    const struct refusal *last = &lane->refusal;
    int64_t at = TT_NEVER;
    bool known = own && last->head == head && last->number == head->number && now < last->until_at;
    if (!known &&
        tt_lazy_admission_opens(&self->admission, &lane->stack, &lane->run, head, now, &at))
        return true;
    if (known)
        at = last->until_at;
    else if (own && tt_lazy_admission_stays_shut(&self->admission, head->model))
        lane->refusal = (struct refusal){.head = head, .number = head->number, .until_at = at};
    lane->retry_at = tt_instant_min(lane->retry_at, at);
    return false;
}

/* While a task runs: is it to make room? */
static void look(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                 int64_t now) {
    struct lane *lane = &self->lanes[executor];
    const struct tt_lazy_entry *top = tt_lazy_stack_top(&lane->stack);
    if (self->yielding > 0 || !can_stop(self, top))
        return;
    for (int32_t turn = 0; turn < 2 && (turn == 0 || others_wait(self, lane)); turn++) {
        const struct tt_request *head =
            tt_lazy_admission_candidate(&self->admission, &lane->stack, turn);
        if (!head || !opens(self, lane, head, turn == 0, now))
            continue;
        lane->yielding = true;
        self->yielding++;
        tt_mechanism_yield(actions, executor);
        return;
    }
}

static void drop_lost(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->queues.lost)) && top->key < now) {
        tt_lazy_waiting_remove(&self->admission.waits, tt_fifo_first(&self->queues.fifos[top->id]));
        (void)tt_queues_drop_one(&self->queues, now, actions);
    }
}

static void lazy_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_mechanism *domain = self->queues.domain;
    drop_lost(self, now, actions);
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (tt_heap_contains(&self->queues.idle, e)) {
            begin(self, actions, e, now);
            drop_lost(self, now, actions); /* the new heads may be lost already */
        }
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        self->lanes[e].retry_at = TT_NEVER;
        if (self->lanes[e].run.running && self->queues.heads.count > 0)
            look(self, actions, e, now);
    }
}

static int64_t lazy_next_at(const struct tt_policy *self) {
    int64_t at = tt_queues_lost_at(&self->queues);
    for (int32_t e = 0; e < self->queues.domain->executor_capacity; e++)
        at = tt_instant_min(at, self->lanes[e].retry_at);
    return at;
}

/* ---- what it hears ---- */

static void lazy_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    enqueue(self, request, now);
}

/* All who stand there go back to the queues, at the steps where they are. */
static void spill(struct tt_policy *self, struct lane *lane, int64_t now) {
    struct tt_lazy_stack *stack = &lane->stack;
    for (int32_t i = stack->count - 1; i >= 0; i--)
        enqueue(self, stack->members[i].request, now);
    tt_lazy_stack_cut(stack, 0);
}

static void lazy_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    struct lane *lane = &self->lanes[task->executor];
    struct tt_lazy_stack *stack = &lane->stack;
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    tt_assert(lane->run.running && top->count == task->count);
    tt_assert(stack->members[top->first].request == task->items[0].request);
    tt_lazy_stack_settle(stack);
    self->yielding -= lane->yielding;
    lane->yielding = false;
    lane->run.running = false;
    if (self->queues.domain->executors[task->executor].state != TT_EXECUTOR_UP)
        spill(self, lane, now);
    tt_queues_executor_freed(&self->queues, task->executor);
}

static void lazy_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (tt_list_linked(&request->link)) {
        tt_lazy_waiting_remove(&self->admission.waits, request);
        tt_queues_take(&self->queues, request);
        return;
    }
    struct lane *lane = &self->lanes[request->policy_word];
    bool found = tt_lazy_stack_remove(&lane->stack, request);
    tt_assert(found);
    lane->refusal.head = NULL;
}

static int32_t predicted_output(const struct tt_policy *self, const struct tt_step_model *model) {
    if (self->dec_timesteps > 0)
        return self->dec_timesteps;
    if (!model->output_quantiles)
        return 1;
    int32_t length = model->output_quantiles[(self->coverage_permille + 9) / 10];
    return length > 1 ? length : 1;
}

static void lazy_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                               enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    const struct tt_step_model *step_model = self->queues.domain->models[model];
    if (change == TT_CHANGE_ADDED) { /* long before its first request, like the model itself */
        enum tt_err err =
            tt_lazy_times_init(&self->times[model], step_model, predicted_output(self, step_model),
                               self->dec_timesteps > 0);
        tt_assert(err == TT_OK);
    } else if (change == TT_CHANGE_GONE) {
        tt_lazy_times_fini(&self->times[model]);
    }
}

static void lazy_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                  enum tt_change change) {
    (void)now;
    struct lane *lane = &self->lanes[executor];
    tt_queues_executor_changed(&self->queues, executor, change);
    if (change != TT_CHANGE_DRAINING)
        return;
    if (!lane->run.running) {
        spill(self, lane, now);
        return;
    }
    /* What lies below the running entry: it comes to the top as the only one. */
    struct tt_lazy_stack *stack = &lane->stack;
    while (stack->depth > 1) {
        const struct tt_lazy_entry *bottom = &stack->entries[0];
        struct tt_request *request = stack->members[bottom->first].request;
        (void)tt_lazy_stack_remove(stack, request);
        enqueue(self, request, now);
    }
}

const struct tt_lazy_stack *tt_lazy_stack_of(const struct tt_policy *self, int32_t executor) {
    return &self->lanes[executor].stack;
}

/* ---- promises ---- */

static void lazy_check(const struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    tt_queues_check(&self->queues);
    int32_t yielding = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        const struct lane *lane = &self->lanes[e];
        const struct tt_lazy_stack *stack = &lane->stack;
        tt_lazy_stack_check(stack);
        yielding += lane->yielding;
        tt_assert(lane->run.running == (domain->executors[e].queued > 0));
        tt_assert(!lane->yielding || lane->run.running);
        tt_assert(!lane->run.running || stack->depth > 0);
        for (int32_t i = 0; i < stack->count; i++) {
            bool runs = lane->run.running && i >= tt_lazy_stack_top(stack)->first;
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

/* ---- making one ---- */

static void lazy_free(struct tt_policy *take_self) {
    const struct tt_mechanism *domain = take_self->queues.domain;
    for (int32_t e = 0; take_self->lanes && e < domain->executor_capacity; e++)
        tt_lazy_stack_fini(&take_self->lanes[e].stack);
    for (int32_t m = 0; take_self->times && m < domain->model_capacity; m++)
        tt_lazy_times_fini(&take_self->times[m]);
    free(take_self->lanes);
    free(take_self->times);
    tt_lazy_waiting_fini(&take_self->admission.waits);
    tt_queued_free(take_self);
}

static enum tt_err lanes_init(struct tt_policy *self, const struct tt_mechanism *domain) {
    int32_t models = domain->model_capacity, executors = domain->executor_capacity;
    self->lanes = calloc((size_t)executors, sizeof(*self->lanes));
    self->times = calloc((size_t)models, sizeof(*self->times));
    if (!self->lanes || !self->times ||
        tt_lazy_waiting_init(&self->admission.waits, models) != TT_OK)
        return TT_ERR_NO_MEMORY;
    int32_t batches = models < STACK_BATCHES ? models : STACK_BATCHES;
    enum tt_err err = TT_OK;
    for (int32_t e = 0; !err && e < executors; e++) {
        int32_t items = domain->executors[e].tasks[0].capacity;
        err = tt_lazy_stack_init(&self->lanes[e].stack, items * batches, models);
        self->lanes[e].retry_at = TT_NEVER;
    }
    return err;
}

static enum tt_err lazy_create(const struct tt_policy_setup *setup, const int64_t *values,
                               struct tt_policy **out_policy, struct tt_error *why) {
    struct tt_policy *self;
    enum tt_err err =
        tt_queued_create(sizeof(*self), setup, TT_FIFO_ARRIVAL, values[DROP] != 0, &self, why);
    if (err)
        return err;
    if (lanes_init(self, setup->domain) != TT_OK) {
        lazy_free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the stacks of %d executors",
                       setup->domain->executor_capacity);
    }
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
    *out_policy = self;
    return TT_OK;
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

const struct tt_policy_kind tt_lazy_kind = {
    .name = "lazy",
    .summary = "newcomers preempt at a step boundary, catch up and merge, where no deadline breaks",
    .traits = {.granularity = TT_GRANULARITY_NODE, .needs_profiles = true, .default_depth = 1},
    .serving = {.computes_late = TT_DROP_NONE_OPTION},
    .options = options,
    .option_count = OPTION_COUNT,
    .create = lazy_create,
    .ops = &ops,
};
