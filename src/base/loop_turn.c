#include "base/loop_turn.h"

#include "base/clock.h"

void tt_loop_turn_init(struct tt_loop_turn *self, void (*wake)(void *context), void *context) {
    self->length_ns = TT_LOOP_TURN_NS;
    self->ends_at = 0;
    self->wake = wake;
    self->context = context;
    tt_list_init(&self->behind);
}

void tt_loop_turn_next(struct tt_loop_turn *self) { self->ends_at = 0; }

bool tt_loop_turn_is_over(struct tt_loop_turn *self) {
    int64_t now = tt_clock_now();
    if (self->ends_at == 0)
        self->ends_at = now + self->length_ns;
    return now >= self->ends_at;
}

void tt_loop_turn_defer(struct tt_loop_turn *self, struct tt_loop_behind *behind) {
    if (tt_list_linked(&behind->node))
        return;
    tt_list_push_back(&self->behind, &behind->node);
    if (self->wake)
        self->wake(self->context);
}

void tt_loop_turn_forget(struct tt_loop_behind *behind) {
    if (tt_list_linked(&behind->node))
        tt_list_remove(&behind->node);
}

void tt_loop_turn_go_on(struct tt_loop_turn *self) {
    struct tt_list_node *last = tt_list_last(&self->behind), *node;
    while ((node = tt_list_first(&self->behind)) != NULL) {
        struct tt_loop_behind *behind = TT_CONTAINER_OF(node, struct tt_loop_behind, node);
        bool is_last = node == last; /* what is deferred now comes in a later turn */
        tt_list_remove(node);
        behind->go_on(behind);
        if (is_last || tt_loop_turn_is_over(self))
            break;
    }
    if (self->wake && !tt_list_empty(&self->behind))
        self->wake(self->context);
}
