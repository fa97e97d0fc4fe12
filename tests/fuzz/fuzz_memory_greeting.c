/* libFuzzer target: what a process of the same host may send or write. The first byte chooses: a
 * packet about shared memory; the memory of a frontend's inputs; places of results. Whatever is
 * found there lies within the memory, which is read to its last byte. */
/* covers: fleet/memory_greeting.c fleet/input_board.c fleet/result_ring.c */
#include "fleet/input_board.h"
#include "fleet/memory_greeting.h"
#include "fleet/result_ring.h"

#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES = 4, PAYLOADS = 4096, RESULTS = 4096 };

static uint64_t number_at(const uint8_t *data, size_t size, size_t index) {
    return 8 * (index + 1) <= size ? tt_get_u64(data + 8 * index) : 0;
}

static void read_all(const uint8_t *bytes, size_t count) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = (uint8_t)(sum + bytes[i]);
}

static void read_packet(const uint8_t *data, size_t size) {
    static const uint8_t session[TT_HANDSHAKE_PROOF_BYTES];
    struct tt_memory_message message;
    struct tt_error why;
    if (tt_memory_message_read(data, size, &message, &why))
        return;
    uint8_t again[TT_MEMORY_MESSAGE_BYTES];
    tt_memory_message_write(&message, session, again);
    bool is_same = memcmp(again, data, size) == 0;
    tt_assert(is_same == tt_memory_message_is_signed(data, session));
}

static void read_board(const uint8_t *data, size_t size) {
    struct tt_memory_region ours, theirs;
    struct tt_input_reader reader;
    struct tt_error why;
    size_t bytes = tt_input_board_bytes(ENTRIES, PAYLOADS);
    enum tt_err err = tt_memory_region_create(&ours, bytes, true, &why);
    tt_assert(err == TT_OK);
    memcpy(ours.bytes, data, size < bytes ? size : bytes);
    err = tt_memory_region_map(&theirs, dup(ours.fd), bytes, false, &why);
    tt_assert(err == TT_OK);
    err = tt_input_reader_init(&reader, &theirs, ENTRIES, &why);
    tt_assert(err == TT_OK);
    for (size_t i = 0; i < ENTRIES; i++) {
        uint64_t id = number_at(data, size, 4 * i);
        size_t count;
        const uint8_t *input = tt_input_reader_find(&reader, id, &count);
        if (!input)
            continue;
        tt_assert(input >= reader.payloads && count <= PAYLOADS);
        read_all(input, count);
        tt_assert(tt_input_reader_is_still(&reader, id));
    }
    tt_input_reader_fini(&reader);
    tt_memory_region_fini(&ours);
}

static void take_results(const uint8_t *data, size_t size) {
    struct tt_result_reader reader;
    struct tt_error why;
    enum tt_err err = tt_result_reader_init(&reader, RESULTS, &why);
    tt_assert(err == TT_OK);
    for (size_t i = 0; 16 * (i + 1) <= size; i++) {
        uint64_t count = number_at(data, size, 2 * i + 1);
        const uint8_t *result = tt_result_reader_take(&reader, number_at(data, size, 2 * i), count);
        if (result)
            read_all(result, (size_t)count);
        tt_result_reader_done(&reader);
    }
    tt_result_reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    switch (data[0] % 3) {
    case 0: read_packet(data + 1, size - 1); break;
    case 1: read_board(data + 1, size - 1); break;
    default: take_results(data + 1, size - 1); break;
    }
    return 0;
}
