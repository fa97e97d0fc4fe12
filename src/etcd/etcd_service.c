#include "etcd/etcd_service.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/log/log.h"
#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "client/http_login.h"
#include "etcd/etcd_login.h"
#include "etcd/etcd_watch.h"
#include "net/tls/tls_context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define GIVE_UP_NS (2 * TT_S)
#define LOOK_NS (20 * TT_MS)
#define LAST_NS (200 * TT_MS)

enum { CONNECTIONS = 2 };

/* A request on its way, from `send` to its answer. */
struct request {
    struct request *next;
    enum tt_coordination_verb verb;
    uint64_t number, epoch;
    struct tt_text body, message;
    struct tt_http_call call;
};

/* What is reported: an answer, a member, or the record. */
struct report {
    struct report *next;
    enum { ANSWER, MEMBER, RECORD } kind;
    struct tt_coordination_answer answer; /* RECORD: epoch and revision */
    bool is_there;
    char *name, *value;
};

struct tt_etcd_service {
    struct tt_etcd_service_options options;
    struct tt_etcd_address address;
    struct tt_lock lock;
    struct request *requests; /* newest first */
    struct report *reports;   /* newest first */
    struct tt_flag stopping;
    pthread_t thread;
    bool has_thread;
    /* The thread's: */
    struct tt_http_client *client; /* NULL: none is open */
    int32_t server, under_way;
    bool is_lost, is_away; /* the server must be changed; etcd does not answer, which was logged */
    bool is_blind;         /* it cannot be watched, which was logged */
    struct tt_etcd_watch watch;
    struct tt_etcd_login login;   /* what it reads again when the files change */
    struct tt_tls_context *fresh; /* what comes into force; NULL: nothing */
};

/* ---- reports ---- */

static void report(struct tt_etcd_service *self, const struct report *content) {
    struct report *copy = malloc(sizeof(*copy));
    if (!copy)
        return; /* as if etcd had not answered: it is asked again */
    *copy = *content;
    if (copy->kind == MEMBER) {
        copy->name = strdup(content->name);
        copy->value = strdup(content->value);
    }
    tt_lock_take(&self->lock);
    copy->next = self->reports;
    self->reports = copy;
    tt_lock_give(&self->lock);
    self->options.wake(self->options.context);
}

static void report_free(struct report *take_report) {
    free(take_report->name);
    free(take_report->value);
    free(take_report);
}

static void on_entry(void *context, const struct tt_etcd_entry *entry) {
    struct tt_etcd_service *self = context;
    if (entry->key == TT_ETCD_MEMBER)
        report(self, &(struct report){.kind = MEMBER,
                                      .is_there = entry->is_there,
                                      .name = (char *)(uintptr_t)entry->node,
                                      .value = (char *)(uintptr_t)entry->value});
    else if (entry->key == TT_ETCD_PRIMARY)
        report(self, &(struct report){.kind = RECORD,
                                      .answer = {.epoch = entry->is_there ? entry->epoch : 0,
                                                 .revision = entry->revision}});
}

/* ---- requests ---- */

static void request_free(struct request *take_request) {
    tt_text_fini(&take_request->body);
    tt_text_fini(&take_request->message);
    tt_text_fini(&take_request->call.body);
    free(take_request);
}

static void show(struct tt_etcd_service *self, bool is_away, const char *text) {
    if (is_away == self->is_away || !self->options.log)
        return;
    self->is_away = is_away;
    tt_log_limited(self->options.log, is_away ? TT_LOG_WARNING : TT_LOG_INFO, NULL,
                   is_away ? "cluster: etcd does not answer, which delays no request: %s"
                           : "cluster: etcd answers%s",
                   text);
}

/* Of an etcd that answers. */
static void show_watch(struct tt_etcd_service *self) {
    const struct tt_etcd_watch *watch = &self->watch;
    if (watch->has_failed == self->is_blind || self->is_away || !self->options.log)
        return;
    self->is_blind = watch->has_failed;
    tt_log_limited(self->options.log, self->is_blind ? TT_LOG_WARNING : TT_LOG_INFO, NULL,
                   self->is_blind ? "cluster: etcd cannot be watched, which delays no request: %s"
                                  : "cluster: etcd is watched%s",
                   self->is_blind ? watch->why.text : "");
}

static void on_done(void *context, struct tt_http_call *call) {
    struct request *request =
        (struct request *)(void *)((char *)call - offsetof(struct request, call));
    struct tt_etcd_service *self = context;
    struct tt_error why = {{0}};
    struct report content = {.kind = ANSWER, .answer.number = request->number};
    self->under_way--;
    if (call->outcome == TT_HTTP_ANSWERED && !call->body.failed) {
        content.answer.err = tt_etcd_read(request->verb, call->status, tt_text_string(&call->body),
                                          call->body.length, &content.answer, &why);
        if (content.answer.is_done)
            content.answer.epoch = request->epoch;
    } else {
        bool is_late = call->outcome == TT_HTTP_GAVE_UP;
        content.answer.err = tt_fail(is_late ? TT_ERR_TIMEOUT : TT_ERR_UNAVAILABLE, &why, "%s: %s",
                                     self->address.servers[self->server].authority, call->reason);
    }
    bool is_lost = content.answer.err && content.answer.err != TT_ERR_NOT_FOUND;
    self->is_lost |= is_lost;
    show(self, is_lost, is_lost ? why.text : "");
    report(self, &content);
    request_free(request);
}

static void start(struct tt_etcd_service *self, struct request *request, int64_t now) {
    tt_text_printf(&request->message, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n",
                   tt_etcd_path(request->verb), self->address.servers[self->server].authority,
                   request->body.length);
    request->call = (struct tt_http_call){
        .part_count = 2, .since_at = now, .keep_bytes = 1 << 20, .keep_refusal_bytes = 4096};
    tt_text_init(&request->call.body);
    request->call.parts[0] =
        (struct iovec){.iov_base = request->message.bytes, .iov_len = request->message.length};
    request->call.parts[1] =
        (struct iovec){.iov_base = request->body.bytes, .iov_len = request->body.length};
    self->under_way++;
    tt_http_client_start(self->client, &request->call);
}

static void open_client(struct tt_etcd_service *self) {
    const struct tt_http_client_options options = {.address = &self->address.servers[self->server],
                                                   .connection_limit = CONNECTIONS,
                                                   .give_up_ns = GIVE_UP_NS,
                                                   .done = on_done,
                                                   .done_context = self};
    struct tt_error why;
    if (tt_http_client_open(&options, &self->client, &why))
        self->client = NULL; /* later, perhaps */
}

static void take_requests(struct tt_etcd_service *self, int64_t now) {
    if (!self->client)
        return;
    tt_lock_take(&self->lock);
    struct request *newest = self->requests, *oldest = NULL;
    self->requests = NULL;
    tt_lock_give(&self->lock);
    for (struct request *next; newest; newest = next) {
        next = newest->next;
        newest->next = oldest;
        oldest = newest;
    }
    for (struct request *next; oldest; oldest = next) {
        next = oldest->next;
        start(self, oldest, now);
    }
}

static void close_client(struct tt_etcd_service *self) {
    struct tt_http_client *client = self->client;
    self->client = NULL;
    tt_http_client_close(client);
}

/* Connections begin anew with what the files say now, when no request is under way. */
static void renew(struct tt_etcd_service *self) {
    struct tt_tls_context *fresh = tt_etcd_login_take(&self->login);
    if (fresh) {
        tt_tls_context_unref(self->fresh);
        self->fresh = fresh;
    }
    if (!self->fresh || self->under_way > 0)
        return;
    close_client(self);
    tt_etcd_watch_renew(&self->watch);
    tt_tls_context_unref(self->address.login->tls);
    self->address.login->tls = self->fresh;
    self->fresh = NULL;
}

static void turn(struct tt_etcd_service *self) {
    if (self->is_lost && self->under_way == 0) {
        close_client(self);
        self->server = (self->server + 1) % self->address.server_count;
        self->is_lost = false;
    }
    renew(self);
    if (!self->client)
        open_client(self);
    int64_t now = tt_clock_now();
    if (!self->fresh)
        take_requests(self, now);
    tt_etcd_watch_poll(&self->watch, now);
    show_watch(self);
    if (self->client)
        tt_http_client_poll(self->client, tt_instant_add(now, LOOK_NS));
}

static void *service_main(void *context) {
    struct tt_etcd_service *self = context;
    pthread_setname_np(pthread_self(), "tutti-etcd");
    while (!tt_flag_is_raised(&self->stopping))
        turn(self);
    int64_t until_at = tt_instant_add(tt_clock_now(), LAST_NS);
    take_requests(self, tt_clock_now());
    while (self->client && self->under_way > 0 && tt_clock_now() < until_at)
        tt_http_client_poll(self->client, until_at);
    return NULL;
}

/* ---- the coordination ---- */

static void queue(void *context, const struct tt_coordination_request *wanted) {
    struct tt_etcd_service *self = context;
    struct request *request = calloc(1, sizeof(*request));
    if (!request)
        return; /* as if etcd did not answer */
    request->verb = wanted->verb;
    request->number = wanted->number;
    request->epoch = wanted->epoch;
    tt_text_init(&request->body);
    tt_text_init(&request->message);
    tt_text_init(&request->call.body);
    tt_etcd_write(self->address.name, wanted, &request->body);
    tt_lock_take(&self->lock);
    request->next = self->requests;
    self->requests = request;
    tt_lock_give(&self->lock);
}

static void receive(void *context, const struct tt_coordination_events *events,
                    void *events_context) {
    struct tt_etcd_service *self = context;
    tt_lock_take(&self->lock);
    struct report *newest = self->reports, *oldest = NULL;
    self->reports = NULL;
    tt_lock_give(&self->lock);
    for (struct report *next; newest; newest = next) {
        next = newest->next;
        newest->next = oldest;
        oldest = newest;
    }
    for (struct report *next; oldest; oldest = next) {
        next = oldest->next;
        if (oldest->kind == ANSWER)
            events->answered(events_context, &oldest->answer);
        else if (oldest->kind == RECORD)
            events->recorded(events_context, oldest->answer.epoch, oldest->answer.revision);
        else if (oldest->name && oldest->value)
            events->member(events_context, oldest->name, oldest->value, oldest->is_there);
        report_free(oldest);
    }
}

struct tt_coordination tt_etcd_service_coordination(struct tt_etcd_service *self) {
    return (struct tt_coordination){.self = self, .send = queue, .receive = receive};
}

enum tt_err tt_etcd_service_open(const struct tt_etcd_service_options *options,
                                 struct tt_etcd_service **out_service, struct tt_error *why) {
    struct tt_etcd_service *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    self->address = *options->address;
    tt_lock_init(&self->lock);
    tt_etcd_watch_init(&self->watch, &self->address, on_entry, self);
    enum tt_err err = tt_etcd_login_start(&self->login, &self->address, options->log, why);
    if (err) {
        tt_etcd_service_close(self);
        return err;
    }
    int problem = pthread_create(&self->thread, NULL, service_main, self);
    if (problem) {
        tt_etcd_service_close(self);
        return tt_fail(TT_ERR_IO, why, "cannot start a thread: %s", strerror(problem));
    }
    self->has_thread = true;
    *out_service = self;
    return TT_OK;
}

void tt_etcd_service_close(struct tt_etcd_service *take_service) {
    if (!take_service)
        return;
    tt_flag_raise(&take_service->stopping);
    if (take_service->has_thread)
        pthread_join(take_service->thread, NULL);
    tt_http_client_close(take_service->client); /* ends what is under way */
    tt_etcd_watch_fini(&take_service->watch);
    tt_etcd_login_stop(&take_service->login);
    tt_tls_context_unref(take_service->fresh);
    for (struct request *request = take_service->requests, *next; request; request = next) {
        next = request->next;
        request_free(request);
    }
    for (struct report *left = take_service->reports, *next; left; left = next) {
        next = left->next;
        report_free(left);
    }
    tt_lock_fini(&take_service->lock);
    free(take_service);
}
