#include "net/http2/http2_memory.h"

#include "base/err.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_BYTES = 64 };

struct tt_http2_block {
    alignas(16) struct tt_http2_block *next; /* while it is free */
    size_t size_bytes;                       /* that its user may have */
    int32_t size;                            /* TT_HTTP2_MEMORY_SIZES: larger than all of them */
    alignas(16) char bytes[];
};

static struct tt_http2_block *block_of(void *bytes) {
    return TT_CONTAINER_OF(bytes, struct tt_http2_block, bytes);
}

static void *take(size_t size_bytes, void *context) {
    struct tt_http2_memory *self = context;
    int32_t size = 0;
    while (size < TT_HTTP2_MEMORY_SIZES && size_bytes > (size_t)SMALLEST_BYTES << size)
        size++;
    bool is_kept = size < TT_HTTP2_MEMORY_SIZES;
    struct tt_http2_block *block = is_kept ? self->free[size] : NULL;
    if (block) {
        self->free[size] = block->next;
        self->free_count[size]--;
        return block->bytes;
    }
    if (is_kept)
        size_bytes = (size_t)SMALLEST_BYTES << size;
    if (size_bytes > SIZE_MAX - sizeof(*block))
        return NULL;
    block = malloc(sizeof(*block) + size_bytes);
    if (!block)
        return NULL;
    block->size_bytes = size_bytes;
    block->size = size;
    return block->bytes;
}

static void give(void *bytes, void *context) {
    struct tt_http2_memory *self = context;
    if (!bytes)
        return;
    struct tt_http2_block *block = block_of(bytes);
    if (block->size == TT_HTTP2_MEMORY_SIZES ||
        self->free_count[block->size] == TT_HTTP2_MEMORY_KEPT) {
        free(block);
        return;
    }
    block->next = self->free[block->size];
    self->free[block->size] = block;
    self->free_count[block->size]++;
}

static void *take_zeroed(size_t count, size_t size_bytes, void *context) {
    size_t all_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &all_bytes))
        return NULL;
    void *bytes = take(all_bytes, context);
    return bytes ? memset(bytes, 0, all_bytes) : NULL;
}

static void *resize(void *bytes, size_t size_bytes, void *context) {
    size_t kept_bytes = bytes ? block_of(bytes)->size_bytes : 0;
    if (bytes && size_bytes <= kept_bytes)
        return bytes;
    void *more = take(size_bytes, context);
    if (!more || !bytes)
        return more;
    memcpy(more, bytes, kept_bytes);
    give(bytes, context);
    return more;
}

void tt_http2_memory_init(struct tt_http2_memory *self) {
    *self = (struct tt_http2_memory){.nghttp2 = {.mem_user_data = self,
                                                 .malloc = take,
                                                 .free = give,
                                                 .calloc = take_zeroed,
                                                 .realloc = resize}};
}

void tt_http2_memory_fini(struct tt_http2_memory *self) {
    for (int size = 0; size < TT_HTTP2_MEMORY_SIZES; size++) {
        while (self->free[size]) {
            struct tt_http2_block *block = self->free[size];
            self->free[size] = block->next;
            free(block);
        }
        self->free_count[size] = 0;
    }
}
