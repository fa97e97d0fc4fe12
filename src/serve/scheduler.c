#include "serve/scheduler.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/combining_lock.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "base/threads/refcount.h"
#include "base/threads/time_slice.h"
#include "serve/domain.h"
#include "serve/inference_state.h"
#include "serve/mailbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS_OF_HELPERS = 4 }; /* on a thread that is not the scheduler's own, per notification */

struct tt_scheduler {
    /* The owner, and each executor's thread in tt_scheduler_done(): the task that it pushed may end
     * the last request, and with it the owner, before the call ends. */
    struct tt_refcount users;
    /* Held during a turn; domains and mailboxes come and go between two. */
    struct tt_lock turn_lock;
    struct tt_domain *domains;
    struct tt_mailbox *mailboxes;
    struct tt_counter turns, busy_ns;
    struct tt_combining_lock work; /* decides which thread takes turns */
    /* Of the thread that holds `work`: */
    struct tt_list decided;     /* tasks of the last turn; see tt_domain_hand_over() */
    struct tt_mailbox *at_hand; /* that the holder looks at anyway; NULL: none */
    struct tt_eventcount sleep; /* its own thread's: until the next turn is due */
    struct tt_flag stopping;
    void (*failed)(void *context, struct tt_served_model *model); /* NULL: none */
    void *failed_context;
    pthread_t thread;
    bool started;
};

/* ---- turns ---- */

static void take_in(struct tt_mailbox *mailbox, int64_t now) {
    struct tt_inference *inference;
    bool cancels;
    while ((inference = tt_mailbox_take(mailbox, &cancels))) {
        struct tt_domain *domain = inference->model->domain;
        tt_assert(domain != NULL);
        if (cancels) {
            tt_domain_cancel(domain, now, inference);
            tt_mailbox_acknowledge(mailbox, inference);
        } else {
            tt_assert(inference->request == NULL);
            tt_domain_submit(domain, now, inference);
        }
    }
}

static void wake_receivers(struct tt_scheduler *self) {
    for (struct tt_mailbox *mailbox = self->mailboxes; mailbox; mailbox = mailbox->next) {
        if (mailbox->has_mail) {
            mailbox->has_mail = false;
            if (mailbox != self->at_hand && tt_eventcount_claim(&mailbox->eventcount))
                mailbox->wake(mailbox->wake_context);
        }
    }
}

/* Returns when the next turn is due if nothing happens. */
static int64_t turn(struct tt_scheduler *self) {
    tt_assert(tt_list_empty(&self->decided)); /* the last turn's tasks were handed over */
    /* Ended requests go to their mailboxes: from here on none may go away. */
    tt_lock_take(&self->turn_lock);
    int64_t now = tt_clock_now(); /* under the lock: a mechanism's time never goes back */
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        tt_domain_collect(domain, now);
    for (struct tt_mailbox *mailbox = self->mailboxes; mailbox; mailbox = mailbox->next)
        take_in(mailbox, now);
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        tt_domain_take_inputs(domain, now);
    int64_t next_at = TT_NEVER;
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        next_at = tt_instant_min(next_at, tt_domain_decide(domain, now));
    wake_receivers(self);
    tt_counter_add(&self->turns, 1);
    tt_counter_add(&self->busy_ns, tt_clock_now() - now);
    tt_lock_give(&self->turn_lock);
    return next_at;
}

/* Hands over what the turn decided. Returns for how long tasks ran here; `spent_ns`: the same of
 * the caller's earlier turns. */
static int64_t hand_over(struct tt_scheduler *self, int64_t spent_ns) {
    int64_t took_ns = 0;
    while (!tt_list_empty(&self->decided))
        took_ns += tt_domain_hand_over(&self->decided, tt_instant_add(spent_ns, took_ns));
    return took_ns;
}

/* Takes turns while there is work: at most `limit`, not counting those after which a task ran here.
 * Then the scheduler's own thread continues, because connections and executors have other work. */
static void work(struct tt_scheduler *self, struct tt_mailbox *at_hand, int32_t limit,
                 int64_t spent_ns) {
    bool wake = false;
    while (!wake && tt_combining_lock_take(&self->work)) {
        self->at_hand = at_hand;
        while (!wake && tt_combining_lock_take_work(&self->work)) {
            wake = tt_eventcount_set_due(&self->sleep, turn(self));
            int64_t took_ns = hand_over(self, spent_ns);
            spent_ns = tt_instant_add(spent_ns, took_ns);
            if (took_ns == 0 && --limit == 0 && !wake) {
                tt_combining_lock_post(&self->work); /* at worst, one empty turn */
                wake = true;
            }
        }
        tt_combining_lock_give(&self->work);
    }
    if (wake)
        tt_eventcount_notify(&self->sleep);
}

static void *scheduler_main(void *context) {
    struct tt_scheduler *self = context;
    pthread_setname_np(pthread_self(), "tutti-sched");
    tt_time_slice_be_short();
    while (!tt_flag_is_raised(&self->stopping)) {
        tt_eventcount_cancel(&self->sleep);
        if (tt_clock_now() >= tt_eventcount_due_at(&self->sleep))
            tt_combining_lock_post(&self->work);
        work(self, NULL, INT32_MAX, 0);
        tt_eventcount_wait(&self->sleep, tt_eventcount_prepare_due(&self->sleep));
    }
    return NULL;
}

/* ---- notifying it ---- */

void tt_scheduler_wake(struct tt_scheduler *self) {
    tt_combining_lock_post(&self->work);
    work(self, NULL, TURNS_OF_HELPERS, TT_NEVER);
}

void tt_scheduler_wake_from(struct tt_scheduler *self, struct tt_mailbox *at_hand) {
    tt_combining_lock_post(&self->work);
    work(self, at_hand, TURNS_OF_HELPERS, 0);
}

void tt_scheduler_done(struct tt_scheduler *self, struct tt_device_task *task) {
    bool more = task->more;
    tt_refcount_ref(&self->users);
    tt_domain_done(task);
    if (!more)
        tt_scheduler_wake(self);
    tt_scheduler_unref(self);
}

/* ---- what it serves ---- */

static void on_ended(void *context, struct tt_inference *inference) {
    (void)context;
    tt_assert(inference->mailbox != NULL);
    tt_mailbox_return(inference->mailbox, inference);
}

static void on_given_back(void *context, struct tt_inference *inference) {
    (void)context;
    tt_mailbox_give_back(inference->mailbox, inference);
}

static void on_failed(void *context, struct tt_served_model *model) {
    struct tt_scheduler *self = context;
    if (self->failed)
        self->failed(self->failed_context, model);
}

static void on_wake(void *context) { tt_scheduler_wake(context); }

struct tt_domain_client tt_scheduler_client(struct tt_scheduler *self) {
    return (struct tt_domain_client){.context = self,
                                     .ended = on_ended,
                                     .given_back = on_given_back,
                                     .failed = on_failed,
                                     .wake = on_wake};
}

struct tt_list *tt_scheduler_decided(struct tt_scheduler *self) {
    return &self->decided;
}

void tt_scheduler_hold(struct tt_scheduler *self) { tt_lock_take(&self->turn_lock); }

void tt_scheduler_resume(struct tt_scheduler *self) { tt_lock_give(&self->turn_lock); }

void tt_scheduler_add_domain(struct tt_scheduler *self, struct tt_domain *domain) {
    tt_assert(domain->next == NULL);
    tt_lock_take(&self->turn_lock);
    domain->next = self->domains;
    self->domains = domain;
    tt_lock_give(&self->turn_lock);
}

void tt_scheduler_remove_domain(struct tt_scheduler *self, struct tt_domain *domain) {
    tt_assert(domain->model_count == 0);
    tt_lock_take(&self->turn_lock);
    struct tt_domain **at = &self->domains;
    while (*at != domain)
        at = &(*at)->next;
    *at = domain->next;
    domain->next = NULL;
    tt_lock_give(&self->turn_lock);
}

struct tt_domain *tt_scheduler_first_domain(struct tt_scheduler *self) {
    return self->domains;
}

void tt_scheduler_domains(struct tt_scheduler *self, tt_scheduler_domain_fn *each, void *context) {
    int32_t index = 0;
    tt_lock_take(&self->turn_lock);
    for (const struct tt_domain *domain = self->domains; domain; domain = domain->next)
        each(context, index++, domain);
    tt_lock_give(&self->turn_lock);
}

void tt_scheduler_add_mailbox(struct tt_scheduler *self, struct tt_mailbox *mailbox) {
    tt_assert(mailbox->next == NULL);
    tt_lock_take(&self->turn_lock);
    mailbox->next = self->mailboxes;
    self->mailboxes = mailbox;
    tt_lock_give(&self->turn_lock);
}

void tt_scheduler_remove_mailbox(struct tt_scheduler *self, struct tt_mailbox *mailbox) {
    tt_lock_take(&self->turn_lock);
    struct tt_mailbox **at = &self->mailboxes;
    while (*at != mailbox)
        at = &(*at)->next;
    *at = mailbox->next;
    tt_lock_give(&self->turn_lock);
}

void tt_scheduler_wake_ports(struct tt_scheduler *self) {
    tt_lock_take(&self->turn_lock);
    for (struct tt_mailbox *mailbox = self->mailboxes; mailbox; mailbox = mailbox->next)
        mailbox->wake(mailbox->wake_context);
    tt_lock_give(&self->turn_lock);
}

bool tt_scheduler_has_ports(struct tt_scheduler *self) { return self->mailboxes != NULL; }

struct tt_scheduler_stats tt_scheduler_stats(const struct tt_scheduler *self) {
    return (struct tt_scheduler_stats){.turns = tt_counter_get(&self->turns),
                                       .busy_ns = tt_counter_get(&self->busy_ns)};
}

/* ---- life ---- */

enum tt_err tt_scheduler_new(struct tt_scheduler **out_scheduler, struct tt_error *why) {
    struct tt_scheduler *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler");
    tt_refcount_init(&self->users, 1);
    tt_lock_init(&self->turn_lock);
    tt_combining_lock_init(&self->work);
    tt_list_init(&self->decided);
    tt_eventcount_init(&self->sleep);
    *out_scheduler = self;
    return TT_OK;
}

void tt_scheduler_on_failed(struct tt_scheduler *self,
                            void (*failed)(void *context, struct tt_served_model *model),
                            void *context) {
    tt_assert(self->domains == NULL);
    self->failed = failed;
    self->failed_context = context;
}

enum tt_err tt_scheduler_start(struct tt_scheduler *self, struct tt_error *why) {
    tt_assert(!self->started);
    int failed = pthread_create(&self->thread, NULL, scheduler_main, self);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start the scheduler's thread: %s", strerror(failed));
    self->started = true;
    return TT_OK;
}

void tt_scheduler_stop(struct tt_scheduler *self) {
    tt_assert(self->mailboxes == NULL);
    if (!self->started)
        return;
    tt_flag_raise(&self->stopping);
    tt_eventcount_notify(&self->sleep);
    pthread_join(self->thread, NULL);
    self->started = false;
    /* An executor's thread may be in a turn: it notified of a task that its owner already saw. This
     * waits for that turn, and keeps the lock, so that it was the last one. */
    while (tt_combining_lock_post(&self->work), !tt_combining_lock_take(&self->work))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void tt_scheduler_unref(struct tt_scheduler *take_self) {
    if (!take_self || !tt_refcount_unref(&take_self->users))
        return;
    tt_assert(tt_list_empty(&take_self->decided));
    tt_assert(take_self->mailboxes == NULL);
    tt_lock_fini(&take_self->turn_lock);
    free(take_self);
}
