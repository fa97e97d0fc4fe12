/* Cache lines: memory that begins with one, and lines fetched before they are needed.
 *
 * Between two turns of the scheduler a device has run, often on the same processor, and has evicted
 * megabytes from the caches. A turn then mainly costs the lines that it touches. So a structure
 * that every turn uses has what the turn needs in one line, at the beginning of its memory, and a
 * loop over many such structures fetches some ahead. All functions are inline; there is no .c file.
 */
#ifndef TT_BASE_LINE_H
#define TT_BASE_LINE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TT_LINE_BYTES = 64 };

static inline size_t tt_line_up(size_t bytes) {
    return (bytes + TT_LINE_BYTES - 1) & ~(size_t)(TT_LINE_BYTES - 1);
}
/* Uninitialised bytes, aligned to a line; NULL: out of memory. Freed by free(). Of a large block
 * only touched pages take memory. */
static inline void *tt_line_room(size_t bytes) {
    return aligned_alloc(TT_LINE_BYTES, tt_line_up(bytes));
}
/* The same, zeroed. */
static inline void *tt_line_alloc(size_t bytes) {
    void *made = tt_line_room(bytes);
    return made ? memset(made, 0, bytes) : NULL;
}
/* Fetches the line at `at`. Any address is legal. */
static inline void tt_line_fetch(const void *at) { __builtin_prefetch(at); }
/* Fetches all lines of `bytes` bytes. */
static inline void tt_line_fetch_all(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += TT_LINE_BYTES)
        tt_line_fetch((const char *)from + at);
}

#endif
