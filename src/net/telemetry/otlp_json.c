#include "net/telemetry/otlp_json.h"

#include "base/hex.h"
#include "base/instant.h"
#include "net/json/json_tensor.h"

#include <stdio.h>
#include <string.h>

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };

/* --- attributes --- */

static void put_key(struct tt_text *out, bool *is_first, const char *key) {
    tt_text_puts(out, *is_first ? "{\"key\":\"" : ",{\"key\":\"");
    tt_text_puts(out, key);
    *is_first = false;
}

static void put_text(struct tt_text *out, bool *is_first, const char *key, const char *value) {
    if (!*value)
        return;
    put_key(out, is_first, key);
    tt_text_puts(out, "\",\"value\":{\"stringValue\":");
    tt_json_write_string(out, value, strlen(value));
    tt_text_puts(out, "}}");
}

/* 64-bit integers are strings in this encoding. */
static void put_integer(struct tt_text *out, bool *is_first, const char *key, int64_t value) {
    put_key(out, is_first, key);
    tt_text_puts(out, "\",\"value\":{\"intValue\":\"");
    tt_text_put_integer(out, value);
    tt_text_puts(out, "\"}}");
}

static void put_ms(struct tt_text *out, bool *is_first, const char *key, int64_t ns) {
    long long us = ns / 1000, size = us < 0 ? -us : us;
    put_key(out, is_first, key);
    tt_text_printf(out, "\",\"value\":{\"doubleValue\":%s%lld.%03lld}}", us < 0 ? "-" : "",
                   size / 1000, size % 1000);
}

/* --- spans --- */

/* One request's spans. */
struct tree {
    const struct tt_trace_record *record;
    const char *bytes; /* of the record */
    const char *state;
    const struct tt_trace_strings *strings;
    int64_t wall_offset_ns;
    struct tt_text *out;
};

enum child { RECEIVE, QUEUE, BATCH, RUN, SEND, STEP /* the first one */ };

/* Children need no random numbers of their own: they follow from the request's. */
static void child_id(const struct tree *self, int child, uint8_t out[TT_SPAN_ID_BYTES]) {
    uint64_t state;
    memcpy(&state, self->record->span_id, sizeof(state));
    state += (uint64_t)child;
    uint64_t id = tt_prng_mix(&state);
    id = id ? id : 1;
    memcpy(out, &id, sizeof(id));
}

static void put_hex(struct tt_text *out, const char *name, const uint8_t *bytes, size_t count) {
    char hex[2 * TT_TRACE_ID_BYTES];
    tt_hex_write(bytes, count, hex);
    tt_text_puts(out, name);
    tt_text_append(out, hex, 2 * count);
    tt_text_append(out, "\"", 1);
}

static void put_instant(const struct tree *self, const char *name, int64_t at) {
    tt_text_puts(self->out, name);
    tt_text_put_integer(self->out, at + self->wall_offset_ns);
    tt_text_append(self->out, "\"", 1);
}

/* The span up to its attributes. */
static void begin_span(const struct tree *self, const uint8_t *span_id, const uint8_t *parent_id,
                       int kind, int64_t from_at, int64_t until_at) {
    struct tt_text *out = self->out;
    put_hex(out, "{\"traceId\":\"", self->record->trace_id, TT_TRACE_ID_BYTES);
    put_hex(out, ",\"spanId\":\"", span_id, TT_SPAN_ID_BYTES);
    if (parent_id)
        put_hex(out, ",\"parentSpanId\":\"", parent_id, TT_SPAN_ID_BYTES);
    if (self->record->state_bytes) {
        tt_text_puts(out, ",\"traceState\":");
        tt_json_write_string(out, self->state, self->record->state_bytes);
    }
    tt_text_printf(out, ",\"flags\":1,\"kind\":%d", kind);
    put_instant(self, ",\"startTimeUnixNano\":\"", from_at);
    put_instant(self, ",\"endTimeUnixNano\":\"", until_at);
}

/* Without attributes but `rows`, if there are any. */
static void put_child(const struct tree *self, enum child child, const uint8_t *parent_id,
                      int64_t from_at, int64_t until_at) {
    static const char *const names[] = {"receive", "queue", "batch", "run", "send"};
    uint8_t id[TT_SPAN_ID_BYTES];
    child_id(self, (int)child, id);
    tt_text_puts(self->out, ",");
    begin_span(self, id, parent_id, KIND_INTERNAL, from_at,
               until_at > from_at ? until_at : from_at);
    tt_text_printf(self->out, ",\"name\":\"%s\"", names[child]);
    if (child == BATCH && self->record->facts.batch_rows > 0) {
        bool is_first = true;
        tt_text_puts(self->out, ",\"attributes\":[");
        put_integer(self->out, &is_first, "tutti.batch_rows", self->record->facts.batch_rows);
        tt_text_puts(self->out, "]");
    }
    tt_text_puts(self->out, "}");
}

/* Of statuses that are the server's fault, as the conventions for servers say. */
static bool is_error(const struct tt_trace_facts *facts) {
    enum { UNKNOWN = 2, DEADLINE = 4, UNIMPLEMENTED = 12, INTERNAL = 13, UNAVAILABLE = 14, LOSS };
    switch (facts->grpc_status) {
    case -1: return facts->status >= 500;
    case UNKNOWN:
    case DEADLINE:
    case UNIMPLEMENTED:
    case INTERNAL:
    case UNAVAILABLE:
    case LOSS: return true;
    default: return false;
    }
}

/* What is behind the last slash, of which there is one. */
static const char *method_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void put_request_attributes(const struct tree *self) {
    const struct tt_trace_facts *facts = &self->record->facts;
    const struct tt_trace_strings *strings = self->strings;
    struct tt_text *out = self->out;
    bool is_first = true, is_http = facts->grpc_status < 0;
    tt_text_puts(out, ",\"attributes\":[");
    if (is_http) {
        put_text(out, &is_first, "http.request.method", strings->method);
        put_text(out, &is_first, "url.path", strings->path);
        put_integer(out, &is_first, "http.response.status_code", facts->status);
    } else {
        char service[TT_TRACER_STRING_BYTES];
        const char *method = method_of(strings->path);
        snprintf(service, sizeof(service), "%.*s",
                 (int)(method - strings->path - (method > strings->path)), strings->path);
        put_text(out, &is_first, "rpc.system", "grpc");
        put_text(out, &is_first, "rpc.service", service);
        put_text(out, &is_first, "rpc.method", method);
        put_integer(out, &is_first, "rpc.grpc.status_code", facts->grpc_status);
    }
    put_text(out, &is_first, "tutti.model", strings->model);
    put_text(out, &is_first, "tutti.model_version", strings->version);
    if (facts->submitted_at) {
        put_integer(out, &is_first, "tutti.rows", facts->rows);
        put_integer(out, &is_first, "tutti.priority", facts->priority);
    }
    if (facts->batch_rows > 0)
        put_integer(out, &is_first, "tutti.batch_rows", facts->batch_rows);
    if (facts->submitted_at && facts->deadline_at != TT_NEVER) {
        put_ms(out, &is_first, "tutti.deadline_ms", facts->deadline_at - facts->since_at);
        put_ms(out, &is_first, "tutti.slack_ms", facts->deadline_at - facts->ended_at);
    }
    tt_text_puts(out, "]");
}

/* "POST infer", or "SERVICE/METHOD": few names, whatever clients ask for. */
static void put_name(const struct tree *self) {
    char name[2 * TT_TRACER_STRING_BYTES];
    const struct tt_trace_strings *strings = self->strings;
    bool is_http = self->record->facts.grpc_status < 0;
    snprintf(name, sizeof(name), "%s%s%s", is_http ? strings->method : "", is_http ? " " : "",
             is_http ? method_of(strings->path) : strings->path);
    tt_json_write_string(self->out, name, strlen(name));
}

static void put_request(const struct tree *self) {
    const struct tt_trace_record *record = self->record;
    const struct tt_trace_facts *facts = &record->facts;
    struct tt_text *out = self->out;
    begin_span(self, record->span_id, record->has_parent ? record->parent_id : NULL, KIND_SERVER,
               facts->received_at, facts->ended_at);
    tt_text_puts(out, ",\"name\":");
    put_name(self);
    put_request_attributes(self);
    if (is_error(facts)) {
        tt_text_printf(out, ",\"status\":{\"code\":%d", STATUS_ERROR);
        if (*self->strings->why) {
            tt_text_puts(out, ",\"message\":");
            tt_json_write_string(out, self->strings->why, strlen(self->strings->why));
        }
        tt_text_puts(out, "}");
    }
    tt_text_puts(out, "}");
}

static int64_t between(int64_t at, int64_t low, int64_t high) {
    return at < low ? low : at > high ? high : at;
}

static void put_step(const struct tree *self, int32_t index, const struct tt_trace_step *step,
                     int64_t from_at, int64_t until_at) {
    char name[TT_TRACER_MODEL_BYTES + 8];
    uint8_t id[TT_SPAN_ID_BYTES];
    struct tt_text *out = self->out;
    bool is_first = true;
    child_id(self, STEP + index, id);
    tt_text_puts(out, ",");
    begin_span(self, id, self->record->span_id, KIND_INTERNAL, from_at, until_at);
    snprintf(name, sizeof(name), "step %s", step->model);
    tt_text_puts(out, ",\"name\":");
    tt_json_write_string(out, name, strlen(name));
    tt_text_puts(out, ",\"attributes\":[");
    put_text(out, &is_first, "tutti.model", step->model);
    put_integer(out, &is_first, "tutti.step", step->number);
    if (step->batch_rows > 0)
        put_integer(out, &is_first, "tutti.batch_rows", step->batch_rows);
    if (step->started_at)
        put_ms(out, &is_first, "tutti.queue_ms", step->started_at - step->submitted_at);
    if (step->deadline_at != TT_NEVER)
        put_ms(out, &is_first, "tutti.slack_ms", step->deadline_at - step->ended_at);
    tt_text_puts(out, "]");
    if (step->is_failed)
        tt_text_printf(out, ",\"status\":{\"code\":%d}", STATUS_ERROR);
    tt_text_puts(out, "}");
}

/* The steps of an ensemble, in place of its batches, and what is left after the last one. */
static void put_steps(const struct tree *self) {
    const struct tt_trace_facts *facts = &self->record->facts;
    int64_t last_at = facts->submitted_at;
    for (int32_t i = 0; i < self->record->step_count; i++) {
        struct tt_trace_step step;
        tt_trace_record_step(self->bytes, i, &step);
        int64_t from_at = between(step.submitted_at, facts->submitted_at, facts->ended_at);
        int64_t until_at = between(step.ended_at, from_at, facts->ended_at);
        put_step(self, i, &step, from_at, until_at);
        last_at = until_at > last_at ? until_at : last_at;
    }
    put_child(self, SEND, self->record->span_id, last_at, facts->ended_at);
}

static void put_tree(const struct tree *self) {
    const struct tt_trace_record *record = self->record;
    const struct tt_trace_facts *facts = &record->facts;
    const uint8_t *whole = record->span_id;
    put_request(self);
    int64_t end_at = facts->ended_at;
    if (!facts->submitted_at) {
        put_child(self, RECEIVE, whole, facts->received_at, end_at);
        return;
    }
    put_child(self, RECEIVE, whole, facts->received_at, facts->submitted_at);
    if (record->step_count) {
        put_steps(self);
        return;
    }
    if (!facts->started_at) {
        put_child(self, QUEUE, whole, facts->submitted_at, end_at);
        return;
    }
    /* A short batch may run on the thread that brings it, so its instants are as exact as the
     * others; they are bounded all the same, for a run that was given up. */
    int64_t started_at = between(facts->started_at, facts->submitted_at, end_at);
    int64_t computed_at =
        facts->computed_at ? between(facts->computed_at, started_at, end_at) : end_at;
    uint8_t batch[TT_SPAN_ID_BYTES];
    put_child(self, QUEUE, whole, facts->submitted_at, started_at);
    put_child(self, BATCH, whole, started_at, computed_at);
    if (facts->is_one_run) {
        int64_t run_at = between(started_at + facts->input_ns, started_at, computed_at);
        child_id(self, BATCH, batch);
        put_child(self, RUN, batch, run_at, between(run_at + facts->infer_ns, run_at, computed_at));
    }
    if (facts->computed_at)
        put_child(self, SEND, whole, computed_at, end_at);
}

void tt_otlp_write(const struct tt_otlp_resource *resource, const struct tt_text *records,
                   int32_t record_count, int64_t wall_offset_ns, struct tt_text *out_text) {
    bool is_first = true;
    tt_text_puts(out_text, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_text(out_text, &is_first, "service.name", "tutti");
    put_text(out_text, &is_first, "service.version", resource->service_version);
    put_text(out_text, &is_first, "host.name", resource->host_name);
    put_integer(out_text, &is_first, "process.pid", resource->process_id);
    tt_text_puts(out_text, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tutti\"},\"spans\":[");
    size_t at = 0;
    for (int32_t i = 0; i < record_count; i++) {
        struct tt_trace_record record;
        struct tt_trace_strings strings;
        struct tree tree = {.record = &record,
                            .bytes = records->bytes + at,
                            .strings = &strings,
                            .wall_offset_ns = wall_offset_ns,
                            .out = out_text};
        tt_trace_record_read(records->bytes + at, &record, &tree.state, &strings);
        at += record.size_bytes;
        if (i)
            tt_text_puts(out_text, ",");
        put_tree(&tree);
    }
    tt_assert(at == records->length);
    tt_text_puts(out_text, "]}]}]}");
}
