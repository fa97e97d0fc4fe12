/* FNV-1a, 64 bits: tells texts and descriptions apart, not against forgery. All functions are
 * inline; there is no .c file. */
#ifndef TT_BASE_FNV_H
#define TT_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define TT_FNV_START UINT64_C(14695981039346656037)

/* The hash of what `hash` stands for and these bytes behind it. */
static inline uint64_t tt_fnv_add(uint64_t hash, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

#endif
