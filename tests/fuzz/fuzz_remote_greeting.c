/* libFuzzer target: a message about memory that UCX reaches, of a peer that has the session's key:
 * the bytes are signed before they are read. What is believed lies within them and can be written
 * again. The first byte chooses whether a byte of the tag is changed. */
/* covers: fleet/remote_greeting.c */
#include "fleet/input_board.h"
#include "fleet/remote_greeting.h"

#include <openssl/sha.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t session[TT_HANDSHAKE_PROOF_BYTES];
    static uint8_t bytes[MOST + TT_DATAGRAM_TAG_BYTES], again[MOST + TT_DATAGRAM_TAG_BYTES];
    if (size < 1 || size - 1 > MOST)
        return 0;
    size_t count = size - 1;
    memcpy(bytes, data + 1, count);
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256(bytes, count, digest);
    tt_datagram_tag(session, digest, sizeof(digest), bytes + count);
    bool is_spoiled = data[0] % 2;
    bytes[count] = (uint8_t)(bytes[count] ^ (is_spoiled ? 1 : 0));
    count += TT_DATAGRAM_TAG_BYTES;
    struct tt_remote_message message;
    struct tt_error why;
    if (tt_remote_message_read(bytes, count, session, &message, &why))
        return 0;
    tt_assert(!is_spoiled);
    tt_assert(message.input_bytes == 0 ||
              message.input_bytes > tt_input_board_bytes(message.entries, 0));
    for (int32_t i = 0; i < TT_REMOTE_PARTS; i++)
        tt_assert(message.parts[i] >= bytes &&
                  message.part_bytes[i] <= (size_t)(bytes + count - message.parts[i]));
    tt_assert(tt_remote_message_bytes(&message) == count);
    tt_remote_message_write(&message, session, again);
    tt_assert(memcmp(again, bytes, count) == 0);
    return 0;
}
