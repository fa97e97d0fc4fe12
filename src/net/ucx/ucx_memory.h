/* One-sided access to memory of other processes through UCX.
 *
 * Life of an access:
 *   - the owner of memory makes a region; its address, its key and the address of its process go to
 *     the other process by other means;
 *   - the other process connects an endpoint, unpacks the key, and starts operations;
 *   - an operation's `done` is called once, from _progress: never from the call that started it;
 *   - an endpoint ends when its owner closes it; what is under way then is done as failed.
 *
 * With RDMA or shared memory the owner of a region runs no code for an access. Over other lanes UCX
 * emulates it: the owner must make progress, and _hold keeps it from that, so that a peer can find
 * out (fleet/remote_agreement.c).
 *
 * Endpoints are made in UCX's mode for peers that may fail: operations to a process that ended fail
 * where the network notices it. A peer that is frozen is not noticed.
 *
 * Emulated accesses are carried out by the owner's UCX, late ones also after their endpoint was
 * closed, and without regard to keys. So a region that was given away is kept while UCX makes
 * progress, and UCX trusts its peers: addresses and keys must come from one that has the cluster's
 * key. No socket and no loop of its own. One thread. Implemented in ucx_memory.c. */
#ifndef TT_NET_UCX_MEMORY_H
#define TT_NET_UCX_MEMORY_H

#include "base/list.h"
#include "base/text.h"
#include "net/ucx/ucx_library.h"

/* Memory of this process that others may access. */
struct tt_ucx_region {
    uint8_t *bytes; /* NULL: none */
    size_t size;
    void *memory, *key; /* the key is packed, for others */
    size_t key_bytes;
};

struct tt_ucx;
struct tt_ucx_endpoint;

struct tt_ucx_operation {
    struct tt_list_node node;
    struct tt_ucx_endpoint *endpoint;
    void (*done)(struct tt_ucx_operation *self, bool is_done);
    bool is_done;
};

struct tt_ucx_endpoint {
    struct tt_ucx *ucx;
    struct tt_list_node node; /* in the list of all */
    void *handle;
    int32_t under_way; /* operations, and the end itself */
    bool is_failed, is_closing;
    char why[96]; /* it failed */
    void (*gone)(void *context);
    void *context;
};

struct tt_ucx {
    const struct tt_ucx_library *library;
    void *context, *worker, *address;
    size_t address_bytes;
    int fd; /* readable: call _progress; after _rest returned true */
    struct tt_list endpoints;
    struct tt_list ended; /* operations whose `done` is due */
    bool is_held;
};

/* Errors: UNAVAILABLE: UCX finds nothing to communicate by, or cannot start. */
TT_MUST_CHECK enum tt_err tt_ucx_open(struct tt_ucx *self, const struct tt_ucx_library *library,
                                      struct tt_error *why);
/* No access of others is carried out from now on, so regions can be freed. No endpoint is left, or
 * the process ends. */
void tt_ucx_stop(struct tt_ucx *self);
/* After that, and after all regions. Also of a zero-initialized one. */
void tt_ucx_close(struct tt_ucx *self);
/* Calls what is due. Returns how many operations and endpoints ended. */
int32_t tt_ucx_progress(struct tt_ucx *self);
/* Before the thread waits for `fd`. False: call _progress first. */
TT_MUST_CHECK bool tt_ucx_rest(struct tt_ucx *self);
/* While it is held, emulated accesses of others wait. */
void tt_ucx_hold(struct tt_ucx *self, bool is_held);

/* Bytes of any value. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ucx_region_new(struct tt_ucx *self, size_t size,
                                            struct tt_ucx_region *out_region, struct tt_error *why);
void tt_ucx_region_free(struct tt_ucx *self, struct tt_ucx_region *region); /* zero: nothing */

/* `address` is read before the call returns. Errors: UNAVAILABLE: no lane leads there; NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_ucx_connect(struct tt_ucx *self, const void *address,
                                         struct tt_ucx_endpoint **out_endpoint,
                                         struct tt_error *why);
/* `gone` is called when the last operation is done; the endpoint is freed then. */
void tt_ucx_endpoint_close(struct tt_ucx_endpoint *take_self, void (*gone)(void *context),
                           void *context);
/* Appends the lanes' names, as "posix/memory, tcp/eth0". */
void tt_ucx_endpoint_lanes(struct tt_ucx_endpoint *self, struct tt_text *out);
/* A key is freed when its endpoint is gone. Errors: INVALID. */
TT_MUST_CHECK enum tt_err tt_ucx_key_unpack(struct tt_ucx_endpoint *endpoint, const void *packed,
                                            void **out_key, struct tt_error *why);
void tt_ucx_key_free(struct tt_ucx *self, void *key); /* NULL-safe */

/* `operation->done` is set by the caller. The buffer lies in `region`, and is left alone until it
 * is done. */
void tt_ucx_get(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation,
                const struct tt_ucx_region *region, void *buffer, size_t bytes, uint64_t from,
                void *key);
void tt_ucx_put(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation,
                const struct tt_ucx_region *region, const void *buffer, size_t bytes, uint64_t to,
                void *key);
/* Done when all puts that were started before are in the other process's memory. */
void tt_ucx_flush(struct tt_ucx_endpoint *endpoint, struct tt_ucx_operation *operation);

void tt_ucx_check(const struct tt_ucx *self);

#endif
