#include "fleet/memory_greeting.h"

#include "base/varint.h"
#include "fleet/input_board.h"
#include "fleet/result_ring.h"

enum { MAGIC = 0x4d435454, RELEASE = 1, SIGNED_BYTES = 32, MAX_ENTRIES = 1 << 16 };

_Static_assert(SIGNED_BYTES + TT_DATAGRAM_TAG_BYTES == TT_MEMORY_MESSAGE_BYTES, "the tag ends it");

static uint32_t pair(uint32_t first, uint32_t second) { return first | second << 16; }

void tt_memory_message_write(const struct tt_memory_message *message,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES],
                             uint8_t out_bytes[TT_MEMORY_MESSAGE_BYTES]) {
    tt_put_u32(out_bytes, MAGIC);
    tt_put_u32(out_bytes + 4, pair(message->kind, RELEASE));
    tt_put_u32(out_bytes + 8, pair(message->from, message->to));
    tt_put_u32(out_bytes + 12, (uint32_t)message->entries);
    tt_put_u64(out_bytes + 16, message->input_bytes);
    tt_put_u64(out_bytes + 24, message->result_bytes);
    tt_datagram_tag(session, out_bytes, SIGNED_BYTES, out_bytes + SIGNED_BYTES);
}

static bool has_sense(enum tt_memory_kind kind, uint32_t entries, uint64_t input_bytes,
                      uint64_t result_bytes) {
    if (kind != TT_MEMORY_OFFER)
        return entries == 0 && input_bytes == 0 && result_bytes == 0;
    return entries >= 1 && entries <= MAX_ENTRIES && input_bytes <= TT_MEMORY_REGION_MAX_BYTES &&
           input_bytes > tt_input_board_bytes((int32_t)entries, 0) &&
           result_bytes > TT_RESULT_RING_HEAD_BYTES && result_bytes <= TT_MEMORY_REGION_MAX_BYTES;
}

enum tt_err tt_memory_message_read(const uint8_t *bytes, size_t length,
                                   struct tt_memory_message *out_message, struct tt_error *why) {
    if (length != TT_MEMORY_MESSAGE_BYTES || tt_get_u32(bytes) != MAGIC)
        return tt_fail(TT_ERR_INVALID, why,
                       "a packet of %zu bytes is no message about shared memory", length);
    uint32_t what = tt_get_u32(bytes + 4), who = tt_get_u32(bytes + 8);
    uint32_t kind = what & 0xffff, release = what >> 16, entries = tt_get_u32(bytes + 12);
    uint64_t input_bytes = tt_get_u64(bytes + 16), result_bytes = tt_get_u64(bytes + 24);
    if (release != RELEASE)
        return tt_fail(TT_ERR_INVALID, why,
                       "a node shares memory by release %u of the protocol, this one by %d",
                       release, RELEASE);
    if (kind == 0 || kind >= TT_MEMORY_KINDS)
        return tt_fail(TT_ERR_INVALID, why, "a message about shared memory has the unknown kind %u",
                       kind);
    if (!has_sense((enum tt_memory_kind)kind, entries, input_bytes, result_bytes))
        return tt_fail(TT_ERR_INVALID, why,
                       "a message about shared memory has %u entries in %llu bytes, and %llu bytes "
                       "for results",
                       entries, (unsigned long long)input_bytes, (unsigned long long)result_bytes);
    *out_message = (struct tt_memory_message){.kind = (enum tt_memory_kind)kind,
                                              .from = (uint16_t)who,
                                              .to = (uint16_t)(who >> 16),
                                              .entries = (int32_t)entries,
                                              .input_bytes = (size_t)input_bytes,
                                              .result_bytes = (size_t)result_bytes};
    return TT_OK;
}

bool tt_memory_message_is_signed(const uint8_t bytes[TT_MEMORY_MESSAGE_BYTES],
                                 const uint8_t session[TT_HANDSHAKE_PROOF_BYTES]) {
    uint8_t tag[TT_DATAGRAM_TAG_BYTES];
    tt_datagram_tag(session, bytes, SIGNED_BYTES, tag);
    return tt_datagram_tag_equals(tag, bytes + SIGNED_BYTES);
}
