#include "sim/simulation.h"

#include "base/array.h"
#include "base/instant.h"
#include "core/policy_ops.h"
#include "sim/sim_executors.h"
#include "sim/sim_inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_REQUEST_LIMIT = 4 << 20,
    SAME_INSTANT_LIMIT = 1000000, /* a policy that never stops deciding at one instant is a bug */
};
/* How long a policy may keep its last requests after the last arrival before they are cancelled. */
#define DRAIN_LIMIT_NS (3600 * TT_S)

/* ---- callbacks of the mechanism ---- */

/* A server's answer first goes back to the client. */
static void report_ending(struct tt_simulation *self, const struct tt_sim_ending *ending) {
    if (self->has_server && !self->closing)
        tt_server_threads_answer(&self->threads, self->now, ending);
    else if (self->observer.ended)
        self->observer.ended(self->observer.context, ending);
}

static void on_gone(void *context, struct tt_request *request) {
    struct tt_simulation *self = context;
    tt_cell_graph_free(request->graph);
    free(self->requests[request->handle.index].ends);
    self->requests[request->handle.index].ends = NULL;
}

/* E1: the request leaves the pool, and its output returns on its own. Returns when it is there. */
TT_APART static int64_t leave_pool(struct tt_simulation *self, int64_t now,
                                   struct tt_request *request, enum tt_ending ending) {
    int64_t bytes = self->models[request->model].output_bytes * request->rows;
    int64_t ended_at = now;
    if (ending == TT_ENDING_DONE && bytes > 0)
        ended_at = tt_copy_engine_add(&self->copies_out[0], now, bytes);
    tt_input_pool_left(&self->pool, now, request);
    return ended_at;
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct tt_simulation *self = context;
    self->events++;
    bool pooled = self->pooled && !self->admitting;
    int64_t ended_at = pooled ? leave_pool(self, now, request, ending) : now;
    const struct tt_sim_request *known =
        self->admitting ? &self->admitted : &self->requests[request->handle.index];
    bool is_done = ending == TT_ENDING_DONE;
    const struct tt_token_slo *slo = self->insides
                                         ? tt_sim_inside_token_slo(self, request->model)
                                         : &self->models[request->model].step_model->tokens;
    struct tt_sim_ending report = {
        .number = known->number,
        .arrived_at = request->arrived_at - known->elapsed_ns,
        .deadline_at = tt_mechanism_promised_at(&self->mechanism, request),
        .started_at = known->started_at,
        .ended_at = ended_at,
        .model = request->model,
        .ending = ending,
        .reason = reason,
        .cut_short = is_done && known->output_length > tt_sim_max_output(self, request->model)};
    if (tt_token_slo_given(slo)) {
        report.tokens = known->tokens;
        report.tokens_late = is_done && !tt_token_slo_kept(slo, report.arrived_at, &report.tokens);
    }
    report_ending(self, &report);
}

/* ---- events reported to the mechanism ---- */

/* The domain has no room: the request is dropped and never enters it. */
TT_APART static void turn_away(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                               int64_t number) {
    self->events++;
    struct tt_sim_ending report = {.number = number,
                                   .arrived_at = arrival->at - arrival->elapsed_ns,
                                   .deadline_at = arrival->deadline_at,
                                   .started_at = -1,
                                   .ended_at = arrival->at,
                                   .model = arrival->model,
                                   .ending = TT_ENDING_DROPPED,
                                   .reason = TT_DROP_QUEUE_FULL};
    report_ending(self, &report);
}

/* The mechanism hands out indices itself: there is room for all that its pool can have when it
 * takes its next chunk. */
TT_APART static void grow_requests(struct tt_simulation *self) {
    int64_t chunks = self->mechanism.requests.chunk_count + 1;
    bool reserved = TT_ARRAY_RESERVE(self->requests, &self->request_capacity,
                                     chunks * (int64_t)TT_REQUEST_CHUNK);
    tt_assert(reserved);
}

static int32_t *copy_ends(const struct tt_sim_given *given) {
    if (!given->ends)
        return NULL;
    int32_t *ends = malloc((size_t)given->spec_count * sizeof(*ends));
    tt_assert(ends != NULL);
    memcpy(ends, given->ends, (size_t)given->spec_count * sizeof(*ends));
    return ends;
}

/* For policies that work by cells: sets the arrival's graph and, for recorders, its specs. Returns
 * the ends of given chains, the caller's. */
static int32_t *unfold(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                       int64_t number, struct tt_arrival *out_arrived) {
    const struct tt_sim_model *model = &self->models[arrival->model];
    struct tt_cell_graph *graph = NULL;
    struct tt_sim_given given = {0};
    enum tt_err err;
    if (self->source.given && self->source.given(self->source.context, number, &given))
        err = tt_cell_graph_new(given.specs, given.spec_count, model->step_model->step_count,
                                &graph, NULL);
    else if (arrival->tree)
        err = tt_sim_cells_text(&self->unfold, model->step_model, arrival->tree, &graph, NULL);
    else if (model->tree == TT_TREE_NONE)
        err = tt_sim_cells_steps(&self->unfold, model->step_model, arrival->length,
                                 (struct tt_sim_exit){arrival->exit_step, arrival->exit_to}, &graph,
                                 NULL);
    else
        err = tt_sim_cells_tree(&self->unfold, model->step_model, model->tree, arrival->length,
                                self->seed + (uint64_t)number, &graph, NULL);
    tt_assert(err == TT_OK);
    out_arrived->graph = graph;
    out_arrived->spec_count = graph->spec_count;
    out_arrived->specs = given.specs ? given.specs : self->unfold.specs;
    return copy_ends(&given);
}

/* The arrival enters the domain, or is dropped. */
static void admit(struct tt_simulation *self, const struct tt_sim_arrival *arrival,
                  int64_t number) {
    if (tt_list_empty(&self->mechanism.requests.free))
        grow_requests(self);
    struct tt_arrival arrived = {.model = arrival->model,
                                 .rows = arrival->rows,
                                 .length = arrival->length,
                                 .priority = arrival->priority,
                                 .deadline_at = arrival->deadline_at};
    int32_t *ends = NULL;
    if (tt_policy_runs_cells(self->mechanism.traits))
        ends = unfold(self, arrival, number, &arrived);
    struct tt_request *request = NULL;
    bool fits = !self->pooled || arrival->rows <= self->pool.rings[arrival->model].capacity;
    self->admitting = true;
    self->admitted.number = number;
    self->admitted.elapsed_ns = arrival->elapsed_ns;
    if (!fits || tt_mechanism_arrived(&self->mechanism, self->now, &arrived, &request) != TT_OK) {
        tt_cell_graph_free(arrived.graph);
        turn_away(self, arrival, number);
    }
    self->admitting = false;
    if (!request) {
        free(ends);
        return;
    }
    self->requests[request->handle.index] =
        (struct tt_sim_request){.number = number,
                                .started_at = -1,
                                .elapsed_ns = arrival->elapsed_ns,
                                .exit_step = arrival->exit_step,
                                .exit_to = arrival->exit_to,
                                .output_length = arrival->output_length,
                                .ends = ends};
    if (arrival->exit_step >= 0 && !arrived.graph) /* a graph of cells contains its exits */
        self->any_exit = true;
    if (self->pooled)
        tt_input_pool_arrived(&self->pool, self->now, request,
                              self->models[arrival->model].input_bytes * arrival->rows);
    else
        tt_mechanism_ready(&self->mechanism, self->now, request);
    if (arrival->cancel_at != TT_NEVER)
        tt_cancel_heap_push(&self->cancels, tt_instant_max(arrival->cancel_at, self->now), number,
                            request->handle);
}

static void submit(void *context, const struct tt_sim_arrival *arrival, int64_t number) {
    struct tt_simulation *self = context;
    self->reported = true;
    self->events++;
    admit(self, arrival, number);
}

static void answered(void *context, const struct tt_sim_ending *ending) {
    struct tt_simulation *self = context;
    if (self->observer.ended)
        self->observer.ended(self->observer.context, ending);
}

static void arrive(struct tt_simulation *self) {
    self->last_arrival_at = self->next.at;
    if (self->has_server)
        tt_server_threads_due(&self->threads, self->now, &self->next, self->arrived++);
    else
        submit(self, &self->next, self->arrived++);
    self->more = self->source.next(self->source.context, &self->next);
    tt_assert(!self->more || self->next.at >= self->last_arrival_at);
}

static void cancel_due(struct tt_simulation *self) {
    struct tt_handle handle = tt_cancel_heap_pop(&self->cancels);
    struct tt_request *request = tt_request_pool_find(&self->mechanism.requests, handle);
    if (!request || request->cancelled)
        return;
    tt_mechanism_cancelled(&self->mechanism, self->now, request);
    self->reported = true;
}

/* The same with what most simulations do not have. */
TT_APART static int64_t special_next_at(const struct tt_simulation *self, int64_t at) {
    if (self->has_server)
        at = tt_instant_min(at, tt_device_next_at(&self->threads.processors));
    at = tt_instant_min(at, tt_sim_insides_next_at(self));
    if (self->pooled)
        at = tt_instant_min(at, tt_input_pool_next_at(&self->pool));
    if (self->perturbation_count > 0)
        at = tt_perturbation_seen_at(self->perturbations, self->perturbation_count, at);
    return at;
}

int64_t tt_simulation_next_at(const struct tt_simulation *self) {
    int64_t at = self->more ? self->next.at : TT_NEVER;
    at = tt_instant_min(at, tt_heap_next_key(&self->device_ends));
    at = tt_instant_min(at, tt_heap_next_key(&self->due));
    at = tt_instant_min(at, tt_heap_next_key(&self->appearing));
    at = tt_instant_min(at, tt_cancel_heap_next_at(&self->cancels));
    at = tt_instant_min(at, self->timer_at);
    if (self->is_special)
        at = special_next_at(self, at);
    return tt_instant_max(at, self->now);
}

void tt_simulation_wake(struct tt_simulation *self) {
    if (!self->more)
        self->more = self->source.next(self->source.context, &self->next);
}

/* Reports all events of the instant, before the policy decides. */
static void tell(struct tt_simulation *self) {
    if (self->insides)
        tt_sim_insides_run(self);
    if (tt_sim_executors_report_due(self))
        tt_sim_executors_report(self);
    while (self->more && self->next.at <= self->now)
        arrive(self);
    while (tt_cancel_heap_next_at(&self->cancels) <= self->now)
        cancel_due(self);
    struct tt_request *ready;
    while (self->pooled && (ready = tt_input_pool_take_ready(&self->pool, self->now))) {
        tt_mechanism_ready(&self->mechanism, self->now, ready);
        self->reported = true;
    }
}

/* Cancels requests that the policy keeps without a timer, or for longer than any deadline. */
static void cancel_leftovers(struct tt_simulation *self) {
    const struct tt_request_pool *pool = &self->mechanism.requests;
    for (int32_t chunk = 0; chunk < pool->chunk_count; chunk++)
        for (int32_t i = 0; i < 1024; i++) {
            struct tt_request *request = &pool->chunks[chunk][i];
            if (request->state == TT_REQUEST_QUEUED)
                tt_mechanism_cancelled(&self->mechanism, self->now, request);
        }
}

static bool over(const struct tt_simulation *self, int64_t next_at) {
    if (self->more || (self->has_server && !tt_server_threads_idle(&self->threads)))
        return false;
    if (self->mechanism.requests.in_use == 0)
        return true;
    return next_at == TT_NEVER || next_at > tt_instant_add(self->last_arrival_at, DRAIN_LIMIT_NS);
}

static void check_all(struct tt_simulation *self) {
    tt_mechanism_check(&self->mechanism);
    if (self->has_server)
        tt_server_threads_check(&self->threads);
    if (self->pooled)
        tt_input_pool_check(&self->pool);
}

/* Events of the instant, the decision, and what follows from it. */
static void process_instant(struct tt_simulation *self, int64_t at) {
    self->turns = at == self->now ? self->turns + 1 : 0;
    tt_assert(self->turns < SAME_INSTANT_LIMIT);
    self->now = at;
    self->reported = false;
    do {
        tell(self);
        if (self->reported || self->timer_at <= self->now) {
            tt_mechanism_decide(&self->mechanism, self->now);
            self->timer_at = tt_mechanism_next_at(&self->mechanism);
            self->reported = false;
        }
        if (self->check)
            check_all(self);
    } while (tt_sim_executors_continue(self));
}

void tt_simulation_run_until(struct tt_simulation *self, int64_t at) {
    tt_assert(at >= self->now && at != TT_NEVER);
    self->until_at = at + 1;
    for (int64_t next_at; (next_at = tt_simulation_next_at(self)) <= at;)
        process_instant(self, next_at);
    self->now = at;
}

bool tt_simulation_run(struct tt_simulation *self, int64_t budget) {
    self->until_at = TT_NEVER;
    for (int64_t i = 0; i < budget; i++) {
        int64_t at = tt_simulation_next_at(self);
        if (over(self, at)) {
            self->closing = true;
            cancel_leftovers(self);
            for (int32_t d = 0; d < self->device_count; d++)
                (void)tt_device_take_ended(&self->devices[d], self->now);
            return false;
        }
        process_instant(self, at);
    }
    return true;
}

/* ---- construction ---- */

static enum tt_err init_devices(struct tt_simulation *self, const struct tt_sim_options *options) {
    size_t devices = (size_t)options->device_count, executors = (size_t)self->executor_count;
    self->devices = calloc(devices, sizeof(*self->devices));
    self->copies_in = calloc(devices, sizeof(*self->copies_in));
    self->copies_out = calloc(devices, sizeof(*self->copies_out));
    self->executors = calloc(executors, sizeof(*self->executors));
    self->between = calloc(executors, sizeof(*self->between));
    if (!self->devices || !self->copies_in || !self->copies_out || !self->executors ||
        !self->between)
        return TT_ERR_NO_MEMORY;
    self->device_count = options->device_count;
    int32_t number = 0;
    for (int32_t d = 0; d < options->device_count; d++) {
        const struct tt_sim_device *device = &options->devices[d];
        self->copies_in[d] = device->copy_in;
        self->copies_out[d] = device->copy_out;
        enum tt_err err = tt_device_init(&self->devices[d], device->executors);
        if (err)
            return err;
        for (int32_t e = 0; e < device->executors; e++)
            self->executors[number++] = (struct tt_sim_executor){
                .device = d,
                .demand_ppm = device->processors > 0 ? TT_DEMAND_WHOLE / device->processors : 0,
                .delay = {options->d_ctrl_ns + device->delay.control_ns,
                          options->d_data_ns + device->delay.data_ns},
                .appears_at = tt_instant_max(device->busy_until_at, 0)};
    }
    return TT_OK;
}

static enum tt_err init_tables(struct tt_simulation *self, const struct tt_sim_options *options,
                               int32_t max_batch) {
    self->models = calloc((size_t)options->model_count, sizeof(*self->models));
    self->numbers = calloc((size_t)max_batch, sizeof(*self->numbers));
    if (!self->models || !self->numbers)
        return TT_ERR_NO_MEMORY;
    self->model_count = options->model_count;
    for (int32_t m = 0; m < options->model_count; m++)
        self->models[m] = options->models[m];
    enum tt_err err = init_devices(self, options);
    if (!err)
        err = tt_heap_init(&self->device_ends, options->device_count);
    if (!err)
        err = tt_heap_init(&self->due, self->executor_count);
    if (!err)
        err = tt_heap_init(&self->appearing, self->executor_count);
    if (!err && self->has_server)
        err = tt_server_threads_init(&self->threads, &options->server, self->executor_count);
    self->threads.perturbations = options->perturbations;
    self->threads.perturbation_count = options->perturbation_count;
    self->threads.context = self;
    self->threads.submit = submit;
    self->threads.answered = answered;
    self->pooled = options->devices[0].pool_slots > 0 && !options->inside;
    if (!err && self->pooled) {
        tt_assert(options->device_count == 1);
        err = tt_input_pool_init(&self->pool, options->model_count, options->devices[0].pool_slots,
                                 &self->copies_in[0], &self->mechanism.requests);
    }
    return err;
}

static enum tt_err init_mechanism(struct tt_simulation *self, const struct tt_sim_options *options,
                                  int32_t max_batch, struct tt_error *why) {
    struct tt_mechanism_options mechanism = {.model_capacity = options->model_count,
                                             .executor_capacity = self->executor_count,
                                             .max_batch = max_batch,
                                             .depth = options->depth,
                                             .request_limit = options->request_limit > 0
                                                                  ? options->request_limit
                                                                  : DEFAULT_REQUEST_LIMIT,
                                             .request_reserve = 0,
                                             .learn_percent = options->learn_percent,
                                             .learns_outputs = options->learn_percent > 0,
                                             .refuses_early = options->learn_percent > 0,
                                             .learns_delays = options->learns_delays,
                                             .delay = options->believed_delay};
    for (int32_t m = 0; m < options->model_count; m++)
        mechanism.has_rules |= options->models[m].step_model->rules != NULL;
    struct tt_carrier carrier = {.context = self,
                                 .start = tt_sim_executor_start,
                                 .yield = tt_sim_executor_yield,
                                 .abort = tt_sim_executor_abort,
                                 .ended = on_ended,
                                 .gone = on_gone};
    enum tt_err err = tt_mechanism_init(&self->mechanism, &mechanism, &carrier, why);
    if (!err)
        err = options->create_policy(options->create_context, &self->mechanism, why);
    if (err)
        return err;
    for (int32_t m = 0; m < options->model_count; m++)
        tt_mechanism_add_model(&self->mechanism, 0, m, options->models[m].step_model);
    for (int32_t e = 0; e < self->executor_count; e++)
        tt_heap_set(&self->appearing, e, self->executors[e].appears_at, e);
    return TT_OK;
}

enum tt_err tt_simulation_new(const struct tt_sim_options *options,
                              struct tt_simulation **out_simulation, struct tt_error *why) {
    tt_assert(options->model_count > 0 && options->device_count > 0 && options->depth > 0);
    struct tt_simulation *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a simulation");
    int32_t max_batch = 1;
    for (int32_t m = 0; m < options->model_count; m++) {
        const struct tt_step_model *model = options->models[m].step_model;
        for (int32_t step = 0; step < model->step_count; step++)
            if (model->steps[step].profile->max_batch > max_batch)
                max_batch = model->steps[step].profile->max_batch;
    }
    for (int32_t d = 0; d < options->device_count; d++) {
        tt_assert(options->devices[d].executors > 0);
        self->executor_count += options->devices[d].executors;
    }
    self->source = options->source;
    self->observer = options->observer;
    self->check = options->check;
    self->abort_ns = options->abort_ns;
    self->jitter_permille = options->jitter_permille;
    self->spread = options->spread;
    self->task_ns = options->task_ns;
    self->has_server = options->server.processors > 0;
    self->noise = options->noise;
    self->perturbations = options->perturbations;
    self->perturbation_count = options->perturbation_count;
    self->admitted.started_at = -1;
    self->timer_at = TT_NEVER;
    self->seed = options->seed;
    tt_prng_init(&self->prng, options->seed, UINT64_C(0x6a69747465720000));
    enum tt_err err = init_tables(self, options, max_batch);
    if (err)
        err = tt_fail(err, why, "out of memory for a simulation");
    else
        err = init_mechanism(self, options, max_batch, why);
    if (!err && options->inside)
        err = tt_sim_insides_init(self, options, why);
    if (err) {
        tt_simulation_free(self);
        return err;
    }
    self->is_special =
        self->has_server || self->pooled || self->insides || self->perturbation_count > 0;
    self->more = self->source.next(self->source.context, &self->next);
    *out_simulation = self;
    return TT_OK;
}

void tt_simulation_free(struct tt_simulation *take_simulation) {
    struct tt_simulation *self = take_simulation;
    if (!self)
        return;
    if (self->mechanism.policy)
        self->mechanism.ops->free(self->mechanism.policy);
    self->mechanism.policy = NULL;
    tt_sim_insides_fini(self);
    tt_mechanism_fini(&self->mechanism);
    tt_sim_cells_fini(&self->unfold);
    for (int32_t e = 0; self->executors && e < self->executor_count; e++)
        tt_cell_cost_fini(&self->executors[e].cell_cost);
    for (int32_t d = 0; self->devices && d < self->device_count; d++)
        tt_device_fini(&self->devices[d]);
    tt_heap_fini(&self->device_ends);
    tt_heap_fini(&self->due);
    tt_heap_fini(&self->appearing);
    tt_cancel_heap_fini(&self->cancels);
    if (self->has_server)
        tt_server_threads_fini(&self->threads);
    if (self->pooled)
        tt_input_pool_fini(&self->pool);
    free(self->devices);
    free(self->copies_in);
    free(self->copies_out);
    free(self->executors);
    free(self->between);
    free(self->models);
    free(self->numbers);
    free(self->requests);
    free(self);
}

int64_t tt_simulation_now(const struct tt_simulation *self) { return self->now; }

int64_t tt_simulation_events(const struct tt_simulation *self) { return self->events; }

const struct tt_mechanism *tt_simulation_mechanism(const struct tt_simulation *self) {
    return &self->mechanism;
}

const struct tt_device *tt_simulation_device(const struct tt_simulation *self, int32_t device) {
    tt_assert(device >= 0 && device < self->device_count);
    return &self->devices[device];
}
