/* Frames with their payloads, out of the bytes of one connection.
 *
 * The owner reads bytes into the room that the stream offers, and takes out whole frames. A frame
 * and its payload are valid until the next call. The buffer grows to the largest frame with its
 * payload, at most `limit_bytes`, and is reused.
 *
 * It trusts nothing of what it reads (cluster/frame.h). One thread. Implemented in frame_stream.c.
 */
#ifndef TT_FLEET_FRAME_STREAM_H
#define TT_FLEET_FRAME_STREAM_H

#include "cluster/frame.h"

struct tt_frame_stream {
    uint8_t *bytes;
    int64_t capacity;
    size_t first, count; /* what was read and not taken yet: [first, first + count) */
    size_t needed;       /* a frame ends no earlier than with so many bytes */
    size_t limit_bytes;  /* of one frame with its payload */
};

/* A frame as it was received. */
struct tt_received {
    struct tt_frame frame;
    const uint8_t *payload; /* of all records, one after the other */
    size_t payload_bytes;
};

void tt_frame_stream_init(struct tt_frame_stream *self, size_t limit_bytes);
void tt_frame_stream_fini(struct tt_frame_stream *self);
/* Where at least `least` bytes may be written; NULL: out of memory. */
uint8_t *tt_frame_stream_room(struct tt_frame_stream *self, size_t least, size_t *out_bytes);
/* So many bytes were written there. */
void tt_frame_stream_add(struct tt_frame_stream *self, size_t bytes);
/* Bytes that no frame took; borrowed. For what comes before the first frame (fleet/handshake.h). */
const uint8_t *tt_frame_stream_peek(const struct tt_frame_stream *self, size_t *out_bytes);
void tt_frame_stream_skip(struct tt_frame_stream *self, size_t bytes);
/* The next frame. `records` has room for TT_FRAME_MAX_RECORDS. *out_has: there was one. Errors:
 * INVALID: these bytes are no frame, or it is too large; the connection is of no use any more. */
TT_MUST_CHECK enum tt_err tt_frame_stream_next(struct tt_frame_stream *self,
                                               struct tt_frame_record *records,
                                               struct tt_received *out_received, bool *out_has,
                                               struct tt_error *why);

#endif
