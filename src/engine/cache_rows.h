/* Rows of caches (engine/cell_set.h) that take memory by pages: only for what was written since
 * the row was cleared, however many places a row has. The system is the page table: kernels see one
 * range of addresses, and a page that was never written is the system's page of zeros.
 *
 * A row lies in a private anonymous mapping and need not begin with a page. Rows below
 * TT_CACHE_PAGED_BYTES are written as a whole, since two system calls cost more. Any thread, one
 * per row. Implemented in cache_rows.c. */
#ifndef TT_ENGINE_CACHE_ROWS_H
#define TT_ENGINE_CACHE_ROWS_H

#include <stddef.h>

enum { TT_CACHE_PAGED_BYTES = 1 << 17 };

/* Makes all bytes zero, and gives back the pages that lie in the row as a whole. */
void tt_cache_row_clear(char *row, size_t bytes);
/* Copies a row over another one; pages of zeros take no memory in the copy. */
void tt_cache_row_copy(char *to, const char *from, size_t bytes);

#endif
