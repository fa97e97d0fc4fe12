#include "net/ucx/ucx_library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A crash is the operating system's to report. Memory that we access is registered explicitly, so
 * the allocator need not be watched. By default UCX leaves out shared
 * memory where a peer may end. */
static const struct {
    const char *name, *value;
} settings[] = {{"UCX_ERROR_SIGNALS", ""},
                {"UCX_MEM_EVENTS", "n"},
                {"UCX_MM_ERROR_HANDLING", "y"},
                {"UCX_WARN_UNUSED_ENV_VARS", "n"}};

static enum tt_err bind(void *library, const char *name, void *out_function, struct tt_error *why) {
    void *symbol = dlsym(library, name);
    if (!symbol)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "UCX has no %s; UCX %d.%d or later is needed", name,
                       TT_UCX_MAJOR, TT_UCX_MINOR);
    memcpy(out_function, &symbol, sizeof(symbol)); /* C has no cast to a function pointer */
    return TT_OK;
}

enum tt_err tt_ucx_library_load(const char *path, struct tt_ucx_library *out_library,
                                struct tt_error *why) {
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        setenv(settings[i].name, settings[i].value, 0);
    void *handle = dlopen(path ? path : "libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return tt_fail(TT_ERR_NOT_FOUND, why,
                       "UCX cannot be loaded: %s (Debian's package libucx0 has it)", dlerror());
    struct tt_ucx_library library = {.major = 0};
    enum tt_err err = TT_OK;
#define TT_UCX_BIND(result, name, ...)                                                             \
    if (!err)                                                                                      \
        err = bind(handle, #name, &library.name, why);
    TT_UCX_FUNCTIONS(TT_UCX_BIND)
#undef TT_UCX_BIND
    if (err)
        return err;
    unsigned patch;
    library.ucp_get_version(&library.major, &library.minor, &patch);
    if (library.major != TT_UCX_MAJOR || library.minor < TT_UCX_MINOR)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "UCX is %u.%u; %d.%d or a later %d.x is needed",
                       library.major, library.minor, TT_UCX_MAJOR, TT_UCX_MINOR, TT_UCX_MAJOR);
    *out_library = library;
    return TT_OK;
}

tt_ucx_status tt_ucx_result(const void *returned) {
    intptr_t value = (intptr_t)returned;
    if (value >= TT_UCX_LOWEST_STATUS && value <= 0)
        return (tt_ucx_status)value;
    return TT_UCX_IN_PROGRESS;
}
