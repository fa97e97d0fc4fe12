/* How many processors this process may use. The one place that asks the system. */
#ifndef TT_BASE_PROCESSORS_H
#define TT_BASE_PROCESSORS_H

#include <stdint.h>

/* The processors of the process's affinity mask, which taskset and cpuset cgroups narrow; >= 1. */
int32_t tt_processors_usable(void);

#endif
