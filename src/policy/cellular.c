#include "policy/cellular.h"

#include "base/instant.h"
#include "policy/cell_queue.h"
#include "policy/cell_rest.h"
#include "policy/queued.h"
#include "policy/token_pace.h"

enum { DEFAULT_TASKS = 5 }; /* C4: MaxTasksToSubmit */
enum choose { CHOOSE_TYPE, CHOOSE_SLACK, CHOOSE_PAYS };

struct tt_policy {
    struct tt_queues queues; /* requests that have not begun; idle executors */
    struct tt_cell_queues cells;
    struct tt_token_pace pace;
    bool paces;
    int64_t max_tasks, min_batch;
    enum choose choose;
};
TT_QUEUED_POLICY;

enum { MAX_TASKS, MIN_BATCH, AHEAD, CHOOSE, TOKENS, DROP, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [MAX_TASKS] =
        TT_INTEGER_SPEC("max_tasks", 0, 1024, 0,
                        "maximum number of tasks submitted to an executor at a time; 0: 5, or "
                        "the executor's depth if that is less"),
    [MIN_BATCH] =
        TT_INTEGER_SPEC("min_batch", 1, 65536, 1,
                        "minimum number of rows of the second and later tasks of one submission"),
    [AHEAD] = TT_INTEGER_SPEC(
        "ahead", 0, 1024, 0,
        "number of unfinished tasks at which an executor gets new ones; 0: it must be idle"),
    [CHOOSE] =
        TT_CHOICE_SPEC("choose", "type|slack|pays", 0,
                       "which cell type runs, of those that qualify equally; type: the later one "
                       "in its model; slack: the one with the earlier deadline; pays: the one that "
                       "needs the least time per request that it lets go on"),
    [TOKENS] = TT_CHOICE_SPEC("tokens", "pace|ignore", 0,
                              "pace: with objectives for the tokens of answers (TTFT, TPOT) no "
                              "task runs that would break those of requests that have begun, and "
                              "one task is submitted at a time; ignore: as without them"),
    [DROP] = TT_DROP_SPEC,
};

static void cellular_released(struct tt_policy *self, int64_t now,
                              struct tt_cell_subgraph *subgraph) {
    (void)now;
    tt_cell_queues_put(&self->cells, subgraph);
}

static void cellular_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    if (tt_token_pace_is_on(&self->pace))
        tt_token_pace_finished(&self->pace, now, task);
    tt_cell_queues_finished(&self->cells, task);
    tt_queues_executor_freed(&self->queues, task->executor);
}

static void cellular_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_cell_queues_forget(&self->cells, request);
    if (request->begun)
        tt_token_pace_forget(&self->pace, request);
    else
        tt_queues_take(&self->queues, request);
}

static bool is_full(const struct tt_cell_type *type, int32_t executor) {
    return tt_cell_type_rows(type, executor) >= type->max_rows;
}

/* C4: the criterion that the type meets, 0 to 2; the smallest goes first. */
static int32_t criterion(const struct tt_cell_type *type, int32_t executor) {
    if (is_full(type, executor))
        return 0;
    return type->running == 0 ? 1 : 2;
}

/* Negative: `a` goes before `b`, by criterion and then, with `choose: slack`, by deadline. */
static int32_t compare(const struct tt_policy *self, int32_t executor, const struct tt_cell_type *a,
                       const struct tt_cell_type *b) {
    int32_t difference = criterion(a, executor) - criterion(b, executor);
    if (difference != 0 || self->choose != CHOOSE_SLACK)
        return difference;
    int64_t deadline_a = tt_cell_type_first(a, executor)->request->deadline_at;
    int64_t deadline_b = tt_cell_type_first(b, executor)->request->deadline_at;
    return (deadline_a > deadline_b) - (deadline_a < deadline_b);
}

/* The same within a model. With `choose: pays` full types go first, so that none falls behind for
 * ever, and then those with less rest. */
static int32_t compare_within(const struct tt_policy *self, int32_t executor,
                              const struct tt_cell_type *a, const struct tt_cell_type *b) {
    if (self->choose != CHOOSE_PAYS)
        return compare(self, executor, a, b);
    bool a_is_full = is_full(a, executor), b_is_full = is_full(b, executor);
    if (a_is_full || b_is_full)
        return b_is_full - a_is_full;
    return (a->rest_ns > b->rest_ns) - (a->rest_ns < b->rest_ns);
}

/* True if another type of the model goes before the one at this step. Of equal types the later one
 * does. */
static bool is_outdone_at(const struct tt_policy *self, int32_t executor, int32_t model,
                          int32_t step) {
    struct tt_cell_type *const *types = self->cells.types[model];
    const struct tt_step_model *known = self->queues.domain->models[model];
    for (int32_t s = 0; s < known->step_count; s = tt_step_last_of(known, s) + 1) {
        if (types[s] == types[step] || tt_cell_type_rows(types[s], executor) == 0)
            continue;
        int32_t difference = compare_within(self, executor, types[s], types[step]);
        if (difference < 0 || (difference == 0 && s > step))
            return true;
    }
    return false;
}

/* True if another type of the same model goes before it. Of a type that models share: in all of
 * them. */
static bool is_outdone(const struct tt_policy *self, int32_t executor,
                       const struct tt_cell_type *type) {
    if (type->models == 1)
        return is_outdone_at(self, executor, type->model, type->first_step);
    const struct tt_mechanism *domain = self->queues.domain;
    int32_t places = 0, outdone = 0;
    for (int32_t m = 0; m < domain->model_capacity; m++)
        for (int32_t s = 0; self->cells.types[m] && s < domain->models[m]->step_count; s++)
            if (self->cells.types[m][s] == type) {
                places++;
                outdone += is_outdone_at(self, executor, m, s);
            }
    return outdone == places;
}

/* For types of different models. Equal criteria go by release, so that neither a model's number nor
 * its number of types delays another model. */
static bool goes_before(const struct tt_policy *self, int32_t executor,
                        const struct tt_cell_type *a, const struct tt_cell_type *b) {
    int32_t difference = compare(self, executor, a, b);
    if (difference != 0)
        return difference < 0;
    return tt_cell_subgraph_released(tt_cell_type_first(a, executor)) <
           tt_cell_subgraph_released(tt_cell_type_first(b, executor));
}

/* The rest of each type that has ready cells for the executor; 0 if only one has. */
static void measure_rests(struct tt_policy *self, int32_t executor) {
    struct tt_list *active = &self->cells.active;
    bool is_one = active->head.next == active->head.prev;
    for (struct tt_list_node *node = active->head.next; node != &active->head; node = node->next) {
        struct tt_cell_type *type = tt_cell_type_at(node);
        type->rest_ns = 0;
        if (!is_one && tt_cell_type_rows(type, executor) > 0)
            type->rest_ns = tt_cell_rest_ns(self->queues.domain, type, executor);
    }
}

/* NULL: no type has ready cells for the executor. In each model that has some, one type is outdone
 * by none. */
static struct tt_cell_type *choose_type(struct tt_policy *self, int32_t executor) {
    struct tt_cell_type *best = NULL;
    const struct tt_list *active = &self->cells.active;
    if (self->choose == CHOOSE_PAYS)
        measure_rests(self, executor);
    for (struct tt_list_node *node = active->head.next; node != &active->head; node = node->next) {
        struct tt_cell_type *type = tt_cell_type_at(node);
        if (tt_cell_type_rows(type, executor) == 0)
            continue; /* its ready cells are held by other executors */
        if (is_outdone(self, executor, type))
            continue;
        if (!best || goes_before(self, executor, type, best))
            best = type;
    }
    return best;
}

/* Takes the requests that begin in the task from those that wait. */
static void take_beginners(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    for (int32_t k = tt_task_first_beginner(task); k < task->count; k++)
        if (task->items[k].begins)
            tt_queues_take(&self->queues, task->items[k].request);
    if (tt_token_pace_is_on(&self->pace))
        tt_token_pace_submitted(&self->pace, now, task);
}

static void note_visit(struct tt_policy *self, int32_t executor) {
    if (self->queues.domain->executors[executor].queued > self->queues.ahead)
        tt_heap_remove(&self->queues.idle, executor); /* it has too many tasks for another visit */
}

/* S4: the messages of a first task travel before it starts; those of follow-up tasks travel while
 * the task before runs. */
static void submit(struct tt_policy *self, int64_t now, struct tt_mechanism *actions,
                   int32_t executor, struct tt_cell_type *type) {
    for (int64_t i = 0; i < self->max_tasks && tt_mechanism_has_room(actions, executor); i++) {
        int64_t least = tt_instant_max(self->min_batch, type->min_rows);
        int64_t min_rows = i == 0 ? 1 : tt_instant_min(least, type->max_rows);
        const struct tt_task *task = tt_cell_queues_run(&self->cells, actions, type, executor,
                                                        (int32_t)min_rows, type->max_rows, now);
        if (!task)
            break;
        take_beginners(self, now, task);
    }
    note_visit(self, executor);
}

/* With objectives for tokens: the type goes first that is no decoder; of two decoders that with the
 * earlier due. Else as without. */
static bool paced_before(struct tt_policy *self, int64_t now, int32_t executor,
                         const struct tt_cell_type *a, const struct tt_cell_type *b) {
    bool a_decodes = tt_token_pace_is_decoder(&self->pace, a);
    if (a_decodes != tt_token_pace_is_decoder(&self->pace, b))
        return !a_decodes;
    if (a_decodes) {
        int64_t due_a = tt_token_pace_decoder_due(&self->pace, now, executor, a);
        int64_t due_b = tt_token_pace_decoder_due(&self->pace, now, executor, b);
        if (due_a != due_b)
            return due_a < due_b;
    }
    return goes_before(self, executor, a, b);
}

static bool is_any_in_flight(const struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        if (domain->executors[e].queued > 0)
            return true;
    return false;
}

/* The same, one task at a time: of the types that may run without harm to the tokens of requests
 * that have begun. Where none may and no task is in flight, prompts wait for each other, and no
 * event would come: the first type in order runs. False: none may. */
static bool submit_paced(struct tt_policy *self, int64_t now, struct tt_mechanism *actions,
                         int32_t executor) {
    struct tt_cell_type *best = NULL;
    int32_t best_rows = 0;
    const struct tt_list *active = &self->cells.active;
    for (struct tt_list_node *node = active->head.next; node != &active->head; node = node->next) {
        struct tt_cell_type *type = tt_cell_type_at(node);
        if (tt_cell_type_rows(type, executor) == 0)
            continue;
        int32_t rows = tt_token_pace_rows(&self->pace, now, executor, type);
        if (rows == 0 || (best && !paced_before(self, now, executor, type, best)))
            continue;
        best = type;
        best_rows = rows;
    }
    if (!best && !is_any_in_flight(self)) {
        best = choose_type(self, executor);
        best_rows = tt_token_pace_forced_rows(best, executor);
    }
    if (!best)
        return false;
    const struct tt_task *task =
        tt_cell_queues_run(&self->cells, actions, best, executor, 1, best_rows, now);
    tt_assert(task != NULL);
    take_beginners(self, now, task);
    note_visit(self, executor);
    return true;
}

/* With all its cells. */
static void drop(struct tt_policy *self, struct tt_mechanism *actions, struct tt_request *request,
                 enum tt_drop_reason reason) {
    tt_cell_queues_forget(&self->cells, request);
    tt_queues_take(&self->queues, request);
    tt_mechanism_drop(actions, request, reason);
}

static void drop_hopeless(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *head;
    while ((head = tt_heap_top(&self->queues.hopeless)) && head->key < now)
        drop(self, actions, tt_fifo_first(&self->queues.fifos[head->id]), TT_DROP_DEADLINE);
}

/* By the option, or by the rule of a server's queue. */
static bool is_dropped_late(const struct tt_policy *self, const struct tt_request *request) {
    const struct tt_step_model *model = self->queues.domain->models[request->model];
    return self->queues.drops || (model->rules && !model->rules[request->priority].compute_late);
}

/* The first request of a queue that is ready for some executor and can no longer keep its TTFT;
 * NULL: there is none. */
static struct tt_request *find_lost(struct tt_policy *self, int64_t now) {
    const struct tt_mechanism *domain = self->queues.domain;
    const struct tt_list *active = &self->cells.active;
    for (struct tt_list_node *node = active->head.next; node != &active->head; node = node->next) {
        const struct tt_cell_type *type = tt_cell_type_at(node);
        for (int32_t e = 0; e < domain->executor_capacity; e++) {
            if (tt_cell_type_rows(type, e) == 0)
                continue;
            struct tt_request *request = tt_cell_type_first(type, e)->request;
            if (is_dropped_late(self, request) &&
                tt_token_pace_is_lost(&self->pace, now, type, request))
                return request;
        }
    }
    return NULL;
}

/* If they waited on, they would hold up those behind them that can still keep it. */
static void drop_lost(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_request *request;
    while ((request = find_lost(self, now)))
        drop(self, actions, request, TT_DROP_EARLY);
}

static void cellular_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    if (self->queues.drops)
        drop_hopeless(self, now, actions);
    if (tt_token_pace_is_on(&self->pace))
        drop_lost(self, now, actions);
    /* With `ahead` one executor may have nothing to run while another has work: check each in turn.
     */
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t e = 0; e < domain->executor_capacity && !tt_list_empty(&self->cells.active); e++) {
        struct tt_cell_type *type;
        if (tt_token_pace_is_on(&self->pace))
            while (tt_heap_contains(&self->queues.idle, e) && submit_paced(self, now, actions, e))
                continue;
        else
            while (tt_heap_contains(&self->queues.idle, e) && (type = choose_type(self, e)))
                submit(self, now, actions, e, type);
    }
}

static void cellular_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                   enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    tt_cell_queues_model_changed(&self->cells, model, change);
    if (self->paces)
        tt_token_pace_model_changed(&self->pace, model, change);
}

/* A visit takes place with up to `ahead` tasks left, and adds `max_tasks` to these. */
static int32_t cellular_max_tasks(const struct tt_policy *self) {
    return (int32_t)(self->queues.ahead + self->max_tasks);
}

static void cellular_check(const struct tt_policy *self) {
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        tt_assert(domain->executors[e].queued <= cellular_max_tasks(self));
    tt_queues_check(&self->queues);
    tt_cell_queues_check(&self->cells);
    tt_token_pace_check(&self->pace);
}

static void cellular_free(struct tt_policy *take_self) {
    tt_cell_queues_fini(&take_self->cells);
    tt_token_pace_fini(&take_self->pace);
    tt_queued_free(take_self);
}

static enum tt_err take_options(struct tt_policy *self, const struct tt_policy_setup *setup,
                                const int64_t *values, struct tt_error *why) {
    int32_t depth = setup->domain->executors[0].depth;
    self->max_tasks = values[MAX_TASKS];
    if (self->max_tasks == 0)
        self->max_tasks = depth < DEFAULT_TASKS ? depth : DEFAULT_TASKS;
    if (self->max_tasks > depth)
        return tt_fail(
            TT_ERR_INVALID, why,
            "max_tasks is %lld, but an executor takes %d tasks at once; raise its depth to that",
            (long long)self->max_tasks, depth);
    self->min_batch = values[MIN_BATCH];
    if (values[AHEAD] >= depth)
        return tt_fail(
            TT_ERR_INVALID, why,
            "ahead is %lld, but an executor takes %d tasks at once; raise its depth above "
            "that",
            (long long)values[AHEAD], depth);
    self->choose = (enum choose)values[CHOOSE];
    self->paces = values[TOKENS] == 0;
    return TT_OK;
}

static enum tt_err cellular_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                 const int64_t *values, struct tt_error *why) {
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_DEADLINE, values[DROP] != 0);
    self->queues.ahead = values[AHEAD];
    if (!err)
        err = take_options(self, setup, values, why);
    if (!err)
        err = tt_cell_queues_init(&self->cells, setup->domain, true);
    if (err)
        return err;
    return tt_token_pace_init(&self->pace, setup->domain, &self->cells, values[AHEAD] > 0);
}

static const struct tt_policy_ops ops = {
    .arrived = tt_queued_arrived,
    .released = cellular_released,
    .finished = cellular_finished,
    .cancelled = cellular_cancelled,
    .decide = cellular_decide,
    .max_tasks = cellular_max_tasks,
    .next_at = tt_queued_next_at,
    .model_changed = cellular_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = cellular_check,
    .free = cellular_free,
};

/* With tasks ahead an executor does not wait for the next one. */
static const struct tt_option server_defaults[] = {
    {"ahead", "1"}, {"choose", "pays"}, {"max_tasks", "1"}};
static const struct tt_policy_variant variants[] = {
    {TT_VARIANT_ALWAYS, 2, {{"choose", "slack"}, {"drop", "deadline"}}},
};

const struct tt_policy_kind tt_cellular_kind = {
    .name = "cellular",
    .summary = "requests join and leave the running batch at every cell",
    .traits = {.granularity = TT_GRANULARITY_CELL,
               .orders_by_priority = true,
               .needs_profiles = true,
               .composes = true,
               .default_depth = 16},
    .serving = {.defaults = server_defaults,
                .default_count = TT_COUNT(server_defaults),
                .computes_late = TT_DROP_NONE_OPTION,
                .variants = variants,
                .variant_count = TT_COUNT(variants)},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = cellular_init,
    .ops = &ops,
};
