/* E7: requests that are answered before their task ends.
 *
 * A device may return the outputs of a batch one request after the other. The client gets each
 * answer as soon as its outputs are there, while the task is still under way for the others.
 *
 * Life: the request is RUNNING in its last task; _answered reports its end, to observers and to the
 * carrier, and to no policy; it stays RUNNING in its task, with its end reported; the task
 * finishes, whatever its outcome, and the request leaves with the others. So policies, beliefs and
 * recordings do not depend on how early answers are. Implemented in mechanism.c. */
#ifndef TT_CORE_EARLY_ANSWER_H
#define TT_CORE_EARLY_ANSWER_H

#include "core/mechanism.h"

/* The request runs by steps, is not cancelled, and was not answered; its task ends the model and
 * follows none that is under way. */
void tt_mechanism_answered(struct tt_mechanism *self, int64_t now, struct tt_request *request);

#endif
