#include "slicer/stage_folders.h"

#include "base/err.h"
#include "profile/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DAY_S = 24 * 3600, KEY_DIGITS = 16, MAX_LOOKED_AT = 4096 };

struct folder {
    char name[256];
    int64_t used_s; /* wall clock, as in the file system */
};

void tt_stage_folders_used(const char *directory) {
    int failed = utimensat(AT_FDCWD, directory, NULL, 0);
    (void)failed; /* read-only: it is not pruned either */
}

/* Only "stages-0123456789abcdef", with or without ".part-PID", may be removed. */
static bool is_ours(const char *name, bool *out_part) {
    static const char prefix[] = "stages-";
    size_t length = sizeof(prefix) - 1;
    if (strncmp(name, prefix, length) != 0 ||
        strspn(name + length, "0123456789abcdef") != KEY_DIGITS)
        return false;
    const char *rest = name + length + KEY_DIGITS;
    *out_part = strncmp(rest, ".part-", 6) == 0;
    return *rest == '\0' || *out_part;
}

static int last_used_first(const void *a, const void *b) {
    const struct folder *x = a, *y = b;
    return (x->used_s < y->used_s) - (x->used_s > y->used_s);
}

static void throw_away(const char *home, const char *name) {
    char path[4096];
    bool part;
    tt_assert(is_ours(name, &part));
    snprintf(path, sizeof(path), "%s/%s", home, name);
    tt_machine_remove(path);
}

/* Lists the finished cuts in `home`; removes parts that are too old. */
static int32_t look(DIR *opened, const char *home, int64_t now_s, struct folder *folders,
                    int32_t *removed) {
    int32_t count = 0;
    struct dirent *entry;
    while (count < MAX_LOOKED_AT && (entry = readdir(opened))) {
        bool part;
        struct stat status;
        if (!is_ours(entry->d_name, &part) ||
            fstatat(dirfd(opened), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISDIR(status.st_mode))
            continue;
        if (!part) {
            struct folder *folder = &folders[count++];
            snprintf(folder->name, sizeof(folder->name), "%s", entry->d_name);
            folder->used_s = status.st_mtim.tv_sec;
        } else if (now_s - status.st_mtim.tv_sec > DAY_S) {
            throw_away(home, entry->d_name);
            ++*removed;
        }
    }
    return count;
}

int32_t tt_stage_folders_prune(const char *home, const char *keep, int32_t most) {
    tt_assert(most >= 0);
    DIR *opened = opendir(home);
    struct folder *folders = calloc(MAX_LOOKED_AT, sizeof(*folders));
    int32_t removed = 0, kept = 0;
    if (opened && folders) {
        int64_t now_s = time(NULL);
        int32_t count = look(opened, home, now_s, folders, &removed);
        qsort(folders, (size_t)count, sizeof(*folders), last_used_first);
        if (keep)
            kept = 1;
        for (int32_t i = 0; i < count; i++) {
            bool old = now_s - folders[i].used_s > (int64_t)TT_STAGE_FOLDERS_UNUSED_DAYS * DAY_S;
            if (keep && strcmp(folders[i].name, keep) == 0)
                continue;
            if (!old && (most == 0 || kept < most)) {
                kept++;
                continue;
            }
            tt_assert(old || kept == most);
            throw_away(home, folders[i].name);
            removed++;
        }
    }
    free(folders);
    if (opened)
        closedir(opened);
    return removed;
}
