/* The memory of a device without hardware of its own (host, emulated).
 *
 * Addresses lie in a range of the address space that no access is allowed to. So host code that
 * dereferences an address of the device stops at once, in every build. The bytes lie elsewhere, and
 * only operations of the device reach them, by tt_async_arena_bytes(). Under AddressSanitizer bytes
 * of no region are poisoned, and there is a gap between regions. Memory that no operation touched
 * takes no room. Any thread. Implemented in async_arena.c. */
#ifndef TT_DEVICE_ASYNC_ARENA_H
#define TT_DEVICE_ASYNC_ARENA_H

#include "base/err.h"
#include "base/threads/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_async_region {
    uint64_t first; /* offset from the beginning of the arena */
    uint64_t bytes;
};

struct tt_async_arena {
    struct tt_lock lock;
    char *addresses; /* what the device's addresses are; never accessed */
    char *bytes;     /* what they mean */
    uint64_t size, used;
    struct tt_async_region *regions; /* by address */
    int32_t count, capacity;
};

enum { TT_ASYNC_ALIGNMENT = 256 };

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_arena_init(struct tt_async_arena *self, uint64_t size,
                                              struct tt_error *why);
void tt_async_arena_fini(struct tt_async_arena *self);
/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_arena_reserve(struct tt_async_arena *self, size_t bytes,
                                                 uint64_t *out_address, struct tt_error *why);
/* `address` came from _reserve. */
void tt_async_arena_release(struct tt_async_arena *self, uint64_t address);
/* Where the bytes [address, address + bytes) are; NULL: they are not in one region. */
void *tt_async_arena_bytes(struct tt_async_arena *self, uint64_t address, size_t bytes);

#endif
