#include "policy/lazy/lazy_admission.h"

#include "base/instant.h"

static inline const struct tt_step_model *model_of(const struct tt_lazy_admission *self,
                                                   int32_t model) {
    return self->queues->domain->models[model];
}

bool tt_lazy_admission_alike(const struct tt_lazy_admission *self, const struct tt_lazy_entry *top,
                             const struct tt_lazy_entry *below) {
    if (!model_of(self, top->model)->padded || (top->place.step == 0 && below->place.step == 0))
        return true;
    return top->place.step == 0 ? top->length <= below->padded
                                : top->padded == below->padded && top->padded > 0;
}

/* D2: the number of rows that find slots between the steps of the top entry's model. The entry's
 * own rows, which need slots if it stops, are subtracted. < 0: not even these find slots. */
static inline int32_t slot_room(const struct tt_lazy_admission *self,
                                const struct tt_lazy_stack *stack, const struct tt_lazy_run *run) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    if (!top || model_of(self, top->model)->slots == 0)
        return INT32_MAX;
    return tt_mechanism_slot_room(self->queues->domain, top->model, 0) -
           (run->running ? tt_lazy_stack_slots_lacking(stack) : 0);
}

/* The maximum number of rows of the head's model on the stack, newcomers included. A newcomer to an
 * entry that is under way needs a slot, because it stands between two steps where they meet. */
static inline int32_t max_rows(const struct tt_lazy_admission *self,
                               const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                               const struct tt_request *head) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    int32_t limit = tt_lazy_admission_max_rows(self, head->model);
    if (model_of(self, head->model)->slots == 0 || !top || top->model != head->model ||
        head->step > 0 || (top->place.step == 0 && !run->running))
        return limit;
    int32_t room = slot_room(self, stack, run), there = stack->rows_of_model[head->model];
    return room < limit - there ? there + (room > 0 ? room : 0) : limit;
}

/* True if the stack has room for `rows` more rows of the model. The model's first request always
 * has room. */
static inline bool has_room(const struct tt_lazy_stack *stack, int32_t model, int32_t max_rows,
                            int32_t rows, int32_t count) {
    int32_t there = stack->rows_of_model[model];
    if (stack->count + count > stack->capacity)
        return false;
    return there + rows <= max_rows || (there == 0 && count == 1);
}

/* L6: true if a padded input is short enough for the batch under way. */
static inline bool has_length(const struct tt_lazy_admission *self,
                              const struct tt_lazy_stack *stack, struct tt_lazy_run *run,
                              const struct tt_request *request) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    if (!model_of(self, request->model)->padded || !top || top->model != request->model)
        return true;
    if (top->place.step == 0 && !run->running)
        return request->step == 0; /* none of its steps has run yet */
    return request->step == 0 && request->length <= top->padded;
}

/* L5: with `turns`, false if a request of another model arrived earlier and still waits. */
static inline bool has_turn(const struct tt_lazy_admission *self, const struct tt_lazy_stack *stack,
                            const struct tt_request *request) {
    const struct tt_heap *heads = &self->queues->heads;
    if (self->ski_rental.foreign != TT_LAZY_TURNS || stack->depth == 0)
        return true;
    for (int32_t i = 0; i < heads->count; i++)
        if (heads->entries[i].id != request->model && heads->entries[i].key < request->number)
            return false;
    return true;
}

/* True if the group may join, or preempt, the batch on the stack. */
static inline bool is_admitted(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                               struct tt_lazy_run *run, const struct tt_lazy_group *group,
                               int64_t now) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    return (top->model == group->model ||
            tt_lazy_ski_rental_preempting(&self->ski_rental, stack, run, group, now)) &&
           tt_lazy_slack_allows(&self->slack, stack, run, group, now);
}

/* True if the group has waited long enough to be admitted. If not, *out_at (unless NULL) is the
 * instant at which it will have. */
static bool has_waited(const struct tt_lazy_admission *self, const struct tt_lazy_stack *stack,
                       struct tt_lazy_run *run, const struct tt_lazy_group *group, int64_t now,
                       int64_t *out_at) {
    if (self->ski_rental.patience_permille == 0)
        return true;
    int64_t price_ns = tt_lazy_ski_rental_price(&self->ski_rental, stack, run, group, now);
    int64_t missing_ns =
        price_ns - tt_lazy_waiting_of(&self->waits, group->model, group->count, now);
    if (missing_ns > 0 && out_at)
        *out_at =
            price_ns == TT_NEVER ? TT_NEVER : now + (missing_ns + group->count - 1) / group->count;
    return missing_ns <= 0;
}

/* Adds the requests from `next` on to the group while there is room; with `checked` also only while
 * the check admits the group. */
static void lengthen(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                     struct tt_lazy_run *run, struct tt_lazy_group *group,
                     const struct tt_request *next, bool checked, int64_t now) {
    const struct tt_fifo *fifo = &self->queues->fifos[group->model];
    const struct tt_request *head = tt_fifo_first(fifo);
    int64_t deadline_at = head ? head->deadline_at : TT_NEVER;
    int32_t length = head ? head->length : 0;
    for (const struct tt_request *r = next; r && r->step == group->place.step;
         r = tt_fifo_next(fifo, r)) {
        if (!has_room(stack, group->model, group->max_rows, group->rows + r->rows,
                      group->count + 1) ||
            !has_length(self, stack, run, r) || !has_turn(self, stack, r))
            return;
        deadline_at = tt_instant_min(deadline_at, r->deadline_at);
        length = r->length > length ? r->length : length;
        if (!tt_queues_ends_in_time(self->queues, now, group->model, group->rows + r->rows, length,
                                    deadline_at))
            return;
        const struct tt_lazy_group shorter = *group;
        tt_lazy_slack_grow(&self->slack, group, r, now);
        if (checked && !is_admitted(self, stack, run, group, now)) {
            *group = shorter;
            return;
        }
    }
}

/* The group of the head alone; false: there is no room for it. */
static bool head_alone(const struct tt_lazy_admission *self, const struct tt_lazy_stack *stack,
                       struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                       struct tt_lazy_group *out_group) {
    int32_t limit = max_rows(self, stack, run, head);
    if (slot_room(self, stack, run) < 0 || !has_room(stack, head->model, limit, head->rows, 1) ||
        !has_length(self, stack, run, head) || !has_turn(self, stack, head))
        return false;
    *out_group = tt_lazy_slack_group(&self->slack, head, limit, now);
    return true;
}

/* A larger group needs more time. If the head alone is refused, so is every group; if the largest
 * group is admitted, so is every smaller one. (With `curves` a larger group may even need less.) */
bool tt_lazy_admission_admits(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                              struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                              struct tt_lazy_group *out_group) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    out_group->count = 0;
    if (!head_alone(self, stack, run, head, now, out_group) ||
        (top && !is_admitted(self, stack, run, out_group, now)))
        return false;
    const struct tt_request *next = tt_fifo_next(&self->queues->fifos[head->model], head);
    if (!top) {
        lengthen(self, stack, run, out_group, next, false, now);
        return true;
    }
    /* With sums, the longest group of which all prefixes are admitted is the longest that is
     * admitted at all. The walk of a long queue can stop there. */
    bool sums = self->slack.form != TT_LAZY_CURVES && top->model == head->model;
    const struct tt_lazy_group first = *out_group;
    lengthen(self, stack, run, out_group, next, sums, now);
    if (!sums && out_group->count > 1 && !is_admitted(self, stack, run, out_group, now)) {
        *out_group = first;
        lengthen(self, stack, run, out_group, next, true, now);
    }
    return has_waited(self, stack, run, out_group, now, NULL);
}

/* The head of another model's queue than the top entry's: the one that needs least, or the oldest.
 */
struct tt_request *tt_lazy_admission_foreign(const struct tt_lazy_admission *self,
                                             const struct tt_lazy_entry *top) {
    if (self->ski_rental.foreign != TT_LAZY_SHORTER && self->ski_rental.foreign != TT_LAZY_SLACK)
        return NULL;
    const struct tt_heap *heads = &self->queues->heads;
    struct tt_request *best = NULL;
    int64_t best_ns = 0;
    for (int32_t i = 0; i < heads->count; i++) {
        int32_t model = heads->entries[i].id;
        if (model == top->model)
            continue;
        struct tt_request *head = tt_fifo_first(&self->queues->fifos[model]);
        int64_t need_ns = self->ski_rental.foreign == TT_LAZY_SHORTER
                              ? tt_lazy_slack_alone(&self->slack, head)
                              : 0;
        if (best && (need_ns > best_ns || (need_ns == best_ns && head->number > best->number)))
            continue;
        best = head;
        best_ns = need_ns;
    }
    return best;
}

/* As many waiting requests as there is room for, assumed to resemble the head. */
static bool queue_has_waited(const struct tt_lazy_admission *self,
                             const struct tt_lazy_stack *stack, struct tt_lazy_run *run,
                             const struct tt_lazy_group *head, int64_t now, int64_t *out_at) {
    const struct tt_fifo *fifo = &self->queues->fifos[head->model];
    if (self->ski_rental.patience_permille == 0)
        return true;
    int64_t room = head->max_rows - stack->rows_of_model[head->model];
    struct tt_lazy_group group = *head;
    if (fifo->rows <= room) {
        group.rows = (int32_t)fifo->rows;
        group.count = fifo->count;
    } else if (room > head->rows) {
        group.rows = (int32_t)room;
        group.count = (int32_t)(room * fifo->count / fifo->rows);
        group.count = group.count > 1 ? group.count : 1;
    }
    return has_waited(self, stack, run, &group, now, out_at);
}

bool tt_lazy_admission_opens(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                             struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                             int64_t *out_at) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    struct tt_lazy_group group;
    if (!head_alone(self, stack, run, head, now, &group))
        return false;
    int64_t at = TT_NEVER;
    bool is_due = (head->model == top->model ||
                   tt_lazy_ski_rental_preempting(&self->ski_rental, stack, run, &group, now)) &&
                  queue_has_waited(self, stack, run, &group, now, &at);
    *out_at = tt_instant_min(*out_at, at);
    if (!is_due)
        return false;
    if (tt_lazy_slack_allows(&self->slack, stack, run, &group, now))
        return true;
    at = tt_lazy_slack_retry_at(&self->slack, stack, run, &group, now);
    *out_at = tt_instant_min(*out_at, at);
    return false;
}
