/* What one write to a socket consists of: pieces of its own bytes and of borrowed memory, in order.
 * One per event loop: it is used within a call and empty between calls. All functions are inline.
 */
#ifndef TT_NET_HTTP2_HTTP2_OUTPUT_H
#define TT_NET_HTTP2_HTTP2_OUTPUT_H

#include "base/err.h"
#include "net/http2/http2_message.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    TT_HTTP2_FRAME_BYTES = 16384 + 64, /* the largest frame, with its head */
    TT_HTTP2_OUTPUT_PIECES = 128,
    TT_HTTP2_OUTPUT_BYTES = 96 * 1024,
    TT_HTTP2_BATCH_BYTES = 256 * 1024 /* of one write, about */
};

struct tt_http2_piece {
    const char *bytes;
    size_t size_bytes;
};

struct tt_http2_output {
    size_t total_bytes, used_bytes;
    int32_t count;
    struct tt_http2_piece pieces[TT_HTTP2_OUTPUT_PIECES];
    char own[TT_HTTP2_OUTPUT_BYTES];
};

static inline void tt_http2_output_clear(struct tt_http2_output *self) {
    self->total_bytes = self->used_bytes = 0;
    self->count = 0;
}
/* True: any two frames fit, whatever their pieces. A frame has at most one borrowed piece per
 * TT_HTTP2_COPY_BYTES and one of its own between two. */
static inline bool tt_http2_output_has_room(const struct tt_http2_output *self) {
    return self->count + 2 * 24 <= TT_HTTP2_OUTPUT_PIECES &&
           self->used_bytes + 2 * (size_t)TT_HTTP2_FRAME_BYTES <= TT_HTTP2_OUTPUT_BYTES &&
           self->total_bytes < TT_HTTP2_BATCH_BYTES;
}
static inline void tt_http2_output_borrow(struct tt_http2_output *self, const char *bytes,
                                          size_t size_bytes) {
    tt_assert(self->count < TT_HTTP2_OUTPUT_PIECES);
    self->pieces[self->count++] = (struct tt_http2_piece){bytes, size_bytes};
    self->total_bytes += size_bytes;
}
static inline void tt_http2_output_copy(struct tt_http2_output *self, const void *bytes,
                                        size_t size_bytes) {
    tt_assert(size_bytes <= TT_HTTP2_OUTPUT_BYTES - self->used_bytes);
    char *to = self->own + self->used_bytes;
    memcpy(to, bytes, size_bytes);
    self->used_bytes += size_bytes;
    struct tt_http2_piece *last = self->count ? &self->pieces[self->count - 1] : NULL;
    if (last && last->bytes + last->size_bytes == to) {
        last->size_bytes += size_bytes;
        self->total_bytes += size_bytes;
    } else {
        tt_http2_output_borrow(self, to, size_bytes);
    }
}

#endif
