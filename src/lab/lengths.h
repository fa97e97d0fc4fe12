/* How long inputs and outputs are, as percentiles: read from a CSV, drawn by arrivals, and told to
 * policies as what was seen when the model was profiled. Immutable once read. */
#ifndef TT_LAB_LENGTHS_H
#define TT_LAB_LENGTHS_H

#include "base/prng.h"
#include "core/step_model.h"

struct tt_lengths {
    int32_t input[TT_QUANTILES], output[TT_QUANTILES]; /* [p]: of p percent at most this; >= 1 */
};

/* Reads the columns so called ("": `self` keeps what it has) of the rows whose `percentile` is 0,
 * 1,
 * .. 100. NOT_FOUND, IO, NO_MEMORY; INVALID with file:line. `self` is untouched on failure. */
TT_MUST_CHECK enum tt_err tt_lengths_read(const char *path, const char *input, const char *output,
                                          struct tt_lengths *self, struct tt_message *why);
/* Draws both from one percentile, between two on the line through them. */
void tt_lengths_draw(const struct tt_lengths *self, struct tt_prng *prng, int32_t *out_input,
                     int32_t *out_output);

#endif
