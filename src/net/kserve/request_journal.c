#include "net/kserve/request_journal.h"

#include "base/clock.h"
#include "base/instant.h"

#include <stdio.h>
#include <string.h>

void tt_journal_init(struct tt_journal *self, const struct tt_journal_options *options) {
    tt_access_log_init(&self->access_log, options->access_lines, options->writer);
    self->tracer = options->tracer;
    self->writer = options->writer;
}

void tt_journal_fini(struct tt_journal *self) { tt_access_log_fini(&self->access_log); }

void tt_journal_begin(struct tt_journal *self, struct tt_trace_headers *headers,
                      int64_t received_at, struct tt_journal_entry *out_entry) {
    const struct tt_trace_context *parent = headers ? tt_trace_headers_take(headers) : NULL;
    out_entry->began_at = tt_clock_now();
    out_entry->received_at = received_at ? received_at : out_entry->began_at;
    out_entry->has_trace = self->tracer || parent;
    if (self->tracer)
        tt_tracer_begin(self->tracer, self->writer, parent, &out_entry->traced);
    else if (parent) /* for the log, which shows the trace id */
        memcpy(out_entry->traced.context.trace_id, parent->trace_id, TT_TRACE_ID_BYTES);
}

/* Without the query, which may hold secrets. */
static void cut_query(const char *path, char out[TT_TRACER_STRING_BYTES]) {
    snprintf(out, TT_TRACER_STRING_BYTES, "%.*s", (int)strcspn(path, "?"), path);
}

/* Returns how many. */
static int32_t fill_steps(const struct tt_inference *inference,
                          struct tt_trace_step out_steps[TT_TRACER_STEPS]) {
    struct tt_inference_step went;
    int32_t count = 0;
    for (; count < TT_TRACER_STEPS && tt_inference_step(inference, count, &went); count++) {
        struct tt_trace_step *step = &out_steps[count];
        *step = (struct tt_trace_step){.submitted_at = went.submitted_at,
                                       .started_at = went.started_at,
                                       .ended_at = went.ended_at,
                                       .deadline_at = went.deadline_at,
                                       .number = went.number,
                                       .batch_rows = went.batch_rows,
                                       .is_failed = went.is_failed};
        snprintf(step->model, sizeof(step->model), "%s", went.model);
    }
    return count;
}

static void put_spans(struct tt_journal *self, const struct tt_journal_entry *entry,
                      const struct tt_access_line *line) {
    char path[TT_TRACER_STRING_BYTES];
    bool is_http = line->grpc_status < 0;
    struct tt_inference_account account = {.deadline_at = TT_NEVER, .why = ""};
    if (line->inference)
        tt_inference_account(line->inference, &account);
    const struct tt_trace_facts facts = {.received_at = entry->received_at,
                                         .since_at = account.since_at,
                                         .submitted_at = account.submitted_at,
                                         .started_at = account.started_at,
                                         .computed_at = account.computed_at,
                                         .ended_at = tt_clock_now(),
                                         .input_ns = account.input_ns,
                                         .infer_ns = account.infer_ns,
                                         .deadline_at = account.deadline_at,
                                         .rows = account.rows,
                                         .batch_rows = account.batch_rows,
                                         .priority = account.priority,
                                         .status = line->status,
                                         .grpc_status = line->grpc_status,
                                         .is_one_run = account.is_one_run};
    cut_query(line->path + (is_http ? 0 : strspn(line->path, "/")), path);
    const struct tt_trace_strings strings = {.method = line->method,
                                             .path = path,
                                             .model = line->request->target.model,
                                             .version = line->request->target.version,
                                             .why = account.why};
    struct tt_trace_step steps[TT_TRACER_STEPS];
    int32_t step_count = line->inference ? fill_steps(line->inference, steps) : 0;
    tt_tracer_put(self->tracer, self->writer, &entry->traced, &facts, &strings, steps, step_count);
}

void tt_journal_end(struct tt_journal *self, const struct tt_journal_entry *entry,
                    const struct tt_access_line *line) {
    if (self->tracer && line->is_inference && entry->traced.context.is_sampled)
        put_spans(self, entry, line);
    if (!self->access_log.file)
        return;
    struct tt_access_line full = *line;
    full.began_at = entry->began_at;
    full.trace = entry->has_trace ? &entry->traced.context : NULL;
    tt_access_log_put(&self->access_log, &full);
}
