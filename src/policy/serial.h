/* Serial: no batching (baseline L4, and the simplest policy that can serve).
 *
 * A task is one request with all its rows and steps. Requests run in order of arrival over all
 * models, on the idle executor with the smallest number. A request that jumped back to a step is
 * queued again under its old number.
 *
 * Option `drop`: `none` runs every request, however late. `deadline` drops a model's head as soon
 * as it cannot finish in time even if it starts at once.
 *
 * Cost: O(log M + log G) per event, for M models and G executors. */
#ifndef TT_POLICY_SERIAL_H
#define TT_POLICY_SERIAL_H

#include "policy/policy.h"

extern const struct tt_policy_kind tt_serial_kind;

#endif
