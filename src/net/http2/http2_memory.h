/* Memory for nghttp2: blocks of a few sizes that are kept for reuse, so that a request on a warm
 * connection allocates nothing there. One per event loop, for all its sessions; not thread-safe.
 *
 * Life: init; `&memory.nghttp2` goes to sessions; fini after the last of them. Implemented in
 * http2_memory.c. */
#ifndef TT_NET_HTTP2_HTTP2_MEMORY_H
#define TT_NET_HTTP2_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stdint.h>

enum {
    TT_HTTP2_MEMORY_SIZES = 5,  /* 64 bytes, and twice as much each */
    TT_HTTP2_MEMORY_KEPT = 2048 /* free blocks of each size */
};

struct tt_http2_block;

struct tt_http2_memory {
    nghttp2_mem nghttp2;
    struct tt_http2_block *free[TT_HTTP2_MEMORY_SIZES];
    int32_t free_count[TT_HTTP2_MEMORY_SIZES];
};

void tt_http2_memory_init(struct tt_http2_memory *self);
void tt_http2_memory_fini(struct tt_http2_memory *self);

#endif
