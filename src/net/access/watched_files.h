/* Calls functions when files change: tokens and certificates are read again without a restart.
 *
 * Life: groups are added; start makes a thread, which looks at the files every half second; a
 * change that stays as it is until the next look, or tt_watched_files_wake(), calls the group's
 * function on that thread; stop ends it. A file that is replaced by rename or through a link is
 * seen as well as one that is written.
 *
 * It never reads a file. Implemented in watched_files.c. */
#ifndef TT_NET_ACCESS_WATCHED_FILES_H
#define TT_NET_ACCESS_WATCHED_FILES_H

#include "base/err.h"
#include "base/threads/flag.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_WATCHED_GROUPS = 2, TT_WATCHED_PATHS = 3, TT_WATCHED_LOOK_MS = 500 };

struct tt_watched_group {
    const char *paths[TT_WATCHED_PATHS]; /* NULL: none */
    void (*changed)(void *context);
    void *context;
    uint64_t loaded, seen; /* fingerprints: when `changed` was called, at the last look */
};

struct tt_watched_files {
    struct tt_watched_group groups[TT_WATCHED_GROUPS];
    int32_t count;
    int pipe[2];
    bool is_running;
    struct tt_flag stopping;
    pthread_t thread;
};

void tt_watched_files_init(struct tt_watched_files *self);
/* Before the start, and before the files are read. The strings are borrowed until stop. */
void tt_watched_files_add(struct tt_watched_files *self, const char *const paths[TT_WATCHED_PATHS],
                          void (*changed)(void *context), void *context);
/* Does nothing without groups. IO. */
TT_MUST_CHECK enum tt_err tt_watched_files_start(struct tt_watched_files *self,
                                                 struct tt_error *why);
/* Calls every function soon. Any thread, or a signal handler. */
void tt_watched_files_wake(const struct tt_watched_files *self);
void tt_watched_files_stop(struct tt_watched_files *self);

#endif
