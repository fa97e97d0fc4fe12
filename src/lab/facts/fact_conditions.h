/* The circumstances of a measurement in real time: when and where it ran, and what else used the
 * machine meanwhile. A figure that others disturbed can then be told from one that they did not.
 *
 * Life: _begin before the measurement, _end after it; the object is kept beside the result.
 * _describe makes one line of those of several results. It judges nothing. */
#ifndef TT_LAB_FACTS_FACT_CONDITIONS_H
#define TT_LAB_FACTS_FACT_CONDITIONS_H

#include "base/text.h"

#include <jansson.h>
#include <stdint.h>

struct tt_fact_conditions {
    int64_t began_at;    /* tt_clock_now() */
    int64_t machine_ns;  /* processor time of the whole machine so far; -1: unknown */
    int64_t own_ns;      /* that of this process and of children that it waited for */
    double load_average; /* of the last minute; < 0: unknown */
    char date[24];
};

void tt_fact_conditions_begin(struct tt_fact_conditions *self);
/* {"date", "machine", "cores", "took_s", "load_average", "others"}: the last is the mean number of
 * processors that others used, null if unknown. A new reference; NULL: out of memory. */
json_t *tt_fact_conditions_end(const struct tt_fact_conditions *self);

/* Results whose conditions are described together. */
struct tt_fact_conditions_sum {
    char first_date[24], last_date[24];
    int32_t cores, count, doubtful;
    double others, load_average; /* the largest; < 0: unknown */
    char left_out[256]; /* features of the experiment that only the simulator has; "": none */
};

/* Adds those of a result of a run; one without conditions is left out. A result is doubtful if its
 * load generator fell behind. */
void tt_fact_conditions_add(struct tt_fact_conditions_sum *self, const json_t *result);
/* Appends nothing if nothing was added. */
void tt_fact_conditions_describe(const struct tt_fact_conditions_sum *self, struct tt_text *out);

#endif
