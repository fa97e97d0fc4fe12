/* L1, L2, L5: admission to the stacks of the lazy policy. It combines the queues, the slack check,
 * the ski-rental rule and the limits on rows.
 *
 * While a task runs, _opens answers whether it should YIELD to the head of a queue. The slack check
 * is of the head alone. Its waiting time is that of all requests in its queue, or of as many of
 * mean size as there is room for, but at least of the head. At the boundary, with exact knowledge,
 * _admits answers which requests are admitted: the longest prefix of a queue for which there is
 * room and of which every prefix is admitted.
 *
 * Limits:
 * - The rows of one model on a stack never exceed its maximum batch. So an entry that catches up
 *   can always merge. A request of more rows than the option `max_batch` goes alone.
 * - If inputs are padded (struct tt_step_model), a newcomer must not be longer than the padded
 *   length of the top entry. That length cannot change between steps. A longer request waits, and
 *   so do all requests of its model behind it, until no request of the model is on the stack.
 *
 * It makes no decision of its own, and changes only the cached results that lazy_slack.h keeps in
 * the entries. */
#ifndef TT_POLICY_LAZY_LAZY_ADMISSION_H
#define TT_POLICY_LAZY_LAZY_ADMISSION_H

#include "policy/fifo.h"
#include "policy/lazy/lazy_ski_rental.h"
#include "policy/lazy/lazy_waiting.h"

struct tt_lazy_admission {
    const struct tt_queues *queues;
    struct tt_lazy_slack slack;
    struct tt_lazy_ski_rental ski_rental;
    struct tt_lazy_waiting waits;
    int32_t max_batch;
};

/* The maximum number of rows of the model on a stack. */
static inline int32_t tt_lazy_admission_max_rows(const struct tt_lazy_admission *self,
                                                 int32_t model) {
    int32_t allowed = self->queues->domain->models[model]->max_batch;
    return self->max_batch < allowed ? self->max_batch : allowed;
}
/* The head of another model's queue that may preempt the top entry; NULL: none. */
struct tt_request *tt_lazy_admission_foreign(const struct tt_lazy_admission *self,
                                             const struct tt_lazy_entry *top);
/* The head to consider in each of two turns: 0: of the top entry's model; 1: of another model. With
 * an empty stack: the oldest. NULL: none. */
static inline struct tt_request *tt_lazy_admission_candidate(const struct tt_lazy_admission *self,
                                                             const struct tt_lazy_stack *stack,
                                                             int32_t turn) {
    const struct tt_lazy_entry *top = tt_lazy_stack_top(stack);
    const struct tt_heap_entry *oldest = tt_heap_top(&self->queues->heads);
    if (!oldest)
        return NULL;
    if (top && turn > 0)
        return tt_lazy_admission_foreign(self, top);
    return tt_fifo_first(&self->queues->fifos[top ? top->model : oldest->id]);
}
/* True if two entries of one model can continue together where they meet. Does not consider their
 * rows. */
bool tt_lazy_admission_alike(const struct tt_lazy_admission *self, const struct tt_lazy_entry *top,
                             const struct tt_lazy_entry *below);
/* True if requests of the head's queue are admitted now; *out_group is these requests. If false, it
 * is the head alone, or empty if there is no room for the head or if it has not waited long enough.
 * No task runs. On an empty stack all requests are admitted for which there is room. */
bool tt_lazy_admission_admits(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                              struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                              struct tt_lazy_group *out_group);
/* True if a refusal by _opens to the head of the running model stays valid until *out_at
 * regardless of new arrivals. It does while the stack and the head do not change. (Slots between
 * steps may become free elsewhere.) */
static inline bool tt_lazy_admission_refusal_holds(const struct tt_lazy_admission *self,
                                                   int32_t model) {
    return self->queues->domain->models[model]->slots == 0 && self->slack.form != TT_LAZY_CURVES &&
           self->ski_rental.patience_permille == 0 && self->ski_rental.foreign != TT_LAZY_TURNS;
}
/* While a task runs: true if it should yield to the head. If false, lowers *out_at to the instant
 * at which to ask again. */
bool tt_lazy_admission_opens(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                             struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                             int64_t *out_at);

#endif
