#include "base/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum tt_err tt_durable_close(FILE *take_file) {
    int error = fflush(take_file) != 0 || fsync(fileno(take_file)) != 0 ? errno : 0;
    if (error == EINVAL || error == EROFS) /* a pipe or a device has nothing to bring out */
        error = 0;
    if (fclose(take_file) != 0 && !error)
        error = errno;
    errno = error;
    return error ? TT_ERR_IO : TT_OK;
}

enum tt_err tt_durable_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return TT_ERR_IO;
    int error = fsync(fd) != 0 ? errno : 0;
    close(fd);
    errno = error;
    return error && error != EINVAL ? TT_ERR_IO : TT_OK; /* EINVAL: the file system cannot */
}

void tt_durable_entry(const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof(parent))
        return;
    memcpy(parent, path, length);
    parent[length] = '\0';
    (void)!tt_durable_directory(length ? parent : slash ? "/" : ".");
}

enum tt_err tt_durable_rename(const char *from, const char *to) {
    if (rename(from, to) != 0)
        return TT_ERR_IO;
    /* The new content is there by its name; at worst a loss of power brings the old one back. */
    tt_durable_entry(to);
    return TT_OK;
}

static void forget(struct tt_durable_out *self) {
    free(self->target);
    free(self->temporary);
    *self = (struct tt_durable_out){.file = NULL};
}

enum tt_err tt_durable_begin(struct tt_durable_out *out, const char *path, struct tt_error *why) {
    struct stat status;
    bool is_there = stat(path, &status) == 0;
    *out = (struct tt_durable_out){.path = path};
    if (!is_there || S_ISREG(status.st_mode)) {
        out->target = is_there ? realpath(path, NULL) : strdup(path);
        if (out->target && asprintf(&out->temporary, "%s.%ld.tmp", out->target, (long)getpid()) < 0)
            out->temporary = NULL;
        if (!out->temporary) {
            forget(out);
            return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
        }
    }
    out->file = fopen(out->temporary ? out->temporary : path, "wbe");
    if (out->file)
        return TT_OK;
    int error = errno;
    forget(out);
    return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(error));
}

enum tt_err tt_durable_end(struct tt_durable_out *self, enum tt_err err, struct tt_error *why) {
    if (!self->file)
        return err;
    int error = ferror(self->file) ? EIO : 0; /* the close has a better reason, mostly */
    if (tt_durable_close(self->file))
        error = errno;
    if (!error && !err && self->temporary && tt_durable_rename(self->temporary, self->target))
        error = errno;
    if (self->temporary && (error || err))
        unlink(self->temporary);
    if (error && !err)
        err =
            tt_fail(TT_ERR_IO, why, "%s: it could not be written: %s", self->path, strerror(error));
    forget(self);
    return err;
}
