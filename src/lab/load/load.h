/* The pure half of a load generator: which request is due when, and how requests ended. It uses no
 * clock and no sockets: the caller passes the time (nanoseconds since the load began), sends the
 * requests that `tt_load_take` returns, and reports how each ended.
 *
 * *Open loop*: requests come as the scenario draws them, whether earlier ones are answered or not.
 * A request's latency counts from its *intended* instant, so a server or a generator that falls
 * behind cannot hide the waiting time: there is no coordinated omission.
 *
 * *Closed loop*: `concurrency` clients, each of which sends its next request when it has an answer.
 * The load adapts to a slow server, so the latencies hold only for that many patient clients; use
 * it for throughput.
 *
 * Life of a request: taken (in flight) -> ended, once. Requests intended before `warm_up_ns` are
 * sent and awaited but not counted. For the others, arrived = ok + late + rejected + failed +
 * timed_out + broken + cancelled + unfinished; an interruption leaves requests unfinished.
 *
 * Reasons: every distinct text is counted, with each number replaced by '#' (except digits in a
 * name), so "late by 17 us" and "late by 9 us" are one reason; the first text is kept as it came.
 */
#ifndef TT_LAB_LOAD_LOAD_H
#define TT_LAB_LOAD_LOAD_H

#include "base/histogram.h"
#include "lab/load/arrival_source.h"

enum { TT_LOAD_MAX_REASONS = 64, TT_LOAD_REASON_BYTES = 256 };

struct tt_load_request {
    int64_t number;      /* from 0, in the order of _take */
    int64_t at;          /* intended */
    int64_t deadline_at; /* TT_NEVER: none */
    int64_t cancel_at;   /* its client cancels then; TT_NEVER: it does not */
    int32_t model, rows, length, priority;
};

enum tt_load_end {
    TT_LOAD_ANSWERED,  /* with outputs */
    TT_LOAD_REJECTED,  /* by the server: 503, 429 */
    TT_LOAD_FAILED,    /* any other answer */
    TT_LOAD_TIMED_OUT, /* no answer within the timeout */
    TT_LOAD_BROKEN,    /* no connection, a broken one, or no valid HTTP */
    TT_LOAD_CANCELLED, /* its client cancelled, as intended */
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

/* "ok" and so on; static storage. */
const char *tt_load_outcome_name(enum tt_load_outcome outcome);

struct tt_load_reason {
    char text[TT_LOAD_REASON_BYTES];
    char example[TT_LOAD_REASON_BYTES]; /* the first text of the reason, with its numbers */
    int64_t count;
};

struct tt_load_model {
    int64_t arrived;
    int64_t outcomes[TT_LOAD_OUTCOMES]; /* their sum is `arrived` when all have ended */
    struct tt_histogram latency_ns;     /* intended to answered, of ok and late */
    struct tt_histogram service_ns;     /* sent to answered, of ok and late */
    struct tt_histogram lag_ns;         /* intended to sent */
    int64_t sent_bytes, received_bytes;
};

struct tt_load {
    const struct tt_scenario *scenario; /* borrowed */
    int32_t concurrency;                /* 0: open loop */
    struct tt_arrival_source source;
    struct tt_sim_arrival next; /* valid if has_next */
    bool has_next;
    struct tt_prng prng; /* closed loop: draws the model */
    int64_t weight_sum;
    int64_t taken, ended;
    int64_t last_end_at;
    int64_t stopped_at; /* TT_NEVER: it was not stopped */
    struct tt_load_model *models;
    struct tt_load_reason reasons[TT_LOAD_MAX_REASONS]; /* the last one counts all others */
    int32_t reason_count;
};

/* Errors: those of the arrival source; NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_load_init(struct tt_load *self, const struct tt_scenario *scenario,
                                       int32_t concurrency, struct tt_error *why);
void tt_load_fini(struct tt_load *self);

/* When `tt_load_take` will return a request; TT_NEVER: not before a request ends, or never. */
int64_t tt_load_next_at(const struct tt_load *self, int64_t now);
/* Returns the request that is due at `now`; false: none is. */
bool tt_load_take(struct tt_load *self, int64_t now, struct tt_load_request *out_request);
/* No request will come, and none is in flight. */
bool tt_load_done(const struct tt_load *self, int64_t now);
/* Ends the load: no request is due after this call. */
void tt_load_stop(struct tt_load *self, int64_t now);

struct tt_load_result {
    enum tt_load_end end;
    int64_t sent_at; /* -1: it was not sent */
    int64_t sent_bytes, received_bytes;
    int32_t status;     /* of HTTP; 0: no answer came */
    const char *reason; /* unless ANSWERED: a text, "" or NULL for none; copied */
};
/* Called once when a taken request has ended. Returns its outcome. */
enum tt_load_outcome tt_load_ended(struct tt_load *self, const struct tt_load_request *request,
                                   int64_t now, const struct tt_load_result *result);

/* late + rejected + failed + timed out + broken. */
int64_t tt_load_bad(const struct tt_load_model *model);
double tt_load_bad_rate(const struct tt_load_model *model); /* 0 if nothing ended */
/* The measured time: from the warm-up to the end of the load, or to the end of the last request if
 * a number of requests or an interruption ended the load. At least 1 ns. */
int64_t tt_load_window_ns(const struct tt_load *self);
/* All models together. The caller frees `out` with tt_load_model_fini. */
void tt_load_total(const struct tt_load *self, struct tt_load_model *out);
void tt_load_model_fini(struct tt_load_model *self);

#endif
