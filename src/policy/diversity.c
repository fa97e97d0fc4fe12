#include "policy/diversity.h"

#include "base/instant.h"
#include "policy/diversity_state.h"
#include "policy/joining.h"
#include "policy/queued.h"
#include "policy/sharing_gain.h"

#include <stdlib.h>

enum {
    BS_MAX,
    PAIRS,
    WINDOW,
    COMP_WAIT,
    STRETCH,
    SPLIT,
    INPUT,
    WIDTH,
    BESIDE,
    DROP,
    AHEAD,
    OPTION_COUNT
};
enum { MAX_ACTIVE = 1024, PENDING = -1 };
enum { STRETCH_ON, STRETCH_OFF, STRETCH_PAYS };
enum { INPUT_OFF, INPUT_ON, INPUT_PAYS };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [BS_MAX] =
        TT_INTEGER_SPEC("bs_max", 1, TT_PROFILE_MAX_BATCH, 64,
                        "maximum number of rows in a batch; the model's own limit holds as well"),
    [PAIRS] = TT_INTEGER_SPEC(
        "pairs", 1, 1024, 2,
        "number of buffers between two stages; with 1 only one batch runs at a time"),
    [WINDOW] = TT_DURATION_SPEC(
        "window", 0, 3600 * TT_S, TT_DIVERSITY_NOT_GIVEN,
        "how long the oldest request waits for a full batch; not given: 0, or with "
        "input: on the time of the first stage at bs_max rows"),
    [COMP_WAIT] =
        TT_DURATION_SPEC("comp_wait", 0, 3600 * TT_S, TT_DIVERSITY_NOT_GIVEN,
                         "maximum age of a batch that newcomers may still join; not given: the "
                         "model's latency at bs_max rows"),
    [STRETCH] =
        TT_CHOICE_SPEC("stretch", "on|off|pays", 0,
                       "whether newcomers join the latest batch between two stages; pays: only "
                       "if the profile predicts a lower total latency"),
    [SPLIT] = TT_CHOICE_SPEC(
        "split", "on|off", 0,
        "whether a batch is halved before stages that run two halves as fast as the whole"),
    [INPUT] =
        TT_CHOICE_SPEC("input", "off|on|pays", 0,
                       "whether only inputs of similar length share a batch; pays: only if the "
                       "profile predicts that no request waits too long for it"),
    [WIDTH] =
        TT_INTEGER_SPEC("width", 0, 1 << 20, 0,
                        "with input: on, how many consecutive lengths count as similar; 0: the "
                        "length ranges of the profile"),
    [BESIDE] =
        TT_CHOICE_SPEC("beside", "always|pays", 0,
                       "whether a new batch starts beside running ones; pays: only if the profile "
                       "predicts that the device has enough capacity left"),
    [DROP] = TT_DROP_SPEC,
    [AHEAD] = TT_CHOICE_SPEC(
        "ahead", "off|on", 0,
        "whether the next stage of a batch is submitted when a stage begins, so that devices go on "
        "without the scheduler; not for a batch that may still stretch, split or exit there"),
};

TT_QUEUED_POLICY;

/* ---- stages ---- */

/* The stage that contains the step. */
static int32_t stage_of(const struct tt_policy *self, int32_t model, int32_t step) {
    int32_t stage = 0;
    while (stage + 1 < self->tables[model].stage_count &&
           tt_diversity_first_step(self, model, stage + 1) <= step)
        stage++;
    return stage;
}

/* D2: the number of pending rows that find slots between the stages. If no batch is active, the
 * oldest request always may begin. */
static int32_t slot_room(const struct tt_policy *self, int32_t model) {
    const struct tt_request *head = tt_fifo_first(&self->queues.fifos[model]);
    if (!head || self->tables[model].stage_count == 1)
        return INT32_MAX;
    return tt_mechanism_slot_room(self->queues.domain, model, head->rows);
}

/* The number of pending rows that may begin as one batch, in addition to the `there` rows in it. */
static int32_t max_coming(const struct tt_policy *self, int32_t model, int32_t there) {
    int32_t limit = tt_diversity_max_rows(self, model) - there, room = slot_room(self, model);
    return room < limit ? room : limit;
}

/* ---- events ---- */

static void diversity_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    request->policy_word = PENDING;
    tt_queues_put(&self->queues, request);
}

static void diversity_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (request->policy_word == PENDING)
        tt_queues_take(&self->queues, request);
    else
        tt_batch_table_remove(&self->tables[request->model], (int32_t)request->policy_word,
                              request);
}

static void diversity_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    struct tt_batch_table *table = &self->tables[task->model];
    int32_t part = tt_diversity_part_of(task);
    int32_t stage = table->parts[part].stage;
    tt_queues_executor_freed(&self->queues, task->executor);
    if (task->follower) {
        tt_batch_table_advance(table, part);
        tt_diversity_executor_ended(self, task->executor, task->model, stage);
        return;
    }
    tt_batch_table_ended(table, part);
    tt_diversity_executor_ended(self, task->executor, task->model, stage);
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_request *request = task->items[i].request;
        if (request->state != TT_REQUEST_QUEUED)
            continue;
        if (request->step == tt_diversity_first_step(self, task->model, stage + 1))
            tt_batch_table_keep(table, part, request);
        else /* D8: its condition sent it to another step */
            tt_batch_table_skip(table, part, stage_of(self, task->model, request->step) - 1,
                                request);
    }
    tt_batch_table_kept(table, part);
}

/* ---- decisions ---- */

static int32_t length_of(const struct tt_part *part) {
    int32_t length = 0;
    for (struct tt_list_node *node = tt_list_first(&part->requests); node;
         node = tt_list_next(&part->requests, node)) {
        const struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
        if (request->length > length)
            length = request->length;
    }
    return length;
}

/* Pushes an ended part to the next stage, split repeatedly where that is better. */
static void split_and_push(struct tt_policy *self, int32_t model, int32_t part) {
    struct tt_batch_table *table = &self->tables[model];
    const struct tt_part *p = &table->parts[part];
    if (self->splits &&
        tt_diversity_is_too_large(self, model, p->stage + 1, p->rows, length_of(p))) {
        int32_t younger = tt_batch_table_split(table, part, (p->rows + 1) / 2);
        if (younger >= 0) {
            /* Recursion depth: the number of halvings of a batch, at most 12. */
            split_and_push(self, model, part);
            split_and_push(self, model, younger);
            return;
        }
    }
    tt_batch_table_push(table, part);
}

static bool will_split(const struct tt_policy *self, int32_t model, int32_t stage, int32_t rows,
                       int32_t length) {
    for (int32_t s = stage; self->splits && s < self->tables[model].stage_count; s++)
        if (tt_diversity_is_too_large(self, model, s, rows, length))
            return true;
    return false;
}

/* D5: the length class of a request. */
static int32_t class_of(const struct tt_policy *self, const struct tt_request *request) {
    if (!self->input)
        return 0;
    if (self->width > 0)
        return (request->length - 1) / self->width;
    return tt_profile_length_index(tt_diversity_model_of(self, request->model)->whole,
                                   request->length);
}

/* The number of pending requests that are searched for those of one class. Unlimited if there is
 * only one class. Otherwise enough to fill a batch if every fourth request is of its class. So the
 * cost of a decision does not grow with the queue. */
static int32_t search_limit(const struct tt_policy *self, int32_t model) {
    return self->input ? 4 * tt_diversity_max_rows(self, model) + 64 : INT32_MAX;
}

/* Registers every request that `fill` can meet with the gain computation. */
static void survey(const struct tt_policy *self, int32_t model, struct tt_joining *out_joining) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t looked = 0, enough = search_limit(self, model);
    tt_joining_begin(out_joining, tt_diversity_model_of(self, model), self->queues.domain->now);
    for (const struct tt_request *r = tt_fifo_first(fifo); r && looked < enough; looked++) {
        tt_joining_expect(out_joining, r);
        r = tt_fifo_next(fifo, r);
    }
}

/* Moves pending requests of the oldest one's class into the part, up to `most` rows. */
static void fill(struct tt_policy *self, int32_t model, int32_t part, int32_t limit) {
    struct tt_batch_table *table = &self->tables[model];
    struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t class = class_of(self, tt_fifo_first(fifo));
    struct tt_joining joining;
    if (self->asks_gain)
        survey(self, model, &joining);
    struct tt_request *next;
    int32_t looked = 0, enough = search_limit(self, model);
    for (struct tt_request *r = tt_fifo_first(fifo);
         r && tt_batch_table_room(table) > 0 && looked < enough; r = next, looked++) {
        next = tt_fifo_next(fifo, r);
        int32_t held = table->parts[part].rows;
        bool is_alike = class_of(self, r) == class;
        if (is_alike && held > 0 &&
            (held + r->rows > limit || (self->asks_gain && !tt_joining_pays(&joining, r))))
            break;
        if (self->asks_gain)
            (is_alike ? tt_joining_join : tt_joining_pass)(&joining, r);
        if (!is_alike)
            continue;
        tt_queues_take(&self->queues, r);
        tt_batch_table_add(table, part, r);
    }
}

/* True if the pending requests, up to `room` rows, end sooner by joining this part than without it.
 */
static bool pays(const struct tt_policy *self, int32_t model, const struct tt_part *part,
                 int32_t room) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    struct tt_stretch_case stretch = {
        .model = tt_diversity_model_of(self, model),
        .next_step = tt_diversity_first_step(self, model, part->stage + 1),
        .held = part->rows,
        .held_length = length_of(part),
        .beside = tt_diversity_idle_for(self, model, part->stage + 1) !=
                  tt_diversity_idle_for(self, model, 0),
    };
    const struct tt_request *r = tt_fifo_first(fifo);
    for (; r && stretch.coming + r->rows <= room; r = tt_fifo_next(fifo, r)) {
        stretch.coming += r->rows;
        if (r->length > stretch.coming_length)
            stretch.coming_length = r->length;
    }
    return tt_stretch_pays(&stretch);
}

/* D7: true if the pending requests may join this part, which has ended a stage. */
static bool may_stretch(const struct tt_policy *self, int64_t now, int32_t model, int32_t part) {
    const struct tt_batch_table *table = &self->tables[model];
    const struct tt_part *p = &table->parts[part];
    const struct tt_batch_row *batch = &table->batches[p->batch];
    const struct tt_request *head = tt_fifo_first(&self->queues.fifos[model]);
    if (!self->stretches || self->input || !head || !tt_batch_table_may_stretch(table, part))
        return false;
    int64_t wait_ns = tt_diversity_comp_wait(self, model, length_of(p));
    int32_t coming = max_coming(self, model, p->rows), stage = p->stage;
    /* A free buffer is needed behind the first stage, and another where the parts meet. */
    if (now - batch->created_at > wait_ns || head->rows > coming ||
        !tt_batch_table_has_buffer(table, 0) || table->buffers[stage] >= table->pair_count ||
        tt_batch_table_room(table) == 0 || tt_diversity_idle_for(self, model, 0) < 0 ||
        will_split(self, model, stage + 1, p->rows, length_of(p)))
        return false;
    return !self->asks_profile || pays(self, model, p, coming);
}

static void go_on(struct tt_policy *self, int64_t now, int32_t model, int32_t part) {
    struct tt_batch_table *table = &self->tables[model];
    const struct tt_part *p = &table->parts[part];
    if (may_stretch(self, now, model, part)) {
        int32_t room = max_coming(self, model, p->rows);
        fill(self, model, tt_batch_table_stretch(table, part), room);
    } else if (table->batches[p->batch].held >= 0) {
        tt_batch_table_push(table, part); /* it is catching up with a held part */
    } else {
        split_and_push(self, model, part);
    }
}

static void run(struct tt_policy *self, struct tt_mechanism *actions, int32_t executor,
                int32_t model, int32_t number) {
    struct tt_batch_table *table = &self->tables[model];
    struct tt_part *part = &table->parts[number];
    tt_diversity_executor_begins(self, executor, model, part->stage);
    tt_batch_table_run(table, number);
    int32_t length = length_of(part), rows = part->rows;
    int32_t first = TT_CONTAINER_OF(tt_list_first(&part->requests), struct tt_request, link)->step;
    int32_t last = part->stage + 1 == table->stage_count
                       ? tt_diversity_model_of(self, model)->step_count
                       : tt_diversity_first_step(self, model, part->stage + 1);
    struct tt_task *task = tt_mechanism_run_begin(actions, executor, model, first, last - 1);
    task->length = length;
    struct tt_list_node *node;
    while ((node = tt_list_first(&part->requests))) {
        tt_list_remove(node);
        tt_mechanism_run_add(actions, TT_CONTAINER_OF(node, struct tt_request, link));
    }
    tt_heap_remove(&self->queues.idle, executor);
    tt_mechanism_run_commit(actions,
                            tt_queues_arrives_at(&self->queues, actions->now, executor, rows));
}

/* Starts parts that wait between the stages on idle executors, the last stage first. */
static void run_waiting(struct tt_policy *self, struct tt_mechanism *actions, int32_t model) {
    const struct tt_batch_table *table = &self->tables[model];
    for (int32_t stage = table->stage_count - 1; stage >= 0; stage--) {
        int32_t part, executor;
        while ((part = tt_batch_table_front(table, stage)) >= 0 &&
               (executor = tt_diversity_idle_for(self, model, stage)) >= 0)
            run(self, actions, executor, model, part);
        if (table->queues[stage].first >= 0 && !tt_batch_table_has_buffer(table, stage) &&
            (executor = tt_diversity_idle_for(self, model, stage)) >= 0)
            tt_diversity_executor_refuses(self, executor, model, stage);
    }
}

/* How long the oldest pending request waits for a larger batch, in ns. */
static int64_t window_of(const struct tt_policy *self, int32_t model, int32_t length) {
    if (self->window_ns != TT_DIVERSITY_NOT_GIVEN)
        return self->window_ns;
    if (!self->input)
        return 0;
    return tt_diversity_remaining(self, model, 0, tt_diversity_max_rows(self, model), length) -
           (self->tables[model].stage_count == 1
                ? 0
                : tt_diversity_remaining(self, model, 1, tt_diversity_max_rows(self, model),
                                         length));
}

/* The instant at which the pending requests become a batch, as far as it depends on them.
 * INT64_MIN: now. */
static int64_t due_at(const struct tt_policy *self, int32_t model) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    const struct tt_request *head = tt_fifo_first(fifo);
    int32_t limit = max_coming(self, model, 0);
    if (!head)
        return TT_NEVER;
    if (!self->input && fifo->rows >= limit)
        return INT64_MIN;
    if (self->input && fifo->rows >= limit) {
        int64_t rows = 0;
        int32_t looked = 0, enough = search_limit(self, model);
        for (const struct tt_request *r = head; r && looked < enough && rows < limit; looked++) {
            rows += class_of(self, r) == class_of(self, head) ? r->rows : 0;
            r = tt_fifo_next(fifo, r);
        }
        if (rows >= limit)
            return INT64_MIN;
    }
    return tt_instant_add(head->arrived_at, window_of(self, model, head->length));
}

/* True if the pending requests should begin beside the running batches and not wait for their end.
 */
static bool beside_pays(const struct tt_policy *self, int32_t model) {
    const struct tt_mechanism *domain = self->queues.domain;
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    int32_t limit = max_coming(self, model, 0), running = 0;
    int64_t demand = 0;
    for (int32_t e = 0; e < self->executor_count; e++) {
        const struct tt_task *task = tt_mechanism_oldest(domain, e);
        if (!task || task->after)
            continue;
        const struct tt_step *step =
            &tt_diversity_model_of(self, task->model)->steps[task->first_step];
        demand += tt_profile_demand(step->profile, task->rows, task->length);
        running++;
    }
    int32_t rows = fifo->rows < limit ? (int32_t)fifo->rows : limit;
    return tt_beside_pays(running, demand,
                          tt_profile_demand(tt_diversity_model_of(self, model)->whole, rows,
                                            tt_fifo_first(fifo)->length));
}

/* The executor that would run a new batch, if one may begin (the window apart); -1: none. */
static int32_t may_begin(const struct tt_policy *self, int32_t model) {
    const struct tt_batch_table *table = &self->tables[model];
    const struct tt_request *head = tt_fifo_first(&self->queues.fifos[model]);
    if (!head || table->queues[0].first >= 0 || !tt_batch_table_has_buffer(table, 0) ||
        tt_batch_table_room(table) == 0 || head->rows > slot_room(self, model))
        return -1;
    bool full = table->active_rows > 0 &&
                table->active_rows + head->rows > tt_diversity_max_rows(self, model);
    if ((self->input && full) || (self->asks_room && !beside_pays(self, model)))
        return -1;
    return tt_diversity_idle_for(self, model, 0);
}

static void begin(struct tt_policy *self, int64_t now, struct tt_mechanism *actions,
                  int32_t model) {
    struct tt_batch_table *table = &self->tables[model];
    int32_t executor;
    while ((executor = may_begin(self, model)) >= 0 && due_at(self, model) <= now) {
        int32_t limit = max_coming(self, model, self->input ? table->active_rows : 0);
        int32_t part = tt_batch_table_new(table, now);
        fill(self, model, part, limit);
        run(self, actions, executor, model, part);
    }
}

static void diversity_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    tt_queues_drop_hopeless(&self->queues, now, actions);
    tt_diversity_executors_wake(self);
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++) {
        struct tt_batch_table *table = &self->tables[m];
        if (!self->queues.domain->models[m] ||
            (table->active_count == 0 && self->queues.fifos[m].count == 0))
            continue;
        int32_t part;
        while ((part = tt_batch_table_take_ended(table)) >= 0)
            go_on(self, now, m, part);
        run_waiting(self, actions, m);
        begin(self, now, actions, m);
    }
    if (self->submits_ahead)
        tt_diversity_follow(self, actions);
}

static int64_t diversity_next_at(const struct tt_policy *self) {
    int64_t at = tt_queues_hopeless_at(&self->queues);
    for (int32_t m = 0; m < self->queues.domain->model_capacity; m++)
        if (self->queues.domain->models[m] && may_begin(self, m) >= 0)
            at = tt_instant_min(at, due_at(self, m));
    return at;
}

static void diversity_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                    enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    if (change != TT_CHANGE_ADDED)
        return;
    int32_t steps = tt_diversity_model_of(self, model)->step_count;
    tt_batch_table_start(&self->tables[model], steps < TT_BATCH_STAGES ? steps : TT_BATCH_STAGES,
                         self->pairs);
}

static void diversity_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    tt_diversity_executors_check(self);
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t m = 0; m < domain->model_capacity; m++)
        if (domain->models[m])
            tt_batch_table_check(&self->tables[m]);
    for (int32_t e = 0; e < self->executor_count; e++) {
        const struct tt_task *task = tt_mechanism_oldest(domain, e);
        if (task) {
            const struct tt_part *part =
                &self->tables[task->model].parts[tt_diversity_part_of(task)];
            tt_assert(part->state == TT_PART_RUNNING && part->rows == task->rows);
            tt_assert(task->after || part->is_followed == (task->follower != NULL));
        }
    }
}

static void diversity_free(struct tt_policy *take_self) {
    for (int32_t m = 0; take_self->tables && m < take_self->queues.domain->model_capacity; m++)
        tt_batch_table_fini(&take_self->tables[m]);
    free(take_self->tables);
    free(take_self->models);
    free(take_self->executors);
    tt_queued_free(take_self);
}

/* ---- creation ---- */

static enum tt_err tables_init(struct tt_policy *self, const struct tt_mechanism *domain) {
    self->executor_count = domain->executor_capacity;
    self->tables = calloc((size_t)domain->model_capacity, sizeof(*self->tables));
    self->models = calloc((size_t)domain->model_capacity, sizeof(*self->models));
    self->executors = calloc((size_t)self->executor_count, sizeof(*self->executors));
    if (!self->tables || !self->models || !self->executors)
        return TT_ERR_NO_MEMORY;
    enum tt_err err = TT_OK;
    for (int32_t m = 0; m < domain->model_capacity && !err; m++) {
        self->models[m] = (struct tt_diversity_model){.policy = self, .model = m};
        err = tt_batch_table_init(&self->tables[m], MAX_ACTIVE);
        self->tables[m].moved = tt_diversity_buffers_moved;
        self->tables[m].moved_context = &self->models[m];
    }
    return err;
}

static enum tt_err diversity_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                  const int64_t *values, struct tt_error *why) {
    (void)why;
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_PRIORITY, values[DROP] != 0);
    self->bs_max = (int32_t)values[BS_MAX];
    self->pairs = (int32_t)values[PAIRS];
    self->window_ns = values[WINDOW];
    self->comp_wait_ns = values[COMP_WAIT];
    self->stretches = values[STRETCH] != STRETCH_OFF;
    self->asks_profile = values[STRETCH] == STRETCH_PAYS;
    self->splits = values[SPLIT] == 0;
    self->input = values[INPUT] != INPUT_OFF;
    self->asks_gain = values[INPUT] == INPUT_PAYS;
    self->asks_room = values[BESIDE] != 0;
    self->submits_ahead = values[AHEAD] != 0;
    self->width = (int32_t)values[WIDTH];
    return err ? err : tables_init(self, setup->domain);
}

static const struct tt_policy_ops ops = {
    .arrived = diversity_arrived,
    .finished = diversity_finished,
    .cancelled = diversity_cancelled,
    .decide = diversity_decide,
    .next_at = diversity_next_at,
    .model_changed = diversity_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = diversity_check,
    .free = diversity_free,
};

static const struct tt_policy_variant variants[] = {
    {TT_VARIANT_STAGES, 2, {{"stretch", "pays"}, {"beside", "pays"}}},
    {TT_VARIANT_LENGTHS, 3, {{"input", "pays"}, {"width", "2"}, {"window", "0ms"}}},
};

const struct tt_policy_kind tt_diversity_kind = {
    .name = "diversity",
    .summary =
        "runs a model as a pipeline of stages; batches are made, joined and split between stages",
    .traits = {.granularity = TT_GRANULARITY_STAGE,
               .orders_by_priority = true,
               .needs_profiles = true,
               .stage_per_executor = true,
               .composes = true,
               .default_depth = 1},
    .serving = {.computes_late = TT_DROP_NONE_OPTION,
                .variants = variants,
                .variant_count = TT_COUNT(variants)},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = diversity_init,
    .ops = &ops,
};
