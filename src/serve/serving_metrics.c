/* The metrics page: Triton's names where the meaning is the same, ours (tutti_*) where it has none.
 */
#include "serve/catalogue.h"
#include "serve/cell_metrics.h"
#include "serve/inference.h"
#include "serve/scheduler.h"

#include "base/clock.h"
#include "core/mechanism.h"
#include "serve/server_metrics.h"

#include <string.h>

typedef int64_t value_fn(const struct tt_model_stats *stats);

struct family {
    const char *name, *help, *type;
    value_fn *value;
};

static int64_t get(const struct tt_counter *counter) { return tt_counter_get(counter); }

static int64_t success(const struct tt_model_stats *s) { return get(&s->succeeded); }
static int64_t inference_count(const struct tt_model_stats *s) { return get(&s->rows); }
static int64_t exec_count(const struct tt_model_stats *s) { return get(&s->batches); }
static int64_t ran_here(const struct tt_model_stats *s) { return get(&s->ran_here); }
static int64_t request_us(const struct tt_model_stats *s) { return get(&s->request_ns) / 1000; }
static int64_t queue_us(const struct tt_model_stats *s) { return get(&s->queue_ns) / 1000; }
static int64_t input_us(const struct tt_model_stats *s) { return get(&s->input_ns) / 1000; }
static int64_t infer_us(const struct tt_model_stats *s) { return get(&s->infer_ns) / 1000; }
static int64_t output_us(const struct tt_model_stats *s) { return get(&s->output_ns) / 1000; }
static int64_t accepted(const struct tt_model_stats *s) { return get(&s->accepted); }
static int64_t late(const struct tt_model_stats *s) { return get(&s->late); }
static int64_t on_time(const struct tt_model_stats *s) {
    return get(&s->succeeded) - get(&s->late);
}
static int64_t cancelled(const struct tt_model_stats *s) { return get(&s->cancelled); }
static int64_t bad(const struct tt_model_stats *s) {
    return get(&s->late) + get(&s->failed) + get(&s->rejected) + tt_model_stats_dropped(s);
}
static int64_t waiting(const struct tt_model_stats *s) { return get(&s->waiting); }
static int64_t left_early(const struct tt_model_stats *s) { return get(&s->left_early); }
static int64_t skipped(const struct tt_model_stats *s) { return get(&s->skipped); }
static int64_t gathered(const struct tt_model_stats *s) { return get(&s->gathered_bytes); }
static int64_t input_slots(const struct tt_model_stats *s) { return get(&s->input_slots); }
static int64_t slots_used(const struct tt_model_stats *s) { return get(&s->input_slots_used); }
static int64_t stage_slots(const struct tt_model_stats *s) { return get(&s->stage_slots); }
static int64_t stage_used(const struct tt_model_stats *s) { return get(&s->stage_slots_used); }
static int64_t stage_held(const struct tt_model_stats *s) { return get(&s->stage_held_back); }
static int64_t cell_slots(const struct tt_model_stats *s) { return get(&s->cell_slots); }
static int64_t cell_promised(const struct tt_model_stats *s) {
    return get(&s->cell_slots_promised);
}
static int64_t spilled(const struct tt_model_stats *s) { return get(&s->spilled_bytes); }
static int64_t held_back(const struct tt_model_stats *s) { return get(&s->held_back); }

static const struct family families[] = {
    {"nv_inference_request_success", "Number of successful inference requests", "counter", success},
    {"nv_inference_count", "Number of inferences performed (rows of batches)", "counter",
     inference_count},
    {"nv_inference_exec_count", "Number of model executions performed (batches)", "counter",
     exec_count},
    {"nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
     "counter", request_us},
    {"nv_inference_queue_duration_us", "Cumulative time requests waited for their batch, in us",
     "counter", queue_us},
    {"nv_inference_compute_input_duration_us",
     "Cumulative time of making batches contiguous, over their requests, in us", "counter",
     input_us},
    {"nv_inference_compute_infer_duration_us",
     "Cumulative time batches ran, over their requests, in us", "counter", infer_us},
    {"nv_inference_compute_output_duration_us",
     "Cumulative time of handing results out, over their requests, in us", "counter", output_us},
    {"nv_inference_pending_request_count", "Requests accepted and not answered yet", "gauge",
     tt_model_stats_in_flight},
    {"tutti_requests_accepted_total", "Requests handed to a scheduling domain", "counter",
     accepted},
    {"tutti_requests_on_time_total", "Requests answered within their deadline (goodput)", "counter",
     on_time},
    {"tutti_requests_late_total", "Requests answered after their deadline", "counter", late},
    {"tutti_requests_bad_total", "Requests late, dropped, refused or failed", "counter", bad},
    {"tutti_requests_cancelled_total", "Requests whose clients went away", "counter", cancelled},
    {"tutti_queue_requests", "Requests that wait for their first run", "gauge", waiting},
    {"tutti_left_early_total", "Requests that left before their model's last stage", "counter",
     left_early},
    {"tutti_skips_total", "Times that a request went on behind some stages", "counter", skipped},
    {"tutti_short_runs_total", "Batches that needed no executor's thread", "counter", ran_here},
    {"tutti_gathered_bytes_total", "Input bytes copied to make batches contiguous", "counter",
     gathered},
    {"tutti_input_slots", "Slots of the ring of inputs, 0 where the policy does not use one",
     "gauge", input_slots},
    {"tutti_input_slots_used", "Slots of that ring that are not free", "gauge", slots_used},
    {"tutti_input_held_back_total", "Requests that came when no slot of that ring was free",
     "counter", held_back},
    {"tutti_stage_slots", "Rows that may be between stages at once, 0 where the model has one",
     "gauge", stage_slots},
    {"tutti_stage_slots_used", "Rows that are, or may come to be, between stages now", "gauge",
     stage_used},
    {"tutti_stage_held_back_total", "Requests that came when no more rows could be there",
     "counter", stage_held},
    {"tutti_stage_spilled_bytes_total", "Activations for which the pool had no adjacent slots",
     "counter", spilled},
    {"tutti_cell_slots", "States of cells that there may be at once, 0 where there are no cells",
     "gauge", cell_slots},
    {"tutti_cell_slots_promised", "Of these, those that requests in flight may come to need",
     "gauge", cell_promised},
};

static void labels(struct tt_text *page, const struct tt_catalogue_entry *model) {
    tt_text_puts(page, "{model=\"");
    for (const char *at = model->name; *at; at++) { /* a directory may be called anything */
        if (*at == '\n')
            tt_text_puts(page, "\\n");
        else
            tt_text_printf(page, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    }
    tt_text_printf(page, "\",version=\"%s\"", model->version);
}

static void head(struct tt_text *page, const char *name, const char *help, const char *type) {
    tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void failures(struct tt_text *page, const struct tt_catalogue_entry *model) {
    const struct tt_model_stats *stats = model->stats;
    const struct {
        const char *reason;
        int64_t count;
    } rows[] = {{"REJECTED", get(&stats->rejected) + tt_model_stats_dropped(stats)},
                {"CANCELED", get(&stats->cancelled)},
                {"BACKEND", get(&stats->failed)},
                {"OTHER", 0}};
    for (size_t i = 0; i < TT_COUNT(rows); i++) {
        tt_text_puts(page, "nv_inference_request_failure");
        labels(page, model);
        tt_text_printf(page, ",reason=\"%s\"} %lld\n", rows[i].reason, (long long)rows[i].count);
    }
}

static void drops(struct tt_text *page, const struct tt_catalogue_entry *model) {
    for (int i = TT_DROP_DEADLINE; i <= TT_DROP_WITHDRAWN; i++) {
        tt_text_puts(page, "tutti_requests_dropped_total");
        labels(page, model);
        tt_text_printf(page, ",reason=\"%s\"} %lld\n", tt_drop_reason_name((enum tt_drop_reason)i),
                       (long long)get(&model->stats->dropped[i]));
    }
}

static void batch_sizes(struct tt_text *page, const struct tt_catalogue_entry *model) {
    const struct tt_model_stats *stats = model->stats;
    int64_t cumulative = 0;
    for (int32_t i = 0; i < TT_BATCH_BUCKETS; i++) {
        cumulative += get(&stats->batch_buckets[i]);
        tt_text_puts(page, "tutti_batch_size_bucket");
        labels(page, model);
        if (i < TT_BATCH_BUCKETS - 1)
            tt_text_printf(page, ",le=\"%d\"} %lld\n", 1 << i, (long long)cumulative);
        else
            tt_text_printf(page, ",le=\"+Inf\"} %lld\n", (long long)cumulative);
    }
    tt_text_puts(page, "tutti_batch_size_sum");
    labels(page, model);
    tt_text_printf(page, "} %lld\ntutti_batch_size_count", (long long)get(&stats->rows));
    labels(page, model);
    tt_text_printf(page, "} %lld\n", (long long)cumulative);
}

static void queue_age(struct tt_text *page, const struct tt_catalogue_entry *model) {
    int64_t since = get(&model->stats->waiting_since), now = tt_clock_now();
    tt_text_puts(page, "tutti_queue_oldest_age_seconds");
    labels(page, model);
    tt_text_printf(page, "} %.9f\n", since > 0 && now > since ? (double)(now - since) / 1e9 : 0.0);
}

/* `unit_ns`: of the bounds as printed; buckets whose bound `shown` (where there is one) lacks are
 * left out. */
static void durations(struct tt_text *page, const struct tt_catalogue_entry *model,
                      const char *name, const struct tt_duration_histogram *histogram,
                      double unit_ns, bool (*shown)(int64_t bound_ns)) {
    int64_t cumulative = 0;
    for (int32_t i = 0; i < TT_DURATION_BUCKETS; i++) {
        cumulative += get(&histogram->counts[i]);
        bool last = i == TT_DURATION_BUCKETS - 1;
        if (!last && shown && !shown(tt_duration_bounds_ns[i]))
            continue;
        tt_text_printf(page, "%s_bucket", name);
        labels(page, model);
        if (last)
            tt_text_printf(page, ",le=\"+Inf\"} %lld\n", (long long)cumulative);
        else
            tt_text_printf(page, ",le=\"%g\"} %lld\n", (double)tt_duration_bounds_ns[i] / unit_ns,
                           (long long)cumulative);
    }
    tt_text_printf(page, "%s_sum", name);
    labels(page, model);
    tt_text_printf(page, "} %.9g\n%s_count", (double)get(&histogram->sum_ns) / unit_ns, name);
    labels(page, model);
    tt_text_printf(page, "} %lld\n", (long long)cumulative);
}

static bool is_tritons(int64_t bound_ns) {
    int64_t ms = bound_ns / 1000000;
    return ms == 100 || ms == 500 || ms == 2000 || ms == 5000;
}

static void first_response(struct tt_text *page, const struct tt_catalogue_entry *model) {
    durations(page, model, "nv_inference_first_response_histogram_ms", &model->stats->answering,
              1e6, is_tritons);
}

static void answering(struct tt_text *page, const struct tt_catalogue_entry *model) {
    durations(page, model, "tutti_request_duration_seconds", &model->stats->answering, 1e9, NULL);
}

static void queueing(struct tt_text *page, const struct tt_catalogue_entry *model) {
    durations(page, model, "tutti_queue_duration_seconds", &model->stats->queueing, 1e9, NULL);
}

static void slack(struct tt_text *page, const struct tt_catalogue_entry *model) {
    durations(page, model, "tutti_slack_at_start_seconds", &model->stats->slack, 1e9, NULL);
}

void tt_serving_metrics(struct tt_port *port, struct tt_text *out_page) {
    tt_port_refresh(port);
    const struct tt_catalogue *catalogue = port->catalogue;
    int32_t count = catalogue ? catalogue->count : 0;
    for (size_t i = 0; i < TT_COUNT(families); i++) {
        head(out_page, families[i].name, families[i].help, families[i].type);
        for (int32_t m = 0; m < count; m++) {
            const struct tt_catalogue_entry *model = &catalogue->entries[m];
            if (!model->stats)
                continue;
            tt_text_puts(out_page, families[i].name);
            labels(out_page, model);
            tt_text_printf(out_page, "} %lld\n", (long long)families[i].value(model->stats));
        }
    }
    static const struct {
        const char *name, *help, *type;
        void (*print)(struct tt_text *page, const struct tt_catalogue_entry *model);
    } groups[] = {
        {"nv_inference_request_failure", "Number of failed inference requests", "counter",
         failures},
        {"tutti_requests_dropped_total", "Requests given up by the policy", "counter", drops},
        {"tutti_batch_size", "Rows per batch", "histogram", batch_sizes},
        {"nv_inference_first_response_histogram_ms", "Duration of successful requests in ms",
         "histogram", first_response},
        {"tutti_request_duration_seconds", "Submission to end of successful requests", "histogram",
         answering},
        {"tutti_queue_duration_seconds", "Submission to the decision of the first run", "histogram",
         queueing},
        {"tutti_slack_at_start_seconds",
         "Time from the decision of the first run to the deadline, of requests that have one",
         "histogram", slack},
        {"tutti_queue_oldest_age_seconds", "Age of the oldest request that waits for its first run",
         "gauge", queue_age},
    };
    for (size_t i = 0; i < TT_COUNT(groups); i++) {
        head(out_page, groups[i].name, groups[i].help, groups[i].type);
        for (int32_t m = 0; m < count; m++)
            if (catalogue->entries[m].stats)
                groups[i].print(out_page, &catalogue->entries[m]);
    }
    tt_cell_metrics(catalogue, out_page, labels);
    tt_server_metrics(port->serving, out_page);
}
