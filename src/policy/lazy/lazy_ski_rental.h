/* The ski-rental rule of the lazy policy: when newcomers may delay a batch, apart from deadlines.
 *
 * Newcomers delay every request on the stack. Newcomers of the same model do so while they catch
 * up, and then by the larger batch; those of another model until they have ended. This cost is
 * known. The cost of waiting longer is not: the running batch may end soon, or further requests may
 * arrive to share the cost. So newcomers wait until their total waiting time reaches `patience`
 * times the cost (1 = ski-rental rule, 2-competitive with the offline optimum). Waiting time counts
 * since the last admission of a request of their model. 0 is the paper: requests are admitted at
 * once.
 *
 * In addition, for newcomers of another model, the option `foreign`: with shorter they must need
 * less time than the running entry still does; with never and turns they are not admitted.
 *
 * Pure: it changes nothing. */
#ifndef TT_POLICY_LAZY_LAZY_SKI_RENTAL_H
#define TT_POLICY_LAZY_LAZY_SKI_RENTAL_H

#include "policy/lazy/lazy_slack.h"

enum tt_lazy_foreign { TT_LAZY_SHORTER, TT_LAZY_SLACK, TT_LAZY_NEVER, TT_LAZY_TURNS };

struct tt_lazy_ski_rental {
    const struct tt_lazy_times *times; /* [models] */
    int64_t patience_permille;
    enum tt_lazy_foreign foreign;
};

/* True if the option `foreign` lets the group, of another model, preempt the top entry. */
bool tt_lazy_ski_rental_preempting(const struct tt_lazy_ski_rental *self,
                                   const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                   const struct tt_lazy_group *group, int64_t now);
/* The total waiting time in ns at which the group is admitted. TT_NEVER: never, because the running
 * entry, of the same model, ends or has not yet reached the group's step. */
int64_t tt_lazy_ski_rental_price(const struct tt_lazy_ski_rental *self,
                                 const struct tt_lazy_stack *stack, const struct tt_lazy_run *run,
                                 const struct tt_lazy_group *group, int64_t now);

#endif
