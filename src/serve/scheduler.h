/* The server's scheduling thread, as its ports see it. */
#ifndef TT_SERVE_SCHEDULER_H
#define TT_SERVE_SCHEDULER_H

#include "serve/inference.h"

/* There is something in a ring for the scheduler. Any thread: it takes the scheduler's turn itself
 * where nobody else is at it, so it must hold no lock, and `wake` of a port may be called. */
void tt_scheduler_wake(struct tt_serving *serving);
/* The same for a port's own thread, which may also run short tasks itself, and which looks at the
 * port afterwards: it is not woken. */
void tt_scheduler_wake_from(struct tt_port *port);
/* The scheduler looks at this port's ring from now on / never again when this returns. Port's
 * thread. */
void tt_scheduler_add_port(struct tt_serving *serving, struct tt_port *port);
void tt_scheduler_remove_port(struct tt_serving *serving, struct tt_port *port);
/* The scheduler's own work. Any thread. */
struct tt_scheduler_stats {
    int64_t turns, busy_ns;
};
struct tt_scheduler_stats tt_scheduler_stats(const struct tt_serving *serving);
/* Calls `each` per domain, between two turns. Any thread but the scheduler's. */
struct tt_domain;
typedef void tt_scheduler_domain_fn(void *context, int32_t index, const struct tt_domain *domain);
void tt_scheduler_domains(struct tt_serving *serving, tt_scheduler_domain_fn *each, void *context);
/* NULL: nothing is recorded. */
struct tt_recorder *tt_scheduler_recorder(struct tt_serving *serving);
/* Looks whether another catalogue was published, and goes over to it. Port's thread. */
void tt_port_refresh(struct tt_port *port);
const struct tt_limits *tt_scheduler_limits(const struct tt_serving *serving);
/* Hands the command to the server's controller; without one it is finished as UNAVAILABLE. */
void tt_scheduler_control(struct tt_serving *serving, struct tt_model_command *take_command);

#endif
