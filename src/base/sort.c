#include "base/sort.h"

#include "base/err.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void tt_sort_int64(int64_t *values, int32_t count) {
    tt_assert(count >= 0);
    if (count > 0)
        qsort(values, (size_t)count, sizeof(*values), compare);
}
