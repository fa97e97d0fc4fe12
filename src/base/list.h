/* Intrusive doubly linked list: the node is a member of the element, and the list allocates
 * nothing. A node that is in no list has next == NULL, so membership can be asserted. All functions
 * are inline; there is no .c file. */
#ifndef TT_BASE_LIST_H
#define TT_BASE_LIST_H

#include "base/err.h"

#include <stdbool.h>

struct tt_list_node {
    struct tt_list_node *next, *prev;
};

struct tt_list {
    struct tt_list_node head; /* head.next = first, head.prev = last; points to itself when empty */
};

static inline void tt_list_init(struct tt_list *self) {
    self->head.next = self->head.prev = &self->head;
}
static inline bool tt_list_empty(const struct tt_list *self) {
    return self->head.next == &self->head;
}
static inline bool tt_list_linked(const struct tt_list_node *node) { return node->next != NULL; }

/* Inserts `node` before `position` (a member, or &list->head for the end). */
static inline void tt_list_insert_before(struct tt_list_node *position, struct tt_list_node *node) {
    tt_assert(node->next == NULL);
    node->next = position;
    node->prev = position->prev;
    position->prev->next = node;
    position->prev = node;
}
static inline void tt_list_push_back(struct tt_list *self, struct tt_list_node *node) {
    tt_list_insert_before(&self->head, node);
}
static inline void tt_list_push_front(struct tt_list *self, struct tt_list_node *node) {
    tt_list_insert_before(self->head.next, node);
}
static inline void tt_list_remove(struct tt_list_node *node) {
    tt_assert(node->next != NULL);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}
/* Moves everything from the first node to `last`, a member, to the end of `out`. */
static inline void tt_list_move_front(struct tt_list *self, struct tt_list_node *last,
                                      struct tt_list *out) {
    struct tt_list_node *first = self->head.next;
    tt_assert(last != &self->head);
    self->head.next = last->next;
    last->next->prev = &self->head;
    first->prev = out->head.prev;
    out->head.prev->next = first;
    last->next = &out->head;
    out->head.prev = last;
}

/* First and last; NULL when empty. */
static inline struct tt_list_node *tt_list_first(const struct tt_list *self) {
    return tt_list_empty(self) ? NULL : self->head.next;
}
static inline struct tt_list_node *tt_list_last(const struct tt_list *self) {
    return tt_list_empty(self) ? NULL : self->head.prev;
}
/* The node after `node`; NULL at the end. */
static inline struct tt_list_node *tt_list_next(const struct tt_list *self,
                                                const struct tt_list_node *node) {
    return node->next == &self->head ? NULL : node->next;
}

#endif
