/* The words that a backend's requests emitted in this turn of its node, until the records WORDS
 * that announce them are sent.
 *
 * Life of a chunk: _begin and _append as the records are made -> _next has the bytes, and _take
 * the content, both in the order of the records. A queue whose chunks are all taken begins anew.
 *
 * One thread. Implemented in word_queue.c. */
#ifndef TT_FLEET_WORD_QUEUE_H
#define TT_FLEET_WORD_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct tt_word_queue {
    uint8_t *bytes;
    size_t *ends; /* [count]: where each chunk ends in `bytes` */
    int64_t capacity, used, end_capacity;
    int64_t count, asked, taken; /* chunks */
};

void tt_word_queue_fini(struct tt_word_queue *self); /* also of a zero-initialized one */
/* A chunk without words; nothing of an earlier one changes any more. */
void tt_word_queue_begin(struct tt_word_queue *self);
/* To the chunk that was begun last. */
void tt_word_queue_append(struct tt_word_queue *self, const void *word, size_t bytes);
/* The bytes of the next chunk that was not asked for. */
size_t tt_word_queue_next(struct tt_word_queue *self);
/* Its content, until the next _begin; chunks are taken after they were asked for. */
const uint8_t *tt_word_queue_take(struct tt_word_queue *self, size_t *out_bytes);

#endif
