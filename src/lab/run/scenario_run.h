/* Runs a scenario in its world and measures it.
 *
 * _run makes the simulation, the server in this process (live_run.h) or a cluster of processes
 * (cluster_run.h), lets every arrival come,
 * and takes the world down again. It leaves the scenario unchanged. The figures count requests
 * that arrived after the warm-up. */
#ifndef TT_LAB_RUN_SCENARIO_RUN_H
#define TT_LAB_RUN_SCENARIO_RUN_H

#include "lab/scenario/live_figures.h"
#include "lab/scenario/measure.h"
#include "lab/scenario/scenario.h"
#include "record/trace.h"

#include <signal.h>

/* What a run writes besides its figures. Any path may be NULL. */
struct tt_scenario_outputs {
    const char *tasks_path, *outcomes_path; /* CSV files (run_csv.h) */
    struct tt_sim_observer also;            /* is called for every event too */
    struct tt_trace *trace;                 /* keeps the run's last records; NULL: no trace */
    /* The run stops when more requests than this were bad; 0: never. For callers that only need to
     * know whether there are that many. */
    int64_t bad_limit;
    /* In virtual time only: the run stops when the bad requests of some model are certain to be
     * more than this share (0 .. 1) of all it will have (bad_share.h); 0: never. It replaces
     * bad_limit. */
    double bad_share;
    bool counts_only; /* no times of requests are measured: counts and batches only */
    /* In real time only; either may be NULL. `progress` is called now and then on the caller's
     * thread; `say` reports a line of text while models are loaded. */
    void (*progress)(void *context, int32_t finished, int32_t all);
    void (*say)(void *context, const char *line);
    void *progress_context;
};

struct tt_scenario_result {
    struct tt_measure measure; /* the caller frees it with tt_measure_fini */
    int64_t events;            /* arrivals, endings, finished tasks */
    int64_t simulated_ns;      /* when the run ended */
    bool interrupted;
    struct tt_live_figures live;
    bool cut; /* by bad_limit or bad_share: the figures cover the beginning only */
};

/* `outputs` may be NULL. With `check`, every invariant is checked after every event. `stop` (may be
 * NULL) is read now and then: when it is not 0, the run ends early. Errors: the policy rejects its
 * options, a file cannot be read or written. */
TT_MUST_CHECK enum tt_err tt_scenario_run(const struct tt_scenario *self, bool check,
                                          const struct tt_scenario_outputs *outputs,
                                          const volatile sig_atomic_t *stop,
                                          struct tt_scenario_result *out_result,
                                          struct tt_error *why);

#endif
