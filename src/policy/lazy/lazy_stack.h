/* L1: the BatchTable of one executor: a stack of sub-batches, the entries, each at its next step.
 *
 * The members of all entries lie in one array, the bottom entry first. An entry is a range of that
 * array: to push is to append, and to merge the two topmost entries is to remove their border. No
 * member moves. Members are sorted only when those of one entry separate: the ones with the
 * smallest next step, which have most to catch up with, are on top.
 *
 * Life of a member: _push and _add when it is admitted; _merge when its entry has caught up;
 * _settle after each task, which removes it when it has ended; _remove when it is cancelled.
 *
 * lazy_slack.h caches two kinds of sums in the entries: the time that the members still need alone,
 * and the totals from the bottom up to an entry. It computes them on demand, because most tasks end
 * without a check. Every change here marks the entries whose sums are outdated.
 *
 * A member is half a cache line. At a boundary one line of its request is read, the one with its
 * step. All memory is allocated at init. The stack makes no decision and reads no time. */
#ifndef TT_POLICY_LAZY_LAZY_STACK_H
#define TT_POLICY_LAZY_LAZY_STACK_H

#include "core/request.h"
#include "policy/lazy/lazy_times.h"

struct tt_lazy_member {
    struct tt_request *request;
    int64_t full_ns; /* time that it needed alone when it was admitted */
    int64_t key; /* order in which members refuse newcomers, the smallest first; TT_NEVER: it never
                    refuses */
    const struct tt_lazy_sum *sums; /* of a batch of it alone, from step 0 on */
};

/* The first refusal: the smallest key among the members that have a vote (lazy_slack.h), and the
 * instant at which that vote expires. */
struct tt_lazy_veto {
    int64_t key;
    int64_t until_at;
};

struct tt_lazy_entry {
    int32_t model;
    int32_t first, count; /* members[first .. first + count - 1] */
    int32_t rows;
    int32_t length; /* the longest input */
    int32_t padded; /* padded length of all inputs, once the first step has run; 0: none */
    struct tt_lazy_place place; /* its round is the smallest of its members */
    bool timed;                 /* alone_ns is computed */
    bool
        unissued; /* members whose key is TT_NEVER may be such as have not started (lazy_slack.h) */
    int64_t elements, full_ns, alone_ns; /* sums over the members: input elements; times in ns */
    struct tt_lazy_veto veto;            /* of its members */
    /* Totals from the bottom entry up to this one: */
    int64_t total_alone_ns, total_full_ns;
    struct tt_lazy_veto total_veto;
    int64_t total_until_at; /* instant at which the first veto expires */
};

struct tt_lazy_stack {
    struct tt_lazy_entry *entries;  /* [capacity] */
    struct tt_lazy_entry *top;      /* entries[depth - 1]; NULL: there is none */
    struct tt_lazy_member *members; /* [capacity] */
    struct tt_lazy_member *scratch; /* [capacity] */
    int32_t *rows_of_model;         /* [models]: rows of each in all entries */
    int32_t capacity, depth, count;
    int32_t surveyed; /* number of entries, from the bottom, whose votes and totals are current */
    int64_t surveyed_at; /* the instant of the last survey */
};

TT_MUST_CHECK enum tt_err tt_lazy_stack_init(struct tt_lazy_stack *self, int32_t capacity,
                                             int32_t models);
/* Also on zeroed memory. */
void tt_lazy_stack_fini(struct tt_lazy_stack *self);

static inline struct tt_lazy_entry *tt_lazy_stack_top(const struct tt_lazy_stack *self) {
    return self->top;
}
/* D2: rows of the top entry whose requests have no slots yet. */
int32_t tt_lazy_stack_slots_lacking(const struct tt_lazy_stack *self);
/* Pushes an entry without members; _add appends a member to the top entry. */
void tt_lazy_stack_push(struct tt_lazy_stack *self, int32_t model, int32_t step);
void tt_lazy_stack_add(struct tt_lazy_stack *self, const struct tt_lazy_member *member);
/* Merges the two topmost entries, which must be of one model and at one step. */
void tt_lazy_stack_merge(struct tt_lazy_stack *self);
/* After the top entry ran: removes the members that have ended, and makes an entry for every step
 * at which the others stand. */
void tt_lazy_stack_settle(struct tt_lazy_stack *self);
/* Removes a request from any entry; false: it is not on the stack. */
bool tt_lazy_stack_remove(struct tt_lazy_stack *self, const struct tt_request *request);
/* The times of the model are other ones: its entries' times alone, votes and totals are outdated. A
 * member keeps the time that it needed when it was admitted. */
void tt_lazy_stack_outdate(struct tt_lazy_stack *self, int32_t model);
/* Removes the entries from `depth` on. */
void tt_lazy_stack_cut(struct tt_lazy_stack *self, int32_t depth);
/* Checks that ranges, sums and steps agree with the members. */
void tt_lazy_stack_check(const struct tt_lazy_stack *self);

#endif
