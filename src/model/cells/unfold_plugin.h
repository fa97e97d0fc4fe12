/* C2: unfold functions of the user's, in a shared object (include/tutti/unfold.h).
 *
 * Life of one: opened with the model, once per version; called for every request, by any thread;
 * closed with the model. What it says is checked as it says it: limits, types, which cells read
 * which, which elements they read; a request over its limit of time is refused at the next cell, or
 * at the end. A plug-in that hangs without a word cannot be stopped: it runs in our process. */
#ifndef TT_MODEL_CELLS_UNFOLD_PLUGIN_H
#define TT_MODEL_CELLS_UNFOLD_PLUGIN_H

#include "model/cells/cells_internal.h"
#include "model/cells/unfold.h"

enum { TT_UNFOLD_DEFAULT_TIME_LIMIT_US = 50000 };

/* NULL, and a problem, where it cannot be had: no such file, no such function, another version, its
 * own refusal. The cells are otherwise complete. */
struct tt_unfold_plugin *tt_unfold_plugin_open(struct tt_cells_work *work,
                                               const char *model_directory);
void tt_unfold_plugin_close(struct tt_unfold_plugin *take_plugin);
/* As tt_unfold_new, but for the tokens. */
TT_MUST_CHECK enum tt_err tt_unfold_plugin_run(const struct tt_cells *cells,
                                               const struct tt_unfold_tensor *tensors,
                                               int32_t length, struct tt_unfolded **out_unfolded,
                                               struct tt_error *why);

#endif
