#include "profile/machine.h"

#include <errno.h>
#include <ftw.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPEN_FOLDERS = 16 };

char *tt_machine_processor(char *out, size_t capacity) {
    snprintf(out, capacity, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, capacity, "%s", colon[1] ? colon + 2 : "");
            break;
        }
    }
    if (file)
        fclose(file);
    return out;
}

char *tt_machine_device(char *out, size_t capacity) {
    char processor[256];
    snprintf(out, capacity, "%s, one thread", tt_machine_processor(processor, sizeof(processor)));
    return out;
}

char *tt_machine_date(char *out, size_t capacity) {
    time_t seconds = time(NULL);
    struct tm day;
    if (strftime(out, capacity, "%Y-%m-%d", gmtime_r(&seconds, &day)) == 0)
        out[0] = '\0';
    return out;
}

/* A line "NAME:  123 kB" of /proc/self/status, in bytes; 0: there is none. */
static int64_t status_bytes(const char *name) {
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    size_t length = strlen(name);
    long long kib = 0;
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %lld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

int64_t tt_machine_peak_memory(void) { return status_bytes("VmHWM"); }

int64_t tt_machine_resident_memory(void) { return status_bytes("VmRSS"); }

int64_t tt_machine_private_memory(void) { return status_bytes("RssAnon"); }

void tt_machine_forget_peak_memory(void) {
    malloc_trim(0); /* freed memory must not count */
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file)
        return;
    fputs("5", file); /* proc(5): resets the peak to what is resident now */
    fclose(file);
}

enum tt_err tt_machine_scratch(char *out_path, size_t capacity, struct tt_error *why) {
    const char *parent = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof(path), "%s/tutti-XXXXXX", parent && *parent ? parent : "/tmp");
    if (strlen(path) >= capacity || !mkdtemp(path))
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    memcpy(out_path, path, strlen(path) + 1);
    return TT_OK;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void tt_machine_remove(const char *folder) {
    (void)nftw(folder, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}
