/* Is it worth preempting a batch for newcomers, whatever the deadlines say? The lazy policy asks
 * this beside the slack check.
 *
 * Everybody on the stack is held up by newcomers: of the same model while they catch up, and by the
 * larger batch afterwards; of another model until they are through. What that costs is known. What
 * waiting would cost the newcomers is not (the running batch may end soon, or others may come to
 * share the way), so they wait until they have waited, all together and since somebody of their
 * model last came in, `patience` times that cost (1: the rule of who rents skis until he could have
 * bought them, never more than twice as dear as knowing the future). 0 is the paper: whoever may
 * come in comes in.
 *
 * Of another model besides, by option `foreign`: with shorter only when the newcomers need less
 * than the running entry has before it; with never and turns not at all. Pure. */
#ifndef TT_POLICY_LAZY_LAZY_SKI_RENTAL_H
#define TT_POLICY_LAZY_LAZY_SKI_RENTAL_H

#include "policy/lazy/lazy_slack.h"

enum tt_lazy_foreign { TT_LAZY_SHORTER, TT_LAZY_SLACK, TT_LAZY_NEVER, TT_LAZY_TURNS };

struct tt_lazy_ski_rental {
    const struct tt_lazy_times *times; /* [models] */
    int64_t patience_permille;
    enum tt_lazy_foreign foreign;
};

/* Of another model than the top entry's. */
bool tt_lazy_ski_rental_preempting(const struct tt_lazy_ski_rental *self,
                                   const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                   const struct tt_lazy_group *group, int64_t now);
/* How long the group, in all, must have waited to be let in; TT_NEVER: it is of the running entry's
 * model, which ends, or has yet to come to where the group stands. */
int64_t tt_lazy_ski_rental_price(const struct tt_lazy_ski_rental *self,
                                 const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                 const struct tt_lazy_group *group, int64_t now);

#endif
