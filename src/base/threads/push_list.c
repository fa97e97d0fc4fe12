#include "base/threads/push_list.h"

#include "base/threads/perturb.h"

void tt_push_list_push(struct tt_push_list *self, struct tt_push_node *node) {
    node->next = atomic_load_explicit(&self->newest, memory_order_relaxed);
    tt_perturb();
    while (!atomic_compare_exchange_weak_explicit(&self->newest, &node->next, node,
                                                  memory_order_release, memory_order_relaxed))
        tt_perturb();
}

struct tt_push_node *tt_push_list_take(struct tt_push_list *self) {
    if (!atomic_load_explicit(&self->newest, memory_order_relaxed))
        return NULL;
    tt_perturb();
    struct tt_push_node *newer =
        atomic_exchange_explicit(&self->newest, NULL, memory_order_acquire);
    struct tt_push_node *oldest = NULL;
    while (newer) {
        struct tt_push_node *next = newer->next;
        newer->next = oldest;
        oldest = newer;
        newer = next;
    }
    return oldest;
}
