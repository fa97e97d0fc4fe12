/* What ended since the page's last look: batches, and per model how long its requests took. */
#include "base/array.h"
#include "base/histogram.h"
#include "base/instant.h"
#include "net/dashboard/dashboard_state.h"
#include "record/trace.h"

#include <stdlib.h>

/* Requests of a batch are recorded in the turn that ends it: after this time they are there. */
enum { SETTLING_NS = 2 * TT_MS };

struct recent_model {
    struct tt_histogram ns; /* from arrival to end, of those that were computed */
    int64_t done, other;
    int32_t least_slack_us;
};

struct recent {
    struct tt_text *json;
    int32_t name_count;
    struct recent_model *models; /* by name's number */
    int64_t model_capacity;
    struct tt_trace_batch *batches; /* a ring of TT_DASHBOARD_BATCHES */
    int64_t batch_count;            /* ever put into it */
    bool failed;                    /* out of memory */
};

/* ---- visiting ---- */

static void on_name(void *context, int32_t number, const char *json_name) {
    struct recent *self = context;
    if (self->failed || !tt_array_reserve((void **)&self->models, &self->model_capacity, number + 1,
                                          sizeof(*self->models))) {
        self->failed = true;
        return;
    }
    self->models[number] = (struct recent_model){.least_slack_us = TT_TRACE_NO_SLACK};
    tt_histogram_init(&self->models[number].ns);
    self->name_count = number + 1;
    tt_text_puts(self->json, number ? "," : "");
    tt_text_puts(self->json, json_name);
}

static void on_batch(void *context, const struct tt_trace_batch *batch) {
    struct recent *self = context;
    self->batches[self->batch_count++ % TT_DASHBOARD_BATCHES] = *batch;
}

static void on_request(void *context, const struct tt_trace_ending *request) {
    struct recent *self = context;
    if (request->model >= self->name_count)
        return;
    struct recent_model *model = &self->models[request->model];
    if (!request->is_done) {
        model->other++;
        return;
    }
    model->done++;
    tt_histogram_add(&model->ns, tt_instant_max(request->end_at - request->begin_at, 0));
    if (request->slack_us < model->least_slack_us)
        model->least_slack_us = request->slack_us;
}

/* ---- the cursor: hexadecimal numbers with dots between them ---- */

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_cursor(const char *text, size_t length, struct tt_trace_cursor *out) {
    size_t at = 0;
    out->count = 0;
    while (at < length) {
        uint64_t value = 0;
        size_t digits = 0;
        for (; at < length && text[at] != '.'; at++, digits++) {
            int digit = digit_of(text[at]);
            if (digit < 0 || digits == 16)
                return false;
            value = value * 16 + (uint64_t)digit;
        }
        if (!digits || out->count == TT_TRACE_MAX_RINGS)
            return false;
        out->next[out->count++] = value;
        at++; /* the dot */
    }
    return true;
}

static void put_cursor(struct tt_text *json, const struct tt_trace_cursor *cursor) {
    tt_text_puts(json, ",\"cursor\":\"");
    for (int32_t i = 0; i < cursor->count; i++)
        tt_text_printf(json, "%s%llx", i ? "." : "", (unsigned long long)cursor->next[i]);
    tt_text_puts(json, "\"");
}

/* ---- writing ---- */

static void put(struct tt_text *json, int64_t value, const char *behind) {
    tt_text_put_integer(json, value);
    tt_text_puts(json, behind);
}

static void put_slack(struct tt_text *json, int32_t slack_us, const char *behind) {
    if (slack_us == TT_TRACE_NO_SLACK)
        tt_text_puts(json, "null");
    else
        tt_text_put_integer(json, slack_us);
    tt_text_puts(json, behind);
}

static void put_models(struct recent *self) {
    tt_text_puts(self->json, "],\"recent\":[");
    bool any = false;
    for (int32_t i = 0; i < self->name_count; i++) {
        const struct recent_model *model = &self->models[i];
        if (!model->done && !model->other)
            continue;
        tt_text_puts(self->json, any ? ",[" : "[");
        any = true;
        put(self->json, i, ",");
        put(self->json, model->done, ",");
        put(self->json, model->other, ",");
        put(self->json, tt_histogram_quantile(&model->ns, 50, 100) / 1000, ",");
        put(self->json, tt_histogram_quantile(&model->ns, 99, 100) / 1000, ",");
        put(self->json, model->done ? model->ns.maximum / 1000 : 0, ",");
        put_slack(self->json, model->least_slack_us, "]");
    }
}

static void put_batches(struct recent *self, int64_t now) {
    int64_t first =
        self->batch_count > TT_DASHBOARD_BATCHES ? self->batch_count - TT_DASHBOARD_BATCHES : 0;
    tt_text_puts(self->json, "],\"batches\":[");
    for (int64_t i = first; i < self->batch_count; i++) {
        const struct tt_trace_batch *batch = &self->batches[i % TT_DASHBOARD_BATCHES];
        tt_text_puts(self->json, i > first ? ",[" : "[");
        put(self->json, batch->domain, ",");
        put(self->json, batch->executor, ",");
        put(self->json, batch->model, ",");
        put(self->json, batch->rows, ",");
        put(self->json, (batch->begin_at - now) / 1000, ",");
        put(self->json, tt_instant_max(batch->end_at - batch->begin_at, 0) / 1000, ",");
        put_slack(self->json, batch->slack_us, ",");
        put(self->json, (int64_t)batch->outcome, "]");
    }
    tt_text_puts(self->json, "],\"left_out\":");
    tt_text_put_integer(self->json, first);
}

enum tt_err tt_dashboard_put_recent(struct tt_serving *serving, const char *cursor,
                                    size_t cursor_bytes, int64_t now, struct tt_text *json,
                                    struct tt_error *why) {
    struct tt_trace_cursor next;
    if (!read_cursor(cursor, cursor_bytes, &next))
        return tt_fail(TT_ERR_INVALID, why,
                       "after=%.*s: it must be the `cursor` of the last answer, or be left out",
                       (int)(cursor_bytes < 64 ? cursor_bytes : 64), cursor);
    struct recent self = {.json = json};
    self.batches = malloc(TT_DASHBOARD_BATCHES * sizeof(*self.batches));
    if (!self.batches)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the live page");
    tt_text_puts(json, ",\"names\":[");
    const struct tt_trace_visitor visitor = {
        .name = on_name, .batch = on_batch, .request = on_request, .context = &self};
    int64_t lost =
        tt_trace_read(tt_serving_latest(serving), now - TT_S, now - SETTLING_NS, &next, &visitor);
    put_models(&self);
    put_batches(&self, now);
    tt_text_puts(json, ",\"lost\":");
    tt_text_put_integer(json, lost);
    put_cursor(json, &next);
    for (int32_t i = 0; i < self.name_count; i++) {
        self.failed |= self.models[i].ns.failed;
        tt_histogram_fini(&self.models[i].ns);
    }
    free(self.models);
    free(self.batches);
    return self.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the live page") : TT_OK;
}
