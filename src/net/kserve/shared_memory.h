/* System shared memory (Triton's extension): regions that clients on this host register, from which
 * inputs are read and into which outputs are written.
 *
 * Life of a region: registered under a name, found by requests, unregistered. Each request that
 * uses it holds a reference, so it stays open until the last one is answered.
 *
 * Nothing is mapped: bytes are copied by pread and pwrite. A client that truncates its region while
 * it is in use gets an error, and cannot end the server by a SIGBUS.
 *
 * A client that may register can name every object in /dev/shm that the server's user may read and
 * write. So a server has this table only if it is asked for. Implemented in shared_memory.c. */
#ifndef TT_NET_KSERVE_SHARED_MEMORY_H
#define TT_NET_KSERVE_SHARED_MEMORY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TT_SHARED_REGIONS = 256, TT_SHARED_NAME_BYTES = 256 };

struct tt_shared_memory;
struct tt_shared_region;

/* NULL: no memory. */
struct tt_shared_memory *tt_shared_memory_new(void);
/* No request is left. NULL-safe. */
void tt_shared_memory_free(struct tt_shared_memory *take_self);

/* All of these: any thread. */

/* Opens the object `key` of shm_open(3), of which the region is `size` bytes from `offset` on.
 * INVALID (a name that is in use or too long, a key that is no name of an object, bounds outside of
 * the object), NOT_FOUND (no such object), BUSY (too many regions), IO. */
TT_MUST_CHECK enum tt_err tt_shared_memory_register(struct tt_shared_memory *self, const char *name,
                                                    const char *key, uint64_t offset, uint64_t size,
                                                    struct tt_error *why);
/* "": all. A name that is not registered is none. */
void tt_shared_memory_unregister(struct tt_shared_memory *self, const char *name);
/* Calls `each` for the region of that name (NOT_FOUND: there is none), or for all (""). It must not
 * call this module. */
typedef void tt_shared_memory_each_fn(void *context, const char *name, const char *key,
                                      uint64_t offset, uint64_t size);
TT_MUST_CHECK enum tt_err tt_shared_memory_each(struct tt_shared_memory *self, const char *name,
                                                tt_shared_memory_each_fn *each, void *context,
                                                struct tt_error *why);
/* A reference to the region; its `size` bytes from `offset` on are within it. NOT_FOUND, INVALID.
 */
TT_MUST_CHECK enum tt_err tt_shared_memory_find(struct tt_shared_memory *self, const char *name,
                                                size_t name_bytes, uint64_t offset, uint64_t size,
                                                struct tt_shared_region **out_region,
                                                struct tt_error *why);
void tt_shared_region_unref(struct tt_shared_region *take_region);
const char *tt_shared_region_name(const struct tt_shared_region *self);
/* Within the bounds that _find() checked. INVALID: the object is shorter now. IO. */
TT_MUST_CHECK enum tt_err tt_shared_region_read(const struct tt_shared_region *self,
                                                uint64_t offset, void *to, size_t size,
                                                struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_shared_region_write(const struct tt_shared_region *self,
                                                 uint64_t offset, const void *from, size_t size,
                                                 struct tt_error *why);

#endif
