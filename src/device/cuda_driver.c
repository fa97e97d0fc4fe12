#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static enum tt_err bind(void *library, const char *name, void *out_function, struct tt_error *why) {
    void *symbol = dlsym(library, name);
    if (!symbol)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "the CUDA driver has no %s; one for CUDA 11 or later is needed", name);
    memcpy(out_function, &symbol, sizeof(symbol)); /* C has no cast to a function pointer */
    return TT_OK;
}

enum tt_err tt_cuda_driver_load(const char *path, struct tt_cuda_driver *out_driver,
                                struct tt_error *why) {
    const char *named = getenv("TUTTI_CUDA_DRIVER");
    if (!path)
        path = named && *named ? named : "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return tt_fail(TT_ERR_NOT_FOUND, why, "no CUDA driver: %s", dlerror());
    struct tt_cuda_driver driver = {0};
    enum tt_err err = TT_OK;
#define TT_CUDA_BIND(name, ...)                                                                    \
    if (!err)                                                                                      \
        err = bind(library, #name, &driver.name, why);
    TT_CUDA_FUNCTIONS(TT_CUDA_BIND)
#undef TT_CUDA_BIND
    if (err)
        return err;
    int result = driver.cuInit(0);
    if (result)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "the CUDA driver cannot start: %s",
                       tt_cuda_result_name(&driver, result));
    *out_driver = driver;
    return TT_OK;
}

const char *tt_cuda_result_name(const struct tt_cuda_driver *driver, int result) {
    const char *name = NULL;
    if (driver->cuGetErrorName(result, &name) != TT_CUDA_SUCCESS || !name)
        return "an unknown error";
    return name;
}
