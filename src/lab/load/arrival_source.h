/* The arrivals of a scenario in order of time: drawn from its load, read from its file, or taken
 * from memory.
 *
 * Life: _open; _next until it returns false; _close. One caller at a time. */
#ifndef TT_LAB_LOAD_ARRIVAL_SOURCE_H
#define TT_LAB_LOAD_ARRIVAL_SOURCE_H

#include "lab/load/arrival_file.h"
#include "lab/load/arrivals.h"
#include "lab/scenario/scenario.h"

struct tt_arrival_source {
    struct tt_arrivals *arrivals; /* NULL: the file, or those in memory */
    struct tt_arrival_file file;
    const struct tt_scenario *kept; /* has the arrivals in memory; NULL: one of the above */
    int64_t position;               /* of the next arrival in memory */
};

/* Errors: those of the file. `scenario` must outlive it. */
TT_MUST_CHECK enum tt_err tt_arrival_source_open(struct tt_arrival_source *self,
                                                 const struct tt_scenario *scenario,
                                                 struct tt_error *why);
void tt_arrival_source_close(struct tt_arrival_source *self);
/* The functions of a tt_sim_source. */
bool tt_arrival_source_next(void *self, struct tt_sim_arrival *out_arrival);
bool tt_arrival_source_given(void *self, int64_t number, struct tt_sim_given *out_given);

#endif
