/* The functions of UCX (libucp.so.0) that we call, found at run time.
 *
 * UCX reaches memory of other machines through RDMA where there is a device for it. Few machines
 * have one, so a program must not need the library: it is loaded on request, and stays loaded until
 * the process ends. No header of UCX is needed; types and numbers that we use are declared here, as
 * they are since UCX 1.12. Each struct that UCX reads begins with a mask of the fields that are
 * valid, so later versions accept ours. tests/unit/net/test_ucx_layout.c compares them with UCX's
 * headers where these are installed.
 *
 * Implemented in ucx_library.c. */
#ifndef TT_NET_UCX_LIBRARY_H
#define TT_NET_UCX_LIBRARY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TT_UCX_MAJOR = 1, TT_UCX_MINOR = 12 };

/* UCX's status is one byte wide: 0, 1, or a negative error. */
typedef int8_t tt_ucx_status;
enum { TT_UCX_OK = 0, TT_UCX_IN_PROGRESS = 1, TT_UCX_NO_MEMORY = -4, TT_UCX_BUSY = -15 };
enum { TT_UCX_LOWEST_STATUS = -100 };

enum { TT_UCX_PARAMS_FEATURES = 1 << 0 };
enum { TT_UCX_FEATURE_RMA = 1 << 1, TT_UCX_FEATURE_WAKEUP = 1 << 4 };
struct tt_ucx_params {
    uint64_t mask, features;
    size_t request_bytes;
    void (*request_init)(void *request);
    void (*request_cleanup)(void *request);
    uint64_t tag_sender_mask;
    int workers_are_shared;
    size_t endpoint_count, processes_per_node;
    const char *name;
};

enum { TT_UCX_WORKER_THREAD_MODE = 1 << 0 };
enum { TT_UCX_THREAD_SERIALIZED = 1 };
struct tt_ucx_worker_params {
    uint64_t mask;
    int thread_mode;
    uint64_t processors[16];
    unsigned events;
    void *user;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t alignment;
    uint64_t client_id;
};

enum {
    TT_UCX_MEMORY_ADDRESS = 1 << 0,
    TT_UCX_MEMORY_LENGTH = 1 << 1,
    TT_UCX_MEMORY_FLAGS = 1 << 2,
};
enum { TT_UCX_MEMORY_ALLOCATE = 1 << 1 };
struct tt_ucx_memory_params {
    uint64_t mask;
    void *address;
    size_t length;
    unsigned flags, protection;
    int kind;
};
struct tt_ucx_memory_attributes {
    uint64_t mask;
    void *address;
    size_t length;
    int kind;
};

struct tt_ucx_socket_address {
    const void *address;
    uint32_t length;
};
enum {
    TT_UCX_ENDPOINT_ADDRESS = 1 << 0,
    TT_UCX_ENDPOINT_ERROR_MODE = 1 << 1,
    TT_UCX_ENDPOINT_ERROR_HANDLER = 1 << 2,
};
enum { TT_UCX_ERROR_MODE_PEER = 1 };
struct tt_ucx_endpoint_params {
    uint64_t mask;
    const void *address;
    int error_mode;
    void (*on_error)(void *context, void *endpoint, tt_ucx_status status);
    void *context;
    void *user;
    unsigned flags;
    struct tt_ucx_socket_address remote;
    void *connection_request;
    const char *name;
    struct tt_ucx_socket_address local;
};

enum {
    TT_UCX_REQUEST_CALLBACK = 1 << 1,
    TT_UCX_REQUEST_USER = 1 << 2,
    TT_UCX_REQUEST_FLAGS = 1 << 4,
    TT_UCX_REQUEST_MEMORY = 1 << 8,
};
enum { TT_UCX_CLOSE_FORCE = 1 << 0 };
struct tt_ucx_request_params {
    uint32_t mask, flags;
    void *request;
    void (*done)(void *request, tt_ucx_status status, void *user);
    uint64_t datatype;
    void *user, *reply;
    int memory_kind;
    void *received;
    void *memory;
};

/* Result, name in the library, parameters. What a `void *` that is a result may be instead of a
 * request: tt_ucx_result(). */
#define TT_UCX_FUNCTIONS(X)                                                                        \
    X(void, ucp_get_version, unsigned *out_major, unsigned *out_minor, unsigned *out_patch)        \
    X(tt_ucx_status, ucp_config_read, const char *prefix, const char *file, void **out_config)     \
    X(void, ucp_config_release, void *config)                                                      \
    X(tt_ucx_status, ucp_init_version, unsigned major, unsigned minor,                             \
      const struct tt_ucx_params *params, const void *config, void **out_context)                  \
    X(void, ucp_cleanup, void *context)                                                            \
    X(tt_ucx_status, ucp_worker_create, void *context, const struct tt_ucx_worker_params *params,  \
      void **out_worker)                                                                           \
    X(void, ucp_worker_destroy, void *worker)                                                      \
    X(tt_ucx_status, ucp_worker_get_efd, void *worker, int *out_fd)                                \
    X(tt_ucx_status, ucp_worker_arm, void *worker)                                                 \
    X(unsigned, ucp_worker_progress, void *worker)                                                 \
    X(tt_ucx_status, ucp_worker_get_address, void *worker, void **out_address, size_t *out_bytes)  \
    X(void, ucp_worker_release_address, void *worker, void *address)                               \
    X(tt_ucx_status, ucp_mem_map, void *context, const struct tt_ucx_memory_params *params,        \
      void **out_memory)                                                                           \
    X(tt_ucx_status, ucp_mem_query, const void *memory,                                            \
      struct tt_ucx_memory_attributes *attributes)                                                 \
    X(tt_ucx_status, ucp_mem_unmap, void *context, void *memory)                                   \
    X(tt_ucx_status, ucp_rkey_pack, void *context, void *memory, void **out_key,                   \
      size_t *out_bytes)                                                                           \
    X(void, ucp_rkey_buffer_release, void *key)                                                    \
    X(tt_ucx_status, ucp_ep_create, void *worker, const struct tt_ucx_endpoint_params *params,     \
      void **out_endpoint)                                                                         \
    X(void *, ucp_ep_close_nbx, void *endpoint, const struct tt_ucx_request_params *params)        \
    X(void *, ucp_ep_flush_nbx, void *endpoint, const struct tt_ucx_request_params *params)        \
    X(void, ucp_ep_print_info, void *endpoint, FILE *out)                                          \
    X(tt_ucx_status, ucp_ep_rkey_unpack, void *endpoint, const void *key, void **out_key)          \
    X(void, ucp_rkey_destroy, void *key)                                                           \
    X(void *, ucp_get_nbx, void *endpoint, void *buffer, size_t bytes, uint64_t from, void *key,   \
      const struct tt_ucx_request_params *params)                                                  \
    X(void *, ucp_put_nbx, void *endpoint, const void *buffer, size_t bytes, uint64_t to,          \
      void *key, const struct tt_ucx_request_params *params)                                       \
    X(void, ucp_request_free, void *request)                                                       \
    X(const char *, ucs_status_string, tt_ucx_status status)

struct tt_ucx_library {
#define TT_UCX_MEMBER(result, name, ...) result (*name)(__VA_ARGS__);
    TT_UCX_FUNCTIONS(TT_UCX_MEMBER)
#undef TT_UCX_MEMBER
    unsigned major, minor; /* of the library that was loaded */
};

/* Loads `path`, or libucp.so.0 if it is NULL. It sets environment variables that UCX reads, unless
 * they are set: no signal handlers, no hooks into the allocator, shared memory for peers that may
 * end. So only one thread may run. Errors: NOT_FOUND: no library; UNSUPPORTED: it is too old. */
TT_MUST_CHECK enum tt_err tt_ucx_library_load(const char *path, struct tt_ucx_library *out_library,
                                              struct tt_error *why);
/* What a function that starts an operation returned: TT_UCX_OK, TT_UCX_IN_PROGRESS (it is a
 * request), or an error. */
tt_ucx_status tt_ucx_result(const void *returned);

#endif
