#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 16 };

bool tt_array_reserve(void **array, int64_t *capacity, int64_t count, size_t size) {
    if (count <= *capacity)
        return true;
    int64_t wanted = count > 2 * *capacity ? count : 2 * *capacity;
    wanted = wanted > LEAST ? wanted : LEAST;
    char *grown = realloc(*array, (size_t)wanted * size);
    if (!grown)
        return false;
    memset(grown + (size_t)*capacity * size, 0, (size_t)(wanted - *capacity) * size);
    *array = grown;
    *capacity = wanted;
    return true;
}
