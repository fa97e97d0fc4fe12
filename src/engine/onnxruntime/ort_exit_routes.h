/* D8: early exits of a running batch: which members leave or skip steps, and the tensors they need.
 *
 * After a step that has exits, `tt_ort_exit_routes_find` evaluates their conditions, once for the
 * whole batch. For each member it records the first exit whose condition is met. A request takes an
 * exit only if all its rows meet the condition. Rows are evaluated independently and without their
 * padding, so the route of a request never depends on the rest of its batch. The run then stores
 * what the continuing members need. Then `tt_ort_exit_routes_take` makes the tensors of the exits:
 * a result for members that leave, made from the exit's graph; for members that skip steps, what
 * these steps would have made, in their slots. */
#ifndef TT_ENGINE_ONNXRUNTIME_ORT_EXIT_ROUTES_H
#define TT_ENGINE_ONNXRUNTIME_ORT_EXIT_ROUTES_H

#include "engine/onnxruntime/ort_steps.h"

void tt_ort_exit_routes_fini(struct tt_ort_exit_routes *self);
/* True if the step has an exit. */
bool tt_ort_exit_routes_any(const struct tt_ort_run *run, int32_t step);
/* Errors: those of running a graph; NO_MEMORY; INTERNAL (a condition that does not have one value
 * per row). */
TT_MUST_CHECK enum tt_err tt_ort_exit_routes_find(struct tt_ort_run *run, int32_t step,
                                                  struct tt_error *why);
/* Errors: as _find; then no member has a result. */
TT_MUST_CHECK enum tt_err tt_ort_exit_routes_take(struct tt_ort_run *run, struct tt_error *why);
/* Releases the graphs' outputs; after _find, even if that failed. */
void tt_ort_exit_routes_drop(struct tt_ort_run *run);

#endif
