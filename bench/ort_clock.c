/* An ONNX Runtime that is the real one, but for `Run`: it keeps how much processor time the calling
 * thread spends in it, and how much between two calls of it, which on an executor's thread is all
 * that the server does beside computing. So a server can be measured as it is:
 *
 *     ninja -C build tutti_ort_clock
 *     TUTTI_ONNXRUNTIME=build/libtutti_ort_clock.so ORT_CLOCK_LIBRARY=.deps/lib/libonnxruntime.so \
 *     ORT_CLOCK_OUTPUT=file tutti serve ...
 *
 * When the process ends it writes a line per width of a batch (rows of the first input): the width,
 * how many calls, the mean ns in Run, the mean between the call before and this one, and the latter
 * where little disturbs it: the mean of 20 calls that a tenth of all such stays below. Where it is
 * preloaded, too (LD_PRELOAD), the time in which threads that call Run wake others, by a write of
 * eight bytes, is not in these but told apart: the mean ns of such per call. With
 * ORT_CLOCK_SKIP=US Run computes nothing but sleeps so many microseconds: what is left is the cost
 * of everything else, for tools that count instructions. With ORT_CLOCK_SWEEP=KIB it reads so much
 * memory instead, as a cell does its weights: the nearer caches are as after a real one, and the
 * time beside it comes by more often; with both it sweeps and then sleeps. */
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 64, MAX_ROWS = 1024, MAX_RANK = 8, WINDOW = 20, MAX_WINDOWS = 8192 };

struct width {
    int64_t calls, run_ns, between_ns, waking_ns;
    int64_t window_ns; /* between, since the last full window */
    int32_t window_count;
    int64_t windows_ns[MAX_WINDOWS];
};

static const OrtApi *real;
static OrtApi api;
static OrtApiBase base;
static const OrtApiBase *real_base;
static int64_t skip_us;                                  /* 0: it computes */
static int64_t sweep_bytes;                              /* 0: it computes */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards: */
static struct width widths[MAX_ROWS + 1];
static int64_t clock_ns;               /* that reading the clock takes */
static _Thread_local int64_t ended_at; /* of this thread's last Run; 0: none */
/* Since then: in writes that wake others; and that with reading the clock around them. */
static _Thread_local int64_t waking_ns, left_out_ns;

static int64_t thread_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t rows_of(const OrtValue *value) {
    OrtTensorTypeAndShapeInfo *info;
    int64_t dims[MAX_RANK] = {0};
    size_t rank = 0;
    if (real->GetTensorTypeAndShape(value, &info) || real->GetDimensionsCount(info, &rank) ||
        rank > MAX_RANK || real->GetDimensions(info, dims, rank))
        abort();
    real->ReleaseTensorTypeAndShapeInfo(info);
    return dims[0] <= MAX_ROWS ? dims[0] : 0;
}

/* Instead of the C library's, where preloaded. */
ssize_t write(int file, const void *bytes, size_t count) {
    bool wakes = ended_at > 0 && count == sizeof(uint64_t); /* of an eventfd */
    int64_t began_at = wakes ? thread_now() : 0;
    ssize_t written = syscall(SYS_write, file, bytes, count);
    if (wakes) {
        int64_t took_ns = thread_now() - began_at;
        waking_ns += took_ns - clock_ns;
        left_out_ns += took_ns + clock_ns;
    }
    return written;
}

static void note(int64_t rows, int64_t run_ns, int64_t between_ns) {
    pthread_mutex_lock(&lock);
    struct width *width = &widths[rows];
    width->calls++;
    width->waking_ns += waking_ns;
    width->run_ns += run_ns;
    width->between_ns += between_ns;
    width->window_ns += between_ns;
    if (width->calls % WINDOW == 0) {
        if (width->window_count < MAX_WINDOWS)
            width->windows_ns[width->window_count++] = width->window_ns;
        width->window_ns = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* As much of the thread's own memory as a cell has weights, in place of them. */
static void sweep(void) {
    static _Thread_local volatile char *weights;
    if (!weights) {
        weights = malloc((size_t)sweep_bytes);
        if (!weights)
            abort();
        memset((char *)weights, 1, (size_t)sweep_bytes);
    }
    char all = 0;
    for (int64_t at = 0; at < sweep_bytes; at += LINE_BYTES)
        all ^= weights[at];
    weights[0] = all; /* a value that is not used is not even read under valgrind */
}

static OrtStatus *ORT_API_CALL run(OrtSession *session, const OrtRunOptions *options,
                                   const char *const *input_names, const OrtValue *const *inputs,
                                   size_t input_count, const char *const *output_names,
                                   size_t output_count, OrtValue **outputs) {
    if (skip_us > 0) {
        if (sweep_bytes > 0)
            sweep();
        nanosleep(&(struct timespec){.tv_nsec = skip_us * 1000}, NULL);
        return NULL;
    }
    int64_t began_at = thread_now();
    OrtStatus *status = NULL;
    if (sweep_bytes > 0)
        sweep();
    else
        status = real->Run(session, options, input_names, inputs, input_count, output_names,
                           output_count, outputs);
    int64_t run_ns = thread_now() - began_at - clock_ns;
    if (ended_at > 0 && input_count > 0)
        note(rows_of(inputs[0]), run_ns, began_at - ended_at - clock_ns - left_out_ns);
    waking_ns = left_out_ns = 0;
    (void)thread_now(); /* so that what reading the clock takes after a Run is not in it */
    ended_at = thread_now();
    return status;
}

static int64_t time_clock(void) {
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < 1000; i++) {
        int64_t before = thread_now();
        int64_t took_ns = thread_now() - before;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return least_ns;
}

static const OrtApi *ORT_API_CALL get_api(uint32_t version) {
    real = real_base->GetApi(version);
    if (!real)
        return NULL;
    api = *real;
    api.Run = run;
    return &api;
}

const OrtApiBase *ORT_API_CALL OrtGetApiBase(void) {
    const char *path = getenv("ORT_CLOCK_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
    if (!symbol) {
        fprintf(stderr, "ort_clock: ORT_CLOCK_LIBRARY must name a libonnxruntime.so\n");
        exit(2);
    }
    const OrtApiBase *(*get_base)(void);
    memcpy(&get_base, &symbol, sizeof(get_base)); /* C has no cast from object to function */
    real_base = get_base();
    base = *real_base;
    base.GetApi = get_api;
    const char *us = getenv("ORT_CLOCK_SKIP");
    skip_us = us ? strtoll(us, NULL, 10) : 0;
    const char *kib = getenv("ORT_CLOCK_SWEEP");
    sweep_bytes = kib ? strtoll(kib, NULL, 10) * 1024 : 0;
    clock_ns = time_clock();
    return &base;
}

static int ascending(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* What a tenth of all windows stays below, per call. */
static int64_t calm_ns(struct width *width) {
    int32_t count = width->window_count;
    qsort(width->windows_ns, (size_t)count, sizeof(width->windows_ns[0]), ascending);
    return count > 0 ? width->windows_ns[count / 10] / WINDOW : width->between_ns / width->calls;
}

__attribute__((destructor)) static void write_widths(void) {
    const char *path = getenv("ORT_CLOCK_OUTPUT");
    FILE *file = path ? fopen(path, "w") : NULL;
    for (int rows = 0; file && rows <= MAX_ROWS; rows++) {
        struct width *width = &widths[rows];
        if (width->calls)
            fprintf(file, "%d %lld %lld %lld %lld %lld\n", rows, (long long)width->calls,
                    (long long)(width->run_ns / width->calls),
                    (long long)(width->between_ns / width->calls), (long long)calm_ns(width),
                    (long long)(width->waking_ns / width->calls));
    }
    if (file)
        fclose(file);
}
