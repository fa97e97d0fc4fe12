/* How much memory this process may use: that of the machine, or less if it is in a memory group
 * (cgroup) with a limit, as in a container. Implemented in memory_size.c. */
#ifndef TT_BASE_MEMORY_SIZE_H
#define TT_BASE_MEMORY_SIZE_H

#include <stdint.h>

/* In bytes; > 0. */
int64_t tt_memory_usable(void);
/* The lowest limit of the group with this path ("/a/b") and of those above it, of the hierarchy
 * mounted at `root`, where each group states it in a file `name`. INT64_MAX: none is limited. */
int64_t tt_memory_group_limit(const char *root, const char *path, const char *name);

#endif
