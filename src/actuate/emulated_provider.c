#include "actuate/emulated_provider.h"

#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOCK_FILE = 3, CHILD_FILES = 4, NUMBER_BYTES = 32 };

struct emulated_provider {
    char *folder;
    const char *program;
    const char **args; /* borrowed words, then --node, its name and NULL */
    int32_t arg_count;
    pid_t *children; /* [child_count]: started and not waited for */
    int64_t child_count;
};

static enum tt_err failed(struct tt_error *why, const char *path) {
    return tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
}

/* ---- files of the folder ---- */

static int open_in(const struct emulated_provider *self, const char *name, const char *ending,
                   int flags, struct tt_error *why) {
    struct tt_text path;
    tt_text_init(&path);
    tt_text_printf(&path, "%s/%s%s", self->folder, name, ending);
    int fd = open(tt_text_string(&path), flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        (void)failed(why, tt_text_string(&path));
    tt_text_fini(&path);
    return fd;
}

/* The number that the file begins with; 0: it has none. */
static uint64_t read_number(int fd) {
    char text[NUMBER_BYTES] = {0};
    ssize_t count = pread(fd, text, sizeof(text) - 1, 0);
    return count > 0 ? strtoull(text, NULL, 10) : 0;
}

static bool write_number(int fd, uint64_t number) {
    char text[NUMBER_BYTES];
    size_t length = tt_text_write_integer((int64_t)number, text);
    text[length++] = '\n';
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, length, 0) == (ssize_t)length;
}

/* True: the descriptor has the lock now, so no process does. */
static bool lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

/* ---- processes ---- */

static void reap(struct emulated_provider *self) {
    for (int64_t i = 0; i < self->child_count;) {
        pid_t ended = waitpid(self->children[i], NULL, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR))
            i++;
        else
            self->children[i] = self->children[--self->child_count];
    }
}

/* The process inherits the lock. */
static enum tt_err start(struct emulated_provider *self, const char *node, int lock_fd,
                         struct tt_error *why) {
    pid_t *children =
        realloc(self->children, (size_t)(self->child_count + 1) * sizeof(*self->children));
    if (!children)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->children = children;
    int log_fd = open_in(self, node, ".log", O_WRONLY | O_APPEND, why);
    if (log_fd < 0)
        return TT_ERR_IO;
    const int files[CHILD_FILES] = {TT_SPAWN_NULL, log_fd, log_fd, [LOCK_FILE] = lock_fd};
    pid_t child = 0;
    self->args[self->arg_count + 1] = node;
    /* A lock without a number is a process that is just being started. */
    int error = write_number(lock_fd, 0) ? 0 : errno;
    if (!error)
        error = tt_spawn(self->program, self->args, files, CHILD_FILES, &child);
    close(log_fd);
    if (error)
        return tt_fail(TT_ERR_IO, why, "node %s cannot be started: %s", node, strerror(error));
    self->children[self->child_count++] = child;
    if (!write_number(lock_fd, (uint64_t)child)) {
        kill(child, SIGKILL); /* it could not be found */
        return tt_fail(TT_ERR_IO, why, "the process of node %s cannot be noted: %s", node,
                       strerror(errno));
    }
    return TT_OK;
}

static enum tt_err stop(const char *node, int lock_fd, struct tt_error *why) {
    uint64_t pid = read_number(lock_fd);
    if (pid < 2 || pid > INT32_MAX)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "the process of node %s is not known yet", node);
    if (kill((pid_t)pid, SIGTERM) != 0 && errno != ESRCH)
        return tt_fail(TT_ERR_IO, why, "node %s, process %" PRIu64 ", cannot be stopped: %s", node,
                       pid, strerror(errno));
    return TT_OK;
}

static enum tt_err set(struct emulated_provider *self, const char *node, bool is_wanted,
                       struct tt_error *why) {
    int fd = open_in(self, node, ".lock", O_RDWR, why);
    if (fd < 0)
        return TT_ERR_IO;
    bool runs = !lock(fd);
    enum tt_err err = runs == is_wanted ? TT_OK
                      : is_wanted       ? start(self, node, fd, why)
                                        : stop(node, fd, why);
    close(fd);
    return err;
}

/* ---- the provider ---- */

/* Primaries of several processes of this host come one after the other, in the order of epochs. */
static enum tt_err claim(const struct emulated_provider *self,
                         const struct tt_scale_request *request, int *out_fd,
                         struct tt_error *why) {
    int fd = open_in(self, "epoch", "", O_RDWR, why);
    if (fd < 0)
        return TT_ERR_IO;
    if (!lock(fd)) {
        close(fd);
        return tt_fail(TT_ERR_UNAVAILABLE, why, "another scheduler scales in %s just now",
                       self->folder);
    }
    uint64_t epoch = read_number(fd);
    enum tt_err err = TT_OK;
    if (epoch > request->epoch)
        err = tt_fail(TT_ERR_UNAVAILABLE, why,
                      "%s: a primary of epoch %" PRIu64 " has scaled; this one has %" PRIu64,
                      self->folder, epoch, request->epoch);
    if (!err)
        err = request->confirm(request->context, why);
    if (!err && epoch != request->epoch && !write_number(fd, request->epoch))
        err = failed(why, self->folder);
    if (err) {
        close(fd);
        return err;
    }
    *out_fd = fd;
    return TT_OK;
}

static enum tt_err scale(void *context, const struct tt_scale_request *request, int32_t *out_found,
                         struct tt_error *why) {
    (void)out_found;
    struct emulated_provider *self = context;
    int fd = -1;
    reap(self);
    enum tt_err err = claim(self, request, &fd, why);
    if (err)
        return err;
    for (int32_t i = 0; !err && i < request->node_count; i++)
        err = set(self, request->names[i], i < request->count, why);
    close(fd);
    return err;
}

/* Up to the last node that runs. */
static enum tt_err look(void *context, const struct tt_scale_request *request, int32_t *out_found,
                        struct tt_error *why) {
    const struct emulated_provider *self = context;
    int32_t found = 0;
    for (int32_t i = 0; i < request->node_count; i++) {
        int fd = open_in(self, request->names[i], ".lock", O_RDWR, why);
        if (fd < 0)
            return TT_ERR_IO;
        if (!lock(fd))
            found = i + 1;
        close(fd);
    }
    *out_found = found;
    return TT_OK;
}

static void close_provider(void *take_self) {
    struct emulated_provider *self = take_self;
    reap(self);
    free(self->folder);
    free(self->args);
    free(self->children);
    free(self);
}

enum tt_err tt_emulated_provider_open(const struct tt_emulated_options *options,
                                      struct tt_scale_provider *out_provider,
                                      struct tt_error *why) {
    if (mkdir(options->folder, 0700) != 0 && errno != EEXIST)
        return failed(why, options->folder);
    struct emulated_provider *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    while (options->args[self->arg_count])
        self->arg_count++;
    self->program = options->program;
    self->folder = strdup(options->folder);
    self->args = calloc((size_t)self->arg_count + 3, sizeof(*self->args));
    if (!self->folder || !self->args) {
        close_provider(self);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    for (int32_t i = 0; i < self->arg_count; i++)
        self->args[i] = options->args[i];
    self->args[self->arg_count] = "--node";
    *out_provider = (struct tt_scale_provider){
        .name = "emulated", .self = self, .scale = scale, .look = look, .close = close_provider};
    return TT_OK;
}
