#include "serve/watchdog.h"

#include "base/clock.h"
#include "base/threads/counter.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "serve/domain.h"
#include "serve/scheduler.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { TICKS = 8 }; /* in the shortest limit */
static const int64_t shortest_tick_ns = 5 * TT_MS, longest_tick_ns = TT_S;

struct tt_watchdog {
    struct tt_scheduler *scheduler;
    struct tt_lock lock; /* guards `limit_ns` */
    int64_t limit_ns;    /* the shortest so far */
    struct tt_counter is_exhausted;
    struct tt_counter hurry_at; /* TT_NEVER: the server does not stop */
    struct tt_flag stopping;
    struct tt_eventcount eventcount;
    pthread_t thread;
    bool started;
};

static bool hurries(const struct tt_watchdog *self) {
    return tt_clock_now() >= tt_counter_get(&self->hurry_at);
}

static int64_t tick_ns(struct tt_watchdog *self) {
    tt_lock_take(&self->lock);
    int64_t ns = self->limit_ns / TICKS;
    tt_lock_give(&self->lock);
    if (hurries(self))
        return shortest_tick_ns;
    return tt_instant_min(tt_instant_max(ns, shortest_tick_ns), longest_tick_ns);
}

static void look(struct tt_watchdog *self, int64_t elapsed_ns) {
    struct tt_domain_look look = {.elapsed_ns = elapsed_ns,
                                  .least_patience_ns = TT_WATCHDOG_LEAST_PATIENCE_NS,
                                  .patience_ns = TT_WATCHDOG_PATIENCE_NS,
                                  .hurries = hurries(self)};
    tt_scheduler_hold(self->scheduler);
    for (struct tt_domain *domain = tt_scheduler_first_domain(self->scheduler); domain;
         domain = domain->next)
        tt_domain_watch_look(domain, &look);
    tt_scheduler_resume(self->scheduler);
    tt_counter_set(&self->is_exhausted, look.is_exhausted);
    if (look.needs_turn)
        tt_scheduler_wake(self->scheduler);
}

static void *watchdog_main(void *context) {
    struct tt_watchdog *self = context;
    pthread_setname_np(pthread_self(), "tutti-watchdog");
    int64_t before_at = tt_clock_now();
    while (!tt_flag_is_raised(&self->stopping)) {
        int64_t period_ns = tick_ns(self);
        int64_t until_at = tt_instant_add(before_at, period_ns), now = tt_clock_now();
        int64_t hurry_at = tt_counter_get(&self->hurry_at);
        if (hurry_at > now)
            until_at = tt_instant_min(until_at, hurry_at);
        (void)tt_eventcount_sleep(&self->eventcount, until_at);
        now = tt_clock_now();
        look(self, tt_instant_min(now - before_at, 2 * period_ns));
        before_at = now;
    }
    return NULL;
}

enum tt_err tt_watchdog_new(struct tt_scheduler *scheduler, struct tt_watchdog **out_watchdog,
                            struct tt_error *why) {
    struct tt_watchdog *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the watchdog");
    self->scheduler = scheduler;
    self->limit_ns = longest_tick_ns * TICKS;
    tt_counter_set(&self->hurry_at, TT_NEVER);
    tt_lock_init(&self->lock);
    tt_eventcount_init(&self->eventcount);
    *out_watchdog = self;
    return TT_OK;
}

enum tt_err tt_watchdog_start(struct tt_watchdog *self, struct tt_error *why) {
    tt_assert(!self->started);
    int failed = pthread_create(&self->thread, NULL, watchdog_main, self);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start the watchdog's thread: %s", strerror(failed));
    self->started = true;
    return TT_OK;
}

void tt_watchdog_stop(struct tt_watchdog *self) {
    if (!self->started)
        return;
    tt_flag_raise(&self->stopping);
    tt_eventcount_notify(&self->eventcount);
    pthread_join(self->thread, NULL);
    self->started = false;
}

void tt_watchdog_free(struct tt_watchdog *take_self) {
    if (!take_self)
        return;
    tt_assert(!take_self->started);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}

void tt_watchdog_limit(struct tt_watchdog *self, int64_t max_run_ns) {
    tt_lock_take(&self->lock);
    self->limit_ns = tt_instant_min(self->limit_ns, max_run_ns);
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

void tt_watchdog_hurry_at(struct tt_watchdog *self, int64_t at) {
    tt_counter_set(&self->hurry_at, at);
    tt_eventcount_notify(&self->eventcount);
}

bool tt_watchdog_is_exhausted(const struct tt_watchdog *self) {
    return tt_counter_get(&self->is_exhausted) != 0;
}
