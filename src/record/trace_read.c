/* The trace for a reader that comes again and again: only what is new, record by record. */
#include "record/trace_internal.h"

#include <string.h>

/* E7: runs of which requests were answered before their batch ended. */
enum { EARLY_RUNS = 16 };

struct early {
    int64_t run; /* -1: none */
    int32_t slack_us;
};

struct reading {
    const struct tt_trace_visitor *visitor;
    struct early early[EARLY_RUNS]; /* the last ones of this ring */
    int32_t next_early;
    struct tt_trace_batch batch; /* waits for the requests that ended in it */
    int64_t run;                 /* its number; -1: none waits */
    int64_t lost;
};

static struct early *find_early(struct reading *self, int64_t run) {
    for (int32_t i = 0; i < EARLY_RUNS; i++)
        if (self->early[i].run == run)
            return &self->early[i];
    return NULL;
}

static void note_early(struct reading *self, const struct tt_trace_record *record) {
    struct early *early = find_early(self, record->run);
    if (!early) {
        early = &self->early[self->next_early++ % EARLY_RUNS];
        *early = (struct early){record->run, TT_TRACE_NO_SLACK};
    }
    early->slack_us = record->slack_us < early->slack_us ? record->slack_us : early->slack_us;
}

static void forget_early(struct reading *self) {
    for (int32_t i = 0; i < EARLY_RUNS; i++)
        self->early[i].run = -1;
}

static void deliver(struct reading *self) {
    if (self->run >= 0)
        self->visitor->batch(self->visitor->context, &self->batch);
    self->run = -1;
}

static void read_batch(struct reading *self, const struct tt_trace_record *record) {
    deliver(self);
    tt_assert(record->run >= 0);
    const struct early *early = find_early(self, record->run);
    self->run = record->run;
    self->batch = (struct tt_trace_batch){.model = record->name,
                                          .domain = record->domain,
                                          .executor = record->executor,
                                          .rows = record->rows,
                                          .slack_us = early ? early->slack_us : TT_TRACE_NO_SLACK,
                                          .outcome = (enum tt_outcome)record->outcome,
                                          .begin_at = record->begin_at,
                                          .end_at = record->end_at};
}

/* True for a request that ended in the batch which waits. Its end was noted a little later than the
 * batch's, and both are read together. */
static bool belongs_to_batch(const struct reading *self, const struct tt_trace_record *record) {
    return record->kind == TT_TRACE_REQUEST && record->ran && record->run == self->run;
}

static void read_request(struct reading *self, const struct tt_trace_record *record) {
    if (!belongs_to_batch(self, record) && record->ran)
        note_early(self, record);
    else if (record->ran && record->slack_us < self->batch.slack_us)
        self->batch.slack_us = record->slack_us;
    struct tt_trace_ending ending = {.model = record->name,
                                     .slack_us = record->slack_us,
                                     .is_done = record->outcome == TT_ENDING_DONE,
                                     .begin_at = record->begin_at,
                                     .end_at = record->end_at};
    self->visitor->request(self->visitor->context, &ending);
}

/* Reads the ring from `next` on (records before `since_at` only count as read); returns where the
 * next reading begins. */
static uint64_t read_ring(struct reading *self, const struct tt_recent *recent, uint64_t next,
                          int64_t since_at, int64_t until_at) {
    uint64_t end = tt_recent_end(recent), words[TT_TRACE_RECORD_WORDS];
    tt_assert(next <= end);
    tt_assert(self->run < 0); /* the ring before it was delivered */
    forget_early(self);
    for (; next < end; next++) {
        struct tt_trace_record record;
        if (!tt_recent_get(recent, next, words)) {
            self->lost++;
            continue;
        }
        memcpy(&record, words, sizeof(record));
        if (record.kind == TT_TRACE_ID)
            continue;
        if (record.end_at > until_at && !belongs_to_batch(self, &record))
            break;
        if (record.end_at < since_at || record.name < 0)
            continue;
        if (record.kind == TT_TRACE_BATCH)
            read_batch(self, &record);
        else if (record.kind == TT_TRACE_REQUEST)
            read_request(self, &record);
    }
    deliver(self);
    return next;
}

int64_t tt_trace_read(struct tt_trace *self, int64_t since_at, int64_t until_at,
                      struct tt_trace_cursor *cursor, const struct tt_trace_visitor *visitor) {
    struct reading reading = {.visitor = visitor, .run = -1};
    tt_assert(cursor->count >= 0);
    tt_assert(cursor->count <= TT_TRACE_MAX_RINGS);
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < self->name_count; i++)
        visitor->name(visitor->context, i, self->names[i]);
    int32_t rings = 0;
    for (struct tt_trace_tap *tap = self->taps; tap; tap = tap->next)
        rings++;
    int32_t known = cursor->count, ring = rings;
    for (struct tt_trace_tap *tap = self->taps; tap; tap = tap->next) {
        if (--ring >= TT_TRACE_MAX_RINGS) /* the newest ring comes first */
            continue;
        uint64_t first = tt_recent_first(&tap->recent), end = tt_recent_end(&tap->recent);
        bool is_known = ring < known && cursor->next[ring] <= end;
        uint64_t next = is_known ? cursor->next[ring] : first;
        if (next < first) {
            reading.lost += (int64_t)(first - next);
            next = first;
        }
        cursor->next[ring] =
            read_ring(&reading, &tap->recent, next, is_known ? INT64_MIN : since_at, until_at);
    }
    cursor->count = rings < TT_TRACE_MAX_RINGS ? rings : TT_TRACE_MAX_RINGS;
    tt_lock_give(&self->lock);
    return reading.lost;
}

int32_t tt_trace_tap_domain(const struct tt_trace_tap *tap) { return tap->domain; }
