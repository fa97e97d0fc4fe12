/* UCX for tests: of the system, or as scripts/setup.sh --ucx unpacks it. The dynamic linker looks
 * for libraries where its environment said when the process began, so a test begins again. */
#ifndef TT_TESTS_UCX_UNPACKED_H
#define TT_TESTS_UCX_UNPACKED_H

#include "net/ucx/ucx_library.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first call of main(). */
static inline void find_unpacked_ucx(char **arguments) {
    char pattern[] = TUTTI_SOURCE_DIR "/.deps/ucx/usr/lib/*/libucp.so.0";
    glob_t found;
    if (getenv("LD_LIBRARY_PATH") || glob(pattern, 0, NULL, &found))
        return;
    char *path = found.gl_pathv[0];
    path[strlen(path) - sizeof("/libucp.so.0") + 1] = '\0';
    setenv("LD_LIBRARY_PATH", path, 1);
    execv("/proc/self/exe", arguments);
}

/* False: this machine has none. */
static inline bool has_ucx(struct tt_ucx_library *out_library) {
    struct tt_error why;
    enum tt_err err = tt_ucx_library_load(NULL, out_library, &why);
    if (err)
        printf("skipped: %s; scripts/setup.sh --ucx unpacks it\n", why.text);
    return err == TT_OK;
}

#endif
