/* The runs of a fact that needs more than one: `over` changes both of its sides, `any_of` one of
 * them. A group has the pieces of one side, in the order over x any_of. The values of `over`, and
 * of the facts that are parts of one, are reduced in the same way. */
#ifndef TT_LAB_FACTS_FACT_GROUP_H
#define TT_LAB_FACTS_FACT_GROUP_H

#include "base/text.h"
#include "facts.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_FACT_GROUP_MAX = 64 }; /* alternatives, changes, parts */

struct tt_fact_group {
    int32_t *pieces; /* [overs][alternatives]; NULL: the fact has no such side */
    int32_t overs, alternatives;
};

/* The number of runs of the side. */
int32_t tt_fact_group_overs(const Tutti__Fact *fact);
int32_t tt_fact_group_alternatives(const Tutti__FactRun *run);
/* Allocates the pieces. */
void tt_fact_group_init(struct tt_fact_group *self, const Tutti__Fact *fact,
                        const Tutti__FactRun *run);
void tt_fact_group_fini(struct tt_fact_group *self);
/* `run` with the changes of number `index`. It borrows all texts; the caller frees its `set`. */
void tt_fact_group_run(const Tutti__Fact *fact, const Tutti__FactRun *run, int32_t index,
                       Tutti__FactRun *out_run);
/* Reduces the values of the alternatives to one; NAN if one of them is. */
double tt_fact_group_choose(const Tutti__FactRun *run, const double *values, int32_t count);
/* Reduces the values of `over` or of `parts` to one, as `reduce` says; NAN if one of them is. */
double tt_fact_group_reduce(const Tutti__Fact *fact, const double *values, int32_t count);
/* Ascending. */
void tt_fact_group_sort(double *values, int32_t count);
/* The mean over seeds; sorts the values. NAN if one of them is. Appends the middle half of the
 * values to `out_note`, unless NULL. */
double tt_fact_group_seeds(double *values, int32_t count, struct tt_text *out_note);

#endif
