/* An array that grows: its capacity at least doubles, and new elements are zero. Implemented in
 * array.c. */
#ifndef TT_BASE_ARRAY_H
#define TT_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `count` elements of `size` bytes. False: out of memory, and nothing changed. */
bool tt_array_reserve(void **array, int64_t *capacity, int64_t count, size_t size);

/* The same for a typed array, whose capacity is an int64_t. */
#define TT_ARRAY_RESERVE(array, capacity, count)                                                   \
    ((count) <= *(capacity) ||                                                                     \
     tt_array_reserve((void **)&(array), capacity, count, sizeof(*(array))))

#endif
