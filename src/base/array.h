/* An array that grows: at least doubled, what is new all zero. */
#ifndef TT_BASE_ARRAY_H
#define TT_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for `count` elements of `size` bytes. False: no memory; then nothing changed. */
bool tt_array_reserve(void **array, int64_t *capacity, int64_t count, size_t size);

#endif
