/* Starts another program: in a process group of its own (a terminal's SIGINT is not for it), with
 * the default action of every signal and none blocked, and with no descriptors but those that the
 * caller names. The child is the caller's to wait for. Any thread. Implemented in spawn.c. */
#ifndef TT_BASE_SPAWN_H
#define TT_BASE_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

enum {
    TT_SPAWN_NULL = -1, /* instead of a descriptor: /dev/null */
    TT_SPAWN_MAX_FILES = 8
};

/* `files[i]` becomes descriptor i of the child; 3 to TT_SPAWN_MAX_FILES. `args` ends with NULL; a
 * program without a slash is searched for in PATH. Returns 0 or errno. */
int tt_spawn(const char *program, const char *const *args, const int *files, int32_t file_count,
             pid_t *out_child);
/* The same; the child's environment is `environment`, which ends with NULL, instead of this
 * process's. */
int tt_spawn_in(const char *program, const char *const *args, const char *const *environment,
                const int *files, int32_t file_count, pid_t *out_child);

#endif
