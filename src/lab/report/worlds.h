/* One experiment in several worlds, side by side: the same file, arrivals and policy in virtual
 * time, on emulated devices, and on this machine.
 *
 * Life: _init takes the worlds in their order; _run builds all and runs one after the other; then
 * a table, JSON and a page. The first two differ by the real-time loop, the last two by the
 * devices. */
#ifndef TT_LAB_REPORT_WORLDS_H
#define TT_LAB_REPORT_WORLDS_H

#include "lab/experiment/experiment.h"
#include "lab/report/page_run.h"
#include "lab/run/scenario_run.h"

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

/* `names`: "simulated,emulated,real", each at most once. Errors: INVALID. */
TT_MUST_CHECK enum tt_err tt_worlds_init(struct tt_worlds *self, struct tt_experiment *experiment,
                                         const char *names, struct tt_error *why);
void tt_worlds_fini(struct tt_worlds *self);
/* Builds all scenarios before it runs the first, so that errors come at once. `outputs` as for
 * tt_scenario_run, its observer, trace and paths unused. When stopped, it ends with the worlds
 * that ran, the last of them interrupted. Errors: as of building and running a scenario. */
TT_MUST_CHECK enum tt_err tt_worlds_run(struct tt_worlds *self, bool check,
                                        const struct tt_scenario_outputs *outputs,
                                        const volatile sig_atomic_t *stop, struct tt_error *why);
bool tt_worlds_interrupted(const struct tt_worlds *self);

void tt_worlds_table(const struct tt_worlds *self, struct tt_text *out);
/* {"title", "interrupted", "worlds": [a report each]}; a new reference, NULL: out of memory. */
json_t *tt_worlds_json(const struct tt_worlds *self);
/* Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_worlds_html(struct tt_worlds *self, const char *path,
                                         struct tt_error *why);

#endif
