/* The inputs of a frontend's requests where backends of its host read them by themselves.
 *
 * The frontend makes the region; others can only read it. It begins with an entry per request,
 * found by the request's number (tt_frontend_index); payloads follow. Life of an input: _reserve,
 * the frontend writes it -> _publish -> readers find it by the request's id -> _withdraw. Ids are
 * never used twice, so a reader that finds the id before and after has read one input. A reader is
 * never waited for: it copies, and drops the copy if the entry has changed.
 *
 * The reader trusts nothing: entries are copied and checked against the region.
 *
 * One thread on each side. Implemented in input_board.c. */
#ifndef TT_FLEET_INPUT_BOARD_H
#define TT_FLEET_INPUT_BOARD_H

#include "base/threads/shared_word.h"
#include "fleet/extent_ring.h"
#include "fleet/memory_region.h"

struct tt_input_entry {
    struct tt_shared_word id; /* 0: none */
    struct tt_shared_word begin, bytes, unused;
};

/* The frontend's side. */
struct tt_input_board {
    struct tt_memory_region region; /* without bytes: there is no board */
    int32_t entry_count;
    struct tt_input_entry *entries; /* [entry_count] */
    uint8_t *payloads;
    struct tt_extent_ring ring;
    int32_t *extents; /* [entry_count]: of each request */
};

/* A backend's side. */
struct tt_input_reader {
    struct tt_memory_region region; /* without bytes: there is none */
    int32_t entry_count;
    const struct tt_input_entry *entries;
    const uint8_t *payloads;
    size_t payload_bytes;
};

/* The bytes of a region with so many entries and bytes of payloads. */
size_t tt_input_board_bytes(int32_t entry_count, size_t payload_bytes);

/* Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_input_board_init(struct tt_input_board *self, int32_t entry_count,
                                              size_t payload_bytes, struct tt_error *why);
/* The same in `region`, which other processes read, and whose entries are zero. Takes it over, or
 * ends it. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_input_board_init_in(struct tt_input_board *self, int32_t entry_count,
                                                 struct tt_memory_region *take_region,
                                                 struct tt_error *why);
void tt_input_board_fini(struct tt_input_board *self);
/* Where `bytes` of the request's input are to be written; NULL: there is no room. The request has
 * none yet. */
uint8_t *tt_input_board_reserve(struct tt_input_board *self, uint64_t id, size_t bytes);
/* The reserved input is written. */
void tt_input_board_publish(struct tt_input_board *self, uint64_t id, size_t bytes);
/* The request leaves; it may have none. */
void tt_input_board_withdraw(struct tt_input_board *self, uint64_t id);
void tt_input_board_check(const struct tt_input_board *self);

/* Whether the entry announces the request's input, and where in so many bytes of payloads. False
 * also if it makes no sense. */
bool tt_input_entry_place(const struct tt_input_entry *entry, uint64_t id, size_t payload_bytes,
                          size_t *out_begin, size_t *out_bytes);
/* Takes over the region if it is large enough for so many entries, else ends it. INVALID. */
TT_MUST_CHECK enum tt_err tt_input_reader_init(struct tt_input_reader *self,
                                               struct tt_memory_region *take_region,
                                               int32_t entry_count, struct tt_error *why);
void tt_input_reader_fini(struct tt_input_reader *self);
/* The request's input, whose content may change at any time; NULL: there is none. */
const uint8_t *tt_input_reader_find(const struct tt_input_reader *self, uint64_t id,
                                    size_t *out_bytes);
/* After the bytes were read: they were the request's. */
bool tt_input_reader_is_still(const struct tt_input_reader *self, uint64_t id);

#endif
