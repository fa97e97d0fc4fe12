/* How long cells take, and what follows for whole requests.
 *
 * What is measured of a model of cells is one cell of each type per batch size, with its states
 * where the cell before left them; nothing of it depends on how long a request is. A whole request
 * is the sum of its cells: that is what policies that run sequences in one go decide by, and what
 * deadlines are held against. Of a tree, whose shape is not known beforehand, it is the least that
 * it can take: a cell per level. */
#ifndef TT_PROFILE_CELL_PROFILE_H
#define TT_PROFILE_CELL_PROFILE_H

#include "model/cells/cells.h"
#include "profile/calibrate.h"

/* As tt_calibrate, of the loaded model of these cells: points of its steps, up to each type's
 * largest batch, then of the whole at options->lengths. Nothing is recalled. */
TT_MUST_CHECK enum tt_err tt_cell_profile_measure(struct tt_engine_model *model,
                                                  const struct tt_cells *cells,
                                                  const struct tt_calibrate_options *options,
                                                  struct tt_calibration_point **out_points,
                                                  int32_t *out_count, struct tt_error *why);
/* The whole's profile, from its steps', for requests of all lengths. */
TT_MUST_CHECK enum tt_err tt_cell_profile_whole(const struct tt_cells *cells,
                                                struct tt_profile *const *steps,
                                                struct tt_profile **out_whole,
                                                struct tt_error *why);
/* No type's batches are larger than it says: narrows the steps' profiles, in their places. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_profile_narrow(const struct tt_cells *cells,
                                                 struct tt_profile **steps, struct tt_error *why);
/* What the cells are, as one digest: of all types. Errors: those of tt_digest_bytes. */
TT_MUST_CHECK enum tt_err tt_cell_profile_digest(const struct tt_cells *cells,
                                                 char out_digest[TT_DIGEST_BYTES],
                                                 struct tt_error *why);

#endif
