/* The messages by which two linked nodes of one host agree to share memory.
 *
 * The frontend connects to the backend's Unix socket. HELLO and WELCOME prove that both have the
 * key of their link's session (fleet/handshake.h), so a message is of use for one link only. OFFER
 * carries the descriptors of the frontend's inputs and of the room for the backend's results;
 * ACCEPTED ends it. Each message is a packet of TT_MEMORY_MESSAGE_BYTES:
 *
 *   u32 "TTCM", u16 kind, u16 release of this protocol, u16 from, u16 to, u32 entries,
 *   u64 bytes of inputs, u64 bytes of results, 16 bytes of tag
 *
 * all little-endian. Entries and sizes are those of an OFFER, else 0. The reader trusts nothing. No
 * socket, no clock, no allocation. Implemented in memory_greeting.c. */
#ifndef TT_FLEET_MEMORY_GREETING_H
#define TT_FLEET_MEMORY_GREETING_H

#include "fleet/handshake.h"

enum { TT_MEMORY_MESSAGE_BYTES = 48, TT_MEMORY_DESCRIPTORS = 2 };

enum tt_memory_kind {
    TT_MEMORY_HELLO = 1, /* frontend to backend */
    TT_MEMORY_WELCOME,   /* backend to frontend */
    TT_MEMORY_OFFER,     /* frontend to backend, with the descriptors of inputs and results */
    TT_MEMORY_ACCEPTED,  /* backend to frontend */
    TT_MEMORY_KINDS,
};

struct tt_memory_message {
    enum tt_memory_kind kind;
    uint16_t from, to; /* numbers of nodes */
    int32_t entries;
    size_t input_bytes, result_bytes;
};

/* `session`: the key of the link between the two. */
void tt_memory_message_write(const struct tt_memory_message *message,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES],
                             uint8_t out_bytes[TT_MEMORY_MESSAGE_BYTES]);
/* Reads the packet without the tag: the caller looks up the session of `from`, and checks it with
 * _is_signed before it believes anything else. INVALID: it is no message, or its sizes make no
 * sense. */
TT_MUST_CHECK enum tt_err tt_memory_message_read(const uint8_t *bytes, size_t length,
                                                 struct tt_memory_message *out_message,
                                                 struct tt_error *why);
bool tt_memory_message_is_signed(const uint8_t bytes[TT_MEMORY_MESSAGE_BYTES],
                                 const uint8_t session[TT_HANDSHAKE_PROOF_BYTES]);

#endif
