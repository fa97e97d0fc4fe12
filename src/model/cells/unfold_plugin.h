/* C2: unfold functions of users, in a shared object (include/tutti/unfold.h).
 *
 * Life: opened with the model, once per version; called for every request, on any thread; closed
 * with the model. Each call of the plug-in is checked at once: limits, types, which cells read
 * which, which elements they read. A request over its time limit is rejected at the next cell or at
 * the end. A plug-in that hangs without any call cannot be stopped, since it runs in the server's
 * process; serve/unfolder.h says what follows. */
#ifndef TT_MODEL_CELLS_UNFOLD_PLUGIN_H
#define TT_MODEL_CELLS_UNFOLD_PLUGIN_H

#include "model/cells/cells_internal.h"
#include "model/cells/unfold.h"

enum { TT_UNFOLD_DEFAULT_TIME_LIMIT_US = 50000 };

/* NULL, and a problem: no such file, no such function, another version, or the plug-in rejects the
 * model. The cells must be complete otherwise. */
struct tt_unfold_plugin *tt_unfold_plugin_open(struct tt_cells_work *work,
                                               const char *model_directory);
void tt_unfold_plugin_close(struct tt_unfold_plugin *take_plugin);
/* As tt_unfold_new, but without the check of tokens. */
TT_MUST_CHECK enum tt_err tt_unfold_plugin_run(const struct tt_cells *cells,
                                               const struct tt_unfold_tensor *tensors,
                                               int32_t length, struct tt_unfolded **out_unfolded,
                                               struct tt_error *why);

#endif
