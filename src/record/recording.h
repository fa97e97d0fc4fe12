/* The file that `tutti serve --record` writes and `tutti replay` reads: what each domain's policy
 * was notified of, when, and what it answered. docs/FORMATS.md describes the header and the blocks,
 * this file the events.
 *
 * A header, then blocks, then an end mark. A block has whole events of one domain. The blocks of a
 * domain, in succession, are its stream; streams of several domains, which may be on threads of
 * their own, are interleaved by blocks. Each block has a checksum, so a torn or damaged block is
 * found before its content is used.
 *
 * An event is a byte of kind, the time since the domain's previous event, and its fields. All
 * numbers are little-endian base-128 varints ("zigzag" where they may be negative). A domain that
 * is scheduled on threads has a stream per thread for what it found in each turn
 * (multicore/turn_log.h). A request is named by how many arrivals ago it came, which takes one or
 * two bytes. What policies decide by (models with their profiles, the policy and its options) is in
 * the stream where it was reported, as messages of proto/recording.proto. Implemented in
 * recording_reader.c. */
#ifndef TT_RECORD_RECORDING_H
#define TT_RECORD_RECORDING_H

#include "base/varint.h"

#include <stddef.h>

#define TT_RECORDING_MAGIC "TUTTIREC"
#define TT_RECORDING_BLOCK_MARK UINT32_C(0x4b4c4254) /* "TBLK" */
#define TT_RECORDING_END_STREAM UINT32_C(0xffffffff)
/* Instead of it, if the file ended at its limit while serving continued. */
#define TT_RECORDING_LIMIT_STREAM UINT32_C(0xfffffffe)

enum {
    TT_RECORDING_VERSION = 4,
    TT_RECORDING_OLDEST_VERSION = 1, /* later versions only add kinds of events and changes */
    /* magic[8], u32 version, u32 zero, i64 unix time ns, i64 monotonic time ns, u32 zero, u32 crc
     */
    TT_RECORDING_HEADER_BYTES = 40,
    /* u32 mark, u32 stream, u32 payload bytes, u32 crc of the twelve bytes before and the payload
     */
    TT_RECORDING_BLOCK_BYTES = 16,
    TT_RECORDING_MAX_BLOCK_BYTES = 1 << 28,
    TT_RECORDING_MAX_STREAMS = 4096,
};

/* The first byte of an event; the numbers never change. After it come the time since the previous
 * event of the stream and these fields ("z": zigzag; an "age": z (number of the next arrival - the
 * request's)). Requests are numbered from 0. A "change" is 0 added, 1 draining, 2 gone, 3 (of an
 * executor) moved to another device. */
enum tt_record_kind {
    /* size, RecordedDomain; the first event of every domain */
    TT_RECORD_DOMAIN = 1,
    /* numbers skipped (0 but after a gap), then as REFUSED */
    TT_RECORD_ARRIVED = 2,
    /* The domain was full. model, rows, length, z priority, deadline: 0 for none, else 1 +
     * z (deadline - now) */
    TT_RECORD_REFUSED = 3,
    TT_RECORD_READY = 4,     /* age, z slot (-1: none) */
    TT_RECORD_CANCELLED = 5, /* age */
    /* executor, outcome (0 done, 1 preempted, 2 diverged, 3 aborted, 4 failed), z last step done,
     * start and end of the run (0: unknown, else 1 + z (now - at)), how many items did not just go
     * on to the next step; per such: item, fate (0 continues, 1 leaves, 2 jumps, 3 fails), z step
     * that it jumps to, round */
    TT_RECORD_FINISHED = 6,
    TT_RECORD_MODEL = 7,    /* model, change; where added: size, RecordedModel */
    TT_RECORD_EXECUTOR = 8, /* executor, change, device */
    TT_RECORD_DECIDE = 9,   /* the policy's answers follow */
    /* executor, model, first step, last step, repeat, walk (0 together, 1 diverging, 2 once),
     * padded length (0: none), z (start_at - now), how many; per item z (expected - number): the
     * newest request is expected first, then one more than the one before */
    TT_RECORD_RUN = 10,
    TT_RECORD_DROP = 11,  /* age, reason: 1 deadline, 2 early, 3 queue_full, 4 withdrawn */
    TT_RECORD_YIELD = 12, /* executor */
    TT_RECORD_ABORT = 13, /* executor */
    TT_RECORD_GAP = 14,   /* how many events are missing here; what follows cannot be replayed */
    /* stream of the domain, party (enum tt_turn_log_party), how many parties; the first event of
     * the stream of a party, which has TURN and GAP beside it */
    TT_RECORD_THREAD = 15,
    /* executor, 1 + z (now - at): when the message of its oldest task was at the device; right
     * before its FINISHED, in domains that learn delays */
    TT_RECORD_RECEIVED = 17,
    TT_RECORD_TURN = 16, /* size in bytes, u16 checksum, the numbers of the party's turn log */
    /* As ARRIVED and as REFUSED, then the request's cells (record/record_cells.h). */
    TT_RECORD_ARRIVED_CELLS = 20,
    TT_RECORD_REFUSED_CELLS = 21,
    /* executor, model, first step, last step, z (start_at - now), 1 + the subgraph of which all of
     * its cells are or 0, how many; per cell its request as in RUN, behind 0 its subgraph */
    TT_RECORD_RUN_CELLS = 22,
};

/* Of a block: the first twelve bytes of its head, and its payload. */
uint32_t tt_recording_crc(const uint8_t *head, const void *payload, size_t payload_bytes);

#endif
