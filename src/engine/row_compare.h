/* Compares a row of a tensor that was computed alone with the same row computed in a batch.
 *
 * Another order of summing makes a difference of a millionth, quantisation by the range of the
 * batch a hundredth. Rows that influence each other differ by more. The limit is a fiftieth of the
 * largest number in the row. */
#ifndef TT_ENGINE_ROW_COMPARE_H
#define TT_ENGINE_ROW_COMPARE_H

#include "core/tensor.h"

#include <stddef.h>

enum tt_row_match {
    TT_ROW_SAME,    /* bit for bit */
    TT_ROW_ROUNDED, /* floating point only: within the limit */
    TT_ROW_DIFFERENT,
};

/* Both have `bytes` bytes of this type. */
enum tt_row_match tt_row_compare(const void *a, const void *b, size_t bytes, enum tt_dtype dtype);

#endif
