/* The requests of a scenario, one after the other in order of time: drawn as its load says, read
 * from its file of arrivals, or from memory. Whoever carries them (a simulation, a load generator)
 * asks for the next one when it has dealt with the last. */
#ifndef TT_LAB_LOAD_ARRIVAL_SOURCE_H
#define TT_LAB_LOAD_ARRIVAL_SOURCE_H

#include "lab/load/arrival_file.h"
#include "lab/load/arrivals.h"
#include "lab/scenario/scenario.h"

struct tt_arrival_source {
    struct tt_arrivals *arrivals; /* NULL: the file */
    struct tt_arrival_file file;
    const struct tt_scenario *kept; /* its own arrivals, instead of both; NULL: none */
    int64_t position;               /* there */
};

/* Errors are the file's; NO_MEMORY. `scenario` must outlive it. */
TT_MUST_CHECK enum tt_err tt_arrival_source_open(struct tt_arrival_source *self,
                                                 const struct tt_scenario *scenario,
                                                 struct tt_error *why);
void tt_arrival_source_close(struct tt_arrival_source *self);
/* As a simulation's source. */
bool tt_arrival_source_next(void *self, struct tt_sim_arrival *out_arrival);
bool tt_arrival_source_given(void *self, int64_t number, struct tt_sim_given *out_given);

#endif
