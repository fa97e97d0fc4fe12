/* The messages between the roles of a cluster, as bytes.
 *
 * A frame is a head of 16 bytes and `count` records of 32 bytes, all little-endian:
 *   u32 length of the whole frame, u16 type, u16 count, u64 epoch
 * All records have the same layout. Each type says which fields it uses; the others are 0. Every
 * time is a duration, so no two clocks are ever compared. A frame with more records costs one write
 * and one read, so senders collect the records of one turn (cluster/outbox.h).
 *
 * The payloads of INPUT and RESULT (tensors), WORDS (rows of a tensor), WISH, SERVED and WISHED
 * (text), and MODEL follow the frame, in the order of its records.
 *
 * The reader trusts nothing: a wrong length, type or count is an error that names it. The meaning
 * of the fields (does this model exist?) is checked by the role that receives them.
 *
 * Pure: no socket, no clock, no allocation. Implemented in frame.c. */
#ifndef TT_CLUSTER_FRAME_H
#define TT_CLUSTER_FRAME_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The sender and the receiver of each type, and the fields that it uses, as a line above it. F: a
 * frontend, S: a scheduler, B: a backend. A type without fields has no records. */
enum tt_frame_type {
    /* F to S, a request: id, attempt, model, rows, length, code: priority, duration: time left,
     * TT_NEVER: no deadline. */
    TT_FRAME_TICKET = 1,
    /* F to S, and to the B that fetched the input: id, attempt. */
    TT_FRAME_CANCEL,
    /* S to B, one batch. First record: id: number of the plan, device, model, duration: how long it
     * is expected to wait there until the device is free. Then one record per request: id, attempt,
     * node: its frontend, rows, length, duration: time left, TT_NEVER: no deadline, 0: not said. */
    TT_FRAME_GRANT,
    /* B to S: id: plan, device. */
    TT_FRAME_ACCEPTED,
    /* B to F, the request was granted: id, attempt, code: 1 the backend has read the input by
     * itself. */
    TT_FRAME_FETCH,
    /* F to B: id, attempt, code: 1 with the input, 0 the request is not there. Length: bytes of the
     * payload. */
    TT_FRAME_INPUT,
    /* B to F: id, attempt, code: 1 computed, 0 failed. Length: bytes of the payload. Duration: 0:
     * it follows; else 1 + its place in memory that both share (fleet/result_ring.h). */
    TT_FRAME_RESULT,
    /* B to S: id: plan, device, rows: plans left there, code: 1 computed, 0 failed, duration: 1 +
     * the time since all its inputs were there, 0: not said. */
    TT_FRAME_DONE,
    /* B to S: no more grants; what was granted still runs. */
    TT_FRAME_LEAVE,
    /* B to S, a member whose input did not come: id, attempt, node: its frontend. */
    TT_FRAME_MISSING,
    /* S to F, a grant was lost: id, attempt, node: its backend, code: 1 the backend died. */
    TT_FRAME_RETURN,
    /* S to F: id, attempt, code: enum tt_drop_reason. */
    TT_FRAME_DROP,
    /* S to all: the epoch begins. */
    TT_FRAME_CLAIM,
    /* B or F to S, the answer to CLAIM. One record per device: device, rows: plans left there. */
    TT_FRAME_STATE,
    /* B or F to S: the epoch of the head is the highest claimed. */
    TT_FRAME_STALE,
    /* S to all, and the answer. */
    TT_FRAME_BEAT,
    /* S to all: when was the primary heard? */
    TT_FRAME_ASK,
    /* S to S: the primary hands over. */
    TT_FRAME_RESIGN,
    /* The answer to ASK. One record: duration: since the primary was heard. */
    TT_FRAME_OPINION,
    /* F to S, a client's command: id: its number, model, code: 1 load, 0 unload. Length: bytes of
     * the payload, its name, if model is TT_CLUSTER_NO_MODEL. */
    TT_FRAME_WISH,
    /* S to all, a record per model: id: version of the set, model, attempt: generation, code: 1
     * serve, device: its pool, length: version of the placement, rows: 1 no backend takes batches
     * of it, so that a frontend refuses requests to it. */
    TT_FRAME_SERVE,
    /* B or F to S: id: version. Then, per model that could not be loaded: id: version, model, code:
     * a negated enum tt_err. Length: bytes of the payload, the reason. */
    TT_FRAME_SERVED,
    /* S to F: id: the command, model, code: a negated enum tt_err, 0: done. Length: bytes of the
     * payload, the reasons. */
    TT_FRAME_WISHED,
    /* F to B, and back: an agreement about memory that UCX reaches (fleet/remote_greeting.h).
     * Length: bytes of the payload. Only to nodes that said that they know it. */
    TT_FRAME_REMOTE,
    /* Between a scheduler and any node: what the sender's numbers mean (fleet/model_notice.h). id:
     * digest of the model, model, rows: its largest batch, code: 1 the sender serves it, duration:
     * its objective. Length: bytes of the payload, its name, version and profile. */
    TT_FRAME_MODEL,
    /* B to F, words that the cells of a request emitted: id, attempt, rows: how many, duration: how
     * many came before. Length: bytes of the payload. Only for requests whose input asks for them
     * (fleet/tensor_payload.h). */
    TT_FRAME_WORDS,
    TT_FRAME_TYPES,
};

enum {
    TT_FRAME_HEAD_BYTES = 16,
    TT_FRAME_RECORD_BYTES = 32,
    TT_FRAME_MAX_RECORDS = 4097, /* a grant of the largest batch (core/profile.h) */
};

struct tt_frame_record {
    uint64_t id;
    int64_t duration_ns;
    uint32_t length;
    uint16_t model, rows, node, attempt, device, code;
};

struct tt_frame {
    enum tt_frame_type type;
    int32_t count;
    uint64_t epoch;
    const struct tt_frame_record *records; /* [count]; borrowed */
};

static inline size_t tt_frame_bytes(int32_t count) {
    return TT_FRAME_HEAD_BYTES + (size_t)count * TT_FRAME_RECORD_BYTES;
}

static inline bool tt_frame_has_payload(enum tt_frame_type type) {
    return type == TT_FRAME_INPUT || type == TT_FRAME_RESULT || type == TT_FRAME_WISH ||
           type == TT_FRAME_SERVED || type == TT_FRAME_WISHED || type == TT_FRAME_REMOTE ||
           type == TT_FRAME_MODEL || type == TT_FRAME_WORDS;
}

/* The bytes that follow the frame for this record of it. */
static inline uint32_t tt_frame_record_payload(enum tt_frame_type type,
                                               const struct tt_frame_record *record) {
    bool is_elsewhere = type == TT_FRAME_RESULT && record->duration_ns > 0;
    return tt_frame_has_payload(type) && !is_elsewhere ? record->length : 0;
}

/* The bytes of all payloads that follow the frame. */
static inline uint64_t tt_frame_payload_bytes(const struct tt_frame *frame) {
    uint64_t sum = 0;
    for (int32_t i = 0; tt_frame_has_payload(frame->type) && i < frame->count; i++)
        sum += tt_frame_record_payload(frame->type, &frame->records[i]);
    return sum;
}

/* Writes tt_frame_bytes(frame->count) bytes. */
void tt_frame_write(const struct tt_frame *frame, uint8_t *out_bytes);

/* Reads the first frame of `bytes`. `records` has room for TT_FRAME_MAX_RECORDS and is what
 * out_frame->records points to. *out_used: the frame's bytes; 0: more bytes are needed, and nothing
 * was read. INVALID: these bytes are no frame; the connection is of no use any more. */
TT_MUST_CHECK enum tt_err tt_frame_read(const uint8_t *bytes, size_t length,
                                        struct tt_frame_record *records, struct tt_frame *out_frame,
                                        size_t *out_used, struct tt_error *why);

#endif
