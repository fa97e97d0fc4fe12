#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 65536 };

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)                    ? "a directory"
           : S_ISFIFO(mode)                 ? "a FIFO"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "something else";
}

static enum tt_err fail(const char *path, int number, struct tt_error *why) {
    return tt_fail(number == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why, "%s: %s", path,
                   strerror(number));
}

enum tt_err tt_regular_file_open(const char *path, int *out_descriptor, struct tt_error *why) {
    struct stat status;
    /* Before the open, because opening a device may do something; after it, because the file may be
     * exchanged in between. */
    if (stat(path, &status) != 0)
        return fail(path, errno, why);
    int descriptor = -1;
    if (S_ISREG(status.st_mode)) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (descriptor < 0 || fstat(descriptor, &status) != 0) {
            int number = errno;
            if (descriptor >= 0)
                close(descriptor);
            return fail(path, number, why);
        }
    }
    if (!S_ISREG(status.st_mode)) {
        if (descriptor >= 0)
            close(descriptor);
        return tt_fail(TT_ERR_INVALID, why, "%s: not a regular file, but %s", path,
                       kind_of(status.st_mode));
    }
    *out_descriptor = descriptor;
    return TT_OK;
}

enum tt_err tt_regular_file_read(const char *path, size_t limit_bytes, struct tt_text *out_text,
                                 struct tt_error *why) {
    int descriptor;
    enum tt_err err = tt_regular_file_open(path, &descriptor, why);
    if (err)
        return err;
    struct tt_text text;
    tt_text_init(&text);
    ssize_t got = 1;
    while (!err && got > 0) {
        char *to = tt_text_reserve(&text, PIECE_BYTES);
        if (!to) {
            err = tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory while reading", path);
            break;
        }
        got = read(descriptor, to, PIECE_BYTES);
        if (got < 0) {
            err = fail(path, errno, why);
            break;
        }
        text.length += (size_t)got;
        to[got] = '\0';
        if (text.length > limit_bytes)
            err = tt_fail(TT_ERR_INVALID, why, "%s: larger than the limit of %zu bytes", path,
                          limit_bytes);
    }
    close(descriptor);
    if (err) {
        tt_text_fini(&text);
        return err;
    }
    *out_text = text;
    return TT_OK;
}
