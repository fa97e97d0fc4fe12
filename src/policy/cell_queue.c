#include "policy/cell_queue.h"

#include <stdlib.h>

/* A subgraph's word is the number of its release, its place the executor that holds it, or: */
enum { IN_QUEUE = -1 };

static struct tt_cell_subgraph *subgraph_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_cell_subgraph, link);
}

/* The order of a queue: by priority, who came late behind the others, then by release. */
static bool before(const struct tt_cell_subgraph *a, const struct tt_cell_subgraph *b) {
    if (a->request->priority != b->request->priority)
        return a->request->priority < b->request->priority;
    int64_t late_a = a->request->number & TT_REQUEST_LATE;
    int64_t late_b = b->request->number & TT_REQUEST_LATE;
    return late_a != late_b ? late_a < late_b : a->word < b->word;
}

static struct tt_cell_type *type_of(const struct tt_cell_queues *self,
                                    const struct tt_cell_subgraph *subgraph) {
    return &self->types[subgraph->request->model][subgraph->first_step];
}

enum tt_err tt_cell_queues_init(struct tt_cell_queues *self, const struct tt_mechanism *domain) {
    *self = (struct tt_cell_queues){.domain = domain};
    tt_list_init(&self->active);
    self->types = calloc((size_t)domain->model_capacity, sizeof(struct tt_cell_type *));
    self->held = calloc((size_t)domain->executor_capacity, sizeof(*self->held));
    if (!self->types || !self->held)
        return TT_ERR_NO_MEMORY;
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        tt_list_init(&self->held[e]);
    return TT_OK;
}

void tt_cell_queues_fini(struct tt_cell_queues *self) {
    for (int32_t m = 0; self->types && m < self->domain->model_capacity; m++)
        free(self->types[m]);
    free(self->types);
    free(self->held);
    *self = (struct tt_cell_queues){0};
}

static struct tt_cell_type *types_new(const struct tt_mechanism *domain, int32_t model) {
    const struct tt_step_model *known = domain->models[model];
    size_t steps = (size_t)known->step_count, executors = (size_t)domain->executor_capacity;
    struct tt_cell_type *types = calloc(1, steps * (sizeof(*types) + executors * sizeof(int64_t)));
    int64_t *held_rows = (int64_t *)(types + steps);
    for (int32_t step = 0; types && step < known->step_count; step++) {
        struct tt_cell_type *type = &types[step];
        type->model = model;
        type->first_step = step;
        type->last_step = tt_step_last_of(known, step);
        type->min_rows = known->steps[step].min_rows;
        type->max_rows = tt_step_max_rows(known, step, type->last_step);
        type->held_rows = held_rows + (size_t)step * executors;
        tt_list_init(&type->queue);
    }
    return types;
}

void tt_cell_queues_model_changed(struct tt_cell_queues *self, int32_t model,
                                  enum tt_change change) {
    if (change == TT_CHANGE_GONE) {
        free(self->types[model]);
        self->types[model] = NULL;
    } else if (change == TT_CHANGE_ADDED) {
        self->types[model] = types_new(self->domain, model);
        tt_assert(self->types[model] != NULL); /* like the model itself, long before a request */
    }
}

static int64_t *rows_at(struct tt_cell_type *type, int32_t place) {
    return place == IN_QUEUE ? &type->ready_rows : &type->held_rows[place];
}

/* Counts what is ready of the subgraph, which stands at its place. */
static void count(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph) {
    subgraph->counted = subgraph->ready * subgraph->request->rows;
    *rows_at(type, subgraph->place) += subgraph->counted;
}

static void uncount(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph) {
    *rows_at(type, subgraph->place) -= subgraph->counted;
    subgraph->counted = 0;
}

/* Stands in the queue, or with an executor, before `position`. */
static void put(struct tt_cell_queues *self, struct tt_cell_type *type, int32_t place,
                struct tt_list_node *position, struct tt_cell_subgraph *subgraph) {
    subgraph->place = place;
    tt_list_insert_before(position, &subgraph->link);
    count(type, subgraph);
    if (type->subgraphs++ == 0)
        tt_list_push_back(&self->active, &type->link);
}

static void take(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph) {
    tt_list_remove(&subgraph->link);
    uncount(type, subgraph);
    if (--type->subgraphs == 0)
        tt_list_remove(&type->link);
}

void tt_cell_queues_put(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph) {
    struct tt_cell_type *type = type_of(self, subgraph);
    tt_assert(type->last_step == subgraph->last_step);
    subgraph->word = self->released++;
    struct tt_list_node *position = &type->queue.head;
    while (position->prev != &type->queue.head && before(subgraph, subgraph_at(position->prev)))
        position = position->prev;
    put(self, type, IN_QUEUE, position, subgraph);
}

void tt_cell_queues_forget(struct tt_cell_queues *self, const struct tt_request *request) {
    struct tt_cell_graph *graph = request->graph;
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        if (tt_list_linked(&graph->subgraphs[i].link))
            take(type_of(self, &graph->subgraphs[i]), &graph->subgraphs[i]);
}

/* The next one held, from `node` on, that is of the type and has ready cells. */
static struct tt_list_node *next_held(const struct tt_cell_queues *self, const struct tt_list *held,
                                      struct tt_list_node *node, const struct tt_cell_type *type) {
    while (node != &held->head &&
           (type_of(self, subgraph_at(node)) != type || subgraph_at(node)->ready == 0))
        node = node->next;
    return node;
}

const struct tt_cell_subgraph *tt_cell_queues_first(const struct tt_cell_queues *self,
                                                    const struct tt_cell_type *type,
                                                    int32_t executor) {
    const struct tt_list *held = &self->held[executor];
    struct tt_list_node *mine = next_held(self, held, held->head.next, type);
    struct tt_list_node *theirs = tt_list_first(&type->queue);
    tt_assert(mine != &held->head || theirs);
    if (mine == &held->head)
        return subgraph_at(theirs);
    bool is_mine = !theirs || before(subgraph_at(mine), subgraph_at(theirs));
    return subgraph_at(is_mine ? mine : theirs);
}

/* Takes the subgraph's ready cells into the task, as many as fit. False: it is full. */
static bool add_ready(struct tt_mechanism *actions, const struct tt_task *task, int32_t max_rows,
                      struct tt_cell_subgraph *subgraph) {
    int32_t rows = subgraph->request->rows;
    while (subgraph->ready > 0) {
        if (task->rows + rows > max_rows)
            return false;
        tt_mechanism_run_add_cell(actions, subgraph);
    }
    return true;
}

/* Puts a subgraph of the queue among those held, not before `place`. */
static void hold(struct tt_cell_queues *self, struct tt_cell_type *type, int32_t executor,
                 struct tt_list_node **place, struct tt_cell_subgraph *subgraph) {
    const struct tt_list *held = &self->held[executor];
    while (*place != &held->head && before(subgraph_at(*place), subgraph))
        *place = (*place)->next;
    take(type, subgraph);
    put(self, type, executor, *place, subgraph);
}

/* The task is full of ready cells, those of subgraphs held there and in the queue merged in order;
 * all that have any in it are held there now. */
static void fill(struct tt_cell_queues *self, struct tt_mechanism *actions,
                 struct tt_cell_type *type, const struct tt_task *task) {
    const struct tt_list *held = &self->held[task->executor];
    struct tt_list_node *mine = next_held(self, held, held->head.next, type);
    struct tt_list_node *theirs = type->queue.head.next, *place = held->head.next;
    for (bool fits = true; fits;) {
        bool has_mine = mine != &held->head, has_theirs = theirs != &type->queue.head;
        if (!has_mine && !has_theirs)
            return;
        if (has_mine && (!has_theirs || before(subgraph_at(mine), subgraph_at(theirs)))) {
            fits = add_ready(actions, task, type->max_rows, subgraph_at(mine));
            mine = next_held(self, held, mine->next, type);
            continue;
        }
        struct tt_cell_subgraph *subgraph = subgraph_at(theirs);
        if (task->rows + subgraph->request->rows > type->max_rows)
            return;
        theirs = theirs->next;
        hold(self, type, task->executor, &place, subgraph);
        fits = add_ready(actions, task, type->max_rows, subgraph);
    }
}

const struct tt_task *tt_cell_queues_run(struct tt_cell_queues *self, struct tt_mechanism *actions,
                                         struct tt_cell_type *type, int32_t executor,
                                         int32_t min_rows, int64_t start_at) {
    if (tt_cell_type_rows(type, executor) < (min_rows > 1 ? min_rows : 1))
        return NULL;
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, type->model, type->first_step, type->last_step);
    fill(self, actions, type, task);
    tt_mechanism_run_commit(actions, start_at);
    type->running++;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        if (i > 0 && subgraph == task->items[i - 1].subgraph)
            continue;
        uncount(type, subgraph);
        if (subgraph->ready > 0)
            count(type, subgraph);
        else
            take(type, subgraph); /* all of it is submitted */
    }
    return task;
}

/* Back to its place in the queue, not before `at`; returns where it stands. */
static struct tt_list_node *put_back(struct tt_cell_queues *self, struct tt_cell_type *type,
                                     struct tt_list_node *at, struct tt_cell_subgraph *subgraph) {
    while (at != &type->queue.head && before(subgraph_at(at), subgraph))
        at = at->next;
    put(self, type, IN_QUEUE, at, subgraph);
    return &subgraph->link;
}

void tt_cell_queues_finished(struct tt_cell_queues *self, const struct tt_task *task) {
    struct tt_cell_type *type = &self->types[task->model][task->first_step];
    type->running--;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].ends) /* who had left before was forgotten then */
            tt_cell_queues_forget(self, task->items[i].request);
    /* They come in order: each finds its place behind the one before. */
    struct tt_list_node *at = type->queue.head.next;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        if (!tt_list_linked(&subgraph->link) || subgraph->place == IN_QUEUE)
            continue;
        bool stays = subgraph->in_flight > 0 && subgraph->ready > 0;
        if (stays)
            continue;
        take(type, subgraph);
        if (subgraph->ready > 0) /* else its end was found */
            at = put_back(self, type, at, subgraph);
    }
}

static void check_list(const struct tt_list *list, int32_t place) {
    const struct tt_cell_subgraph *previous = NULL;
    for (struct tt_list_node *node = list->head.next; node != &list->head; node = node->next) {
        const struct tt_cell_subgraph *subgraph = subgraph_at(node);
        tt_assert(subgraph->place == place && subgraph->executor == place);
        tt_assert(!previous || before(previous, subgraph));
        tt_assert(subgraph->ready > 0 && subgraph->waits_for == 0);
        tt_assert(!subgraph->over && !subgraph->request->told);
        tt_assert(subgraph->counted == subgraph->ready * subgraph->request->rows);
        previous = subgraph;
    }
}

static void check_type(const struct tt_cell_queues *self, const struct tt_cell_type *type) {
    int64_t rows = 0;
    int32_t subgraphs = 0;
    check_list(&type->queue, IN_QUEUE);
    for (struct tt_list_node *node = type->queue.head.next; node != &type->queue.head;
         node = node->next, subgraphs++)
        rows += subgraph_at(node)->counted;
    tt_assert(rows == type->ready_rows);
    for (int32_t e = 0; e < self->domain->executor_capacity; e++) {
        const struct tt_list *held = &self->held[e];
        rows = 0;
        for (struct tt_list_node *node = next_held(self, held, held->head.next, type);
             node != &held->head; node = next_held(self, held, node->next, type), subgraphs++)
            rows += subgraph_at(node)->counted;
        tt_assert(rows == type->held_rows[e]);
    }
    tt_assert(subgraphs == type->subgraphs && type->running >= 0);
    tt_assert(tt_list_linked(&type->link) == (subgraphs > 0));
}

void tt_cell_queues_check(const struct tt_cell_queues *self) {
    for (int32_t e = 0; e < self->domain->executor_capacity; e++)
        check_list(&self->held[e], e);
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        for (int32_t s = 0; self->types[m] && s < self->domain->models[m]->step_count; s++)
            check_type(self, &self->types[m][s]);
}
