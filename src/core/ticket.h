/* What a queue needs to know of a waiting request, in one cache line.
 *
 * Every request begins with its ticket (core/request.h). A scheduler that sees metadata only has
 * the ticket alone: a queue of millions costs 64 bytes each and touches one line per request.
 *
 * The owner of a ticket links it by `link` and may keep a number in `policy_word` and `ahead`. It
 * marks a request that it gives up with a `drop_reason` and hands it out in a list. All other
 * members are set once, on arrival. */
#ifndef TT_CORE_TICKET_H
#define TT_CORE_TICKET_H

#include "base/list.h"

#include <stdint.h>

/* The members as a macro, so that `struct tt_request` has them under the same names without a
 * prefix. */
#define TT_TICKET_MEMBERS                                                                          \
    struct tt_list_node link; /* owned by the policy while QUEUED */                               \
    int64_t policy_word;      /* owned by the policy or the scheduler */                           \
    int64_t number;           /* of its arrival, from 0; breaks ties; TT_REQUEST_LATE: is late */  \
    int64_t arrived_at;                                                                            \
    int64_t deadline_at; /* TT_NEVER: none */                                                      \
    int32_t model;                                                                                 \
    int32_t rows;   /* rows that it adds to a batch, >= 1 */                                       \
    int32_t length; /* length of its input; 0 where the model has none */                          \
    union {                                                                                        \
        int32_t drop_reason; /* enum tt_drop_reason, once given up */                              \
        int32_t ahead;       /* while it waits; owned by the policy */                             \
    };

struct tt_ticket {
    TT_TICKET_MEMBERS
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_ticket) == 64, "one cache line");

static inline struct tt_ticket *tt_ticket_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_ticket, link);
}

#endif
