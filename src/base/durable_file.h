/* Files that survive the end of the process and the loss of power at any moment: a reader finds the
 * old content or the new one, never a part.
 *
 * The order is what matters: the new content is written beside the old file and is on the disk
 * (tt_durable_close) before it takes its name (tt_durable_rename), and the name is on the disk
 * before the caller goes on.
 *
 * Life of a struct tt_durable_out: _begin -> writes to its `file` -> _end, after which the content
 * has the name, or is gone. If the process is ended before, what it has written stays beside the
 * old file, as PATH.PID.tmp. Implemented in durable_file.c. */
#ifndef TT_BASE_DURABLE_FILE_H
#define TT_BASE_DURABLE_FILE_H

#include "base/err.h"

#include <stdio.h>

struct tt_durable_out {
    FILE *file;       /* NULL: none */
    const char *path; /* as given; borrowed */
    char *target;     /* without symbolic links */
    char *temporary;  /* NULL: no regular file is there, such as a pipe; it is written itself */
};

/* Begins the new content of the file at `path`, which is borrowed until _end. Errors, with the
 * path: IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_durable_begin(struct tt_durable_out *out, const char *path,
                                           struct tt_error *why);
/* Ends it. If all writes have worked, and `err` is OK, the content replaces the file; else what was
 * there stays. Errors: IO, with the path; `err`, whose sentence is the caller's. Legal without
 * _begin, of one that is zero-initialised. */
TT_MUST_CHECK enum tt_err tt_durable_end(struct tt_durable_out *self, enum tt_err err,
                                         struct tt_error *why);

/* Writes out and closes the file. Errors: IO (errno); it is closed. */
TT_MUST_CHECK enum tt_err tt_durable_close(FILE *take_file);
/* Brings the entries of a directory to the disk. Errors: IO (errno). */
TT_MUST_CHECK enum tt_err tt_durable_directory(const char *path);
/* Brings the entry of a file to the disk, where the file system can. */
void tt_durable_entry(const char *path);
/* Renames a file, or a directory whose files are on the disk, within a directory. Errors: IO
 * (errno): the rename failed. */
TT_MUST_CHECK enum tt_err tt_durable_rename(const char *from, const char *to);

#endif
