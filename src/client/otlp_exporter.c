#include "client/otlp_exporter.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "client/http_client.h"
#include "client/http_login.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_NS TT_S /* unless the options say it */
#define POST_NS (10 * TT_S)
#define LOOK_NS (100 * TT_MS) /* how often a wait for an answer looks whether to stop */
#define FIRST_PAUSE_NS TT_S
#define LONGEST_PAUSE_NS (30 * TT_S)
enum { DEFAULT_TCP_PORT = 4318, KEEP_BYTES = 200, URL_BYTES = 1024 };

/* What is sent at a time. */
struct batch {
    struct tt_text records, body;
    int32_t count; /* of records */
};

struct tt_otlp_exporter {
    struct tt_tracer *tracer;
    struct tt_http_address address;
    struct tt_http_login login;    /* for TLS only: a token for servers is nothing for collectors */
    struct tt_http_client *client; /* the thread's; NULL: none is open */
    char base[URL_BYTES], path[URL_BYTES], host_name[65];
    struct tt_otlp_resource resource;
    int64_t round_ns;
    struct batch batch;
    struct tt_eventcount eventcount;
    struct tt_flag stopping;
    int64_t end_at; /* the thread's, of the last sends; TT_NEVER before */
    bool is_done;   /* the thread's: the call in flight is over */
    bool failing;   /* the thread's */
    pthread_t thread;
    struct tt_counter exported, given_up, failures;
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

/* --- one post --- */

static void on_done(void *context, struct tt_http_call *call) {
    (void)call;
    ((struct tt_otlp_exporter *)context)->is_done = true;
}

static enum tt_err open_client(struct tt_otlp_exporter *self, struct tt_error *why) {
    const struct tt_http_client_options options = {.address = &self->address,
                                                   .connection_limit = 1,
                                                   .give_up_ns = POST_NS,
                                                   .done = on_done,
                                                   .done_context = self};
    return self->client ? TT_OK : tt_http_client_open(&options, &self->client, why);
}

static void close_client(struct tt_otlp_exporter *self) {
    tt_http_client_close(self->client);
    self->client = NULL;
}

/* From now on sends are the last ones. */
static bool is_stopping(struct tt_otlp_exporter *self) {
    if (self->end_at == TT_NEVER && tt_flag_is_raised(&self->stopping))
        self->end_at = tt_clock_now() + TT_OTLP_CLOSE_NS;
    return self->end_at != TT_NEVER;
}

static void wait_for_answer(struct tt_otlp_exporter *self, struct tt_http_call *call) {
    self->is_done = false;
    tt_http_client_start(self->client, call);
    while (!self->is_done) {
        tt_http_client_poll(self->client, tt_clock_now() + LOOK_NS);
        if (!self->is_done && is_stopping(self) && tt_clock_now() >= self->end_at)
            tt_http_client_cancel(self->client, call);
    }
}

enum sent { SENT, SENT_LATER, SENT_NEVER };

static enum sent judge(const struct tt_http_call *call, struct tt_error *why) {
    if (call->outcome != TT_HTTP_ANSWERED) {
        (void)tt_fail(TT_ERR_UNAVAILABLE, why, "%s", call->reason);
        return SENT_LATER;
    }
    if (call->status == 200)
        return SENT;
    (void)tt_fail(TT_ERR_INVALID, why, "HTTP status %d: %.*s", call->status, (int)call->body.length,
                  tt_text_string(&call->body));
    bool is_passing = call->status == 429 || (call->status >= 502 && call->status <= 504);
    return is_passing ? SENT_LATER : SENT_NEVER;
}

static enum sent post(struct tt_otlp_exporter *self, struct tt_error *why) {
    struct tt_text head;
    tt_text_init(&head);
    tt_text_printf(&head,
                   "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   self->path, self->address.authority, self->batch.body.length);
    enum sent sent = SENT_LATER;
    if (head.failed) {
        (void)tt_fail(TT_ERR_NO_MEMORY, why, "no memory for a request");
    } else if (open_client(self, why) == TT_OK) {
        struct tt_http_call call = {
            .parts = {{head.bytes, head.length}, {self->batch.body.bytes, self->batch.body.length}},
            .part_count = 2,
            .since_at = tt_clock_now(),
            .keep_bytes = 0,
            .keep_refusal_bytes = KEEP_BYTES};
        wait_for_answer(self, &call);
        sent = judge(&call, why);
        tt_text_fini(&call.body);
    }
    tt_text_fini(&head);
    return sent;
}

/* --- a batch --- */

static void say(struct tt_otlp_exporter *self, enum tt_log_level level, const char *what) {
    char line[3 * URL_BYTES];
    snprintf(line, sizeof(line), "spans to %s%s: %s", self->base, self->path, what);
    if (self->say)
        self->say(self->say_context, level, line);
}

static void note_failure(struct tt_otlp_exporter *self, const struct tt_error *why) {
    char what[600];
    struct tt_http_address address;
    struct tt_error ignored;
    tt_counter_add(&self->failures, 1);
    close_client(self);
    if (!self->failing) {
        snprintf(what, sizeof(what), "%.400s; requests are served all the same", why->text);
        say(self, TT_LOG_WARNING, what);
    }
    self->failing = true;
    if (is_stopping(self))
        return;
    /* The collector may have moved. */
    if (tt_http_address_parse(self->base, DEFAULT_TCP_PORT, &address, &ignored) == TT_OK) {
        address.login = self->address.login;
        self->address = address;
    }
}

static void note_success(struct tt_otlp_exporter *self) {
    if (self->failing)
        say(self, TT_LOG_INFO, "the collector takes them again");
    self->failing = false;
}

/* Until it is sent, or given up. */
static enum sent send_batch(struct tt_otlp_exporter *self) {
    struct tt_error why = {{0}};
    int64_t pause_ns = FIRST_PAUSE_NS;
    for (int tries = 1;; tries++) {
        enum sent sent = post(self, &why);
        if (sent == SENT) {
            note_success(self);
            return SENT;
        }
        note_failure(self, &why);
        if (sent == SENT_NEVER || tries == TT_OTLP_TRIES || is_stopping(self))
            return SENT_NEVER;
        int64_t until_at = tt_clock_now() + pause_ns;
        while (!is_stopping(self) && tt_clock_now() < until_at)
            tt_eventcount_sleep(&self->eventcount, until_at);
        pause_ns = tt_instant_min(2 * pause_ns, LONGEST_PAUSE_NS);
    }
}

/* False: nothing was left, or at the end nothing more can be sent. */
static bool send_some(struct tt_otlp_exporter *self) {
    struct batch *batch = &self->batch;
    tt_text_clear(&batch->records);
    tt_text_clear(&batch->body);
    batch->count = tt_tracer_take(self->tracer, &batch->records, TT_OTLP_BATCH_BYTES);
    if (batch->count == 0)
        return false;
    tt_otlp_write(&self->resource, &batch->records, batch->count, tt_clock_wall() - tt_clock_now(),
                  &batch->body);
    bool has_memory = !batch->records.failed && !batch->body.failed;
    enum sent sent = has_memory ? send_batch(self) : SENT_NEVER;
    if (!has_memory) { /* there may be for the next one */
        tt_text_fini(&batch->records);
        tt_text_fini(&batch->body);
    }
    tt_counter_add(sent == SENT ? &self->exported : &self->given_up, batch->count);
    return sent == SENT || !is_stopping(self);
}

/* What can no longer be sent is counted. */
static void give_up_rest(struct tt_otlp_exporter *self) {
    struct batch *batch = &self->batch;
    do {
        tt_text_clear(&batch->records);
        batch->count = tt_tracer_take(self->tracer, &batch->records, TT_OTLP_BATCH_BYTES);
        tt_counter_add(&self->given_up, batch->count);
    } while (batch->count > 0);
}

static void *exporter_main(void *context) {
    struct tt_otlp_exporter *self = context;
    pthread_setname_np(pthread_self(), "tutti-otlp");
    bool stopping = false;
    while (!stopping) {
        stopping = is_stopping(self); /* before the look: nothing comes after */
        while (send_some(self) && (!stopping || tt_clock_now() < self->end_at))
            ;
        if (!stopping)
            tt_eventcount_sleep(&self->eventcount, tt_clock_now() + self->round_ns);
    }
    give_up_rest(self);
    close_client(self);
    return NULL;
}

/* --- life --- */

/* The address of the server, and the path behind it. */
static enum tt_err read_url(struct tt_otlp_exporter *self, const char *url, struct tt_error *why) {
    const char *scheme = strstr(url, "://"), *from = scheme ? scheme + 3 : url;
    const char *path = strchr(from, '/');
    size_t base_bytes = path ? (size_t)(path - url) : strlen(url);
    if (strlen(url) >= URL_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "a URL has at most %d bytes", URL_BYTES - 1);
    if (!scheme)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s': expected a URL, as http://127.0.0.1:4318/v1/traces", url);
    for (const char *at = path; at && *at; at++)
        if (*at <= ' ' || *at > '~' || *at == '?' || *at == '#')
            return tt_fail(TT_ERR_INVALID, why,
                           "'%s': the path of a collector has visible characters, without query",
                           url);
    memcpy(self->base, url, base_bytes);
    self->base[base_bytes] = '\0';
    snprintf(self->path, sizeof(self->path), "%s", path && path[1] ? path : "/v1/traces");
    enum tt_err err = tt_http_address_parse(self->base, DEFAULT_TCP_PORT, &self->address, why);
    if (!err && self->address.is_tls)
        err = tt_http_login_open(&self->login, &(struct tt_http_login_options){0}, &self->address,
                                 why);
    return err;
}

static void exporter_free(struct tt_otlp_exporter *self) {
    tt_http_login_close(&self->login);
    tt_text_fini(&self->batch.records);
    tt_text_fini(&self->batch.body);
    free(self);
}

/* All signals go to other threads. */
static int start_thread(struct tt_otlp_exporter *self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&self->thread, NULL, exporter_main, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

enum tt_err tt_otlp_exporter_open(const struct tt_otlp_options *options,
                                  struct tt_otlp_exporter **out_exporter, struct tt_error *why) {
    struct tt_otlp_exporter *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the exporter of spans");
    self->tracer = options->tracer;
    self->round_ns = options->round_ns ? options->round_ns : ROUND_NS;
    self->say = options->say;
    self->say_context = options->say_context;
    self->end_at = TT_NEVER;
    if (gethostname(self->host_name, sizeof(self->host_name) - 1) != 0)
        self->host_name[0] = '\0';
    self->resource = (struct tt_otlp_resource){.service_version = options->service_version,
                                               .host_name = self->host_name,
                                               .process_id = getpid()};
    tt_eventcount_init(&self->eventcount);
    enum tt_err err = read_url(self, options->url, why);
    int failed = err ? 0 : start_thread(self);
    if (failed)
        err = tt_fail(TT_ERR_IO, why, "cannot start the thread that sends spans: %s",
                      strerror(failed));
    if (err) {
        exporter_free(self);
        return err;
    }
    *out_exporter = self;
    return TT_OK;
}

void tt_otlp_exporter_close(struct tt_otlp_exporter *take_self) {
    if (!take_self)
        return;
    tt_flag_raise(&take_self->stopping);
    tt_eventcount_notify(&take_self->eventcount);
    pthread_join(take_self->thread, NULL);
    exporter_free(take_self);
}

struct tt_otlp_counts tt_otlp_exporter_counts(const struct tt_otlp_exporter *self) {
    return (struct tt_otlp_counts){.exported = tt_counter_get(&self->exported),
                                   .given_up = tt_counter_get(&self->given_up),
                                   .lost = tt_tracer_lost(self->tracer),
                                   .failures = tt_counter_get(&self->failures)};
}

void tt_otlp_exporter_metrics(const struct tt_otlp_exporter *self, struct tt_text *page) {
    struct tt_otlp_counts counts = tt_otlp_exporter_counts(self);
    static const char exported[] = "tutti_otlp_requests_total",
                      dropped[] = "tutti_otlp_dropped_total",
                      failures[] = "tutti_otlp_failures_total";
    tt_text_printf(page,
                   "# HELP %s Requests whose spans a collector took\n# TYPE %s counter\n%s %lld\n",
                   exported, exported, exported, (long long)counts.exported);
    tt_text_printf(page,
                   "# HELP %s Requests whose spans were dropped, by reason\n# TYPE %s counter\n"
                   "%s{reason=\"queue_full\"} %lld\n%s{reason=\"export\"} %lld\n",
                   dropped, dropped, dropped, (long long)counts.lost, dropped,
                   (long long)counts.given_up);
    tt_text_printf(page, "# HELP %s Posts of spans that failed\n# TYPE %s counter\n%s %lld\n",
                   failures, failures, failures, (long long)counts.failures);
}
