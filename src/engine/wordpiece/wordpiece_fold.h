/* What one code point becomes before text is cut into words. Pure functions over constant tables
 * (wordpiece_tables.h). Implemented in wordpiece_fold.c. */
#ifndef TT_ENGINE_WORDPIECE_FOLD_H
#define TT_ENGINE_WORDPIECE_FOLD_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_FOLD_MAX = 4 };

/* Writes what it folds to, in lower case and without accents; returns how many code points, 0: it
 * goes. */
int32_t tt_wordpiece_fold(uint32_t code, uint32_t out[TT_FOLD_MAX]);
bool tt_wordpiece_is_space(uint32_t code);
/* A word of its own, before folding. */
bool tt_wordpiece_is_cjk(uint32_t code);
/* A word of its own, after folding. */
bool tt_wordpiece_is_punctuation(uint32_t code);

#endif
