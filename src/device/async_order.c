#include "device/async_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ACCESSES = 4096 };
enum { HOST = -1 };

/* One range that an operation touched. */
struct access {
    uint64_t first, end; /* bytes [first, end) */
    int32_t stream;
    bool writes;
    uint64_t number; /* of the operation in its stream, from 1 */
    const char *name;
};

struct tt_async_order {
    struct tt_async_order_options options;
    struct tt_lock lock; /* guards all below, and the clocks of events */
    uint64_t *clocks;    /* [max_streams][max_streams] */
    uint64_t *host;      /* [max_streams] */
    struct access *kept; /* [max_accesses], the oldest first */
    int32_t kept_count;
    int64_t conflicts, forgotten;
};

enum tt_err tt_async_order_new(const struct tt_async_order_options *options,
                               struct tt_async_order **out_order, struct tt_error *why) {
    if (options->max_streams < 1 || options->max_streams > TT_ASYNC_ORDER_STREAMS)
        return tt_fail(TT_ERR_INVALID, why,
                       "the order of %d streams cannot be checked; 1 to %d can",
                       options->max_streams, TT_ASYNC_ORDER_STREAMS);
    struct tt_async_order *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the order checker");
    self->options = *options;
    if (self->options.max_accesses <= 0)
        self->options.max_accesses = DEFAULT_ACCESSES;
    size_t streams = (size_t)options->max_streams;
    self->clocks = calloc(streams * streams, sizeof(*self->clocks));
    self->host = calloc(streams, sizeof(*self->host));
    self->kept = calloc((size_t)self->options.max_accesses, sizeof(*self->kept));
    tt_lock_init(&self->lock);
    if (!self->clocks || !self->host || !self->kept) {
        tt_async_order_free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the order checker");
    }
    *out_order = self;
    return TT_OK;
}

void tt_async_order_free(struct tt_async_order *take_order) {
    if (!take_order)
        return;
    tt_lock_fini(&take_order->lock);
    free(take_order->clocks);
    free(take_order->host);
    free(take_order->kept);
    free(take_order);
}

uint64_t *tt_async_order_clock_new(const struct tt_async_order *self) {
    return calloc((size_t)self->options.max_streams, sizeof(uint64_t));
}

static uint64_t *clock_of(struct tt_async_order *self, int32_t stream) {
    tt_assert(stream >= 0 && stream < self->options.max_streams);
    return self->clocks + (size_t)stream * (size_t)self->options.max_streams;
}

static void join(struct tt_async_order *self, uint64_t *into, const uint64_t *from) {
    for (int32_t i = 0; i < self->options.max_streams; i++)
        if (into[i] < from[i])
            into[i] = from[i];
}

/* ---- accesses ---- */

static bool is_before(const struct access *access, const uint64_t *clock) {
    return access->number <= clock[access->stream];
}

static void describe(char *text, size_t capacity, const struct access *access) {
    if (access->stream == HOST)
        snprintf(text, capacity, "%s", access->name);
    else
        snprintf(text, capacity, "%s (operation %llu of stream %d)", access->name,
                 (unsigned long long)access->number, access->stream);
}

static void report(struct tt_async_order *self, const struct access *earlier,
                   const struct access *later) {
    self->conflicts++;
    if (!self->options.on_conflict)
        return;
    char first[128], second[128], text[512];
    describe(first, sizeof(first), later);
    describe(second, sizeof(second), earlier);
    uint64_t from = earlier->first > later->first ? earlier->first : later->first;
    uint64_t end = earlier->end < later->end ? earlier->end : later->end;
    snprintf(text, sizeof(text), "%s %s %llu bytes at 0x%llx that %s %s: no event orders the two",
             first, later->writes ? "writes" : "reads", (unsigned long long)(end - from),
             (unsigned long long)from, second, earlier->writes ? "writes" : "reads");
    self->options.on_conflict(self->options.context, text);
}

/* Compares with all kept accesses. Removes those that this one makes superfluous: it writes all of
 * their bytes after them, so whatever is ordered after this one is ordered after them. */
static void compare(struct tt_async_order *self, const struct access *access,
                    const uint64_t *clock) {
    int32_t left = 0;
    for (int32_t i = 0; i < self->kept_count; i++) {
        const struct access *kept = &self->kept[i];
        bool overlap =
            kept->first < access->end && access->first < kept->end && access->first < access->end;
        bool before = is_before(kept, clock);
        if (overlap && (kept->writes || access->writes) && !before)
            report(self, kept, access);
        bool covered = before && access->writes && access->stream != HOST &&
                       access->first <= kept->first && kept->end <= access->end;
        if (!covered)
            self->kept[left++] = *kept;
    }
    self->kept_count = left;
}

static void keep(struct tt_async_order *self, const struct access *access) {
    if (self->kept_count == self->options.max_accesses) {
        self->forgotten++;
        self->kept_count--;
        memmove(self->kept, self->kept + 1, (size_t)self->kept_count * sizeof(*self->kept));
    }
    self->kept[self->kept_count++] = *access;
}

static struct access access_of(const struct tt_async_range *range, int32_t stream, uint64_t number,
                               const char *name) {
    return (struct access){.first = range->address,
                           .end = range->address + range->bytes,
                           .stream = stream,
                           .writes = range->writes,
                           .number = number,
                           .name = name};
}

/* ---- what happens ---- */

void tt_async_order_operation(struct tt_async_order *self, int32_t stream, const char *name,
                              const struct tt_async_range *ranges, int32_t count) {
    tt_lock_take(&self->lock);
    uint64_t *clock = clock_of(self, stream);
    join(self, clock, self->host);
    clock[stream]++;
    for (int32_t i = 0; i < count; i++) {
        struct access access = access_of(&ranges[i], stream, clock[stream], name);
        compare(self, &access, clock);
    }
    for (int32_t i = 0; i < count; i++) {
        struct access access = access_of(&ranges[i], stream, clock[stream], name);
        if (access.first < access.end)
            keep(self, &access);
    }
    tt_lock_give(&self->lock);
}

void tt_async_order_record(struct tt_async_order *self, int32_t stream, uint64_t *clock) {
    tt_lock_take(&self->lock);
    uint64_t *own = clock_of(self, stream);
    join(self, own, self->host);
    bool follows = true;
    for (int32_t i = 0; i < self->options.max_streams; i++)
        follows = follows && clock[i] <= own[i];
    if (!follows) {
        char text[128];
        snprintf(text, sizeof(text),
                 "an event recorded again on stream %d, which does not come after its last record",
                 stream);
        self->conflicts++;
        if (self->options.on_conflict)
            self->options.on_conflict(self->options.context, text);
    }
    memcpy(clock, own, (size_t)self->options.max_streams * sizeof(*clock));
    tt_lock_give(&self->lock);
}

void tt_async_order_wait(struct tt_async_order *self, int32_t stream, const uint64_t *clock) {
    tt_lock_take(&self->lock);
    join(self, clock_of(self, stream), clock);
    tt_lock_give(&self->lock);
}

void tt_async_order_host_waited(struct tt_async_order *self, const uint64_t *clock) {
    tt_lock_take(&self->lock);
    join(self, self->host, clock);
    /* All later submissions come after these. */
    int32_t left = 0;
    for (int32_t i = 0; i < self->kept_count; i++)
        if (!is_before(&self->kept[i], self->host))
            self->kept[left++] = self->kept[i];
    self->kept_count = left;
    tt_lock_give(&self->lock);
}

void tt_async_order_host_access(struct tt_async_order *self, const char *name,
                                const struct tt_async_range *range) {
    tt_lock_take(&self->lock);
    struct access access = access_of(range, HOST, 0, name);
    compare(self, &access, self->host);
    tt_lock_give(&self->lock);
}

void tt_async_order_clear(struct tt_async_order *self) {
    tt_lock_take(&self->lock);
    self->kept_count = 0;
    tt_lock_give(&self->lock);
}

int64_t tt_async_order_conflicts(struct tt_async_order *self) {
    tt_lock_take(&self->lock);
    int64_t conflicts = self->conflicts;
    tt_lock_give(&self->lock);
    return conflicts;
}

int64_t tt_async_order_forgotten(struct tt_async_order *self) {
    tt_lock_take(&self->lock);
    int64_t forgotten = self->forgotten;
    tt_lock_give(&self->lock);
    return forgotten;
}
