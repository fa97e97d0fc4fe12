/* Files of other people's folders: opened only if they are regular files. A FIFO or a device in
 * their place would block the reader, for ever if no one writes. Opening never blocks. Implemented
 * in regular_file.c. */
#ifndef TT_BASE_REGULAR_FILE_H
#define TT_BASE_REGULAR_FILE_H

#include "base/err.h"
#include "base/text.h"

/* Opens it for reading; the caller closes the descriptor. Errors: NOT_FOUND, IO, INVALID (what it
 * is instead). */
TT_MUST_CHECK enum tt_err tt_regular_file_open(const char *path, int *out_descriptor,
                                               struct tt_error *why);
/* Reads the whole file. Errors: as above, and NO_MEMORY; over `limit_bytes`: INVALID. */
TT_MUST_CHECK enum tt_err tt_regular_file_read(const char *path, size_t limit_bytes,
                                               struct tt_text *out_text, struct tt_error *why);

#endif
