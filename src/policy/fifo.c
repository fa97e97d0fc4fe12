#include "policy/fifo.h"

#include "base/instant.h"
#include "policy/idle.h"

#include <stdlib.h>

static bool before(enum tt_fifo_order order, const struct tt_request *a,
                   const struct tt_request *b) {
    if (order == TT_FIFO_PRIORITY && a->priority != b->priority)
        return a->priority < b->priority;
    if (order == TT_FIFO_DEADLINE && a->deadline_at != b->deadline_at)
        return a->deadline_at < b->deadline_at;
    return a->number < b->number;
}

void tt_fifo_init(struct tt_fifo *self, enum tt_fifo_order order,
                  const struct tt_late_order *late) {
    *self = (struct tt_fifo){.order = order, .late = late, .late_root = TT_LATE_NONE};
    tt_list_init(&self->list);
}

static struct tt_request *request_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_request, link);
}

/* Groups stand in order of their numbers. */
static int32_t group_of(const struct tt_fifo *self, const struct tt_request *request) {
    int32_t level = self->order == TT_FIFO_PRIORITY ? request->priority : 0;
    if (level < 0)
        return 0;
    if (level >= TT_FIFO_GROUPS / 2 - 1)
        return TT_FIFO_GROUPS - 1;
    return 2 * level + 1 + ((request->number & TT_REQUEST_LATE) != 0);
}

/* True if the group holds late requests of one level only, which the tree then has in order. */
static bool is_late_group(int32_t group) { return group > 0 && group % 2 == 0; }

/* The last node of the groups up to `group`; the head of the list: none. */
static struct tt_list_node *last_of(struct tt_fifo *self, int32_t group) {
    uint64_t up_to = self->groups & (UINT64_MAX >> (TT_FIFO_GROUPS - 1 - group));
    return up_to ? self->tails[TT_FIFO_GROUPS - 1 - __builtin_clzll(up_to)] : &self->list.head;
}

/* The node behind which the request belongs, which is not the first. */
static struct tt_list_node *place_of(struct tt_fifo *self, const struct tt_request *request,
                                     int32_t group) {
    struct tt_list_node *node = last_of(self, group);
    while (node != &self->list.head && before(self->order, request, request_at(node)))
        node = node->prev;
    return node;
}

/* Adds the late request to the tree. Returns the node behind which it belongs. */
static struct tt_list_node *place_late(struct tt_fifo *self, const struct tt_request *request,
                                       int32_t group) {
    struct tt_request *last = tt_late_order_insert(self->late, &self->late_root,
                                                   self->order == TT_FIFO_PRIORITY, request);
    if (last && group_of(self, last) == group)
        return &last->link;
    return last_of(self, group - 1); /* it is the first of its group */
}

void tt_fifo_insert(struct tt_fifo *self, struct tt_request *request) {
    int32_t group = group_of(self, request);
    uint64_t bit = UINT64_C(1) << group;
    struct tt_request *first = tt_fifo_first(self);
    struct tt_list_node *place;
    if (is_late_group(group))
        place = place_late(self, request, group);
    else if (first && before(self->order, request, first))
        place = &self->list.head;
    else
        place = place_of(self, request, group);
    if (!(self->groups & bit) || self->tails[group] == place)
        self->tails[group] = &request->link;
    self->groups |= bit;
    tt_list_insert_before(place->next, &request->link);
    self->count++;
    self->rows += request->rows;
}

void tt_fifo_remove(struct tt_fifo *self, struct tt_request *request) {
    tt_assert(self->count > 0);
    int32_t group = group_of(self, request);
    if (self->tails[group] == &request->link) {
        struct tt_list_node *prev = request->link.prev;
        if (prev != &self->list.head && group_of(self, request_at(prev)) == group)
            self->tails[group] = prev;
        else
            self->groups &= ~(UINT64_C(1) << group);
    }
    if (is_late_group(group))
        tt_late_order_remove(self->late, &self->late_root, self->order == TT_FIFO_PRIORITY,
                             request);
    tt_list_remove(&request->link);
    self->count--;
    self->rows -= request->rows;
}

void tt_fifo_check(const struct tt_fifo *self, int32_t model) {
    int32_t count = 0;
    int64_t rows = 0;
    const struct tt_request *previous = NULL, *previous_late = NULL;
    bool by_priority = self->order == TT_FIFO_PRIORITY;
    uint64_t groups = 0;
    for (struct tt_request *r = tt_fifo_first(self); r; r = tt_fifo_next(self, r)) {
        tt_assert(r->state == TT_REQUEST_QUEUED);
        tt_assert(r->model == model);
        tt_assert(!previous || before(self->order, previous, r));
        previous = r;
        groups |= UINT64_C(1) << group_of(self, r);
        const struct tt_request *after = tt_fifo_next(self, r);
        tt_assert(!after || group_of(self, r) <= group_of(self, after));
        if (!after || group_of(self, r) != group_of(self, after))
            tt_assert(self->tails[group_of(self, r)] == &r->link);
        if (is_late_group(group_of(self, r))) {
            tt_late_order_check(self->late, self->late_root, by_priority, previous_late, r);
            previous_late = r;
        }
        count++;
        rows += r->rows;
    }
    if (self->late_root != TT_LATE_NONE)
        tt_late_order_check(self->late, self->late_root, by_priority, previous_late, NULL);
    tt_assert(groups == self->groups);
    tt_assert(count == self->count);
    tt_assert(rows == self->rows);
}

enum tt_err tt_queues_init(struct tt_queues *self, const struct tt_policy_setup *setup,
                           enum tt_fifo_order order, bool drops) {
    const struct tt_mechanism *domain = setup->domain;
    *self = (struct tt_queues){.domain = domain,
                               .delay = {setup->d_ctrl_ns, setup->d_data_ns},
                               .drops = drops,
                               .in_time = drops && domain->overloads != NULL};
    self->fifos = calloc((size_t)domain->model_capacity, sizeof(*self->fifos));
    enum tt_err err = self->fifos ? TT_OK : TT_ERR_NO_MEMORY;
    if (!err)
        err = tt_late_order_init(&self->late, domain);
    if (!err)
        err = tt_heap_init(&self->heads, domain->model_capacity);
    if (!err)
        err = tt_heap_init(&self->hopeless, domain->model_capacity);
    if (!err)
        err = tt_heap_init(&self->idle, domain->executor_capacity);
    if (err) {
        tt_queues_fini(self);
        return err;
    }
    for (int32_t m = 0; m < domain->model_capacity; m++)
        tt_fifo_init(&self->fifos[m], order, &self->late);
    return TT_OK;
}

void tt_queues_fini(struct tt_queues *self) {
    free(self->fifos);
    tt_late_order_fini(&self->late);
    tt_heap_fini(&self->heads);
    tt_heap_fini(&self->hopeless);
    tt_heap_fini(&self->idle);
    *self = (struct tt_queues){0};
}

int64_t tt_queues_duration(const struct tt_queues *self, int32_t model, int32_t rows,
                           int32_t length) {
    return tt_network_delay_of(self->delay, rows) +
           tt_profile_tail(self->domain->models[model]->whole, rows, length);
}

/* The last instant at which the request, alone, may start and be in time; TT_NEVER: any. */
static int64_t latest_alone(const struct tt_queues *self, const struct tt_request *request) {
    const struct tt_step_model *model = self->domain->models[request->model];
    int64_t first_by_at = tt_request_first_by(request, &model->tokens);
    int64_t latest_at = tt_step_latest(model, request->deadline_at, first_by_at, request->rows,
                                       request->length, self->waiting == 1);
    return latest_at == TT_NEVER ? TT_NEVER
                                 : latest_at - tt_network_delay_of(self->delay, request->rows);
}

/* The same for the head of a queue, NULL: it is empty, if hopeless requests are dropped. */
static int64_t hopeless_after(const struct tt_queues *self, const struct tt_request *head) {
    return self->drops && head ? latest_alone(self, head) : TT_NEVER;
}

/* Updates the heaps after the head of the queue has changed. */
static void head_changed(struct tt_queues *self, int32_t model) {
    const struct tt_request *head = tt_fifo_first(&self->fifos[model]);
    if (head)
        tt_heap_set(&self->heads, model, head->number, model);
    else
        tt_heap_remove(&self->heads, model);
    int64_t latest_at = hopeless_after(self, head);
    if (latest_at != TT_NEVER)
        tt_heap_set(&self->hopeless, model, latest_at, model);
    else
        tt_heap_remove(&self->hopeless, model);
}

/* A single request waits now, or no longer: what is hopeless changes for at most two heads. */
static void find_hopeless_again(struct tt_queues *self) {
    for (int32_t i = 0; self->drops && i < self->heads.count; i++)
        head_changed(self, self->heads.entries[i].id);
}

void tt_queues_put(struct tt_queues *self, struct tt_request *request) {
    tt_assert(request->state == TT_REQUEST_QUEUED);
    struct tt_fifo *fifo = &self->fifos[request->model];
    tt_fifo_insert(fifo, request);
    self->waiting++;
    if (tt_fifo_first(fifo) == request)
        head_changed(self, request->model);
    if (self->waiting == 2)
        find_hopeless_again(self);
}

void tt_queues_take(struct tt_queues *self, struct tt_request *request) {
    struct tt_fifo *fifo = &self->fifos[request->model];
    bool was_head = tt_fifo_first(fifo) == request;
    tt_fifo_remove(fifo, request);
    self->waiting--;
    if (was_head)
        head_changed(self, request->model);
    if (self->waiting == 1)
        find_hopeless_again(self);
}

void tt_queues_executor_freed(struct tt_queues *self, int32_t executor) {
    tt_idle_freed(&self->idle, self->domain, executor, self->ahead);
}

void tt_queues_finished(struct tt_queues *self, const struct tt_task *task) {
    /* Backwards: requests that return are older than those that wait, so each insertion at the very
     * front is O(1). */
    for (int32_t i = task->count - 1; i >= 0; i--)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            tt_queues_put(self, task->items[i].request);
    tt_queues_executor_freed(self, task->executor);
}

void tt_queues_executor_changed(struct tt_queues *self, int32_t executor, enum tt_change change) {
    tt_idle_changed(&self->idle, self->domain, executor, self->ahead, change);
    if (!self->domain->delays)
        return;
    self->delay = tt_mechanism_longest_delay(self->domain, self->delay);
    for (int32_t m = 0; m < self->domain->model_capacity; m++)
        if (self->domain->models[m])
            head_changed(self, m); /* it becomes hopeless at another instant */
}

void tt_queues_model_changed(struct tt_queues *self, int32_t model, enum tt_change change) {
    if (change == TT_CHANGE_BELIEF)
        head_changed(self, model); /* it becomes hopeless at another instant */
    tt_assert(change != TT_CHANGE_GONE || self->fifos[model].count == 0);
}

int32_t tt_queues_drop_one(struct tt_queues *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *top = tt_heap_top(&self->hopeless);
    if (!top || top->key >= now)
        return -1;
    int32_t model = top->id;
    struct tt_request *head = tt_fifo_first(&self->fifos[model]);
    tt_queues_take(self, head);
    tt_mechanism_drop(actions, head, TT_DROP_DEADLINE);
    return model;
}

void tt_queues_drop_hopeless(struct tt_queues *self, int64_t now, struct tt_mechanism *actions) {
    while (tt_queues_drop_one(self, now, actions) >= 0)
        continue;
}

int64_t tt_queues_hopeless_at(const struct tt_queues *self) {
    return tt_instant_add(tt_heap_next_key(&self->hopeless), 1);
}

struct tt_batch tt_queues_prefix(const struct tt_queues *self, const struct tt_fifo *fifo,
                                 struct tt_request *first, int64_t start_at, int32_t limit) {
    const struct tt_step_model *model = self->domain->models[first->model];
    int32_t max_rows = limit < model->max_batch ? limit : model->max_batch;
    struct tt_batch batch = {
        .first = first, .model = first->model, .deadline_at = TT_NEVER, .latest_at = TT_NEVER};
    for (struct tt_request *r = first; r && r->step == first->step; r = tt_fifo_next(fifo, r)) {
        struct tt_batch grown = batch;
        grown.count++;
        grown.rows += r->rows;
        if (grown.rows > max_rows)
            break;
        if (r->length > grown.length)
            grown.length = r->length;
        grown.deadline_at = tt_instant_min(batch.deadline_at, r->deadline_at);
        if (grown.deadline_at != TT_NEVER) {
            grown.latest_at = grown.deadline_at -
                              tt_queues_duration(self, first->model, grown.rows, grown.length);
            if (grown.latest_at < start_at && self->waiting == 1) /* it is not hopeless yet */
                grown.latest_at = latest_alone(self, r);
            if (grown.latest_at < start_at)
                break;
        }
        batch = grown;
    }
    return batch;
}

/* Adds the batch's requests to the task and takes them from the queue. Requests of several groups,
 * or late ones, leave one by one. */
static void run_each(struct tt_fifo *fifo, struct tt_mechanism *actions,
                     const struct tt_batch *batch) {
    struct tt_request *request = batch->first;
    for (int32_t i = 0; i < batch->count; i++) {
        struct tt_request *next = tt_fifo_next(fifo, request);
        tt_fifo_remove(fifo, request);
        tt_mechanism_run_add(actions, request);
        request = next;
    }
}

/* The same where all requests of the queue are of one group, and not late: they leave the list as
 * one piece. */
static void run_piece(struct tt_fifo *fifo, struct tt_mechanism *actions,
                      const struct tt_batch *batch) {
    struct tt_list_node *node = &batch->first->link, *before = node->prev;
    for (int32_t i = 0; i < batch->count; i++) {
        struct tt_list_node *next = node->next;
        node->next = node->prev = NULL;
        tt_mechanism_run_add(actions, request_at(node));
        node = next;
    }
    before->next = node;
    node->prev = before;
    fifo->count -= batch->count;
    fifo->rows -= batch->rows;
    if (fifo->count == 0)
        fifo->groups = 0;
    else if (node == &fifo->list.head)
        fifo->tails[__builtin_ctzll(fifo->groups)] = before;
}

void tt_queues_run(struct tt_queues *self, struct tt_mechanism *actions, int32_t executor,
                   const struct tt_batch *batch) {
    struct tt_fifo *fifo = &self->fifos[batch->model];
    bool was_head = tt_fifo_first(fifo) == batch->first;
    tt_assert(batch->count > 0);
    tt_mechanism_run_begin(actions, executor, batch->model, batch->first->step,
                           self->domain->models[batch->model]->step_count - 1);
    if (fifo->late_root == TT_LATE_NONE && (fifo->groups & (fifo->groups - 1)) == 0)
        run_piece(fifo, actions, batch);
    else
        run_each(fifo, actions, batch);
    self->waiting -= batch->count;
    if (was_head)
        head_changed(self, batch->model);
    if (self->waiting == 1)
        find_hopeless_again(self);
    tt_heap_remove(&self->idle, executor);
    tt_mechanism_run_commit(actions,
                            tt_queues_arrives_at(self, actions->now, executor, batch->rows));
}

void tt_queues_check(const struct tt_queues *self) {
    tt_heap_check(&self->heads);
    tt_heap_check(&self->hopeless);
    tt_idle_check(&self->idle, self->domain, self->ahead);
    int32_t waiting = 0;
    for (int32_t m = 0; m < self->domain->model_capacity; m++) {
        const struct tt_fifo *fifo = &self->fifos[m];
        tt_fifo_check(fifo, m);
        waiting += fifo->count;
        const struct tt_request *head = tt_fifo_first(fifo);
        tt_assert(tt_heap_contains(&self->heads, m) == (head != NULL));
        tt_assert(!head || tt_heap_key(&self->heads, m) == head->number);
        int64_t latest_at = hopeless_after(self, head);
        tt_assert(tt_heap_contains(&self->hopeless, m) == (latest_at != TT_NEVER));
        tt_assert(latest_at == TT_NEVER || tt_heap_key(&self->hopeless, m) == latest_at);
    }
    tt_assert(waiting == self->waiting);
}
