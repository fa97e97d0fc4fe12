/* One experiment in several worlds, side by side: the same file, the same arrivals, the same
 * policy, carried by virtual time, by emulated devices, by this machine.
 *
 * Life: _init with the worlds in the order in which they are to stand; _run builds and runs them
 * one after the other; then a table, JSON and a page with the timelines under one another, all over
 * the same stretch of time. What differs between the first two is the real-time loop, between the
 * last two the devices. */
#ifndef TT_LAB_REPORT_WORLDS_H
#define TT_LAB_REPORT_WORLDS_H

#include "lab/experiment/experiment.h"
#include "lab/report/page_run.h"

#include <jansson.h>

struct tt_worlds_run {
    enum tt_world world;
    bool ran;
    struct tt_scenario scenario;
    struct tt_scenario_result result;
    struct tt_page_run page;
};

struct tt_worlds {
    struct tt_experiment *experiment; /* borrowed; its world is replaced */
    int32_t count;
    struct tt_worlds_run runs[TT_WORLDS];
};

/* "simulated,emulated,real": each at most once. INVALID. */
TT_MUST_CHECK enum tt_err tt_worlds_init(struct tt_worlds *self, struct tt_experiment *experiment,
                                         const char *names, struct tt_error *why);
void tt_worlds_fini(struct tt_worlds *self);
/* All are built before the first is run, so that what makes no sense is told at once. `outputs` as
 * for tt_scenario_run, its listener, trace and paths unused. Stopped, it ends with the worlds that
 * ran, the last of them interrupted. */
TT_MUST_CHECK enum tt_err tt_worlds_run(struct tt_worlds *self, bool check,
                                        const struct tt_scenario_outputs *outputs,
                                        const volatile sig_atomic_t *stop, struct tt_error *why);
bool tt_worlds_interrupted(const struct tt_worlds *self);

void tt_worlds_table(const struct tt_worlds *self, struct tt_text *out);
/* {"title", "interrupted", "worlds": [a report each]}; a new reference, NULL: out of memory. */
json_t *tt_worlds_json(const struct tt_worlds *self);
/* NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_worlds_html(struct tt_worlds *self, const char *path,
                                         struct tt_error *why);

#endif
