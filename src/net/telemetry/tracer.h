/* Which requests are traced, the ids of their spans, and the way of what they were from the threads
 * of connections to the thread that exports it.
 *
 * Life of a request: `tt_tracer_begin` gives it a context of its own within the trace of its
 * client, or within a new one, and decides whether it is sampled: as the client did, else by the
 * ratio. `tt_tracer_put` copies what is known at its end into the ring of its thread. If the ring
 * is full, the request is counted as lost. The exporter takes whole records.
 *
 * A struct tt_tracer_writer belongs to one connection thread; the exporter's thread reads all. It
 * makes no system call, and allocates at the start only. Random numbers come from a seed.
 * Implemented in tracer.c. */
#ifndef TT_NET_TELEMETRY_TRACER_H
#define TT_NET_TELEMETRY_TRACER_H

#include "base/err.h"
#include "base/prng.h"
#include "base/text.h"
#include "base/threads/byte_ring.h"
#include "base/threads/counter.h"
#include "net/telemetry/trace_context.h"

enum {
    TT_TRACER_ALL = 1000000000, /* the ratio 1 */
    TT_TRACER_STRINGS = 5,
    TT_TRACER_STRING_BYTES = 256, /* of one, with its NUL; the rest is cut off */
    TT_TRACER_STEPS = 64,
    TT_TRACER_MODEL_BYTES = 64 /* of a step's model, likewise */
};

struct tt_tracer_writer {
    struct tt_byte_ring ring;
    struct tt_counter lost; /* requests for which the ring had no room */
    struct tt_prng prng;
};

struct tt_tracer {
    struct tt_tracer_writer *writers;
    int32_t writer_count;
    uint64_t threshold; /* of 2^56: traces whose low 56 bits are below it are sampled */
};

/* The place of a request in its trace. */
struct tt_traced {
    struct tt_trace_context context; /* its own span id */
    uint8_t parent_id[TT_SPAN_ID_BYTES];
    bool has_parent;
};

/* What a request was, at its end. Instants of tt_clock_now(); 0: it did not come so far. */
struct tt_trace_facts {
    int64_t received_at;        /* its first byte */
    int64_t since_at;           /* its deadline counts from here */
    int64_t submitted_at;       /* its inputs were in place */
    int64_t started_at;         /* the first batch that it was in */
    int64_t computed_at;        /* the last one's end; 0 also: unknown, as of an ensemble */
    int64_t ended_at;           /* its answer was written, or given up */
    int64_t input_ns, infer_ns; /* of its batches: making them contiguous, and running */
    int64_t deadline_at;        /* TT_NEVER: none */
    int32_t rows, batch_rows;   /* batch_rows 0: it ran in no batch, or in cells */
    int32_t priority;
    int32_t status, grpc_status; /* grpc_status -1: it is HTTP */
    bool is_one_run;             /* input_ns and infer_ns are of one batch */
};

/* The strings of a record, in this order. */
struct tt_trace_strings {
    /* Path: of HTTP without the query; of gRPC "SERVICE/METHOD". Why: it failed. NULL is "". */
    const char *method, *path, *model, *version, *why;
};

/* A step of an ensemble; instants as above. */
struct tt_trace_step {
    int64_t submitted_at, started_at, ended_at; /* started_at 0: it did not run */
    int64_t deadline_at;                        /* TT_NEVER: none */
    int32_t number;                             /* from 1, in the configuration */
    int32_t batch_rows;                         /* 0: it ran in no batch, or in cells */
    bool is_failed;
    char model[TT_TRACER_MODEL_BYTES];
};

/* A record of the ring: this struct, then the state, then the strings, each with its NUL, then the
 * steps. */
struct tt_trace_record {
    uint32_t size_bytes; /* of all of it */
    uint32_t state_bytes;
    int32_t step_count;
    uint8_t trace_id[TT_TRACE_ID_BYTES];
    uint8_t span_id[TT_SPAN_ID_BYTES], parent_id[TT_SPAN_ID_BYTES];
    bool has_parent;
    struct tt_trace_facts facts;
};

/* `room_bytes`: of each writer's ring. `sample`: the ratio of TT_TRACER_ALL. `self` is
 * zero-initialised. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_tracer_init(struct tt_tracer *self, int32_t writers, size_t room_bytes,
                                         int64_t sample, uint64_t seed);
/* Also after a failed init. */
void tt_tracer_fini(struct tt_tracer *self);

/* `parent` NULL: the client sends none. The writer's thread, as the next one. */
void tt_tracer_begin(struct tt_tracer *self, int32_t writer, const struct tt_trace_context *parent,
                     struct tt_traced *out_traced);
/* The request has ended; nothing happens if it is not sampled. At most TT_TRACER_STEPS `steps`. */
void tt_tracer_put(struct tt_tracer *self, int32_t writer, const struct tt_traced *traced,
                   const struct tt_trace_facts *facts, const struct tt_trace_strings *strings,
                   const struct tt_trace_step *steps, int32_t step_count);

/* The exporter's thread: appends whole records to `out_records` until it has `limit_bytes`, or none
 * is left; returns how many. */
int32_t tt_tracer_take(struct tt_tracer *self, struct tt_text *out_records, size_t limit_bytes);
/* Requests that were lost so far. Any thread. */
int64_t tt_tracer_lost(const struct tt_tracer *self);

/* The record at `bytes`, copied out, with its strings, which stay where they are. */
void tt_trace_record_read(const char *bytes, struct tt_trace_record *out_record,
                          const char **out_state, struct tt_trace_strings *out_strings);
/* Step `index` of the record at `bytes`, copied out. */
void tt_trace_record_step(const char *bytes, int32_t index, struct tt_trace_step *out_step);

#endif
