/* A stand-in for UCX, of this process: the functions that we call, over plain memory. Accesses are
 * one-sided, and end at once or at the next progress of the side that started them; or they are
 * emulated, and wait for progress of the memory's owner. They fail on request. Keys bound what may
 * be accessed, as RDMA's do.
 *
 * All functions are inline; there is no .c file. One thread. */
#ifndef TT_TESTS_UCX_STAND_IN_H
#define TT_TESTS_UCX_STAND_IN_H

#include "net/ucx/ucx_library.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STAND_IN_ERROR = -3, STAND_IN_CANCELLED = -16 };

/* What tests set and look at. */
static struct stand_in {
    bool is_emulated, is_slow; /* slow: nothing ends at once */
    bool refuses_endpoints;
    int32_t gets_until_failure, puts_until_failure; /* 1: the next one fails; 0: none does */
    bool fails_flushes;
    int32_t gets, puts, flushes, regions, keys, endpoints, workers, requests; /* made, or alive */
} stand_in;

struct stand_in_worker;

struct stand_in_request {
    struct stand_in_request *next;
    struct stand_in_endpoint *endpoint;
    void (*done)(void *request, tt_ucx_status status, void *user);
    void *user;
    void *to;
    const void *from;
    size_t bytes;
    tt_ucx_status status;
    bool is_put, closes; /* closes: the endpoint */
    uint8_t *late;       /* carried out although its endpoint is closed: from or to these bytes */
};

struct stand_in_worker {
    int fd;
    struct stand_in_request *asked; /* of others, for this one's progress */
    struct stand_in_request *ended; /* its own; the oldest first */
};

struct stand_in_endpoint {
    struct stand_in_worker *owner, *target;
};

struct stand_in_region {
    uint8_t *bytes;
    size_t size;
};

static inline void stand_in_add(struct stand_in_request **list, struct stand_in_request *request) {
    while (*list)
        list = &(*list)->next;
    request->next = NULL;
    *list = request;
}

static inline struct stand_in_request *stand_in_take(struct stand_in_request **list) {
    struct stand_in_request *request = *list;
    if (request)
        *list = request->next;
    return request;
}

static void stand_in_ucp_get_version(unsigned *out_major, unsigned *out_minor,
                                     unsigned *out_patch) {
    *out_major = TT_UCX_MAJOR;
    *out_minor = TT_UCX_MINOR;
    *out_patch = 0;
}

static tt_ucx_status stand_in_ucp_config_read(const char *prefix, const char *file,
                                              void **out_config) {
    (void)prefix;
    (void)file;
    *out_config = NULL;
    return TT_UCX_OK;
}

static void stand_in_ucp_config_release(void *config) { (void)config; }

static tt_ucx_status stand_in_ucp_init_version(unsigned major, unsigned minor,
                                               const struct tt_ucx_params *params,
                                               const void *config, void **out_context) {
    (void)major;
    (void)minor;
    (void)params;
    (void)config;
    *out_context = &stand_in;
    return TT_UCX_OK;
}

static void stand_in_ucp_cleanup(void *context) { (void)context; }

static tt_ucx_status stand_in_ucp_worker_create(void *context,
                                                const struct tt_ucx_worker_params *params,
                                                void **out_worker) {
    (void)context;
    (void)params;
    struct stand_in_worker *worker = calloc(1, sizeof(*worker));
    worker->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    stand_in.workers++;
    *out_worker = worker;
    return TT_UCX_OK;
}

static void stand_in_ucp_worker_destroy(void *handle) {
    struct stand_in_worker *worker = handle;
    for (struct stand_in_request *late; (late = stand_in_take(&worker->asked));) {
        free(late->late);
        free(late);
    }
    close(worker->fd);
    free(worker);
    stand_in.workers--;
}

static tt_ucx_status stand_in_ucp_worker_get_efd(void *handle, int *out_fd) {
    *out_fd = ((struct stand_in_worker *)handle)->fd;
    return TT_UCX_OK;
}

static tt_ucx_status stand_in_ucp_worker_arm(void *handle) {
    const struct stand_in_worker *worker = handle;
    return worker->asked || worker->ended ? TT_UCX_BUSY : TT_UCX_OK;
}

static unsigned stand_in_ucp_worker_progress(void *handle) {
    struct stand_in_worker *worker = handle;
    unsigned count = 0;
    for (struct stand_in_request *request; (request = stand_in_take(&worker->asked)); count++) {
        if (request->bytes > 0)
            memcpy(request->to, request->from, request->bytes);
        if (!request->late) {
            stand_in_add(&request->endpoint->owner->ended, request);
            continue;
        }
        free(request->late);
        free(request);
    }
    for (struct stand_in_request *request; (request = stand_in_take(&worker->ended)); count++)
        request->done(request, request->status, request->user);
    return count;
}

static tt_ucx_status stand_in_ucp_worker_get_address(void *handle, void **out_address,
                                                     size_t *out_bytes) {
    *out_address = malloc(sizeof(handle));
    memcpy(*out_address, &handle, sizeof(handle));
    *out_bytes = sizeof(handle);
    return TT_UCX_OK;
}

static void stand_in_ucp_worker_release_address(void *worker, void *address) {
    (void)worker;
    free(address);
}

static tt_ucx_status stand_in_ucp_mem_map(void *context, const struct tt_ucx_memory_params *params,
                                          void **out_memory) {
    (void)context;
    struct stand_in_region *region = calloc(1, sizeof(*region));
    *region = (struct stand_in_region){.bytes = aligned_alloc(64, (params->length + 63) / 64 * 64),
                                       .size = params->length};
    stand_in.regions++;
    *out_memory = region;
    return TT_UCX_OK;
}

static tt_ucx_status stand_in_ucp_mem_query(const void *memory,
                                            struct tt_ucx_memory_attributes *attributes) {
    const struct stand_in_region *region = memory;
    attributes->address = region->bytes;
    attributes->length = region->size;
    return TT_UCX_OK;
}

static tt_ucx_status stand_in_ucp_mem_unmap(void *context, void *memory) {
    (void)context;
    struct stand_in_region *region = memory;
    free(region->bytes);
    free(region);
    stand_in.regions--;
    return TT_UCX_OK;
}

static tt_ucx_status stand_in_ucp_rkey_pack(void *context, void *memory, void **out_key,
                                            size_t *out_bytes) {
    (void)context;
    *out_key = malloc(sizeof(struct stand_in_region));
    memcpy(*out_key, memory, sizeof(struct stand_in_region));
    *out_bytes = sizeof(struct stand_in_region);
    return TT_UCX_OK;
}

static void stand_in_ucp_rkey_buffer_release(void *key) { free(key); }

static tt_ucx_status stand_in_ucp_ep_create(void *worker,
                                            const struct tt_ucx_endpoint_params *params,
                                            void **out_endpoint) {
    struct stand_in_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    endpoint->owner = worker;
    memcpy(&endpoint->target, params->address, sizeof(endpoint->target));
    if (stand_in.refuses_endpoints) {
        free(endpoint);
        return STAND_IN_ERROR;
    }
    stand_in.endpoints++;
    *out_endpoint = endpoint;
    return TT_UCX_OK;
}

static struct stand_in_request *stand_in_request(struct stand_in_endpoint *endpoint,
                                                 const struct tt_ucx_request_params *params) {
    struct stand_in_request *request = calloc(1, sizeof(*request));
    *request =
        (struct stand_in_request){.endpoint = endpoint, .done = params->done, .user = params->user};
    stand_in.requests++;
    return request;
}

/* An emulated access that is on its way to the owner of the memory arrives there later. */
static void stand_in_leave_behind(struct stand_in_request *request,
                                  struct stand_in_request **asked) {
    struct stand_in_request *late = calloc(1, sizeof(*late));
    *late = *request;
    late->late = malloc(request->bytes + 1);
    if (request->is_put) {
        memcpy(late->late, request->from, request->bytes);
        late->from = late->late;
    } else {
        late->to = late->late;
    }
    stand_in_add(asked, late);
}

/* What is under way ends before the endpoint does. */
static void *stand_in_ucp_ep_close_nbx(void *handle, const struct tt_ucx_request_params *params) {
    struct stand_in_endpoint *endpoint = handle;
    struct stand_in_request *kept = NULL;
    for (struct stand_in_request *request; (request = stand_in_take(&endpoint->target->asked));) {
        bool is_ours = request->endpoint == endpoint && !request->late;
        if (is_ours && request->bytes > 0)
            stand_in_leave_behind(request, &kept);
        request->status = is_ours ? STAND_IN_CANCELLED : request->status;
        stand_in_add(is_ours ? &endpoint->owner->ended : &kept, request);
    }
    endpoint->target->asked = kept;
    struct stand_in_request *request = stand_in_request(endpoint, params);
    request->closes = true;
    stand_in_add(&endpoint->owner->ended, request);
    return request;
}

/* It ends at once, at the owner's progress, or at the target's. */
static void *stand_in_begin(struct stand_in_endpoint *endpoint,
                            const struct tt_ucx_request_params *params, void *to, const void *from,
                            size_t bytes, bool is_put, tt_ucx_status status) {
    if (!stand_in.is_slow && !stand_in.is_emulated) {
        if (status == TT_UCX_OK && bytes > 0)
            memcpy(to, from, bytes);
        return (void *)(intptr_t)status;
    }
    struct stand_in_request *request = stand_in_request(endpoint, params);
    request->status = status;
    request->to = to;
    request->from = from;
    request->is_put = is_put;
    request->bytes = status == TT_UCX_OK ? bytes : 0;
    if (!stand_in.is_emulated && request->bytes > 0)
        memcpy(to, from, bytes);
    stand_in_add(stand_in.is_emulated ? &endpoint->target->asked : &endpoint->owner->ended,
                 request);
    return request;
}

static void *stand_in_ucp_ep_flush_nbx(void *handle, const struct tt_ucx_request_params *params) {
    stand_in.flushes++;
    return stand_in_begin(handle, params, NULL, NULL, 0, false,
                          stand_in.fails_flushes ? STAND_IN_ERROR : TT_UCX_OK);
}

static void stand_in_ucp_ep_print_info(void *endpoint, FILE *out) {
    (void)endpoint;
    fprintf(out, "#\n#  lane[0]:  3:%s md[1] -> md[1] rma\n#  lane[1]:  4:%s md[2] -> am\n",
            stand_in.is_emulated ? "slow/eth7.0" : "fast/mem0.0", "aux/eth7.0");
}

static tt_ucx_status stand_in_ucp_ep_rkey_unpack(void *endpoint, const void *packed,
                                                 void **out_key) {
    (void)endpoint;
    *out_key = malloc(sizeof(struct stand_in_region));
    memcpy(*out_key, packed, sizeof(struct stand_in_region));
    stand_in.keys++;
    return TT_UCX_OK;
}

static void stand_in_ucp_rkey_destroy(void *key) {
    free(key);
    stand_in.keys--;
}

static bool stand_in_is_within(const struct stand_in_region *key, uint64_t at, size_t bytes) {
    uint64_t first = (uint64_t)(uintptr_t)key->bytes;
    return at >= first && at - first <= key->size && bytes <= key->size - (at - first);
}

static tt_ucx_status stand_in_status(const void *key, uint64_t at, size_t bytes,
                                     int32_t *until_failure) {
    bool fails = *until_failure > 0 && --*until_failure == 0;
    return fails || !stand_in_is_within(key, at, bytes) ? STAND_IN_ERROR : TT_UCX_OK;
}

static void *stand_in_ucp_get_nbx(void *endpoint, void *buffer, size_t bytes, uint64_t from,
                                  void *key, const struct tt_ucx_request_params *params) {
    stand_in.gets++;
    return stand_in_begin(endpoint, params, buffer, (const void *)(uintptr_t)from, bytes, false,
                          stand_in_status(key, from, bytes, &stand_in.gets_until_failure));
}

static void *stand_in_ucp_put_nbx(void *endpoint, const void *buffer, size_t bytes, uint64_t to,
                                  void *key, const struct tt_ucx_request_params *params) {
    stand_in.puts++;
    return stand_in_begin(endpoint, params, (void *)(uintptr_t)to, buffer, bytes, true,
                          stand_in_status(key, to, bytes, &stand_in.puts_until_failure));
}

/* An endpoint is freed with the request that closed it. */
static void stand_in_ucp_request_free(void *handle) {
    struct stand_in_request *request = handle;
    if (request->closes) {
        stand_in.endpoints--;
        free(request->endpoint);
    }
    stand_in.requests--;
    free(request);
}

static const char *stand_in_ucs_status_string(tt_ucx_status status) {
    return status == STAND_IN_ERROR ? "a fault of the stand-in" : "another one";
}

static inline struct tt_ucx_library stand_in_library(void) {
    struct tt_ucx_library library = {.major = TT_UCX_MAJOR, .minor = TT_UCX_MINOR};
#define STAND_IN_BIND(result, name, ...) library.name = stand_in_##name;
    TT_UCX_FUNCTIONS(STAND_IN_BIND)
#undef STAND_IN_BIND
    return library;
}

#endif
