/* The server's scheduling thread, as its ports see it. */
#ifndef TT_RT_SCHEDULER_H
#define TT_RT_SCHEDULER_H

#include "rt/infer.h"

/* There is something in a ring for the scheduler. Any thread. */
void tt_scheduler_wake(struct tt_serving *serving);
/* The scheduler looks at this port's ring from now on / never again when this returns. Port's
 * thread. */
void tt_scheduler_add_port(struct tt_serving *serving, struct tt_port *port);
void tt_scheduler_remove_port(struct tt_serving *serving, struct tt_port *port);

#endif
