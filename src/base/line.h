/* Cache lines: memory that begins with one, and lines fetched before they are needed.
 *
 * Between two visits of the scheduler a device has run, often on the same processor, and swept
 * megabytes through the caches. What a visit costs is then mostly the lines that it touches: a
 * structure that every visit comes to has what it needs of it in one line, which begins where the
 * memory does, and who walks over many such structures fetches some ahead of those at hand. */
#ifndef TT_BASE_LINE_H
#define TT_BASE_LINE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TT_LINE_BYTES = 64 };

static inline size_t tt_line_up(size_t bytes) {
    return (bytes + TT_LINE_BYTES - 1) & ~(size_t)(TT_LINE_BYTES - 1);
}
/* Bytes of any content, from the beginning of a line on; NULL: out of memory. To be freed by
 * free(). Of a large piece only the pages that are touched take memory. */
static inline void *tt_line_room(size_t bytes) {
    return aligned_alloc(TT_LINE_BYTES, tt_line_up(bytes));
}
/* So zeroed bytes. */
static inline void *tt_line_alloc(size_t bytes) {
    void *made = tt_line_room(bytes);
    return made ? memset(made, 0, bytes) : NULL;
}
/* The line will be needed soon. Any address is allowed. */
static inline void tt_line_fetch(const void *at) { __builtin_prefetch(at); }
/* So all lines of so many bytes. */
static inline void tt_line_fetch_all(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += TT_LINE_BYTES)
        tt_line_fetch((const char *)from + at);
}

#endif
