/* E6: what `tutti profile` says of overlapping copies with computation (E2bird's equation 1,
 * lab/overlap.h). */
#ifndef TT_CMD_PROFILE_OVERLAP_H
#define TT_CMD_PROFILE_OVERLAP_H

#include "core/tensor.h"

/* Copies the inputs of a batch of `rows` rows (variable dimensions are `length`) on this machine,
 * several times, and prints a line on stderr: how long that takes beside `computation_ns`, and what
 * hiding it can gain. Nothing where a row has no fixed size (strings), or there is no memory. */
void tt_profile_overlap_print(const struct tt_signature *signature, int32_t rows, int32_t length,
                              int64_t computation_ns);

#endif
