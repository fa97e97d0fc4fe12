#include "control/override_files.h"

#include "base/clock.h"
#include "base/instant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_DIRECTORIES = 8, LEFT_AFTER_S = 60 };

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void remove_tree(const char *path) {
    nftw(path, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
}

void tt_override_files_remove(struct tt_override_files *take_files) {
    if (!take_files)
        return;
    if (take_files->repository)
        remove_tree(take_files->repository);
    if (take_files->fd >= 0)
        close(take_files->fd);
    free(take_files->repository);
    free(take_files);
}

/* ---- what was left behind ---- */

static const char prefix[] = "tutti-load-", pattern[] = "XXXXXX";

static const char *temporary_directory(void) {
    const char *named = getenv("TMPDIR");
    return named ? named : "/tmp";
}

/* Where a file system has no locks, nothing is locked, and nothing is removed. */
static int open_locked(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A new one is not locked at once, so it gets a minute. */
static bool is_abandoned(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_uid == geteuid() &&
           tt_clock_wall() / TT_S - found.st_mtim.tv_sec > LEFT_AFTER_S;
}

static void sweep_one(const char *directory, const char *name) {
    char *path;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 ||
        strlen(name) != sizeof(prefix) - 1 + sizeof(pattern) - 1 ||
        asprintf(&path, "%s/%s", directory, name) < 0)
        return;
    int fd = open_locked(path);
    if (fd >= 0 && is_abandoned(fd))
        remove_tree(path);
    if (fd >= 0)
        close(fd);
    free(path);
}

void tt_override_files_sweep(void) {
    const char *directory = temporary_directory();
    DIR *entries = opendir(directory);
    if (!entries)
        return;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        sweep_one(directory, entry->d_name);
    closedir(entries);
}

/* ---- writing ---- */

/* Accepts <version>/<name> and deeper directories; rejects paths that leave the directory. */
static bool path_ok(const char *path) {
    size_t digits = strspn(path, "0123456789");
    if (digits == 0 || digits > 18 || path[digits] != '/' || strlen(path) > 512)
        return false;
    for (const char *part = path + digits; part; part = strchr(part + 1, '/'))
        if (part[1] == '.' || part[1] == '/' || part[1] == '\0' ||
            strcspn(part + 1, "/") > TT_REPOSITORY_NAME_BYTES)
            return false;
    return true;
}

/* Whether a file cannot be written because of its path: it is also the directory of another file,
 * or stands twice. */
static bool is_of_path(int error) {
    return error == ENOTDIR || error == EISDIR || error == EEXIST || error == ENAMETOOLONG;
}

static enum tt_err write_file(const char *base, const struct tt_model_file *file,
                              struct tt_error *why) {
    char *path;
    if (asprintf(&path, "%s/%s", base, file->path) < 0)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    bool good = true;
    for (char *slash = path + strlen(base) + 1; good && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        good = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    FILE *to = good ? fopen(path, "wx") : NULL;
    good = to && fwrite(file->bytes, 1, file->size_bytes, to) == file->size_bytes;
    int saved = errno;
    if (to && fclose(to) != 0) {
        saved = errno;
        good = false;
    }
    enum tt_err err = good ? TT_OK
                      : is_of_path(saved)
                          ? tt_fail(TT_ERR_INVALID, why,
                                    "parameter 'file:%s': it does not fit the other files: %s",
                                    file->path, strerror(saved))
                          : tt_fail(TT_ERR_IO, why, "cannot write %s: %s", path, strerror(saved));
    free(path);
    return err;
}

enum tt_err tt_override_files_write(const struct tt_model_command *command,
                                    struct tt_override_files **out_files, struct tt_error *why) {
    for (int32_t i = 0; i < command->file_count; i++)
        if (!path_ok(command->files[i].path))
            return tt_fail(
                TT_ERR_INVALID, why,
                "parameter 'file:%s': the path must be <version>/<name>, each name of at most "
                "%d bytes",
                command->files[i].path, TT_REPOSITORY_NAME_BYTES);
    struct tt_override_files *files = calloc(1, sizeof(*files));
    char *base = NULL;
    if (!files ||
        asprintf(&files->repository, "%s/%s%s", temporary_directory(), prefix, pattern) < 0) {
        free(files);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    files->fd = -1;
    if (!mkdtemp(files->repository)) {
        enum tt_err err = tt_fail(TT_ERR_IO, why, "cannot make a directory %s: %s",
                                  files->repository, strerror(errno));
        free(files->repository);
        free(files);
        return err;
    }
    files->fd = open_locked(files->repository);
    enum tt_err err = TT_OK;
    if (asprintf(&base, "%s/%s", files->repository, command->name) < 0) {
        base = NULL;
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    } else if (mkdir(base, 0700) != 0) {
        err = tt_fail(TT_ERR_IO, why, "cannot make the directory %s: %s", base, strerror(errno));
    }
    for (int32_t i = 0; !err && i < command->file_count; i++)
        err = write_file(base, &command->files[i], why);
    free(base);
    if (err) {
        tt_override_files_remove(files);
        return err;
    }
    *out_files = files;
    return TT_OK;
}

enum tt_err tt_override_files_check(const struct tt_repository_model *model, struct tt_error *why) {
    if (!model->config || !model->config->engine || !model->config->engine->runs_programs)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "failed to load '%s': models of backend '%s' are programs, of which a client "
                   "brings neither files nor a configuration; they stand in the repository",
                   model->name, model->config->engine->name);
}
