#include "engine/onnxruntime/ort_library.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/text.h"
#include "base/threads/lock.h"
#include "engine/onnxruntime/ort_shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A process can have only one ONNX Runtime environment. */
static struct {
    struct tt_lock lock;
    bool open;
} the_process = {.lock = {PTHREAD_MUTEX_INITIALIZER}};

enum { NEWEST_MINOR_TRIED = 60 };

/* Opens `path`; on failure appends the reason to `tried`. */
static void *try_open(const char *path, struct tt_text *tried) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *error = dlerror();
        const char *reason = error ? error : "unknown reason";
        /* dlerror usually begins with the path. */
        size_t length = strlen(path);
        bool repeats = strncmp(reason, path, length) == 0 && reason[length] == ':';
        tt_text_printf(tried, "%s%s%s%s", tried->length ? "; " : "", path, repeats ? "" : ": ",
                       repeats ? reason + length : reason);
    }
    return handle;
}

static void *try_existing(const char *path, struct tt_text *tried) {
    if (access(path, F_OK) == 0)
        return try_open(path, tried);
    tt_text_printf(tried, "%s%s: no such file", tried->length ? "; " : "", path);
    return NULL;
}

/* Of libtutti.so, wherever the program is that uses it. In the program itself it finds nothing. */
static void *try_beside_library(struct tt_text *tried) {
    Dl_info info;
    char path[4096];
    if (!dladdr(&the_process, &info) || !info.dli_fname)
        return NULL;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash)
        return NULL;
    snprintf(path, sizeof(path), "%.*s/tutti/libonnxruntime.so", (int)(slash - info.dli_fname),
             info.dli_fname);
    return access(path, F_OK) == 0 ? try_open(path, tried) : NULL;
}

static void *try_beside_program(struct tt_text *tried) {
    char program[3072];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    char path[4096];
    snprintf(path, sizeof(path), "%s/../lib/tutti/libonnxruntime.so", program);
    return try_existing(path, tried);
}

/* The upstream name ends in the ABI's number. Debian's ends in the release and has no link of the
 * other name. */
static void *try_system(struct tt_text *tried) {
    void *handle = try_open("libonnxruntime.so.1", tried);
    for (int minor = NEWEST_MINOR_TRIED; !handle && minor >= TT_ORT_API_VERSION; minor--) {
        char name[64];
        snprintf(name, sizeof(name), "libonnxruntime.so.1.%d", minor);
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return handle;
}

static enum tt_err find_library(const char *asked, void **out_handle, struct tt_error *why) {
    struct tt_text tried;
    tt_text_init(&tried);
    const char *variable = getenv("TUTTI_ONNXRUNTIME");
    void *handle = NULL;
    enum tt_err err = TT_OK;
    if (asked) {
        handle = try_open(asked, &tried);
        if (!handle)
            err = tt_fail(TT_ERR_NOT_FOUND, why, "cannot load ONNX Runtime from %s",
                          tt_text_string(&tried));
    } else if (variable && *variable) {
        handle = try_open(variable, &tried);
        if (!handle)
            err = tt_fail(TT_ERR_NOT_FOUND, why,
                          "cannot load ONNX Runtime from TUTTI_ONNXRUNTIME: %s",
                          tt_text_string(&tried));
    } else {
        handle = try_beside_library(&tried);
        if (!handle)
            handle = try_beside_program(&tried);
#ifdef TUTTI_ONNXRUNTIME_LIBRARY
        if (!handle)
            handle = try_existing(TUTTI_ONNXRUNTIME_LIBRARY, &tried);
#endif
        if (!handle)
            handle = try_system(&tried);
        if (!handle)
            err = tt_fail(TT_ERR_NOT_FOUND, why,
                          "no ONNX Runtime found (tried %s); scripts/setup.sh fetches one, or set "
                          "TUTTI_ONNXRUNTIME to a libonnxruntime.so of release 1.%d or later",
                          tt_text_string(&tried), TT_ORT_API_VERSION);
    }
    tt_text_fini(&tried);
    if (!err)
        *out_handle = handle;
    return err;
}

static enum tt_err bind_api(struct tt_ort_library *self, void *handle, struct tt_error *why) {
    void *symbol = dlsym(handle, "OrtGetApiBase");
    if (!symbol)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "the opened library is not ONNX Runtime: it has no OrtGetApiBase");
    Dl_info info;
    if (dladdr(symbol, &info) && info.dli_fname)
        snprintf(self->path, sizeof(self->path), "%s", info.dli_fname);
    const OrtApiBase *(*get_base)(void);
    memcpy(&get_base, &symbol,
           sizeof(get_base)); /* C has no cast from object to function pointers */
    const OrtApiBase *base = get_base();
    self->version = base->GetVersionString();
    int major = 0, minor = 0;
    bool parsed = sscanf(self->version, "%d.%d", &major, &minor) == 2;
    /* An older release prints an error when asked for this version, so check first. */
    if (parsed && (major > 1 || minor >= TT_ORT_API_VERSION))
        self->api = base->GetApi(TT_ORT_API_VERSION);
    if (!self->api)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "%s is ONNX Runtime %s; release 1.%d or later is needed", self->path,
                       self->version, TT_ORT_API_VERSION);
    return TT_OK;
}

static void ORT_API_CALL log_line(void *context, OrtLoggingLevel severity, const char *category,
                                  const char *logid, const char *code_location,
                                  const char *message) {
    (void)category;
    (void)logid;
    (void)code_location;
    struct tt_ort_library *self = context;
    if (self->log)
        self->log(self->log_context, (int)severity, message);
}

/* The arena of all sessions. A run that would exceed its limit fails, alone. */
static OrtStatus *register_arena(struct tt_ort_library *self, int64_t arena_bytes) {
    const OrtApi *api = self->api;
    OrtArenaCfg *bounds = NULL;
    OrtStatus *status =
        arena_bytes ? api->CreateArenaCfg((size_t)arena_bytes, -1, -1, -1, &bounds) : NULL;
    if (!status)
        status = api->CreateAndRegisterAllocator(self->env, self->cpu_memory, bounds);
    if (bounds)
        api->ReleaseArenaCfg(bounds);
    return status;
}

/* One thread per pool means the caller's own: the runtime starts none. */
static OrtStatus *make_env(struct tt_ort_library *self, int64_t arena_bytes) {
    const OrtApi *api = self->api;
    OrtThreadingOptions *threading = NULL;
    OrtStatus *status = api->CreateThreadingOptions(&threading);
    if (!status)
        status = api->SetGlobalIntraOpNumThreads(threading, 1);
    if (!status)
        status = api->SetGlobalInterOpNumThreads(threading, 1);
    if (!status)
        status = api->SetGlobalSpinControl(threading, 0);
    if (!status)
        status = api->CreateEnvWithCustomLoggerAndGlobalThreadPools(
            log_line, self, ORT_LOGGING_LEVEL_WARNING, "tutti", threading, &self->env);
    if (threading)
        api->ReleaseThreadingOptions(threading);
    if (!status)
        status = api->DisableTelemetryEvents(
            self->env); /* for builds that ignore the environment variable */
    if (!status)
        status = api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &self->cpu_memory);
    if (!status)
        status = register_arena(self, arena_bytes);
    return status;
}

static enum tt_err open_library(const struct tt_ort_library_options *options,
                                struct tt_ort_library *self, struct tt_error *why) {
    void *handle = NULL;
    enum tt_err err = find_library(options->path, &handle, why);
    if (err)
        return err;
    err = bind_api(self, handle, why);
    if (err)
        return err;
    err = tt_ort_check(self, make_env(self, options->arena_bytes), why);
    return err ? tt_fail_in(TT_ERR_INTERNAL, why, "cannot initialise ONNX Runtime %s",
                            self->version)
               : TT_OK;
}

static bool claim(bool open) {
    tt_lock_take(&the_process.lock);
    bool changed = the_process.open != open;
    the_process.open = open;
    tt_lock_give(&the_process.lock);
    return changed;
}

enum tt_err tt_ort_library_open(const struct tt_ort_library_options *options,
                                struct tt_ort_library **out_library, struct tt_error *why) {
    static const struct tt_ort_library_options none;
    if (!claim(true))
        return tt_fail(TT_ERR_BUSY, why, "ONNX Runtime is already open in this process");
    /* Before dlopen: code that runs when the library is loaded must see it. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    options = options ? options : &none;
    struct tt_ort_library *self = calloc(1, sizeof(*self));
    struct tt_ort_shared *shared = calloc(1, sizeof(*shared));
    if (!self || !shared) {
        free(self);
        free(shared);
        claim(false);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    tt_ort_shared_init(shared);
    self->shared = shared;
    self->log = options->log;
    self->log_context = options->log_context;
    enum tt_err err = open_library(options, self, why);
    if (err) {
        tt_ort_library_close(self);
        return err;
    }
    *out_library = self;
    return TT_OK;
}

void tt_ort_library_close(struct tt_ort_library *take_library) {
    if (!take_library)
        return;
    tt_ort_shared_fini(take_library->shared);
    free(take_library->shared);
    if (take_library->cpu_memory)
        take_library->api->ReleaseMemoryInfo(take_library->cpu_memory);
    if (take_library->env)
        take_library->api->ReleaseEnv(take_library->env);
    free(take_library);
    claim(false);
}
