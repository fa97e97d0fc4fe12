/* The latest batches and requests of every domain, kept in memory, and written as a trace that
 * Perfetto (ui.perfetto.dev) and chrome://tracing load.
 *
 * A tap observes one domain and keeps a record per finished batch and per request that left, in a
 * ring that overwrites its oldest records. It runs on the domain's thread and neither allocates nor
 * waits, except for a model's name when a model comes. Writing reads the rings while they change.
 * The trace has a track per executor with its batches, tracks per model with its requests from
 * arrival to end, and a flow from each request to the batch that computed it. Copies to and from an
 * asynchronous device have two more tracks per executor, and one for inputs that are copied when
 * they arrive. A mark shows where a
 * streamed request emitted its first word. Domains that are gone stay visible until another domain
 * needs their ring. Implemented in trace.c (taps), trace_write.c and trace_read.c. */
#ifndef TT_RECORD_TRACE_H
#define TT_RECORD_TRACE_H

#include "base/text.h"
#include "core/observer.h"
#include "core/task.h"

enum {
    TT_TRACE_RECORDS = 32768, /* per domain, of 64 bytes, in a server */
    TT_TRACE_LANES = 64,      /* tracks per model: so many requests at once are shown */
};

struct tt_trace;
struct tt_trace_tap;

/* `records`: per domain, batches and requests together. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_new(int64_t records, struct tt_trace **out_trace,
                                       struct tt_error *why);
/* Every tap has been left. NULL-safe. */
void tt_trace_free(struct tt_trace *take_trace);
/* Asserts that the names and domains that it refers to are in its tables. Any thread. */
void tt_trace_check(struct tt_trace *self);
/* Observes the domain from now on, before its first event. Any thread. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_add(struct tt_trace *self, struct tt_mechanism *mechanism,
                                       const char *policy, struct tt_trace_tap **out_tap,
                                       struct tt_error *why);
/* The domain has no events any more. NULL-safe. */
void tt_trace_leave(struct tt_trace_tap *tap);

/* A request whose client streams has emitted its first word at `emitted_at`. In a turn. */
void tt_trace_emitted(struct tt_trace_tap *tap, const struct tt_request *request,
                      int64_t emitted_at);

enum tt_trace_direction {
    TT_TRACE_IN,      /* inputs of a batch, with it */
    TT_TRACE_OUT,     /* outputs of a batch */
    TT_TRACE_ARRIVAL, /* E1: inputs of a request, when it arrived */
};

struct tt_trace_copies {
    enum tt_trace_direction direction;
    int32_t rows, requests;
    int64_t begin_at, end_at;
};

/* Copies to or from the memory of an asynchronous device, for the task. In a turn. */
void tt_trace_copied(struct tt_trace_tap *tap, const struct tt_task *task,
                     const struct tt_trace_copies *copies);
/* The request ends at `now`; its client calls it `id`, whose beginning is kept. In a turn. */
void tt_trace_identified(struct tt_trace_tap *tap, int64_t now, const struct tt_request *request,
                         const char *id);

/* Appends what ended at `since_at` or later, as Chrome trace JSON (docs/FORMATS.md). Any thread.
 * Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_trace_write(struct tt_trace *self, int64_t since_at,
                                         struct tt_text *out_json, struct tt_error *why);

/* ---- what is new since the last reading ---- */

enum { TT_TRACE_NO_SLACK = INT32_MAX, TT_TRACE_MAX_RINGS = 256 };

/* Where the next reading begins, per ring: in the order in which the rings were made. */
struct tt_trace_cursor {
    int32_t count; /* rings that were read; later ones are read from `since_at` on */
    uint64_t next[TT_TRACE_MAX_RINGS];
};

struct tt_trace_batch {
    int32_t model;  /* a name's number, as in `name` below */
    int32_t domain; /* counted through the server's life: tt_trace_tap_domain() */
    int32_t executor, rows;
    int32_t slack_us; /* the least of the requests that ended in it; TT_TRACE_NO_SLACK: none */
    enum tt_outcome outcome;
    int64_t begin_at, end_at;
};

struct tt_trace_ending {
    int32_t model;
    int32_t slack_us; /* as above */
    bool is_done;     /* else dropped, failed or cancelled */
    int64_t begin_at, end_at;
};

/* Called in the order of the events of a domain, under the trace's lock: they must not call the
 * trace. `json_name`: a JSON string with its quotes. */
struct tt_trace_visitor {
    void (*name)(void *context, int32_t number, const char *json_name);
    void (*batch)(void *context, const struct tt_trace_batch *batch);
    void (*request)(void *context, const struct tt_trace_ending *request);
    void *context;
};

/* Visits every name, then what ended after the cursor and until `until_at`, and moves the cursor.
 * A ring that the cursor does not know is read from `since_at` on. Returns how many records were
 * overwritten before they were read. `until_at` should lie some ms before now: the requests of a
 * batch are recorded after the batch. Those that were answered before it ended (E7) count for its
 * slack if they are read with it. Any thread. */
int64_t tt_trace_read(struct tt_trace *self, int64_t since_at, int64_t until_at,
                      struct tt_trace_cursor *cursor, const struct tt_trace_visitor *visitor);
/* The domain's number in struct tt_trace_batch. */
int32_t tt_trace_tap_domain(const struct tt_trace_tap *tap);

#endif
