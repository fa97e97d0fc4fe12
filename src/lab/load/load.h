/* The pure half of a load generator: who is to be asked when, and what came of it. No clock, no
 * sockets: the carrier tells the time (nanoseconds since the load began), sends what
 * `tt_load_take` gives it, and reports each end.
 *
 * Two ways. *Open loop*: requests come as the scenario draws them, whether earlier ones are
 * answered or not, as the world's requests do. A request's latency counts from the instant at which
 * it was *intended*, so that a server (or a generator) that falls behind cannot hide what its users
 * would have waited: there is no coordinated omission. *Closed loop*: `concurrency` clients, each
 * of which asks anew when it has its answer. Their load gives way to a slow server, so its
 * latencies are those of that many patient clients and of nobody else; use it for throughput.
 *
 * Life of a request: taken (it is under way) -> ended, once. Those that were intended before
 * `warm_up_ns` are sent and awaited but not counted. Counted ones: arrived = ok + late + rejected +
 * failed + timed_out + broken + cancelled + unfinished, the last being those that an interruption
 * left open.
 *
 * Reasons: every distinct text is counted, with every number made '#' (but not the digits of a
 * name), so that "late by 17 us" and "late by 9 us" are one. */
#ifndef TT_LAB_LOAD_LOAD_H
#define TT_LAB_LOAD_LOAD_H

#include "base/histogram.h"
#include "lab/load/arrival_source.h"

enum { TT_LOAD_MAX_REASONS = 64, TT_LOAD_REASON_BYTES = 256 };

struct tt_load_request {
    int64_t number;      /* from 0, in the order in which they were taken */
    int64_t at;          /* intended */
    int64_t deadline_at; /* TT_NEVER: none */
    int64_t cancel_at;   /* its client goes away then; TT_NEVER: it stays */
    int32_t model, rows, length, priority;
};

enum tt_load_end {
    TT_LOAD_ANSWERED,  /* with outputs */
    TT_LOAD_REJECTED,  /* the server would not: 503, 429 */
    TT_LOAD_FAILED,    /* any other answer */
    TT_LOAD_TIMED_OUT, /* none in the time that was given */
    TT_LOAD_BROKEN,    /* no connection, or it broke, or no HTTP */
    TT_LOAD_CANCELLED, /* its client has gone, as it was to */
    TT_LOAD_UNFINISHED,
};

enum tt_load_outcome {
    TT_LOAD_OUTCOME_OK,
    TT_LOAD_OUTCOME_LATE,
    TT_LOAD_OUTCOME_REJECTED,
    TT_LOAD_OUTCOME_FAILED,
    TT_LOAD_OUTCOME_TIMED_OUT,
    TT_LOAD_OUTCOME_BROKEN,
    TT_LOAD_OUTCOME_CANCELLED,
    TT_LOAD_OUTCOME_UNFINISHED,
    TT_LOAD_OUTCOMES,
};

/* "ok" ... Static storage. */
const char *tt_load_outcome_name(enum tt_load_outcome outcome);

struct tt_load_reason {
    char text[TT_LOAD_REASON_BYTES];
    int64_t count;
};

struct tt_load_model {
    int64_t arrived;
    int64_t outcomes[TT_LOAD_OUTCOMES]; /* their sum is `arrived` when all have ended */
    struct tt_histogram latency_ns;     /* intended to answered, of ok and late */
    struct tt_histogram service_ns;     /* sent to answered, of ok and late */
    struct tt_histogram lag_ns;         /* intended to sent: what the generator was late */
    int64_t sent_bytes, received_bytes;
};

struct tt_load {
    const struct tt_scenario *scenario; /* borrowed */
    int32_t concurrency;                /* 0: open loop */
    struct tt_arrival_source source;
    struct tt_sim_arrival next; /* where has_next */
    bool has_next;
    struct tt_prng prng; /* closed loop: which model */
    int64_t weight_sum;
    int64_t taken, ended;
    int64_t last_end_at;
    int64_t stopped_at; /* TT_NEVER: was not */
    struct tt_load_model *models;
    struct tt_load_reason reasons[TT_LOAD_MAX_REASONS]; /* the last one stands for all others */
    int32_t reason_count;
};

/* Errors are the source's; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_load_init(struct tt_load *self, const struct tt_scenario *scenario,
                                       int32_t concurrency, struct tt_error *why);
void tt_load_fini(struct tt_load *self);

/* When `tt_load_take` has something; TT_NEVER: not before something ends, or never again. */
int64_t tt_load_next_at(const struct tt_load *self, int64_t now);
/* The request that is due at `now`; false: none is. */
bool tt_load_take(struct tt_load *self, int64_t now, struct tt_load_request *out_request);
/* Nothing comes any more and nothing is under way. */
bool tt_load_done(const struct tt_load *self, int64_t now);
/* No more requests from now on. */
void tt_load_stop(struct tt_load *self, int64_t now);

struct tt_load_result {
    enum tt_load_end end;
    int64_t sent_at; /* -1: it never was */
    int64_t sent_bytes, received_bytes;
    int32_t status;     /* of HTTP; 0: no answer came */
    const char *reason; /* where not ANSWERED: in words, "" or NULL for none; need not outlive it */
};
/* A request that was taken is over; says what it counts as. */
enum tt_load_outcome tt_load_ended(struct tt_load *self, const struct tt_load_request *request,
                                   int64_t now, const struct tt_load_result *result);

/* late, rejected, failed, timed out and broken, of those that ended. */
int64_t tt_load_bad(const struct tt_load_model *model);
double tt_load_bad_rate(const struct tt_load_model *model); /* 0 where nothing ended */
/* The measured stretch of time: from the warm-up to the end of the load, or to the last end where
 * a number of requests or an interruption ended it. At least 1 ns. */
int64_t tt_load_window_ns(const struct tt_load *self);
/* All models together (to be freed with tt_load_model_fini). */
void tt_load_total(const struct tt_load *self, struct tt_load_model *out);
void tt_load_model_fini(struct tt_load_model *self);

#endif
