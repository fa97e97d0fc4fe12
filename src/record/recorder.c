#include "record/recorder.h"

#include "base/clock.h"
#include "base/durable_file.h"
#include "base/threads/byte_ring.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "record/record_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define ROUND_NS (10 * TT_MS) /* how often the rings are emptied */
#define RETRY_NS TT_S         /* how often a failed disk is tried again */

struct tt_recorder_stream {
    struct tt_record_stream encoder;
    struct tt_byte_ring ring;
    uint32_t number;
    struct tt_flag left; /* its domain has no events any more */
    bool given_back;     /* the thread's: ring and encoder are freed */
    struct tt_recorder_stream *next;
};

enum writer_state {
    WRITING,
    FAILING, /* the disk is tried again at `retry_at` */
    FULL,    /* the file ended at its limit */
};

struct tt_recorder {
    int fd;
    char *path, *program;
    size_t ring_bytes;
    struct tt_lock lock; /* guards the list, to which domains are added */
    struct tt_recorder_stream *streams, **last;
    uint32_t stream_count;
    struct tt_counter bytes; /* whole blocks in the file */
    int64_t max_bytes;       /* of the file; 0: no limit */
    /* The thread's: */
    enum writer_state state;
    uint32_t introduced; /* streams that have a block in the file: numbers 0 .. introduced - 1 */
    int64_t retry_at;    /* while FAILING */
    char failure[256];   /* what failed last */
    int64_t lost_before; /* reported already */
    struct tt_eventcount eventcount;
    struct tt_flag stopping;
    pthread_t thread;
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

static void say(const struct tt_recorder *self, const char *line) {
    if (self->say)
        self->say(self->say_context, TT_LOG_WARNING, line);
}

/* The writer's legal moves. A file that has ended never continues. */
static void move(struct tt_recorder *self, enum writer_state to) {
    static const bool may[][3] = {
        [WRITING] = {[FAILING] = true, [FULL] = true},
        [FAILING] = {[WRITING] = true, [FAILING] = true, [FULL] = true},
        [FULL] = {false},
    };
    tt_assert(may[self->state][to]);
    self->state = to;
}

/* ---- the file ---- */

/* Writes all of the pieces after the whole blocks. On an errno it writes none of them. */
static int write_pieces(struct tt_recorder *self, struct iovec *pieces, int count) {
    off_t from = (off_t)tt_counter_get(&self->bytes), at = from;
    tt_assert(count >= 1);
    tt_assert(self->state != FULL);
    while (count > 0) {
        ssize_t written = pwritev(self->fd, pieces, count, at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            int failed = written < 0 ? errno : ENOSPC;
            /* Half a block would end the recording for a reader. */
            if (ftruncate(self->fd, from) != 0)
                return failed;
            return failed;
        }
        at += written;
        for (; count > 0 && (size_t)written >= pieces[0].iov_len; pieces++, count--)
            written -= (ssize_t)pieces[0].iov_len;
        tt_assert(count > 0 || written == 0);
        if (count > 0) {
            pieces[0].iov_base = (uint8_t *)pieces[0].iov_base + written;
            pieces[0].iov_len -= (size_t)written;
        }
    }
    tt_counter_add(&self->bytes, at - from);
    return 0;
}

/* 0, or an errno: what was written is not on the disk. */
static int sync_file(const struct tt_recorder *self) {
    int failed = fdatasync(self->fd) != 0 ? errno : 0;
    return failed == EINVAL || failed == EROFS ? 0 : failed; /* a pipe or a device */
}

static int write_header(struct tt_recorder *self) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint8_t header[TT_RECORDING_HEADER_BYTES] = {0};
    memcpy(header, TT_RECORDING_MAGIC, sizeof(TT_RECORDING_MAGIC) - 1);
    tt_put_u32(header + 8, TT_RECORDING_VERSION);
    tt_put_u64(header + 16, (uint64_t)((int64_t)wall.tv_sec * TT_S + wall.tv_nsec));
    tt_put_u64(header + 24, (uint64_t)tt_clock_now());
    tt_put_u32(header + TT_RECORDING_HEADER_BYTES - 4,
               (uint32_t)crc32(0, header, TT_RECORDING_HEADER_BYTES - 4));
    struct iovec piece = {header, sizeof(header)};
    return write_pieces(self, &piece, 1);
}

static int write_block(struct tt_recorder *self, uint32_t stream,
                       const struct tt_byte_piece payload[2]) {
    uint8_t head[TT_RECORDING_BLOCK_BYTES];
    /* What readers take for granted. */
    tt_assert(payload[0].count + payload[1].count <= TT_RECORDING_MAX_BLOCK_BYTES);
    tt_assert((stream >= TT_RECORDING_LIMIT_STREAM) == (payload[0].count + payload[1].count == 0));
    tt_assert(stream >= TT_RECORDING_LIMIT_STREAM || stream <= self->introduced);
    tt_put_u32(head, TT_RECORDING_BLOCK_MARK);
    tt_put_u32(head + 4, stream);
    tt_put_u32(head + 8, (uint32_t)(payload[0].count + payload[1].count));
    uLong crc = crc32(0, head, 12);
    struct iovec pieces[3] = {{head, sizeof(head)}};
    int count = 1;
    for (int i = 0; i < 2; i++) {
        if (payload[i].count == 0)
            continue;
        crc = crc32(crc, payload[i].bytes, (uInt)payload[i].count);
        pieces[count++] = (struct iovec){(void *)payload[i].bytes, payload[i].count};
    }
    tt_put_u32(head + 12, (uint32_t)crc);
    int failed = write_pieces(self, pieces, count);
    if (!failed && stream == self->introduced)
        self->introduced++;
    return failed;
}

/* ---- the thread ---- */

static void note_failure(struct tt_recorder *self, int failed) {
    char line[600];
    self->retry_at = tt_clock_now() + RETRY_NS;
    snprintf(self->failure, sizeof(self->failure), "%s", strerror(failed));
    enum writer_state before = self->state;
    move(self, FAILING);
    if (before == FAILING)
        return;
    snprintf(line, sizeof(line),
             "recording %s: %s after %" PRId64 " bytes; serving goes on, events are lost until it "
             "can be written again",
             self->path, self->failure, tt_counter_get(&self->bytes));
    say(self, line);
}

static void note_success(struct tt_recorder *self) {
    if (self->state != FAILING)
        return;
    move(self, WRITING);
    say(self, "recording goes on");
}

static void note_losses(struct tt_recorder *self) {
    int64_t lost = tt_recorder_stats(self).lost_events;
    tt_assert(lost >= self->lost_before);
    if (lost == self->lost_before)
        return;
    char line[600];
    snprintf(line, sizeof(line), "recording %s: %" PRId64 " events were lost, %" PRId64 " in all",
             self->path, lost - self->lost_before, lost);
    self->lost_before = lost;
    say(self, line);
}

/* Ends the recording where another block of `count` bytes would take it over its limit. Nothing is
 * lost of what it holds: it is whole up to there. An errno when the end could not be written. */
static int keep_limit(struct tt_recorder *self, size_t count) {
    int64_t bytes = tt_counter_get(&self->bytes);
    if (self->state == FULL || self->max_bytes == 0 ||
        bytes + (int64_t)count + (int64_t)2 * TT_RECORDING_BLOCK_BYTES <= self->max_bytes)
        return 0;
    int failed = write_block(self, TT_RECORDING_LIMIT_STREAM, (struct tt_byte_piece[2]){{0}, {0}});
    if (failed)
        return failed;
    move(self, FULL);
    char line[600];
    snprintf(line, sizeof(line),
             "recording %s: it ends here, at %" PRId64 " bytes, its limit; serving goes on",
             self->path, bytes);
    say(self, line);
    return 0;
}

/* A loss at the very end has no later event before which it could be recorded. */
static int write_last_gap(struct tt_recorder *self, const struct tt_recorder_stream *stream) {
    if (stream->encoder.gap == 0 || self->state == FULL)
        return 0;
    uint8_t gap[2 + TT_VARINT_BYTES] = {TT_RECORD_GAP, 0};
    size_t count = (size_t)(tt_varint_put(gap + 2, (uint64_t)stream->encoder.gap) - gap);
    struct tt_byte_piece pieces[2] = {{gap, count}, {NULL, 0}};
    return write_block(self, stream->number, pieces);
}

static void give_back(struct tt_recorder_stream *stream) {
    tt_assert(!stream->given_back);
    stream->given_back = true;
    tt_record_stream_fini(&stream->encoder);
    tt_byte_ring_fini(&stream->ring);
}

/* Writes what the ring has. Returns an errno on failure. */
static int empty_ring(struct tt_recorder *self, struct tt_recorder_stream *stream,
                      bool *out_wrote) {
    if (stream->given_back)
        return 0;
    bool left = tt_flag_is_raised(&stream->left); /* before the look: nothing comes after it */
    struct tt_byte_piece pieces[2];
    size_t count = tt_byte_ring_peek(&stream->ring, pieces);
    int failed = count > 0 ? keep_limit(self, count) : 0;
    if (count > 0 && !failed && self->state != FULL)
        failed = write_block(self, stream->number, pieces);
    if (failed)
        return failed;
    *out_wrote |= count > 0 && self->state != FULL;
    tt_byte_ring_take(&stream->ring, count);
    if (left)
        failed = write_last_gap(self, stream);
    if (left && !failed) {
        tt_assert(tt_byte_ring_peek(&stream->ring, pieces) == 0);
        give_back(stream);
    }
    return failed;
}

/* True: something was written, and there may be more. */
static bool empty_rings(struct tt_recorder *self) {
    tt_lock_take(&self->lock);
    struct tt_recorder_stream *stream = self->streams;
    tt_lock_give(&self->lock);
    bool wrote = false;
    while (stream) {
        int failed = empty_ring(self, stream, &wrote);
        if (failed) {
            note_failure(self, failed);
            return false;
        }
        tt_lock_take(&self->lock);
        stream = stream->next;
        tt_lock_give(&self->lock);
    }
    if (wrote)
        note_success(self);
    return wrote;
}

static void *recorder_main(void *context) {
    struct tt_recorder *self = context;
    pthread_setname_np(pthread_self(), "tutti-record");
    int64_t losses_at = 0;
    while (!tt_flag_is_raised(&self->stopping)) {
        int64_t now = tt_clock_now();
        if (self->state != FAILING || now >= self->retry_at)
            empty_rings(self);
        if (now >= losses_at) { /* at most a line a second */
            note_losses(self);
            losses_at = now + TT_S;
        }
        tt_eventcount_wait(&self->eventcount, now + ROUND_NS);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static void recorder_free(struct tt_recorder *self) {
    for (struct tt_recorder_stream *stream = self->streams, *next; stream; stream = next) {
        next = stream->next;
        if (!stream->given_back)
            give_back(stream);
        free(stream);
    }
    if (self->fd >= 0)
        close(self->fd);
    tt_lock_fini(&self->lock);
    free(self->path);
    free(self->program);
    free(self);
}

/* Empties a regular file that no other recorder has; others, such as pipes, are written as they
 * are. 0, or an errno: EWOULDBLOCK, another one has it. Where the file system has no locks, none is
 * taken. */
static int claim_file(int fd) {
    struct stat found;
    if (fstat(fd, &found) != 0)
        return errno;
    if (!S_ISREG(found.st_mode))
        return 0;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return errno;
    return ftruncate(fd, 0) == 0 ? 0 : errno;
}

static enum tt_err open_file(struct tt_recorder *self, struct tt_error *why) {
    self->fd = open(self->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    int failed = self->fd < 0 ? errno : claim_file(self->fd);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot record to %s: %s", self->path,
                       failed == EWOULDBLOCK ? "another server records to it; give another file"
                                             : strerror(failed));
    failed = write_header(self);
    failed = failed ? failed : sync_file(self);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot record to %s: %s", self->path, strerror(failed));
    tt_durable_entry(self->path);
    failed = pthread_create(&self->thread, NULL, recorder_main, self);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start the recorder's thread: %s", strerror(failed));
    return TT_OK;
}

enum tt_err tt_recorder_open(const struct tt_recorder_options *options,
                             struct tt_recorder **out_recorder, struct tt_error *why) {
    tt_assert(options->path != NULL);
    tt_assert(options->max_bytes >= 0);
    tt_assert(options->ring_bytes <= TT_RECORDING_MAX_BLOCK_BYTES / 2); /* it is rounded up */
    struct tt_recorder *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    self->fd = -1;
    self->path = strdup(options->path);
    self->program = strdup(options->program ? options->program : "");
    self->ring_bytes = options->ring_bytes ? options->ring_bytes : TT_RECORDER_RING_BYTES;
    self->max_bytes = options->max_bytes;
    self->last = &self->streams;
    self->say = options->say;
    self->say_context = options->say_context;
    tt_lock_init(&self->lock);
    tt_eventcount_init(&self->eventcount);
    enum tt_err err = self->path && self->program
                          ? open_file(self, why)
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    if (err) {
        recorder_free(self);
        return err;
    }
    *out_recorder = self;
    return TT_OK;
}

static bool put(void *context, const void *bytes, size_t count) {
    struct tt_recorder_stream *stream = context;
    return tt_byte_ring_put(&stream->ring, bytes, count);
}

/* Makes room for one more stream, whose encoder is not made yet. */
static enum tt_err new_stream(struct tt_recorder *self, struct tt_recorder_stream **out_stream,
                              struct tt_error *why) {
    tt_assert(!tt_flag_is_raised(&self->stopping));
    if (self->stream_count == TT_RECORDING_MAX_STREAMS)
        return tt_fail(TT_ERR_BUSY, why, "a recording holds at most %d domains and threads",
                       TT_RECORDING_MAX_STREAMS);
    struct tt_recorder_stream *stream = aligned_alloc(64, sizeof(*stream));
    if (!stream)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a recording");
    memset(stream, 0, sizeof(*stream));
    enum tt_err err = tt_byte_ring_init(&stream->ring, self->ring_bytes);
    if (err) {
        free(stream);
        return tt_fail(err, why, "out of memory for a recording");
    }
    *out_stream = stream;
    return TT_OK;
}

/* Its encoder was made, or failed with `err`. From now on its events are written. */
static enum tt_err list_stream(struct tt_recorder *self, struct tt_recorder_stream *take_stream,
                               enum tt_err err, struct tt_error *why) {
    struct tt_recorder_stream *stream = take_stream;
    if (!err && stream->encoder.gap > 0) { /* the description does not fit into the ring */
        tt_record_stream_fini(&stream->encoder);
        err = TT_ERR_NO_MEMORY;
    }
    if (err) {
        tt_byte_ring_fini(&stream->ring);
        free(stream);
        return tt_fail(err, why, "out of memory for a recording");
    }
    tt_lock_take(&self->lock);
    tt_assert(self->stream_count < TT_RECORDING_MAX_STREAMS);
    tt_assert(*self->last == NULL);
    stream->number = self->stream_count++;
    *self->last = stream;
    self->last = &stream->next;
    tt_lock_give(&self->lock);
    return TT_OK;
}

enum tt_err tt_recorder_add(struct tt_recorder *self, struct tt_mechanism *mechanism,
                            const struct tt_record_domain *domain,
                            struct tt_recorder_stream **out_stream, struct tt_error *why) {
    tt_assert(mechanism->arrivals == 0);
    struct tt_recorder_stream *stream;
    enum tt_err err = new_stream(self, &stream, why);
    if (err)
        return err;
    struct tt_record_domain full = *domain;
    full.program = self->program;
    struct tt_record_sink sink = {.context = stream, .put = put};
    err = tt_record_stream_init(&stream->encoder, &full, &sink, why);
    err = list_stream(self, stream, err, why);
    if (err)
        return err;
    tt_mechanism_observe(mechanism, &stream->encoder.observer);
    *out_stream = stream;
    return TT_OK;
}

enum tt_err tt_recorder_add_party(struct tt_recorder *self, const struct tt_recorder_stream *domain,
                                  const struct tt_record_party *party,
                                  struct tt_recorder_stream **out_stream,
                                  struct tt_turn_log **out_tape, struct tt_error *why) {
    tt_assert(!tt_flag_is_raised(&domain->left));
    tt_assert(domain->encoder.observer.observe != NULL); /* a domain's, no party's */
    struct tt_recorder_stream *stream;
    enum tt_err err = new_stream(self, &stream, why);
    if (err)
        return err;
    struct tt_record_party full = *party;
    full.domain = domain->number;
    struct tt_record_sink sink = {.context = stream, .put = put};
    err = tt_record_stream_init_party(&stream->encoder, &full, &sink, why);
    err = list_stream(self, stream, err, why);
    if (err)
        return err;
    *out_stream = stream;
    *out_tape = &stream->encoder.turn_log;
    return TT_OK;
}

void tt_recorder_leave(struct tt_recorder_stream *stream) {
    if (!stream)
        return;
    tt_assert(!tt_flag_is_raised(&stream->left));
    tt_flag_raise(&stream->left);
}

struct tt_recorder_stats tt_recorder_stats(struct tt_recorder *self) {
    struct tt_recorder_stats stats = {.bytes = tt_counter_get(&self->bytes)};
    tt_lock_take(&self->lock);
    for (struct tt_recorder_stream *stream = self->streams; stream; stream = stream->next)
        stats.lost_events += tt_counter_get(&stream->encoder.lost);
    tt_lock_give(&self->lock);
    return stats;
}

enum tt_err tt_recorder_close(struct tt_recorder *take_self, struct tt_error *why) {
    if (!take_self)
        return TT_OK;
    struct tt_recorder *self = take_self;
    tt_flag_raise(&self->stopping);
    tt_eventcount_notify(&self->eventcount);
    pthread_join(self->thread, NULL);
    for (struct tt_recorder_stream *stream = self->streams; stream; stream = stream->next)
        tt_flag_raise(&stream->left);
    if (self->state == FAILING)
        move(self, WRITING); /* a last try */
    empty_rings(self);
    for (struct tt_recorder_stream *stream = self->streams; stream; stream = stream->next)
        tt_assert(stream->given_back || self->state == FAILING);
    int failed = 0;
    if (self->state == WRITING)
        failed = write_block(self, TT_RECORDING_END_STREAM, (struct tt_byte_piece[2]){{0}, {0}});
    if (!failed && self->state != FAILING)
        failed = sync_file(self);
    if (failed && self->state != FULL)
        note_failure(self, failed);
    struct tt_recorder_stats stats = tt_recorder_stats(self);
    enum tt_err err = TT_OK;
    if (self->state == FAILING)
        err = tt_fail(TT_ERR_IO, why, "the recording %s ends early, at %" PRId64 " bytes: %s",
                      self->path, stats.bytes, self->failure);
    else if (stats.lost_events > 0 && self->state != FULL)
        err = tt_fail(TT_ERR_IO, why, "the recording %s has gaps: %" PRId64 " events were lost",
                      self->path, stats.lost_events);
    recorder_free(self);
    return err;
}
