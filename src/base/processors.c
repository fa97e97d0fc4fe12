#include "base/processors.h"

#include <sched.h>
#include <stddef.h>
#include <unistd.h>

enum { MAX_PROCESSORS = 1 << 20 };

int32_t tt_processors_usable(void) {
    for (int most = 1024; most <= MAX_PROCESSORS; most *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)most);
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int failed = mask ? sched_getaffinity(0, bytes, mask) : -1;
        int count = failed ? 0 : CPU_COUNT_S(bytes, mask);
        if (mask)
            CPU_FREE(mask);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
}
