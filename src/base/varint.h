/* Numbers in byte streams: base-128 varints, zigzag for signed values, fixed little-endian words.
 *
 * A varint holds 7 bits per byte, the lowest first; the top bit says that another byte follows. All
 * functions are inline; there is no .c file. */
#ifndef TT_BASE_VARINT_H
#define TT_BASE_VARINT_H

#include <stdint.h>

enum { TT_VARINT_BYTES = 10 }; /* the longest encoding of a uint64_t */

static inline uint8_t *tt_varint_put(uint8_t *to, uint64_t value) {
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

static inline uint64_t tt_zigzag(int64_t value) {
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t tt_unzigzag(uint64_t value) {
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Reads a number from [*at, end) and moves *at. 0: the bytes end within it, or it has more than 64
 * bits. */
static inline int tt_varint_get(const uint8_t **at, const uint8_t *end, uint64_t *out_value) {
    uint64_t value = 0;
    const uint8_t *from = *at;
    for (int shift = 0; shift < 64 && from < end; shift += 7) {
        uint8_t byte = *from++;
        if (shift == 63 && byte > 1)
            return 0;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = from;
            *out_value = value;
            return 1;
        }
    }
    return 0;
}

static inline void tt_put_u32(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)(value >> 16);
    to[3] = (uint8_t)(value >> 24);
}

static inline uint32_t tt_get_u32(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline void tt_put_u64(uint8_t *to, uint64_t value) {
    tt_put_u32(to, (uint32_t)value);
    tt_put_u32(to + 4, (uint32_t)(value >> 32));
}

static inline uint64_t tt_get_u64(const uint8_t *from) {
    return tt_get_u32(from) | (uint64_t)tt_get_u32(from + 4) << 32;
}

#endif
