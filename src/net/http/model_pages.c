#include "net/http/model_pages.h"

#include "base/instant.h"
#include "base/log/line_file.h"
#include "metrics/metrics.h"
#include "net/http/http1.h"
#include "net/kserve/kserve_bodies.h"
#include "net/kserve/kserve_pages.h"
#include "serve/catalogue.h"
#include "serve/port.h"

#include <stdlib.h>
#include <string.h>

/* --- metrics --- */

/* The conservation of requests: each was answered, has gone, or is in flight. */
static void add_counts(struct tt_text *page, const struct tt_listener_counts *counts,
                       const struct tt_line_file *access_lines) {
    const struct {
        const char *name, *help, *type;
        int64_t value;
    } rows[] = {
        {"tutti_http_connections_accepted_total", "Connections accepted", "counter",
         counts->accepted},
        {"tutti_http_connections", "Connections open", "gauge", counts->connections},
        {"tutti_http_requests_total", "HTTP requests that came whole, or were refused", "counter",
         counts->requests},
        {"tutti_http_answered_total", "HTTP requests whose answer was written", "counter",
         counts->answered},
        {"tutti_http_gone_total", "HTTP requests whose client left before its answer", "counter",
         counts->gone},
        {"tutti_http_evicted_total", "Connections closed because of the answers they did not take",
         "counter", counts->evicted},
        {"tutti_http2_connections_accepted_total", "Connections accepted that speak HTTP/2",
         "counter", counts->http2_connections},
        {"tutti_http2_requests_total", "HTTP requests over HTTP/2", "counter",
         counts->http2_requests},
        {"tutti_access_log_dropped_total", "Lines of the access log that were dropped", "counter",
         access_lines ? tt_line_file_dropped(access_lines) : 0},
        {"tutti_http_turns_total", "Turns of the connection threads' loops", "counter",
         counts->turns},
        {"tutti_http_in_flight", "HTTP requests not answered yet", "gauge", counts->in_flight},
    };
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", rows[i].name, rows[i].help,
                       rows[i].name, rows[i].type, rows[i].name, (long long)rows[i].value);
    static const char responses[] = "tutti_http_responses_total";
    tt_text_printf(page, "# HELP %s HTTP requests whose answer was written, by status\n",
                   responses);
    tt_text_printf(page, "# TYPE %s counter\n", responses);
    for (int status = TT_HTTP_STATUS_FIRST; status < TT_HTTP_STATUS_END; status++)
        if (tt_http1_reason_phrase(status))
            tt_text_printf(page, "%s{code=\"%d\"} %lld\n", responses, status,
                           (long long)counts->by_status[status - TT_HTTP_STATUS_FIRST]);
}

/* How clients are spread over the connection threads. */
static void add_thread_counts(struct tt_text *page, const struct tt_http_context *context) {
    static const char *const names[] = {"tutti_http_thread_connections",
                                        "tutti_http_thread_requests_total"};
    static const char *const headings[] = {"Connections open, by connection thread",
                                           "HTTP requests, by connection thread"};
    for (int family = 0; family < 2; family++) {
        struct tt_listener_counts counts;
        int32_t threads = context->counts(context->counts_context, -1, &counts);
        tt_text_printf(page, "# HELP %s %s\n# TYPE %s %s\n", names[family], headings[family],
                       names[family], family ? "counter" : "gauge");
        for (int32_t thread = 0; thread < threads; thread++) {
            context->counts(context->counts_context, thread, &counts);
            tt_text_printf(page, "%s{thread=\"%d\"} %lld\n", names[family], thread,
                           (long long)(family ? counts.requests : counts.connections));
        }
    }
}

static void add_answer_delay(struct tt_text *page, const struct tt_listener_counts *counts) {
    static const char name[] = "tutti_believed_answer_delay_seconds";
    tt_text_printf(page,
                   "# HELP %s How long an answer lies on its connection thread, at most\n"
                   "# TYPE %s gauge\n%s %.9g\n",
                   name, name, name, (double)counts->answer_ns / TT_S);
}

static void write_rest(const struct tt_http_context *context, struct tt_text *page) {
    tt_metrics_write_server(context->service.serving, page);
    if (context->counts) {
        struct tt_listener_counts counts;
        context->counts(context->counts_context, -1, &counts);
        add_counts(page, &counts, context->journal.access_lines);
        add_answer_delay(page, &counts);
        add_thread_counts(page, context);
    }
    if (context->more_metrics)
        context->more_metrics(context->more_metrics_context, page);
}

static enum tt_err begin_models(void *context, int64_t key, struct tt_error *why) {
    struct tt_model_page *self = context;
    (void)why;
    self->key = key;
    self->catalogue = tt_catalogue_ref(tt_port_catalogue(self->pages->context->service.port));
    return TT_OK;
}

static void end_models(void *context) {
    struct tt_model_page *self = context;
    tt_catalogue_unref(self->catalogue);
    self->catalogue = NULL;
}

static enum tt_err begin_metrics(void *context, int64_t key, struct tt_error *why) {
    struct tt_model_page *self = context;
    tt_text_init(&self->rest);
    write_rest(self->pages->context, &self->rest);
    return begin_models(context, key, why);
}

static enum tt_err write_metrics(void *context, struct tt_text *out, struct tt_error *why) {
    struct tt_model_page *self = context;
    (void)why;
    tt_metrics_write_models(self->catalogue, out);
    tt_text_append(out, self->rest.bytes, self->rest.length);
    out->failed |= self->rest.failed;
    return TT_OK;
}

static void end_metrics(void *context) {
    tt_text_fini(&((struct tt_model_page *)context)->rest);
    end_models(context);
}

static const struct tt_page_kind metrics = {begin_metrics, write_metrics, end_metrics};

/* --- statistics --- */

static enum tt_err write_statistics(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_model_page *self = context;
    struct tt_kserve_statistics all;
    enum tt_err err = tt_kserve_statistics_of_all(&all, self->catalogue, why);
    if (err)
        return err;
    tt_kserve_write_statistics(&all, out);
    tt_kserve_statistics_fini(&all);
    return TT_OK;
}

static const struct tt_page_kind statistics = {begin_models, write_statistics, end_models};

/* --- the index --- */

static enum tt_err write_index(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_model_page *self = context;
    struct tt_kserve_index index;
    enum tt_err err = tt_kserve_index_of(&index, self->catalogue, self->key != 0, why);
    if (err)
        return err;
    tt_kserve_write_index(&index, out);
    tt_kserve_index_fini(&index);
    return TT_OK;
}

static const struct tt_page_kind model_index = {begin_models, write_index, end_models};

/* --- the trace of what just happened: GET /v2/debug/trace?seconds=N --- */

enum { DEFAULT_SECONDS = 5, MAX_SECONDS = 3600 };

/* The value of ?seconds=, 1 .. MAX_SECONDS; -1: the query is something else. */
static int64_t seconds_of(const char *target) {
    static const char name[] = "seconds=";
    const char *query = strchr(target, '?');
    if (!query || !query[1])
        return DEFAULT_SECONDS;
    query++;
    if (strncmp(query, name, sizeof(name) - 1) != 0)
        return -1;
    query += sizeof(name) - 1;
    char *end;
    long seconds = strtol(query, &end, 10);
    bool good = *query >= '0' && *query <= '9' && !*end && seconds >= 1 && seconds <= MAX_SECONDS;
    return good ? seconds : -1;
}

static enum tt_err begin_trace(void *context, int64_t key, struct tt_error *why) {
    (void)why;
    ((struct tt_model_page *)context)->key = key;
    return TT_OK;
}

static enum tt_err write_trace(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_model_page *self = context;
    return tt_serving_trace(self->pages->context->service.serving, self->key * TT_S, out, why);
}

static void end_trace(void *context) { (void)context; }

static const struct tt_page_kind trace = {begin_trace, write_trace, end_trace};

/* --- all --- */

static void page_init(struct tt_model_page *self, struct tt_model_pages *pages,
                      const struct tt_page_kind *kind) {
    *self = (struct tt_model_page){.pages = pages};
    tt_page_writer_init(&self->writer, kind, self, pages->context->turn);
}

void tt_model_pages_init(struct tt_model_pages *self, const struct tt_http_context *context) {
    self->context = context;
    page_init(&self->metrics, self, &metrics);
    page_init(&self->statistics, self, &statistics);
    page_init(&self->index, self, &model_index);
    page_init(&self->trace, self, &trace);
}

static void on_page(struct tt_page_asker *asker, struct tt_shared_page *page, enum tt_err err,
                    const struct tt_error *why) {
    struct tt_exchange *exchange = TT_CONTAINER_OF(asker, struct tt_exchange, asker);
    if (err)
        tt_reply_error(&exchange->reply, err, why->text);
    else
        exchange->page = tt_shared_page_ref(page);
    exchange->is_running = false;
    exchange->done(exchange);
}

/* The page is the reply's body. */
static void write_here(struct tt_exchange *exchange, struct tt_model_page *page) {
    const struct tt_page_kind *kind = page->writer.kind;
    struct tt_error why;
    enum tt_err err = kind->begin(page, exchange->asker.key, &why);
    if (!err) {
        err = kind->write(page, &exchange->reply.body, &why);
        kind->end(page);
    }
    if (err)
        tt_reply_error(&exchange->reply, err, why.text);
}

/* Whether it takes no time. */
static bool is_short(const struct tt_http_context *context, enum tt_route_kind kind) {
    const struct tt_catalogue *catalogue = tt_port_catalogue(context->service.port);
    int32_t count = catalogue ? catalogue->count : 0;
    return (kind == TT_ROUTE_STATISTICS && count <= TT_SHARED_PAGE_MODELS) ||
           (kind == TT_ROUTE_INDEX && count <= TT_SHARED_PAGE_ENTRIES);
}

/* What the page is to say, beside its kind: whether the index has only what is ready, the seconds
 * of a trace. */
static enum tt_err read_key(const struct tt_http_request *request, enum tt_route_kind kind,
                            int64_t *out_key, struct tt_error *why) {
    bool only_ready = false;
    enum tt_err err = TT_OK;
    *out_key = 0;
    if (kind == TT_ROUTE_INDEX) {
        err = tt_kserve_read_index(request->body, request->body_bytes, &only_ready, why);
        *out_key = only_ready;
    } else if (kind == TT_ROUTE_TRACE) {
        *out_key = seconds_of(request->target);
        if (*out_key < 0)
            err = tt_fail(TT_ERR_INVALID, why,
                          "the query may be ?seconds=N, with N from 1 to 3600: how far back the "
                          "trace begins");
    }
    return err;
}

static void start_here(struct tt_exchange *exchange, enum tt_route_kind kind,
                       struct tt_model_pages *pages, const struct tt_model_page *page) {
    struct tt_model_page here; /* another page may be under way */
    if (kind == TT_ROUTE_STATISTICS) {
        tt_page_statistics(exchange->context, NULL, &exchange->reply);
    } else if (kind == TT_ROUTE_INDEX) {
        tt_page_index(exchange->context, exchange->asker.key != 0, &exchange->reply);
    } else {
        page_init(&here, pages, page->writer.kind);
        write_here(exchange, &here);
    }
}

bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind,
                          const struct tt_http_request *request) {
    const struct tt_http_context *context = exchange->context;
    struct tt_model_pages *pages = context->pages;
    struct tt_model_page *page = kind == TT_ROUTE_METRICS      ? &pages->metrics
                                 : kind == TT_ROUTE_STATISTICS ? &pages->statistics
                                 : kind == TT_ROUTE_INDEX      ? &pages->index
                                                               : &pages->trace;
    struct tt_error why;
    exchange->asker = (struct tt_page_asker){.done = on_page};
    enum tt_err err = read_key(request, kind, &exchange->asker.key, &why);
    if (err) {
        tt_reply_error(&exchange->reply, err, why.text);
        return true;
    }
    exchange->reply.status = 200;
    exchange->reply.content_type =
        kind == TT_ROUTE_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "application/json";
    if (!context->loop || is_short(context, kind)) {
        start_here(exchange, kind, pages, page);
        return true;
    }
    exchange->is_running = true;
    tt_page_writer_ask(&page->writer, context->loop, &exchange->asker);
    return false;
}
