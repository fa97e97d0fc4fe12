/* Figures of a run in real time beside what it measured: where and when it ran, how punctual the
 * scheduler was, and how far the load generator fell behind. The latter distinguishes a slow server
 * from a slow experiment. */
#ifndef TT_LAB_SCENARIO_LIVE_FIGURES_H
#define TT_LAB_SCENARIO_LIVE_FIGURES_H

#include "base/histogram.h"

#include <stdbool.h>

/* Of durations, or of shares in millionths. */
struct tt_live_spread {
    int64_t count, mean, p50, p99, maximum;
};

struct tt_live_figures {
    bool is_live; /* false: simulated; the fields below are not set */
    char machine[256], date[24];
    int32_t cores;
    /* Peak resident memory of the process during the run, models, load and program included; 0:
     * unknown. */
    int64_t peak_memory_bytes;
    /* From the planned instant of a request until the server received it. Latencies count from the
     * planned instant, so they include it. */
    struct tt_live_spread lag_ns;
    /* From the instant of a timer of the policy until its decision. */
    struct tt_live_spread decision_late_ns;
    /* From the instant at which a task was dispatched, due, and its executor idle, until it began.
     */
    struct tt_live_spread start_late_ns;
    /* The run times of tasks relative to their profiles, in millionths. */
    struct tt_live_spread run_ppm;
    bool doubtful;      /* the generator fell behind too far: the figures describe the generator */
    char left_out[256]; /* features of the file that only the simulator has; "": none */
    char failure[256];  /* why the first failed request failed; "": none did */
    int64_t left_waiting; /* cancelled at the end because nothing more happened to them */
};

struct tt_live_spread tt_live_spread_of(const struct tt_histogram *histogram);
/* Fills in the machine and the date. */
void tt_live_figures_begin(struct tt_live_figures *self);
/* Adds `what` to `left_out`, once, if it applies. */
void tt_live_figures_leave_out(struct tt_live_figures *self, bool applies, const char *what);

#endif
