#include "policy/window.h"

#include "base/instant.h"
#include "policy/queued.h"

#include <stdlib.h>

enum { MAX_DELAY, MAX_BATCH, STATIC, ORDER, DROP, SAME_LENGTH, OPTION_COUNT };

/* Outside the option's range: "not given". */
enum { DELAY_OF_MODEL = -1 };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [MAX_DELAY] =
        TT_DURATION_SPEC("max_delay", 0, 3600 * TT_S, DELAY_OF_MODEL,
                         "how long a request may wait for others to share its batch; 0: not at "
                         "all; not given: the model's own queue delay"),
    [MAX_BATCH] =
        TT_INTEGER_SPEC("max_batch", 1, TT_PROFILE_MAX_BATCH, TT_PROFILE_MAX_BATCH,
                        "maximum number of rows in a batch; the model's own limit holds as well"),
    [STATIC] = TT_CHOICE_SPEC(
        "static", "off|on|padded", 0,
        "whether batches always wait until they are full and ignore preferred sizes; "
        "padded: a batch that runs before is also filled up with empty rows"),
    [ORDER] =
        TT_CHOICE_SPEC("order", "oldest|round_robin", 0,
                       "which model runs first if several are due; oldest: the one with the oldest "
                       "request; round_robin: all in turn"),
    [DROP] = TT_DROP_SPEC,
    [SAME_LENGTH] = TT_CHOICE_SPEC("same_length", "off|on", 0,
                                   "whether only inputs of equal length share a batch"),
};

struct tt_policy {
    struct tt_queues queues;
    struct tt_heap waiting; /* models whose candidate is due later, keyed by that instant */
    struct tt_heap due;     /* models whose candidate is due, keyed by the head's arrival number */
    struct tt_heap changed; /* models to evaluate again, keyed by their number */
    bool *draining;         /* [model_capacity] */
    int32_t last_model;     /* round robin: the model that ran last */
    int64_t max_delay_ns;
    int32_t max_batch;
    bool is_static, pads, round_robin, same_length;
};
TT_QUEUED_POLICY;

/* The batch that would run now if an executor were idle. */
struct candidate {
    struct tt_batch batch;
    int64_t due_at;
};

static int64_t delay_of(const struct tt_policy *self, int32_t model) {
    int64_t window_ns = self->queues.domain->models[model]->window_ns;
    if (self->max_delay_ns != DELAY_OF_MODEL)
        return self->max_delay_ns;
    return self->is_static && window_ns == 0 ? TT_NEVER : window_ns;
}

static bool is_preferred(const struct tt_step_model *model, int32_t rows) {
    for (int32_t i = 0; i < model->preferred_count && model->preferred[i] <= rows; i++)
        if (model->preferred[i] == rows)
            return true;
    return false;
}

static bool may_join(const struct tt_policy *self, const struct tt_request *head,
                     const struct tt_request *request) {
    return request->step == head->step && (!self->same_length || request->length == head->length);
}

static int32_t max_rows(const struct tt_policy *self, const struct tt_request *head) {
    int32_t allowed = self->queues.domain->models[head->model]->max_batch;
    int32_t limit = self->max_batch < allowed ? self->max_batch : allowed;
    return head->rows > limit ? head->rows : limit;
}

/* The candidate of a model with a non-empty queue. With same_length its members need not be
 * adjacent. */
static struct candidate form(const struct tt_policy *self, int32_t m) {
    const struct tt_step_model *model = self->queues.domain->models[m];
    const struct tt_fifo *fifo = &self->queues.fifos[m];
    struct tt_request *head = tt_fifo_first(fifo);
    int32_t limit = max_rows(self, head);
    struct tt_batch all = {.first = head, .model = m, .length = head->length}, preferred = all;
    int64_t oldest_at = TT_NEVER;
    bool full = false;
    int32_t looked = 0, look_limit = self->same_length ? 4 * limit + 64 : INT32_MAX;
    for (struct tt_request *r = head; r && looked < look_limit; r = tt_fifo_next(fifo, r)) {
        looked++;
        if (!may_join(self, head, r)) {
            if (self->same_length)
                continue;
            full = true;
            break;
        }
        if (all.rows + r->rows > limit) {
            full = true;
            break;
        }
        all.count++;
        all.rows += r->rows;
        oldest_at = tt_instant_min(oldest_at, r->arrived_at);
        if (!self->is_static && is_preferred(model, all.rows))
            preferred = all;
        if (all.rows == limit) {
            full = true;
            break;
        }
    }
    if (preferred.count > 0)
        return (struct candidate){.batch = preferred, .due_at = INT64_MIN};
    if (full || self->draining[m])
        return (struct candidate){.batch = all, .due_at = INT64_MIN};
    return (struct candidate){.batch = all, .due_at = tt_instant_add(oldest_at, delay_of(self, m))};
}

static void note_change(struct tt_policy *self, int32_t model) {
    tt_heap_set(&self->changed, model, model, 0);
}

static void window_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_put(&self->queues, request);
    note_change(self, request->model);
}

static void window_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_queues_finished(&self->queues, task);
    note_change(self, task->model);
}

static void window_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_take(&self->queues, request);
    note_change(self, request->model);
}

/* Sorts the model into `waiting` or `due`; into neither if its queue is empty. */
static void look_again(struct tt_policy *self, int64_t now, int32_t model) {
    const struct tt_request *head = tt_fifo_first(&self->queues.fifos[model]);
    int64_t due_at = head ? form(self, model).due_at : TT_NEVER;
    tt_heap_remove(&self->waiting, model);
    tt_heap_remove(&self->due, model);
    if (head && due_at <= now)
        tt_heap_set(&self->due, model, head->number, model);
    else if (head)
        tt_heap_set(&self->waiting, model, due_at, model);
}

static void look_at_changes(struct tt_policy *self, int64_t now) {
    const struct tt_heap_entry *top;
    while ((top = tt_heap_top(&self->changed))) {
        int32_t model = top->id;
        tt_heap_remove(&self->changed, model);
        look_again(self, now, model);
    }
    while ((top = tt_heap_top(&self->waiting)) && top->key <= now)
        look_again(self, now, top->id);
}

/* The due model that runs next; -1: none. */
static int32_t choose(const struct tt_policy *self) {
    const struct tt_heap_entry *top = tt_heap_top(&self->due);
    if (!top || !self->round_robin)
        return top ? top->id : -1;
    int32_t capacity = self->queues.domain->model_capacity;
    int32_t best = -1, best_distance = capacity;
    for (int32_t i = 0; i < self->due.count; i++) {
        int32_t model = self->due.entries[i].id;
        int32_t distance = model - self->last_model - 1;
        if (distance < 0)
            distance += capacity;
        if (distance < best_distance) {
            best_distance = distance;
            best = model;
        }
    }
    return best;
}

static void run(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                const struct tt_batch *batch) {
    struct tt_queues *queues = &self->queues;
    if (!self->same_length && !self->pads) {
        tt_queues_run(queues, actions, executor, batch);
        return;
    }
    const struct tt_fifo *fifo = &queues->fifos[batch->model];
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, batch->model, batch->first->step,
                               queues->domain->models[batch->model]->step_count - 1);
    if (self->pads)
        task->padded_rows = max_rows(self, batch->first);
    struct tt_request *next;
    int32_t left = batch->count;
    for (struct tt_request *r = batch->first; left > 0; r = next) {
        next = tt_fifo_next(fifo, r);
        if (!may_join(self, batch->first, r))
            continue;
        tt_queues_take(queues, r);
        tt_mechanism_run_add(actions, r);
        left--;
    }
    tt_heap_remove(&queues->idle, executor);
    tt_mechanism_run_commit(actions,
                            tt_queues_arrives_at(queues, actions->now, executor, batch->rows));
}

/* Leaves out the last members of a batch that would make the first ones late. */
static void keep_in_time(const struct tt_policy *self, int64_t now, struct tt_batch *batch) {
    const struct tt_queues *queues = &self->queues;
    const struct tt_fifo *fifo = &queues->fifos[batch->model];
    int64_t deadline_at = TT_NEVER;
    int32_t count = 0, rows = 0, length = 0;
    if (!queues->in_time || self->is_static)
        return;
    for (struct tt_request *r = batch->first; count < batch->count; r = tt_fifo_next(fifo, r)) {
        if (!may_join(self, batch->first, r))
            continue;
        deadline_at = tt_instant_min(deadline_at, r->deadline_at);
        length = r->length > length ? r->length : length;
        if (count > 0 &&
            !tt_queues_ends_in_time(queues, now, batch->model, rows + r->rows, length, deadline_at))
            break;
        count++;
        rows += r->rows;
    }
    batch->count = count;
    batch->rows = rows;
}

/* Drops hopeless heads and marks their models as changed. */
static void drop_hopeless(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    int32_t model;
    while ((model = tt_queues_drop_one(&self->queues, now, actions)) >= 0)
        note_change(self, model);
}

static void window_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *idle;
    for (;;) {
        drop_hopeless(self, now, actions);
        idle = tt_heap_top(&self->queues.idle);
        if (!idle)
            return; /* changed models are evaluated when an executor is idle */
        look_at_changes(self, now);
        int32_t model = choose(self);
        if (model < 0)
            return;
        struct candidate candidate = form(self, model);
        tt_assert(candidate.due_at <= now);
        keep_in_time(self, now, &candidate.batch);
        run(self, actions, idle->id, &candidate.batch);
        self->last_model = model;
        note_change(self, model);
    }
}

static int64_t window_next_at(const struct tt_policy *self) {
    int64_t due_at = self->queues.idle.count > 0 ? tt_heap_next_key(&self->waiting) : TT_NEVER;
    return tt_instant_min(due_at, tt_queues_hopeless_at(&self->queues));
}

static void window_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                 enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    if (change == TT_CHANGE_BELIEF)
        return;
    self->draining[model] = change == TT_CHANGE_DRAINING;
    if (change == TT_CHANGE_GONE) {
        tt_heap_remove(&self->changed, model);
        tt_heap_remove(&self->waiting, model);
        tt_heap_remove(&self->due, model);
    } else {
        note_change(self, model);
    }
}

static void window_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    tt_heap_check(&self->waiting);
    tt_heap_check(&self->due);
    tt_heap_check(&self->changed);
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++) {
        if (tt_heap_contains(&self->changed, m))
            continue;
        bool waits = tt_heap_contains(&self->waiting, m), due = tt_heap_contains(&self->due, m);
        tt_assert((waits || due) == (self->queues.fifos[m].count > 0));
        tt_assert(!(waits && due));
        if (waits)
            tt_assert(tt_heap_key(&self->waiting, m) == form(self, m).due_at);
    }
}

static void window_free(struct tt_policy *take_self) {
    tt_heap_fini(&take_self->waiting);
    tt_heap_fini(&take_self->due);
    tt_heap_fini(&take_self->changed);
    free(take_self->draining);
    tt_queued_free(take_self);
}

static enum tt_err window_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                               const int64_t *values, struct tt_error *why) {
    (void)why;
    int32_t models = setup->domain->model_capacity;
    self->last_model = -1;
    self->max_delay_ns = values[MAX_DELAY];
    self->max_batch = (int32_t)values[MAX_BATCH];
    self->is_static = values[STATIC] != 0;
    self->pads = values[STATIC] == 2;
    self->round_robin = values[ORDER] != 0;
    self->same_length = values[SAME_LENGTH] != 0;
    self->draining = calloc((size_t)models, sizeof(*self->draining));
    if (!self->draining || tt_heap_init(&self->waiting, models) ||
        tt_heap_init(&self->due, models) || tt_heap_init(&self->changed, models))
        return TT_ERR_NO_MEMORY;
    return tt_queues_init(&self->queues, setup, TT_FIFO_PRIORITY, values[DROP] != 0);
}

static const struct tt_policy_ops ops = {
    .arrived = window_arrived,
    .finished = window_finished,
    .cancelled = window_cancelled,
    .decide = window_decide,
    .next_at = window_next_at,
    .model_changed = window_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = window_check,
    .free = window_free,
};

static const struct tt_option server_defaults[] = {{"same_length", "on"}, TT_DROP_DEADLINE_OPTION};

const struct tt_policy_kind tt_window_kind = {
    .name = "window",
    .summary =
        "waits for a preferred or full batch, or until the oldest request has waited long enough",
    .traits = {.runs_as_they_came = true, .orders_by_priority = true, .default_depth = 1},
    .serving = {.defaults = server_defaults,
                .default_count = TT_COUNT(server_defaults),
                .same_shape = {"same_length", "on"},
                .computes_late = TT_DROP_NONE_OPTION},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = window_init,
    .ops = &ops,
};
