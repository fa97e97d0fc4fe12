/* W3C Trace Context, level 1: the headers `traceparent` and `tracestate`, which say to which trace
 * a request belongs and whether that trace is recorded.
 *
 * Life of a struct tt_trace_headers: cleared when a request begins; each of the two headers is
 * added as it comes; `tt_trace_headers_take` returns the context after the last one. A malformed
 * traceparent, or a second one, means that there is no context. A malformed tracestate, or one
 * longer than TT_TRACE_STATE_BYTES, is dropped alone. Nothing of this is an error of the request.
 *
 * It never allocates, and keeps no pointer to what it reads. Implemented in trace_context.c. */
#ifndef TT_NET_TELEMETRY_TRACE_CONTEXT_H
#define TT_NET_TELEMETRY_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TT_TRACE_ID_BYTES = 16,
    TT_SPAN_ID_BYTES = 8,
    TT_TRACEPARENT_BYTES = 55, /* of version 00 */
    TT_TRACE_STATE_BYTES = 512,
    TT_TRACE_STATE_MEMBERS = 32
};

struct tt_trace_context {
    uint8_t trace_id[TT_TRACE_ID_BYTES];
    uint8_t span_id[TT_SPAN_ID_BYTES]; /* of the sender */
    bool is_sampled;
    uint16_t state_bytes;             /* 0: none */
    char state[TT_TRACE_STATE_BYTES]; /* as it came; not NUL-terminated */
};

struct tt_trace_headers {
    int32_t parent_count;
    bool is_valid;     /* the one traceparent is */
    bool is_state_bad; /* the tracestate is to be dropped */
    struct tt_trace_context context;
};

/* Not cleared as a whole: the state is long and mostly unused. */
static inline void tt_trace_headers_clear(struct tt_trace_headers *self) {
    self->parent_count = 0;
    self->is_valid = self->is_state_bad = false;
    self->context.state_bytes = 0;
}
void tt_trace_headers_add_parent(struct tt_trace_headers *self, const char *value,
                                 size_t value_bytes);
/* Several headers are one list, in their order. */
void tt_trace_headers_add_state(struct tt_trace_headers *self, const char *value,
                                size_t value_bytes);
/* NULL: the request brings no context. Else it is in `self`, its state checked. */
const struct tt_trace_context *tt_trace_headers_take(struct tt_trace_headers *self);

/* The value of a traceparent of version 00, without a NUL. */
void tt_traceparent_write(const struct tt_trace_context *context, char out[TT_TRACEPARENT_BYTES]);

#endif
