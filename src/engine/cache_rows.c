#include "engine/cache_rows.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 }; /* where the system's pages are larger, it refuses, and bytes are written */

static const char zeros[PAGE];

void tt_cache_row_clear(char *row, size_t bytes) {
    size_t head = (PAGE - (uintptr_t)row % PAGE) % PAGE; /* up to the first whole page */
    size_t whole = bytes > head ? (bytes - head) / PAGE * PAGE : 0;
    if (bytes < TT_CACHE_PAGED_BYTES || madvise(row + head, whole, MADV_DONTNEED) != 0) {
        memset(row, 0, bytes);
        return;
    }
    memset(row, 0, head);
    memset(row + head + whole, 0, bytes - head - whole);
}

void tt_cache_row_copy(char *to, const char *from, size_t bytes) {
    if (bytes < TT_CACHE_PAGED_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    tt_cache_row_clear(to, bytes);
    /* Pieces end where pages of the copy do. */
    size_t part = PAGE - (uintptr_t)to % PAGE;
    for (size_t at = 0; at < bytes; at += part, part = PAGE) {
        part = part < bytes - at ? part : bytes - at;
        if (memcmp(from + at, zeros, part) != 0)
            memcpy(to + at, from + at, part);
    }
}
