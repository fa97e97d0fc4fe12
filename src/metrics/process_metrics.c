#include "metrics/process_metrics.h"

#include "base/instant.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
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

/* proc(5): field 22 of stat, in ticks since the boot; its time is a line of /proc/stat. */
int64_t tt_process_started_ns(void) {
    char text[1024] = "", line[256];
    long long boot_s = 0, ticks = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (file) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    const char *at = strrchr(text, ')'); /* ends the program's name, which may contain spaces */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, "%lld", &ticks) != 1)
        return 0;
    file = fopen("/proc/stat", "re");
    while (file && boot_s == 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "btime %lld", &boot_s);
    if (file)
        fclose(file);
    int64_t per_second = sysconf(_SC_CLK_TCK);
    return boot_s > 0 && per_second > 0 ? boot_s * TT_S + ticks * (TT_S / per_second) : 0;
}

/* Column `index`, 0 or 1, of proc(5)'s statm. */
static int64_t memory_bytes(int index) {
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    long long pages[2] = {0, 0};
    int read = fscanf(file, "%lld %lld", &pages[0], &pages[1]);
    fclose(file);
    return read == 2 ? pages[index] * (int64_t)sysconf(_SC_PAGESIZE) : 0;
}

int64_t tt_process_virtual_bytes(void) { return memory_bytes(0); }

int64_t tt_process_resident_bytes(void) { return memory_bytes(1); }

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
