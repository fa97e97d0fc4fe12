#include "etcd/etcd_watch.h"

#include "base/clock.h"
#include "base/instant.h"

#include <string.h>

#define RETRY_NS TT_S
#define LIST_NS (5 * TT_S)
#define STREAM_NS (600 * TT_S)

enum { MAX_STREAM_BYTES = 4 << 20, MAX_MEMBERS_BYTES = 1 << 16 };

void tt_etcd_watch_init(struct tt_etcd_watch *self, const struct tt_etcd_address *address,
                        tt_etcd_entry_fn *each, void *context) {
    *self = (struct tt_etcd_watch){.address = address, .each = each, .context = context};
    tt_text_init(&self->request);
    tt_text_init(&self->call.body);
    tt_text_init(&self->members);
    tt_text_init(&self->listed);
}

static void close_client(struct tt_etcd_watch *self) {
    struct tt_http_client *client = self->client;
    self->client = NULL;
    tt_http_client_close(client); /* ends the call */
}

void tt_etcd_watch_fini(struct tt_etcd_watch *self) {
    close_client(self);
    tt_text_fini(&self->request);
    tt_text_fini(&self->call.body);
    tt_text_fini(&self->members);
    tt_text_fini(&self->listed);
}

/* ---- members ---- */

static bool has(const struct tt_text *names, const char *name) {
    const char *text = tt_text_string(names);
    for (size_t at = 0; at < names->length; at += strlen(text + at) + 1)
        if (strcmp(text + at, name) == 0)
            return true;
    return false;
}

static void add(struct tt_text *names, const char *name) {
    size_t bytes = strlen(name) + 1;
    if (bytes <= MAX_MEMBERS_BYTES - names->length && !has(names, name))
        tt_text_append(names, name, bytes);
}

static void on_listed(void *context, const struct tt_etcd_entry *entry) {
    struct tt_etcd_watch *self = context;
    if (entry->key == TT_ETCD_MEMBER)
        add(&self->listed, entry->node);
    self->each(self->context, entry);
}

static void on_changed(void *context, const struct tt_etcd_entry *entry) {
    struct tt_etcd_watch *self = context;
    if (entry->key == TT_ETCD_MEMBER && entry->is_there)
        add(&self->members, entry->node);
    self->each(self->context, entry);
}

/* Reports those that were known and are not listed; the list is what is known from now on. */
static void replace_members(struct tt_etcd_watch *self) {
    const char *text = tt_text_string(&self->members);
    for (size_t at = 0; at < self->members.length; at += strlen(text + at) + 1)
        if (!has(&self->listed, text + at))
            self->each(self->context, &(struct tt_etcd_entry){
                                          .key = TT_ETCD_MEMBER, .node = text + at, .value = ""});
    struct tt_text known = self->members;
    self->members = self->listed;
    self->listed = known;
    tt_text_clear(&self->listed);
}

/* ---- calls ---- */

static void start(struct tt_etcd_watch *self, int64_t now, const char *path,
                  enum tt_etcd_watch_state state) {
    struct tt_text head;
    tt_text_init(&head);
    tt_text_printf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n", path,
                   self->address->servers[self->server].authority, self->request.length);
    tt_text_append(&head, self->request.bytes, self->request.length);
    tt_text_fini(&self->request);
    self->request = head;
    tt_text_fini(&self->call.body);
    self->call = (struct tt_http_call){.part_count = 1,
                                       .since_at = now,
                                       .keep_bytes = MAX_STREAM_BYTES,
                                       .keep_refusal_bytes = 512};
    tt_text_init(&self->call.body);
    self->call.parts[0] =
        (struct iovec){.iov_base = self->request.bytes, .iov_len = self->request.length};
    self->read_bytes = 0;
    self->state = state;
    tt_http_client_start(self->client, &self->call);
}

static void fail(struct tt_etcd_watch *self, int64_t now) {
    self->has_failed = true;
    self->state = TT_ETCD_WATCH_IDLE;
    self->retry_at = tt_instant_add(now, RETRY_NS);
    self->server = (self->server + 1) % self->address->server_count;
}

static void on_done(void *context, struct tt_http_call *call) {
    struct tt_etcd_watch *self = context;
    if (!self->client || self->state == TT_ETCD_WATCH_IDLE)
        return; /* it was ended from here */
    if (self->state == TT_ETCD_WATCH_LISTS && call->outcome == TT_HTTP_ANSWERED &&
        call->status == 200 && !call->body.failed &&
        tt_etcd_read_list(self->address->name, tt_text_string(&call->body), call->body.length,
                          on_listed, self, &self->revision, &self->why) == TT_OK) {
        replace_members(self);
        self->state = TT_ETCD_WATCH_IDLE; /* the stream follows */
        return;
    }
    if (call->outcome != TT_HTTP_ANSWERED)
        (void)tt_fail(TT_ERR_UNAVAILABLE, &self->why, "etcd: %s: %s",
                      self->address->servers[self->server].authority, call->reason);
    else if (call->status != 200)
        (void)tt_fail(TT_ERR_UNAVAILABLE, &self->why, "etcd: %s: HTTP status %d",
                      self->address->servers[self->server].authority, (int)call->status);
    else if (self->state == TT_ETCD_WATCH_STREAMS)
        (void)tt_fail(TT_ERR_UNAVAILABLE, &self->why, "etcd: %s: the watch has ended",
                      self->address->servers[self->server].authority);
    self->revision = 0;
    fail(self, tt_clock_now());
}

/* A client for lists, which must be answered, or one for streams, which last. */
static bool open_client(struct tt_etcd_watch *self, int64_t give_up_ns) {
    close_client(self);
    const struct tt_http_client_options options = {.address = &self->address->servers[self->server],
                                                   .connection_limit = 1,
                                                   .give_up_ns = give_up_ns,
                                                   .done = on_done,
                                                   .done_context = self};
    return tt_http_client_open(&options, &self->client, &self->why) == TT_OK;
}

static void begin(struct tt_etcd_watch *self, int64_t now) {
    bool lists = self->revision == 0;
    self->began_at = now;
    if (!open_client(self, lists ? LIST_NS : STREAM_NS)) {
        fail(self, now);
        return;
    }
    tt_text_clear(&self->request);
    tt_text_clear(&self->listed);
    if (lists) {
        tt_etcd_write_list(self->address->name, &self->request);
        start(self, now, "/v3/kv/range", TT_ETCD_WATCH_LISTS);
    } else {
        tt_etcd_write_watch(self->address->name, self->revision + 1, &self->request);
        start(self, now, "/v3/watch", TT_ETCD_WATCH_STREAMS);
    }
}

/* Reads the lines that came since the last look. */
static void read_lines(struct tt_etcd_watch *self, int64_t now) {
    const struct tt_text *body = &self->call.body;
    while (self->state == TT_ETCD_WATCH_STREAMS && self->read_bytes < body->length) {
        const char *line = body->bytes + self->read_bytes;
        const char *end = memchr(line, '\n', body->length - self->read_bytes);
        if (!end)
            break;
        self->read_bytes += (size_t)(end - line) + 1;
        int64_t revision;
        if (tt_etcd_read_change(self->address->name, line, (size_t)(end - line), on_changed, self,
                                &revision, &self->why)) {
            self->revision = 0; /* a list says what was missed */
            fail(self, now);
            close_client(self);
        } else {
            self->has_failed = false;
            self->revision = revision > self->revision ? revision : self->revision;
        }
    }
}

/* Ends a stream that has become long, or does not begin. */
static void bound_stream(struct tt_etcd_watch *self, int64_t now) {
    bool is_long = self->call.body.length >= MAX_STREAM_BYTES / 2;
    bool has_begun = self->read_bytes > 0;
    if (!has_begun && (is_long || now - self->began_at >= LIST_NS)) {
        (void)tt_fail(TT_ERR_TIMEOUT, &self->why, "etcd: %s: the watch does not begin",
                      self->address->servers[self->server].authority);
        self->revision = 0;
        fail(self, now);
        close_client(self);
    } else if (is_long) {
        self->state = TT_ETCD_WATCH_IDLE; /* a new stream goes on where this one was */
        self->retry_at = tt_instant_add(self->began_at, RETRY_NS);
        close_client(self);
    }
}

void tt_etcd_watch_renew(struct tt_etcd_watch *self) {
    self->state = TT_ETCD_WATCH_IDLE;
    close_client(self);
}

void tt_etcd_watch_poll(struct tt_etcd_watch *self, int64_t now) {
    if (self->state == TT_ETCD_WATCH_IDLE && now >= self->retry_at)
        begin(self, now);
    if (!self->client)
        return;
    tt_http_client_poll(self->client, now);
    if (self->state == TT_ETCD_WATCH_STREAMS)
        read_lines(self, now);
    if (self->state == TT_ETCD_WATCH_STREAMS)
        bound_stream(self, now);
}
