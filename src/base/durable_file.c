#include "base/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
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
