/* An intrusive list that many threads push to and one takes whole, oldest first.
 *
 * It allocates nothing and never blocks. What was written before a push is visible after the take
 * that returns its node. A push is one locked operation, the last thing that the thread does with
 * the list and the node: the taker of the node may free both. Implemented in push_list.c.
 */
#ifndef TT_BASE_PUSH_LIST_H
#define TT_BASE_PUSH_LIST_H

#include <stdatomic.h>
#include <stddef.h>

struct tt_push_node {
    struct tt_push_node *next;
};

struct tt_push_list {
    struct tt_push_node *_Atomic newest; /* NULL: empty */
};

static inline void tt_push_list_init(struct tt_push_list *self) {
    atomic_init(&self->newest, NULL);
}
/* Any thread. The node is in no list. */
void tt_push_list_push(struct tt_push_list *self, struct tt_push_node *node);
/* The one taking thread. Moves everything out: the oldest node, which links to the next newer one
 * and so on; NULL: there is none. */
struct tt_push_node *tt_push_list_take(struct tt_push_list *self);

#endif
