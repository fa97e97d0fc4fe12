/* Sorts numbers, for medians and percentiles. Implemented in sort.c. */
#ifndef TT_BASE_SORT_H
#define TT_BASE_SORT_H

#include <stdint.h>

/* Ascending. */
void tt_sort_int64(int64_t *values, int32_t count);

#endif
