/* The figures of a run, per model and in total, over the requests that arrived after the warm-up.
 *
 * Its functions are called for a simulation's events. A request counts if it arrived at warm_up_ns
 * or later. An execution counts with its part between warm_up_ns and end_ns (the end of the run if
 * that is TT_NEVER). A request is bad if it was late, dropped or failed; cancelled requests are
 * excluded from the bad rate. All measured values are integers; only derived rates are floats. */
#ifndef TT_LAB_SCENARIO_MEASURE_H
#define TT_LAB_SCENARIO_MEASURE_H

#include "base/histogram.h"
#include "sim/simulation.h"

enum { TT_MEASURE_REASONS = TT_DROP_WITHDRAWN + 1 };

struct tt_measure_model {
    int64_t arrived; /* sum of the counters below */
    int64_t ok, late, failed, cancelled;
    int64_t dropped[TT_MEASURE_REASONS]; /* by enum tt_drop_reason */
    struct tt_histogram latency_ns;      /* of ok and late */
    struct tt_histogram queueing_ns;     /* arrival to first execution, of ok and late */
    struct tt_histogram batch_rows;      /* rows of each step executed */
    int64_t aborted;                     /* executions stopped by ABORT */
    int64_t cut_short; /* of ok and late: outputs stopped at the longest of the model */
    /* Of ok and late, for models with objectives for tokens; otherwise empty. */
    int64_t tokens, tokens_late; /* tokens; requests that did not keep an objective */
    struct tt_histogram ttft_ns,
        tpot_ns; /* arrival to the first token; mean from one to the next */
};

struct tt_measure_executor {
    int32_t device;
    int64_t busy_ns;    /* within the window */
    int64_t started_at; /* of the running step; -1: none */
};

struct tt_measure {
    int64_t warm_up_ns, end_ns; /* end_ns TT_NEVER: until the end of the run */
    int64_t last_at;            /* instant of the latest event */
    int32_t model_count, executor_count, device_count;
    bool counts_only; /* the histograms of times stay empty */
    struct tt_measure_model *models;
    struct tt_measure_executor *executors;
};

void tt_measure_init(struct tt_measure *self, int32_t model_count,
                     const struct tt_sim_device *devices, int32_t device_count);
void tt_measure_fini(struct tt_measure *self);

/* Called by the observer of the run. */
void tt_measure_ended(struct tt_measure *self, const struct tt_sim_ending *ending);
/* A request that was executed waited so long, where its ending does not say when it started. */
void tt_measure_waited(struct tt_measure *self, int32_t model, int64_t arrived_at, int64_t wait_ns);
void tt_measure_step_started(struct tt_measure *self, int64_t now, const struct tt_task *task);
void tt_measure_step_ended(struct tt_measure *self, int64_t now, const struct tt_task *task,
                           int32_t step);

/* late + dropped + failed */
int64_t tt_measure_bad(const struct tt_measure_model *model);
/* Of all models: the requests that were in time. */
int64_t tt_measure_in_time(const struct tt_measure *self);
/* bad / (arrived - cancelled); 0 if nothing arrived. */
double tt_measure_bad_rate(const struct tt_measure_model *model);
/* All models together. The caller frees `out` with tt_measure_model_fini. */
void tt_measure_total(const struct tt_measure *self, struct tt_measure_model *out);
void tt_measure_model_init(struct tt_measure_model *self);
void tt_measure_model_fini(struct tt_measure_model *self);
/* Adds the other model's figures, as if both were one. */
void tt_measure_model_add(struct tt_measure_model *self, const struct tt_measure_model *other);
/* Length of the measured window; at least 1 ns. */
int64_t tt_measure_window_ns(const struct tt_measure *self);
/* The share of the executors' time in which they ran a step, 0 .. 1. */
double tt_measure_utilisation(const struct tt_measure *self);
/* The number of devices that ran a step in the window. */
int32_t tt_measure_devices_used(const struct tt_measure *self);

#endif
