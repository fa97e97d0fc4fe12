/* A stand-in for NVIDIA's driver: the functions of libcuda.so.1 that src/device calls, on threads.
 *
 * A stream is a thread with a list of operations; device memory is malloc. Operations check that
 * they touch allocated memory. Like the driver it wants a current context, keeps sticky errors
 * until the primary context is reset, and ends waiting when one happens. A function that it calls
 * on a stream must not call it: that ends the program. Tests make it fail through the symbol
 * `cuda_standin` (cuda_standin.h). With STANDIN_OLD it lacks cuLaunchHostFunc. */
#include "cuda_standin.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    MAX_BLOCKS = 256,
    MAX_FAULTS = 4,
    DISABLE_TIMING = 2, /* a flag of events */
};

enum op_kind { RECORD, WAIT, COPY, FILL, CALL };

struct event {
    uint64_t turns, reached;
    struct event *next; /* of the context's */
    bool is_timed;
    int64_t reached_ns;
};

struct op {
    enum op_kind kind;
    struct event *event;
    uint64_t turn;
    void *to;
    const void *from;
    bool to_device, from_device; /* which of the two is device memory */
    unsigned char value;
    size_t bytes;
    void (*call)(void *context);
    void *context;
    struct op *next;
};

struct stream {
    pthread_t thread;
    struct op *first, *last;
    bool closing;
    struct stream *next; /* of the context's */
};

struct fault {
    char function[64]; /* "": free */
    int skip, result;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int gpu_count, sticky, vanished, operation_fault;
    uintptr_t generation; /* of the primary context; 0: none yet */
    int retained;         /* how often */
    struct fault faults[MAX_FAULTS];
    size_t memory_bytes, used_bytes;
    struct {
        char *first; /* NULL: free */
        size_t bytes;
    } blocks[MAX_BLOCKS];
    void *pinned[MAX_BLOCKS];
    struct stream *streams;
    struct event *events;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER,
            .gpu_count = 1,
            .memory_bytes = 64 << 20};

/* Static thread-local memory: LeakSanitizer mistakes that of libraries which were opened later. */
#define STATIC_LOCAL __attribute__((tls_model("initial-exec"))) _Thread_local
static STATIC_LOCAL uintptr_t current;
static STATIC_LOCAL bool is_in_call; /* a stream's thread runs code of the caller's */

static void lock(void) { pthread_mutex_lock(&driver.lock); }
static void unlock(void) { pthread_mutex_unlock(&driver.lock); }
static void *context(void) { return (void *)driver.generation; }

/* The armed fault of this call, if it is its turn. */
static int take_fault(const char *function) {
    for (int i = 0; i < MAX_FAULTS; i++) {
        struct fault *fault = &driver.faults[i];
        if (strcmp(fault->function, function) != 0)
            continue;
        if (fault->skip-- > 0)
            continue;
        fault->function[0] = '\0';
        return fault->result;
    }
    return SUCCESS;
}

/* Begins a call: takes the lock, and returns the result with which the call ends at once. */
static int begin(const char *function) {
    if (is_in_call) {
        fprintf(stderr, "%s was called by a function that a stream called\n", function);
        abort();
    }
    lock();
    int fault = take_fault(function);
    return fault ? fault : driver.vanished;
}

/* The same for calls that want a current context without a sticky error. */
static int begin_in_context(const char *function) {
    int result = begin(function);
    if (result)
        return result;
    if (driver.sticky)
        return driver.sticky;
    return current && current == driver.generation ? SUCCESS : INVALID_CONTEXT;
}

static int end(int result) {
    unlock();
    return result;
}

/* ---- controls ---- */

/* Everything of the context, as a reset of it or the end of the process does; what hangs was let go
 * before. */
static void destroy_all(void) {
    lock();
    driver.sticky = driver.sticky ? driver.sticky : 1; /* what is left does not happen */
    pthread_cond_broadcast(&driver.changed);
    while (driver.streams) {
        struct stream *stream = driver.streams;
        driver.streams = stream->next;
        stream->closing = true;
        pthread_cond_broadcast(&driver.changed);
        unlock();
        pthread_join(stream->thread, NULL);
        free(stream);
        lock();
    }
    while (driver.events) {
        struct event *event = driver.events;
        driver.events = event->next;
        free(event);
    }
    for (int i = 0; i < MAX_BLOCKS; i++) {
        free(driver.blocks[i].first);
        driver.blocks[i].first = NULL;
        free(driver.pinned[i]);
        driver.pinned[i] = NULL;
    }
    driver.used_bytes = 0;
    driver.sticky = driver.retained = 0;
    unlock();
}

static size_t standin_end_process(void) {
    lock();
    size_t bytes = driver.used_bytes;
    unlock();
    destroy_all();
    return bytes;
}

static void standin_reset(int gpu_count, size_t memory_bytes) {
    lock();
    assert(driver.used_bytes == 0);
    driver.gpu_count = gpu_count;
    driver.memory_bytes = memory_bytes;
    driver.sticky = driver.vanished = driver.operation_fault = 0;
    memset(driver.faults, 0, sizeof(driver.faults));
    unlock();
}

static void standin_fail_call(const char *function, int skip, int result) {
    lock();
    struct fault *fault = driver.faults;
    while (fault->function[0])
        fault++;
    assert(fault < driver.faults + MAX_FAULTS);
    strncpy(fault->function, function, sizeof(fault->function) - 1);
    fault->skip = skip;
    fault->result = result;
    unlock();
}

static void standin_fail_operation(int result) {
    lock();
    driver.operation_fault = result;
    unlock();
}

static void standin_break_context(int result) {
    lock();
    driver.sticky = result;
    pthread_cond_broadcast(&driver.changed);
    unlock();
}

static void standin_vanish(int result) {
    lock();
    driver.vanished = result;
    if (result)
        driver.sticky = result;
    pthread_cond_broadcast(&driver.changed);
    unlock();
}

static int standin_all_happened(void) {
    lock();
    bool left = driver.operation_fault != 0;
    for (int i = 0; i < MAX_FAULTS; i++)
        left = left || driver.faults[i].function[0];
    return end(!left);
}

extern const struct cuda_standin cuda_standin;
const struct cuda_standin cuda_standin = {
    .reset = standin_reset,
    .fail_call = standin_fail_call,
    .fail_operation = standin_fail_operation,
    .break_context = standin_break_context,
    .vanish = standin_vanish,
    .all_happened = standin_all_happened,
    .end_process = standin_end_process,
};

/* ---- a stream's thread ---- */

/* Under the lock. */
static bool is_allocated(const char *first, size_t bytes) {
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (driver.blocks[i].first && first >= driver.blocks[i].first &&
            first + bytes <= driver.blocks[i].first + driver.blocks[i].bytes)
            return true;
    return false;
}

/* True: the operation may touch its memory. Under the lock. */
static bool may_move(const struct op *op) {
    int result = driver.operation_fault;
    driver.operation_fault = 0;
    if (!result && op->to_device && !is_allocated(op->to, op->bytes))
        result = ILLEGAL_ADDRESS;
    if (!result && op->from_device && !is_allocated(op->from, op->bytes))
        result = ILLEGAL_ADDRESS;
    if (result) {
        driver.sticky = result;
        pthread_cond_broadcast(&driver.changed);
    }
    return result == 0;
}

static void run_call(const struct op *op) {
    is_in_call = true;
    op->call(op->context);
    is_in_call = false;
}

/* Under the lock, which is given up while memory moves and code of the caller's runs. */
static void execute(const struct op *op) {
    if (op->kind == RECORD) {
        if (op->event->reached < op->turn)
            op->event->reached = op->turn;
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        op->event->reached_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        pthread_cond_broadcast(&driver.changed);
    } else if (op->kind == WAIT) {
        while (op->event->reached < op->turn && !driver.sticky)
            pthread_cond_wait(&driver.changed, &driver.lock);
    } else if (op->kind == CALL || may_move(op)) {
        unlock();
        if (op->kind == COPY)
            memcpy(op->to, op->from, op->bytes);
        else if (op->kind == FILL)
            memset(op->to, op->value, op->bytes);
        else
            run_call(op);
        lock();
    }
}

static void *stream_main(void *argument) {
    struct stream *self = argument;
    lock();
    while (self->first || !self->closing) {
        struct op *op = self->first;
        if (!op) {
            pthread_cond_wait(&driver.changed, &driver.lock);
            continue;
        }
        if (!driver.sticky)
            execute(op);
        self->first = op->next;
        free(op);
        pthread_cond_broadcast(&driver.changed);
    }
    unlock();
    return NULL;
}

/* Ends a call of the function: puts the operation on the stream, or returns why not. */
static int submit(const char *function, void *native, const struct op *op) {
    struct stream *stream = native;
    int result = begin_in_context(function);
    if (result)
        return end(result);
    struct op *copy = malloc(sizeof(*copy));
    *copy = *op;
    copy->next = NULL;
    if (op->kind == RECORD)
        copy->turn = ++op->event->turns;
    if (op->kind == WAIT)
        copy->turn = op->event->turns;
    if (stream->first)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    pthread_cond_broadcast(&driver.changed);
    return end(SUCCESS);
}

/* ---- the driver's functions ---- */

#define STANDIN(name, ...)                                                                         \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)

STANDIN(cuInit, unsigned flags) {
    int result = begin(__func__);
    const char *memory_mb = getenv("TUTTI_STANDIN_MEMORY_MB"); /* for programs; else 1 */
    if (memory_mb)
        driver.memory_bytes = (size_t)strtoul(memory_mb, NULL, 10) << 20;
    return end(flags ? INVALID_VALUE : result);
}

STANDIN(cuGetErrorName, int result, const char **out_name) {
    static const struct {
        int result;
        const char *name;
    } names[] = {{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                 {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                 {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].result == result) {
            *out_name = names[i].name;
            return SUCCESS;
        }
    *out_name = NULL;
    return INVALID_VALUE;
}

STANDIN(cuDeviceGetCount, int *out_count) {
    int result = begin(__func__);
    if (!result)
        *out_count = driver.gpu_count;
    return end(result);
}

STANDIN(cuDeviceGet, int *out_device, int index) {
    int result = begin(__func__);
    *out_device = index;
    return end(result);
}

STANDIN(cuDeviceGetName, char *out_name, int capacity, int device) {
    int result = begin(__func__);
    (void)device;
    strncpy(out_name, "stand-in", (size_t)capacity);
    return end(result);
}

STANDIN(cuDeviceTotalMem_v2, size_t *out_bytes, int device) {
    int result = begin(__func__);
    (void)device;
    *out_bytes = driver.memory_bytes;
    return end(result);
}

STANDIN(cuDeviceGetAttribute, int *out_value, int attribute, int device) {
    int result = begin(__func__);
    (void)device;
    *out_value = attribute == 40 ? 2 : 0;
    return end(result);
}

STANDIN(cuDevicePrimaryCtxRetain, void **out_context, int device) {
    int result = begin(__func__);
    (void)device;
    if (!result) {
        if (driver.retained++ == 0)
            driver.generation++;
        *out_context = context();
    }
    return end(result);
}

STANDIN(cuDevicePrimaryCtxRelease_v2, int device) {
    int result = begin(__func__);
    (void)device;
    driver.retained -= driver.retained > 0;
    return end(result);
}

STANDIN(cuDevicePrimaryCtxReset_v2, int device) {
    int result = begin(__func__);
    (void)device;
    unlock();
    if (!result)
        destroy_all();
    return result;
}

STANDIN(cuCtxSetCurrent, void *wanted) {
    int result = begin(__func__);
    if (!result)
        current = (uintptr_t)wanted;
    return end(result);
}

STANDIN(cuMemAlloc_v2, uint64_t *out_address, size_t bytes) {
    int result = begin_in_context(__func__);
    if (!result && driver.used_bytes + bytes > driver.memory_bytes)
        result = OUT_OF_MEMORY;
    if (result)
        return end(result);
    int i = 0;
    while (driver.blocks[i].first)
        i++;
    assert(i < MAX_BLOCKS);
    driver.blocks[i].first = aligned_alloc(256, (bytes + 255) / 256 * 256);
    driver.blocks[i].bytes = bytes;
    driver.used_bytes += bytes;
    *out_address = (uint64_t)(uintptr_t)driver.blocks[i].first;
    return end(SUCCESS);
}

/* Frees also with a sticky error: so nothing is left for the reset. */
STANDIN(cuMemFree_v2, uint64_t address) {
    int result = begin(__func__);
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (driver.blocks[i].first && (uint64_t)(uintptr_t)driver.blocks[i].first == address) {
            driver.used_bytes -= driver.blocks[i].bytes;
            free(driver.blocks[i].first);
            driver.blocks[i].first = NULL;
            return end(result);
        }
    return end(result ? result : INVALID_VALUE);
}

STANDIN(cuMemGetInfo_v2, size_t *out_free, size_t *out_total) {
    int result = begin_in_context(__func__);
    *out_free = driver.memory_bytes - driver.used_bytes;
    *out_total = driver.memory_bytes;
    return end(result);
}

STANDIN(cuMemHostAlloc, void **out_bytes, size_t bytes, unsigned flags) {
    int result = begin_in_context(__func__);
    (void)flags;
    int i = 0;
    while (!result && driver.pinned[i])
        i++;
    assert(i < MAX_BLOCKS);
    if (!result)
        *out_bytes = driver.pinned[i] = calloc(1, bytes);
    return end(result);
}

STANDIN(cuMemFreeHost, void *bytes) {
    int result = begin(__func__);
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (driver.pinned[i] == bytes)
            driver.pinned[i] = NULL;
    free(bytes);
    return end(result);
}

STANDIN(cuStreamCreate, void **out_stream, unsigned flags) {
    int result = begin_in_context(__func__);
    (void)flags;
    if (!result) {
        struct stream *stream = calloc(1, sizeof(*stream));
        pthread_create(&stream->thread, NULL, stream_main, stream);
        stream->next = driver.streams;
        driver.streams = stream;
        *out_stream = stream;
    }
    return end(result);
}

STANDIN(cuStreamDestroy_v2, void *native) {
    struct stream *stream = native;
    int result = begin(__func__);
    struct stream **at = &driver.streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->closing = true;
    pthread_cond_broadcast(&driver.changed);
    unlock();
    pthread_join(stream->thread, NULL);
    free(stream);
    return result;
}

STANDIN(cuStreamSynchronize, void *native) {
    const struct stream *stream = native;
    int result = begin_in_context(__func__);
    while (!result && stream->first) {
        pthread_cond_wait(&driver.changed, &driver.lock);
        result = driver.sticky;
    }
    return end(result);
}

STANDIN(cuEventCreate, void **out_event, unsigned flags) {
    int result = begin_in_context(__func__);
    if (!result) {
        struct event *event = calloc(1, sizeof(*event));
        event->is_timed = !(flags & DISABLE_TIMING);
        event->next = driver.events;
        driver.events = event;
        *out_event = event;
    }
    return end(result);
}

STANDIN(cuEventDestroy_v2, void *native) {
    int result = begin(__func__);
    struct event **at = &driver.events, *event = native;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    free(event);
    return end(result);
}

STANDIN(cuEventRecord, void *event, void *stream) {
    return submit(__func__, stream, &(struct op){.kind = RECORD, .event = event});
}

STANDIN(cuStreamWaitEvent, void *stream, void *event, unsigned flags) {
    (void)flags;
    return submit(__func__, stream, &(struct op){.kind = WAIT, .event = event});
}

STANDIN(cuEventQuery, void *native) {
    const struct event *event = native;
    int result = begin_in_context(__func__);
    return end(result ? result : event->reached < event->turns ? NOT_READY : SUCCESS);
}

STANDIN(cuEventElapsedTime, float *out_ms, void *native_begin, void *native_end) {
    const struct event *first = native_begin, *last = native_end;
    int result = begin_in_context(__func__);
    if (!result && (!first->is_timed || !last->is_timed || !first->turns || !last->turns))
        result = INVALID_HANDLE;
    if (!result && (first->reached < first->turns || last->reached < last->turns))
        result = NOT_READY;
    if (!result)
        *out_ms = (float)((double)(last->reached_ns - first->reached_ns) / 1e6);
    return end(result);
}

STANDIN(cuEventSynchronize, void *native) {
    const struct event *event = native;
    int result = begin_in_context(__func__);
    uint64_t turn = event->turns;
    while (!result && event->reached < turn) {
        pthread_cond_wait(&driver.changed, &driver.lock);
        result = driver.sticky;
    }
    return end(result);
}

STANDIN(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, void *stream) {
    const struct op op = {
        .kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes, .to_device = true};
    return submit(__func__, stream, &op);
}

STANDIN(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes, void *stream) {
    const struct op op = {.kind = COPY,
                          .to = to,
                          .from = (void *)(uintptr_t)from,
                          .bytes = bytes,
                          .from_device = true};
    return submit(__func__, stream, &op);
}

STANDIN(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void *stream) {
    const struct op op = {.kind = COPY,
                          .to = (void *)(uintptr_t)to,
                          .from = (void *)(uintptr_t)from,
                          .bytes = bytes,
                          .to_device = true,
                          .from_device = true};
    return submit(__func__, stream, &op);
}

STANDIN(cuMemsetD8Async, uint64_t to, unsigned char value, size_t bytes, void *stream) {
    const struct op op = {.kind = FILL,
                          .to = (void *)(uintptr_t)to,
                          .value = value,
                          .bytes = bytes,
                          .to_device = true};
    return submit(__func__, stream, &op);
}

#ifndef STANDIN_OLD
STANDIN(cuLaunchHostFunc, void *stream, void (*call)(void *context), void *call_context) {
    return submit(__func__, stream,
                  &(struct op){.kind = CALL, .call = call, .context = call_context});
}
#endif
