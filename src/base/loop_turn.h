/* How long one turn of an event loop goes on with what clients sent ahead: a millisecond for all
 * connections together. A read may bring a thousand short requests; answered in one go, they would
 * hold up every other client of the loop.
 *
 * A connection handles the first request of a read in any case, and asks before each further one.
 * Once the turn is over it keeps the rest, reads no more, and is put on the list `behind`. The loop
 * wakes itself, reads its other sockets, and goes on with that list in order.
 *
 * One thread. It never reads a socket. Implemented in loop_turn.c. */
#ifndef TT_BASE_LOOP_TURN_H
#define TT_BASE_LOOP_TURN_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_LOOP_TURN_NS = 1000 * 1000 };

/* A connection that has kept bytes for a later turn. */
struct tt_loop_behind {
    struct tt_list_node node;
    void (*go_on)(struct tt_loop_behind *behind);
};

struct tt_loop_turn {
    int64_t length_ns, ends_at; /* ends_at 0: nothing was sent ahead in this turn */
    struct tt_list behind;
    void (*wake)(void *context); /* the loop, soon; NULL: its owner calls _go_on by itself */
    void *context;
};

void tt_loop_turn_init(struct tt_loop_turn *self, void (*wake)(void *context), void *context);
/* The loop has read its sockets: the next turn begins. */
void tt_loop_turn_next(struct tt_loop_turn *self);
/* True: what was sent ahead waits for the next turn. */
bool tt_loop_turn_is_over(struct tt_loop_turn *self);
/* Calls `behind->go_on` in a later turn; again: nothing more. `behind` is zero-initialised. */
void tt_loop_turn_defer(struct tt_loop_turn *self, struct tt_loop_behind *behind);
/* Legal without _defer, and again. */
void tt_loop_turn_forget(struct tt_loop_behind *behind);
/* Goes on with what was deferred, until the turn is over. */
void tt_loop_turn_go_on(struct tt_loop_turn *self);

#endif
