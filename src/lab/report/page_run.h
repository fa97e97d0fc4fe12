/* One run as data for a page: its report, its distributions, and which batch ran where and when.
 *
 * Life: _init before the run, the observer listens to it (lab/report/timeline.h), _json after it. A
 * page shows one run, one experiment in several worlds, or a recording beside its simulation. */
#ifndef TT_LAB_REPORT_PAGE_RUN_H
#define TT_LAB_REPORT_PAGE_RUN_H

#include "lab/report/timeline.h"
#include "lab/run/scenario_run.h"

#include <jansson.h>

struct tt_page_run {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_timeline timeline;
};

void tt_page_run_init(struct tt_page_run *self, const struct tt_scenario *scenario);
void tt_page_run_fini(struct tt_page_run *self);
struct tt_sim_observer tt_page_run_observer(struct tt_page_run *self);
/* A new reference; NULL: out of memory. */
json_t *tt_page_run_json(struct tt_page_run *self, const struct tt_scenario_result *result);
/* A page of `take_runs`, an array of what _json returned. Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_page_run_write(const char *title, json_t *take_runs, const char *path,
                                            struct tt_error *why);

#endif
