#include "rt/serving.h"

#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/parker.h"
#include "base/refcount.h"
#include "rt/domain.h"
#include "rt/scheduler.h"
#include "rt/serving_options.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_serving {
    /* The owner, and every executor that is just now telling of a task: the last one frees, since
     * the owner may have seen the task before its executor has rung the bell. */
    struct tt_refcount users;
    struct tt_served_model *models; /* by name, then version, highest first */
    struct tt_domain *domains;
    struct tt_lock ports_lock; /* guards the list, which ports' threads change */
    struct tt_port *ports;
    struct tt_parker parker;
    struct tt_flag stopping;
    pthread_t thread;
    bool started;
};

/* ---- the scheduler's thread ---- */

static void take_in(struct tt_port *port, int64_t now) {
    void *message;
    while ((message = tt_ring_pop(&port->to_scheduler))) {
        bool cancels = (uintptr_t)message & 1;
        struct tt_infer *infer = (struct tt_infer *)((uintptr_t)message & ~(uintptr_t)1);
        struct tt_domain *domain = infer->lane->model->domain;
        if (cancels) {
            tt_domain_cancel(domain, now, infer);
            bool pushed = tt_ring_push(&port->to_port, message);
            tt_assert(pushed);
            port->dirty = true;
        } else {
            tt_domain_submit(domain, now, infer);
        }
    }
}

static void wake_ports(struct tt_serving *self) {
    for (struct tt_port *port = self->ports; port; port = port->next) {
        if (port->dirty) {
            port->dirty = false;
            port->wake(port->wake_context);
        }
    }
}

/* One turn: everything that happened, then decisions. Returns when the next turn is due. */
static int64_t turn(struct tt_serving *self) {
    int64_t now = tt_clock_now();
    /* Finished requests go to their ports' rings: from here on no port may go away. */
    tt_lock_take(&self->ports_lock);
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next)
        tt_domain_collect(domain, now);
    for (struct tt_port *port = self->ports; port; port = port->next)
        take_in(port, now);
    int64_t next_at = TT_NEVER;
    for (struct tt_domain *domain = self->domains; domain; domain = domain->next) {
        tt_mechanism_decide(&domain->mechanism, now);
        next_at = tt_instant_min(next_at, tt_mechanism_next_at(&domain->mechanism));
    }
    wake_ports(self);
    tt_lock_give(&self->ports_lock);
    return next_at;
}

static void *scheduler_main(void *context) {
    struct tt_serving *self = context;
    while (!tt_flag_is_raised(&self->stopping)) {
        int64_t next_at = turn(self);
        tt_parker_park(&self->parker, next_at);
    }
    return NULL;
}

void tt_scheduler_wake(struct tt_serving *serving) { tt_parker_unpark(&serving->parker); }

void tt_scheduler_add_port(struct tt_serving *serving, struct tt_port *port) {
    tt_lock_take(&serving->ports_lock);
    port->next = serving->ports;
    serving->ports = port;
    tt_lock_give(&serving->ports_lock);
}

void tt_scheduler_remove_port(struct tt_serving *serving, struct tt_port *port) {
    tt_lock_take(&serving->ports_lock);
    struct tt_port **at = &serving->ports;
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    tt_lock_give(&serving->ports_lock);
}

static void serving_unref(struct tt_serving *serving) {
    if (!tt_refcount_unref(&serving->users))
        return;
    tt_lock_fini(&serving->ports_lock);
    free(serving);
}

void tt_serving_done(void *context, struct tt_engine_task *task) {
    struct tt_serving *serving = context;
    tt_refcount_ref(
        &serving->users); /* the push may end the last request, and with it the server */
    tt_domain_done(task->user, task);
    tt_scheduler_wake(serving);
    serving_unref(serving);
}

/* ---- opening and closing ---- */

enum tt_err tt_serving_open(struct tt_serving **out_serving, struct tt_message *why) {
    struct tt_serving *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the server");
    tt_refcount_init(&self->users, 1);
    tt_lock_init(&self->ports_lock);
    tt_parker_init(&self->parker);
    *out_serving = self;
    return TT_OK;
}

/* By name; versions of one name by number, the highest first. */
static bool stands_before(const struct tt_served_model *a, const struct tt_served_model *b) {
    int order = strcmp(a->name, b->name);
    return order != 0 ? order < 0 : atoll(a->version) > atoll(b->version);
}

void tt_serving_add(struct tt_serving *serving, struct tt_served_model *take_model) {
    tt_assert(!serving->started);
    struct tt_served_model **at = &serving->models;
    while (*at && stands_before(*at, take_model))
        at = &(*at)->next;
    take_model->next = *at;
    *at = take_model;
}

static bool same_policy(const struct tt_domain *domain, const struct tt_serving_policy *policy) {
    if (strcmp(domain->policy, policy->name) != 0 || domain->option_count != policy->option_count)
        return false;
    for (int32_t i = 0; i < policy->option_count; i++)
        if (strcmp(domain->options[i].key, policy->options[i].key) != 0 ||
            strcmp(domain->options[i].value, policy->options[i].value) != 0)
            return false;
    return true;
}

enum tt_err tt_serving_place(struct tt_serving *serving, struct tt_served_model *model,
                             const struct tt_serving_policy *policy, struct tt_engine *engine,
                             int32_t executors, int32_t *next_executor, struct tt_message *why) {
    tt_assert(!serving->started);
    tt_assert(policy->option_count <= TT_MAX_OPTIONS);
    if (model->signature->max_batch > TT_DOMAIN_MAX_BATCH)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "a maximum batch of %d rows; at most %d are served",
                       model->signature->max_batch, TT_DOMAIN_MAX_BATCH);
    struct tt_domain *domain = serving->domains;
    while (domain && !(same_policy(domain, policy) && domain->model_count < TT_DOMAIN_MAX_MODELS))
        domain = domain->next;
    if (!domain) {
        if (executors > engine->executor_count - *next_executor)
            return tt_fail(TT_ERR_BUSY, why,
                           "policy %s needs %d executors of its own, the engine has %d left",
                           policy->name, executors, engine->executor_count - *next_executor);
        struct tt_domain_options options = {.engine = engine,
                                            .first_executor = *next_executor,
                                            .executor_count = executors,
                                            .model_capacity = TT_DOMAIN_MAX_MODELS,
                                            .max_batch = TT_DOMAIN_MAX_BATCH,
                                            .policy = policy->name,
                                            .options = policy->options,
                                            .option_count = policy->option_count};
        enum tt_err err = tt_domain_new(&options, &domain, why);
        if (err)
            return err;
        domain->option_count = policy->option_count;
        for (int32_t i = 0; i < policy->option_count; i++)
            domain->options[i] = policy->options[i];
        *next_executor += executors;
        domain->next = serving->domains;
        serving->domains = domain;
    }
    tt_domain_add_model(domain, 0, model);
    return TT_OK;
}

enum tt_err tt_serving_start(struct tt_serving *serving, struct tt_message *why) {
    struct tt_served_model *first = serving->models;
    for (struct tt_served_model *model = first; model; model = model->next) {
        first = strcmp(first->name, model->name) == 0 ? first : model;
        model->first = first;
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
        tt_scheduler_wake(take_serving);
        pthread_join(take_serving->thread, NULL);
    }
    for (struct tt_domain *domain = take_serving->domains, *next; domain; domain = next) {
        next = domain->next;
        tt_domain_free(domain);
    }
    for (struct tt_served_model *model = take_serving->models, *next; model; model = next) {
        next = model->next;
        tt_served_model_free(model);
    }
    serving_unref(take_serving);
}

/* ---- what connections ask ---- */

enum tt_err tt_serving_find(struct tt_serving *serving, const char *name, const char *version,
                            struct tt_served_model **out_model, struct tt_message *why) {
    struct tt_served_model *known = NULL;
    bool name_known = false;
    for (struct tt_served_model *model = serving->models; model; model = model->next) {
        if (strcmp(model->name, name) != 0)
            continue;
        name_known = true;
        if (*version && strcmp(model->version, version) != 0)
            continue;
        if (tt_served_model_ready(model)) {
            *out_model = model;
            return TT_OK;
        }
        known = known ? known : model;
    }
    if (known)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "Request for unknown model: '%s' version %s is not at ready state: %s", name,
                       known->version, known->reason ? known->reason : "not placed");
    if (name_known)
        return tt_fail(TT_ERR_NOT_FOUND, why,
                       "Request for unknown model: '%s' version %s is not found", name, version);
    return tt_fail(TT_ERR_NOT_FOUND, why, "Request for unknown model: '%s' is not found", name);
}

int32_t tt_served_model_version_count(const struct tt_served_model *model) {
    int32_t count = 0;
    for (const struct tt_served_model *at = model->first; at && strcmp(at->name, model->name) == 0;
         at = at->next)
        count += tt_served_model_ready(at);
    return count;
}

const char *tt_served_model_version_at(const struct tt_served_model *model, int32_t index) {
    const struct tt_served_model *at = model->first;
    for (;; at = at->next) {
        tt_assert(at != NULL);
        if (tt_served_model_ready(at) && index-- == 0)
            return at->version;
    }
}

void tt_serving_index(struct tt_serving *serving, tt_serving_index_fn *each, void *context) {
    for (struct tt_served_model *model = serving->models; model; model = model->next) {
        bool ready = tt_served_model_ready(model);
        each(context, model->name, model->version, ready ? "READY" : "UNAVAILABLE",
             ready || !model->reason ? "" : model->reason);
    }
}

/* A model that cannot serve says so itself; it must not take the others out of a load balancer. */
bool tt_serving_ready(const struct tt_serving *serving) { return serving->started; }

const struct tt_served_model *tt_serving_first(const struct tt_serving *serving) {
    return serving->models;
}
