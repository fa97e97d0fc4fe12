/* Memory that the server shares with one Python process: an anonymous file, mapped by both.
 *
 * The process may let the file grow, but no one can make it shorter (seals), so a read within the
 * mapping never faults. The process can change the bytes at any time: a reader that depends on what
 * it has checked works on a copy.
 *
 * Life: _new() by the owner, a Python process's struct. A run that leaves outputs there lends it to
 * their results, each of which gives it back on any thread. It is used again when it is idle. After
 * _disown() the last result frees it. Implemented in python_buffer.c. */
#ifndef TT_ENGINE_PYTHON_PYTHON_BUFFER_H
#define TT_ENGINE_PYTHON_PYTHON_BUFFER_H

#include "base/err.h"
#include "base/threads/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_python_buffer {
    int fd;
    char *bytes; /* mapped; page-aligned */
    size_t mapped_bytes;
    struct tt_lock lock; /* guards the next two */
    int32_t result_count;
    bool is_owned;
};

/* At least that many bytes, all zero. Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err
tt_python_buffer_new(size_t size_bytes, struct tt_python_buffer **out_buffer, struct tt_error *why);
/* Drops the owner's reference. NULL-safe. */
void tt_python_buffer_disown(struct tt_python_buffer *take_buffer);
/* True: no result uses it. The owner. */
bool tt_python_buffer_is_idle(struct tt_python_buffer *self);
/* A result begins to use it. The owner. */
void tt_python_buffer_lend(struct tt_python_buffer *self);
/* A result ends to use it: `dispose` of struct tt_engine_result. Any thread. */
void tt_python_buffer_give_back(const void *context, void *buffer);
/* Maps the first `size_bytes` of a file that the process may have let grow. It is idle. Errors:
 * INVALID (the file is shorter), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_python_buffer_cover(struct tt_python_buffer *self, size_t size_bytes,
                                                 struct tt_error *why);

#endif
