/* A file of lines that a thread of its own writes: a thread that puts a line never waits for a
 * disk.
 *
 * Life: opened with a path ("-": standard output) and room for so many bytes per writer; the
 * writers, a thread each, put whole lines; a thread of the file writes them within some tens of
 * milliseconds to the end of the file, those of one writer in order. If the disk or the reader of a
 * pipe is slow, the room fills up, and lines are dropped and counted. If a write fails, `say` gets
 * one message, and the write is tried again every second. A request to reopen, as after a rotation,
 * is carried out between two lines. The close writes what is left, but waits at most a second for a
 * reader.
 *
 * It never reads a line, and never blocks a thread that puts. Implemented in line_file.c. */
#ifndef TT_BASE_LINE_FILE_H
#define TT_BASE_LINE_FILE_H

#include "base/err.h"
#include "base/log/log_settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_line_file_options {
    const char *path; /* created, or appended to; "-": standard output */
    const char *name; /* of the file, for messages: "the access log"; static */
    size_t
        room_bytes; /* of a writer's lines that are not written yet; rounded up to a power of two */
    int32_t writers; /* threads that put lines; 0: one */
    /* Messages for people, on the file's thread; may be NULL. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_line_file;

/* Opens the file and starts the thread. Errors: IO (with the path), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_line_file_open(const struct tt_line_file_options *options,
                                            struct tt_line_file **out_file, struct tt_error *why);
/* One line, with its newline, whole or not at all: dropped and counted if there is no room. Makes
 * no system call. One thread per `writer`, which counts from 0. */
void tt_line_file_put(struct tt_line_file *self, int32_t writer, const char *line, size_t count);
/* Lines that were dropped so far. Any thread. */
int64_t tt_line_file_dropped(const struct tt_line_file *self);
/* The path is opened again soon: a file that was moved away gets no further lines. Any thread, or a
 * signal handler. Does nothing to standard output. */
void tt_line_file_reopen(struct tt_line_file *self);
/* The writers have put their last lines. NULL-safe. */
void tt_line_file_close(struct tt_line_file *take_self);

#endif
