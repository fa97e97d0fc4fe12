/* How many devices a load needs (figure 10 of Symphony): the fewest with which every model keeps
 * its bad rate, found by runs with other numbers of the same device. It changes nothing else of the
 * scenario, and it takes more devices never to be worse; where a policy is not like that, it finds
 * one of the borders. */
#ifndef TT_LAB_FACTS_FACT_DEVICES_H
#define TT_LAB_FACTS_FACT_DEVICES_H

#include "lab/scenario/scenario.h"

#include <signal.h>

enum { TT_FACT_DEVICES_MAX = 8192 };

struct tt_fact_devices {
    int32_t needed; /* 0: TT_FACT_DEVICES_MAX are not enough, or it was interrupted */
    int32_t runs;
    bool interrupted;
};

/* Begins at the scenario's own number. A number is enough when every model's bad rate is at most
 * `bad_rate` and something arrived. Errors: NO_MEMORY, a run's. */
TT_MUST_CHECK enum tt_err tt_fact_devices_search(const struct tt_scenario *scenario,
                                                 double bad_rate, const volatile sig_atomic_t *stop,
                                                 struct tt_fact_devices *out_devices,
                                                 struct tt_error *why);

#endif
