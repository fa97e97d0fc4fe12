/* Whose turn it is on an event loop: all connections together have a millisecond per turn for what
 * takes long, so that no client waits for the many requests of another. What takes long by itself,
 * such as the next piece of a large body, begins in the first quarter of that or waits.
 *
 * Connections are grouped in lanes, by the address of their client. A connection asks before it
 * reads (`_must_wait`) and before it handles a further request of a read (`_is_over`). While the
 * turn lasts all of them read. Once it is over a lane reads only if it has not read in this turn.
 * What must wait is put on its lane (`_defer`). The loop wakes itself, reads its other sockets, and
 * goes on with one connection of each lane after another. So a client waits for a turn, and in its
 * own lane only for those before it, however many connections others have.
 *
 * Waiting costs two system calls. Where one lane alone has read for a minute, no other would
 * gain by it, and its connections read at once.
 *
 * Two addresses share a lane if their numbers are equal modulo TT_LOOP_LANES. One thread. It never
 * reads a socket. Implemented in loop_turn.c. */
#ifndef TT_BASE_LOOP_TURN_H
#define TT_BASE_LOOP_TURN_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_LOOP_TURN_NS = 1000 * 1000, TT_LOOP_LANES = 1024 };

/* What a connection, or the loop itself, has put off. */
struct tt_loop_behind {
    struct tt_list_node node;
    uint32_t lane;             /* 0 for the loop's own: new connections, pages that are shared */
    struct tt_loop_turn *turn; /* that it waits for */
    bool is_long;              /* what it goes on with takes long by itself */
    void (*go_on)(struct tt_loop_behind *behind);
};

struct tt_loop_lane {
    struct tt_list behind;
    struct tt_list_node node; /* linked: among the lanes that wait */
    int64_t served_in;        /* the number of a turn */
};

struct tt_loop_turn {
    int64_t length_ns, ends_at; /* ends_at 0: nothing has asked in this turn */
    int64_t number;             /* of the turn, from 1 */
    struct tt_list waiting;     /* lanes; one whose connections were forgotten is among them, too */
    int32_t behind_count;       /* on all lanes */
    bool goes_on;               /* _go_on is calling: it has taken the turn for a connection */
    const struct tt_loop_lane *last_lane; /* that asked to read; NULL: none */
    int64_t mixed_until;                  /* several lanes have asked within a minute before */
    void (*wake)(void *context); /* the loop, soon; NULL: its owner calls _go_on by itself */
    void *context;
    struct tt_loop_lane lanes[TT_LOOP_LANES];
};

void tt_loop_turn_init(struct tt_loop_turn *self, void (*wake)(void *context), void *context);
/* The loop has read its sockets: the next turn begins. */
void tt_loop_turn_next(struct tt_loop_turn *self);
/* True: what was sent ahead waits for the next turn. */
bool tt_loop_turn_is_over(struct tt_loop_turn *self);
/* True: a connection of this lane must not read now, but wait (_defer). `is_long`: what it would
 * read takes long by itself, so it waits once a quarter of the turn is over. Never true within
 * `go_on`. */
bool tt_loop_turn_must_wait(struct tt_loop_turn *self, uint32_t lane, bool is_long);
/* Calls `behind->go_on` in a later turn; again: nothing more. `behind` is zero-initialised but for
 * `lane`, `is_long` and `go_on`. */
void tt_loop_turn_defer(struct tt_loop_turn *self, struct tt_loop_behind *behind);
/* Legal without _defer, and again. */
void tt_loop_turn_forget(struct tt_loop_behind *behind);
/* Goes on with what was deferred, until the turn is over. */
void tt_loop_turn_go_on(struct tt_loop_turn *self);

#endif
