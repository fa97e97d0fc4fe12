#include "base/spawn.h"

#include "base/err.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

extern char **environ;

static int add_files(posix_spawn_file_actions_t *actions, const int *files, int32_t count) {
    int error = 0;
    for (int32_t i = 0; !error && i < count; i++)
        error = files[i] == TT_SPAWN_NULL
                    ? posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0)
                    : posix_spawn_file_actions_adddup2(actions, files[i], i);
    return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, count);
}

int tt_spawn(const char *program, const char *const *args, const int *files, int32_t file_count,
             pid_t *out_child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    tt_assert(file_count >= 3);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    int error = add_files(&actions, files, file_count);
    if (!error)
        error = posix_spawnp(out_child, program, &actions, &attributes,
                             (char *const *)(uintptr_t)args, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}
