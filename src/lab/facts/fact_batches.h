/* What became of batches between the steps of a model: joined and divided ones, counted in a run.
 *
 * A batch is *joined* if its members that were in batches before come from two or more of them. It
 * is *divided* if its members went on in two or more batches, whatever the reason: half a batch
 * each (D6), or a part that overtakes the rest. Members that leave divide nothing. Each batch
 * counts once as each.
 *
 * Life: zeroed; _observer for the run; _json; _fini. It works in every world: a request's own steps
 * are reported in their order. */
#ifndef TT_LAB_FACTS_FACT_BATCHES_H
#define TT_LAB_FACTS_FACT_BATCHES_H

#include "sim/simulation.h"

#include <jansson.h>

/* Of a task. */
struct tt_fact_batch {
    int64_t next; /* the task that its first member went on in, plus 1; 0: none yet */
    bool divided;
};

struct tt_fact_batches {
    struct tt_fact_batch *tasks; /* by number */
    int64_t task_capacity;
    int64_t *last; /* by request number: its last task, plus 1; 0: none */
    int64_t request_capacity;
    int64_t started, joined, divided;
};

struct tt_sim_observer tt_fact_batches_observer(struct tt_fact_batches *self);
/* {"started", "joined", "divided"}; a new reference. */
json_t *tt_fact_batches_json(const struct tt_fact_batches *self);
void tt_fact_batches_fini(struct tt_fact_batches *self);

#endif
