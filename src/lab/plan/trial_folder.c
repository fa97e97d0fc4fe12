#include "lab/plan/trial_folder.h"

#include "profile/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "tutti-plan-"
/* A younger folder may belong to a plan that has not locked it yet. */
enum { LEAST_AGE_S = 2 };

static const char *parent_path(void) {
    const char *parent = getenv("TMPDIR");
    return parent && *parent ? parent : "/tmp";
}

static int open_folder(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes the folder if no process holds it. */
static void remove_abandoned(const char *path) {
    struct stat status;
    int fd = open_folder(path);
    if (fd < 0)
        return;
    bool is_ours = fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                   time(NULL) - status.st_ctime >= LEAST_AGE_S;
    if (is_ours && flock(fd, LOCK_EX | LOCK_NB) == 0)
        tt_machine_remove(path);
    close(fd);
}

static void remove_all_abandoned(void) {
    const char *parent = parent_path();
    DIR *entries = opendir(parent);
    struct dirent *entry;
    char path[4096];
    while (entries && (entry = readdir(entries)))
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name) < (int)sizeof(path))
            remove_abandoned(path);
    if (entries)
        closedir(entries);
}

enum tt_err tt_trial_folder_open(struct tt_trial_folder *self, struct tt_error *why) {
    remove_all_abandoned();
    char path[4096];
    snprintf(path, sizeof(path), "%s/" PREFIX "XXXXXX", parent_path());
    if (strlen(path) >= sizeof(self->path))
        return tt_fail(TT_ERR_IO, why, "%s: the path of TMPDIR is too long", path);
    if (!mkdtemp(path))
        return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    int lock = open_folder(path);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0) {
        enum tt_err err = tt_fail(TT_ERR_IO, why, "%s: cannot lock it: %s", path, strerror(errno));
        if (lock >= 0)
            close(lock);
        tt_machine_remove(path);
        return err;
    }
    memcpy(self->path, path, strlen(path) + 1);
    self->lock = lock;
    return TT_OK;
}

void tt_trial_folder_close(struct tt_trial_folder *self) {
    if (!self->path[0])
        return;
    tt_machine_remove(self->path);
    close(self->lock);
    *self = (struct tt_trial_folder){0};
}
