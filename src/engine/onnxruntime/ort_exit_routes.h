/* D8: which members of a run go where after a step, and what they take along.
 *
 * After a step behind which exits stand, `tt_ort_exit_routes_find` asks their conditions, once for
 * the whole batch, and notes for each member the first exit that it meets. A request goes only if
 * each of its rows does; rows are looked at one by one, and where the batch is padded only as far
 * as the request itself is long, so nobody's course depends on batch mates. Then the run puts down
 * what those who go on need, and `tt_ort_exit_routes_take` gives: to who leaves an answer, whose
 * rows are those of the exit's graph, and to who skips steps what these would have made, in its
 * slots. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_EXIT_ROUTES_H
#define TT_ENGINE_ONNXRUNTIME_ORT_EXIT_ROUTES_H

#include "engine/onnxruntime/ort_steps.h"

void tt_ort_exit_routes_fini(struct tt_ort_exit_routes *self);
/* Is there an exit after the step? */
bool tt_ort_exit_routes_any(const struct tt_ort_run *run, int32_t step);
/* Errors: what a graph fails with; NO_MEMORY; INTERNAL: a condition that is not one number per row.
 */
TT_MUST_CHECK enum tt_err tt_ort_exit_routes_find(struct tt_ort_run *run, int32_t step,
                                                  struct tt_error *why);
/* Errors: as _find; then no member has an answer. */
TT_MUST_CHECK enum tt_err tt_ort_exit_routes_take(struct tt_ort_run *run, struct tt_error *why);
/* After _find, whatever came of it. */
void tt_ort_exit_routes_drop(struct tt_ort_run *run);

#endif
