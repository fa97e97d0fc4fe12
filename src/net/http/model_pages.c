#include "net/http/model_pages.h"

#include "base/log/line_file.h"
#include "metrics/metrics.h"
#include "net/http/http1.h"
#include "net/kserve/kserve_pages.h"
#include "net/sockets/pool_work.h"
#include "serve/catalogue.h"
#include "serve/port.h"

#include <stdlib.h>
#include <uv.h>

struct page_work {
    uv_work_t work;
    struct tt_exchange *exchange;
    enum tt_route_kind kind;
    struct tt_catalogue *catalogue;         /* a reference; NULL: none yet */
    struct tt_text rest;                    /* of the metrics: what follows the models */
    struct tt_kserve_statistics statistics; /* their names are the catalogue's */
};

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

static void write_rest(const struct tt_http_context *context, struct tt_text *page) {
    tt_metrics_write_server(context->service.serving, page);
    if (context->counts) {
        struct tt_listener_counts counts;
        context->counts(context->counts_context, -1, &counts);
        add_counts(page, &counts, context->journal.access_lines);
        add_thread_counts(page, context);
    }
    if (context->more_metrics)
        context->more_metrics(context->more_metrics_context, page);
}

/* --- a page --- */

/* A reference to the newest catalogue. */
static void keep_catalogue(struct page_work *self, struct tt_port *port) {
    const struct tt_catalogue *catalogue = tt_port_catalogue(port);
    tt_catalogue_unref(self->catalogue);
    /* Constant but for the count of its users. */
    self->catalogue = catalogue ? tt_catalogue_ref((struct tt_catalogue *)catalogue) : NULL;
}

/* A copy of the counters of all models, whose names are those of the catalogue. */
static enum tt_err copy_statistics(struct page_work *self, const struct tt_kserve_service *service,
                                   struct tt_error *why) {
    for (;;) {
        int64_t generation = tt_port_generation(service->port);
        enum tt_err err = tt_kserve_statistics_init(&self->statistics, service, NULL, why);
        if (err || generation == tt_port_generation(service->port))
            return err;
        /* The names are those of a catalogue that was published meanwhile. */
        tt_kserve_statistics_fini(&self->statistics);
        keep_catalogue(self, service->port);
    }
}

/* The part on the loop: what is short, and what only this thread may read. */
static enum tt_err begin(struct page_work *self, const struct tt_http_context *context,
                         struct tt_error *why) {
    tt_text_init(&self->rest);
    self->statistics = (struct tt_kserve_statistics){0};
    self->catalogue = NULL;
    keep_catalogue(self, context->service.port);
    if (self->kind == TT_ROUTE_STATISTICS)
        return copy_statistics(self, &context->service, why);
    write_rest(context, &self->rest);
    return TT_OK;
}

/* The long part. Any thread, while no other one uses the exchange. */
static void write_page(struct page_work *self) {
    struct tt_reply *reply = &self->exchange->reply;
    reply->status = 200;
    if (self->kind == TT_ROUTE_STATISTICS) {
        tt_kserve_write_statistics(&self->statistics, tt_reply_json(reply));
        return;
    }
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    tt_metrics_write_models(self->catalogue, &reply->body);
    tt_text_append(&reply->body, self->rest.bytes, self->rest.length);
    reply->body.failed |= self->rest.failed;
}

static void end(struct page_work *self) {
    tt_text_fini(&self->rest);
    tt_kserve_statistics_fini(&self->statistics);
    tt_catalogue_unref(self->catalogue);
}

static void run(uv_work_t *work) {
    tt_pool_work_enter();
    write_page(work->data);
}

static void on_run(uv_work_t *work, int status) {
    struct page_work *self = work->data;
    struct tt_exchange *exchange = self->exchange;
    tt_assert(status == 0); /* nothing is cancelled */
    end(self);
    free(self);
    exchange->is_running = false;
    exchange->done(exchange);
}

bool tt_model_pages_start(struct tt_exchange *exchange, enum tt_route_kind kind) {
    struct page_work here = {.exchange = exchange, .kind = kind}, *there;
    struct tt_error why;
    tt_assert(kind == TT_ROUTE_METRICS || kind == TT_ROUTE_STATISTICS);
    enum tt_err err = begin(&here, exchange->context, &why);
    bool is_long = here.catalogue && here.catalogue->count > TT_MODEL_PAGES_SHORT;
    if (!err && is_long && exchange->context->loop && (there = malloc(sizeof(*there)))) {
        *there = here;
        there->work.data = there;
        exchange->is_running = true;
        uv_queue_work(exchange->context->loop, &there->work, run, on_run);
        return false;
    }
    if (err)
        tt_reply_error(&exchange->reply, err, why.text);
    else
        write_page(&here);
    end(&here);
    return true;
}
