/* D8: whether a row goes by an exit, from tensors that this process can read. The same for every
 * engine, so that a request takes the same way wherever it runs. Implemented in exit_condition.c.
 */
#ifndef TT_ENGINE_EXIT_CONDITION_H
#define TT_ENGINE_EXIT_CONDITION_H

#include "core/tensor.h"

#include <stdbool.h>

/* The condition of a row: BOOL, or FP32 that is true above 0. */
bool tt_exit_condition_is_met(const void *bytes, enum tt_dtype dtype, int64_t row);
/* |a - b| < less_than * |b|. Sums in the order of the elements, so that a row gives the same
 * result in every batch. False if a value is not a number. */
bool tt_exit_condition_moved_less(const float *a, const float *b, int64_t count, double less_than);

#endif
