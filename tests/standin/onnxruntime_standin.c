/* A stand-in for an ONNX Runtime with the CUDA provider: the library for the processor, with
 * functions of its table replaced.
 *
 * Memory of the stand-in for the driver (cuda_standin.c) is memory of this process, so the
 * processor's kernels can compute on it. A session to which the CUDA provider was added puts its
 * runs on its stream, by a call of the driver, and returns; at its turn the real session runs. It
 * wants what the real provider wants, else it fails: options that are known, a stream, values on
 * the GPU in bindings, and runs that are not to synchronise. Tests make it fail through the symbol
 * `onnxruntime_standin`. Programs name the driver in TUTTI_CUDA_DRIVER. */
#include "onnxruntime_standin.h"
#include "cuda_standin.h"

#include <assert.h>
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MARKS = 4096, MAX_BOUND = 16, MAX_DIMS = 16, ILLEGAL_ADDRESS = 700 };

/* Something of the real library's that we know more of. */
struct mark {
    const void *thing; /* NULL: free */
    const void *knows; /* options, sessions: the stream; values: their bytes; others: anything */
};

struct provider {
    struct onnxruntime_standin_provider given;
    bool has_limit;
};

struct bound {
    char name[128];
    void *bytes;
    size_t size_bytes, rank;
    int64_t dims[MAX_DIMS];
    ONNXTensorElementDataType type;
};

struct binding {
    OrtSession *session;
    size_t count[2]; /* inputs, outputs */
    struct bound bound[2][MAX_BOUND];
};

enum { MAX_RUNS = 256 }; /* between their enqueueing and their turn */

static struct {
    pthread_mutex_t lock;
    const OrtApi *real;
    OrtApi api; /* what callers get */
    const struct cuda_standin *driver;
    int (*launch)(void *stream, void (*call)(void *context), void *context);
    OrtMemoryInfo *cpu;
    struct mark sessions[MAX_MARKS], options[MAX_MARKS], strict[MAX_MARKS], values[MAX_MARKS],
        infos[MAX_MARKS], runs[MAX_MARKS];
    struct mark shared[MAX_MARKS]; /* values that sessions were offered: their bytes */
    bool leaves_nodes;
    int refused, made;
    struct onnxruntime_standin_provider newest;
    struct binding bindings[MAX_RUNS]; /* of the last runs, as they were then */
    int run_count, things;
    char failing[64], message[256];
    int skip;
    bool kernel_fails;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what we know of things ---- */

static void lock(void) { pthread_mutex_lock(&self.lock); }
static void unlock(void) { pthread_mutex_unlock(&self.lock); }

static void mark(struct mark *marks, const void *thing, const void *knows) {
    lock();
    struct mark *free_mark = marks;
    while (free_mark->thing)
        free_mark++;
    assert(free_mark < marks + MAX_MARKS);
    *free_mark = (struct mark){thing, knows};
    unlock();
}

static const void *look_up(const struct mark *marks, const void *thing) {
    const void *knows = NULL;
    lock();
    for (int i = 0; i < MAX_MARKS; i++)
        if (marks[i].thing == thing)
            knows = marks[i].knows;
    unlock();
    return knows;
}

static void forget(struct mark *marks, const void *thing) {
    lock();
    for (int i = 0; i < MAX_MARKS; i++)
        if (marks[i].thing == thing)
            marks[i].thing = NULL;
    unlock();
}

static void count_things(int change) {
    lock();
    self.things += change;
    unlock();
}

/* The fault armed for the function, if it is its turn. */
static OrtStatus *fault(const char *function) {
    OrtStatus *status = NULL;
    lock();
    if (strcmp(self.failing, function) == 0 && self.skip-- == 0) {
        self.failing[0] = '\0';
        status = self.real->CreateStatus(ORT_FAIL, self.message);
    }
    unlock();
    return status;
}

static OrtStatus *refuse(const char *message) {
    return self.real->CreateStatus(ORT_INVALID_ARGUMENT, message);
}

/* ---- the provider ---- */

static OrtStatus *ORT_API_CALL create_provider(OrtCUDAProviderOptionsV2 **out) {
    OrtStatus *status = fault("CreateCUDAProviderOptions");
    if (status)
        return status;
    *out = calloc(1, sizeof(struct provider));
    count_things(1);
    return NULL;
}

static void ORT_API_CALL release_provider(OrtCUDAProviderOptionsV2 *options) {
    free(options);
    count_things(-1);
}

static OrtStatus *ORT_API_CALL update_provider(OrtCUDAProviderOptionsV2 *options,
                                               const char *const *keys, const char *const *values,
                                               size_t count) {
    OrtStatus *status = fault("UpdateCUDAProviderOptions");
    struct provider *provider = (void *)options;
    if (status)
        return status;
    *provider = (struct provider){0};
    for (size_t i = 0; i < count; i++) {
        bool is_strategy = strcmp(keys[i], "arena_extend_strategy") == 0 &&
                           strcmp(values[i], "kSameAsRequested") == 0;
        bool is_search =
            strcmp(keys[i], "cudnn_conv_algo_search") == 0 && strcmp(values[i], "HEURISTIC") == 0;
        bool is_copy =
            strcmp(keys[i], "do_copy_in_default_stream") == 0 && strcmp(values[i], "1") == 0;
        if (strcmp(keys[i], "device_id") == 0)
            provider->given.device_id = atoi(values[i]);
        else if (strcmp(keys[i], "gpu_mem_limit") == 0)
            provider->has_limit = (provider->given.gpu_mem_limit = atoll(values[i])) > 0;
        else if (!is_strategy && !is_search && !is_copy)
            return refuse("Unknown provider option");
    }
    return NULL;
}

static OrtStatus *ORT_API_CALL update_provider_value(OrtCUDAProviderOptionsV2 *options,
                                                     const char *key, void *value) {
    OrtStatus *status = fault("UpdateCUDAProviderOptionsWithValue");
    if (status)
        return status;
    if (strcmp(key, "user_compute_stream") != 0)
        return refuse("Unsupported provider option");
    ((struct provider *)(void *)options)->given.user_compute_stream = value;
    return NULL;
}

static OrtStatus *ORT_API_CALL append_provider(OrtSessionOptions *options,
                                               const OrtCUDAProviderOptionsV2 *given) {
    OrtStatus *status = fault("SessionOptionsAppendExecutionProvider_CUDA_V2");
    const struct provider *provider = (const void *)given;
    if (status)
        return status;
    if (!provider->given.user_compute_stream || !provider->has_limit)
        return refuse("neither a stream nor a limit is optional here");
    mark(self.options, options, provider->given.user_compute_stream);
    lock();
    self.newest = provider->given;
    unlock();
    return NULL;
}

static void ORT_API_CALL release_session_options(OrtSessionOptions *options) {
    forget(self.options, options);
    forget(self.strict, options);
    self.real->ReleaseSessionOptions(options);
}

/* ---- sessions and values ---- */

/* A session of the provider that must not leave nodes to the processor. */
static OrtStatus *check_nodes(const OrtSessionOptions *options) {
    if (!look_up(self.strict, options))
        return NULL;
    lock();
    bool refuses = self.leaves_nodes;
    self.refused += refuses;
    unlock();
    return refuses ? self.real->CreateStatus(ORT_FAIL, "This session contains graph nodes that are "
                                                       "assigned to the default CPU EP")
                   : NULL;
}

/* `stream` NULL: a session of the processor's. */
static void made(const void *stream, const OrtSession *session) {
    lock();
    self.made++;
    unlock();
    if (!stream)
        return;
    mark(self.sessions, session, stream);
    count_things(1);
}

static OrtStatus *ORT_API_CALL create_session(const OrtEnv *env, const char *path,
                                              const OrtSessionOptions *options, OrtSession **out) {
    const void *stream = look_up(self.options, options);
    OrtStatus *status = stream ? fault("CreateSession") : NULL;
    if (!status)
        status = check_nodes(options);
    if (!status)
        status = self.real->CreateSession(env, path, options, out);
    if (!status)
        made(stream, *out);
    return status;
}

static OrtStatus *ORT_API_CALL create_session_of(const OrtEnv *env, const void *bytes, size_t count,
                                                 const OrtSessionOptions *options,
                                                 OrtSession **out) {
    const void *stream = look_up(self.options, options);
    OrtStatus *status = stream ? fault("CreateSessionFromArray") : NULL;
    if (!status)
        status = check_nodes(options);
    if (!status)
        status = self.real->CreateSessionFromArray(env, bytes, count, options, out);
    if (!status)
        made(stream, *out);
    return status;
}

static OrtStatus *ORT_API_CALL create_packed_session(const OrtEnv *env, const void *bytes,
                                                     size_t count, const OrtSessionOptions *options,
                                                     OrtPrepackedWeightsContainer *packed,
                                                     OrtSession **out) {
    OrtStatus *status = self.real->CreateSessionFromArrayWithPrepackedWeightsContainer(
        env, bytes, count, options, packed, out);
    if (!status)
        made(NULL, *out);
    return status;
}

/* The processor's library would refuse all nodes. */
static OrtStatus *ORT_API_CALL add_config(OrtSessionOptions *options, const char *key,
                                          const char *value) {
    if (strcmp(key, "session.disable_cpu_ep_fallback") != 0)
        return self.real->AddSessionConfigEntry(options, key, value);
    if (!look_up(self.options, options))
        return refuse("only sessions of the provider may leave no nodes to the processor");
    mark(self.strict, options, value);
    return NULL;
}

/* The real provider takes the value as it is: its kernels cannot read memory of the host. */
static OrtStatus *ORT_API_CALL add_initializer(OrtSessionOptions *options, const char *name,
                                               const OrtValue *value) {
    bool is_gpu = look_up(self.options, options) != NULL;
    OrtStatus *status = is_gpu ? fault("AddInitializer") : NULL;
    void *bytes = NULL;
    if (!status && is_gpu && !look_up(self.values, value))
        return refuse("an initializer of the provider's lies on the GPU");
    if (!status && is_gpu && !look_up(self.strict, options))
        return refuse("nodes that are left to the processor cannot read the GPU");
    if (!status)
        status = self.real->AddInitializer(options, name, value);
    if (!status && is_gpu)
        status = self.real->GetTensorMutableData((OrtValue *)value, &bytes);
    if (!status && is_gpu)
        mark(self.shared, value, bytes);
    return status;
}

static void ORT_API_CALL release_session(OrtSession *session) {
    if (look_up(self.sessions, session)) {
        forget(self.sessions, session);
        count_things(-1);
    }
    self.real->ReleaseSession(session);
}

/* A run of the provider with values of the processor's: it copies, and waits. */
static OrtStatus *ORT_API_CALL run_session(OrtSession *session, const OrtRunOptions *options,
                                           const char *const *input_names,
                                           const OrtValue *const *inputs, size_t input_count,
                                           const char *const *output_names, size_t output_count,
                                           OrtValue **outputs) {
    OrtStatus *status = look_up(self.sessions, session) ? fault("Run") : NULL;
    return status ? status
                  : self.real->Run(session, options, input_names, inputs, input_count, output_names,
                                   output_count, outputs);
}

static OrtStatus *ORT_API_CALL create_memory_info(const char *name, enum OrtAllocatorType type,
                                                  int id, enum OrtMemType memory,
                                                  OrtMemoryInfo **out) {
    bool is_cuda = strcmp(name, "Cuda") == 0;
    OrtStatus *status = is_cuda ? fault("CreateMemoryInfo") : NULL;
    if (!status)
        status = self.real->CreateMemoryInfo(is_cuda ? "Cpu" : name, type, is_cuda ? 0 : id, memory,
                                             out);
    if (!status && is_cuda) {
        mark(self.infos, *out, &self);
        count_things(1);
    }
    return status;
}

static void ORT_API_CALL release_memory_info(OrtMemoryInfo *info) {
    if (look_up(self.infos, info)) {
        forget(self.infos, info);
        count_things(-1);
    }
    self.real->ReleaseMemoryInfo(info);
}

static OrtStatus *ORT_API_CALL create_value(const OrtMemoryInfo *info, void *bytes, size_t count,
                                            const int64_t *dims, size_t rank,
                                            ONNXTensorElementDataType type, OrtValue **out) {
    bool is_cuda = look_up(self.infos, info) != NULL;
    OrtStatus *status = is_cuda ? fault("CreateTensorWithDataAsOrtValue") : NULL;
    if (!status)
        status =
            self.real->CreateTensorWithDataAsOrtValue(info, bytes, count, dims, rank, type, out);
    if (!status && is_cuda) {
        mark(self.values, *out, (const void *)count);
        count_things(1);
    }
    return status;
}

static void ORT_API_CALL release_value(OrtValue *value) {
    if (look_up(self.values, value)) {
        forget(self.values, value);
        forget(self.shared, value);
        count_things(-1);
    }
    self.real->ReleaseValue(value);
}

/* ---- runs ---- */

static OrtStatus *ORT_API_CALL create_run_options(OrtRunOptions **out) {
    OrtStatus *status = fault("CreateRunOptions");
    return status ? status : self.real->CreateRunOptions(out);
}

static OrtStatus *ORT_API_CALL add_run_config(OrtRunOptions *options, const char *key,
                                              const char *value) {
    OrtStatus *status = fault("AddRunConfigEntry");
    if (!status)
        status = self.real->AddRunConfigEntry(options, key, value);
    if (!status && strcmp(key, "disable_synchronize_execution_providers") == 0 &&
        strcmp(value, "1") == 0)
        mark(self.runs, options, &self);
    return status;
}

static void ORT_API_CALL release_run_options(OrtRunOptions *options) {
    forget(self.runs, options);
    self.real->ReleaseRunOptions(options);
}

static OrtStatus *ORT_API_CALL create_binding(OrtSession *session, OrtIoBinding **out) {
    OrtStatus *status = fault("CreateIoBinding");
    if (status)
        return status;
    struct binding *binding = calloc(1, sizeof(*binding));
    binding->session = session;
    *out = (void *)binding;
    count_things(1);
    return NULL;
}

static void ORT_API_CALL release_binding(OrtIoBinding *binding) {
    free(binding);
    count_things(-1);
}

/* Keeps where the value's bytes are, as the real one does, and not the value. */
static OrtStatus *bind(struct binding *binding, int side, const char *name, const OrtValue *value) {
    size_t size_bytes = (size_t)look_up(self.values, value);
    if (size_bytes == 0)
        return refuse("a value that is bound lies on the GPU");
    struct bound *bound = binding->bound[side], *end = bound + binding->count[side];
    while (bound < end && strcmp(bound->name, name) != 0)
        bound++;
    binding->count[side] += bound == end;
    assert(binding->count[side] <= MAX_BOUND);
    snprintf(bound->name, sizeof(bound->name), "%s", name);
    bound->size_bytes = size_bytes;
    OrtTensorTypeAndShapeInfo *info;
    OrtStatus *status = self.real->GetTensorTypeAndShape(value, &info);
    assert(!status);
    status = self.real->GetTensorElementType(info, &bound->type);
    assert(!status);
    status = self.real->GetDimensionsCount(info, &bound->rank);
    assert(!status && bound->rank <= MAX_DIMS);
    status = self.real->GetDimensions(info, bound->dims, bound->rank);
    assert(!status);
    self.real->ReleaseTensorTypeAndShapeInfo(info);
    status = self.real->GetTensorMutableData((OrtValue *)value, &bound->bytes);
    assert(!status);
    return NULL;
}

static OrtStatus *ORT_API_CALL bind_input(OrtIoBinding *binding, const char *name,
                                          const OrtValue *value) {
    OrtStatus *status = fault("BindInput");
    return status ? status : bind((void *)binding, 0, name, value);
}

static OrtStatus *ORT_API_CALL bind_output(OrtIoBinding *binding, const char *name,
                                           const OrtValue *value) {
    OrtStatus *status = fault("BindOutput");
    return status ? status : bind((void *)binding, 1, name, value);
}

/* On the stream: the kernels. What is wrong with them is wrong with the GPU from then on. */
static void run_now(void *context) {
    const struct binding *binding = context;
    const char *names[2][MAX_BOUND];
    OrtValue *values[2][MAX_BOUND];
    OrtStatus *status = NULL;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < binding->count[side]; i++) {
            const struct bound *bound = &binding->bound[side][i];
            names[side][i] = bound->name;
            status = self.real->CreateTensorWithDataAsOrtValue(
                self.cpu, bound->bytes, bound->size_bytes, bound->dims, bound->rank, bound->type,
                &values[side][i]);
            assert(!status);
        }
    lock();
    bool fails = self.kernel_fails;
    self.kernel_fails = false;
    unlock();
    if (!fails)
        status =
            self.real->Run(binding->session, NULL, names[0], (const OrtValue *const *)values[0],
                           binding->count[0], names[1], binding->count[1], values[1]);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < binding->count[side]; i++)
            self.real->ReleaseValue(values[side][i]);
    if (status)
        self.real->ReleaseStatus(status);
    if (status || fails)
        self.driver->break_context(ILLEGAL_ADDRESS);
}

static OrtStatus *ORT_API_CALL run_binding(OrtSession *session, const OrtRunOptions *options,
                                           const OrtIoBinding *given) {
    OrtStatus *status = fault("RunWithBinding");
    const struct binding *binding = (const void *)given;
    void *stream = (void *)look_up(self.sessions, session);
    if (status)
        return status;
    if (!stream || binding->session != session)
        return refuse("the binding is not of a session of the provider");
    if (!look_up(self.runs, options))
        return refuse("a run waits for its kernels");
    lock();
    struct binding *run = &self.bindings[self.run_count++ % MAX_RUNS];
    unlock();
    *run = *binding;
    return self.launch(stream, run_now, run)
               ? self.real->CreateStatus(ORT_FAIL, "CUDA failure: the run was not launched")
               : NULL;
}

/* ---- controls ---- */

static void standin_fail_call(const char *function, int skip, const char *message) {
    lock();
    snprintf(self.failing, sizeof(self.failing), "%s", function);
    snprintf(self.message, sizeof(self.message), "%s", message);
    self.skip = skip;
    unlock();
}

static int standin_happened(void) {
    lock();
    int happened = !self.failing[0];
    self.failing[0] = '\0';
    unlock();
    return happened;
}

static void standin_fail_kernel(void) {
    lock();
    self.kernel_fails = true;
    unlock();
}

static int standin_runs(void) {
    lock();
    int runs = self.run_count;
    unlock();
    return runs;
}

static int standin_open_things(void) {
    lock();
    int things = self.things;
    unlock();
    return things;
}

/* How often a value was offered, and how many different places they have. */
static int standin_offers(int *out_places) {
    int offers = 0, places = 0;
    lock();
    for (int i = 0; i < MAX_MARKS; i++) {
        bool is_new = self.shared[i].thing != NULL;
        offers += is_new;
        for (int j = 0; is_new && j < i; j++)
            is_new = !self.shared[j].thing || self.shared[j].knows != self.shared[i].knows;
        places += is_new;
    }
    unlock();
    *out_places = places;
    return offers;
}

static int standin_made(void) {
    lock();
    int count = self.made;
    unlock();
    return count;
}

static int standin_leave_nodes(bool leaves) {
    lock();
    self.leaves_nodes = leaves;
    int refused = self.refused;
    self.refused = 0;
    unlock();
    return refused;
}

static struct onnxruntime_standin_provider standin_provider(void) {
    lock();
    struct onnxruntime_standin_provider newest = self.newest;
    unlock();
    return newest;
}

extern const struct onnxruntime_standin onnxruntime_standin;
const struct onnxruntime_standin onnxruntime_standin = {.fail_call = standin_fail_call,
                                                        .happened = standin_happened,
                                                        .fail_kernel = standin_fail_kernel,
                                                        .runs = standin_runs,
                                                        .open_things = standin_open_things,
                                                        .offers = standin_offers,
                                                        .made = standin_made,
                                                        .leave_nodes = standin_leave_nodes,
                                                        .provider = standin_provider};

/* ---- the library ---- */

static void find_driver(void) {
    const char *path = getenv("TUTTI_CUDA_DRIVER");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    assert(library);
    self.driver = dlsym(library, "cuda_standin");
    void *launch = dlsym(library, "cuLaunchHostFunc");
    assert(self.driver && launch);
    memcpy(&self.launch, &launch, sizeof(launch));
}

static const OrtApiBase *real_base(void) {
    const char *named = getenv("TUTTI_STANDIN_ONNXRUNTIME");
    void *library = dlopen(named ? named : TUTTI_ONNXRUNTIME_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
    const OrtApiBase *(*get)(void);
    assert(symbol);
    memcpy(&get, &symbol, sizeof(symbol));
    return get();
}

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
    assert(version <= ORT_API_VERSION);
    if (self.real)
        return &self.api;
    find_driver();
    self.real = real_base()->GetApi(version);
    assert(self.real);
    self.api = *self.real;
    OrtStatus *status =
        self.real->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &self.cpu);
    assert(!status);
    self.api.CreateCUDAProviderOptions = create_provider;
    self.api.ReleaseCUDAProviderOptions = release_provider;
    self.api.UpdateCUDAProviderOptions = update_provider;
    self.api.UpdateCUDAProviderOptionsWithValue = update_provider_value;
    self.api.SessionOptionsAppendExecutionProvider_CUDA_V2 = append_provider;
    self.api.ReleaseSessionOptions = release_session_options;
    self.api.CreateSession = create_session;
    self.api.CreateSessionFromArray = create_session_of;
    self.api.CreateSessionFromArrayWithPrepackedWeightsContainer = create_packed_session;
    self.api.AddSessionConfigEntry = add_config;
    self.api.AddInitializer = add_initializer;
    self.api.ReleaseSession = release_session;
    self.api.Run = run_session;
    self.api.CreateMemoryInfo = create_memory_info;
    self.api.ReleaseMemoryInfo = release_memory_info;
    self.api.CreateTensorWithDataAsOrtValue = create_value;
    self.api.ReleaseValue = release_value;
    self.api.CreateRunOptions = create_run_options;
    self.api.AddRunConfigEntry = add_run_config;
    self.api.ReleaseRunOptions = release_run_options;
    self.api.CreateIoBinding = create_binding;
    self.api.ReleaseIoBinding = release_binding;
    self.api.BindInput = bind_input;
    self.api.BindOutput = bind_output;
    self.api.RunWithBinding = run_binding;
    return &self.api;
}

static const char *ORT_API_CALL get_version(void) { return real_base()->GetVersionString(); }

const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) NO_EXCEPTION;
const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) NO_EXCEPTION {
    static const OrtApiBase base = {.GetApi = get_api, .GetVersionString = get_version};
    return &base;
}
