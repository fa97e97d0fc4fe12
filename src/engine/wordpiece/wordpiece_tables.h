/* What becomes of each code point before text is cut into words: constant tables, ascending.
 * Written by scripts/make_wordpiece_tables.py, as PyPI's tokenizers does it for uncased BERT
 * models. Implemented in wordpiece_tables.c. */
#ifndef TT_ENGINE_WORDPIECE_TABLES_H
#define TT_ENGINE_WORDPIECE_TABLES_H

#include <stdint.h>

struct tt_code_range {
    uint32_t first, last;
};
/* first + i * step folds to `to` + i * to_step, for i below count. */
struct tt_fold_run {
    uint32_t first, count, step, to, to_step;
};
/* A code point that folds to several; 0 fills up. */
struct tt_expansion {
    uint32_t from, to[4];
};

extern const struct tt_code_range tt_wordpiece_removed[], tt_wordpiece_spaces[],
    tt_wordpiece_punctuation[];
extern const struct tt_fold_run tt_wordpiece_folds[]; /* lower case, without accents */
extern const struct tt_expansion tt_wordpiece_expansions[];
extern const int32_t tt_wordpiece_removed_count, tt_wordpiece_spaces_count,
    tt_wordpiece_punctuation_count, tt_wordpiece_folds_count, tt_wordpiece_expansions_count;

#endif
