#include "serve/serving.h"

#include "base/clock.h"
#include "base/threads/flag.h"
#include "record/recorder.h"
#include "record/trace.h"
#include "serve/catalogue.h"
#include "serve/domain.h"
#include "serve/input_ring.h"
#include "serve/limits.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "serve/unfolder.h"
#include "serve/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tt_serving {
    struct tt_scheduler *scheduler;
    struct tt_limits limits;
    struct tt_quota requests, queue_bytes; /* of `limits`, for all ports together */
    struct tt_recorder *recorder;          /* NULL: nothing is recorded */
    struct tt_trace *trace;
    int32_t scheduler_threads; /* of each domain */
    struct tt_watchdog *watchdog;
    struct tt_catalogue_board catalogues;
    struct tt_served_model *fixed; /* by `next`: added for as long as the server lives */
    struct tt_model_controller controller;
    struct tt_readiness readiness;
    struct tt_counter held;         /* 1: not ready, whatever the models are */
    struct tt_counter models_ready; /* 1: what is published is as `readiness` asks */
    struct tt_flag retired;
    bool started;
};

/* ---- opening ---- */

static void on_failed(void *context, struct tt_served_model *model) {
    struct tt_serving *self = context;
    if (self->controller.failed)
        self->controller.failed(self->controller.context, model);
}

enum tt_err tt_serving_open(struct tt_serving **out_serving, struct tt_error *why) {
    struct tt_serving *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the server");
    tt_counter_set(&self->models_ready, 1);
    enum tt_err err = tt_trace_new(TT_TRACE_RECORDS, &self->trace, why);
    if (!err)
        err = tt_scheduler_new(&self->scheduler, why);
    if (err) {
        tt_trace_free(self->trace);
        free(self);
        return err;
    }
    err = tt_watchdog_new(self->scheduler, &self->watchdog, why);
    if (err) {
        tt_scheduler_unref(self->scheduler);
        tt_trace_free(self->trace);
        free(self);
        return err;
    }
    tt_scheduler_on_failed(self->scheduler, on_failed, self);
    tt_catalogue_board_init(&self->catalogues);
    struct tt_limits limits;
    tt_limits_default(&limits);
    tt_serving_set_limits(self, &limits);
    *out_serving = self;
    return TT_OK;
}

void tt_serving_set_limits(struct tt_serving *serving, const struct tt_limits *limits) {
    tt_assert(!tt_scheduler_has_ports(serving->scheduler));
    tt_assert(tt_scheduler_first_domain(serving->scheduler) == NULL);
    serving->limits = *limits;
    tt_quota_init(&serving->requests, limits->requests);
    tt_quota_init(&serving->queue_bytes, limits->queue_bytes);
}

void tt_serving_use_threads(struct tt_serving *serving, int32_t scheduler_threads) {
    tt_assert(tt_scheduler_first_domain(serving->scheduler) == NULL);
    serving->scheduler_threads = scheduler_threads;
}

void tt_serving_record(struct tt_serving *serving, struct tt_recorder *recorder) {
    tt_assert(tt_scheduler_first_domain(serving->scheduler) == NULL);
    serving->recorder = recorder;
}

void tt_serving_set_controller(struct tt_serving *serving,
                               const struct tt_model_controller *controller) {
    tt_assert(!tt_scheduler_has_ports(serving->scheduler));
    serving->controller = *controller;
}

void tt_serving_done(void *context, struct tt_device_task *task) {
    struct tt_serving *serving = context;
    tt_scheduler_done(serving->scheduler, task);
}

/* ---- models ---- */

void tt_serving_add(struct tt_serving *serving, struct tt_served_model *take_model) {
    tt_assert(!serving->started);
    tt_assert(take_model->next == NULL);
    take_model->next = serving->fixed;
    serving->fixed = take_model;
}

static bool same_policy(const struct tt_domain *domain, const struct tt_serving_policy *policy) {
    return strcmp(domain->policy, policy->name) == 0 &&
           tt_options_same(domain->options, domain->option_count, policy->options,
                           policy->option_count);
}

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
                                        .decided = tt_scheduler_decided(serving->scheduler),
                                        .policy = policy->name,
                                        .options = policy->options,
                                        .option_count = policy->option_count,
                                        .recorder = serving->recorder,
                                        .trace = serving->trace,
                                        .scheduler_threads = serving->scheduler_threads,
                                        .client = tt_scheduler_client(serving->scheduler)};
    enum tt_err err = tt_domain_new(&options, out_domain, why);
    if (err)
        return err;
    *next_executor += executors;
    tt_scheduler_add_domain(serving->scheduler, *out_domain);
    return TT_OK;
}

/* The ring of inputs, if the policy waits for them, or the engine takes them as they arrive. */
static enum tt_err make_ring(const struct tt_domain *domain, struct tt_served_model *model,
                             struct tt_error *why) {
    const struct tt_engine *engine = domain->engine;
    bool waits = tt_domain_awaits_inputs(domain);
    bool is_sent = engine->ops->inputs && engine->ops->takes_inputs(engine);
    if (model->cells || !tt_input_ring_fits(model->signature) || (!waits && !is_sent))
        return TT_OK;
    return is_sent ? tt_input_ring_new_on_device(model->engine_model, model->signature,
                                                 model->input_slots, !waits, &model->inputs, why)
                   : tt_input_ring_new(model->signature, model->input_slots, &model->inputs, why);
}

enum tt_err tt_serving_place(struct tt_serving *serving, struct tt_served_model *model,
                             const struct tt_serving_policy *policy, struct tt_engine *engine,
                             int32_t executors, int32_t *next_executor, struct tt_error *why) {
    tt_assert(policy->option_count <= TT_MAX_OPTIONS);
    if (model->signature->max_batch > TT_DOMAIN_MAX_BATCH)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "a maximum batch of %d rows; at most %d are served",
                       model->signature->max_batch, TT_DOMAIN_MAX_BATCH);
    struct tt_domain *domain = tt_scheduler_first_domain(serving->scheduler);
    while (domain && !(domain->engine == engine && same_policy(domain, policy) &&
                       domain->model_count < TT_DOMAIN_MAX_MODELS))
        domain = domain->next;
    if (!domain) {
        enum tt_err err =
            new_domain(serving, policy, engine, executors, next_executor, &domain, why);
        if (err)
            return err;
    }
    enum tt_err ring = make_ring(domain, model, why);
    if (ring)
        return ring;
    snprintf(model->chosen_policy, sizeof(model->chosen_policy), "auto (%s)", domain->policy);
    if (model->cells && model->cells->cells->kind == TT_UNFOLD_PLUGIN && !model->unfolder) {
        enum tt_err err = tt_unfolder_new(model, &model->unfolder, why);
        if (err)
            return err;
        model->free_unfolder = tt_unfolder_free;
    }
    if (model->max_run_ns == 0)
        model->max_run_ns = serving->limits.max_run_ms > 0 ? serving->limits.max_run_ms * TT_MS
                                                           : tt_served_model_run_limit(model);
    tt_watchdog_limit(serving->watchdog, model->max_run_ns);
    model->policy = model->choice ? model->chosen_policy : domain->policy;
    tt_scheduler_hold(serving->scheduler);
    enum tt_err err = tt_domain_add_model(domain, tt_clock_now(), model);
    tt_scheduler_resume(serving->scheduler);
    return err ? tt_fail(err, why, "out of memory for model %s", model->name) : TT_OK;
}

void tt_serving_drain(struct tt_serving *serving, struct tt_served_model *model) {
    tt_scheduler_hold(serving->scheduler);
    tt_assert(model->domain != NULL);
    tt_domain_drain_model(model->domain, tt_clock_now(), model);
    tt_scheduler_resume(serving->scheduler);
    tt_scheduler_wake(serving->scheduler);
}

void tt_serving_remove(struct tt_serving *serving, struct tt_served_model *model) {
    tt_scheduler_hold(serving->scheduler);
    tt_assert(model->domain != NULL);
    tt_domain_remove_model(model->domain, tt_clock_now(), model);
    tt_scheduler_resume(serving->scheduler);
}

void tt_serving_leave_engine(struct tt_serving *serving, const struct tt_engine *engine) {
    struct tt_domain *domain = tt_scheduler_first_domain(serving->scheduler);
    for (struct tt_domain *next; domain; domain = next) {
        next = domain->next;
        if (domain->engine != engine)
            continue;
        tt_scheduler_remove_domain(serving->scheduler, domain);
        tt_domain_free(domain);
    }
}

void tt_serving_publish(struct tt_serving *serving, struct tt_catalogue *take_catalogue) {
    const struct tt_readiness *readiness = &serving->readiness;
    struct tt_catalogue_sums sums =
        take_catalogue ? tt_catalogue_sums(take_catalogue) : (struct tt_catalogue_sums){0};
    bool ready = (!readiness->needs_all || sums.missing == 0) &&
                 (!readiness->needs_one || sums.served > 0 ||
                  (readiness->may_be_empty && sums.missing == 0));
    tt_catalogue_board_publish(&serving->catalogues, take_catalogue);
    tt_counter_set(&serving->models_ready, ready);
    /* An idle port must let go of the previous one, too. */
    tt_scheduler_wake_ports(serving->scheduler);
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
                                           .is_wanted = true,
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

enum tt_err tt_serving_start(struct tt_serving *serving, struct tt_error *why) {
    enum tt_err err = serving->fixed ? publish_fixed(serving, why) : TT_OK;
    if (!err)
        err = tt_scheduler_start(serving->scheduler, why);
    if (!err)
        err = tt_watchdog_start(serving->watchdog, why);
    serving->started = !err;
    return err;
}

void tt_serving_hurry_at(struct tt_serving *serving, int64_t at) {
    tt_watchdog_hurry_at(serving->watchdog, at);
}

int64_t tt_serving_lost_runs(struct tt_serving *serving) {
    int64_t lost = 0;
    tt_scheduler_hold(serving->scheduler);
    for (const struct tt_domain *domain = tt_scheduler_first_domain(serving->scheduler); domain;
         domain = domain->next)
        lost += tt_domain_watch_lost(domain);
    tt_scheduler_resume(serving->scheduler);
    return lost;
}

void tt_serving_stop(struct tt_serving *serving) {
    tt_watchdog_stop(serving->watchdog);
    tt_scheduler_stop(serving->scheduler);
}

void tt_serving_close(struct tt_serving *take_serving) {
    if (!take_serving)
        return;
    tt_serving_stop(take_serving);
    struct tt_domain *domain = tt_scheduler_first_domain(take_serving->scheduler);
    for (struct tt_domain *next; domain; domain = next) {
        next = domain->next;
        tt_domain_free(domain);
    }
    tt_trace_free(take_serving->trace);
    tt_catalogue_board_fini(&take_serving->catalogues);
    for (struct tt_served_model *model = take_serving->fixed, *next; model; model = next) {
        next = model->next;
        model->domain = NULL; /* it was freed with its models */
        tt_served_model_unref(model);
    }
    tt_watchdog_free(take_serving->watchdog);
    tt_scheduler_unref(take_serving->scheduler);
    free(take_serving);
}

/* ---- what connections ask ---- */

enum tt_err tt_serving_open_port(struct tt_serving *serving, tt_port_wake_fn *wake,
                                 void *wake_context, struct tt_port **out_port,
                                 struct tt_error *why) {
    struct tt_port_options options = {.scheduler = serving->scheduler,
                                      .catalogues = &serving->catalogues,
                                      .controller = &serving->controller,
                                      .requests = &serving->requests,
                                      .queue_bytes = &serving->queue_bytes,
                                      .stream_words = serving->limits.stream_words,
                                      .learn_percent = (int32_t)serving->limits.learn_percent,
                                      .wake = wake,
                                      .wake_context = wake_context};
    return tt_port_open(&options, out_port, why);
}

enum tt_err tt_serving_find(struct tt_port *port, const char *name, const char *version,
                            struct tt_served_model **out_model, struct tt_error *why) {
    const struct tt_catalogue *catalogue = tt_port_catalogue(port);
    int32_t count = 0;
    const struct tt_catalogue_entry *entries =
        catalogue ? tt_catalogue_find(catalogue, name, &count) : NULL;
    const struct tt_catalogue_entry *known = NULL;
    for (int32_t i = 0; i < count; i++) {
        if (*version && strcmp(entries[i].version, version) != 0)
            continue;
        if (tt_catalogue_state(&entries[i]) == TT_MODEL_READY) {
            *out_model = entries[i].model;
            return TT_OK;
        }
        known = known ? known : &entries[i];
    }
    if (known && *known->version) {
        const char *reason = tt_catalogue_reason(known);
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "Request for unknown model: '%s' version %s is not at ready state: %s", name,
                       known->version, *reason ? reason : tt_model_state_name(known->state));
    }
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
    const struct tt_catalogue *catalogue = tt_port_catalogue(port);
    for (int32_t i = 0; catalogue && i < catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        each(context, entry->name, entry->version, tt_model_state_name(tt_catalogue_state(entry)),
             tt_catalogue_reason(entry), entry->model);
    }
}

void tt_serving_stats(struct tt_port *port, const char *model, const char *version,
                      tt_serving_stats_fn *each, void *context) {
    const struct tt_catalogue *catalogue = tt_port_catalogue(port);
    for (int32_t i = 0; catalogue && i < catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        if (entry->model && (!model || strcmp(entry->name, model) == 0) &&
            (!*version || strcmp(entry->version, version) == 0))
            each(context, entry->name, entry->version, entry->stats);
    }
}

void tt_serving_set_readiness(struct tt_serving *serving, struct tt_readiness readiness) {
    serving->readiness = readiness;
    tt_counter_set(&serving->models_ready, !readiness.needs_one);
}

void tt_serving_hold(struct tt_serving *serving, bool is_held) {
    tt_counter_set(&serving->held, is_held);
}

bool tt_serving_hold_model(struct tt_port *port, const char *name, const char *version,
                           bool is_held) {
    const struct tt_catalogue *catalogue = tt_port_catalogue(port);
    int32_t count = 0;
    const struct tt_catalogue_entry *entries =
        catalogue ? tt_catalogue_find(catalogue, name, &count) : NULL;
    for (int32_t i = 0; i < count; i++) {
        struct tt_served_model *model = entries[i].model;
        if (!model || strcmp(entries[i].version, version) != 0 ||
            tt_counter_get(&model->is_held) == is_held)
            continue;
        tt_counter_set(&model->is_held, is_held);
        return true;
    }
    return false;
}

void tt_serving_retire(struct tt_serving *serving) { tt_flag_raise(&serving->retired); }

bool tt_serving_ready(const struct tt_serving *serving) {
    return serving->started && !tt_flag_is_raised(&serving->retired) &&
           tt_counter_get(&serving->models_ready) != 0 && tt_counter_get(&serving->held) == 0 &&
           !tt_watchdog_is_exhausted(serving->watchdog);
}

enum tt_err tt_serving_trace(struct tt_serving *serving, int64_t last_ns, struct tt_text *out_json,
                             struct tt_error *why) {
    return tt_trace_write(serving->trace, tt_clock_now() - last_ns, out_json, why);
}

struct tt_scheduler *tt_serving_scheduler(struct tt_serving *serving) {
    return serving->scheduler;
}

struct tt_trace *tt_serving_latest(struct tt_serving *serving) {
    return serving->trace;
}

struct tt_recorder *tt_serving_recorder(struct tt_serving *serving) {
    return serving->recorder;
}
