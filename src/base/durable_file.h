/* Files that survive the end of the process and the loss of power at any moment: a reader finds the
 * old content or the new one, never a part.
 *
 * The order is what matters: the new content is written beside the old file and is on the disk
 * (tt_durable_close) before it takes its name (tt_durable_rename), and the name is on the disk
 * before the caller goes on. Implemented in durable_file.c. */
#ifndef TT_BASE_DURABLE_FILE_H
#define TT_BASE_DURABLE_FILE_H

#include "base/err.h"

#include <stdio.h>

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
