/* Finds out whether the rows of a loaded model are independent, so that requests may share a batch.
 *
 * It runs two made-up rows alone and together and compares each row's outputs. Every engine that
 * computes can be probed: tasks go through the engine's interface. The cost is four rows of
 * inference, which also warm the model up. Nothing else may use the engine meanwhile.
 *
 * It never changes how the model is served; its callers do. */
#ifndef TT_PROFILE_ROW_PROBE_H
#define TT_PROFILE_ROW_PROBE_H

#include "base/err.h"
#include "engine/engine.h"
#include "model/repository/repository.h"

enum tt_rows {
    TT_ROWS_INDEPENDENT, /* equal up to rounding (engine/row_compare.h) */
    TT_ROWS_DEPENDENT,
    TT_ROWS_UNKNOWN, /* the model ran with no made-up input, or draws random numbers */
};

/* `length`: of variable dimensions; 0: several are tried. `out_reason` names the output that
 * differs, or says why nothing is known; it is empty for independent rows. A model with a maximum
 * batch of 1 is independent without a run. */
enum tt_rows tt_row_probe(struct tt_engine_model *model, int32_t length,
                          struct tt_error *out_reason);
/* Runs one made-up row of a model of one graph. Errors: those of the run. */
TT_MUST_CHECK enum tt_err tt_row_run(struct tt_engine_model *model, int32_t length,
                                     struct tt_error *why);
/* Checks that the loaded model, a graph of one step, may be batched as `model` says. `out_remark`
 * is empty or a sentence for people. Errors: INVALID, with what to write: the rows depend on each
 * other, or they may and no batch size is written (config->has_default_max_batch). */
TT_MUST_CHECK enum tt_err tt_row_check(const struct tt_repository_model *model,
                                       struct tt_engine_model *loaded, struct tt_error *out_remark,
                                       struct tt_error *why);

#endif
