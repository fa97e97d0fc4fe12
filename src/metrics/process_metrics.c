#include "metrics/process_metrics.h"

#include "base/instant.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t as_ns(const struct timeval *time) {
    return time->tv_sec * TT_S + time->tv_usec * TT_US;
}

int64_t tt_process_cpu_ns(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return as_ns(&usage.ru_utime) + as_ns(&usage.ru_stime);
}

int64_t tt_process_resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    long long size = 0, resident = 0;
    int read = fscanf(file, "%lld %lld", &size, &resident);
    fclose(file);
    return read == 2 ? resident * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}

int64_t tt_process_open_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder itself */
}

int64_t tt_process_max_files(void) {
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    return (int64_t)files.rlim_cur;
}
