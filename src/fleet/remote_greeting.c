#include "fleet/remote_greeting.h"

#include "base/varint.h"
#include "fleet/input_board.h"
#include "fleet/result_ring.h"

#include <openssl/sha.h>
#include <string.h>

enum { MAGIC = 0x52435454, RELEASE = 1, HEAD_BYTES = 64, MAX_ENTRIES = 1 << 16 };

/* A message is longer than what tt_datagram_tag() takes: its digest is signed. */
static void tag_of(const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], const uint8_t *bytes,
                   size_t count, uint8_t out_tag[TT_DATAGRAM_TAG_BYTES]) {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256(bytes, count, digest);
    tt_datagram_tag(session, digest, sizeof(digest), out_tag);
}

static size_t parts_bytes(const struct tt_remote_message *message) {
    size_t bytes = 0;
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++)
        bytes += message->part_bytes[i];
    return bytes;
}

size_t tt_remote_message_bytes(const struct tt_remote_message *message) {
    return HEAD_BYTES + parts_bytes(message) + TT_DATAGRAM_TAG_BYTES;
}

void tt_remote_message_write(const struct tt_remote_message *message,
                             const uint8_t session[TT_HANDSHAKE_PROOF_BYTES], uint8_t *out_bytes) {
    tt_put_u32(out_bytes, MAGIC);
    tt_put_u32(out_bytes + 4, (uint32_t)message->kind | (uint32_t)RELEASE << 16);
    tt_put_u32(out_bytes + 8, message->serial);
    tt_put_u32(out_bytes + 12, (uint32_t)message->entries);
    tt_put_u64(out_bytes + 16, message->input_at);
    tt_put_u64(out_bytes + 24, message->input_bytes);
    tt_put_u64(out_bytes + 32, message->result_at);
    tt_put_u64(out_bytes + 40, message->result_bytes);
    uint8_t *at = out_bytes + HEAD_BYTES;
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++) {
        size_t bytes = message->part_bytes[i];
        tt_assert(bytes <= TT_REMOTE_PART_MAX_BYTES);
        tt_put_u32(out_bytes + 48 + 4 * (ptrdiff_t)i, (uint32_t)bytes);
        if (bytes > 0)
            memcpy(at, message->parts[i], bytes);
        at += bytes;
    }
    tt_put_u32(out_bytes + 60, 0);
    tag_of(session, out_bytes, (size_t)(at - out_bytes), at);
}

static bool is_region(uint64_t at, uint64_t bytes) {
    return at > 0 && bytes <= TT_MEMORY_REGION_MAX_BYTES && at <= UINT64_MAX - bytes;
}

static bool has_sense(const struct tt_remote_message *message) {
    bool is_empty = message->entries == 0 && message->input_at == 0 && message->input_bytes == 0 &&
                    message->result_at == 0 && message->result_bytes == 0;
    if (message->kind != TT_REMOTE_OFFER) {
        bool has_text = message->kind == TT_REMOTE_REFUSED;
        return is_empty && parts_bytes(message) == (has_text ? message->part_bytes[0] : 0);
    }
    return message->entries >= 1 && message->entries <= MAX_ENTRIES &&
           is_region(message->input_at, message->input_bytes) &&
           message->input_bytes > tt_input_board_bytes(message->entries, 0) &&
           is_region(message->result_at, message->result_bytes) &&
           message->result_bytes > TT_RESULT_RING_HEAD_BYTES &&
           message->part_bytes[TT_REMOTE_ADDRESS] > 0 &&
           message->part_bytes[TT_REMOTE_INPUT_KEY] > 0 &&
           message->part_bytes[TT_REMOTE_RESULT_KEY] > 0;
}

/* The parts must fill what is between head and tag. */
static bool read_parts(const uint8_t *bytes, size_t length, struct tt_remote_message *message) {
    size_t at = HEAD_BYTES, end = length - TT_DATAGRAM_TAG_BYTES;
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++) {
        size_t count = tt_get_u32(bytes + 48 + 4 * (ptrdiff_t)i);
        if (count > TT_REMOTE_PART_MAX_BYTES || count > end - at)
            return false;
        message->parts[i] = bytes + at;
        message->part_bytes[i] = count;
        at += count;
    }
    return at == end;
}

enum tt_err tt_remote_message_read(const uint8_t *bytes, size_t length,
                                   const uint8_t session[TT_HANDSHAKE_PROOF_BYTES],
                                   struct tt_remote_message *out_message, struct tt_error *why) {
    uint8_t tag[TT_DATAGRAM_TAG_BYTES];
    if (length < HEAD_BYTES + TT_DATAGRAM_TAG_BYTES || tt_get_u32(bytes) != MAGIC)
        return tt_fail(TT_ERR_INVALID, why, "%zu bytes are no message about remote memory", length);
    tag_of(session, bytes, length - TT_DATAGRAM_TAG_BYTES, tag);
    if (!tt_datagram_tag_equals(tag, bytes + length - TT_DATAGRAM_TAG_BYTES))
        return tt_fail(TT_ERR_INVALID, why, "a message about remote memory has a wrong tag");
    uint32_t what = tt_get_u32(bytes + 4), kind = what & 0xffff, release = what >> 16;
    if (release != RELEASE)
        return tt_fail(TT_ERR_INVALID, why,
                       "a node shares remote memory by release %u of the protocol, this one by %d",
                       release, RELEASE);
    uint32_t entries = tt_get_u32(bytes + 12);
    struct tt_remote_message message = {.kind = (enum tt_remote_kind)kind,
                                        .serial = tt_get_u32(bytes + 8),
                                        .entries =
                                            (int32_t)(entries <= MAX_ENTRIES ? entries : INT32_MAX),
                                        .input_at = tt_get_u64(bytes + 16),
                                        .input_bytes = tt_get_u64(bytes + 24),
                                        .result_at = tt_get_u64(bytes + 32),
                                        .result_bytes = tt_get_u64(bytes + 40)};
    if (kind == 0 || kind >= TT_REMOTE_KINDS || tt_get_u32(bytes + 60) != 0 ||
        !read_parts(bytes, length, &message) || !has_sense(&message))
        return tt_fail(TT_ERR_INVALID, why,
                       "a message about remote memory of kind %u makes no sense: %u entries in "
                       "%llu bytes, %llu bytes for results",
                       kind, entries, (unsigned long long)message.input_bytes,
                       (unsigned long long)message.result_bytes);
    *out_message = message;
    return TT_OK;
}
