/* Memory that two processes of one host map: a memfd, whose descriptor one passes to the other.
 *
 * The process that made it seals its size, so that no access of the other can fail. The other maps
 * it only if the seals are there: a region that could shrink would end the process at the next
 * read. Nothing in it is trusted by either side. It exists as long as a process maps it; the end of
 * a process leaves nothing behind.
 *
 * Life: _create or _map -> `bytes` -> _fini. Implemented in memory_region.c. */
#ifndef TT_FLEET_MEMORY_REGION_H
#define TT_FLEET_MEMORY_REGION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_MEMORY_REGION_MAX_BYTES = 1 << 30 };

struct tt_memory_region {
    uint8_t *bytes; /* NULL: none */
    size_t size;
    int fd;           /* to pass on, if `is_owner` */
    bool is_owner;    /* this process made it */
    bool is_borrowed; /* the caller ends the bytes, after the region */
};

/* Zero bytes. `is_ours_to_write`: other processes can only read it. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_memory_region_create(struct tt_memory_region *self, size_t size,
                                                  bool is_ours_to_write, struct tt_error *why);
/* Maps what another process made, and closes the descriptor in any case. Errors: INVALID: it has
 * not this size, or is not sealed; IO. */
TT_MUST_CHECK enum tt_err tt_memory_region_map(struct tt_memory_region *self, int take_fd,
                                               size_t size, bool is_writable, struct tt_error *why);
/* Other memory in its place: of UCX (net/ucx/ucx_memory.h). */
static inline struct tt_memory_region tt_memory_region_borrow(uint8_t *bytes, size_t size) {
    return (struct tt_memory_region){.bytes = bytes, .size = size, .is_borrowed = true};
}
/* Zero-initialized, or unmapped before: nothing. */
void tt_memory_region_fini(struct tt_memory_region *self);

#endif
