/* Memory for objects of one size that come and go with every request: a limited number of free ones
 * is kept, so that a warm thread allocates none. Larger objects than an allocator keeps by itself
 * gain most.
 *
 * Life: init; objects are taken, not initialised, and given back; fini, after the last was given.
 * Under AddressSanitizer a spare object is poisoned, so that a use of it is found.
 *
 * One thread. Implemented in spares.c. */
#ifndef TT_BASE_SPARES_H
#define TT_BASE_SPARES_H

#include <stddef.h>
#include <stdint.h>

struct tt_spare;

struct tt_spares {
    size_t object_bytes;
    int32_t limit; /* that are kept */
    int32_t count; /* that are free now */
    struct tt_spare *first;
};

/* `object_bytes`: at least a pointer's. */
void tt_spares_init(struct tt_spares *self, size_t object_bytes, int32_t limit);
void tt_spares_fini(struct tt_spares *self);
/* NULL: no memory. */
void *tt_spares_take(struct tt_spares *self);
void tt_spares_give(struct tt_spares *self, void *take_object);

#endif
