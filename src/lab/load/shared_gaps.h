/* The gaps of drawn loads, shared by the child processes of one parent: a load that one job has
 * drawn is not drawn by those that start later. Sweeps search many points of few loads.
 *
 * Life: the parent calls _init. Before a child starts with a job, the parent calls _lend, which
 * reserves a place; the child may fill it by _store. After the job has ended, _settle makes the
 * place known to the jobs that start from then on. They take it by _load. _fini.
 *
 * No two processes write a place, and none reads one that is written, so nothing is locked. A key
 * names all that the gaps depend on, so results do not depend on what is shared. Loads that do not
 * fit are not shared. Implemented in shared_gaps.c. */
#ifndef TT_LAB_LOAD_SHARED_GAPS_H
#define TT_LAB_LOAD_SHARED_GAPS_H

#include "base/threads/flag.h"
#include "base/threads/shared_word.h"
#include "lab/load/kept_gaps.h"
#include "lab/scenario/scenario.h"

enum { TT_SHARED_GAPS_PLACES = 96 };

/* Written by the parent only. */
struct tt_shared_place {
    struct tt_shared_word lent; /* to this job, plus 1; 0: to none */
    struct tt_flag is_known;    /* it is filled */
};

struct tt_shared_gaps {
    /* Both are shared with the children; NULL: nothing is shared. */
    struct tt_shared_place *places; /* [TT_SHARED_GAPS_PLACES] */
    char *memory;                   /* what they hold */
};

void tt_shared_gaps_init(struct tt_shared_gaps *self);
void tt_shared_gaps_fini(struct tt_shared_gaps *self);
/* In the parent, before and after `job` (0, 1, ...) runs. */
void tt_shared_gaps_lend(struct tt_shared_gaps *self, int32_t job);
void tt_shared_gaps_settle(struct tt_shared_gaps *self, int32_t job);

/* What the gaps of the scenario's load, and the numbers of its requests by model, depend on beside
 * its rate; never 0. */
uint64_t tt_shared_gaps_key(const struct tt_scenario *scenario);
/* In a child: copies the gaps of the load into `kept`, which is empty. False: they are not known.
 */
bool tt_shared_gaps_load(const struct tt_shared_gaps *self, uint64_t key,
                         struct tt_kept_gaps *kept);
/* In the child that runs `job`: copies the gaps of the load into the place that was lent to it. */
void tt_shared_gaps_store(struct tt_shared_gaps *self, int32_t job, uint64_t key,
                          const struct tt_kept_gaps *kept);

#endif
