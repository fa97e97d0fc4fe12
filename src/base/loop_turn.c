#include "base/loop_turn.h"

#include "base/clock.h"

#define MIXED_NS (60 * TT_S)

void tt_loop_turn_init(struct tt_loop_turn *self, void (*wake)(void *context), void *context) {
    *self = (struct tt_loop_turn){
        .length_ns = TT_LOOP_TURN_NS, .number = 1, .wake = wake, .context = context};
    tt_list_init(&self->waiting);
    for (int32_t i = 0; i < TT_LOOP_LANES; i++)
        tt_list_init(&self->lanes[i].behind);
}

void tt_loop_turn_next(struct tt_loop_turn *self) {
    self->ends_at = 0;
    self->number++;
}

static struct tt_loop_lane *lane_of(struct tt_loop_turn *self, uint32_t number) {
    return &self->lanes[number % TT_LOOP_LANES];
}

static bool is_over_at(struct tt_loop_turn *self, int64_t now, bool is_long) {
    if (self->ends_at == 0)
        self->ends_at = now + self->length_ns;
    return now >= self->ends_at - (is_long ? self->length_ns / 4 * 3 : 0);
}

bool tt_loop_turn_is_over(struct tt_loop_turn *self) {
    return is_over_at(self, tt_clock_now(), false);
}

bool tt_loop_turn_must_wait(struct tt_loop_turn *self, uint32_t lane, bool is_long) {
    struct tt_loop_lane *own = lane_of(self, lane);
    if (self->goes_on)
        return false;
    int64_t now = tt_clock_now();
    bool is_over = is_over_at(self, now, false);
    if (self->last_lane && self->last_lane != own)
        self->mixed_until = now + MIXED_NS;
    self->last_lane = own;
    bool is_mixed = now < self->mixed_until, was_served = own->served_in == self->number;
    bool must_wait = (is_long && is_over_at(self, now, true)) ||
                     (is_mixed && !tt_list_empty(&own->behind)) ||
                     (is_mixed && is_over && was_served);
    if (!must_wait)
        own->served_in = self->number;
    return must_wait;
}

void tt_loop_turn_defer(struct tt_loop_turn *self, struct tt_loop_behind *behind) {
    struct tt_loop_lane *lane = lane_of(self, behind->lane);
    if (tt_list_linked(&behind->node))
        return;
    behind->turn = self;
    self->behind_count++;
    tt_list_push_back(&lane->behind, &behind->node);
    if (!tt_list_linked(&lane->node))
        tt_list_push_back(&self->waiting, &lane->node);
    if (self->wake)
        self->wake(self->context);
}

void tt_loop_turn_forget(struct tt_loop_behind *behind) {
    if (!tt_list_linked(&behind->node))
        return;
    tt_list_remove(&behind->node);
    behind->turn->behind_count--;
}

/* The next of the lanes, in turn; NULL: none waits. */
static struct tt_loop_behind *take(struct tt_loop_turn *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->waiting)) != NULL) {
        struct tt_loop_lane *lane = TT_CONTAINER_OF(node, struct tt_loop_lane, node);
        struct tt_list_node *first = tt_list_first(&lane->behind);
        tt_list_remove(node);
        if (!first)
            continue;
        tt_list_remove(first);
        self->behind_count--;
        lane->served_in = self->number;
        if (!tt_list_empty(&lane->behind))
            tt_list_push_back(&self->waiting, &lane->node);
        return TT_CONTAINER_OF(first, struct tt_loop_behind, node);
    }
    return NULL;
}

void tt_loop_turn_go_on(struct tt_loop_turn *self) {
    struct tt_loop_behind *behind;
    int32_t left = self->behind_count; /* what is deferred now comes in a later turn */
    self->goes_on = true;
    while (left-- > 0 && (behind = take(self)) != NULL) {
        bool is_long = behind->is_long; /* before it ends, perhaps */
        behind->go_on(behind);
        if (is_over_at(self, tt_clock_now(), is_long))
            break;
    }
    self->goes_on = false;
    if (self->wake && self->behind_count > 0)
        self->wake(self->context);
}
