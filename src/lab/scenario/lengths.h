/* How long inputs and outputs are, as percentiles. Read from a CSV, drawn by arrivals, and passed
 * to policies as the output lengths seen in profiling. Immutable once read. */
#ifndef TT_LAB_SCENARIO_LENGTHS_H
#define TT_LAB_SCENARIO_LENGTHS_H

#include "base/prng.h"
#include "core/step_model.h"

enum { TT_LENGTHS_MAX_TAIL = 16 };

/* A percentile between 99 and 100, in units of 2^-32 percent, and its lengths. */
struct tt_length_point {
    uint64_t percentile;
    int32_t lengths[2]; /* input, output */
};

struct tt_lengths {
    int32_t input[TT_QUANTILES], output[TT_QUANTILES]; /* [p]: percentile p; >= 1 */
    /* Points within the last percent, ascending: the longest requests are drawn from them. */
    int32_t tail_count;
    struct tt_length_point tail[TT_LENGTHS_MAX_TAIL];
};

/* Reads the columns named `input` and `output` ("": `self` keeps its lengths), in the rows whose
 * `percentile` is 0, 1, .. 100 or lies between 99 and 100. NOT_FOUND, IO, NO_MEMORY; INVALID with
 * file:line. `self` is untouched on failure. */
TT_MUST_CHECK enum tt_err tt_lengths_read(const char *path, const char *input, const char *output,
                                          struct tt_lengths *self, struct tt_error *why);
/* Draws both at one percentile, interpolating linearly between points. */
void tt_lengths_draw(const struct tt_lengths *self, struct tt_prng *prng, int32_t *out_input,
                     int32_t *out_output);

#endif
