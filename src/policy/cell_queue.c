#include "policy/cell_queue.h"

#include <stdlib.h>

/* subgraph->word is the number of its release, with TT_REQUEST_LATE set if its request is late.
 * subgraph->holder is the executor that holds it, or: */
enum { IN_QUEUE = -1, IN_NEXT = -2 };

/* Distance in subgraphs of the prefetch when a task returns them to the queue. */
enum { FETCH_AHEAD = 8 };

static struct tt_cell_subgraph *subgraph_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_cell_subgraph, link);
}

/* The order of a queue: by priority, late requests behind the others, then by release. */
static bool before(const struct tt_cell_subgraph *a, const struct tt_cell_subgraph *b) {
    if (a->request->priority != b->request->priority)
        return a->request->priority < b->request->priority;
    return a->word < b->word;
}

static struct tt_cell_type *type_of(const struct tt_cell_queues *self,
                                    const struct tt_cell_subgraph *subgraph) {
    return self->types[subgraph->model][subgraph->first_step];
}

enum tt_err tt_cell_queues_init(struct tt_cell_queues *self, const struct tt_mechanism *domain,
                                bool shares) {
    *self = (struct tt_cell_queues){.domain = domain, .shares = shares};
    tt_list_init(&self->active);
    tt_list_init(&self->next);
    self->types = calloc((size_t)domain->model_capacity, sizeof(struct tt_cell_type **));
    return self->types ? TT_OK : TT_ERR_NO_MEMORY;
}

/* The type is that of a step of another model now, since this one goes. */
static void move_type(const struct tt_cell_queues *self, struct tt_cell_type *type) {
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        for (int32_t s = 0; self->types[m] && self->types[m][s]; s++)
            if (self->types[m][s] == type) {
                type->model = m;
                type->first_step = s;
                type->last_step = tt_step_last_of(self->domain->models[m], s);
                return;
            }
}

static void leave_types(struct tt_cell_queues *self, int32_t model, bool stays) {
    struct tt_cell_type **types = self->types[model];
    self->types[model] = NULL;
    for (int32_t s = 0; types && types[s]; s++) {
        if (--types[s]->models == 0)
            free(types[s]);
        else if (stays && types[s]->model == model)
            move_type(self, types[s]);
    }
    free(types);
}

void tt_cell_queues_fini(struct tt_cell_queues *self) {
    for (int32_t m = 0; self->types && m < self->domain->model_capacity; m++)
        leave_types(self, m, false);
    free(self->types);
    *self = (struct tt_cell_queues){0};
}

static struct tt_cell_type *type_new(const struct tt_mechanism *domain, int32_t model,
                                     int32_t step) {
    const struct tt_step_model *known = domain->models[model];
    size_t executors = (size_t)domain->executor_capacity;
    struct tt_cell_type *type = calloc(1, sizeof(*type) + executors * sizeof(*type->held));
    if (!type)
        return NULL;
    type->model = model;
    type->first_step = step;
    type->last_step = tt_step_last_of(known, step);
    type->min_rows = known->steps[step].min_rows;
    type->max_rows = tt_step_max_rows(known, step, type->last_step);
    type->held = (struct tt_cell_holding *)(type + 1);
    tt_list_init(&type->queue);
    for (size_t e = 0; e < executors; e++)
        tt_list_init(&type->held[e].subgraphs);
    return type;
}

/* False within a row of steps that runs as one: no cell begins there, so nothing is shared. */
static bool begins_cell(const struct tt_step_model *model, int32_t step) {
    int32_t first = tt_step_block_of(model, step).first;
    return first < 0 || first == step;
}

/* C1: the type of equal cells that a model has already. */
static struct tt_cell_type *type_shared(const struct tt_cell_queues *self, int32_t model,
                                        int32_t step) {
    const struct tt_step_model *known = self->domain->models[model];
    int32_t last = tt_step_last_of(known, step);
    if (!self->shares || known->steps[step].cell == 0 || !begins_cell(known, step))
        return NULL;
    for (int32_t m = 0; m < self->domain->model_capacity; m++) {
        const struct tt_step_model *other = self->domain->models[m];
        for (int32_t s = 0; m != model && self->types[m] && s < other->step_count;
             s = tt_step_last_of(other, s) + 1)
            if (tt_step_same_cell(known, step, last, other, s, tt_step_last_of(other, s)))
                return self->types[m][s];
    }
    return NULL;
}

static struct tt_cell_type **types_new(const struct tt_cell_queues *self, int32_t model) {
    int32_t steps = self->domain->models[model]->step_count;
    struct tt_cell_type **types = calloc((size_t)steps + 1, sizeof(struct tt_cell_type *));
    for (int32_t s = 0; types && s < steps; s++) {
        types[s] = type_shared(self, model, s);
        if (!types[s])
            types[s] = type_new(self->domain, model, s);
        tt_assert(types[s] != NULL); /* the model is added before its first request */
        types[s]->models++;
    }
    return types;
}

void tt_cell_queues_model_changed(struct tt_cell_queues *self, int32_t model,
                                  enum tt_change change) {
    if (change == TT_CHANGE_GONE) {
        leave_types(self, model, true);
    } else if (change == TT_CHANGE_ADDED) {
        self->types[model] = types_new(self, model);
        tt_assert(self->types[model] != NULL);
    }
}

static int64_t *rows_at(struct tt_cell_type *type, int32_t place) {
    return place == IN_QUEUE ? &type->ready_rows : &type->held[place].rows;
}

/* Sets the number of rows of the subgraph that count as ready at its place. */
static void count(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph, int32_t rows) {
    if (rows == subgraph->counted_rows)
        return; /* a chain that continues */
    *rows_at(type, subgraph->holder) += rows - subgraph->counted_rows;
    subgraph->counted_rows = rows;
}

/* Inserts the subgraph before `position`, in the queue or in an executor's list. */
static void put(struct tt_cell_queues *self, struct tt_cell_type *type, int32_t place,
                struct tt_list_node *position, struct tt_cell_subgraph *subgraph, int32_t rows) {
    subgraph->holder = place;
    tt_list_insert_before(position, &subgraph->link);
    count(type, subgraph, rows);
    if (type->subgraphs++ == 0)
        tt_list_push_back(&self->active, &type->link);
}

static void take(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph) {
    tt_assert(type->subgraphs > 0);
    tt_list_remove(&subgraph->link);
    count(type, subgraph, 0);
    if (--type->subgraphs == 0)
        tt_list_remove(&type->link);
}

/* By levels: its ready cells are of the next one. */
static void put_apart(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph) {
    subgraph->holder = IN_NEXT;
    tt_list_push_back(&self->next, &subgraph->link);
}

static void put_in_queue(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph) {
    struct tt_cell_type *type = type_of(self, subgraph);
    tt_assert(type->last_step - type->first_step == subgraph->last_step - subgraph->first_step);
    tt_assert(subgraph->ready > 0);
    subgraph->word = self->released++ | (subgraph->request->number & TT_REQUEST_LATE);
    struct tt_list_node *position = &type->queue.head;
    while (position->prev != &type->queue.head && before(subgraph, subgraph_at(position->prev)))
        position = position->prev;
    put(self, type, IN_QUEUE, position, subgraph, subgraph->ready * subgraph->rows);
}

void tt_cell_queues_put(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph) {
    if (self->by_levels)
        put_apart(self, subgraph);
    else
        put_in_queue(self, subgraph);
}

void tt_cell_queues_begin_level(struct tt_cell_queues *self) {
    tt_assert(self->by_levels && tt_list_empty(&self->active));
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->next))) {
        tt_list_remove(node);
        put_in_queue(self, subgraph_at(node));
    }
}

void tt_cell_queues_forget(struct tt_cell_queues *self, const struct tt_request *request) {
    struct tt_cell_graph *graph = request->graph;
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        if (!tt_list_linked(&graph->subgraphs[i].link))
            continue;
        else if (graph->subgraphs[i].holder == IN_NEXT)
            tt_list_remove(&graph->subgraphs[i].link);
        else
            take(type_of(self, &graph->subgraphs[i]), &graph->subgraphs[i]);
}

const struct tt_cell_subgraph *tt_cell_type_first(const struct tt_cell_type *self,
                                                  int32_t executor) {
    struct tt_list_node *mine = tt_list_first(&self->held[executor].subgraphs);
    struct tt_list_node *theirs = tt_list_first(&self->queue);
    tt_assert(mine || theirs);
    bool is_mine = mine && (!theirs || before(subgraph_at(mine), subgraph_at(theirs)));
    return subgraph_at(is_mine ? mine : theirs);
}

struct tt_cell_cursor tt_cell_type_cursor(const struct tt_cell_type *self, int32_t executor) {
    const struct tt_list *held = &self->held[executor].subgraphs;
    return (struct tt_cell_cursor){.held = held,
                                   .queue = &self->queue,
                                   .mine = held->head.next,
                                   .theirs = self->queue.head.next};
}

const struct tt_cell_subgraph *tt_cell_cursor_next(struct tt_cell_cursor *self) {
    bool has_mine = self->mine != &self->held->head,
         has_theirs = self->theirs != &self->queue->head;
    if (!has_mine && !has_theirs)
        return NULL;
    bool is_mine =
        has_mine && (!has_theirs || before(subgraph_at(self->mine), subgraph_at(self->theirs)));
    struct tt_list_node **from = is_mine ? &self->mine : &self->theirs;
    const struct tt_cell_subgraph *subgraph = subgraph_at(*from);
    *from = (*from)->next;
    return subgraph;
}

/* Adds as many of the subgraph's cells that count as ready to the task as fit. False: the task is
 * full. */
static bool add_ready(struct tt_mechanism *actions, const struct tt_task *task, int32_t max_rows,
                      struct tt_cell_subgraph *subgraph) {
    int32_t rows = subgraph->rows, left = subgraph->counted_rows;
    do {
        if (task->rows + rows > max_rows)
            return false;
        tt_mechanism_run_add_cell(actions, subgraph);
        left -= rows;
    } while (left > 0);
    return true;
}

/* Fills the task with ready cells: held subgraphs and the queue, merged in order. Each subgraph
 * that has cells in the task is held by the executor afterwards. */
static void fill(struct tt_cell_queues *self, struct tt_mechanism *actions,
                 struct tt_cell_type *type, int32_t max_rows, const struct tt_task *task) {
    const struct tt_list *held = &type->held[task->executor].subgraphs;
    struct tt_list_node *mine = held->head.next, *theirs = type->queue.head.next;
    for (bool fits = true; fits;) {
        bool has_mine = mine != &held->head, has_theirs = theirs != &type->queue.head;
        if (!has_mine && !has_theirs)
            return;
        struct tt_cell_subgraph *subgraph = subgraph_at(has_mine ? mine : theirs);
        bool is_mine = has_mine && (!has_theirs || before(subgraph, subgraph_at(theirs)));
        if (is_mine) {
            mine = mine->next;
        } else {
            subgraph = subgraph_at(theirs);
            if (task->rows + subgraph->rows > max_rows)
                return;
            theirs = theirs->next;
            int32_t rows = subgraph->counted_rows;
            take(type, subgraph);
            /* Every subgraph before `mine` precedes it in order. */
            put(self, type, task->executor, mine, subgraph, rows);
        }
        fits = add_ready(actions, task, max_rows, subgraph);
    }
}

const struct tt_task *tt_cell_queues_run(struct tt_cell_queues *self, struct tt_mechanism *actions,
                                         struct tt_cell_type *type, int32_t executor,
                                         int32_t min_rows, int32_t max_rows, int64_t start_at) {
    tt_assert(max_rows <= type->max_rows);
    if (tt_cell_type_rows(type, executor) < (min_rows > 1 ? min_rows : 1))
        return NULL;
    const struct tt_cell_subgraph *leads = tt_cell_type_first(type, executor);
    struct tt_task *task = tt_mechanism_run_begin(actions, executor, leads->model,
                                                  leads->first_step, leads->last_step);
    fill(self, actions, type, max_rows, task);
    tt_mechanism_run_commit(actions, start_at);
    type->running++;
    const struct tt_task_item *items = task->items;
    for (int32_t i = 0, all = task->count; i < all; i++) {
        struct tt_cell_subgraph *subgraph = items[i].subgraph;
        int32_t rows = subgraph->rows;
        /* By levels the cells that this task makes ready do not count. */
        int32_t left = self->by_levels ? subgraph->counted_rows - rows : subgraph->ready * rows;
        if (left == subgraph->counted_rows)
            continue; /* a chain that continues, or a subgraph of an item before */
        if (left > 0)
            count(type, subgraph, left);
        else
            take(type, subgraph);
    }
    return task;
}

/* Returns the subgraph to its position in the queue, at or behind `at`; returns its new position.
 */
static struct tt_list_node *put_back(struct tt_cell_queues *self, struct tt_cell_type *type,
                                     struct tt_list_node *at, struct tt_cell_subgraph *subgraph,
                                     int32_t rows) {
    while (at != &type->queue.head && before(subgraph_at(at), subgraph))
        at = at->next;
    put(self, type, IN_QUEUE, at, subgraph, rows);
    return &subgraph->link;
}

/* By levels: this task made cells of it ready. */
static bool waits_for_level(const struct tt_cell_queues *self,
                            const struct tt_cell_subgraph *subgraph) {
    const struct tt_request *request = subgraph->request;
    return self->by_levels && subgraph->ready > 0 && !subgraph->over && !request->reported &&
           request->state != TT_REQUEST_LEAVING;
}

void tt_cell_queues_finished(struct tt_cell_queues *self, const struct tt_task *task) {
    struct tt_cell_type *type = self->types[task->model][task->first_step];
    type->running--;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].ends) /* a request that left earlier is already forgotten */
            tt_cell_queues_forget(self, task->items[i].request);
    /* The items are in order, so each search begins at the position of the one before. */
    struct tt_list_node *at = type->queue.head.next;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        if (!tt_list_linked(&subgraph->link) && waits_for_level(self, subgraph))
            put_apart(self, subgraph);
        if (!tt_list_linked(&subgraph->link) || subgraph->holder < 0)
            continue;
        bool stays = subgraph->in_flight > 0 && subgraph->ready > 0;
        if (stays)
            continue;
        if (i + FETCH_AHEAD < task->count)
            tt_line_fetch(&task->items[i + FETCH_AHEAD].subgraph->rows);
        int32_t rows = self->by_levels ? subgraph->counted_rows : subgraph->ready * subgraph->rows;
        take(type, subgraph);
        if (subgraph->ready > 0) /* otherwise its end was found */
            at = put_back(self, type, at, subgraph, rows);
    }
}

/* Returns the rows that count as ready in the list; adds the number of its subgraphs to
 * `subgraphs`. */
static int64_t check_list(const struct tt_list *list, int32_t place, bool by_levels,
                          int32_t *subgraphs) {
    const struct tt_cell_subgraph *previous = NULL;
    int64_t rows = 0;
    for (struct tt_list_node *node = list->head.next; node != &list->head; node = node->next) {
        const struct tt_cell_subgraph *subgraph = subgraph_at(node);
        tt_assert(subgraph->holder == place && subgraph->executor == place);
        tt_assert(!previous || before(previous, subgraph));
        tt_assert(subgraph->ready > 0 && subgraph->waits_for == 0);
        tt_assert(!subgraph->over && !subgraph->request->reported);
        tt_assert(subgraph->counted_rows > 0);
        tt_assert(subgraph->counted_rows <= subgraph->ready * subgraph->rows);
        tt_assert(by_levels || subgraph->counted_rows == subgraph->ready * subgraph->rows);
        previous = subgraph;
        rows += subgraph->counted_rows;
        ++*subgraphs;
    }
    return rows;
}

static void check_type(const struct tt_cell_queues *self, const struct tt_cell_type *type) {
    int32_t subgraphs = 0;
    int64_t rows = check_list(&type->queue, IN_QUEUE, self->by_levels, &subgraphs);
    tt_assert(rows == type->ready_rows);
    for (int32_t e = 0; e < self->domain->executor_capacity; e++) {
        rows = check_list(&type->held[e].subgraphs, e, self->by_levels, &subgraphs);
        tt_assert(rows == type->held[e].rows);
    }
    tt_assert(subgraphs == type->subgraphs && type->running >= 0);
    tt_assert(tt_list_linked(&type->link) == (subgraphs > 0));
}

void tt_cell_queues_check(const struct tt_cell_queues *self) {
    tt_assert(self->by_levels || tt_list_empty(&self->next));
    const struct tt_list *next = &self->next;
    for (struct tt_list_node *node = next->head.next; node != &next->head; node = node->next) {
        const struct tt_cell_subgraph *subgraph = subgraph_at(node);
        tt_assert(subgraph->holder == IN_NEXT && subgraph->counted_rows == 0);
        tt_assert(subgraph->ready > 0 && !subgraph->over && !subgraph->request->reported);
    }
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        for (int32_t s = 0; self->types[m] && s < self->domain->models[m]->step_count; s++)
            check_type(self, self->types[m][s]);
}
