/* What the tap (trace.c) writes, and trace_write.c and trace_read.c read. */
#ifndef TT_RECORD_TRACE_INTERNAL_H
#define TT_RECORD_TRACE_INTERNAL_H

#include "base/threads/lock.h"
#include "base/threads/recent.h"
#include "record/trace.h"

enum tt_trace_kind { TT_TRACE_BATCH, TT_TRACE_REQUEST, TT_TRACE_WORD, TT_TRACE_COPY, TT_TRACE_ID };

struct tt_trace_record {
    uint8_t kind;
    uint8_t outcome; /* BATCH: tt_outcome; REQUEST: tt_ending; COPY: tt_trace_direction */
    uint8_t reason;  /* REQUEST: tt_drop_reason */
    bool ran;        /* REQUEST: `run` is the batch in which it ended */
    uint16_t rows, count;
    union {
        int32_t executor; /* BATCH, COPY */
        int32_t slack_us; /* REQUEST: from its end to its deadline; TT_TRACE_NO_SLACK: none */
    };
    int32_t name;                  /* of the model */
    int32_t domain;                /* counted through the server's life */
    int32_t first_step, last_step; /* BATCH; REQUEST by cells: in first_step, how many batches after
                                      its first one it ended, else 0 */
    int64_t run;                   /* number of the batch in its domain */
    int64_t number;                /* REQUEST, WORD; BATCH: when it was decided */
    int64_t begin_at, end_at; /* BATCH: of the run; REQUEST: arrived, ended; WORD: arrived, emitted;
                                 COPY: of the copies of a batch */
};
/* TT_TRACE_ID, in the place of a record: how its client calls a request. */
enum { TT_TRACE_ID_BYTES = 43 };
struct tt_trace_id {
    uint8_t kind;
    char id[TT_TRACE_ID_BYTES]; /* UTF-8; ends with a NUL or at the end */
    int32_t domain;
    int64_t number; /* the request's */
    int64_t end_at;
};
_Static_assert(sizeof(struct tt_trace_id) == sizeof(struct tt_trace_record), "a record");

enum { TT_TRACE_RECORD_WORDS = sizeof(struct tt_trace_record) / 8 };
_Static_assert(sizeof(struct tt_trace_record) == 64, "whole words, a cache line");

/* The text as a JSON string, quotes included; malloc'ed. NULL: out of memory. */
char *tt_trace_as_json(const char *name);

struct tt_trace_tap {
    struct tt_observer observer;
    struct tt_trace *trace;
    struct tt_recent recent;
    int32_t *names; /* [model_capacity] of the models that are there */
    int32_t domain;
    int64_t last_run; /* the domain's latest batch */
    int64_t
        *first_runs; /* by cells: by request (its handle's index), the batch of its first cell */
    bool in_use;
    struct tt_trace_tap *next;
};

struct tt_trace {
    struct tt_lock lock; /* guards all of this, and `in_use` of the taps */
    struct tt_trace_tap *taps;
    int64_t records;
    char **names; /* as JSON strings, quotes included; of models, then of domains' policies too */
    int32_t name_count;
    int64_t name_capacity;
    int32_t *policies; /* names, by domain */
    int32_t domain_count;
    int64_t domain_capacity;
};

#endif
