#include "base/log/line_file.h"

#include "base/clock.h"
#include "base/threads/byte_ring.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_NS (20 * TT_MS) /* how often the ring is emptied */
#define RETRY_NS TT_S         /* how often a failed file is tried again; the close's patience */
enum {
    PIECE_BYTES = 4096, /* PIPE_BUF: a pipe that is ready takes as many without blocking */
    POLL_MS = 50,
};

/* One thread's way into the file. */
struct writer {
    struct tt_byte_ring ring;
    struct tt_counter dropped;
};

struct tt_line_file {
    struct writer *writers;
    int32_t writer_count;
    int32_t current; /* the thread's: whose lines it writes */
    struct tt_eventcount eventcount;
    struct tt_flag stopping;
    atomic_bool reopen; /* taken back by the thread */
    int fd;
    char *path; /* NULL: standard output */
    const char *name;
    bool failing;     /* the thread's */
    bool inside_line; /* the thread's: half of a line has been written */
    int64_t retry_at; /* the thread's, while failing */
    pthread_t thread;
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

static int open_path(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static const char *shown_path(const struct tt_line_file *self) {
    return self->path ? self->path : "standard output";
}

static void note_failure(struct tt_line_file *self, int failed) {
    char line[600];
    self->retry_at = tt_clock_now() + RETRY_NS;
    if (self->failing)
        return;
    self->failing = true;
    snprintf(line, sizeof(line),
             "%s %s: %s; serving continues, and lines are dropped until it can be written again",
             self->name, shown_path(self), strerror(failed));
    if (self->say)
        self->say(self->say_context, TT_LOG_WARNING, line);
}

static void note_success(struct tt_line_file *self) {
    char line[600];
    if (!self->failing)
        return;
    self->failing = false;
    snprintf(line, sizeof(line), "%s %s is written again", self->name, shown_path(self));
    if (self->say)
        self->say(self->say_context, TT_LOG_INFO, line);
}

/* Not within a line, half of which the old file has. */
static void open_again(struct tt_line_file *self) {
    if ((self->inside_line && !self->failing) || !self->path)
        return;
    atomic_store_explicit(&self->reopen, false, memory_order_relaxed);
    int fd = open_path(self->path);
    if (fd < 0) { /* the old one is kept, and the open is tried again */
        note_failure(self, errno);
        atomic_store_explicit(&self->reopen, true, memory_order_relaxed);
        return;
    }
    close(self->fd);
    self->fd = fd;
    note_success(self);
}

/* A ring with lines, and its first pieces; NULL: all are empty. A line that was begun comes first.
 */
static struct tt_byte_ring *find_lines(struct tt_line_file *self, struct tt_byte_piece pieces[2]) {
    for (int32_t tried = 0; tried < self->writer_count; tried++) {
        if (!self->inside_line)
            self->current = (self->current + 1) % self->writer_count;
        struct tt_byte_ring *ring = &self->writers[self->current].ring;
        if (tt_byte_ring_peek(ring, pieces) > 0)
            return ring;
    }
    return NULL;
}

/* Writes some of what the rings have. 0: as much as it could, or nothing was there; else an errno,
 * EAGAIN if the reader of a pipe is slow. */
static int write_some(struct tt_line_file *self, size_t *out_written) {
    struct tt_byte_piece pieces[2];
    *out_written = 0;
    struct tt_byte_ring *ring = find_lines(self, pieces);
    if (!ring)
        return 0;
    struct pollfd ready = {.fd = self->fd, .events = POLLOUT};
    if (poll(&ready, 1, POLL_MS) == 0)
        return EAGAIN;
    size_t count = pieces[0].count < PIECE_BYTES ? pieces[0].count : PIECE_BYTES;
    ssize_t written = write(self->fd, pieces[0].bytes, count);
    if (written < 0)
        return errno == EINTR ? EAGAIN : errno;
    if (written > 0)
        self->inside_line = pieces[0].bytes[written - 1] != '\n';
    *out_written = (size_t)written;
    tt_byte_ring_take(ring, (size_t)written);
    return 0;
}

static void empty_ring(struct tt_line_file *self) {
    size_t written;
    int failed;
    do
        failed = write_some(self, &written);
    while (!failed && written > 0);
    if (failed && failed != EAGAIN)
        note_failure(self, failed);
    else if (!failed && !atomic_load_explicit(&self->reopen, memory_order_relaxed))
        note_success(self);
}

static void *line_file_main(void *context) {
    struct tt_line_file *self = context;
    pthread_setname_np(pthread_self(), "tutti-lines");
    bool stopping = false;
    while (!stopping) {
        stopping = tt_flag_is_raised(&self->stopping); /* before the look: nothing comes after */
        int64_t now = tt_clock_now();
        if (!self->failing || now >= self->retry_at || stopping) {
            /* Lines that were put before the request go to the old file. */
            bool asked = atomic_load_explicit(&self->reopen, memory_order_acquire);
            empty_ring(self);
            if (asked)
                open_again(self);
        }
        if (!stopping)
            tt_eventcount_wait(&self->eventcount, now + ROUND_NS);
    }
    struct tt_byte_piece pieces[2];
    int64_t end_at = tt_clock_now() + RETRY_NS;
    while (!self->failing && find_lines(self, pieces) && tt_clock_now() < end_at)
        empty_ring(self); /* the reader of a pipe is slow */
    return NULL;
}

static void line_file_free(struct tt_line_file *self) {
    if (self->fd >= 0 && self->path)
        close(self->fd);
    for (int32_t i = 0; i < self->writer_count; i++)
        if (self->writers[i].ring.bytes)
            tt_byte_ring_fini(&self->writers[i].ring);
    free(self->writers);
    free(self->path);
    free(self);
}

/* All signals go to other threads; a pipe without a reader is an error of write(). */
static int start_thread(struct tt_line_file *self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&self->thread, NULL, line_file_main, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static enum tt_err open_writers(struct tt_line_file *self,
                                const struct tt_line_file_options *options) {
    int32_t count = options->writers > 0 ? options->writers : 1;
    size_t size = (size_t)count * sizeof(*self->writers);
    self->writers = aligned_alloc(64, size);
    if (!self->writers)
        return TT_ERR_NO_MEMORY;
    memset(self->writers, 0, size);
    self->writer_count = count;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; i < count && !err; i++)
        err = tt_byte_ring_init(&self->writers[i].ring, options->room_bytes);
    return err;
}

enum tt_err tt_line_file_open(const struct tt_line_file_options *options,
                              struct tt_line_file **out_file, struct tt_error *why) {
    struct tt_line_file *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for %s", options->name);
    bool is_path = strcmp(options->path, "-") != 0;
    self->fd = -1;
    self->name = options->name;
    self->say = options->say;
    self->say_context = options->say_context;
    atomic_init(&self->reopen, false);
    tt_eventcount_init(&self->eventcount);
    enum tt_err err = open_writers(self, options);
    if (!err && is_path && !(self->path = strdup(options->path)))
        err = TT_ERR_NO_MEMORY;
    if (err) {
        line_file_free(self);
        return tt_fail(err, why, "no memory for %s", options->name);
    }
    self->fd = is_path ? open_path(self->path) : STDOUT_FILENO;
    int failed = self->fd < 0 ? errno : start_thread(self);
    if (failed) {
        err = tt_fail(TT_ERR_IO, why, "cannot write %s to %s: %s", options->name, options->path,
                      strerror(failed));
        line_file_free(self);
        return err;
    }
    *out_file = self;
    return TT_OK;
}

void tt_line_file_put(struct tt_line_file *self, int32_t writer, const char *line, size_t count) {
    tt_assert(count > 0);
    tt_assert(writer >= 0 && writer < self->writer_count);
    if (!tt_byte_ring_put(&self->writers[writer].ring, line, count))
        tt_counter_add(&self->writers[writer].dropped, 1);
}

int64_t tt_line_file_dropped(const struct tt_line_file *self) {
    int64_t sum = 0;
    for (int32_t i = 0; i < self->writer_count; i++)
        sum += tt_counter_get(&self->writers[i].dropped);
    return sum;
}

void tt_line_file_reopen(struct tt_line_file *self) {
    atomic_store_explicit(&self->reopen, true, memory_order_release);
}

void tt_line_file_close(struct tt_line_file *take_self) {
    if (!take_self)
        return;
    tt_flag_raise(&take_self->stopping);
    tt_eventcount_notify(&take_self->eventcount);
    pthread_join(take_self->thread, NULL);
    line_file_free(take_self);
}
