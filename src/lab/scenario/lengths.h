/* How long inputs and outputs are, as percentiles: read from a CSV, drawn by arrivals, and told to
 * policies as what was seen when the model was profiled. Immutable once read. */
#ifndef TT_LAB_SCENARIO_LENGTHS_H
#define TT_LAB_SCENARIO_LENGTHS_H

#include "base/prng.h"
#include "core/step_model.h"

enum { TT_LENGTHS_MAX_TAIL = 16 };

/* Of so many percent (99 < percentile < 100, in 2^-32 of a percent) at most this. */
struct tt_length_point {
    uint64_t percentile;
    int32_t lengths[2]; /* input, output */
};

struct tt_lengths {
    int32_t input[TT_QUANTILES], output[TT_QUANTILES]; /* [p]: of p percent at most this; >= 1 */
    /* The last percent is where the longest are: points within it, ascending; draws go by them. */
    int32_t tail_count;
    struct tt_length_point tail[TT_LENGTHS_MAX_TAIL];
};

/* Reads the columns so called ("": `self` keeps what it has) of the rows whose `percentile` is 0,
 * 1, .. 100, and of those between 99 and 100. NOT_FOUND, IO, NO_MEMORY; INVALID with file:line.
 * `self` is untouched on failure. */
TT_MUST_CHECK enum tt_err tt_lengths_read(const char *path, const char *input, const char *output,
                                          struct tt_lengths *self, struct tt_error *why);
/* Draws both from one percentile, between two on the line through them. */
void tt_lengths_draw(const struct tt_lengths *self, struct tt_prng *prng, int32_t *out_input,
                     int32_t *out_output);

#endif
