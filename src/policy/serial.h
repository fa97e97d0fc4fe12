/* Serial: no batching (baseline L4, and the simplest policy that can serve).
 *
 * One request (all its rows) per task, all steps in one go, in order of arrival over all models, on
 * the idle executor with the smallest number. Option `drop`: `none` runs every request, however
 * late; `deadline` drops a model's head as soon as it cannot finish in time even if it starts at
 * once. A request that jumped back to a step is queued again under its old number.
 *
 * O(log M + log G) per event. */
#ifndef TT_POLICY_SERIAL_H
#define TT_POLICY_SERIAL_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_serial_kind;

#endif
