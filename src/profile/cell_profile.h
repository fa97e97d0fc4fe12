/* How long cells take, and what follows for whole requests.
 *
 * Measured is one cell of each type per batch size, with its states where the previous cell left
 * them; the length of the request does not matter. A whole request is the sum of its cells.
 * Policies that run sequences in one go decide by it, and deadlines are judged by it. For a tree,
 * whose shape is not known beforehand, it is the lower bound: one cell per level. */
#ifndef TT_PROFILE_CELL_PROFILE_H
#define TT_PROFILE_CELL_PROFILE_H

#include "model/cells/cells.h"
#include "profile/calibrate.h"

/* As tt_calibrate, for the loaded model of these cells: the points of its steps, up to each type's
 * largest batch, then those of the whole at options->lengths. `recall` is not called. */
TT_MUST_CHECK enum tt_err tt_cell_profile_measure(struct tt_engine_model *model,
                                                  const struct tt_cells *cells,
                                                  const struct tt_calibrate_options *options,
                                                  struct tt_calibration_point **out_points,
                                                  int32_t *out_count, struct tt_error *why);
/* The profile of the whole, from those of its steps, for requests of all lengths. */
TT_MUST_CHECK enum tt_err tt_cell_profile_whole(const struct tt_cells *cells,
                                                struct tt_profile *const *steps,
                                                struct tt_profile **out_whole,
                                                struct tt_error *why);
/* Replaces profiles of steps by narrower ones where the type's max_batch is smaller. NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_profile_narrow(const struct tt_cells *cells,
                                                 struct tt_profile **steps, struct tt_error *why);
/* One digest of all cell types. Errors: those of tt_digest_bytes. */
TT_MUST_CHECK enum tt_err tt_cell_profile_digest(const struct tt_cells *cells,
                                                 char out_digest[TT_DIGEST_BYTES],
                                                 struct tt_error *why);

#endif
