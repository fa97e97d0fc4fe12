/* L1, L2, L5: who may come in. The door of the lazy policy's stacks: it knows the queues, the slack
 * check, what coming in costs, and how much room there is.
 *
 * While a task runs it is asked whether the head of a queue is worth a YIELD (_opens); at the
 * boundary, with exact knowledge, which requests come in (_admits): the longest prefix of a queue
 * for which there is room and all of whose prefixes may come.
 *
 * Rows of one model on a stack never exceed its largest batch, so those that catch up can always
 * merge. Where inputs are padded (struct tt_step_model) who comes must besides be no longer than
 * what the batch at the top was padded to, for it cannot be padded anew in the middle; who is
 * longer waits, and everybody of its model behind it, until the stack is empty of them.
 *
 * It decides and changes nothing but what lazy_slack.h keeps in the entries. */
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

/* The most rows of the model that a stack may hold. */
static inline int32_t tt_lazy_door_max_rows(const struct tt_lazy_admission *self, int32_t model) {
    int32_t allowed = self->queues->domain->models[model]->max_batch;
    return self->max_batch < allowed ? self->max_batch : allowed;
}
/* Who may preempt the top entry, of the heads of other models' queues; NULL: nobody. */
struct tt_request *tt_lazy_admission_foreign(const struct tt_lazy_admission *self,
                                             const struct tt_lazy_entry *top);
/* Whose queue to look at, in two turns: first the top entry's model, then another; with an empty
 * stack the oldest. NULL: nobody's. */
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
/* Can the two, of one model, go on together where they meet? (Their rows apart.) */
bool tt_lazy_admission_alike(const struct tt_lazy_admission *self, const struct tt_lazy_entry *top,
                             const struct tt_lazy_entry *below);
/* May somebody of the head's queue come in now, and who? If not, the group is the head alone, empty
 * where there is no room for it, or who would have to wait longer. No task runs; with an empty
 * stack all may for whom there is room. */
bool tt_lazy_admission_admits(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                              struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                              struct tt_lazy_group *out_group);
/* Does a no of _opens to the head of the running model hold until *out_at, whoever else arrives? As
 * long as the stack and the head stay what they are. (Slots between steps may become free
 * elsewhere.) */
static inline bool tt_lazy_admission_stays_shut(const struct tt_lazy_admission *self,
                                                int32_t model) {
    return self->queues->domain->models[model]->slots == 0 && self->slack.form != TT_LAZY_CURVES &&
           self->ski_rental.patience_permille == 0 && self->ski_rental.foreign != TT_LAZY_TURNS;
}
/* While a task runs: is it to make room for the head? If not, *out_at is when to ask again, if that
 * comes before what is there. */
bool tt_lazy_admission_opens(const struct tt_lazy_admission *self, struct tt_lazy_stack *stack,
                             struct tt_lazy_run *run, const struct tt_request *head, int64_t now,
                             int64_t *out_at);

#endif
