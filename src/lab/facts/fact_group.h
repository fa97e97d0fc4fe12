/* The runs of one fact where it asks for more than one: `over` changes both of its sides, `any_of`
 * one of them. A group is the pieces of work of one side, in the order over x any_of; it says what
 * their values come to. */
#ifndef TT_LAB_FACTS_FACT_GROUP_H
#define TT_LAB_FACTS_FACT_GROUP_H

#include "facts.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_fact_group {
    int32_t *pieces; /* [overs][alternatives]; NULL: the fact has no such side */
    int32_t overs, alternatives;
};

/* How many runs the side asks for. */
int32_t tt_fact_group_overs(const Tutti__Fact *fact);
int32_t tt_fact_group_alternatives(const Tutti__FactRun *run);
/* Room for all pieces; false: out of memory. */
bool tt_fact_group_init(struct tt_fact_group *self, const Tutti__Fact *fact,
                        const Tutti__FactRun *run);
void tt_fact_group_fini(struct tt_fact_group *self);
/* `run` with the changes of number `index`, borrowing all texts; its `set` is the caller's to free.
 * False: out of memory. */
bool tt_fact_group_run(const Tutti__Fact *fact, const Tutti__FactRun *run, int32_t index,
                       Tutti__FactRun *out_run);
/* What the values of the alternatives come to; not a number where one is not. */
double tt_fact_group_choose(const Tutti__FactRun *run, const double *values, int32_t count);

#endif
