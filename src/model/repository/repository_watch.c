/* Implements the part of repository.h that detects changes on disk. */
#include "model/repository/repository.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 8 }; /* levels of directories that are read below a model's */

static uint64_t mix(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
    return sum ^ sum >> 29;
}

/* Sums over the files, so that the order of the directory's entries does not matter. */
static uint64_t look(const char *path, int depth) {
    struct stat status;
    if (stat(path, &status) != 0)
        return 0;
    uint64_t sum = 1469598103934665603u;
    for (const char *at = path; *at; at++)
        sum = mix(sum, (unsigned char)*at);
    sum = mix(sum, (uint64_t)status.st_ino);
    if (!S_ISDIR(status.st_mode)) {
        sum = mix(sum, (uint64_t)status.st_size);
        sum = mix(sum, (uint64_t)status.st_mtim.tv_sec);
        return mix(sum, (uint64_t)status.st_mtim.tv_nsec);
    }
    DIR *directory = depth < MAX_DEPTH ? opendir(path) : NULL;
    uint64_t total = sum;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char *below;
        if (entry->d_name[0] == '.' || asprintf(&below, "%s/%s", path, entry->d_name) < 0)
            continue;
        total += look(below, depth + 1);
        free(below);
    }
    if (directory)
        closedir(directory);
    return total ? total : 1;
}

uint64_t tt_repository_fingerprint(const char *path, const char *name) {
    char *directory;
    if (!tt_repository_name_ok(name) || asprintf(&directory, "%s/%s", path, name) < 0)
        return 0;
    struct stat status;
    bool is = stat(directory, &status) == 0 && S_ISDIR(status.st_mode);
    uint64_t sum = is ? look(directory, 0) : 0;
    free(directory);
    return sum;
}

enum tt_err tt_repository_list(const char *path, tt_repository_list_fn *each, void *context,
                               struct tt_error *why) {
    DIR *directory = opendir(path);
    if (!directory)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why,
                       "model repository %s: %s", path, strerror(errno));
    enum tt_err err = TT_OK;
    for (struct dirent *entry; !err && (entry = readdir(directory));) {
        uint64_t fingerprint = tt_repository_fingerprint(path, entry->d_name);
        if (fingerprint)
            err = each(context, entry->d_name, fingerprint);
    }
    closedir(directory);
    return err;
}
