/* What is written of a request when it has ended, by either transport: a line of the access log
 * (net/kserve/access_line.h), and the spans of its trace (net/telemetry/tracer.h).
 *
 * Life of an entry: `tt_journal_begin` when the request is complete; `tt_journal_end` after its
 * answer. Both are called only where `tt_journal_is_on`: without a log and a tracer a request
 * costs this one question. A journal belongs to one connection thread. Only inferences have spans.
 * Implemented in request_journal.c. */
#ifndef TT_NET_KSERVE_REQUEST_JOURNAL_H
#define TT_NET_KSERVE_REQUEST_JOURNAL_H

#include "net/kserve/access_line.h"
#include "net/telemetry/tracer.h"

struct tt_journal_options {
    struct tt_line_file *access_lines; /* borrowed; NULL: no access log */
    struct tt_tracer *tracer;          /* borrowed; NULL: no spans */
    int32_t writer;                    /* this thread's, of both */
};

struct tt_journal {
    struct tt_access_log access_log; /* without a file: none */
    struct tt_tracer *tracer;        /* NULL: no spans */
    int32_t writer;
};

struct tt_journal_entry {
    int64_t received_at, began_at; /* the request's first byte; it was complete */
    struct tt_traced traced;       /* with a tracer, or if has_trace */
    bool has_trace;                /* the client sends a context, or there is a tracer */
};

void tt_journal_init(struct tt_journal *self, const struct tt_journal_options *options);
void tt_journal_fini(struct tt_journal *self);
static inline bool tt_journal_is_on(const struct tt_journal *self) {
    return self->access_log.file || self->tracer;
}

/* `headers` NULL: the request was not understood. `received_at` 0: unknown, as if it came whole. */
void tt_journal_begin(struct tt_journal *self, struct tt_trace_headers *headers,
                      int64_t received_at, struct tt_journal_entry *out_entry);
/* The context to answer with; NULL: none. */
static inline const struct tt_trace_context *
tt_journal_answer_context(const struct tt_journal *self, const struct tt_journal_entry *entry) {
    return self->tracer ? &entry->traced.context : NULL;
}
/* `line` without the times and the trace, which are the entry's. */
void tt_journal_end(struct tt_journal *self, const struct tt_journal_entry *entry,
                    const struct tt_access_line *line);

#endif
