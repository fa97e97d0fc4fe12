#include "record/recording_reader.h"

#include "base/instant.h"
#include "core/policy_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { DISK_PAGE_BYTES = 4096 }; /* pages of any system are multiples */

#define FARTHEST (TT_NEVER / 8) /* instants up to here leave room for sums */

/* ---- the file ---- */

uint32_t tt_recording_crc(const uint8_t *head, const void *payload, size_t payload_bytes) {
    return (uint32_t)crc32(crc32(0, head, 12), payload, (uInt)payload_bytes);
}

static enum tt_err wrong(const struct tt_recording *self, size_t offset, struct tt_error *why,
                         const char *what) {
    return tt_fail(TT_ERR_INVALID, why, "%s: offset %zu: %s", self->name, offset, what);
}

static enum tt_err read_header(struct tt_recording *self, struct tt_error *why) {
    const uint8_t *bytes = self->bytes;
    size_t magic = sizeof(TT_RECORDING_MAGIC) - 1;
    size_t seen = self->size_bytes < magic ? self->size_bytes : magic;
    if (seen == 0 || memcmp(bytes, TT_RECORDING_MAGIC, seen) != 0)
        return wrong(self, 0, why, "this is not a recording (tutti serve --record writes them)");
    if (self->size_bytes < TT_RECORDING_HEADER_BYTES)
        return wrong(self, self->size_bytes, why, "the file ends within its header");
    uint32_t version = tt_get_u32(bytes + 8);
    if (version < TT_RECORDING_OLDEST_VERSION || version > TT_RECORDING_VERSION)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: offset 8: a recording of version %u; this program reads versions %d to "
                       "%d",
                       self->name, version, TT_RECORDING_OLDEST_VERSION, TT_RECORDING_VERSION);
    if (crc32(0, bytes, TT_RECORDING_HEADER_BYTES - 4) !=
        tt_get_u32(bytes + TT_RECORDING_HEADER_BYTES - 4))
        return wrong(self, 0, why, "the header is damaged (its checksum does not hold)");
    self->unix_ns = (int64_t)tt_get_u64(bytes + 16);
    self->monotonic_ns = (int64_t)tt_get_u64(bytes + 24);
    return TT_OK;
}

/* After a crash of the machine a file may be longer than what was written. */
static bool only_zeros(const uint8_t *from, const uint8_t *end) {
    while (from < end && *from == 0)
        from++;
    return from == end;
}

/* Whether a part of the block that is wrong was never written: of a page of the file all is zero
 * from the block on. A page goes to the disk as it is at that moment, and pages in any order, so
 * whole blocks may follow. */
static bool is_torn(const struct tt_recording *self, size_t block, size_t bytes) {
    size_t end = block + bytes < self->size_bytes ? block + bytes : self->size_bytes;
    for (size_t from = block, to; from < end; from = to) {
        to = (from / DISK_PAGE_BYTES + 1) * DISK_PAGE_BYTES;
        to = to < self->size_bytes ? to : self->size_bytes;
        if (only_zeros(self->bytes + from, self->bytes + to))
            return true;
    }
    return false;
}

static bool is_whole(const uint8_t *block, size_t payload) {
    return tt_recording_crc(block, block + TT_RECORDING_BLOCK_BYTES, payload) ==
           tt_get_u32(block + 12);
}

static enum tt_err check_block(struct tt_recording *self, size_t at, size_t payload,
                               struct tt_error *why) {
    const uint8_t *block = self->bytes + at;
    if (!is_whole(block, payload))
        return wrong(self, at, why, "the block is damaged (its checksum does not hold)");
    uint32_t stream = tt_get_u32(block + 4);
    if (stream >= TT_RECORDING_LIMIT_STREAM && payload == 0) {
        self->complete = true;
        self->limited = stream == TT_RECORDING_LIMIT_STREAM;
    } else if (stream >= TT_RECORDING_MAX_STREAMS || stream > (uint32_t)self->stream_count)
        return wrong(self, at, why, "the block is of a domain that has not been introduced");
    else if (stream == (uint32_t)self->stream_count) {
        self->of_thread[stream] =
            payload > 0 && block[TT_RECORDING_BLOCK_BYTES] == TT_RECORD_THREAD;
        self->domain_count += !self->of_thread[stream];
        self->stream_count++;
    }
    return TT_OK;
}

static enum tt_err read_blocks(struct tt_recording *self, struct tt_error *why) {
    size_t at = TT_RECORDING_HEADER_BYTES;
    while (at < self->size_bytes) {
        const uint8_t *block = self->bytes + at;
        size_t left = self->size_bytes - at;
        if (self->complete)
            return wrong(self, at, why, "there are bytes after the end mark");
        if (left < TT_RECORDING_BLOCK_BYTES || only_zeros(block, block + left))
            break;
        if (tt_get_u32(block) != TT_RECORDING_BLOCK_MARK) {
            if (is_torn(self, at, TT_RECORDING_BLOCK_BYTES))
                break;
            return wrong(self, at, why, "no block begins where one should");
        }
        size_t payload = tt_get_u32(block + 8);
        if (payload > TT_RECORDING_MAX_BLOCK_BYTES)
            return wrong(self, at, why, "a block of more than 256 MiB");
        if (payload > left - TT_RECORDING_BLOCK_BYTES ||
            (!is_whole(block, payload) && is_torn(self, at, TT_RECORDING_BLOCK_BYTES + payload)))
            break;
        enum tt_err err = check_block(self, at, payload, why);
        if (err)
            return err;
        at += TT_RECORDING_BLOCK_BYTES + payload;
    }
    self->end_bytes = at;
    return TT_OK;
}

enum tt_err tt_recording_open_memory(const void *bytes, size_t size_bytes, const char *name,
                                     struct tt_recording *out_recording, struct tt_error *why) {
    struct tt_recording self = {.bytes = bytes,
                                .size_bytes = size_bytes,
                                .name = strdup(name),
                                .of_thread = calloc(TT_RECORDING_MAX_STREAMS, sizeof(bool))};
    enum tt_err err = self.name && self.of_thread ? read_header(&self, why)
                                                  : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err)
        err = read_blocks(&self, why);
    if (err) {
        free(self.name);
        free(self.of_thread);
        return err;
    }
    tt_recording_check(&self);
    *out_recording = self;
    return TT_OK;
}

static enum tt_err map(int fd, const char *path, const void **out_bytes, size_t *out_size,
                       struct tt_error *why) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return tt_fail(TT_ERR_INVALID, why, "%s: not a file", path);
    *out_size = (size_t)status.st_size;
    *out_bytes = "";
    if (status.st_size == 0)
        return TT_OK;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    *out_bytes = bytes;
    return TT_OK;
}

enum tt_err tt_recording_open(const char *path, struct tt_recording *out_recording,
                              struct tt_error *why) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why, "%s: %s", path,
                       strerror(errno));
    const void *bytes = NULL;
    size_t size = 0;
    enum tt_err err = map(fd, path, &bytes, &size, why);
    close(fd);
    if (err)
        return err;
    err = tt_recording_open_memory(bytes, size, path, out_recording, why);
    if (err && size > 0)
        munmap((void *)bytes, size);
    if (!err)
        out_recording->mapped = true;
    return err;
}

void tt_recording_close(struct tt_recording *self) {
    if (self->mapped && self->size_bytes > 0)
        munmap((void *)self->bytes, self->size_bytes);
    free(self->name);
    free(self->of_thread);
    *self = (struct tt_recording){0};
}

void tt_recording_check(const struct tt_recording *self) {
    int32_t domains = 0;
    tt_assert(self->end_bytes >= TT_RECORDING_HEADER_BYTES);
    tt_assert(self->end_bytes <= self->size_bytes);
    tt_assert(self->complete || !self->limited);
    tt_assert(self->stream_count >= 0);
    tt_assert(self->stream_count <= TT_RECORDING_MAX_STREAMS);
    for (int32_t s = 0; s < self->stream_count; s++)
        domains += !self->of_thread[s];
    tt_assert(domains == self->domain_count);
}

int32_t tt_recording_domain_stream(const struct tt_recording *self, int32_t domain) {
    int32_t stream = 0;
    tt_assert(domain >= 0 && domain < self->domain_count);
    for (;; stream++) {
        tt_assert(stream < self->stream_count);
        if (!self->of_thread[stream] && domain-- == 0)
            return stream;
    }
}

/* ---- a domain's events ---- */

enum tt_err tt_recording_cursor_init(struct tt_recording_cursor *self,
                                     const struct tt_recording *recording, int32_t stream,
                                     struct tt_error *why) {
    tt_assert(stream >= 0 && stream < recording->stream_count);
    *self = (struct tt_recording_cursor){.recording = recording,
                                         .stream = (uint32_t)stream,
                                         .next_block = TT_RECORDING_HEADER_BYTES};
    self->numbers = calloc(TT_PROFILE_MAX_BATCH, sizeof(*self->numbers));
    self->subgraphs = calloc(TT_PROFILE_MAX_BATCH, sizeof(*self->subgraphs));
    self->fates = calloc(TT_PROFILE_MAX_BATCH, sizeof(*self->fates));
    if (!self->numbers || !self->subgraphs || !self->fates) {
        tt_recording_cursor_fini(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    return TT_OK;
}

void tt_recording_cursor_fini(struct tt_recording_cursor *self) {
    free(self->numbers);
    free(self->subgraphs);
    free(self->fates);
    tt_record_cells_fini(&self->cells);
    self->subgraphs = NULL;
    self->numbers = NULL;
    self->fates = NULL;
}

static uint64_t number(struct tt_recording_cursor *self, const char *name) {
    uint64_t value = 0;
    if (!self->bad && !tt_varint_get(&self->at, self->end, &value))
        self->bad = name;
    return value;
}

/* A number from low to high, >= 0; low where it is not. */
static int64_t within(struct tt_recording_cursor *self, int64_t low, int64_t high,
                      const char *name) {
    uint64_t value = number(self, name);
    if (self->bad || value < (uint64_t)low || value > (uint64_t)high) {
        self->bad = self->bad ? self->bad : name;
        return low;
    }
    return (int64_t)value;
}

static int32_t small(struct tt_recording_cursor *self, int32_t low, int32_t high,
                     const char *name) {
    return (int32_t)within(self, low, high, name);
}

/* A signed number from -limit to limit; 0 if it is outside. */
static int64_t around(struct tt_recording_cursor *self, int64_t limit, const char *name) {
    int64_t value = tt_unzigzag(number(self, name));
    if (self->bad || value < -limit || value > limit) {
        self->bad = self->bad ? self->bad : name;
        return 0;
    }
    return value;
}

static int64_t request_by_age(struct tt_recording_cursor *self) {
    int64_t found = self->next_number - around(self, FARTHEST, "request");
    if (found < 0 && !self->bad)
        self->bad = "request";
    return found;
}

static void read_arrival(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    struct tt_arrival *arrival = &event->arrival;
    arrival->model = small(self, 0, INT32_MAX, "model");
    arrival->rows = small(self, 1, TT_PROFILE_MAX_BATCH, "rows");
    arrival->length = small(self, 0, INT32_MAX, "length");
    arrival->priority = (int32_t)around(self, INT32_MAX, "priority");
    uint64_t deadline = number(self, "deadline");
    arrival->deadline_at = TT_NEVER;
    if (deadline == 0 || self->bad)
        return;
    int64_t delta = tt_unzigzag(deadline - 1);
    if (delta < -FARTHEST || delta > FARTHEST)
        self->bad = "deadline";
    else
        arrival->deadline_at = event->now + delta;
}

static int64_t instant(struct tt_recording_cursor *self, int64_t now, const char *name) {
    uint64_t value = number(self, name);
    if (value == 0 || self->bad)
        return -1;
    int64_t delta = tt_unzigzag(value - 1);
    if (delta > now || delta < -FARTHEST) {
        self->bad = name;
        return -1;
    }
    return now - delta;
}

static void read_finished(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    event->index = small(self, 0, INT32_MAX, "executor");
    event->outcome = (enum tt_outcome)small(self, 0, TT_OUTCOME_FAILED, "outcome");
    event->last_step_done = (int32_t)around(self, INT32_MAX - 1, "last step");
    event->started_at = instant(self, event->now, "start");
    event->ended_at = instant(self, event->now, "end");
    event->fate_count = small(self, 0, TT_PROFILE_MAX_BATCH, "number of fates");
    for (int32_t i = 0; i < event->fate_count && !self->bad; i++) {
        struct tt_recorded_fate *fate = &self->fates[i];
        fate->item = small(self, 0, TT_PROFILE_MAX_BATCH - 1, "item");
        fate->fate = (enum tt_fate)small(self, 0, TT_FATE_FAILS, "fate");
        fate->jump = (int32_t)around(self, INT32_MAX, "jump");
        fate->round = small(self, 0, INT32_MAX / 2, "round");
    }
    event->fates = self->fates;
}

static void read_place(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    event->index = small(self, 0, INT32_MAX, "executor");
    event->model = small(self, 0, INT32_MAX, "model");
    event->first_step = small(self, 0, INT32_MAX, "first step");
    event->last_step = small(self, 0, INT32_MAX, "last step");
}

static void read_member(struct tt_recording_cursor *self, int32_t i, int64_t *expected) {
    self->numbers[i] = *expected - around(self, FARTHEST, "request");
    if (self->numbers[i] < 0 || self->numbers[i] > FARTHEST)
        self->bad = "request";
    *expected = self->numbers[i] + 1;
}

static void read_run(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    read_place(self, event);
    event->repeat = small(self, 1, INT32_MAX, "repeat");
    event->walk = (enum tt_task_walk)small(self, 0, TT_WALK_ONCE, "walk");
    event->length = small(self, 0, INT32_MAX, "length");
    event->start_at = event->now + around(self, FARTHEST, "start_at");
    event->count = small(self, 1, TT_PROFILE_MAX_BATCH, "number of requests");
    int64_t expected = self->next_number - 1;
    for (int32_t i = 0; i < event->count && !self->bad; i++)
        read_member(self, i, &expected);
    event->numbers = self->numbers;
}

static void read_run_cells(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    read_place(self, event);
    event->repeat = 1;
    event->walk = TT_WALK_ONCE;
    event->start_at = event->now + around(self, FARTHEST, "start_at");
    int32_t of_all = small(self, 0, TT_CELL_GRAPH_MAX_CELLS, "subgraph") - 1;
    event->count = small(self, 1, TT_PROFILE_MAX_BATCH, "number of cells");
    int64_t expected = self->next_number - 1;
    for (int32_t i = 0; i < event->count && !self->bad; i++) {
        read_member(self, i, &expected);
        self->subgraphs[i] =
            of_all < 0 ? small(self, 0, TT_CELL_GRAPH_MAX_CELLS, "subgraph") : of_all;
    }
    event->numbers = self->numbers;
    event->subgraphs = self->subgraphs;
}

static void read_cells(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    if (self->bad)
        return;
    event->cells = self->at;
    const char *what;
    enum tt_err err = tt_record_cells_get(&self->cells, &self->at, self->end, &what);
    if (err)
        self->bad =
            err == TT_ERR_NO_MEMORY ? "number of cells, for which there is no memory" : what;
    event->cells_bytes = (size_t)(self->at - event->cells);
    event->arrival.spec_count = self->cells.count;
    event->arrival.specs = self->cells.specs;
}

static void read_message(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    event->message_bytes = (size_t)within(self, 0, self->end - self->at, "size of the message");
    if (!self->bad && event->message_bytes > (size_t)(self->end - self->at))
        self->bad = "size of the message";
    if (self->bad)
        return;
    event->message = self->at;
    self->at += event->message_bytes;
}

static void read_fields(struct tt_recording_cursor *self, struct tt_recorded_event *event) {
    switch (event->kind) {
    case TT_RECORD_DOMAIN: read_message(self, event); return;
    case TT_RECORD_ARRIVED:
    case TT_RECORD_ARRIVED_CELLS:
        event->number = self->next_number + within(self, 0, FARTHEST, "request");
        if (event->number > FARTHEST)
            self->bad = "request";
        read_arrival(self, event);
        if (event->kind == TT_RECORD_ARRIVED_CELLS)
            read_cells(self, event);
        event->kind = TT_RECORD_ARRIVED;
        self->next_number = event->number + 1;
        return;
    case TT_RECORD_REFUSED: read_arrival(self, event); return;
    case TT_RECORD_REFUSED_CELLS:
        read_arrival(self, event);
        read_cells(self, event);
        event->kind = TT_RECORD_REFUSED;
        return;
    case TT_RECORD_READY:
        event->number = request_by_age(self);
        event->slot = (int32_t)around(self, INT32_MAX / 2, "slot");
        return;
    case TT_RECORD_CANCELLED: event->number = request_by_age(self); return;
    case TT_RECORD_RECEIVED:
        event->index = small(self, 0, INT32_MAX, "executor");
        event->received_at = instant(self, event->now, "arrival of a message");
        return;
    case TT_RECORD_FINISHED: read_finished(self, event); return;
    case TT_RECORD_MODEL:
        event->index = small(self, 0, INT32_MAX, "model");
        event->change = (enum tt_change)small(self, 0, TT_CHANGE_GONE, "change");
        if (event->change == TT_CHANGE_ADDED)
            read_message(self, event);
        return;
    case TT_RECORD_EXECUTOR:
        event->index = small(self, 0, INT32_MAX, "executor");
        event->change = (enum tt_change)small(self, 0, TT_CHANGE_MOVED, "change");
        event->device = small(self, 0, INT32_MAX, "device");
        return;
    case TT_RECORD_DECIDE: return;
    case TT_RECORD_RUN: read_run(self, event); return;
    case TT_RECORD_RUN_CELLS:
        read_run_cells(self, event);
        event->kind = TT_RECORD_RUN;
        return;
    case TT_RECORD_DROP:
        event->number = request_by_age(self);
        event->reason = (enum tt_drop_reason)small(self, 0, TT_DROP_WITHDRAWN, "reason");
        return;
    case TT_RECORD_YIELD:
    case TT_RECORD_ABORT: event->index = small(self, 0, INT32_MAX, "executor"); return;
    case TT_RECORD_THREAD:
        event->index = small(self, 0, TT_RECORDING_MAX_STREAMS - 1, "domain");
        event->party = small(self, 0, INT32_MAX, "party");
        event->count = small(self, 1, INT32_MAX, "number of parties");
        return;
    case TT_RECORD_TURN: read_message(self, event); return;
    case TT_RECORD_GAP: event->lost = within(self, 1, FARTHEST, "number of lost events"); return;
    }
    self->bad = "kind";
}

/* The first event of a stream says what it is: a thread's has turns and gaps, others have all other
 * events. */
static void check_place(struct tt_recording_cursor *self, const struct tt_recorded_event *event) {
    bool of_thread = self->recording->of_thread[self->stream];
    if (event->serial == 0) {
        if (event->kind != (of_thread ? TT_RECORD_THREAD : TT_RECORD_DOMAIN))
            self->bad = "place of the domain's description";
    } else if (event->kind == TT_RECORD_DOMAIN || event->kind == TT_RECORD_THREAD) {
        self->bad = "place of the domain's description";
    } else if (event->kind != TT_RECORD_GAP && (event->kind == TT_RECORD_TURN) != of_thread) {
        self->bad = "place, in a stream of the other sort";
    }
}

/* To the next block of this domain that has events. False: no more. */
static bool enter_block(struct tt_recording_cursor *self) {
    const struct tt_recording *recording = self->recording;
    tt_assert(self->at <= self->end);
    while (self->at == self->end) {
        if (self->next_block >= recording->end_bytes)
            return false;
        const uint8_t *block = recording->bytes + self->next_block;
        size_t payload = tt_get_u32(block + 8);
        self->next_block += TT_RECORDING_BLOCK_BYTES + payload;
        if (tt_get_u32(block + 4) != self->stream)
            continue;
        self->at = block + TT_RECORDING_BLOCK_BYTES;
        self->end = self->at + payload;
    }
    return true;
}

enum tt_err tt_recording_next(struct tt_recording_cursor *self,
                              const struct tt_recorded_event **out_event, struct tt_error *why) {
    if (!enter_block(self)) {
        *out_event = NULL;
        return TT_OK;
    }
    struct tt_recorded_event *event = &self->event;
    tt_assert(self->serial >= 0);
    tt_assert(self->now >= 0);
    *event = (struct tt_recorded_event){.serial = self->serial++,
                                        .offset = (size_t)(self->at - self->recording->bytes),
                                        .started_at = -1,
                                        .ended_at = -1};
    event->kind = (enum tt_record_kind) * self->at++;
    event->now = self->now + within(self, 0, FARTHEST, "time");
    if (event->now > FARTHEST)
        self->bad = "time";
    if (!self->bad)
        read_fields(self, event);
    if (!self->bad)
        check_place(self, event);
    if (self->bad)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: offset %zu: event %lld of stream %u is malformed: its %s",
                       self->recording->name, event->offset, (long long)event->serial, self->stream,
                       self->bad);
    tt_assert(event->now >= self->now);
    tt_assert(self->next_number >= 0);
    self->now = event->now;
    *out_event = event;
    return TT_OK;
}
