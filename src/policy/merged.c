#include "policy/merged.h"

#include "base/instant.h"
#include "policy/cell_queue.h"
#include "policy/queued.h"

#include <stdlib.h>

/* The requests that are merged on one executor. */
struct executor_state {
    struct tt_cell_queues cells; /* ready cells of the members */
    struct tt_list merged;       /* the members, without those that have left */
    int32_t members;             /* number of members */
    int64_t merged_at;           /* the instant at which the host has finished merging */
};

struct tt_policy {
    struct tt_queues queues;          /* requests that wait to be merged; idle executors */
    struct executor_state *executors; /* [executor_capacity] */
    int64_t max_requests, merge_cell_ns;
};
TT_QUEUED_POLICY;

enum { MAX_REQUESTS, MERGE_CELL, ORDER, OPTION_COUNT };
enum { BY_STEP, BY_LEVEL };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [MAX_REQUESTS] = TT_INTEGER_SPEC("max_requests", 1, 65536, 64,
                                     "maximum number of requests in one merged graph"),
    [MERGE_CELL] = TT_DURATION_SPEC(
        "merge_cell", 0, TT_S, 0,
        "time that the host needs to merge one cell, before the merged graph runs"),
    [ORDER] =
        TT_CHOICE_SPEC("order", "step|level", BY_STEP,
                       "which ready cells run first; step: those of the first step that has "
                       "some; level: a level of the merged graph ends before the next begins"),
};

/* policy_word of a request: 1 + the executor on which it is merged; 0: it waits. */
static struct executor_state *state_of(struct tt_policy *self, const struct tt_request *request) {
    return request->policy_word > 0 ? &self->executors[request->policy_word - 1] : NULL;
}

static void merged_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    request->policy_word = 0;
    tt_queues_put(&self->queues, request);
}

static void merged_released(struct tt_policy *self, int64_t now,
                            struct tt_cell_subgraph *subgraph) {
    (void)now;
    struct executor_state *state = state_of(self, subgraph->request);
    if (state)
        tt_cell_queues_put(&state->cells, subgraph);
}

static void leave(struct tt_policy *self, struct tt_request *request) {
    struct executor_state *state = state_of(self, request);
    if (!state)
        return; /* it has left already; only its cells remain */
    tt_assert(state->members > 0);
    tt_cell_queues_forget(&state->cells, request);
    tt_list_remove(&request->link);
    state->members--;
    request->policy_word = 0;
}

/* The executor takes no more tasks: members without cells in flight there wait to be merged again,
 * with the rest of their graph. */
static void requeue_members(struct tt_policy *self, struct executor_state *state) {
    for (struct tt_list_node *node = state->merged.head.next; node != &state->merged.head;) {
        struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
        node = node->next;
        if (request->cells_in_flight > 0 || request->state == TT_REQUEST_LEAVING)
            continue;
        leave(self, request);
        tt_queues_put(&self->queues, request);
    }
}

static void merged_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_cell_queues_finished(&self->executors[task->executor].cells, task);
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_LEAVING)
            leave(self, task->items[i].request);
    if (self->queues.domain->executors[task->executor].state != TT_EXECUTOR_UP)
        requeue_members(self, &self->executors[task->executor]);
    tt_queues_executor_freed(&self->queues, task->executor);
}

static void merged_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    if (request->policy_word == 0)
        tt_queues_take(&self->queues, request);
    else
        leave(self, request);
}

/* Merges the requests that have waited longest into one graph. */
static void merge(struct tt_policy *self, int64_t now, int32_t executor, int32_t model) {
    struct executor_state *state = &self->executors[executor];
    struct tt_request *request;
    int64_t cells = 0;
    while (state->members < self->max_requests &&
           (request = tt_fifo_first(&self->queues.fifos[model]))) {
        tt_queues_take(&self->queues, request);
        request->policy_word = 1 + executor;
        state->members++;
        tt_list_push_back(&state->merged, &request->link);
        cells += request->graph->cell_count;
        for (int32_t i = 0; i < request->graph->subgraph_count; i++) {
            struct tt_cell_subgraph *subgraph = &request->graph->subgraphs[i];
            if (subgraph->waits_for == 0 && subgraph->ready > 0)
                tt_cell_queues_put(&state->cells, subgraph);
        }
    }
    state->merged_at = tt_instant_add(now, cells * self->merge_cell_ns);
}

/* The type whose step comes first: leaves before inner nodes. */
static struct tt_cell_type *first_type(const struct executor_state *state) {
    struct tt_cell_type *first = NULL;
    const struct tt_list *active = &state->cells.active;
    for (struct tt_list_node *node = active->head.next; node != &active->head; node = node->next)
        if (!first || tt_cell_type_at(node)->first_step < first->first_step)
            first = tt_cell_type_at(node);
    return first;
}

static void merged_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        struct executor_state *state = &self->executors[e];
        if (!tt_heap_contains(&self->queues.idle, e))
            continue;
        const struct tt_heap_entry *oldest = tt_heap_top(&self->queues.heads);
        if (state->members == 0 && oldest)
            merge(self, now, e, oldest->id);
        if (state->members == 0)
            continue; /* and no request waits */
        if (state->cells.by_levels && tt_list_empty(&state->cells.active))
            tt_cell_queues_begin_level(&state->cells);
        struct tt_cell_type *type = first_type(state);
        tt_assert(type != NULL); /* members of an idle executor have ready cells */
        tt_cell_queues_run(&state->cells, actions, type, e, 1, type->max_rows,
                           tt_instant_max(now, state->merged_at));
        tt_heap_remove(&self->queues.idle, e);
    }
}

static void merged_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                 enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    for (int32_t e = 0; e < self->queues.domain->executor_capacity; e++)
        tt_cell_queues_model_changed(&self->executors[e].cells, model, change);
}

static void merged_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                    enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
    if (change == TT_CHANGE_DRAINING)
        requeue_members(self, &self->executors[executor]);
}

static int32_t merged_max_tasks(const struct tt_policy *self) {
    (void)self;
    return 1; /* the next level needs the results of this one */
}

static void merged_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    for (int32_t e = 0; e < self->queues.domain->executor_capacity; e++) {
        const struct executor_state *state = &self->executors[e];
        int32_t members = 0;
        tt_assert(self->queues.domain->executors[e].queued <= merged_max_tasks(self));
        for (struct tt_list_node *node = state->merged.head.next; node != &state->merged.head;
             node = node->next, members++)
            tt_assert(TT_CONTAINER_OF(node, struct tt_request, link)->policy_word == e + 1);
        tt_assert(members == state->members);
        tt_cell_queues_check(&state->cells);
    }
}

static void merged_free(struct tt_policy *take_self) {
    const struct tt_mechanism *domain = take_self->queues.domain;
    for (int32_t e = 0; take_self->executors && e < domain->executor_capacity; e++)
        tt_cell_queues_fini(&take_self->executors[e].cells);
    free(take_self->executors);
    tt_queued_free(take_self);
}

static enum tt_err lanes_init(struct tt_policy *self, const struct tt_mechanism *domain,
                              bool by_levels) {
    self->executors = calloc((size_t)domain->executor_capacity, sizeof(*self->executors));
    enum tt_err err = self->executors ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t e = 0; !err && e < domain->executor_capacity; e++) {
        tt_list_init(&self->executors[e].merged);
        err = tt_cell_queues_init(&self->executors[e].cells, domain, false);
        self->executors[e].cells.by_levels = by_levels;
    }
    return err;
}

static enum tt_err merged_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                               const int64_t *values, struct tt_error *why) {
    (void)why;
    self->max_requests = values[MAX_REQUESTS];
    self->merge_cell_ns = values[MERGE_CELL];
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_PRIORITY, false);
    return err ? err : lanes_init(self, setup->domain, values[ORDER] == BY_LEVEL);
}

static const struct tt_policy_ops ops = {
    .arrived = merged_arrived,
    .released = merged_released,
    .finished = merged_finished,
    .cancelled = merged_cancelled,
    .decide = merged_decide,
    .max_tasks = merged_max_tasks,
    .next_at = tt_queued_next_at,
    .model_changed = merged_model_changed,
    .executor_changed = merged_executor_changed,
    .check = merged_check,
    .free = merged_free,
};

const struct tt_policy_kind tt_merged_kind = {
    .name = "merged",
    .summary = "merges the graphs of waiting requests; no request joins until all have left",
    .traits = {.granularity = TT_GRANULARITY_CELL,
               .orders_by_priority = true,
               .needs_profiles = true,
               .default_depth = 16},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = merged_init,
    .ops = &ops,
};
