/* Shared by the files that unfold: unfold.c (chains, and the common checks), unfold_tree.c,
 * unfold_plugin.c, and unfolded.c (what they make). */
#ifndef TT_MODEL_CELLS_UNFOLD_INTERNAL_H
#define TT_MODEL_CELLS_UNFOLD_INTERNAL_H

#include "model/cells/unfold.h"

/* Allocates `spec_count` specs with `source_count` sources in one piece; the caller writes the
 * sources to `*out_sources`. Everything except the counts is zero. NULL: out of memory; `why` is
 * set. */
struct tt_unfolded *tt_unfolded_new(int32_t spec_count, int32_t source_count, int32_t **out_sources,
                                    struct tt_error *why);
/* `length`: number of nodes. */
TT_MUST_CHECK enum tt_err tt_unfold_as_tree(const struct tt_cells *cells,
                                            const struct tt_unfold_tensor *tensors, int32_t length,
                                            struct tt_unfolded **out_unfolded,
                                            struct tt_error *why);

#endif
