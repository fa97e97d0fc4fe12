/* L1: the BatchTable of one executor: a stack of sub-batches, each at its next step.
 *
 * The members of all entries lie in one array, bottom entry first, so an entry is a range of it:
 * to push is to append, to merge the two topmost entries is to forget the border between them, and
 * nobody moves. Only where members of one entry part are they sorted: those with the smallest next
 * step, who have most to catch up with, on top.
 *
 * What its members still need, alone, and, from the bottom up to an entry, what the slack check
 * asks of the whole stack, is filled in by lazy_slack.h when it needs it, and not before: most
 * tasks end without anybody asking. Every change here says for which entries it is to be done anew.
 * A member is half a cache line, and of its request a boundary reads one line, where it stands now.
 * Everything is allocated at init. It decides nothing and knows no time. */
#ifndef TT_POLICY_LAZY_LAZY_STACK_H
#define TT_POLICY_LAZY_LAZY_STACK_H

#include "core/request.h"
#include "policy/lazy/lazy_times.h"

struct tt_lazy_member {
    struct tt_request *request;
    int64_t full_ns; /* what it needed by itself when it came in */
    int64_t key;     /* when it would refuse newcomers: the smaller, the sooner; TT_NEVER: never */
    const struct tt_lazy_sum *sums; /* for a batch of it alone, from step 0 on */
};

/* Who may be hurt first: the smallest key among those that have a vote (lazy_slack.h), and until
 * when that one counts. */
struct tt_lazy_veto {
    int64_t key;
    int64_t until_at;
};

struct tt_lazy_entry {
    int32_t model;
    int32_t first, count; /* members[first .. first + count - 1] */
    int32_t rows;
    int32_t length; /* the longest input */
    int32_t padded; /* what all are padded to, once the first step has run; 0: nothing */
    struct tt_lazy_place place; /* the round of the member with the most rounds before it */
    bool timed;                 /* alone_ns is known */
    int64_t elements, full_ns, alone_ns; /* sums over the members: of input elements, and times */
    struct tt_lazy_veto veto;            /* of its members */
    /* From the bottom entry up to this one: */
    int64_t total_alone_ns, total_full_ns;
    struct tt_lazy_veto total_veto;
    int64_t total_until_at; /* the first veto lapses */
};

struct tt_lazy_stack {
    struct tt_lazy_entry *entries;  /* [capacity]; the top is entries[depth - 1] */
    struct tt_lazy_member *members; /* [capacity] */
    struct tt_lazy_member *scratch; /* [capacity] */
    int32_t *rows_of_model;         /* [models]: rows in all entries of each */
    int32_t capacity, depth, count;
    int32_t surveyed;    /* entries, from the bottom, whose votes and totals are up to date */
    int64_t surveyed_at; /* when that was last made sure of */
};

TT_MUST_CHECK enum tt_err tt_lazy_stack_init(struct tt_lazy_stack *self, int32_t capacity,
                                             int32_t models);
/* Also on zeroed memory. */
void tt_lazy_stack_fini(struct tt_lazy_stack *self);

static inline struct tt_lazy_entry *tt_lazy_stack_top(const struct tt_lazy_stack *self) {
    return self->depth ? &self->entries[self->depth - 1] : NULL;
}
/* D2: rows of the top entry whose requests keep no slots yet. */
int32_t tt_lazy_stack_slots_lacking(const struct tt_lazy_stack *self);
/* A new entry on top, without members yet; _add appends to the top one. */
void tt_lazy_stack_push(struct tt_lazy_stack *self, int32_t model, int32_t step);
void tt_lazy_stack_add(struct tt_lazy_stack *self, const struct tt_lazy_member *member);
/* The two topmost entries become one. They are of one model and at one step. */
void tt_lazy_stack_merge(struct tt_lazy_stack *self);
/* After the top entry ran: forgets the members that do not wait for their next step (they ended),
 * and makes an entry for every step at which those who do stand now. */
void tt_lazy_stack_settle(struct tt_lazy_stack *self);
/* Takes out one request, wherever it stands; false: it is not here. */
bool tt_lazy_stack_remove(struct tt_lazy_stack *self, const struct tt_request *request);
/* Forgets the entries from `depth` on. */
void tt_lazy_stack_cut(struct tt_lazy_stack *self, int32_t depth);
/* Ranges, sums and places agree with the members. */
void tt_lazy_stack_check(const struct tt_lazy_stack *self);

#endif
