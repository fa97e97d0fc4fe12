#include "base/memory_size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* INT64_MAX: no such file, or it says "max". */
static int64_t limit_in(const char *path) {
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return INT64_MAX;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return end == text || errno || value <= 0 ? INT64_MAX : value;
}

int64_t tt_memory_group_limit(const char *root, const char *path, const char *name) {
    char group[PATH_BYTES], file[PATH_BYTES + 512];
    int64_t lowest = INT64_MAX;
    snprintf(group, sizeof(group), "%s", path);
    for (;;) {
        snprintf(file, sizeof(file), "%s%s/%s", root, strcmp(group, "/") == 0 ? "" : group, name);
        int64_t limit = limit_in(file);
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(group, '/');
        if (!slash)
            return lowest;
        *slash = '\0';
    }
}

/* Of the groups in /proc/self/cgroup: one of version 2 (an empty list of controllers), and one of
 * version 1 with the controller "memory". */
static int64_t group_limit(void) {
    char line[PATH_BYTES + 256];
    int64_t lowest = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        int64_t limit = INT64_MAX;
        if (controllers[1] == '\0')
            limit = tt_memory_group_limit("/sys/fs/cgroup", path, "memory.max");
        else if (strcmp(controllers + 1, "memory") == 0)
            limit = tt_memory_group_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        lowest = limit < lowest ? limit : lowest;
    }
    if (file)
        fclose(file);
    return lowest;
}

int64_t tt_memory_usable(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    int64_t machine = pages > 0 && page_bytes > 0 ? (int64_t)pages * page_bytes : INT64_MAX;
    int64_t group = group_limit();
    return group < machine ? group : machine;
}
