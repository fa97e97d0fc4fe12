/* tutti load URL: sends requests at their intended times and reports the results. load_plan.h makes
 * the requests, lab/load/load.h schedules and counts them, client/http_client.h sends them; this
 * file runs the three against the clock. */
#include "cmd/outcome.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/eventcount.h"
#include "base/threads/time_slice.h"
#include "client/http_client.h"
#include "client/json_tree.h"
#include "cmd/load_plan.h"
#include "lab/report/load_report.h"
#include "lab/scenario/allocate.h"
#include "sim/cancel_heap.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    REFUSAL_BYTES = 600, /* bytes of an error response that are read */
    TAKEN_PER_TURN = 64, /* so that responses are read while many requests are due */
    PROGRESS_MS = 250,
    SPARE_FILES = 64, /* descriptors besides those of connections */
};

/* A request in flight. */
struct call {
    struct tt_http_call http;
    struct tt_handle handle; /* detects a cancellation after the request ended */
    struct tt_load_request request;
    struct tt_text head;
    struct tt_kserve_client_body own; /* where has_own */
    bool has_own, gone;               /* gone: cancelled as planned */
    struct call *next_spare;
};

struct run {
    struct tt_load_plan plan;
    struct tt_load load;
    struct tt_load_csv csv;
    struct tt_load_series series;
    struct tt_http_client *client;
    struct call **calls; /* by the index of their handles */
    uint32_t call_count, call_capacity;
    struct call *spare;
    struct tt_cancel_heap cancellations;
    int64_t started_at;
    int64_t progress_at;
    int64_t connections_opened;
    int64_t turns; /* of the loop */
    bool shows_progress;
    enum tt_err err;
    struct tt_error why;
};

/* --- one request --- */

static struct call *take_call(struct run *run) {
    struct call *call = run->spare;
    if (call) {
        run->spare = call->next_spare;
        tt_text_clear(&call->head);
        return call;
    }
    if (run->call_count == run->call_capacity) {
        run->call_capacity = run->call_capacity ? 2 * run->call_capacity : 64;
        run->calls = tt_reallocate(run->calls, run->call_capacity, sizeof(struct call *));
    }
    call = tt_allocate(1, sizeof(*call));
    tt_text_init(&call->head);
    call->handle.index = run->call_count;
    run->calls[run->call_count++] = call;
    return call;
}

static void put_back(struct run *run, struct call *call) {
    tt_text_fini(&call->http.body);
    if (call->has_own)
        tt_kserve_client_body_fini(&call->own);
    call->has_own = false;
    call->handle.generation++;
    call->next_spare = run->spare;
    run->spare = call;
}

static void free_calls(struct run *run) {
    for (uint32_t i = 0; i < run->call_count; i++) {
        tt_text_fini(&run->calls[i]->head);
        free(run->calls[i]);
    }
    free(run->calls);
    tt_cancel_heap_fini(&run->cancellations);
}

/* Cancels the requests whose time to be cancelled has come. */
static void cancel_due(struct run *run, int64_t now) {
    while (tt_cancel_heap_next_at(&run->cancellations) <= now) {
        struct tt_handle handle = tt_cancel_heap_pop(&run->cancellations);
        struct call *call = run->calls[handle.index];
        if (call->handle.generation == handle.generation) {
            call->gone = true;
            tt_http_client_cancel(run->client, &call->http);
        }
    }
}

/* The text of {"error": "..."} if the response has one. */
static void describe(const struct tt_http_call *http, char *out, size_t capacity) {
    json_t *json =
        http->body.length ? tt_json_tree_load(http->body.bytes, http->body.length, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(json, "error"));
    snprintf(out, capacity, "%s", text ? text : "");
    json_decref(json);
}

static enum tt_load_end end_of(const struct tt_http_call *http) {
    switch (http->outcome) {
    case TT_HTTP_ANSWERED: break;
    case TT_HTTP_GAVE_UP: return TT_LOAD_TIMED_OUT;
    case TT_HTTP_WITHDRAWN: return TT_LOAD_UNFINISHED;
    case TT_HTTP_NO_CONNECT:
    case TT_HTTP_BROKEN:
    case TT_HTTP_MALFORMED:
    default: return TT_LOAD_BROKEN;
    }
    if (http->status == 200)
        return TT_LOAD_ANSWERED;
    return http->status == 503 || http->status == 429 ? TT_LOAD_REJECTED : TT_LOAD_FAILED;
}

static void on_done(void *context, struct tt_http_call *http) {
    struct run *run = context;
    struct call *call = TT_CONTAINER_OF(http, struct call, http);
    char text[REFUSAL_BYTES];
    bool gone = call->gone && http->outcome == TT_HTTP_WITHDRAWN;
    struct tt_load_result result = {.end = gone ? TT_LOAD_CANCELLED : end_of(http),
                                    .sent_at =
                                        http->sent_at < 0 ? -1 : http->sent_at - run->started_at,
                                    .received_bytes = (int64_t)http->body_bytes,
                                    .status = http->outcome == TT_HTTP_ANSWERED ? http->status : 0,
                                    .reason = http->reason};
    for (int32_t i = 0; http->sent_at >= 0 && i < http->part_count; i++)
        result.sent_bytes += (int64_t)http->parts[i].iov_len;
    if (http->outcome == TT_HTTP_ANSWERED && http->status != 200) {
        describe(http, text, sizeof(text));
        result.reason = text;
    }
    int64_t ended_at = http->ended_at - run->started_at;
    enum tt_load_outcome outcome = tt_load_ended(&run->load, &call->request, ended_at, &result);
    tt_load_csv_put(&run->csv, &run->plan.scenario, &call->request, result.sent_at, ended_at,
                    outcome, result.status);
    if (run->plan.flags->html)
        tt_load_series_add(&run->series, call->request.at, ended_at, outcome);
    put_back(run, call);
}

static enum tt_err send_request(struct run *run, const struct tt_load_request *request) {
    struct call *call = take_call(run);
    const struct tt_kserve_client_body *body;
    enum tt_err err = tt_load_plan_body(&run->plan, request, &call->own, &body, &run->why);
    if (err) {
        put_back(run, call);
        return err;
    }
    call->has_own = body == NULL;
    body = body ? body : &call->own;
    call->request = *request;
    struct tt_kserve_client_request head = {
        .authority = run->plan.address.authority,
        .headers = run->plan.login.header,
        .model = run->plan.targets[request->model].served,
        .body = body,
        .timeout_us = tt_load_plan_timeout_us(&run->plan, request),
        .priority = request->priority ? request->priority : run->plan.flags->priority,
        .binary = !run->plan.flags->json_body};
    tt_kserve_client_head(&head, &call->head);
    if (call->head.failed) {
        put_back(run, call);
        return tt_fail(TT_ERR_NO_MEMORY, &run->why, "no memory for another request");
    }
    call->http = (struct tt_http_call){
        .parts = {{.iov_base = call->head.bytes, .iov_len = call->head.length},
                  {.iov_base = body->json.bytes, .iov_len = body->json.length},
                  {.iov_base = body->binary.bytes, .iov_len = body->binary.length}},
        .part_count = body->binary.length ? 3 : 2,
        .since_at = run->started_at + request->at,
        .keep_refusal_bytes = REFUSAL_BYTES};
    call->gone = false;
    tt_http_client_start(run->client, &call->http);
    if (request->cancel_at != TT_NEVER)
        tt_cancel_heap_push(&run->cancellations, request->cancel_at, request->number, call->handle);
    return TT_OK;
}

/* --- the loop --- */

static void show_progress(struct run *run, int64_t now, bool last) {
    if (!run->shows_progress || (now < run->progress_at && !last))
        return;
    run->progress_at = now + PROGRESS_MS * TT_MS;
    struct tt_load_model total;
    tt_load_total(&run->load, &total);
    struct tt_http_client_counts counts = tt_http_client_counts(run->client);
    fprintf(
        stderr,
        "\r\033[K%.1f s  sent %lld  in flight %d  waiting %d  connections %d  ok %lld  bad %.2f "
        "%%  p50 %.3f  p99 %.3f ms%s",
        (double)now / 1e9, (long long)run->load.taken, counts.under_way, counts.waiting,
        counts.connections, (long long)total.outcomes[TT_LOAD_OUTCOME_OK],
        100 * tt_load_bad_rate(&total),
        (double)tt_histogram_quantile(&total.latency_ns, 1, 2) / 1e6,
        (double)tt_histogram_quantile(&total.latency_ns, 99, 100) / 1e6, last ? "\n" : "");
    tt_load_model_fini(&total);
}

static void carry(struct run *run) {
    run->started_at = tt_clock_now();
    int64_t now = 0;
    while (!run->err && !tt_interrupted && !tt_load_done(&run->load, now)) {
        struct tt_load_request request;
        run->turns++;
        for (int i = 0; !run->err && i < TAKEN_PER_TURN && tt_load_take(&run->load, now, &request);
             i++)
            run->err = send_request(run, &request);
        cancel_due(run, now);
        int64_t until = tt_instant_min(tt_load_next_at(&run->load, now),
                                       tt_cancel_heap_next_at(&run->cancellations));
        if (run->shows_progress)
            until = tt_instant_min(until, run->progress_at);
        tt_http_client_poll(run->client, tt_instant_add(until, run->started_at));
        now = tt_clock_now() - run->started_at;
        show_progress(run, now, false);
    }
    show_progress(run, now, true);
    if (run->err || tt_interrupted)
        tt_load_stop(&run->load, now);
    run->connections_opened = tt_http_client_counts(run->client).opened;
    tt_http_client_close(run->client); /* ends the requests in flight */
}

/* --- the verb --- */

static void prepare_process(int64_t connections) {
    struct sigaction action = {.sa_handler = tt_on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    tt_eventcount_be_punctual();
    tt_time_slice_be_short();
    struct rlimit files;
    rlim_t wanted = (rlim_t)connections + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < wanted) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static enum tt_err write_text(const char *path, struct tt_text *take_text, struct tt_error *why) {
    enum tt_err err = take_text->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for %s", path)
                                        : tt_text_write_file(path, take_text, why);
    tt_text_fini(take_text);
    return err;
}

static enum tt_err report(struct run *run, const struct tt_load_flags *flags) {
    char url[sizeof(run->plan.address.authority) + 9];
    snprintf(url, sizeof(url), "%s://%s", run->plan.address.scheme, run->plan.address.authority);
    struct tt_load_report report = {.load = &run->load,
                                    .title = run->plan.title ? run->plan.title : "",
                                    .url = url,
                                    .interrupted = tt_interrupted != 0,
                                    .connections_opened = run->connections_opened,
                                    .generator_cpu_s = cpu_seconds(),
                                    .generator_turns = run->turns,
                                    .series = &run->series};
    struct tt_text text;
    tt_text_init(&text);
    if (flags->json) {
        tt_outcome_print_json(tt_load_report_json(&report));
    } else {
        tt_load_report_table(&report, &text);
        tt_outcome_print_text(&text);
    }
    enum tt_err err = tt_load_csv_close(&run->csv, &run->why);
    if (!err && flags->svg) {
        tt_load_report_svg(&report, &text);
        err = write_text(flags->svg, &text, &run->why);
    }
    if (!err && flags->html)
        err = tt_load_report_html(&report, flags->html, &run->why);
    return err;
}

/* EXIT_FAILED, with a message, if no result was measured or too many requests were bad. */
static int judge(const struct run *run, const struct tt_load_flags *flags) {
    struct tt_load_model total;
    tt_load_total(&run->load, &total);
    double bad_rate = tt_load_bad_rate(&total);
    int64_t arrived = total.arrived, answered = total.latency_ns.count, bad = tt_load_bad(&total);
    tt_load_model_fini(&total);
    if (arrived == 0) {
        fprintf(stderr,
                "tutti load: nothing was measured: no request was sent after the warm-up of "
                "%g s\n",
                (double)run->plan.scenario.warm_up_ns / 1e9);
        return 1;
    }
    if (answered == 0 && bad > 0) {
        fprintf(stderr, "tutti load: no response had outputs: %s\n",
                run->load.reason_count ? run->load.reasons[0].text : "");
        return 1;
    }
    if (flags->fail_bad_rate >= 0 && bad_rate > flags->fail_bad_rate) {
        fprintf(stderr, "tutti load: the bad rate, %.6f, is above %.6f\n", bad_rate,
                flags->fail_bad_rate);
        return 1;
    }
    return 0;
}

static int complain(enum tt_err err, const struct tt_error *why) {
    int code = tt_outcome_print_error("load", err, why);
    return err == TT_ERR_IO ? EXIT_USAGE : code;
}

static enum tt_err open_run(struct run *run, const struct tt_load_flags *flags) {
    struct tt_http_client_options options = {
        .address = &run->plan.address,
        .connection_limit = (int32_t)tt_instant_max(flags->connections, flags->concurrency),
        .give_up_ns = flags->give_up_ms * TT_MS,
        .done = on_done,
        .done_context = run};
    enum tt_err err =
        tt_load_init(&run->load, &run->plan.scenario, (int32_t)flags->concurrency, &run->why);
    tt_load_series_init(&run->series);
    if (!err && flags->csv)
        err = tt_load_csv_open(&run->csv, flags->csv, &run->why);
    if (!err)
        err = tt_http_client_open(&options, &run->client, &run->why);
    return err ? tt_durable_end(&run->csv.out, err, &run->why) : TT_OK; /* nothing was measured */
}

int tt_load_run(const struct tt_load_flags *flags) {
    prepare_process(tt_instant_max(flags->connections, flags->concurrency));
    struct run run = {.shows_progress = isatty(STDERR_FILENO)};
    enum tt_err err = tt_load_plan_open(&run.plan, flags, &run.why);
    if (err)
        return complain(err, &run.why);
    int code;
    err = open_run(&run, flags);
    if (err) {
        code = complain(err, &run.why);
    } else {
        carry(&run);
        err = run.err;
        if (err)
            complain(err, &run.why);
        err = report(&run, flags);
        if (err && !run.err)
            complain(err, &run.why);
        code = err || run.err ? 1 : tt_interrupted ? EXIT_INTERRUPTED : judge(&run, flags);
    }
    free_calls(&run);
    tt_load_fini(&run.load);
    tt_load_series_fini(&run.series);
    tt_load_plan_close(&run.plan);
    return code;
}
