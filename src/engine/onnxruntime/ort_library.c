#include "engine/onnxruntime/ort_library.h"

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

/* One thread per pool means the caller's own: the runtime starts none. */
static OrtStatus *make_env(struct tt_ort_library *self) {
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
        status = api->CreateAndRegisterAllocator(self->env, self->cpu_memory, NULL);
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
    err = tt_ort_check(self, make_env(self), why);
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

static enum tt_err kind_of(OrtErrorCode code, const char *message) {
    if (strstr(message, "bad_alloc") || strstr(message, "Failed to allocate memory"))
        return TT_ERR_NO_MEMORY;
    switch (code) {
    case ORT_NO_SUCHFILE:
    case ORT_NO_MODEL: return TT_ERR_NOT_FOUND;
    case ORT_NOT_IMPLEMENTED: return TT_ERR_UNSUPPORTED;
    case ORT_EP_FAIL:
    case ORT_ENGINE_ERROR: return TT_ERR_INTERNAL;
    case ORT_OK:
    case ORT_FAIL:
    case ORT_INVALID_ARGUMENT:
    case ORT_RUNTIME_EXCEPTION:
    case ORT_INVALID_PROTOBUF:
    case ORT_MODEL_LOADED:
    case ORT_INVALID_GRAPH:
    default: return TT_ERR_INVALID;
    }
}

enum tt_err tt_ort_check(const struct tt_ort_library *library, OrtStatus *take_status,
                         struct tt_error *why) {
    if (!take_status)
        return TT_OK;
    const char *message = library->api->GetErrorMessage(take_status);
    enum tt_err err = kind_of(library->api->GetErrorCode(take_status), message);
    if (why)
        tt_ort_plain_sentence(message, why->text, sizeof(why->text));
    library->api->ReleaseStatus(take_status);
    return err;
}

/* Skips "/some/file.cc:123 full::function(signature) " at the start, if present. The signature
 * contains spaces, so its end is found by matching brackets. */
static const char *skip_place(const char *text) {
    size_t place = strcspn(text, " ");
    const char *source = strstr(text, ".cc:");
    if (!source)
        source = strstr(text, ".h:");
    if (!source || (size_t)(source - text) >= place)
        return text;
    const char *at = text + place;
    const char *close = strchr(at, '(');
    int depth = 0;
    for (; close && *close; close++) {
        depth += *close == '(' ? 1 : *close == ')' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (!close || !*close)
        return *at ? at + 1 : text;
    at = close + 1;
    if (strncmp(at, " const", 6) == 0)
        at += 6;
    if (strncmp(at, " [with ", 7) == 0) {
        const char *end = strchr(at, ']');
        at = end ? end + 1 : at;
    }
    while (*at == ' ' || *at == ':')
        at++;
    return *at ? at : text;
}

/* Skips the part that says that a model was loaded, and from which file: the caller reports
 * that. */
static const char *skip_preface(const char *text) {
    static const char loading[] = "Load model from ", failed[] = " failed:";
    static const char starting[] = "Exception during initialization: ";
    if (strncmp(text, loading, sizeof(loading) - 1) == 0) {
        const char *end = strstr(text, failed);
        text = end ? end + sizeof(failed) - 1 : text;
    }
    if (strncmp(text, starting, sizeof(starting) - 1) == 0)
        text += sizeof(starting) - 1;
    return text;
}

void tt_ort_plain_sentence(const char *message, char *out, size_t capacity) {
    /* "Non-zero status code returned while running Gather node. Name:'x' Status Message: sentence"
     */
    static const char head[] = "Non-zero status code returned while running ";
    static const char label[] = "Status Message: ";
    char node[160] = "";
    if (strncmp(message, head, sizeof(head) - 1) == 0) {
        const char *name = message + sizeof(head) - 1;
        const char *end = strstr(name, " node.");
        if (end)
            snprintf(node, sizeof(node), "%.*s: ", (int)(end - name), name);
    }
    const char *text = message;
    for (const char *inner = text; (inner = strstr(inner, label)) != NULL;) {
        inner += sizeof(label) - 1;
        text = inner;
    }
    text = skip_place(skip_preface(text));
    snprintf(out, capacity, "%s%s", node, text);
    size_t length = strlen(out);
    while (length && (out[length - 1] == '\n' || out[length - 1] == ' '))
        out[--length] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\033')
            *c = ' ';
}
