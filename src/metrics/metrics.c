#include "metrics/metrics.h"

#include "base/clock.h"
#include "base/instant.h"
#include "core/mechanism.h"
#include "metrics/exposition.h"
#include "metrics/process_metrics.h"
#include "metrics/scaling_advice.h"
#include "serve/catalogue.h"
#include "serve/domain.h"
#include "serve/domain_advice.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/serving.h"

#include <stdio.h>

struct page {
    struct tt_exposition out;
    struct tt_serving *serving;             /* of the server's part; else NULL */
    const struct tt_catalogue *catalogue;   /* of the models' part; NULL: none yet */
    const struct tt_catalogue_entry *model; /* whose samples are written */
};

struct family;
/* Writes the family's samples: one for each thing that its labels name. */
typedef void samples_fn(struct page *page, const struct family *family);
typedef int64_t model_value_fn(const struct tt_model_stats *stats);
typedef int64_t server_value_fn(struct tt_serving *serving);
typedef int64_t process_value_fn(void);
typedef double advice_value_fn(const struct tt_devices_wanted *advice);
/* Whether the page has the family at all; NULL: always. */
typedef bool shown_fn(const struct page *page);

/* Which bounds of a histogram of durations the page has; the answers' is fine enough for a p99. */
enum bounds { ALL_BOUNDS, COARSE_BOUNDS, TRITON_BOUNDS };

enum unit { AS_COUNTED, US_OF_NS, MS_OF_NS, S_OF_NS };

struct family {
    const char *name, *type;
    enum unit unit; /* from the source's to the page's */
    const char *help;
    samples_fn *samples; /* or, for every model with statistics: */
    samples_fn *of_model;
    /* The source: */
    size_t offset; /* in the struct that they read, where that is a struct */
    enum bounds bounds;
    model_value_fn *model_value;
    server_value_fn *server_value;
    process_value_fn *process_value;
    tt_scheduler_domain_fn *domain_samples;
    advice_value_fn *advice_value;
    shown_fn *shown;
};

static int64_t counter_at(const void *base, size_t offset) {
    return tt_counter_get((const struct tt_counter *)((const char *)base + offset));
}

static void value(struct tt_exposition *out, const struct family *family, int64_t value) {
    switch (family->unit) {
    case AS_COUNTED: tt_exposition_integer(out, value); break;
    case US_OF_NS: tt_exposition_integer(out, value / 1000); break;
    case MS_OF_NS: tt_exposition_real(out, (double)value / 1e6); break;
    case S_OF_NS: tt_exposition_real(out, (double)value / 1e9); break;
    }
}

/* The next entry with statistics from *at on; NULL: no more. */
static const struct tt_catalogue_entry *next_model(const struct page *page, int32_t *at) {
    while (page->catalogue && *at < page->catalogue->count) {
        const struct tt_catalogue_entry *model = &page->catalogue->entries[(*at)++];
        if (model->stats)
            return model;
    }
    return NULL;
}

static void begin(struct page *page, const struct family *family, const char *suffix) {
    tt_assert(page->model != NULL);
    tt_exposition_begin(&page->out, family->name, suffix);
    tt_exposition_label(&page->out, "model", page->model->name);
    tt_exposition_label(&page->out, "version", page->model->version);
}

/* ---- one sample per model version ---- */

static void per_model(struct page *page, const struct family *family) {
    begin(page, family, "");
    value(&page->out, family,
          family->model_value ? family->model_value(page->model->stats)
                              : counter_at(page->model->stats, family->offset));
}

/* Of one row and of the largest batch, the centre and the tail. None before the model is served. */
static void believed_runs(struct page *page, const struct family *family) {
    for (int32_t i = 0; i < TT_BELIEVED_SIZES; i++) {
        const struct tt_believed_stats *believed = &page->model->stats->believed[i];
        const struct {
            const char *name;
            int64_t ns;
        } values[] = {{"centre", tt_counter_get(&believed->centre_ns)},
                      {"tail", tt_counter_get(&believed->tail_ns)}};
        int64_t rows = tt_counter_get(&believed->rows);
        for (size_t v = 0; rows > 0 && v < TT_COUNT(values); v++) {
            begin(page, family, "");
            tt_exposition_label_integer(&page->out, "rows", rows);
            tt_exposition_label(&page->out, "of", values[v].name);
            value(&page->out, family, values[v].ns);
        }
    }
}

static void watchdog_runs(struct page *page, const struct family *family) {
    const struct {
        const char *action;
        const struct tt_counter *count;
    } rows[] = {{"stopped", &page->model->stats->runs_cut},
                {"lost", &page->model->stats->runs_lost}};
    for (size_t i = 0; i < TT_COUNT(rows); i++) {
        begin(page, family, "");
        tt_exposition_label(&page->out, "action", rows[i].action);
        value(&page->out, family, tt_counter_get(rows[i].count));
    }
}

static int64_t on_time(const struct tt_model_stats *stats) {
    return tt_counter_get(&stats->succeeded) - tt_counter_get(&stats->late);
}

static int64_t bad(const struct tt_model_stats *stats) {
    return tt_counter_get(&stats->late) + tt_counter_get(&stats->failed) +
           tt_counter_get(&stats->rejected) + tt_model_stats_dropped(stats);
}

/* Of versions that serve. */
static void slo(struct page *page, const struct family *family) {
    const struct tt_served_model *model = page->model->model;
    if (!model || model->step_model.slo_ns == TT_NEVER)
        return;
    begin(page, family, "");
    value(&page->out, family, model->step_model.slo_ns);
}

static void model_info(struct page *page, const struct family *family) {
    const struct tt_served_model *model = page->model->model;
    if (!model || !model->domain)
        return;
    begin(page, family, "");
    tt_exposition_label(&page->out, "policy", tt_served_model_policy(model));
    tt_exposition_label_integer(&page->out, "max_batch", model->signature->max_batch);
    tt_exposition_label_integer(&page->out, "executors", model->domain->executor_count);
    tt_exposition_label(&page->out, "profile",
                        model->profile_source ? model->profile_source : "none");
    value(&page->out, family, 1);
}

/* ---- policy auto ---- */

static bool has_auto(const struct page *page) {
    int32_t at = 0;
    for (const struct tt_catalogue_entry *model; (model = next_model(page, &at));)
        if (model->model && model->model->choice)
            return true;
    return false;
}

static void per_auto(struct page *page, const struct family *family) {
    if (page->model->model && page->model->model->choice)
        per_model(page, family);
}

static void auto_gain(struct page *page, const struct family *family) {
    if (!page->model->model || !page->model->model->choice)
        return;
    begin(page, family, "");
    int64_t permille = tt_counter_get(&page->model->stats->auto_gain_permille);
    tt_exposition_real(&page->out, (double)permille / 1000);
}

static void queue_age(struct page *page, const struct family *family) {
    int64_t since = tt_counter_get(&page->model->stats->waiting_since), now = tt_clock_now();
    begin(page, family, "");
    tt_exposition_seconds(&page->out, since > 0 && now > since ? (double)(now - since) / 1e9 : 0);
}

/* Also of versions that were never loaded because they cannot be. */
static void readiness(struct page *page, const struct family *family) {
    for (int32_t m = 0; page->catalogue && m < page->catalogue->count; m++) {
        page->model = &page->catalogue->entries[m];
        if (page->model->state == TT_MODEL_KNOWN)
            continue;
        begin(page, family, "");
        value(&page->out, family, tt_catalogue_state(page->model) == TT_MODEL_READY);
    }
}

static void failures(struct page *page, const struct family *family) {
    const struct tt_model_stats *stats = page->model->stats;
    const struct {
        const char *reason;
        int64_t count;
    } rows[] = {{"REJECTED", tt_counter_get(&stats->rejected) + tt_model_stats_dropped(stats)},
                {"CANCELED", tt_counter_get(&stats->cancelled)},
                {"BACKEND", tt_counter_get(&stats->failed)},
                {"OTHER", 0}};
    for (size_t i = 0; i < TT_COUNT(rows); i++) {
        begin(page, family, "");
        tt_exposition_label(&page->out, "reason", rows[i].reason);
        value(&page->out, family, rows[i].count);
    }
}

static void drops(struct page *page, const struct family *family) {
    for (int i = TT_DROP_DEADLINE; i <= TT_DROP_WITHDRAWN; i++) {
        begin(page, family, "");
        tt_exposition_label(&page->out, "reason", tt_drop_reason_name((enum tt_drop_reason)i));
        value(&page->out, family, tt_counter_get(&page->model->stats->dropped[i]));
    }
}

/* ---- histograms ---- */

/* The bucket's upper bound as the page says it. False: the family does not have this bucket. */
typedef bool bound_fn(const struct family *family, int32_t bucket, char *text, size_t size);

static bool batch_bound(const struct family *family, int32_t bucket, char *text, size_t size) {
    (void)family;
    snprintf(text, size, "%d", 1 << bucket);
    return true;
}

static bool length_bound(const struct family *family, int32_t bucket, char *text, size_t size) {
    (void)family;
    snprintf(text, size, "%d", tt_length_histogram_bound(bucket));
    return true;
}

static bool duration_bound(const struct family *family, int32_t bucket, char *text, size_t size) {
    int64_t ns = tt_duration_bounds_ns[bucket], ms = ns / TT_MS;
    snprintf(text, size, "%g", (double)ns / (family->unit == MS_OF_NS ? 1e6 : 1e9));
    switch (family->bounds) {
    case ALL_BOUNDS: return true;
    case COARSE_BOUNDS: return tt_duration_bound_is_coarse(bucket);
    case TRITON_BOUNDS: return ms == 100 || ms == 500 || ms == 2000 || ms == 5000;
    }
    return true;
}

/* `counts`: of `buckets` buckets, not cumulative. `type`: of cells; NULL: none. */
static void histogram(struct page *page, const struct family *family, const char *type,
                      const struct tt_counter *counts, int32_t buckets, bound_fn *bound_of,
                      int64_t sum) {
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    int64_t cumulative = 0;
    tt_assert(buckets >= 1); /* the last one is +Inf */
    for (int32_t i = 0; i < buckets + 2; i++) {
        char bound[32] = "+Inf";
        cumulative += i < buckets ? tt_counter_get(&counts[i]) : 0;
        if (i < buckets - 1 && !bound_of(family, i, bound, sizeof(bound)))
            continue;
        begin(page, family, suffixes[i < buckets ? 0 : i - buckets + 1]);
        if (type)
            tt_exposition_label(&page->out, "cell", type);
        if (i < buckets)
            tt_exposition_label(&page->out, "le", bound);
        if (i == buckets)
            value(&page->out, family, sum);
        else
            tt_exposition_integer(&page->out, cumulative);
    }
}

static void batch_sizes(struct page *page, const struct family *family) {
    histogram(page, family, NULL, page->model->stats->batch_buckets, TT_BATCH_BUCKETS, batch_bound,
              tt_counter_get(&page->model->stats->rows));
}

static void durations(struct page *page, const struct family *family) {
    const struct tt_duration_histogram *of =
        (const void *)((const char *)page->model->stats + family->offset);
    histogram(page, family, NULL, of->counts, TT_DURATION_BUCKETS, duration_bound,
              tt_counter_get(&of->sum_ns));
}

/* ---- models of cells ---- */

/* NULL: not a model of cells, or it does not serve. */
static const struct tt_cells *cells_of(const struct tt_catalogue_entry *model) {
    return model->model && model->model->cells ? model->model->cells->cells : NULL;
}

/* Elements of answers are counted where answers have as many as they turn out to have. */
static bool emits(const struct tt_catalogue_entry *model) {
    const struct tt_cells *cells = cells_of(model);
    return cells && cells->kind == TT_UNFOLD_SEQ2SEQ;
}

static bool has_cells(const struct page *page) {
    for (int32_t m = 0; page->catalogue && m < page->catalogue->count; m++)
        if (cells_of(&page->catalogue->entries[m]))
            return true;
    return false;
}

static bool has_emitters(const struct page *page) {
    int32_t at = 0;
    for (const struct tt_catalogue_entry *model; (model = next_model(page, &at));)
        if (emits(model))
            return true;
    return false;
}

static void per_cell_type(struct page *page, const struct family *family) {
    const struct tt_cells *cells = cells_of(page->model);
    for (int32_t t = 0; cells && t < cells->type_count; t++) {
        begin(page, family, "");
        tt_exposition_label(&page->out, "cell", cells->types[t].name);
        value(&page->out, family, counter_at(&page->model->stats->cells[t], family->offset));
    }
}

static void cell_batch_sizes(struct page *page, const struct family *family) {
    const struct tt_cells *cells = cells_of(page->model);
    for (int32_t t = 0; cells && t < cells->type_count; t++)
        histogram(page, family, cells->types[t].name, page->model->stats->cells[t].batch_buckets,
                  TT_BATCH_BUCKETS, batch_bound,
                  tt_counter_get(&page->model->stats->cells[t].cells));
}

/* L3 */
static void output_lengths(struct page *page, const struct family *family) {
    if (emits(page->model))
        histogram(page, family, NULL, page->model->stats->outputs.counts, TT_OUTPUT_BUCKETS,
                  length_bound, tt_counter_get(&page->model->stats->outputs.sum));
}

static void first_words(struct page *page, const struct family *family) {
    if (emits(page->model))
        durations(page, family);
}

static void late_words(struct page *page, const struct family *family) {
    const struct {
        const char *objective;
        const struct tt_counter *count;
    } rows[] = {{"ttft", &page->model->stats->late_first}, {"tpot", &page->model->stats->late_gap}};
    for (size_t i = 0; emits(page->model) && i < TT_COUNT(rows); i++) {
        begin(page, family, "");
        tt_exposition_label(&page->out, "objective", rows[i].objective);
        value(&page->out, family, tt_counter_get(rows[i].count));
    }
}

static void per_emitter(struct page *page, const struct family *family) {
    if (emits(page->model)) {
        begin(page, family, "");
        value(&page->out, family, counter_at(page->model->stats, family->offset));
    }
}

/* ---- scheduling domains ---- */

struct domain_samples {
    struct page *page;
    const struct family *family;
};

static void begin_domain(struct domain_samples *self, int32_t index,
                         const struct tt_domain *domain) {
    tt_exposition_begin(&self->page->out, self->family->name, "");
    tt_exposition_label_integer(&self->page->out, "domain", index);
    tt_exposition_label(&self->page->out, "policy", domain->policy);
}

static void executor_count(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    begin_domain(self, index, domain);
    value(&self->page->out, self->family, domain->executor_count);
}

/* S9: of the last minute. */
static struct tt_scaling_advice advice(const struct tt_domain *domain) {
    struct tt_load_sum load = tt_load_window_sum(&domain->meter.load, tt_clock_now());
    double bad_rate = load.ended > 0 ? (double)load.bad / (double)load.ended : 0;
    tt_assert(domain->executor_count >= 1);
    double possible_ns = (double)load.length_ns * domain->executor_count;
    double idle = (double)load.busy_ns < possible_ns ? 1 - (double)load.busy_ns / possible_ns : 0;
    return tt_scaling_advice_of(domain->executor_count, bad_rate, idle);
}

static void executors_to_add(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    begin_domain(self, index, domain);
    tt_exposition_real(&self->page->out, advice(domain).add);
}

/* A domain keeps at least one executor. */
static void executors_to_release(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    double release = advice(domain).release, most = domain->executor_count - 1;
    begin_domain(self, index, domain);
    tt_exposition_real(&self->page->out, release < most ? release : most);
}

static void lateness(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    begin_domain(self, index, domain);
    value(&self->page->out, self->family, tt_counter_get(&domain->meter.lateness_ns));
}

static void control_delay(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    begin_domain(self, index, domain);
    value(&self->page->out, self->family, tt_counter_get(&domain->meter.control_delay_ns));
}

static void data_delay(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    begin_domain(self, index, domain);
    value(&self->page->out, self->family, tt_counter_get(&domain->meter.data_delay_ns));
}

static void executor_times(void *context, int32_t index, const struct tt_domain *domain) {
    struct domain_samples *self = context;
    for (int32_t e = 0; e < domain->meter.executor_count; e++) {
        begin_domain(self, index, domain);
        tt_exposition_label_integer(&self->page->out, "executor", e);
        value(&self->page->out, self->family, tt_counter_get(&domain->meter.busy_ns[e]));
    }
}

static void per_domain(struct page *page, const struct family *family) {
    tt_assert(family->domain_samples != NULL);
    struct domain_samples self = {page, family};
    tt_scheduler_domains(tt_serving_scheduler(page->serving), family->domain_samples, &self);
}

/* S9: the advice that converges, of each domain. */
static void put_advice(void *context, const struct tt_domain_advice *advice) {
    struct domain_samples *self = context;
    tt_exposition_begin(&self->page->out, self->family->name, "");
    tt_exposition_label_integer(&self->page->out, "domain", advice->index);
    tt_exposition_label(&self->page->out, "policy", advice->policy);
    tt_exposition_real(&self->page->out, self->family->advice_value(&advice->wanted));
}

static double wanted(const struct tt_devices_wanted *advice) { return advice->count; }
static double confidence(const struct tt_devices_wanted *advice) { return advice->confidence; }

static void per_advice(struct page *page, const struct family *family) {
    tt_assert(family->advice_value != NULL);
    struct domain_samples self = {page, family};
    tt_domain_advices(tt_serving_scheduler(page->serving), tt_clock_now(), put_advice, &self);
}

/* ---- the server as a whole ---- */

static void build_info(struct page *page, const struct family *family) {
    tt_exposition_begin(&page->out, family->name, "");
    tt_exposition_label(&page->out, "version", TUTTI_VERSION);
    tt_exposition_label(&page->out, "compiler", __VERSION__);
    value(&page->out, family, 1);
}

static void per_server(struct page *page, const struct family *family) {
    tt_assert(family->server_value != NULL);
    tt_exposition_begin(&page->out, family->name, "");
    value(&page->out, family, family->server_value(page->serving));
}

static int64_t turns(struct tt_serving *serving) {
    return tt_scheduler_stats(tt_serving_scheduler(serving)).turns;
}
static int64_t busy_ns(struct tt_serving *serving) {
    return tt_scheduler_stats(tt_serving_scheduler(serving)).busy_ns;
}
static bool is_recorded(const struct page *page) {
    return tt_serving_recorder(page->serving) != NULL;
}
static int64_t recorded_bytes(struct tt_serving *serving) {
    return tt_recorder_stats(tt_serving_recorder(serving)).bytes;
}
static int64_t lost_events(struct tt_serving *serving) {
    return tt_recorder_stats(tt_serving_recorder(serving)).lost_events;
}
static void per_process(struct page *page, const struct family *family) {
    tt_assert(family->process_value != NULL);
    tt_exposition_begin(&page->out, family->name, "");
    value(&page->out, family, family->process_value());
}

/* ---- the table ---- */

#define MODEL(member) .of_model = per_model, .offset = offsetof(struct tt_model_stats, member)
#define MODEL_VALUE(function) .of_model = per_model, .model_value = function
#define DURATIONS(member, of)                                                                      \
    .of_model = durations, .offset = offsetof(struct tt_model_stats, member), .bounds = of
#define CELL(member)                                                                               \
    .of_model = per_cell_type, .offset = offsetof(struct tt_cell_stats, member), .shown = has_cells
#define SERVER(function) .samples = per_server, .server_value = function
#define PROCESS(function) .samples = per_process, .process_value = function
#define DOMAIN(function) .samples = per_domain, .domain_samples = function
#define ADVICE(function) .samples = per_advice, .advice_value = function
#define COUNTER "counter"
#define GAUGE "gauge"
#define HISTOGRAM "histogram"

/* In the order of each part of the page. */
static const struct family families[] = {
    {"nv_inference_request_success", COUNTER, AS_COUNTED, "Number of successful inference requests",
     MODEL(succeeded)},
    {"nv_inference_count", COUNTER, AS_COUNTED, "Number of inferences performed (rows of batches)",
     MODEL(rows)},
    {"nv_inference_exec_count", COUNTER, AS_COUNTED,
     "Number of model executions performed (batches)", MODEL(batches)},
    {"nv_inference_request_duration_us", COUNTER, US_OF_NS,
     "Cumulative inference request duration in microseconds", MODEL(request_ns)},
    {"nv_inference_queue_duration_us", COUNTER, US_OF_NS,
     "Cumulative time requests waited for their batch, in us", MODEL(queue_ns)},
    {"nv_inference_compute_input_duration_us", COUNTER, US_OF_NS,
     "Cumulative time of making batches contiguous, over their requests, in us", MODEL(input_ns)},
    {"nv_inference_compute_infer_duration_us", COUNTER, US_OF_NS,
     "Cumulative time batches ran, over their requests, in us", MODEL(infer_ns)},
    {"nv_inference_compute_output_duration_us", COUNTER, US_OF_NS,
     "Cumulative time of handing results out, over their requests, in us", MODEL(output_ns)},
    {"nv_inference_pending_request_count", GAUGE, AS_COUNTED,
     "Requests accepted and not answered yet", MODEL_VALUE(tt_model_stats_in_flight)},
    {"tutti_requests_accepted_total", COUNTER, AS_COUNTED, "Requests handed to a scheduling domain",
     MODEL(accepted)},
    {"tutti_requests_on_time_total", COUNTER, AS_COUNTED,
     "Requests answered within their deadline (goodput)", MODEL_VALUE(on_time)},
    {"tutti_requests_late_total", COUNTER, AS_COUNTED, "Requests answered after their deadline",
     MODEL(late)},
    {"tutti_requests_bad_total", COUNTER, AS_COUNTED, "Requests late, dropped, refused or failed",
     MODEL_VALUE(bad)},
    {"tutti_requests_cancelled_total", COUNTER, AS_COUNTED, "Requests whose clients went away",
     MODEL(cancelled)},
    {"tutti_watchdog_total", COUNTER, AS_COUNTED,
     "Batches that ran longer than max_run_ms: stopped, or lost because they did not stop",
     .of_model = watchdog_runs},
    {"tutti_watchdog_lost_batches", GAUGE, AS_COUNTED,
     "Batches that were lost and have not ended since: each keeps a thread and memory",
     SERVER(tt_serving_lost_runs)},
    {"tutti_queue_requests", GAUGE, AS_COUNTED, "Requests that wait for their first run",
     MODEL(waiting)},
    {"tutti_left_early_total", COUNTER, AS_COUNTED,
     "Requests that left before their model's last stage", MODEL(left_early)},
    {"tutti_skips_total", COUNTER, AS_COUNTED, "Times that a request went on behind some stages",
     MODEL(skipped)},
    {"tutti_short_runs_total", COUNTER, AS_COUNTED, "Batches that needed no executor's thread",
     MODEL(ran_here)},
    {"tutti_gathered_bytes_total", COUNTER, AS_COUNTED,
     "Input bytes copied to make batches contiguous", MODEL(gathered_bytes)},
    {"tutti_input_slots", GAUGE, AS_COUNTED,
     "Slots of the ring of inputs, 0 where the policy does not use one", MODEL(input_slots)},
    {"tutti_input_slots_used", GAUGE, AS_COUNTED, "Slots of that ring that are not free",
     MODEL(input_slots_used)},
    {"tutti_input_held_back_total", COUNTER, AS_COUNTED,
     "Requests that came when no slot of that ring was free", MODEL(held_back)},
    {"tutti_stage_slots", GAUGE, AS_COUNTED,
     "Rows that may be between stages at once, 0 where the model has one", MODEL(stage_slots)},
    {"tutti_stage_slots_used", GAUGE, AS_COUNTED,
     "Rows that are between stages, or may still come between them", MODEL(stage_slots_used)},
    {"tutti_stage_held_back_total", COUNTER, AS_COUNTED,
     "Requests that came when no more rows could be there", MODEL(stage_held_back)},
    {"tutti_stage_spilled_bytes_total", COUNTER, AS_COUNTED,
     "Activations for which the pool had no adjacent slots", MODEL(spilled_bytes)},
    {"tutti_cell_caches", GAUGE, AS_COUNTED,
     "Caches of requests (states in place) that there may be at once, 0 where there are none",
     MODEL(cell_caches)},
    {"tutti_cell_caches_promised", GAUGE, AS_COUNTED, "Of these, those of requests in flight",
     MODEL(cell_caches_promised)},
    {"tutti_cell_slots", GAUGE, AS_COUNTED,
     "States of cells that there may be at once, 0 where there are no cells", MODEL(cell_slots)},
    {"tutti_cell_slots_promised", GAUGE, AS_COUNTED,
     "Of these, those that requests in flight may come to need", MODEL(cell_slots_promised)},
    {"nv_inference_request_failure", COUNTER, AS_COUNTED, "Number of failed inference requests",
     .of_model = failures},
    {"tutti_requests_dropped_total", COUNTER, AS_COUNTED, "Requests given up by the policy",
     .of_model = drops},
    {"tutti_batch_size", HISTOGRAM, AS_COUNTED, "Rows per batch", .of_model = batch_sizes},
    {"nv_inference_first_response_histogram_ms", HISTOGRAM, MS_OF_NS,
     "Duration of successful requests in ms", DURATIONS(answering, TRITON_BOUNDS)},
    {"tutti_request_duration_seconds", HISTOGRAM, S_OF_NS,
     "Submission to end of successful requests", DURATIONS(answering, ALL_BOUNDS)},
    {"tutti_queue_duration_seconds", HISTOGRAM, S_OF_NS,
     "Submission to the decision of the first run; of an ensemble, the waits of its steps",
     DURATIONS(queueing, COARSE_BOUNDS)},
    {"tutti_slack_at_start_seconds", HISTOGRAM, S_OF_NS,
     "Time from the decision of the first run to the deadline, of requests that have one",
     DURATIONS(slack, COARSE_BOUNDS)},
    {"tutti_queue_oldest_age_seconds", GAUGE, S_OF_NS,
     "Age of the oldest request that waits for its first run", .of_model = queue_age},
    {"tutti_cells_total", COUNTER, AS_COUNTED,
     "Cells that ran, by type, those beyond an end of sequence too", CELL(cells)},
    {"tutti_cell_tasks_total", COUNTER, AS_COUNTED, "Batches of cells that ran, by type",
     CELL(tasks)},
    {"tutti_cell_runs_total", COUNTER, AS_COUNTED,
     "Runs of cells, by type: several per batch by sequences, or if caches lie apart", CELL(runs)},
    {"tutti_cell_gathered_bytes_total", COUNTER, AS_COUNTED,
     "Bytes of states and inputs copied to make batches of cells contiguous", CELL(gathered_bytes)},
    {"tutti_cell_spared_bytes_total", COUNTER, AS_COUNTED,
     "Bytes of states that batches of cells read where they lay", CELL(spared_bytes)},
    {"tutti_cell_batch_size", HISTOGRAM, AS_COUNTED, "Cells per batch, by type",
     .of_model = cell_batch_sizes, .shown = has_cells},
    {"tutti_output_length", HISTOGRAM, AS_COUNTED, "Elements that answers turned out to have",
     .of_model = output_lengths, .shown = has_emitters},
    {"tutti_output_at_limit_total", COUNTER, AS_COUNTED,
     "Answers that have all the elements they may", .of_model = per_emitter,
     .offset = offsetof(struct tt_model_stats, outputs.at_limit), .shown = has_emitters},
    {"tutti_words_total", COUNTER, AS_COUNTED, "Elements of answers, counted when each was emitted",
     .of_model = per_emitter, .offset = offsetof(struct tt_model_stats, words),
     .shown = has_emitters},
    {"tutti_first_word_seconds", HISTOGRAM, S_OF_NS,
     "Submission until the first element of the answer was emitted", .of_model = first_words,
     .offset = offsetof(struct tt_model_stats, first_word), .bounds = COARSE_BOUNDS,
     .shown = has_emitters},
    {"tutti_time_per_word_seconds", HISTOGRAM, S_OF_NS,
     "Mean time from one element of an answer to the next", .of_model = first_words,
     .offset = offsetof(struct tt_model_stats, word_gap), .bounds = COARSE_BOUNDS,
     .shown = has_emitters},
    {"tutti_words_late_total", COUNTER, AS_COUNTED,
     "Answers whose elements missed an objective: the first (ttft), or the time per element (tpot)",
     .of_model = late_words, .shown = has_emitters},
    {"tutti_slo_seconds", GAUGE, S_OF_NS, "The objective of the models that have one",
     .of_model = slo},
    {"tutti_model_info", GAUGE, AS_COUNTED,
     "How the model version is served; profile: of a file, measured, or none",
     .of_model = model_info},
    {"tutti_model_ready", GAUGE, AS_COUNTED, "Whether the model version serves: 1 or 0",
     .samples = readiness},
    {"tutti_build_info", GAUGE, AS_COUNTED, "Always 1; what was built is in the labels",
     .samples = build_info},
    {"tutti_scheduler_turns_total", COUNTER, AS_COUNTED, "Turns of the scheduler's loop",
     SERVER(turns)},
    {"tutti_scheduler_busy_seconds_total", COUNTER, S_OF_NS,
     "Time in the turns of the scheduler's loop", SERVER(busy_ns)},
    {"tutti_believed_run_seconds", GAUGE, S_OF_NS,
     "How long a batch of one row, and one of most rows, is believed to take",
     .of_model = believed_runs},
    {"tutti_belief_moves_total", COUNTER, AS_COUNTED,
     "Times that the believed run times of a model changed", MODEL(belief_moves)},
    {"tutti_auto_comparisons_total", COUNTER, AS_COUNTED,
     "Times that policy auto compared policies on the latest requests", .of_model = per_auto,
     .offset = offsetof(struct tt_model_stats, auto_comparisons), .shown = has_auto},
    {"tutti_auto_changes_total", COUNTER, AS_COUNTED, "Times that auto changed the policy",
     .of_model = per_auto, .offset = offsetof(struct tt_model_stats, auto_changes),
     .shown = has_auto},
    {"tutti_auto_gain_ratio", GAUGE, AS_COUNTED,
     "Gain in requests on time that the best other policy had in the last comparison of auto",
     .of_model = auto_gain, .shown = has_auto},
    {"tutti_believed_lateness_seconds", GAUGE, S_OF_NS,
     "How late decisions are believed to come, at most", DOMAIN(lateness)},
    {"tutti_believed_control_delay_seconds", GAUGE, S_OF_NS,
     "How long a message to an executor is believed to travel, the longest of the domain",
     DOMAIN(control_delay)},
    {"tutti_believed_data_delay_seconds", GAUGE, S_OF_NS,
     "What each row of a batch is believed to add to that, the longest of the domain",
     DOMAIN(data_delay)},
    {"tutti_domain_executors", GAUGE, AS_COUNTED, "Executors of each scheduling domain",
     DOMAIN(executor_count)},
    {"tutti_domain_executors_to_add", GAUGE, AS_COUNTED,
     "Executors that the last minute lacked: N r / (1 - r) where the bad rate r is above 1 %",
     DOMAIN(executors_to_add)},
    {"tutti_domain_executors_to_release", GAUGE, AS_COUNTED,
     "Executors that the last minute did not need: N times the idle share, where r is at most 1 %",
     DOMAIN(executors_to_release)},
    {"tutti_devices_wanted", GAUGE, AS_COUNTED,
     "Executors that the offered load needs, by rates, run times, objectives and bursts",
     ADVICE(wanted)},
    {"tutti_devices_wanted_confidence", GAUGE, AS_COUNTED,
     "1 less two standard errors of that, as a share; 0: nothing was measured yet",
     ADVICE(confidence)},
    {"tutti_executor_busy_seconds_total", COUNTER, S_OF_NS, "Time that each executor ran batches",
     DOMAIN(executor_times)},
    {"tutti_recording_bytes_total", COUNTER, AS_COUNTED, "Bytes of the recording on disk",
     SERVER(recorded_bytes), .shown = is_recorded},
    {"tutti_recording_lost_events_total", COUNTER, AS_COUNTED,
     "Events for which the recording had no room", SERVER(lost_events), .shown = is_recorded},
    {"process_cpu_seconds_total", COUNTER, S_OF_NS, "User and system CPU time",
     PROCESS(tt_process_cpu_ns)},
    {"process_start_time_seconds", GAUGE, S_OF_NS, "Start of the process, since the epoch",
     PROCESS(tt_process_started_ns)},
    {"process_resident_memory_bytes", GAUGE, AS_COUNTED, "Resident memory",
     PROCESS(tt_process_resident_bytes)},
    {"process_virtual_memory_bytes", GAUGE, AS_COUNTED, "Virtual memory",
     PROCESS(tt_process_virtual_bytes)},
    {"process_open_fds", GAUGE, AS_COUNTED, "Open file descriptors",
     PROCESS(tt_process_open_files)},
    {"process_max_fds", GAUGE, AS_COUNTED, "The limit of open file descriptors",
     PROCESS(tt_process_max_files)},
};

static bool is_of_models(const struct family *family) {
    return family->of_model || family->samples == readiness;
}

static void write_family(struct page *page, const struct family *family) {
    tt_assert(!family->samples == (family->of_model != NULL));
    if (family->shown && !family->shown(page))
        return;
    tt_exposition_family(&page->out, family->name, family->type, family->help);
    if (family->samples)
        family->samples(page, family);
    int32_t at = 0;
    while (family->of_model && (page->model = next_model(page, &at)))
        family->of_model(page, family);
}

void tt_metrics_write_models(const struct tt_catalogue *catalogue, struct tt_text *out_page) {
    struct page page = {.out = {.text = out_page}, .catalogue = catalogue};
    for (size_t i = 0; i < TT_COUNT(families); i++)
        if (is_of_models(&families[i]))
            write_family(&page, &families[i]);
}

void tt_metrics_write_server(struct tt_serving *serving, struct tt_text *out_page) {
    struct page page = {.out = {.text = out_page}, .serving = serving};
    for (size_t i = 0; i < TT_COUNT(families); i++)
        if (!is_of_models(&families[i]))
            write_family(&page, &families[i]);
}
