/* The messages by which two linked nodes agree that one accesses memory of the other through UCX
 * (fleet/remote_memory.h). They are the payloads of frames REMOTE.
 *
 *   OFFER     frontend to backend: regions, their keys, the address of the frontend's UCX.
 *   HOLD      backend to frontend: make no progress, I read once more.
 *   HELD      frontend to backend: no progress is made.
 *   ACCEPTED  backend to frontend: the regions are in use.
 *   REFUSED   backend to frontend: they are not, or no more, with the reason.
 *
 * The serial is that of the offer; messages about an earlier one are ignored. All numbers are
 * little-endian, in this order:
 *
 *   u32 "TTCR", u16 kind, u16 release of this protocol, u32 serial, u32 entries,
 *   u64 address and u64 bytes of inputs, u64 address and u64 bytes of results,
 *   u32 bytes of each part, u32 0, the parts, 16 bytes of tag.
 *
 * The tag is under the key of the link's session. The parts are UCX's address, the key of inputs
 * and that of results; REFUSED has the reason as its first. The reader trusts nothing. UCX itself
 * trusts what it unpacks: only what is signed may go there. No socket, no clock, no allocation.
 * Implemented in remote_greeting.c. */
#ifndef TT_FLEET_REMOTE_GREETING_H
#define TT_FLEET_REMOTE_GREETING_H

#include "fleet/handshake.h"

enum { TT_REMOTE_PARTS = 3, TT_REMOTE_PART_MAX_BYTES = 1 << 14 };

enum tt_remote_kind {
    TT_REMOTE_OFFER = 1,
    TT_REMOTE_HOLD,
    TT_REMOTE_HELD,
    TT_REMOTE_ACCEPTED,
    TT_REMOTE_REFUSED,
    TT_REMOTE_KINDS,
};

enum tt_remote_part { TT_REMOTE_ADDRESS, TT_REMOTE_INPUT_KEY, TT_REMOTE_RESULT_KEY };

struct tt_remote_message {
    enum tt_remote_kind kind;
    uint32_t serial;
    int32_t entries;
    uint64_t input_at, input_bytes, result_at, result_bytes;
    const uint8_t *parts[TT_REMOTE_PARTS]; /* borrowed */
    size_t part_bytes[TT_REMOTE_PARTS];
};

size_t tt_remote_message_bytes(const struct tt_remote_message *message);
/* Writes so many bytes. `session`: the key of the link between the two. */
void tt_remote_message_write(const struct tt_remote_message *message,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], uint8_t *out_bytes);
/* The parts point into `bytes`. Errors: INVALID: it is no message, its tag is wrong, or its sizes
 * make no sense. */
TT_MUST_CHECK enum tt_err tt_remote_message_read(const uint8_t *bytes, size_t length,
                                                 const uint8_t session[TT_HANDSHAKE_PROOF_BYTES],
                                                 struct tt_remote_message *out_message,
                                                 struct tt_error *why);

#endif
