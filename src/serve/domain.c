#include "serve/domain.h"

#include "base/instant.h"
#include "multicore/threaded_policy.h"
#include "serve/domain_task.h"
#include "serve/inference_end.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "serve/limits.h"
#include "serve/recent_arrivals.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

bool tt_domain_works_by_cells(const char *policy) {
    const struct tt_policy_kind *kind = tt_policy_find(policy);
    return kind && tt_policy_is_by_cells(kind);
}

int32_t tt_domain_depth(const char *policy, int32_t asked) {
    const struct tt_policy_kind *kind = tt_policy_find(policy);
    int32_t default_value = kind ? kind->traits.default_depth : 1;
    int32_t least = default_value > TT_DOMAIN_DEPTH ? default_value : TT_DOMAIN_DEPTH;
    return asked > least ? asked : least;
}

/* ---- the carrier ---- */

static struct tt_domain_task *slot_of(struct tt_domain *self, const struct tt_task *task) {
    const struct tt_executor *executor = &self->mechanism.executors[task->executor];
    return &self->tasks[self->places[(ptrdiff_t)task->executor * self->depth +
                                     (task - executor->tasks)]];
}

static void start(void *context, int64_t now, struct tt_task *task) {
    (void)now; /* the engine starts a task when those before it on its executor are done */
    struct tt_domain *self = context;
    struct tt_domain_task *slot = slot_of(self, task);
    struct tt_served_model *model = self->models[task->model];
    struct tt_engine_member *members =
        self->members + (slot - self->tasks) * (ptrdiff_t)task->capacity;
    /* The engine writes messages here, since it may outlive an inference that it was too slow for.
     */
    struct tt_error *whys =
        self->cell_tasks.whys + (slot - self->tasks) * (ptrdiff_t)task->capacity;
    int32_t length = task->length; /* what the policy pads to, if it pads */
    for (int32_t i = 0; !model->cells && i < task->count; i++) {
        struct tt_inference *inference = task->items[i].request->user;
        members[i] = (struct tt_engine_member){.rows = inference->rows,
                                               .inputs = inference->inputs,
                                               .user = inference,
                                               .id = inference->has_id ? inference->id : NULL,
                                               .state = task->after ? NULL : inference->state,
                                               .why = &whys[i]};
        length = inference->length > length ? inference->length : length;
    }
    int32_t count = task->count;
    int32_t missing = tt_task_computed_rows(task) - task->rows;
    if (missing > 0 && count < task->capacity &&
        tt_blank_rows_member(&model->blank, model->signature, missing, slot->blank,
                             &members[count]))
        count++;
    tt_assert(!tt_list_linked(&slot->decided)); /* the slot's last task was handed over */
    slot->task = task;
    slot->engine_task = (struct tt_engine_task){
        .model = model->engine_model,
        .head.model = task->model,
        .head.executor = self->first_executor + task->executor,
        .head.count = task->count,
        .head.rows = task->rows,
        .head.submitted_at = task->dispatched_at,
        .head.first_step = task->first_step,
        .head.last_step = task->last_step,
        .head.length = model->pad ? length : 0,
        .max_run_ns = model->max_run_ns,
        .member_count = count,
        .members = members,
        .head.user = self,
        .after = task->after ? &slot_of(self, task->after)->engine_task : NULL,
        .answered = self->answers.rings ? tt_domain_answered : NULL,
        .emitted = self->answers.rings ? tt_domain_emitted : NULL,
        .step_ends = self->step_ends + (slot - self->tasks) * (ptrdiff_t)TT_DOMAIN_STEP_ENDS,
        .step_ends_capacity = TT_DOMAIN_STEP_ENDS,
        .step_rounds = self->step_rounds + (slot - self->tasks) * (ptrdiff_t)TT_DOMAIN_STEP_ENDS};
    for (int32_t i = 0; i <= task->last_step - task->first_step && i < TT_DOMAIN_STEP_ENDS; i++) {
        slot->engine_task.step_ends[i] = TT_NEVER;
        slot->engine_task.step_rounds[i] = 1;
    }
    task->user = slot;
    if (model->cells)
        tt_cell_tasks_start(&self->cell_tasks, (int32_t)(slot - self->tasks), model, task,
                            &slot->engine_task);
    tt_list_push_back(self->decided, &slot->decided);
}

static void submit(struct tt_domain *self, struct tt_domain_task *slot) {
    tt_list_remove(&slot->decided);
    tt_engine_submit(self->engine, &slot->engine_task);
}

/* True if the task is the whole of a model, such runs were always short, and no task is before it.
 */
static bool may_run_here(const struct tt_domain *self, const struct tt_domain_task *slot,
                         int64_t spent_ns) {
    const struct tt_task *task = slot->task;
    const struct tt_served_model *model = self->models[task->model];
    return self->engine->ops->run_here && !self->engine->is_remote && !model->varies &&
           task->first_step == 0 && task->last_step == model->step_model.step_count - 1 &&
           tt_mechanism_oldest(&self->mechanism, task->executor) == task &&
           tt_short_runs_expects(&model->short_runs, task->rows) &&
           spent_ns < tt_short_runs_budget(&model->short_runs, task->rows,
                                           self->limits->run_here_us * TT_US);
}

/* The engine's last task of several in a row was handed over. */
static void flush_before_others(struct tt_domain *self, const struct tt_list *decided) {
    const struct tt_list_node *node = tt_list_first(decided);
    const struct tt_domain_task *next =
        node ? TT_CONTAINER_OF(node, const struct tt_domain_task, decided) : NULL;
    const struct tt_domain *its = next ? next->engine_task.head.user : NULL;
    if (!its || its->engine != self->engine)
        tt_engine_flush(self->engine);
}

int64_t tt_domain_hand_over(struct tt_list *decided, int64_t spent_ns) {
    struct tt_domain_task *slot =
        TT_CONTAINER_OF(tt_list_first(decided), struct tt_domain_task, decided);
    struct tt_domain *self = slot->engine_task.head.user;
    tt_assert(self != NULL);
    tt_assert(self->models[slot->task->model] != NULL);
    if (!may_run_here(self, slot, spent_ns)) {
        submit(self, slot);
        flush_before_others(self, decided);
        return 0;
    }
    tt_list_remove(&slot->decided);
    flush_before_others(self, decided);
    tt_counter_add(&self->models[slot->task->model]->stats->ran_here, 1);
    self->engine->ops->run_here(self->engine, &slot->engine_task);
    return slot->engine_task.head.ended_at - slot->engine_task.head.started_at + 1;
}

/* The engine task that runs, or runs next, on the domain's executor. A policy may stop a task in
 * the decision that started it, so a task that was not handed over goes to its executor first. */
static struct tt_engine_task *oldest(struct tt_domain *self, int32_t executor) {
    struct tt_domain_task *slot = tt_mechanism_oldest(&self->mechanism, executor)->user;
    if (tt_list_linked(&slot->decided)) {
        submit(self, slot);
        tt_engine_flush(self->engine);
    }
    return &slot->engine_task;
}

static void yield_executor(void *context, int64_t now, int32_t executor) {
    (void)now;
    struct tt_domain *self = context;
    tt_engine_yield(self->engine, oldest(self, executor));
}

static void abort_executor(void *context, int64_t now, int32_t executor) {
    (void)now;
    struct tt_domain *self = context;
    tt_engine_abort(self->engine, oldest(self, executor));
}

/* A request that is rejected or dropped now may succeed once those in flight have ended. */
static void advise(struct tt_domain *self, struct tt_served_model *model) {
    int32_t seconds = tt_pace_retry_after_s(&self->pace, self->mechanism.requests.in_use);
    tt_counter_set(&model->stats->retry_after_s, seconds);
}

/* By cells: its last cell is done. */
static enum tt_err answer_by_cells(struct tt_inference *inference) {
    struct tt_model_stats *stats = inference->model->stats;
    tt_counter_add(&stats->rows, 1);
    tt_length_histogram_add(&stats->outputs, inference->cell_run->answer.count,
                            inference->cell_run->unfolded->output_length);
    tt_cell_tasks_note_times(inference, inference->cell_run->started_at,
                             inference->cell_run->computed_at);
    inference->err = tt_cell_run_answer(inference->cell_run, &inference->result);
    return inference->err ? tt_fail(inference->err, &inference->why, "out of memory for an answer")
                          : TT_OK;
}

/* By cells: some may be in flight. They keep the rest of the request until it is gone. */
static void leave_to_cells(struct tt_request *request, struct tt_inference *inference) {
    if (!request->graph)
        return;
    request->user = NULL;
    inference->cell_run->inference = NULL;
    inference->cell_run = NULL;
}

static void gone(void *context, struct tt_request *request) {
    (void)context;
    tt_cell_run_free(request->graph->user);
}

static void ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                  enum tt_drop_reason reason) {
    struct tt_inference *inference = request->user;
    struct tt_served_model *model = inference->model;
    struct tt_domain *self = context;
    tt_assert(model->domain == self);
    tt_assert(inference->request == request || inference->request == NULL); /* NULL: arriving */
    if (inference->has_id && self->tap)
        tt_trace_identified(self->tap, now, request, inference->id);
    if (ending == TT_ENDING_DONE && request->graph && answer_by_cells(inference))
        ending = TT_ENDING_FAILED;
    leave_to_cells(request, inference);
    if (ending != TT_ENDING_DONE)
        tt_inference_end_count_loss(inference, now);
    switch (ending) {
    case TT_ENDING_DONE:
        tt_pace_answered(&self->pace, now);
        tt_inference_end_count_answer(inference, now);
        tt_inference_end(inference, TT_OK, &self->client);
        break;
    case TT_ENDING_DROPPED:
        inference->drop = reason;
        tt_counter_add(&model->stats->dropped[reason], 1);
        advise(self, model);
        tt_inference_end(
            inference,
            tt_inference_end_say_dropped(inference, &self->mechanism, request, now, reason),
            &self->client);
        break;
    case TT_ENDING_FAILED: /* CANCELLED: its client does not read its stream */
        tt_counter_add(inference->err == TT_ERR_CANCELLED ? &model->stats->cancelled
                                                          : &model->stats->failed,
                       1);
        tt_inference_end(inference, inference->err ? inference->err : TT_ERR_INTERNAL,
                         &self->client);
        break;
    case TT_ENDING_CANCELLED:
        if (self->watch.withdrawing) {
            tt_counter_add(&model->stats->failed, 1);
            tt_inference_end(inference,
                             tt_fail(TT_ERR_UNAVAILABLE, &inference->why,
                                     "request to model '%s' failed: %s", model->name,
                                     model->failure),
                             &self->client);
            break;
        }
        tt_counter_add(&model->stats->cancelled, 1);
        tt_inference_end(inference, tt_fail(TT_ERR_CANCELLED, &inference->why, "request cancelled"),
                         &self->client);
        break;
    }
}

/* ---- making ---- */

static struct tt_network_delay given_delay(const struct tt_limits *limits) {
    return (struct tt_network_delay){limits->control_delay_us * TT_US,
                                     limits->data_delay_us * TT_US};
}

/* Adds the observers, before the first event. */
static enum tt_err observe(struct tt_domain *self, const struct tt_domain_options *options,
                           const struct tt_mechanism_options *limits, struct tt_error *why) {
    enum tt_err err =
        tt_domain_meter_init(&self->meter, &self->mechanism, given_delay(options->limits), why);
    if (!err && options->trace)
        err = tt_trace_add(options->trace, &self->mechanism, self->policy, &self->tap, why);
    if (err || !options->recorder)
        return err;
    struct tt_record_domain record = {.policy = self->policy,
                                      .option_count = options->option_count,
                                      .limits = *limits,
                                      .d_ctrl_ns = options->limits->control_delay_us * TT_US,
                                      .d_data_ns = options->limits->data_delay_us * TT_US,
                                      .lateness_ns = options->limits->lateness_us * TT_US,
                                      .scheduler_threads =
                                          self->is_threaded ? options->scheduler_threads : 0};
    for (int32_t i = 0; i < options->option_count; i++)
        record.options[i] = options->options[i];
    return tt_recorder_streams_add(options->recorder, &self->mechanism, &record, &self->recording,
                                   why);
}

/* The arrays of places, and what is as long. */
static bool make_places(struct tt_domain *self, const struct tt_domain_options *options) {
    int32_t used = options->executor_count * self->depth, tasks = used + TT_DOMAIN_SPARES;
    self->places = calloc((size_t)used, sizeof(*self->places));
    for (int32_t i = 0; self->places && i < used; i++)
        self->places[i] = i;
    self->place_count = tasks;
    self->tasks = calloc((size_t)tasks, sizeof(*self->tasks));
    self->members = calloc((size_t)tasks * (size_t)options->max_batch, sizeof(*self->members));
    self->step_ends = calloc((size_t)tasks, TT_DOMAIN_STEP_ENDS * sizeof(*self->step_ends));
    self->step_rounds = calloc((size_t)tasks, TT_DOMAIN_STEP_ENDS * sizeof(*self->step_rounds));
    self->models = calloc((size_t)options->model_capacity, sizeof(struct tt_served_model *));
    return self->places && self->tasks && self->members && self->step_ends && self->step_rounds &&
           self->models &&
           tt_domain_watch_init(&self->watch, options->executor_count, used) == TT_OK &&
           tt_cell_tasks_init(&self->cell_tasks, tasks, options->max_batch) == TT_OK;
}

static enum tt_err domain_fill(struct tt_domain *self, const struct tt_domain_options *options,
                               struct tt_error *why) {
    self->policy = strdup(options->policy);
    for (int32_t i = 0; i < options->option_count; i++, self->option_count++) {
        self->options[i] = (struct tt_option){.key = strdup(options->options[i].key),
                                              .value = strdup(options->options[i].value)};
        if (!self->options[i].key || !self->options[i].value)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a domain");
    }
    if (!make_places(self, options) || !self->policy)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a domain");
    self->executor_count = options->executor_count;
    const struct tt_engine_ops *ops = options->engine->ops;
    if ((ops->answers_each || ops->emits) &&
        tt_domain_answers_init(&self->answers, options->executor_count,
                               2 * self->depth * options->max_batch))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a domain");
    struct tt_carrier carrier = {.context = self,
                                 .start = start,
                                 .yield = yield_executor,
                                 .abort = abort_executor,
                                 .ended = ended,
                                 .gone = gone};
    struct tt_mechanism_options mechanism = {
        .model_capacity = options->model_capacity,
        .executor_capacity = options->executor_count,
        .max_batch = options->max_batch,
        .depth = self->depth,
        .request_limit = (int32_t)options->limits->requests,
        .request_reserve = 1024,
        .has_rules = true,
        .learn_percent = (int32_t)options->limits->learn_percent,
        .learns_outputs = options->limits->learn_percent > 0,
        .refuses_early = options->limits->learn_percent > 0,
        .lateness_ns = options->limits->lateness_us * TT_US,
        .learns_delays = options->engine->is_remote && options->limits->learn_percent > 0,
        .delay = given_delay(options->limits)};
    enum tt_err err = tt_mechanism_init(&self->mechanism, &mechanism, &carrier, why);
    if (err)
        return err;
    struct tt_policy_setup setup = {.domain = &self->mechanism,
                                    .d_ctrl_ns = options->limits->control_delay_us * TT_US,
                                    .d_data_ns = options->limits->data_delay_us * TT_US,
                                    .lateness_ns = options->limits->lateness_us * TT_US,
                                    .options = self->options,
                                    .option_count = self->option_count};
    err = TT_ERR_UNSUPPORTED;
    if (options->scheduler_threads > 0) {
        struct tt_threaded_policy_options threads = {.threads = options->scheduler_threads,
                                                     .max_batch = options->max_batch,
                                                     .request_limit = mechanism.request_limit,
                                                     .wake = options->client.wake,
                                                     .wake_context = options->client.context};
        err = tt_threaded_policy_create(&self->mechanism, options->policy, &setup, &threads, why);
        self->is_threaded = !err;
    }
    if (err == TT_ERR_UNSUPPORTED)
        err = tt_policy_create(&self->mechanism, options->policy, &setup, why);
    if (!err)
        err = observe(self, options, &mechanism, why);
    if (!err && self->is_threaded)
        err = tt_threaded_policy_start(self->mechanism.policy, why);
    return err;
}

enum tt_err tt_domain_new(const struct tt_domain_options *options, struct tt_domain **out_domain,
                          struct tt_error *why) {
    struct tt_domain *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a domain");
    self->engine = options->engine;
    self->limits = options->limits;
    self->decided = options->decided;
    self->client = options->client;
    self->has_news = true;
    self->first_executor = options->first_executor;
    self->depth = tt_domain_depth(options->policy, options->depth);
    tt_list_init(&self->input_rings);
    tt_push_list_init(&self->done);
    tt_list_init(&self->collecting);
    enum tt_err err = domain_fill(self, options, why);
    if (err) {
        tt_domain_free(self);
        return err;
    }
    for (int32_t i = 0; i < self->executor_count; i++)
        tt_mechanism_add_executor(&self->mechanism, 0, i,
                                  options->devices ? options->devices[i] : 0);
    *out_domain = self;
    return TT_OK;
}

void tt_domain_free(struct tt_domain *take_domain) {
    if (!take_domain)
        return;
    tt_domain_answers_fini(&take_domain->answers);
    tt_policy_destroy(&take_domain->mechanism);
    tt_mechanism_fini(&take_domain->mechanism);
    tt_domain_watch_fini(&take_domain->watch);
    free(take_domain->places);
    free(take_domain->tasks);
    free(take_domain->members);
    free(take_domain->step_ends);
    free(take_domain->step_rounds);
    tt_cell_tasks_fini(&take_domain->cell_tasks);
    free(take_domain->models);
    for (int32_t i = 0; i <= take_domain->option_count && i < TT_MAX_OPTIONS; i++) {
        free((char *)take_domain->options[i].key);
        free((char *)take_domain->options[i].value);
    }
    free(take_domain->policy);
    tt_domain_meter_fini(&take_domain->meter);
    tt_recorder_streams_leave(&take_domain->recording);
    tt_trace_leave(take_domain->tap);
    free(take_domain);
}

/* Slots that a model adds (sign 1), or takes with it (-1). */
static void show_slots(struct tt_served_model *model, int64_t sign) {
    tt_counter_add(&model->stats->stage_slots, sign * model->step_model.slots);
    if (!model->cells)
        return;
    tt_counter_add(&model->stats->cell_slots, sign * model->cells->slots.capacity);
    tt_counter_add(&model->stats->cell_caches, sign * model->cells->caches.rows.capacity);
}

enum tt_err tt_domain_add_model(struct tt_domain *self, int64_t now,
                                struct tt_served_model *model) {
    tt_assert(self->model_count < self->mechanism.model_capacity);
    tt_assert(model->domain == NULL);
    int32_t index = 0;
    while (self->models[index])
        index++;
    enum tt_err err = tt_mechanism_model_reserve(&self->mechanism, index, &model->step_model);
    if (err)
        return err;
    self->model_count++;
    self->has_news = true;
    model->index = index;
    model->domain = self;
    self->models[index] = model;
    if (model->inputs) {
        tt_list_push_back(&self->input_rings, &model->inputs->in_domain);
        tt_input_ring_show(model->inputs, &model->stats->input_slots,
                           &model->stats->input_slots_used);
    }
    if (model->cells)
        model->cells->tap = self->tap;
    show_slots(model, 1);
    tt_mechanism_add_model(&self->mechanism, now, index, &model->step_model);
    return TT_OK;
}

void tt_domain_remove_model(struct tt_domain *self, int64_t now, struct tt_served_model *model) {
    tt_assert(model->domain == self);
    tt_assert(self->models[model->index] == model);
    tt_assert(self->mechanism.model_requests[model->index] == 0);
    tt_assert(tt_list_empty(&model->in_order));
    self->has_news = true;
    tt_mechanism_remove_model(&self->mechanism, now, model->index);
    self->models[model->index] = NULL;
    if (model->inputs)
        tt_list_remove(&model->inputs->in_domain);
    tt_assert(model->reported_stage_slots == 0);
    show_slots(model, -1);
    self->model_count--;
    model->domain = NULL;
}

/* ---- what happens ---- */

void tt_domain_drain_model(struct tt_domain *self, int64_t now, struct tt_served_model *model) {
    tt_assert(self->models[model->index] == model);
    self->has_news = true;
    tt_mechanism_drain_model(&self->mechanism, now, model->index);
}

int64_t tt_domain_decide(struct tt_domain *self, int64_t now) {
    if (self->has_news || self->is_threaded || now >= self->next_at) {
        self->has_news = false;
        if (self->watch.withdraws)
            tt_domain_watch_withdraw(self, now);
        tt_mechanism_decide(&self->mechanism, now);
        self->next_at = tt_mechanism_next_at(&self->mechanism);
    }
    return self->next_at;
}

static void reject(int64_t now, struct tt_served_model *model, struct tt_inference *inference,
                   enum tt_err err) {
    advise(model->domain, model);
    tt_domain_meter_rejected(&model->domain->meter, now);
    tt_counter_add(&model->stats->rejected, 1);
    tt_inference_end(inference, err, &model->domain->client);
}

static void ready(struct tt_domain *self, int64_t now, struct tt_inference *inference) {
    self->has_news = true;
    const struct tt_served_model *model = inference->model;
    if (model->inputs)
        inference->request->slot = inference->slot;
    tt_mechanism_ready(&self->mechanism, now, inference->request);
}

/* For policy auto. */
static void remember(int64_t now, struct tt_served_model *model,
                     const struct tt_inference *inference) {
    struct tt_recent_arrival arrival = {.at = now,
                                        .deadline_at = inference->deadline_at,
                                        .length = inference->length,
                                        .rows = (int16_t)inference->rows,
                                        .priority = (int16_t)inference->priority};
    tt_recent_arrivals_put(model->recent, &arrival);
}

static void count_offered(int64_t now, struct tt_served_model *model,
                          const struct tt_inference *inference) {
    tt_counter_add(&model->stats->accepted, 1);
    tt_rate_window_arrived(&model->stats->offered, now, inference->rows);
    if (model->recent)
        remember(now, model, inference);
}

static enum tt_err refuse_cells(const struct tt_served_model *model, struct tt_error *why) {
    const struct tt_cell_slots *caches = &model->cells->caches.rows;
    bool lacks_cache = caches->capacity > 0 && caches->reserved == caches->capacity;
    return tt_fail(TT_ERR_BUSY, why,
                   "request to model '%s' refused: those in flight may come to need all of its %d "
                   "%s",
                   model->name, lacks_cache ? caches->capacity : model->cells->slots.capacity,
                   lacks_cache ? "caches" : "slots for cells");
}

/* What is refused whatever the policy is. */
static enum tt_err check_limits(const struct tt_domain *self, const struct tt_served_model *model,
                                struct tt_inference *inference) {
    struct tt_error *why = &inference->why;
    int32_t here = self->mechanism.model_requests[model->index];
    if (inference->err) /* it could not be unfolded */
        return inference->err;
    if (*model->failure)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "request to model '%s' refused: %s", model->name,
                       model->failure);
    if (here >= self->limits->model_requests)
        return tt_fail(TT_ERR_BUSY, why,
                       "request to model '%s' refused: it has %d requests in flight, its limit",
                       model->name, here);
    if (model->cells && !tt_cell_run_reserve(inference->cell_run,
                                             tt_mechanism_max_tasks(&self->mechanism, self->depth)))
        return refuse_cells(model, why);
    return TT_OK;
}

/* Whether the next requests should ask first (tt_inference_should_ask()). */
static void note_refusal(struct tt_served_model *model, int64_t refused_ns) {
    if (tt_counter_get(&model->stats->refused_ns) != refused_ns)
        tt_counter_set(&model->stats->refused_ns, refused_ns);
}

void tt_domain_submit(struct tt_domain *self, int64_t now, struct tt_inference *inference) {
    struct tt_served_model *model = inference->model;
    struct tt_arrival arrival = {.model = model->index,
                                 .rows = inference->rows,
                                 .length = inference->length,
                                 .priority = inference->priority,
                                 .deadline_at = inference->deadline_at,
                                 .user = inference};
    int64_t given_ns = TT_NEVER;
    if (arrival.deadline_at != TT_NEVER) {
        given_ns = arrival.deadline_at - inference->submitted_at;
        arrival.deadline_at -= inference->answer_ns;
    }
    if (inference->cell_run) {
        arrival.graph = inference->cell_run->graph;
        arrival.spec_count = inference->cell_run->unfolded->spec_count;
        arrival.specs = inference->cell_run->unfolded->specs;
    }
    tt_assert(model->domain == self);
    tt_assert(inference->result == NULL);
    if (inference->asks && !tt_mechanism_refuses(&self->mechanism, now, &arrival)) {
        note_refusal(model, 0);
        self->client.ended(self->client.context, inference);
        return;
    }
    self->has_news = true;
    count_offered(now, model, inference);
    inference->is_computed = false;
    if (model->preserve_ordering)
        tt_list_push_back(&model->in_order, &inference->in_order);
    struct tt_request *request = NULL;
    enum tt_err err = check_limits(self, model, inference);
    if (!err) {
        err = tt_mechanism_arrived(&self->mechanism, now, &arrival, &request);
        if (err)
            (void)tt_fail(err, &inference->why,
                          "request to model '%s' refused: its scheduling domain has %d requests "
                          "in flight, its limit",
                          model->name, self->mechanism.requests.in_use);
    }
    if (err) {
        reject(now, model, inference, err);
        return;
    }
    note_refusal(model, request ? 0 : given_ns);
    if (!request)
        return; /* a rule has rejected it; the inference may be its port's already */
    tt_assert(request->user == inference);
    tt_assert(!inference->asks);
    inference->request = request;
    /* E1: the input is where executors compute, or on its way, and they wait for it there. With a
     * ring it counts only once it has slots. */
    if (!model->inputs || tt_input_ring_arrived(model->inputs, inference))
        ready(self, now, inference);
    else
        tt_counter_add(&model->stats->held_back, 1);
}

void tt_domain_answer_whole(struct tt_domain *self) {
    tt_assert(self->mechanism.requests.in_use == 0);
    tt_domain_answers_fini(&self->answers);
}

bool tt_domain_awaits_inputs(const struct tt_domain *self) {
    return self->mechanism.traits->waits_for_inputs;
}

void tt_domain_take_inputs(struct tt_domain *self, int64_t now) {
    const struct tt_list_node *node = tt_list_first(&self->input_rings);
    for (; node; node = tt_list_next(&self->input_rings, node)) {
        struct tt_input_ring *ring = TT_CONTAINER_OF(node, struct tt_input_ring, in_domain);
        struct tt_inference *inference;
        while ((inference = tt_input_ring_came(ring)))
            if (inference->request)
                ready(self, now,
                      inference); /* else it has not arrived; tt_domain_submit() finds its slots */
    }
}

/* Notifies the engine that no client waits for the inference. */
static void withdraw(struct tt_domain *self, const struct tt_engine_task *engine_task,
                     const struct tt_inference *inference) {
    for (int32_t i = 0; i < engine_task->member_count; i++)
        if (engine_task->members[i].user == inference)
            self->engine->ops->withdraw(self->engine, &engine_task->members[i]);
}

void tt_domain_cancel(struct tt_domain *self, int64_t now, struct tt_inference *inference) {
    self->has_news = true;
    struct tt_request *request = inference->request;
    if (!request || request->cancelled)
        return;
    tt_assert(tt_list_empty(self->decided)); /* what runs was handed over */
    struct tt_domain_task *slot = request->task ? slot_of(self, request->task) : NULL;
    tt_mechanism_cancelled(&self->mechanism, now, request);
    if (slot && slot->engine_task.kind == TT_ENGINE_REQUESTS && self->engine->ops->withdraw)
        withdraw(self, &slot->engine_task, inference);
}

/* Every task is a batch. Its rows count when the model's last step is done, or when they leave
 * early. */
static void count_batch(struct tt_served_model *model, const struct tt_task *task,
                        const struct tt_engine_task *engine_task) {
    struct tt_model_stats *stats = model->stats;
    bool whole = engine_task->head.last_step_done == model->step_model.step_count - 1;
    int32_t rows = whole ? task->rows : 0;
    for (int32_t i = 0; i < engine_task->member_count; i++) {
        const struct tt_engine_member *member = &engine_task->members[i];
        bool leaves = member->next_step == model->step_model.step_count;
        rows += leaves && !whole ? member->rows : 0;
        tt_counter_add(&stats->left_early, leaves);
        tt_counter_add(&stats->skipped, member->skips);
    }
    tt_counter_add(&stats->rows, rows);
    tt_model_stats_count_batch(stats, task->rows, engine_task);
    tt_domain_answers_trace(model->domain, model, task, engine_task);
}

/* True if the inputs differ in more than the rows. */
static bool shapes_differ(const struct tt_inference *a, const struct tt_inference *b) {
    const struct tt_signature *signature = a->model->signature;
    for (int32_t i = 0; i < signature->input_count; i++)
        for (int32_t d = signature->batched ? 1 : 0; d < signature->inputs[i].shape.rank; d++)
            if (a->inputs[i].shape.dims[d] != b->inputs[i].shape.dims[d])
                return true;
    return false;
}

/* True for a member that failed only because its length equals, by chance, that of members of the
 * batch with other shapes: it goes back to the queue. At least one of these was computed, so each
 * run makes progress. */
static bool is_misplaced(const struct tt_served_model *model, const struct tt_engine_task *task,
                         const struct tt_engine_member *member) {
    if (!model->varies || model->pad || member->err != TT_ERR_INVALID)
        return false;
    for (int32_t i = 0; i < task->member_count; i++)
        if (task->members[i].err == TT_OK)
            return shapes_differ(member->user, task->members[i].user);
    return false;
}

/* What the engine says of one item: to its inference, and its fate to the mechanism. False: it was
 * answered before (E7). */
static bool take_item(const struct tt_served_model *model, struct tt_task *task, int32_t index,
                      const struct tt_engine_task *engine_task) {
    struct tt_task_item *item = &task->items[index];
    const struct tt_engine_member *member = &engine_task->members[index];
    struct tt_inference *inference = member->user;
    tt_assert(item->request->user == inference);
    if (!inference) { /* after a failure the engine left its state */
        model->engine_model->engine->ops->state_release(member->state);
        return false;
    }
    inference->result = member->result;
    inference->state = member->state;
    inference->first_row = member->first_row;
    if (task->first_step == 0) {
        inference->started_at = task->started_at;
        inference->input_ns = inference->infer_ns = 0;
    }
    inference->input_ns += engine_task->input_ns;
    inference->infer_ns += engine_task->infer_ns;
    inference->computed_at = engine_task->head.ended_at;
    if (item->fate == TT_FATE_FAILS) /* D4: in the task that this one followed */
        return true;
    inference->err = member->err;
    if (member->err)
        tt_fail(member->err, &inference->why, "%s", member->why->text);
    if (member->next_step >= 0) { /* D8: an exit's condition moved it */
        bool leaves = member->next_step == model->step_model.step_count;
        item->fate = leaves ? TT_FATE_LEAVES : TT_FATE_JUMPS;
        item->jump = member->next_step;
    }
    if (!member->err || engine_task->head.outcome == TT_OUTCOME_ABORTED)
        return true;
    item->fate = TT_FATE_FAILS;
    if (is_misplaced(model, engine_task, member)) {
        item->fate = TT_FATE_JUMPS;
        item->jump = task->first_step;
    }
    return true;
}

static void finished(struct tt_domain *self, int64_t now, struct tt_engine_task *engine_task) {
    struct tt_domain_task *slot = tt_domain_task_of(engine_task);
    struct tt_task *task = slot->task;
    tt_assert(task->user == slot);
    tt_assert(!tt_list_linked(&slot->decided));
    struct tt_served_model *model = self->models[task->model];
    tt_assert(model != NULL);
    tt_assert(engine_task->head.outcome != TT_OUTCOME_LOST); /* these come another way */
    bool was_cut = tt_domain_watch_was_cut(engine_task);
    bool fails = was_cut || (*model->failure && (engine_task->head.outcome == TT_OUTCOME_ABORTED ||
                                                 engine_task->head.outcome == TT_OUTCOME_FAILED));
    task->outcome = fails ? TT_OUTCOME_FAILED : engine_task->head.outcome;
    task->last_step_done = engine_task->head.last_step_done;
    /* Until its message had arrived, the device did nothing (S4). */
    task->received_at = self->engine->is_remote ? engine_task->head.received_at : -1;
    task->started_at = tt_instant_max(engine_task->head.started_at, task->received_at);
    task->ended_at = engine_task->head.ended_at;
    self->has_news = true;
    if (model->cells)
        tt_cell_tasks_finished(model, task, engine_task);
    else if (engine_task->head.outcome != TT_OUTCOME_ABORTED)
        count_batch(model, task, engine_task);
    if (!model->cells && task->first_step == 0 &&
        task->last_step == model->step_model.step_count - 1)
        tt_short_runs_note(&model->short_runs, task->rows, task->ended_at - task->started_at,
                           self->limits->run_here_us * TT_US);
    bool any_answered = false;
    for (int32_t i = 0; !model->cells && i < task->count; i++)
        any_answered |= !take_item(model, task, i, engine_task);
    if (fails)
        tt_domain_watch_fail(self, slot, was_cut);
    else if (*model->failure)
        self->watch.withdraws = true;              /* those that have steps left */
    if (engine_task->member_count > task->count) { /* the blank rows */
        struct tt_engine_member *blank = &engine_task->members[task->count];
        if (blank->result)
            self->engine->ops->result_release(blank->result);
        self->engine->ops->state_release(blank->state);
    }
    tt_mechanism_finished(&self->mechanism, now, task);
    if (any_answered)
        tt_domain_meter_left(&self->mechanism, model->index);
}

int64_t tt_domain_step_ended_at(const struct tt_task *task, int32_t step) {
    const struct tt_domain_task *slot = task->user; /* NULL: it was given up */
    int32_t index = step - task->first_step;
    return slot && index >= 0 && index < TT_DOMAIN_STEP_ENDS ? slot->engine_task.step_ends[index]
                                                             : TT_NEVER;
}

int32_t tt_domain_step_rounds(const struct tt_task *task, int32_t step) {
    const struct tt_domain_task *slot = task->user;
    int32_t index = step - task->first_step;
    return slot && index >= 0 && index < TT_DOMAIN_STEP_ENDS ? slot->engine_task.step_rounds[index]
                                                             : 1;
}

/* D4: a task that came back before the one that it follows waits for it, and so does what came
 * behind it on its executor. */
static bool came_early(const struct tt_domain *self, const struct tt_task *task) {
    return task->after || tt_mechanism_oldest(&self->mechanism, task->executor) != task;
}

void tt_domain_collect(struct tt_domain *self, int64_t now) {
    struct tt_list lost; /* runs that were given up before */
    tt_list_init(&lost);
    for (struct tt_push_node *node = tt_push_list_take(&self->done); node; node = node->next) {
        struct tt_domain_task *slot = TT_CONTAINER_OF(node, struct tt_domain_task, done);
        bool is_lost = slot->engine_task.head.outcome == TT_OUTCOME_LOST;
        tt_list_push_back(is_lost ? &lost : &self->collecting, &slot->collecting);
    }
    bool any = true;
    while (any && !tt_list_empty(&self->collecting)) {
        any = false;
        struct tt_list_node *node = tt_list_first(&self->collecting), *next;
        for (; node; node = next) {
            next = tt_list_next(&self->collecting, node);
            struct tt_domain_task *slot = TT_CONTAINER_OF(node, struct tt_domain_task, collecting);
            int32_t executor = slot->task->executor;
            tt_domain_answers_take(self, now, executor);
            if (came_early(self, slot->task))
                continue;
            tt_list_remove(node);
            finished(self, now, &slot->engine_task);
            any = true;
        }
    }
    tt_domain_answers_take_all(self, now);
    while (!tt_list_empty(&lost)) {
        struct tt_list_node *node = tt_list_first(&lost);
        tt_list_remove(node);
        tt_domain_watch_take_back(self, TT_CONTAINER_OF(node, struct tt_domain_task, collecting));
    }
    if (tt_domain_watch_has_news(&self->watch))
        tt_domain_watch_collect(self, now);
}

void tt_domain_done(struct tt_device_task *task) {
    struct tt_domain *self = task->user;
    tt_push_list_push(&self->done, &tt_domain_task_of(tt_engine_task_of(task))->done);
}

void tt_domain_check(const struct tt_domain *self) {
    tt_mechanism_check(&self->mechanism);
    const struct tt_list_node *node = tt_list_first(&self->collecting);
    for (; node; node = tt_list_next(&self->collecting, node))
        tt_assert(
            came_early(self, TT_CONTAINER_OF(node, const struct tt_domain_task, collecting)->task));
    tt_domain_watch_check(self);
    for (int32_t e = 0; e < self->executor_count; e++) {
        const struct tt_executor *executor = &self->mechanism.executors[e];
        for (int32_t k = 0; k < executor->queued; k++) {
            const struct tt_task *task = &executor->tasks[(executor->oldest + k) % executor->depth];
            const struct tt_domain_task *slot = task->user;
            tt_assert(slot->task == task);
            tt_assert(slot->lost_model == NULL);
            tt_assert(self->models[task->model] != NULL);
        }
    }
}
