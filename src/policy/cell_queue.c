#include "policy/cell_queue.h"

#include <stdlib.h>

/* A subgraph's word: the number of its release, and whether it stands in its type's queue. */
enum { IN_QUEUE = 1 };

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
    tt_list_init(&self->ready);
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

static struct tt_cell_type *types_new(const struct tt_step_model *known, int32_t model) {
    struct tt_cell_type *types = calloc((size_t)known->step_count, sizeof(*types));
    for (int32_t step = 0; types && step < known->step_count; step++) {
        struct tt_cell_type *type = &types[step];
        struct tt_step_block block = tt_step_block_of(known, step);
        type->model = model;
        type->first_step = step;
        type->last_step = block.first < 0 ? step : block.last;
        type->max_rows = tt_step_max_rows(known, step, type->last_step);
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
        self->types[model] = types_new(self->domain->models[model], model);
        tt_assert(self->types[model] != NULL); /* like the model itself, long before a request */
    }
}

static int64_t ready_rows(const struct tt_cell_subgraph *subgraph) {
    return (int64_t)subgraph->ready * subgraph->request->rows;
}

/* Stands in its type's queue before `position`. */
static void enqueue(struct tt_cell_queues *self, struct tt_cell_type *type,
                    struct tt_list_node *position, struct tt_cell_subgraph *subgraph) {
    subgraph->word |= IN_QUEUE;
    tt_list_insert_before(position, &subgraph->link);
    type->ready_rows += ready_rows(subgraph);
    if (!tt_list_linked(&type->link))
        tt_list_push_back(&self->ready, &type->link);
}

static void dequeue(struct tt_cell_type *type, struct tt_cell_subgraph *subgraph) {
    tt_list_remove(&subgraph->link);
    if (!(subgraph->word & IN_QUEUE))
        return;
    subgraph->word &= ~(int64_t)IN_QUEUE;
    type->ready_rows -= ready_rows(subgraph);
    if (tt_list_empty(&type->queue))
        tt_list_remove(&type->link);
}

void tt_cell_queues_put(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph) {
    struct tt_cell_type *type = type_of(self, subgraph);
    tt_assert(type->last_step == subgraph->last_step);
    subgraph->word = self->released++ * 2;
    struct tt_list_node *position = &type->queue.head;
    while (position->prev != &type->queue.head && before(subgraph, subgraph_at(position->prev)))
        position = position->prev;
    enqueue(self, type, position, subgraph);
}

void tt_cell_queues_forget(struct tt_cell_queues *self, const struct tt_request *request) {
    struct tt_cell_graph *graph = request->graph;
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        if (tt_list_linked(&graph->subgraphs[i].link))
            dequeue(type_of(self, &graph->subgraphs[i]), &graph->subgraphs[i]);
}

struct tt_cell_subgraph *tt_cell_type_first(const struct tt_cell_type *self) {
    struct tt_list_node *node = tt_list_first(&self->queue);
    return node ? subgraph_at(node) : NULL;
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

/* The task is full of ready cells, those of subgraphs held there and in the queue merged in order;
 * all that have any in it are held there now. */
static void fill(const struct tt_cell_queues *self, struct tt_mechanism *actions,
                 struct tt_cell_type *type, const struct tt_task *task) {
    struct tt_list *held = &self->held[task->executor];
    struct tt_list_node *mine = held->head.next, *theirs = type->queue.head.next;
    for (bool fits = true; fits;) {
        bool has_mine = mine != &held->head, has_theirs = theirs != &type->queue.head;
        if (!has_mine && !has_theirs)
            return;
        if (has_mine && (!has_theirs || before(subgraph_at(mine), subgraph_at(theirs)))) {
            fits = add_ready(actions, task, type->max_rows, subgraph_at(mine));
            mine = mine->next;
            continue;
        }
        struct tt_cell_subgraph *subgraph = subgraph_at(theirs);
        if (task->rows + subgraph->request->rows > type->max_rows)
            return;
        theirs = theirs->next;
        dequeue(type, subgraph);
        tt_list_insert_before(mine, &subgraph->link);
        fits = add_ready(actions, task, type->max_rows, subgraph);
    }
}

/* So many rows, at least, would the next task have. */
static bool has_rows(const struct tt_cell_queues *self, const struct tt_cell_type *type,
                     int32_t executor, int32_t rows) {
    int64_t found = type->ready_rows;
    const struct tt_list *held = &self->held[executor];
    for (struct tt_list_node *node = held->head.next; node != &held->head && found < rows;
         node = node->next)
        found += ready_rows(subgraph_at(node));
    return found >= rows;
}

const struct tt_task *tt_cell_queues_run(struct tt_cell_queues *self, struct tt_mechanism *actions,
                                         struct tt_cell_type *type, int32_t executor,
                                         int32_t min_rows, int64_t start_at) {
    if (!has_rows(self, type, executor, min_rows > 1 ? min_rows : 1))
        return NULL;
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, type->model, type->first_step, type->last_step);
    fill(self, actions, type, task);
    tt_mechanism_run_commit(actions, start_at);
    type->running++;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        if (subgraph->ready == 0 && tt_list_linked(&subgraph->link))
            tt_list_remove(&subgraph->link); /* all of it is submitted */
    }
    return task;
}

/* Back to its place in the queue, not before `at`; returns where it stands. */
static struct tt_list_node *put_back(struct tt_cell_queues *self, struct tt_cell_type *type,
                                     struct tt_list_node *at, struct tt_cell_subgraph *subgraph) {
    while (at != &type->queue.head && before(subgraph_at(at), subgraph))
        at = at->next;
    enqueue(self, type, at, subgraph);
    return &subgraph->link;
}

void tt_cell_queues_finished(struct tt_cell_queues *self, const struct tt_task *task) {
    struct tt_cell_type *type = &self->types[task->model][task->first_step];
    type->running--;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_LEAVING)
            tt_cell_queues_forget(self, task->items[i].request);
    /* They come in order: each finds its place behind the one before. */
    struct tt_list_node *at = type->queue.head.next;
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_cell_subgraph *subgraph = task->items[i].subgraph;
        bool held = tt_list_linked(&subgraph->link) && !(subgraph->word & IN_QUEUE);
        if (!held || subgraph->in_flight > 0)
            continue;
        dequeue(type, subgraph);
        if (subgraph->ready > 0) /* else its end was found */
            at = put_back(self, type, at, subgraph);
    }
}

static void check_type(const struct tt_cell_type *type) {
    int64_t rows = 0;
    const struct tt_cell_subgraph *previous = NULL;
    tt_assert(type->running >= 0);
    for (struct tt_list_node *node = type->queue.head.next; node != &type->queue.head;
         node = node->next) {
        const struct tt_cell_subgraph *subgraph = subgraph_at(node);
        tt_assert(subgraph->word & IN_QUEUE);
        tt_assert(!previous || before(previous, subgraph));
        tt_assert(subgraph->in_flight == 0 && subgraph->ready > 0 && subgraph->waits_for == 0);
        tt_assert(!subgraph->over && !subgraph->request->told);
        previous = subgraph;
        rows += ready_rows(subgraph);
    }
    tt_assert(rows == type->ready_rows);
    tt_assert(tt_list_linked(&type->link) == (rows > 0));
}

void tt_cell_queues_check(const struct tt_cell_queues *self) {
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        for (int32_t s = 0; self->types[m] && s < self->domain->models[m]->step_count; s++)
            check_type(&self->types[m][s]);
    for (int32_t e = 0; e < self->domain->executor_capacity; e++) {
        const struct tt_cell_subgraph *previous = NULL;
        const struct tt_list *held = &self->held[e];
        for (struct tt_list_node *node = held->head.next; node != &held->head; node = node->next) {
            const struct tt_cell_subgraph *subgraph = subgraph_at(node);
            tt_assert(subgraph->executor == e && !(subgraph->word & IN_QUEUE));
            tt_assert(!previous || before(previous, subgraph));
            tt_assert(subgraph->ready > 0 || subgraph->over);
            tt_assert(!subgraph->request->told);
            previous = subgraph;
        }
    }
}
