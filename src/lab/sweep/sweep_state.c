#include "lab/sweep/sweep_state.h"

#include "base/text.h"
#include "lab/scenario/allocate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FORMAT = 1 };
#define LIMIT_BYTES ((size_t)1 << 32)

static enum tt_err append(const struct tt_sweep_state *self, json_t *take_line,
                          struct tt_error *why) {
    char *text = take_line ? json_dumps(take_line, JSON_COMPACT) : NULL;
    json_decref(take_line);
    if (!text)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", self->path);
    size_t length = strlen(text), sent = 0;
    text[length++] = '\n'; /* replaces the NUL: the line is written by its length */
    while (sent < length) {
        ssize_t wrote = write(self->fd, text + sent, length - sent);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        sent += (size_t)wrote;
    }
    free(text);
    if (sent < length || fsync(self->fd) != 0)
        return tt_fail(TT_ERR_IO, why, "%s: cannot be written: %s", self->path, strerror(errno));
    return TT_OK;
}

static enum tt_err read_header(const struct tt_sweep_state *self, const json_t *line,
                               const char *identity, const char *kind, struct tt_error *why) {
    if (!line || json_integer_value(json_object_get(line, "tutti_sweep")) != FORMAT)
        return tt_fail(
            TT_ERR_INVALID, why,
            "%s:1: not the state of a sweep; name a new file, or one that --resume wrote",
            self->path);
    const char *made_by = json_string_value(json_object_get(line, "experiment"));
    const char *made_as = json_string_value(json_object_get(line, "kind"));
    if (!made_as || strcmp(made_as, kind) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:1: holds results of kind '%s', not '%s'; name "
                       "another file",
                       self->path, made_as ? made_as : "", kind);
    if (!made_by || strcmp(made_by, identity) != 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:1: belongs to another experiment (%s, this one is %s); name another "
                       "file, or undo what was changed",
                       self->path, made_by ? made_by : "", identity);
    return TT_OK;
}

static enum tt_err read_line(struct tt_sweep_state *self, int64_t number, const json_t *line,
                             struct tt_error *why) {
    const char *key = json_string_value(json_object_get(line, "key"));
    json_t *result = json_object_get(line, "result");
    if (!key || !json_is_object(result))
        return tt_fail(TT_ERR_INVALID, why,
                       "%s:%lld: not a finished point; take the line away, or name another file",
                       self->path, (long long)number);
    return json_object_set(self->known, key, result) == 0
               ? TT_OK
               : tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", self->path);
}

/* Reads whole lines, and truncates the file after the last of them. */
static enum tt_err read_lines(struct tt_sweep_state *self, const struct tt_text *text,
                              const char *identity, const char *kind, struct tt_error *why) {
    const char *at = tt_text_string(text), *end = at + text->length;
    enum tt_err err = TT_OK;
    for (int64_t number = 1; !err && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            break;
        json_t *line = json_loadb(at, (size_t)(stop - at), 0, NULL);
        err = number == 1 ? read_header(self, line, identity, kind, why)
                          : read_line(self, number, line, why);
        json_decref(line);
        at = stop + 1;
    }
    off_t whole = (off_t)(at - tt_text_string(text));
    bool foreign = whole == 0 && text->length > 0 && tt_text_string(text)[0] != '{';
    if (!err && foreign) /* a foreign file without a line end: do not truncate it */
        err = read_header(self, NULL, identity, kind, why);
    if (!err && at < end && ftruncate(self->fd, whole) != 0)
        err = tt_fail(TT_ERR_IO, why, "%s: %s", self->path, strerror(errno));
    if (!err && whole == 0)
        err = append(
            self,
            json_pack("{s:i,s:s,s:s}", "tutti_sweep", FORMAT, "experiment", identity, "kind", kind),
            why);
    return err;
}

enum tt_err tt_sweep_state_open(struct tt_sweep_state *self, const char *path, uint64_t identity,
                                const char *kind, struct tt_error *why) {
    *self = (struct tt_sweep_state){.path = tt_copy_text(path), .known = json_object(), .fd = -1};
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = TT_OK;
    self->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (self->fd < 0)
        err = tt_fail(errno == ENOENT || errno == EISDIR ? TT_ERR_NOT_FOUND : TT_ERR_IO, why,
                      "%s: %s", path, strerror(errno));
    else if (flock(self->fd, LOCK_EX | LOCK_NB) != 0)
        err = tt_fail(TT_ERR_IO, why, "%s: another run is using it", path);
    if (!err)
        err = tt_text_read_file(path, LIMIT_BYTES, &text, why);
    char name[32];
    snprintf(name, sizeof(name), "%016" PRIx64, identity);
    if (!err)
        err = read_lines(self, &text, name, kind, why);
    tt_text_fini(&text);
    if (err)
        tt_sweep_state_close(self);
    return err;
}

void tt_sweep_state_close(struct tt_sweep_state *self) {
    if (self->fd >= 0)
        close(self->fd);
    json_decref(self->known);
    free(self->path);
    *self = (struct tt_sweep_state){.fd = -1};
}

json_t *tt_sweep_state_find(const struct tt_sweep_state *self, const char *key) {
    return json_object_get(self->known, key);
}

enum tt_err tt_sweep_state_add(struct tt_sweep_state *self, const char *key, json_t *result,
                               struct tt_error *why) {
    return append(self, json_pack("{s:s,s:O}", "key", key, "result", result), why);
}
