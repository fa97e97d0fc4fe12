#include "net/access/watched_files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tt_watched_files_init(struct tt_watched_files *self) {
    memset(self, 0, sizeof(*self));
    self->pipe[0] = self->pipe[1] = -1;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15) + (hash >> 29);
}

/* Differs when a file was written or replaced. */
static uint64_t fingerprint(const struct tt_watched_group *group) {
    uint64_t hash = 1;
    for (size_t i = 0; i < TT_COUNT(group->paths); i++) {
        struct stat found;
        if (!group->paths[i])
            continue;
        if (stat(group->paths[i], &found) != 0) {
            hash = mix(hash, (uint64_t)errno);
            continue;
        }
        hash = mix(hash, (uint64_t)found.st_ino);
        hash = mix(hash, (uint64_t)found.st_size);
        hash = mix(hash, (uint64_t)found.st_mtim.tv_sec);
        hash = mix(hash, (uint64_t)found.st_mtim.tv_nsec);
        hash = mix(hash, (uint64_t)found.st_ctim.tv_sec);
        hash = mix(hash, (uint64_t)found.st_ctim.tv_nsec);
    }
    return hash;
}

void tt_watched_files_add(struct tt_watched_files *self, const char *const paths[TT_WATCHED_PATHS],
                          void (*changed)(void *context), void *context) {
    tt_assert(self->count < TT_WATCHED_GROUPS);
    tt_assert(!self->is_running);
    struct tt_watched_group *group = &self->groups[self->count++];
    memcpy(group->paths, paths, sizeof(group->paths));
    group->changed = changed;
    group->context = context;
    group->loaded = group->seen = fingerprint(group);
}

/* A change is taken when two looks found the same, so that a file is not read while it is written.
 */
static void look(struct tt_watched_group *group, bool is_asked) {
    uint64_t now = fingerprint(group);
    bool is_steady = now == group->seen;
    group->seen = now;
    if (!is_asked && (now == group->loaded || !is_steady))
        return;
    group->loaded = now;
    group->changed(group->context);
}

static void *run(void *context) {
    struct tt_watched_files *self = context;
    for (;;) {
        struct pollfd waits = {.fd = self->pipe[0], .events = POLLIN};
        char bytes[64];
        bool is_asked = false;
        if (poll(&waits, 1, TT_WATCHED_LOOK_MS) > 0)
            is_asked = read(self->pipe[0], bytes, sizeof(bytes)) > 0;
        if (tt_flag_is_raised(&self->stopping))
            return NULL;
        for (int32_t i = 0; i < self->count; i++)
            look(&self->groups[i], is_asked);
    }
}

static void close_pipe(struct tt_watched_files *self) {
    for (int i = 0; i < 2; i++) {
        if (self->pipe[i] >= 0)
            close(self->pipe[i]);
        self->pipe[i] = -1;
    }
}

enum tt_err tt_watched_files_start(struct tt_watched_files *self, struct tt_error *why) {
    if (self->count == 0)
        return TT_OK;
    if (pipe2(self->pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return tt_fail(TT_ERR_IO, why, "cannot watch files: %s", strerror(errno));
    int failed = pthread_create(&self->thread, NULL, run, self);
    if (failed) {
        close_pipe(self);
        return tt_fail(TT_ERR_IO, why, "cannot start the thread that watches files: %s",
                       strerror(failed));
    }
    self->is_running = true;
    return TT_OK;
}

void tt_watched_files_wake(const struct tt_watched_files *self) {
    int saved = errno;
    ssize_t written = self->is_running ? write(self->pipe[1], "", 1) : 0;
    (void)written; /* a full pipe wakes the thread too */
    errno = saved;
}

void tt_watched_files_stop(struct tt_watched_files *self) {
    if (!self->is_running)
        return;
    tt_flag_raise(&self->stopping);
    tt_watched_files_wake(self);
    pthread_join(self->thread, NULL);
    self->is_running = false;
    close_pipe(self);
}
