/* The trace as Chrome's JSON. A domain is a process; its executors are threads, and the requests of
 * each model lie on as many threads ("lanes") as were there at once, so that the slices of a thread
 * never overlap. Copies of an executor's batches lie on two threads of their own. */
#include "base/instant.h"
#include "record/trace_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads below are executors, from 1; FIRST_COPIES + 2 e and one more are executor e's copies, and
 * the one before FIRST_COPIES those of inputs that arrive. */
enum { FIRST_COPIES = 500000, FIRST_LANE = 1000000 };

/* As they were when the writing began: a turn that adds a model must not wait for it. Rings, names
 * and what they point to stay as long as the trace; later records may name what is not here. */
struct known {
    struct tt_trace_tap *taps;
    char **names;
    int32_t *policies;
    int32_t name_count, domain_count;
};

struct writing {
    struct known known;
    struct tt_text *out;
    struct tt_trace_record *batches, *requests, *words, *copies;
    struct tt_trace_id *ids; /* by domain and number */
    int64_t batch_count, request_count, word_count, copy_count, id_count;
    int64_t hidden; /* requests without a free lane */
    bool any;       /* an event was written: the next one needs a comma */
};

/* ---- collecting ---- */

static int by_domain_and_run(const void *a, const void *b) {
    const struct tt_trace_record *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return (x->run > y->run) - (x->run < y->run);
}

/* By domain, then model, then arrival. */
static int by_lane(const void *a, const void *b) {
    const struct tt_trace_record *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_copies(const void *a, const void *b) {
    const struct tt_trace_record *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    if (x->executor != y->executor)
        return x->executor < y->executor ? -1 : 1;
    if (x->outcome != y->outcome)
        return x->outcome < y->outcome ? -1 : 1;
    return (x->begin_at > y->begin_at) - (x->begin_at < y->begin_at);
}

static int by_domain_and_number(const void *a, const void *b) {
    const struct tt_trace_id *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void keep_id(struct writing *self, const struct tt_trace_record *record, int64_t since_at) {
    struct tt_trace_id id;
    memcpy(&id, record, sizeof(id));
    if (id.end_at >= since_at && id.domain < self->known.domain_count)
        self->ids[self->id_count++] = id;
}

static void keep(struct writing *self, const struct tt_trace_record *record, int64_t since_at) {
    bool is_id = record->kind == TT_TRACE_ID; /* which has other fields */
    if (!is_id &&
        (record->end_at < since_at || record->name < 0 || record->name >= self->known.name_count ||
         record->domain >= self->known.domain_count))
        return;
    switch ((enum tt_trace_kind)record->kind) {
    case TT_TRACE_BATCH: self->batches[self->batch_count++] = *record; break;
    case TT_TRACE_REQUEST: self->requests[self->request_count++] = *record; break;
    case TT_TRACE_WORD: self->words[self->word_count++] = *record; break;
    case TT_TRACE_COPY: self->copies[self->copy_count++] = *record; break;
    case TT_TRACE_ID: keep_id(self, record, since_at); break;
    }
}

static enum tt_err collect(struct writing *self, int64_t since_at) {
    int64_t capacity = 0;
    for (struct tt_trace_tap *tap = self->known.taps; tap; tap = tap->next)
        capacity += (int64_t)(tt_recent_end(&tap->recent) - tt_recent_first(&tap->recent));
    self->batches = malloc((size_t)(capacity + 1) * sizeof(*self->batches));
    self->requests = malloc((size_t)(capacity + 1) * sizeof(*self->requests));
    self->words = malloc((size_t)(capacity + 1) * sizeof(*self->words));
    self->copies = malloc((size_t)(capacity + 1) * sizeof(*self->copies));
    self->ids = malloc((size_t)(capacity + 1) * sizeof(*self->ids));
    if (!self->batches || !self->requests || !self->words || !self->copies || !self->ids)
        return TT_ERR_NO_MEMORY;
    for (struct tt_trace_tap *tap = self->known.taps; tap; tap = tap->next) {
        uint64_t end = tt_recent_end(&tap->recent), words[TT_TRACE_RECORD_WORDS];
        for (uint64_t i = tt_recent_first(&tap->recent); i < end; i++) {
            struct tt_trace_record record;
            if (self->batch_count + self->request_count + self->word_count + self->copy_count +
                    self->id_count ==
                capacity)
                break; /* newer than the count */
            if (!tt_recent_get(&tap->recent, i, words))
                continue;
            memcpy(&record, words, sizeof(record));
            keep(self, &record, since_at);
        }
    }
    qsort(self->batches, (size_t)self->batch_count, sizeof(*self->batches), by_domain_and_run);
    qsort(self->requests, (size_t)self->request_count, sizeof(*self->requests), by_lane);
    qsort(self->copies, (size_t)self->copy_count, sizeof(*self->copies), by_copies);
    qsort(self->ids, (size_t)self->id_count, sizeof(*self->ids), by_domain_and_number);
    return TT_OK;
}

/* ---- writing ---- */

static void begin(struct writing *self, const char *phase, int32_t domain, int64_t thread) {
    tt_text_printf(self->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%lld", self->any ? "," : "",
                   phase, domain + 1, (long long)thread);
    self->any = true;
}

/* Microseconds, to the nanosecond. */
static void put_time(struct writing *self, const char *key, int64_t ns) {
    tt_text_printf(self->out, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000),
                   (long long)(ns % 1000));
}

/* Names the domains of these records, each once. */
static void name_domains(struct writing *self, const struct tt_trace_record *records, int64_t count,
                         bool *named) {
    for (int64_t i = 0; i < count; i++) {
        int32_t domain = records[i].domain;
        tt_assert(domain >= 0);
        tt_assert(domain < self->known.domain_count);
        if (named[domain])
            continue;
        named[domain] = true;
        begin(self, "M", domain, 0);
        tt_text_printf(self->out,
                       ",\"name\":\"process_name\",\"args\":{\"name\":\"domain %d: ", domain);
        /* The policy's name is a JSON string already: the two become one. */
        tt_text_puts(self->out, self->known.names[self->known.policies[domain]] + 1);
        tt_text_puts(self->out, "}}");
    }
}

static void name_thread(struct writing *self, int32_t domain, int64_t thread, const char *prefix,
                        const char *json_name) {
    begin(self, "M", domain, thread);
    tt_text_printf(self->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s", prefix);
    tt_text_puts(self->out, json_name + 1);
    tt_text_puts(self->out, "}}");
    begin(self, "M", domain, thread);
    tt_text_printf(self->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%lld}}",
                   (long long)thread);
}

static void write_batch(struct writing *self, const struct tt_trace_record *batch) {
    static const char *const outcomes[] = {[TT_OUTCOME_DONE] = "done",
                                           [TT_OUTCOME_PREEMPTED] = "preempted",
                                           [TT_OUTCOME_DIVERGED] = "parted",
                                           [TT_OUTCOME_ABORTED] = "aborted",
                                           [TT_OUTCOME_FAILED] = "failed"};
    tt_assert(batch->outcome < TT_COUNT(outcomes));
    tt_assert(batch->name < self->known.name_count);
    begin(self, "X", batch->domain, batch->executor + 1);
    put_time(self, "ts", batch->begin_at);
    put_time(self, "dur", tt_instant_max(batch->end_at - batch->begin_at, 0));
    tt_text_printf(self->out,
                   ",\"cat\":\"batch\",\"name\":%s,\"args\":{\"run\":%lld,\"rows\":%d,"
                   "\"requests\":%d,\"first_step\":%d,\"last_step_done\":%d,\"outcome\":\"%s\"",
                   self->known.names[batch->name], (long long)batch->run, batch->rows, batch->count,
                   batch->first_step, batch->last_step, outcomes[batch->outcome]);
    put_time(self, "decided_us_before", tt_instant_max(batch->begin_at - batch->number, 0));
    tt_text_puts(self->out, "}}");
}

static void write_batches(struct writing *self) {
    int32_t domain = -1, named = 0; /* executors 0 .. named - 1 have their names */
    for (int64_t i = 0; i < self->batch_count; i++) {
        const struct tt_trace_record *batch = &self->batches[i];
        if (batch->domain != domain)
            named = 0;
        domain = batch->domain;
        for (; named <= batch->executor; named++) {
            char text[48];
            snprintf(text, sizeof(text), "executor %d", named);
            name_thread(self, domain, named + 1, text, "\"\"");
        }
        write_batch(self, batch);
    }
}

static void name_copies(struct writing *self, const struct tt_trace_record *copy, int64_t thread,
                        const char *name) {
    char text[64];
    if (copy->executor < 0)
        snprintf(text, sizeof(text), "%s", name);
    else
        snprintf(text, sizeof(text), "executor %d, %s", copy->executor, name);
    name_thread(self, copy->domain, thread, text, "\"\"");
}

static void write_copies(struct writing *self) {
    static const char *const names[] = {[TT_TRACE_IN] = "copies in",
                                        [TT_TRACE_OUT] = "copies out",
                                        [TT_TRACE_ARRIVAL] = "copies on arrival"};
    for (int64_t i = 0; i < self->copy_count; i++) {
        const struct tt_trace_record *copy = &self->copies[i], *before = copy - 1;
        tt_assert(copy->outcome < TT_COUNT(names));
        int64_t thread = copy->executor < 0
                             ? FIRST_COPIES - 1
                             : FIRST_COPIES + 2 * (int64_t)copy->executor + copy->outcome;
        if (i == 0 || before->domain != copy->domain || before->executor != copy->executor ||
            before->outcome != copy->outcome)
            name_copies(self, copy, thread, names[copy->outcome]);
        begin(self, "X", copy->domain, thread);
        put_time(self, "ts", copy->begin_at);
        put_time(self, "dur", copy->end_at - copy->begin_at);
        tt_text_printf(self->out,
                       ",\"cat\":\"copy\",\"name\":\"%s\",\"args\":{\"model\":%s,\"run\":%lld,"
                       "\"rows\":%d,\"requests\":%d}}",
                       names[copy->outcome], self->known.names[copy->name], (long long)copy->run,
                       copy->rows, copy->count);
    }
}

/* The batch in which the request ended, or, by cells, one that was so many before. */
static const struct tt_trace_record *
batch_of(const struct writing *self, const struct tt_trace_record *request, int64_t before) {
    if (!request->ran)
        return NULL;
    struct tt_trace_record key = {.domain = request->domain, .run = request->run - before};
    return bsearch(&key, self->batches, (size_t)self->batch_count, sizeof(*self->batches),
                   by_domain_and_run);
}

static const char *ending_of(const struct tt_trace_record *request) {
    static const char *const endings[] = {"done", "dropped", "failed", "cancelled"};
    return endings[request->outcome & 3];
}

/* An arrow from the request to the batch that it runs in (by cells: joins), or from the one that it
 * leaves. */
static void write_flow(struct writing *self, const struct tt_trace_record *request, int64_t thread,
                       const struct tt_trace_record *batch, int64_t id, bool leaves) {
    static const char flow[] = ",\"cat\":\"flow\",\"name\":\"%s\",\"id\":%lld%s}";
    const char *name = leaves ? "leaves" : request->first_step > 0 ? "joins" : "runs in";
    begin(self, "s", request->domain, leaves ? batch->executor + 1 : thread);
    put_time(self, "ts", leaves ? batch->begin_at : request->begin_at);
    tt_text_printf(self->out, flow, name, (long long)id, "");
    begin(self, "f", request->domain, leaves ? thread : batch->executor + 1);
    put_time(self, "ts",
             leaves ? request->end_at : tt_instant_max(batch->begin_at, request->begin_at));
    tt_text_printf(self->out, flow, name, (long long)id, ",\"bp\":\"e\"");
}

/* The client's name for the request, if it gave one. */
static void write_id(struct writing *self, const struct tt_trace_record *request) {
    struct tt_trace_id key = {.domain = request->domain, .number = request->number};
    const struct tt_trace_id *id =
        bsearch(&key, self->ids, (size_t)self->id_count, sizeof(*self->ids), by_domain_and_number);
    if (!id)
        return;
    char text[TT_TRACE_ID_BYTES + 1] = "";
    memcpy(text, id->id, TT_TRACE_ID_BYTES);
    char *json = tt_trace_as_json(text);
    if (json)
        tt_text_printf(self->out, ",\"request_id\":%s", json);
    else
        self->out->failed = true;
    free(json);
}

static void write_request(struct writing *self, const struct tt_trace_record *request,
                          int64_t thread, int64_t flow) {
    begin(self, "X", request->domain, thread);
    put_time(self, "ts", request->begin_at);
    put_time(self, "dur", request->end_at - request->begin_at);
    tt_text_printf(self->out,
                   ",\"cat\":\"request\",\"name\":\"request %lld\",\"args\":{\"model\":%s,"
                   "\"rows\":%d,\"ending\":\"%s\"",
                   (long long)request->number, self->known.names[request->name], request->rows,
                   ending_of(request));
    write_id(self, request);
    if (request->reason != TT_DROP_NONE)
        tt_text_printf(self->out, ",\"reason\":\"%s\"",
                       tt_drop_reason_name((enum tt_drop_reason)request->reason));
    if (request->slack_us != TT_TRACE_NO_SLACK)
        tt_text_printf(self->out, ",\"slack_us\":%d", request->slack_us);
    const struct tt_trace_record *last = batch_of(self, request, 0);
    const struct tt_trace_record *first = batch_of(self, request, request->first_step);
    if (last)
        tt_text_printf(self->out, ",\"run\":%lld", (long long)last->run);
    if (last && request->first_step > 0)
        tt_text_printf(self->out, ",\"joined_run\":%lld",
                       (long long)(request->run - request->first_step));
    tt_text_puts(self->out, "}}");
    if (first)
        write_flow(self, request, thread, first, 2 * flow, false);
    if (last && request->first_step > 0)
        write_flow(self, request, thread, last, 2 * flow + 1, true);
}

static void write_requests(struct writing *self) {
    int64_t lane_ends[TT_TRACE_LANES];
    int64_t group = -1; /* of lanes: a model in a domain */
    int32_t lanes = 0;
    for (int64_t i = 0; i < self->request_count; i++) {
        const struct tt_trace_record *request = &self->requests[i], *before = request - 1;
        if (i == 0 || before->domain != request->domain || before->name != request->name) {
            group++;
            lanes = 0;
        }
        int32_t lane = 0;
        while (lane < lanes && lane_ends[lane] > request->begin_at)
            lane++;
        if (lane == TT_TRACE_LANES) {
            self->hidden++;
            continue;
        }
        int64_t thread = FIRST_LANE + group * TT_TRACE_LANES + lane;
        if (lane == lanes) {
            name_thread(self, request->domain, thread, "requests of ",
                        self->known.names[request->name]);
            lanes++;
        }
        tt_assert(request->end_at >= request->begin_at);
        lane_ends[lane] = request->end_at;
        write_request(self, request, thread, i + 1);
    }
}

/* A mark on the domain's track: its request may not have ended, and has no track then. */
static void write_words(struct writing *self) {
    for (int64_t i = 0; i < self->word_count; i++) {
        const struct tt_trace_record *word = &self->words[i];
        begin(self, "i", word->domain, 0);
        put_time(self, "ts", word->end_at);
        tt_text_printf(self->out,
                       ",\"s\":\"p\",\"cat\":\"word\",\"name\":\"first word\",\"args\":{"
                       "\"model\":%s,\"request\":%lld,\"after_run\":%lld}}",
                       self->known.names[word->name], (long long)word->number,
                       (long long)word->run);
    }
}

static enum tt_err know(struct tt_trace *trace, struct known *out) {
    tt_lock_take(&trace->lock);
    size_t names = (size_t)trace->name_count, domains = (size_t)trace->domain_count;
    out->taps = trace->taps;
    out->name_count = trace->name_count;
    out->domain_count = trace->domain_count;
    out->names = malloc((names + 1) * sizeof(*out->names));
    out->policies = malloc((domains + 1) * sizeof(*out->policies));
    if (out->names && names)
        memcpy(out->names, trace->names, names * sizeof(*out->names));
    if (out->policies && domains)
        memcpy(out->policies, trace->policies, domains * sizeof(*out->policies));
    tt_lock_give(&trace->lock);
    return out->names && out->policies ? TT_OK : TT_ERR_NO_MEMORY;
}

enum tt_err tt_trace_write(struct tt_trace *self, int64_t since_at, struct tt_text *out_json,
                           struct tt_error *why) {
    struct writing writing = {.out = out_json};
    enum tt_err err = know(self, &writing.known);
    if (!err)
        err = collect(&writing, since_at);
    bool *named = calloc((size_t)writing.known.domain_count + 1, sizeof(*named));
    err = named ? err : TT_ERR_NO_MEMORY;
    if (!err) {
        tt_text_puts(out_json, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
        name_domains(&writing, writing.batches, writing.batch_count, named);
        name_domains(&writing, writing.requests, writing.request_count, named);
        name_domains(&writing, writing.words, writing.word_count, named);
        name_domains(&writing, writing.copies, writing.copy_count, named);
        write_batches(&writing);
        write_copies(&writing);
        write_requests(&writing);
        write_words(&writing);
        tt_text_printf(out_json,
                       "\n],\"otherData\":{\"batches\":%lld,\"requests\":%lld,"
                       "\"requests_without_a_track\":%lld}}\n",
                       (long long)writing.batch_count, (long long)writing.request_count,
                       (long long)writing.hidden);
        err = out_json->failed ? TT_ERR_NO_MEMORY : TT_OK;
    }
    free(named);
    free(writing.known.names);
    free(writing.known.policies);
    free(writing.batches);
    free(writing.requests);
    free(writing.words);
    free(writing.copies);
    free(writing.ids);
    return err ? tt_fail(err, why, "out of memory for a trace") : TT_OK;
}
