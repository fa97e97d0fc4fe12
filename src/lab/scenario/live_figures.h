/* What a run in real time says about itself, beside what it measured: where and when it ran, how
 * punctual the scheduler was, and how far its own load generator fell behind. Without the last,
 * nobody could tell a slow server from a slow experiment. */
#ifndef TT_LAB_SCENARIO_LIVE_FIGURES_H
#define TT_LAB_SCENARIO_LIVE_FIGURES_H

#include "base/histogram.h"

#include <stdbool.h>

/* Of durations, or of shares in millionths. */
struct tt_live_spread {
    int64_t count, mean, p50, p99, maximum;
};

struct tt_live_figures {
    bool is_live; /* else it was simulated, and nothing below means anything */
    char machine[256], date[24];
    int32_t cores;
    int64_t peak_memory_bytes; /* most that this process had resident during the run, the models,
                                  the load and the program itself included; 0: unknown */
    /* The instant at which a request was handed to the server, after the planned one; it is in the
     * latencies, which count from the plan. */
    struct tt_live_spread lag_ns;
    /* A decision that was due at an instant (a timer of the policy) was taken so much later. */
    struct tt_live_spread decision_late_ns;
    /* A task began so long after it could have: dispatched, due, its executor free. */
    struct tt_live_spread start_late_ns;
    /* How long tasks ran, next to what their profiles say, in millionths. */
    struct tt_live_spread run_ppm;
    bool doubtful;        /* the generator fell behind so far that the figures are its own */
    char left_out[256];   /* what of the file only the simulator does; "" : nothing */
    char failure[256];    /* the first request that failed: why; "": none did */
    int64_t left_waiting; /* cancelled at the end, since nothing more happened to them */
};

struct tt_live_spread tt_live_spread_of(const struct tt_histogram *histogram);

#endif
