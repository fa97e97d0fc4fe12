/* WordPiece: text to the token ids of an uncased BERT model.
 *
 * Life: opened from a vocabulary, one token per line, whose line numbers from 0 are the ids. Any
 * number of threads may encode with it at once; it never changes.
 *
 * Text is normalised first: control characters and accents go, letters become lower case, CJK
 * characters are words of their own, and so is each punctuation mark. A word is cut into the
 * longest pieces of the vocabulary from its left; one of more than 100 characters, or with a rest
 * that is no piece, is [UNK]. Special tokens that a text spells, such as "[SEP]", are text.
 *
 * It allocates nothing after opening. Implemented in wordpiece.c; wordpiece_fold.c normalises. */
#ifndef TT_ENGINE_WORDPIECE_WORDPIECE_H
#define TT_ENGINE_WORDPIECE_WORDPIECE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TT_WORDPIECE_MAX_WORD = 100 }; /* characters */

struct tt_wordpiece;

/* The vocabulary must have [PAD], [UNK], [CLS] and [SEP]. Errors: NOT_FOUND, INVALID, IO,
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_wordpiece_open(const char *path, struct tt_wordpiece **out_wordpiece,
                                            struct tt_error *why);
void tt_wordpiece_close(struct tt_wordpiece *take_self); /* NULL-safe */
int64_t tt_wordpiece_pad(const struct tt_wordpiece *self);
/* Writes [CLS], the tokens of the text and [SEP], at most `limit` (>= 2) ids, of which the last is
 * [SEP]; returns how many. Errors: INVALID (negative): not UTF-8. */
int32_t tt_wordpiece_encode(const struct tt_wordpiece *self, const char *text, size_t size_bytes,
                            int64_t *out_ids, int32_t limit);

#endif
