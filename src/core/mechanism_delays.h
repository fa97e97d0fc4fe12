/* The mechanism's part of learning how long messages to devices travel (S4): which messages teach,
 * and which estimate each executor has. Called by mechanism.c only, which notifies the policy of
 * what moved. Implemented in mechanism_delays.c. */
#ifndef TT_CORE_MECHANISM_DELAYS_H
#define TT_CORE_MECHANISM_DELAYS_H

#include "core/mechanism.h"

/* The executor, which is there, is of this device. */
void tt_mechanism_delays_seat(struct tt_mechanism *self, int32_t executor, int32_t device);
/* An executor came, went, or has another delay. */
void tt_mechanism_delays_find_longest(struct tt_mechanism *self);
/* The task has finished. True: the delay of its executor's device has moved. */
bool tt_mechanism_delays_learn(struct tt_mechanism *self, const struct tt_task *task);
/* A request was dropped for its deadline: sets `delays_starve` where that goes on. */
void tt_mechanism_delays_dropped(struct tt_mechanism *self, const struct tt_request *request);

#endif
