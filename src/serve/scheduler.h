/* The scheduler: it takes turns, in which all domains learn what happened and decide.
 *
 * A turn takes in what executors finished, what ports sent, and inputs that came to their slots;
 * then each domain decides. Turns run one at a time, on the thread that brings the work: a port's,
 * an executor's, or a domain's own (base/threads/combining_lock.h). So no thread is woken only to
 * decide. The scheduler's own thread takes the turns that time brings, and continues where others
 * have taken their share (base/threads/eventcount.h). After a turn the same thread hands over the
 * tasks that the turn decided, outside the turn: to executors, or it runs very short ones itself,
 * within a budget (serve/short_runs.h).
 *
 * Life: _new(), domains and mailboxes are added, _start(), ..., mailboxes are removed, _stop(),
 * domains are freed by their owner, _unref(). An executor's thread that notifies holds a reference,
 * so the scheduler may outlive its owner's by one such call.
 *
 * It calls nothing above it: a domain calls it through struct tt_domain_client, a port directly.
 * Implemented in scheduler.c. */
#ifndef TT_SERVE_SCHEDULER_H
#define TT_SERVE_SCHEDULER_H

#include "base/err.h"
#include "serve/inference_end.h"

struct tt_domain;
struct tt_device_task;
struct tt_served_model;
struct tt_list;
struct tt_mailbox;
struct tt_scheduler;

/* With one reference, the caller's. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_scheduler_new(struct tt_scheduler **out_scheduler,
                                           struct tt_error *why);
/* `failed` is notified of models that fail, in a turn (struct tt_domain_client). Before the first
 * domain is added. */
void tt_scheduler_on_failed(struct tt_scheduler *self,
                            void (*failed)(void *context, struct tt_served_model *model),
                            void *context);
/* Starts its thread. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_scheduler_start(struct tt_scheduler *self, struct tt_error *why);
/* Ends its thread; from here on no thread takes a turn. No mailbox is left. A second call does
 * nothing. */
void tt_scheduler_stop(struct tt_scheduler *self);
void tt_scheduler_unref(struct tt_scheduler *take_self); /* NULL-safe */

/* ---- notifying it ---- */

/* There is work for it. Any thread that holds no lock: the caller may take turns itself, in which
 * `wake` of ports is called. */
void tt_scheduler_wake(struct tt_scheduler *self);
/* The same for a port's thread, which may also run short tasks itself. `at_hand`: a mailbox that
 * the caller looks at afterwards anyway, so that it is not woken; NULL: none. */
void tt_scheduler_wake_from(struct tt_scheduler *self, struct tt_mailbox *at_hand);
/* An executor of an engine finished a task of a domain. Executor's thread. */
void tt_scheduler_done(struct tt_scheduler *self, struct tt_device_task *task);

/* ---- what it serves ---- */

/* For the options of a domain that is added later. */
struct tt_domain_client tt_scheduler_client(struct tt_scheduler *self);
struct tt_list *tt_scheduler_decided(struct tt_scheduler *self);

/* Between _hold() and _resume() no turn runs, so the caller may change domains. Not nested; never
 * in a turn. */
void tt_scheduler_hold(struct tt_scheduler *self);
void tt_scheduler_resume(struct tt_scheduler *self);
/* The domain, borrowed until it is removed, takes part in turns. One thread at a time adds,
 * removes and walks the domains; the functions hold turns themselves. */
void tt_scheduler_add_domain(struct tt_scheduler *self, struct tt_domain *domain);
void tt_scheduler_remove_domain(struct tt_scheduler *self, struct tt_domain *domain);
/* The first one; the others follow by `next`. NULL: none. */
struct tt_domain *tt_scheduler_first_domain(struct tt_scheduler *self);
/* Calls `each` per domain, between two turns. Any thread, but not in a turn. */
typedef void tt_scheduler_domain_fn(void *context, int32_t index, const struct tt_domain *domain);
void tt_scheduler_domains(struct tt_scheduler *self, tt_scheduler_domain_fn *each, void *context);

/* The scheduler reads this mailbox from now on / never again after the return. */
void tt_scheduler_add_mailbox(struct tt_scheduler *self, struct tt_mailbox *mailbox);
void tt_scheduler_remove_mailbox(struct tt_scheduler *self, struct tt_mailbox *mailbox);
/* Wakes the threads of all ports. Any thread, but not in a turn. */
void tt_scheduler_wake_ports(struct tt_scheduler *self);
bool tt_scheduler_has_ports(struct tt_scheduler *self);

/* Its own work so far. Any thread. */
struct tt_scheduler_stats {
    int64_t turns, busy_ns;
};
struct tt_scheduler_stats tt_scheduler_stats(const struct tt_scheduler *self);

#endif
