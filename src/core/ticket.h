/* What a queue needs to know of a waiting request, in one cache line.
 *
 * Every request begins with its ticket (core/request.h). Where a scheduler sees nothing but
 * metadata there is the ticket alone, so that a queue of millions costs 64 bytes each and touches
 * one line per request. Who owns a ticket links it by `link` and may keep a number in
 * `policy_word` and `ahead`; what it gives up it marks with a `drop_reason` and hands out in a
 * list. Everything else is set once, when the request comes, and stays. */
#ifndef TT_CORE_TICKET_H
#define TT_CORE_TICKET_H

#include "base/list.h"

#include <stdint.h>

/* The members, so that `struct tt_request` has them under the same names without a prefix. */
#define TT_TICKET_MEMBERS                                                                          \
    struct tt_list_node link; /* the policy's while QUEUED */                                      \
    int64_t policy_word;      /* the policy's, or the scheduler's */                               \
    int64_t number;           /* of its arrival, from 0: ties go by it. With TT_REQUEST_LATE once  \
                                 its rule has put it behind the others */                          \
    int64_t arrived_at;                                                                            \
    int64_t deadline_at; /* TT_NEVER: none */                                                      \
    int32_t model;                                                                                 \
    int32_t rows;   /* what it counts in a batch, >= 1 */                                          \
    int32_t length; /* of its input; 0 where the model has none */                                 \
    union {                                                                                        \
        int32_t drop_reason; /* enum tt_drop_reason, of one given up */                            \
        int32_t ahead;       /* while it waits: the policy's */                                    \
    };

struct tt_ticket {
    TT_TICKET_MEMBERS
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_ticket) == 64, "one cache line");

static inline struct tt_ticket *tt_ticket_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_ticket, link);
}

#endif
