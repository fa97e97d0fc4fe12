/* A JSON text read by jansson with memory that was reserved before.
 *
 * jansson's scanner does not notice when memory runs out within a token, and then writes beyond a
 * block. So all that it may allocate for the text is reserved at once, which is address space until
 * it is used; if that fails, jansson is not called.
 *
 * Life: open reads the text; the tree is read, on the same thread; close frees it, and the
 * reservation. While one is open, no other is opened on the thread. jansson's allocation functions
 * are replaced when the program starts; what belongs to no reservation goes to the former ones, so
 * a host program of libtutti.so may use jansson, too. Implemented in json_arena.c. */
#ifndef TT_MODEL_TEXT_JSON_ARENA_H
#define TT_MODEL_TEXT_JSON_ARENA_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* What jansson takes for one byte of text, at most: "{}," becomes an object of 200 bytes.
     * Tables that grow leave their former halves behind. */
    TT_JSON_ARENA_PER_BYTE = 160,
    TT_JSON_ARENA_BYTES = 4096 /* for any text */
};

struct tt_json_arena {
    char *begin, *at, *end;
    int64_t outside_count; /* blocks that did not fit, and were allocated alone */
};

/* `*out_root` belongs to the arena. INVALID (no JSON, or a key twice), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_json_arena_open(struct tt_json_arena *self, const char *json,
                                             size_t length, json_t **out_root,
                                             struct tt_error *why);
void tt_json_arena_close(struct tt_json_arena *self, json_t *take_root);

#endif
