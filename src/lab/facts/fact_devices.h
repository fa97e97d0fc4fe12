/* The number of devices that a load needs (figure 10 of Symphony): the smallest device count that
 * keeps every model's bad rate within its limit, found by runs with other numbers of the same
 * device. Assumes that more devices are never worse; for a policy that is not monotone it returns
 * one local boundary. */
#ifndef TT_LAB_FACTS_FACT_DEVICES_H
#define TT_LAB_FACTS_FACT_DEVICES_H

#include "lab/scenario/scenario.h"

#include <signal.h>

enum { TT_FACT_DEVICES_MAX = 8192 };

struct tt_fact_devices {
    int32_t needed; /* 0: TT_FACT_DEVICES_MAX are too few, or it was interrupted */
    int32_t runs;
    bool interrupted;
};

/* Begins at the scenario's own number. A number suffices if every model's bad rate is at most
 * `bad_rate` and at least one request arrived. Errors: NO_MEMORY, those of a run. */
TT_MUST_CHECK enum tt_err tt_fact_devices_search(const struct tt_scenario *scenario,
                                                 double bad_rate, const volatile sig_atomic_t *stop,
                                                 struct tt_fact_devices *out_devices,
                                                 struct tt_error *why);

#endif
