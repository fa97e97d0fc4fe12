/* Serial: no batching at all (baseline L4, and the simplest policy that can serve).
 *
 * One request (all its rows) per task, all steps in one go, first come first served over all
 * models: the smallest arrival number first, on the idle executor with the smallest id. Option
 * `drop`: `none` runs everything, however late; `deadline` drops a request, once it is its model's
 * head, as soon as it cannot finish in time any more even if it started now. A request that jumped
 * back to a step is queued again under its old number.
 *
 * O(log M + log G) per event. */
#ifndef TT_POLICY_SERIAL_H
#define TT_POLICY_SERIAL_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_serial_kind;

#endif
