/* Facts about the partition of models over sub-clusters (appendix A.2 of Symphony): the search
 * (place/place_search.h) beside the baseline there, which draws random partitions and keeps the
 * best one that holds the limits. */
#ifndef TT_LAB_FACTS_FACT_PLACE_H
#define TT_LAB_FACTS_FACT_PLACE_H

#include "base/err.h"

#include <jansson.h>
#include <signal.h>

/* `imbalance_rate`, `imbalance_memory`, `random_rate`, `random_memory`, each (largest - smallest) /
 * mean; the random ones are null when no draw held the limits. Also `interrupted` and a `note`.
 * `path`: a placement problem. `stop` may be NULL. A new reference. Errors: those of the file and
 * of the search. */
TT_MUST_CHECK enum tt_err tt_fact_place(const char *path, const volatile sig_atomic_t *stop,
                                        json_t **out_json, struct tt_error *why);

#endif
