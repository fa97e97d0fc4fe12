/* Whether a thread watches its sockets for a while before it sleeps: to wake a thread of another
 * processor takes tens of microseconds, and watching takes processor time.
 *
 * Fixed, it watches after each wait that was about as short as the time it may watch. Adaptive, it
 * watches while nearly all of its recent waits were short, as those for the next request of one
 * client are. Requests that come at random times have long waits among them, however many there
 * are: watching finds nothing then. Where a wake-up takes long, the waits for one client are not
 * short, but they are even: nearly all are within a factor of two of the usual one, which those of
 * random times never are. It watches for longer then. Once it has stopped it does not try again for
 * a number of waits, which doubles each time that watching did not last. Waits for a run are
 * neither watched nor counted: the run needs the processor more.
 *
 * Life: init, then _before and _after around each wait, and _in_vain between them if nothing came
 * while it watched. It reads no clock and makes no call. One thread. Implemented in busy_poll.c. */
#ifndef TT_NET_SOCKETS_BUSY_POLL_H
#define TT_NET_SOCKETS_BUSY_POLL_H

#include "base/instant.h"

#include <stdbool.h>
#include <stdint.h>

#define TT_BUSY_POLL_ADAPTIVE_NS (50 * TT_US)
#define TT_BUSY_POLL_EVEN_NS (200 * TT_US) /* while waits are even */

enum {
    TT_BUSY_POLL_WAITS = 32,   /* that it remembers */
    TT_BUSY_POLL_LONG = 4,     /* as many of them may be long, or uneven */
    TT_BUSY_POLL_WEIGHT = 16,  /* a wait moves the usual one by 1 / so much */
    TT_BUSY_POLL_LASTED = 128, /* waits that it watched without a stop: the next pause is short */
    TT_BUSY_POLL_PAUSE = 32,   /* waits until it tries again, at first */
    TT_BUSY_POLL_MAX_PAUSE = 2048 /* and at most */
};

struct tt_busy_poll {
    int64_t limit_ns; /* it watches for so long; 0: never */
    bool is_adaptive;
    bool is_on;       /* it watches; fixed: its last wait was short */
    bool is_counted;  /* the present wait is for clients alone; fixed: always */
    bool is_in_vain;  /* nothing came while it watched */
    uint32_t recent;  /* adaptive: a bit per wait, 1: it was short; the last one is bit 0 */
    uint32_t even;    /* the same, 1: it was even and not too long */
    int64_t usual_ns; /* adaptive: a wait; 0: not known */
    int32_t in_a_row; /* adaptive: waits that it watched since it was turned on */
    int32_t pause;    /* adaptive: waits until it may watch again */
    int32_t next_pause;
    int64_t since; /* of the present wait */
};

/* `limit_ns` < 0: adaptive; else fixed, and 0 for never. */
void tt_busy_poll_init(struct tt_busy_poll *self, int64_t limit_ns);
/* A wait begins: for how long to watch first; 0: sleep at once. `has_requests`: the thread waits
 * for its requests to be answered, too. */
int64_t tt_busy_poll_before(struct tt_busy_poll *self, int64_t now, bool has_requests);
/* Nothing came while it watched. */
void tt_busy_poll_in_vain(struct tt_busy_poll *self);
/* The wait that _before began is over. */
void tt_busy_poll_after(struct tt_busy_poll *self, int64_t now);

#endif
