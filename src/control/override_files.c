#include "control/override_files.h"

#include "model/repository/repository.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OPEN_DIRECTORIES = 8 };

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

void tt_override_files_remove(char *take_repository) {
    if (!take_repository)
        return;
    nftw(take_repository, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
    free(take_repository);
}

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

enum tt_err tt_override_files_write(const struct tt_model_command *command, char **out_repository,
                                    struct tt_error *why) {
    for (int32_t i = 0; i < command->file_count; i++)
        if (!path_ok(command->files[i].path))
            return tt_fail(
                TT_ERR_INVALID, why,
                "parameter 'file:%s': the path must be <version>/<name>, each name of at most "
                "%d bytes",
                command->files[i].path, TT_REPOSITORY_NAME_BYTES);
    const char *temporary = getenv("TMPDIR");
    char *repository, *base = NULL;
    if (asprintf(&repository, "%s/tutti-load-XXXXXX", temporary ? temporary : "/tmp") < 0)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!mkdtemp(repository)) {
        enum tt_err err =
            tt_fail(TT_ERR_IO, why, "cannot make a directory %s: %s", repository, strerror(errno));
        free(repository);
        return err;
    }
    enum tt_err err = TT_OK;
    if (asprintf(&base, "%s/%s", repository, command->name) < 0)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    else if (mkdir(base, 0700) != 0)
        err = tt_fail(TT_ERR_IO, why, "cannot make the directory %s: %s", base, strerror(errno));
    for (int32_t i = 0; !err && i < command->file_count; i++)
        err = write_file(base, &command->files[i], why);
    free(base);
    if (err) {
        tt_override_files_remove(repository);
        return err;
    }
    *out_repository = repository;
    return TT_OK;
}
