#include "base/spawn.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <unistd.h>

extern char **environ;

/* Copies of the files, with numbers beyond those of the child: giving one file its number must not
 * close another one. */
static int copy_files(const int *files, int32_t count, int *copies) {
    for (int32_t i = 0; i < count; i++) {
        bool is_null = files[i] == TT_SPAWN_NULL;
        int fd = is_null ? open("/dev/null", O_RDWR | O_CLOEXEC) : files[i];
        copies[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, TT_SPAWN_MAX_FILES);
        int error = errno;
        if (is_null && fd >= 0)
            close(fd);
        if (copies[i] < 0)
            return error;
    }
    return 0;
}

static int add_files(posix_spawn_file_actions_t *actions, const int *copies, int32_t count) {
    int error = 0;
    for (int32_t i = 0; !error && i < count; i++)
        error = posix_spawn_file_actions_adddup2(actions, copies[i], i);
    return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, count);
}

int tt_spawn(const char *program, const char *const *args, const int *files, int32_t file_count,
             pid_t *out_child) {
    return tt_spawn_in(program, args, (const char *const *)(uintptr_t)environ, files, file_count,
                       out_child);
}

int tt_spawn_in(const char *program, const char *const *args, const char *const *environment,
                const int *files, int32_t file_count, pid_t *out_child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int copies[TT_SPAWN_MAX_FILES];
    tt_assert(file_count >= 3);
    tt_assert(file_count <= TT_SPAWN_MAX_FILES);
    for (int32_t i = 0; i < file_count; i++)
        copies[i] = -1;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    int error = copy_files(files, file_count, copies);
    if (!error)
        error = add_files(&actions, copies, file_count);
    if (!error)
        error = posix_spawnp(out_child, program, &actions, &attributes,
                             (char *const *)(uintptr_t)args, (char *const *)(uintptr_t)environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (int32_t i = 0; i < file_count; i++)
        if (copies[i] >= 0)
            close(copies[i]);
    return error;
}
