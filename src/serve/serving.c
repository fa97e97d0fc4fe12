#include "serve/serving.h"

#include "base/clock.h"
#include "base/combining_lock.h"
#include "base/counter.h"
#include "base/eventcount.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/refcount.h"
#include "serve/domain.h"
#include "serve/input_ring.h"
#include "serve/scheduler.h"
#include "serve/serving_options.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS_OF_HELPERS = 4 };

struct tt_serving {
    /* The owner, and every executor that is just now telling of a task: the last one frees, since
     * the owner may have seen the task before its executor has notified the scheduler. */
    struct tt_refcount users;
    struct tt_limits limits;
    /* The scheduler holds it for a turn; ports and models come and go between two. */
    struct tt_lock turn_lock;
    struct tt_domain *domains;
    struct tt_recorder *recorder; /* NULL: nothing is recorded */
    struct tt_trace *trace;
    struct tt_counter turns, busy_ns; /* the scheduler's */
    int32_t scheduler_threads;        /* of each domain */
    struct tt_port *ports;
    struct tt_lock catalogue_lock;
    struct tt_catalogue *catalogue;
    struct tt_counter generation;  /* of the catalogue; ports look here first */
    struct tt_served_model *fixed; /* by `next`: added for as long as the server lives */
    tt_model_controller_fn *controller;
    void *controller_context;
    struct tt_combining_lock work_lock; /* of turns */
    /* The holder's: */
    struct tt_list decided;  /* tasks of the last turn: tt_domain_hand_over */
    struct tt_port *at_hand; /* the port that the holder will look at anyway; NULL: none */
    struct tt_eventcount eventcount;
    struct tt_flag stopping;
    pthread_t thread;
    bool started;
};

/* ---- the scheduler's thread ---- */

static void take_in(struct tt_port *port, int64_t now) {
    void *message;
    while ((message = tt_ring_pop(&port->to_scheduler))) {
        bool cancels = (uintptr_t)message & 1;
        struct tt_inference *inference =
            (struct tt_inference *)((uintptr_t)message & ~(uintptr_t)1);
        struct tt_domain *domain = inference->lane->model->domain;
        if (cancels) {
            tt_domain_cancel(domain, now, inference);
            bool pushed = tt_ring_push(&port->to_port, message);
            tt_assert(pushed);
            port->dirty = true;
        } else {
            tt_domain_submit(domain, now, inference);
        }
    }
}

static void wake_ports(struct tt_serving *self) {
    for (struct tt_port *port = self->ports; port; port = port->next) {
        if (port->dirty) {
            port->dirty = false;
            if (port != self->at_hand && tt_eventcount_claim(&port->eventcount))
                port->wake(port->wake_context);
        }
    }
}

/* One turn: everything that happened, then decisions. Returns when the next turn is due. */
static int64_t turn(struct tt_serving *self) {
    /* Finished requests go to their ports' rings: from here on no port may go away. */
    tt_lock_take(&self->turn_lock);
    int64_t now = tt_clock_now(); /* here, since time told to a mechanism never goes back */
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        tt_domain_collect(domain, now);
    for (struct tt_port *port = self->ports; port; port = port->next)
        take_in(port, now);
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        tt_domain_take_inputs(domain, now);
    int64_t next_at = TT_NEVER;
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        next_at = tt_instant_min(next_at, tt_domain_decide(domain, now));
    wake_ports(self);
    tt_counter_add(&self->turns, 1);
    tt_counter_add(&self->busy_ns, tt_clock_now() - now);
    tt_lock_give(&self->turn_lock);
    return next_at;
}

/* Gives what the turn has decided to executors, or runs it here; how long that took, after
 * `spent_ns` that it took in earlier turns. */
static int64_t hand_over(struct tt_serving *self, int64_t spent_ns) {
    int64_t took_ns = 0;
    while (!tt_list_empty(&self->decided))
        took_ns += tt_domain_hand_over(&self->decided, tt_instant_add(spent_ns, took_ns));
    return took_ns;
}

/* Turns while there is news, on the thread that brought some; at most `limit`, beside those that
 * lead to something that runs here, of which `spent_ns` counts the time. Then the scheduler's own
 * thread goes on: connections and executors have something else to do. */
static void work(struct tt_serving *self, struct tt_port *at_hand, int32_t limit,
                 int64_t spent_ns) {
    bool wake = false;
    while (!wake && tt_combining_lock_take(&self->work_lock)) {
        self->at_hand = at_hand;
        while (!wake && tt_combining_lock_take_work(&self->work_lock)) {
            wake = tt_eventcount_set_due(&self->eventcount, turn(self));
            int64_t took_ns = hand_over(self, spent_ns);
            spent_ns = tt_instant_add(spent_ns, took_ns);
            if (took_ns == 0 && --limit == 0 && !wake) {
                tt_combining_lock_post(&self->work_lock); /* perhaps for nothing: one empty turn */
                wake = true;
            }
        }
        tt_combining_lock_give(&self->work_lock);
    }
    if (wake)
        tt_eventcount_notify(&self->eventcount);
}

static void *scheduler_main(void *context) {
    struct tt_serving *self = context;
    pthread_setname_np(pthread_self(), "tutti-sched");
    while (!tt_flag_is_raised(&self->stopping)) {
        tt_eventcount_cancel(&self->eventcount);
        if (tt_clock_now() >= tt_eventcount_due_at(&self->eventcount))
            tt_combining_lock_post(&self->work_lock);
        work(self, NULL, INT32_MAX, 0);
        tt_eventcount_wait(&self->eventcount, tt_eventcount_prepare_due(&self->eventcount));
    }
    return NULL;
}

struct tt_scheduler_stats tt_scheduler_stats(const struct tt_serving *serving) {
    return (struct tt_scheduler_stats){.turns = tt_counter_get(&serving->turns),
                                       .busy_ns = tt_counter_get(&serving->busy_ns)};
}

void tt_scheduler_domains(struct tt_serving *serving, tt_scheduler_domain_fn *each, void *context) {
    int32_t index = 0;
    tt_lock_take(&serving->turn_lock);
    for (const struct tt_domain *domain = serving->domains; domain; domain = domain->next)
        each(context, index++, domain);
    tt_lock_give(&serving->turn_lock);
}

struct tt_recorder *tt_scheduler_recorder(struct tt_serving *serving) {
    return serving->recorder;
}

void tt_scheduler_wake(struct tt_serving *serving) {
    tt_combining_lock_post(&serving->work_lock);
    work(serving, NULL, TURNS_OF_HELPERS, TT_NEVER);
}

void tt_scheduler_wake_from(struct tt_port *port) {
    struct tt_serving *serving = port->serving;
    tt_combining_lock_post(&serving->work_lock);
    work(serving, port->holds_back ? port : NULL, TURNS_OF_HELPERS, 0);
}

void tt_scheduler_add_port(struct tt_serving *serving, struct tt_port *port) {
    tt_lock_take(&serving->turn_lock);
    port->next = serving->ports;
    serving->ports = port;
    tt_lock_give(&serving->turn_lock);
}

void tt_scheduler_remove_port(struct tt_serving *serving, struct tt_port *port) {
    tt_lock_take(&serving->turn_lock);
    struct tt_port **at = &serving->ports;
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    tt_lock_give(&serving->turn_lock);
}

static void serving_unref(struct tt_serving *serving) {
    if (!tt_refcount_unref(&serving->users))
        return;
    tt_lock_fini(&serving->turn_lock);
    tt_lock_fini(&serving->catalogue_lock);
    free(serving);
}

void tt_serving_done(void *context, struct tt_device_task *task) {
    struct tt_serving *serving = context;
    tt_refcount_ref(
        &serving->users); /* the push may end the last request, and with it the server */
    tt_domain_done(task->user, task);
    tt_scheduler_wake(serving);
    serving_unref(serving);
}

/* ---- opening and closing ---- */

enum tt_err tt_serving_open(struct tt_serving **out_serving, struct tt_error *why) {
    struct tt_serving *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the server");
    enum tt_err err = tt_trace_new(TT_TRACE_RECORDS, &self->trace, why);
    if (err) {
        free(self);
        return err;
    }
    tt_refcount_init(&self->users, 1);
    tt_lock_init(&self->turn_lock);
    tt_lock_init(&self->catalogue_lock);
    tt_eventcount_init(&self->eventcount);
    tt_limits_default(&self->limits);
    tt_combining_lock_init(&self->work_lock);
    tt_list_init(&self->decided);
    *out_serving = self;
    return TT_OK;
}

void tt_serving_set_limits(struct tt_serving *serving, const struct tt_limits *limits) {
    tt_assert(serving->ports == NULL);
    tt_assert(serving->domains == NULL);
    serving->limits = *limits;
}

const struct tt_limits *tt_scheduler_limits(const struct tt_serving *serving) {
    return &serving->limits;
}

void tt_serving_use_threads(struct tt_serving *serving, int32_t scheduler_threads) {
    tt_assert(serving->domains == NULL);
    serving->scheduler_threads = scheduler_threads;
}

void tt_serving_record(struct tt_serving *serving, struct tt_recorder *recorder) {
    tt_assert(serving->domains == NULL);
    serving->recorder = recorder;
}

/* ---- models ---- */

void tt_serving_add(struct tt_serving *serving, struct tt_served_model *take_model) {
    tt_assert(!serving->started);
    take_model->next = serving->fixed;
    serving->fixed = take_model;
}

static bool same_policy(const struct tt_domain *domain, const struct tt_serving_policy *policy) {
    return strcmp(domain->policy, policy->name) == 0 &&
           tt_options_same(domain->options, domain->option_count, policy->options,
                           policy->option_count);
}

static void wake_serving(void *context) { tt_scheduler_wake(context); }

static enum tt_err new_domain(struct tt_serving *serving, const struct tt_serving_policy *policy,
                              struct tt_engine *engine, int32_t executors, int32_t *next_executor,
                              struct tt_domain **out_domain, struct tt_error *why) {
    if (executors > engine->executor_count - *next_executor)
        return tt_fail(TT_ERR_BUSY, why,
                       "policy %s needs %d executors of its own, the engine has %d left",
                       policy->name, executors, engine->executor_count - *next_executor);
    struct tt_domain_options options = {.engine = engine,
                                        .first_executor = *next_executor,
                                        .executor_count = executors,
                                        .devices = policy->devices,
                                        .depth = policy->depth,
                                        .model_capacity = TT_DOMAIN_MAX_MODELS,
                                        .max_batch = TT_DOMAIN_MAX_BATCH,
                                        .limits = &serving->limits,
                                        .decided = &serving->decided,
                                        .policy = policy->name,
                                        .options = policy->options,
                                        .option_count = policy->option_count,
                                        .recorder = serving->recorder,
                                        .trace = serving->trace,
                                        .scheduler_threads = serving->scheduler_threads,
                                        .wake = wake_serving,
                                        .wake_context = serving};
    struct tt_domain *domain;
    enum tt_err err = tt_domain_new(&options, &domain, why);
    if (err)
        return err;
    *next_executor += executors;
    tt_lock_take(&serving->turn_lock);
    domain->next = serving->domains;
    serving->domains = domain;
    tt_lock_give(&serving->turn_lock);
    *out_domain = domain;
    return TT_OK;
}

enum tt_err tt_serving_place(struct tt_serving *serving, struct tt_served_model *model,
                             const struct tt_serving_policy *policy, struct tt_engine *engine,
                             int32_t executors, int32_t *next_executor, struct tt_error *why) {
    tt_assert(policy->option_count <= TT_MAX_OPTIONS);
    if (model->signature->max_batch > TT_DOMAIN_MAX_BATCH)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "a maximum batch of %d rows; at most %d are served",
                       model->signature->max_batch, TT_DOMAIN_MAX_BATCH);
    /* The list of domains changes on this thread alone. */
    struct tt_domain *domain = serving->domains;
    while (domain && !(domain->engine == engine && same_policy(domain, policy) &&
                       domain->model_count < TT_DOMAIN_MAX_MODELS))
        domain = domain->next;
    if (!domain) {
        enum tt_err err =
            new_domain(serving, policy, engine, executors, next_executor, &domain, why);
        if (err)
            return err;
    }
    if (tt_domain_awaits_inputs(domain) && tt_input_ring_fits(model->signature)) {
        enum tt_err err =
            tt_input_ring_new(model->signature, model->input_slots, &model->inputs, why);
        if (err)
            return err;
    }
    tt_lock_take(&serving->turn_lock);
    tt_domain_add_model(domain, tt_clock_now(), model);
    tt_lock_give(&serving->turn_lock);
    return TT_OK;
}

void tt_serving_drain(struct tt_serving *serving, struct tt_served_model *model) {
    tt_lock_take(&serving->turn_lock);
    tt_domain_drain_model(model->domain, tt_clock_now(), model);
    tt_lock_give(&serving->turn_lock);
    tt_scheduler_wake(serving);
}

void tt_serving_remove(struct tt_serving *serving, struct tt_served_model *model) {
    tt_lock_take(&serving->turn_lock);
    tt_domain_remove_model(model->domain, tt_clock_now(), model);
    tt_lock_give(&serving->turn_lock);
}

void tt_serving_leave_engine(struct tt_serving *serving, const struct tt_engine *engine) {
    struct tt_domain *left = NULL;
    tt_lock_take(&serving->turn_lock);
    for (struct tt_domain **at = &serving->domains; *at;) {
        struct tt_domain *domain = *at;
        if (domain->engine != engine) {
            at = &domain->next;
            continue;
        }
        tt_assert(domain->model_count == 0);
        *at = domain->next;
        domain->next = left;
        left = domain;
    }
    tt_lock_give(&serving->turn_lock);
    for (struct tt_domain *next; left; left = next) {
        next = left->next;
        tt_domain_free(left);
    }
}

/* ---- catalogues ---- */

void tt_serving_publish(struct tt_serving *serving, struct tt_catalogue *take_catalogue) {
    tt_lock_take(&serving->catalogue_lock);
    struct tt_catalogue *old = serving->catalogue;
    serving->catalogue = take_catalogue;
    tt_counter_add(&serving->generation, 1);
    tt_lock_give(&serving->catalogue_lock);
    tt_catalogue_unref(old);
    /* A port that is idle must let go of the old one, too. */
    tt_lock_take(&serving->turn_lock);
    for (struct tt_port *port = serving->ports; port; port = port->next)
        port->wake(port->wake_context);
    tt_lock_give(&serving->turn_lock);
}

void tt_port_refresh(struct tt_port *port) {
    struct tt_serving *serving = port->serving;
    if (tt_counter_get(&serving->generation) == port->generation)
        return;
    struct tt_catalogue *old = port->catalogue;
    tt_lock_take(&serving->catalogue_lock);
    port->catalogue = serving->catalogue ? tt_catalogue_ref(serving->catalogue) : NULL;
    port->generation = tt_counter_get(&serving->generation);
    tt_lock_give(&serving->catalogue_lock);
    tt_port_sweep_lanes(port);
    tt_catalogue_unref(old);
}

static enum tt_err publish_fixed(struct tt_serving *serving, struct tt_error *why) {
    int32_t count = 0;
    for (struct tt_served_model *model = serving->fixed; model; model = model->next)
        count++;
    struct tt_catalogue *catalogue = tt_catalogue_new(count);
    enum tt_err err = catalogue ? TT_OK : TT_ERR_NO_MEMORY;
    for (struct tt_served_model *model = serving->fixed; model && !err; model = model->next) {
        bool ready = tt_served_model_ready(model);
        struct tt_catalogue_entry entry = {.name = model->name,
                                           .version = model->version,
                                           .state = ready ? TT_MODEL_READY : TT_MODEL_UNAVAILABLE,
                                           .reason = ready ? NULL : model->reason,
                                           .model = ready ? model : NULL,
                                           .stats = model->stats};
        err = tt_catalogue_add(catalogue, &entry);
    }
    if (err) {
        tt_catalogue_unref(catalogue);
        return tt_fail(err, why, "out of memory for the models");
    }
    tt_catalogue_seal(catalogue);
    tt_serving_publish(serving, catalogue);
    return TT_OK;
}

/* ---- starting and closing ---- */

void tt_serving_set_controller(struct tt_serving *serving, tt_model_controller_fn *controller,
                               void *context) {
    serving->controller = controller;
    serving->controller_context = context;
}

void tt_scheduler_control(struct tt_serving *serving, struct tt_model_command *take_command) {
    if (serving->controller) {
        serving->controller(serving->controller_context, take_command);
        return;
    }
    take_command->err = tt_fail(TT_ERR_UNAVAILABLE, &take_command->why,
                                "the models of this server cannot be loaded or unloaded");
    tt_model_command_finish(take_command);
}

enum tt_err tt_serving_start(struct tt_serving *serving, struct tt_error *why) {
    if (serving->fixed) {
        enum tt_err err = publish_fixed(serving, why);
        if (err)
            return err;
    }
    int failed = pthread_create(&serving->thread, NULL, scheduler_main, serving);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start the scheduler's thread: %s", strerror(failed));
    serving->started = true;
    return TT_OK;
}

void tt_serving_close(struct tt_serving *take_serving) {
    if (!take_serving)
        return;
    tt_assert(take_serving->ports == NULL);
    if (take_serving->started) {
        tt_flag_raise(&take_serving->stopping);
        tt_eventcount_notify(&take_serving->eventcount);
        pthread_join(take_serving->thread, NULL);
        /* An executor that rang for a task which its owner saw already may be in a turn. It is the
         * last one: the lock is never given back. */
        while (tt_combining_lock_post(&take_serving->work_lock),
               !tt_combining_lock_take(&take_serving->work_lock))
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    for (struct tt_domain *domain = take_serving->domains, *next; domain; domain = next) {
        next = domain->next;
        tt_domain_free(domain);
    }
    tt_trace_free(take_serving->trace);
    tt_catalogue_unref(take_serving->catalogue);
    for (struct tt_served_model *model = take_serving->fixed, *next; model; model = next) {
        next = model->next;
        tt_served_model_unref(model);
    }
    serving_unref(take_serving);
}

/* ---- what connections ask ---- */

enum tt_err tt_serving_find(struct tt_port *port, const char *name, const char *version,
                            struct tt_served_model **out_model, struct tt_error *why) {
    tt_port_refresh(port);
    int32_t count = 0;
    const struct tt_catalogue_entry *entries =
        port->catalogue ? tt_catalogue_find(port->catalogue, name, &count) : NULL;
    const struct tt_catalogue_entry *known = NULL;
    for (int32_t i = 0; i < count; i++) {
        if (*version && strcmp(entries[i].version, version) != 0)
            continue;
        if (entries[i].model) {
            *out_model = entries[i].model;
            return TT_OK;
        }
        known = known ? known : &entries[i];
    }
    if (known && *known->version)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "Request for unknown model: '%s' version %s is not at ready state: %s", name,
                       known->version,
                       *known->reason ? known->reason : tt_model_state_name(known->state));
    if (count > 0 && *version)
        return tt_fail(TT_ERR_NOT_FOUND, why,
                       "Request for unknown model: '%s' version %s is not found", name, version);
    if (known)
        return tt_fail(TT_ERR_NOT_FOUND, why,
                       "Request for unknown model: '%s' is not found: it is in the repository, "
                       "but not loaded",
                       name);
    return tt_fail(TT_ERR_NOT_FOUND, why, "Request for unknown model: '%s' is not found", name);
}

void tt_serving_index(struct tt_port *port, tt_serving_index_fn *each, void *context) {
    tt_port_refresh(port);
    for (int32_t i = 0; port->catalogue && i < port->catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &port->catalogue->entries[i];
        each(context, entry->name, entry->version, tt_model_state_name(entry->state),
             entry->reason);
    }
}

void tt_serving_stats(struct tt_port *port, const char *model, const char *version,
                      tt_serving_stats_fn *each, void *context) {
    tt_port_refresh(port);
    for (int32_t i = 0; port->catalogue && i < port->catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &port->catalogue->entries[i];
        if (entry->model && (!model || strcmp(entry->name, model) == 0) &&
            (!*version || strcmp(entry->version, version) == 0))
            each(context, entry->name, entry->version, entry->stats);
    }
}

/* A model that cannot serve says so itself; it must not take the others out of a load balancer. */
bool tt_serving_ready(const struct tt_serving *serving) { return serving->started; }

enum tt_err tt_serving_trace(struct tt_serving *serving, int64_t last_ns, struct tt_text *out_json,
                             struct tt_error *why) {
    return tt_trace_write(serving->trace, tt_clock_now() - last_ns, out_json, why);
}
