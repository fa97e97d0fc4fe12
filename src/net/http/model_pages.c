#include "net/http/model_pages.h"

#include "base/log/line_file.h"
#include "metrics/metrics.h"
#include "net/http/http1.h"
#include "net/kserve/kserve_pages.h"
#include "serve/catalogue.h"
#include "serve/port.h"

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

static enum tt_err begin_metrics(void *context, struct tt_error *why) {
    struct tt_model_pages *self = context;
    (void)why;
    self->catalogue = tt_catalogue_ref(tt_port_catalogue(self->context->service.port));
    tt_text_init(&self->rest);
    write_rest(self->context, &self->rest);
    return TT_OK;
}

static enum tt_err write_metrics(void *context, struct tt_text *out, struct tt_error *why) {
    struct tt_model_pages *self = context;
    (void)why;
    tt_metrics_write_models(self->catalogue, out);
    tt_text_append(out, self->rest.bytes, self->rest.length);
    out->failed |= self->rest.failed;
    return TT_OK;
}

static void end_metrics(void *context) {
    struct tt_model_pages *self = context;
    tt_text_fini(&self->rest);
    tt_catalogue_unref(self->catalogue);
}

static const struct tt_page_kind metrics = {begin_metrics, write_metrics, end_metrics};

/* --- statistics --- */

static enum tt_err begin_statistics(void *context, struct tt_error *why) {
    struct tt_model_pages *self = context;
    return tt_kserve_statistics_init(&self->all, &self->context->service, NULL, why);
}

static enum tt_err write_statistics(void *context, struct tt_text *out, struct tt_error *why) {
    struct tt_model_pages *self = context;
    (void)why;
    tt_kserve_write_statistics(&self->all, out);
    return TT_OK;
}

static void end_statistics(void *context) {
    tt_kserve_statistics_fini(&((struct tt_model_pages *)context)->all);
}

static const struct tt_page_kind statistics = {begin_statistics, write_statistics, end_statistics};

/* --- both --- */

void tt_model_pages_init(struct tt_model_pages *self, const struct tt_http_context *context) {
    self->context = context;
    tt_page_writer_init(&self->metrics, &metrics, self);
    tt_page_writer_init(&self->statistics, &statistics, self);
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
static void write_here(struct tt_exchange *exchange, const struct tt_page_kind *kind,
                       struct tt_model_pages *pages) {
    struct tt_error why;
    enum tt_err err = kind->begin(pages, &why);
    if (!err) {
        err = kind->write(pages, &exchange->reply.body, &why);
        kind->end(pages);
    }
    if (err)
        tt_reply_error(&exchange->reply, err, why.text);
}

bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind) {
    const struct tt_http_context *context = exchange->context;
    struct tt_model_pages *pages = context->pages;
    bool is_metrics = kind == TT_ROUTE_METRICS;
    const struct tt_catalogue *catalogue = tt_port_catalogue(context->service.port);
    tt_assert(is_metrics || kind == TT_ROUTE_STATISTICS);
    exchange->reply.status = 200;
    exchange->reply.content_type =
        is_metrics ? "text/plain; version=0.0.4; charset=utf-8" : "application/json";
    bool is_short = !is_metrics && (!catalogue || catalogue->count <= TT_SHARED_PAGE_MODELS);
    if (is_short || !context->loop) {
        struct tt_model_pages here = {.context = context}; /* another page may be under way */
        write_here(exchange, is_metrics ? &metrics : &statistics, &here);
        return true;
    }
    exchange->is_running = true;
    exchange->asker = (struct tt_page_asker){.done = on_page};
    tt_page_writer_ask(is_metrics ? &pages->metrics : &pages->statistics, context->loop,
                       &exchange->asker);
    return false;
}
