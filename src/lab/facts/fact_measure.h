/* What a fact measures: the kind of run that finds it, and where its value stands in the result of
 * such a run. It runs nothing (fact_compute.h does). Implemented in fact_measure.c. */
#ifndef TT_LAB_FACTS_FACT_MEASURE_H
#define TT_LAB_FACTS_FACT_MEASURE_H

#include "lab/facts/fact_compute.h"

#include <stdbool.h>

enum tt_fact_kind tt_fact_measure_kind(const Tutti__FactRun *run);
/* Whether the value is a statistic over requests: more seeds and longer runs make it better. */
bool tt_fact_measure_is_sampled(enum tt_fact_kind kind);
/* Whether it can be measured while time passes. */
bool tt_fact_measure_is_timed(enum tt_fact_kind kind);
/* Whether a client sees it, without the server's help. */
bool tt_fact_measure_is_of_client(Tutti__FactMeasure measure);
/* Whether it needs the batches of the run one by one (fact_batches.h). */
bool tt_fact_measure_follows_batches(Tutti__FactMeasure measure);
/* NAN: the result has no such number, or its run was interrupted. */
double tt_fact_measure_read(const json_t *result, Tutti__FactMeasure measure);

#endif
