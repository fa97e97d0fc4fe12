#include "lab/run/live_run.h"

#include "base/clock.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "lab/run/live_models.h"
#include "lab/run/live_tree.h"
#include "lab/run/live_watch.h"
#include "lab/scenario/allocate.h"
#include "profile/machine.h"
#include "serve/domain.h"
#include "serve/inference.h"
#include "serve/scheduler.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAD_NS (20 * TT_MS)  /* between the start of the scheduler and the first arrival */
#define LOOK_NS (10 * TT_MS)  /* the longest sleep of the player */
#define SHOW_NS (200 * TT_MS) /* between two updates of the progress bar */
#define DRAIN_NS (60 * TT_S)

enum { AT_ONCE = 32 }; /* requests of a burst that are flushed together */

struct player {
    const struct tt_live_run *run;
    struct tt_live_models world;
    struct tt_live_watch watch;
    struct tt_live_tree tree; /* of the current request, if it is one */
    struct tt_port *port;
    struct tt_eventcount eventcount;
    struct tt_flag ending;    /* all requests have arrived: only answers are awaited */
    struct tt_list in_flight; /* struct tt_live_request */
    struct tt_list spare;
    int64_t in_flight_count;
    int64_t cancelling; /* requests in flight that have a cancel_at */
    struct tt_sim_arrival next;
    bool more;
    int64_t number, last_arrival_at;
    int64_t epoch_at, shown_at;
    struct tt_histogram lag_ns;
    struct tt_live_figures figures;
    struct tt_scenario_result *result;
};

static struct tt_live_request *live_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_live_request, link);
}

static int64_t since(const struct player *self, int64_t now) { return now - self->epoch_at; }

/* ---- one request ---- */

static void forget(struct player *self, struct tt_live_request *live) {
    if (live->arrival.cancel_at != TT_NEVER)
        self->cancelling--;
    self->in_flight_count--;
    tt_list_remove(&live->link);
    tt_list_push_front(&self->spare, &live->link);
}

/* Called when the request returns to the port: computed, dropped, or rejected. */
static void done(void *context, struct tt_inference *inference, enum tt_err err, const char *why) {
    struct tt_live_request *live = context;
    struct player *self = live->player;
    if (err && err != TT_ERR_CANCELLED && err != TT_ERR_TIMEOUT && err != TT_ERR_BUSY &&
        err != TT_ERR_UNAVAILABLE && !self->figures.failure[0])
        snprintf(self->figures.failure, sizeof(self->figures.failure), "%s", why);
    if (!live->ended)
        tt_live_watch_refused(&self->watch, tt_clock_now(), live,
                              err == TT_ERR_CANCELLED ? TT_ENDING_CANCELLED : TT_ENDING_DROPPED,
                              err == TT_ERR_CANCELLED ? TT_DROP_NONE : TT_DROP_QUEUE_FULL);
    tt_inference_release(inference);
    forget(self, live);
}

static struct tt_live_request *take_live(struct player *self) {
    struct tt_list_node *node = tt_list_first(&self->spare);
    struct tt_live_request *live = node ? live_at(node) : tt_allocate(1, sizeof(*live));
    if (node)
        tt_list_remove(node);
    *live = (struct tt_live_request){.player = self,
                                     .arrival = self->next,
                                     .number = self->number,
                                     .started_at = -1,
                                     .last_ended_at = -1};
    tt_list_push_back(&self->in_flight, &live->link);
    self->in_flight_count++;
    self->cancelling += live->arrival.cancel_at != TT_NEVER;
    return live;
}

/* The time from now until the deadline; 1 ns if it has passed. */
static int64_t timeout_of(const struct player *self, const struct tt_sim_arrival *arrival,
                          int64_t now) {
    if (arrival->deadline_at == TT_NEVER)
        return TT_NEVER - 1;
    int64_t left_ns = arrival->deadline_at - since(self, now);
    return left_ns > 0 ? left_ns : 1;
}

static bool is_tree(const struct player *self) {
    return self->run->scenario->models[self->next.model].tree != TT_TREE_NONE;
}

/* Reserves memory for the inputs of the next request. */
static enum tt_err begin(struct player *self, struct tt_inference **out_inference,
                         struct tt_error *why) {
    const struct tt_sim_arrival *arrival = &self->next;
    struct tt_live_inputs *inputs = &self->world.inputs[arrival->model];
    struct tt_inference_shape shapes[TT_MAX_TENSORS];
    size_t sizes_bytes[TT_MAX_TENSORS];
    int32_t length = arrival->length;
    enum tt_err err = TT_OK;
    if (is_tree(self)) {
        err = tt_live_tree_draw(&self->tree, self->run->scenario, arrival, self->number, why);
        length = self->tree.nodes;
    }
    if (!err)
        err = tt_live_inputs_shape(inputs, arrival->rows, length, shapes, sizes_bytes, why);
    return err ? err
               : tt_inference_begin(self->port, self->world.models[arrival->model], shapes,
                                    sizes_bytes, inputs->signature->input_count, out_inference,
                                    why);
}

static void fill(struct player *self, struct tt_inference *inference) {
    const struct tt_sim_arrival *arrival = &self->next;
    if (self->world.says_lengths[arrival->model]) {
        tt_live_inputs_fill_with(inference, arrival->output_length);
        return;
    }
    tt_live_inputs_fill(&self->world.inputs[arrival->model], inference, arrival->rows,
                        (uint64_t)self->number + self->run->scenario->seed);
    if (is_tree(self))
        tt_live_tree_fill(&self->tree, self->world.models[arrival->model]->cells->cells, inference);
}

static enum tt_err send(struct player *self, struct tt_error *why) {
    const struct tt_sim_arrival *arrival = &self->next;
    struct tt_live_request *live = take_live(self);
    enum tt_err err = begin(self, &live->inference, why);
    int64_t now = tt_clock_now();
    if (err == TT_ERR_BUSY) {
        tt_live_watch_refused(&self->watch, now, live, TT_ENDING_DROPPED, TT_DROP_QUEUE_FULL);
        forget(self, live);
        return TT_OK;
    }
    if (err) {
        forget(self, live);
        return tt_fail_in(err, why, "request %lld", (long long)live->number);
    }
    fill(self, live->inference);
    now = tt_clock_now();
    if (arrival->at >= self->run->scenario->warm_up_ns)
        tt_histogram_add(&self->lag_ns, since(self, now) - arrival->at);
    tt_live_figures_leave_out(&self->figures, arrival->exit_step >= 0, "exit_step");
    struct tt_inference_options options = {.timeout_ns = timeout_of(self, arrival, now)};
    tt_inference_submit(live->inference, &options, done, live);
    return TT_OK;
}

/* ---- cancelling ---- */

static void cancel(struct tt_live_request *live) {
    if (live->cancelled || !live->inference)
        return;
    live->cancelled = true;
    tt_inference_cancel(live->inference);
}

static void cancel_all(struct player *self) {
    for (struct tt_list_node *node = tt_list_first(&self->in_flight); node;
         node = tt_list_next(&self->in_flight, node))
        cancel(live_at(node));
}

static int64_t cancel_due(struct player *self, int64_t now) {
    int64_t next_at = TT_NEVER;
    if (self->cancelling == 0)
        return next_at;
    for (struct tt_list_node *node = tt_list_first(&self->in_flight); node;
         node = tt_list_next(&self->in_flight, node)) {
        struct tt_live_request *live = live_at(node);
        if (live->arrival.cancel_at == TT_NEVER || live->cancelled)
            continue;
        if (live->arrival.cancel_at <= since(self, now))
            cancel(live);
        else
            next_at = tt_instant_min(next_at, live->arrival.cancel_at);
    }
    return next_at == TT_NEVER ? next_at : next_at + self->epoch_at;
}

/* ---- the end ---- */

struct rest {
    int64_t in_flight;
    bool nothing_happens;
};

/* Called between two turns: whether nothing runs, nothing is due, and the policy holds every
 * request. */
static void look_at_rest(void *context, int32_t index, const struct tt_domain *domain) {
    (void)index;
    struct rest *rest = context;
    const struct tt_mechanism *mechanism = &domain->mechanism;
    rest->nothing_happens = mechanism->requests.in_use == rest->in_flight &&
                            tt_mechanism_next_at(mechanism) == TT_NEVER;
    for (int32_t e = 0; e < mechanism->executor_capacity; e++)
        rest->nothing_happens &= mechanism->executors[e].queued == 0;
}

/* After the last arrival: cancels the remaining requests if nothing more will happen to them. */
static void end_stragglers(struct player *self, int64_t now) {
    struct rest rest = {.in_flight = self->in_flight_count};
    int64_t waited_ns = since(self, now) - self->last_arrival_at;
    tt_scheduler_domains(tt_serving_scheduler(self->world.serving), look_at_rest, &rest);
    if (!rest.nothing_happens && waited_ns < DRAIN_NS)
        return;
    for (struct tt_list_node *node = tt_list_first(&self->in_flight); node;
         node = tt_list_next(&self->in_flight, node))
        self->figures.left_waiting += !live_at(node)->cancelled;
    cancel_all(self);
}

/* ---- playing ---- */

static void check_domain(void *context, int32_t index, const struct tt_domain *domain) {
    (void)context;
    (void)index;
    tt_mechanism_check(&domain->mechanism);
}

void tt_live_run_show(const struct tt_live_run *run, int64_t played_ns) {
    const struct tt_scenario_outputs *outputs = run->outputs;
    int64_t whole_ns = run->scenario->duration_ns;
    if (!outputs || !outputs->progress || whole_ns == TT_NEVER)
        return;
    played_ns = tt_instant_max(tt_instant_min(played_ns, whole_ns), 0);
    outputs->progress(outputs->progress_context, (int32_t)(played_ns / TT_MS),
                      (int32_t)(whole_ns / TT_MS));
}

static void show(struct player *self, int64_t now) {
    if (now < self->shown_at + SHOW_NS)
        return;
    self->shown_at = now;
    tt_live_run_show(self->run, since(self, now));
}

bool tt_live_run_is_stopped(const struct tt_live_run *run, int64_t bad,
                            struct tt_scenario_result *result) {
    if (run->stop && *run->stop)
        result->interrupted = true;
    else if (run->outputs && run->outputs->bad_limit > 0 && bad > run->outputs->bad_limit)
        result->cut = true;
    return result->interrupted || result->cut;
}

static enum tt_err play(struct player *self, struct tt_error *why) {
    const struct tt_sim_source *source = &self->run->source;
    bool stopped = false;
    self->more = source->next(source->context, &self->next);
    while (self->more || !tt_list_empty(&self->in_flight)) {
        int64_t bad = tt_counter_get(&self->watch.bad);
        if (!stopped && tt_live_run_is_stopped(self->run, bad, self->result)) {
            stopped = true;
            self->more = false;
            cancel_all(self);
        }
        int64_t now = tt_clock_now();
        while (self->more && self->next.at <= since(self, now)) {
            enum tt_err err = send(self, why);
            if (err)
                return err;
            self->number++;
            self->last_arrival_at = self->next.at;
            self->more = source->next(source->context, &self->next);
            if (self->number % AT_ONCE == 0)
                tt_port_flush(self->port);
        }
        int64_t until_at = tt_instant_min(cancel_due(self, now), now + LOOK_NS);
        tt_port_flush(self->port);
        tt_port_drain(self->port);
        if (self->run->check)
            tt_scheduler_domains(tt_serving_scheduler(self->world.serving), check_domain, NULL);
        if (!self->more)
            tt_flag_raise(&self->ending);
        if (!self->more && !stopped && self->in_flight_count > 0)
            end_stragglers(self, now);
        show(self, now);
        if (self->more)
            until_at = tt_instant_min(until_at, self->epoch_at + self->next.at);
        if (self->more || !tt_list_empty(&self->in_flight))
            (void)tt_eventcount_sleep(&self->eventcount, until_at);
    }
    return TT_OK;
}

/* ---- the whole ---- */

/* Answers do not wake the player while it still has requests to send: it sees them soon anyway. At
 * the end it waits for answers only. */
static void wake(void *context) {
    struct player *self = context;
    if (tt_flag_is_raised(&self->ending))
        tt_eventcount_notify(&self->eventcount);
}

/* Notes the features of the file that only simulated devices have. */
static void note_left_out(const struct tt_scenario *s, struct tt_live_figures *figures) {
    bool copies = false, pool = false, bytes = false, decodes = false, rates = false;
    bool cells = false; /* with bytes */
    for (int32_t m = 0; m < s->model_count; m++) {
        decodes |= s->models[m].step_model.output_quantiles != NULL;
        rates |= s->models[m].cell_rates.task_ns > 0 || s->models[m].cell_rates.gather_row_ns > 0;
        bool has_bytes = s->models[m].input_bytes > 0 || s->models[m].output_bytes > 0;
        bytes |= has_bytes;
        cells |= has_bytes && tt_live_models_is_of_cells(s, &s->models[m]);
    }
    for (int32_t d = 0; d < s->device_count; d++) {
        const struct tt_sim_device *device = &s->devices[d];
        copies |= device->copy_in.fixed_ns > 0 || device->copy_in.bytes_per_s > 0 ||
                  device->copy_out.fixed_ns > 0 || device->copy_out.bytes_per_s > 0;
        pool |= device->pool_slots > 0;
    }
    bool real = s->world == TT_WORLD_REAL;
    tt_live_figures_leave_out(figures, real && s->jitter_permille > 0, "jitter");
    tt_live_figures_leave_out(
        figures, real && (s->noise.spread_permille > 0 || s->noise.outlier_permille > 0), "noise");
    tt_live_figures_leave_out(figures, real && s->abort_ns > 0, "abort_ms");
    tt_live_figures_leave_out(figures, s->perturbation_count > 0, "perturb");
    tt_live_figures_leave_out(figures, copies && (cells || (real && bytes)), "copies");
    tt_live_figures_leave_out(figures, real && decodes, "lengths of outputs");
    tt_live_figures_leave_out(figures, real && rates, "cell_task_us");
    tt_live_figures_leave_out(figures, pool, "pool_slots");
}

static void describe(struct player *self) {
    struct tt_live_figures *figures = &self->figures;
    tt_live_figures_begin(figures);
    note_left_out(self->run->scenario, figures);
}

static void finish(struct player *self) {
    int64_t now = tt_clock_now();
    self->figures.lag_ns = tt_live_spread_of(&self->lag_ns);
    tt_live_watch_figures(&self->watch, &self->figures);
    self->result->live = self->figures;
    self->result->events = self->number + tt_counter_get(&self->watch.events);
    self->result->simulated_ns = since(self, now);
    self->shown_at = 0;
    if (!self->result->interrupted)
        show(self, tt_instant_add(self->epoch_at,
                                  tt_instant_max(self->run->scenario->duration_ns, SHOW_NS)));
}

static void count_requests(void *context, int32_t index, const struct tt_domain *domain) {
    (void)index;
    *(int32_t *)context += domain->mechanism.requests.in_use;
}

/* Every request has ended, but cells beyond an <eos>, or of cancelled requests, may still run. */
static void await_cells(struct player *self) {
    for (;;) {
        int32_t in_use = 0;
        tt_scheduler_domains(tt_serving_scheduler(self->world.serving), count_requests, &in_use);
        if (in_use == 0)
            return;
        (void)tt_eventcount_sleep(&self->eventcount, tt_clock_now() + TT_MS);
    }
}

/* Attaches the watch to the world and plays the arrivals. */
static enum tt_err play_world(struct player *self, struct tt_error *why) {
    const struct tt_live_run *run = self->run;
    struct tt_mechanism *mechanism = &self->world.domain->mechanism;
    tt_domain_answer_whole(
        self->world.domain); /* the watch wants a batch's times before its ends */
    tt_live_watch_init(&self->watch, mechanism, TT_DOMAIN_MAX_BATCH, &run->sink);
    enum tt_err err = TT_OK;
    if (run->made)
        err = run->made(run->made_context, mechanism, why);
    if (!err)
        err = tt_serving_open_port(self->world.serving, wake, self, &self->port, why);
    if (err)
        return err;
    tt_port_hold_back(self->port);
    self->epoch_at = self->watch.epoch_at = tt_clock_now() + LEAD_NS;
    self->watch.warm_up_ns = run->scenario->warm_up_ns;
    err = tt_live_models_start(&self->world, why);
    if (!err)
        err = play(self, why);
    cancel_all(self); /* after an error; else there is none */
    tt_port_close(self->port);
    await_cells(self);
    return err;
}

static void free_all(struct tt_list *requests) {
    struct tt_list_node *node;
    while ((node = tt_list_first(requests))) {
        tt_list_remove(node);
        free(live_at(node));
    }
}

enum tt_err tt_live_run(const struct tt_live_run *run, struct tt_scenario_result *result,
                        struct tt_error *why) {
    struct player self = {.run = run, .result = result};
    tt_list_init(&self.in_flight);
    tt_list_init(&self.spare);
    tt_eventcount_init(&self.eventcount);
    tt_histogram_init(&self.lag_ns);
    tt_eventcount_be_punctual();
    describe(&self);
    tt_machine_forget_peak_memory();
    enum tt_err err = tt_live_models_open(&self.world, run->scenario, run->outputs, run->stop, why);
    if (!err) {
        err = play_world(&self, why);
        self.figures.peak_memory_bytes = tt_machine_peak_memory();
        tt_live_models_close(&self.world);
    }
    if (!err)
        finish(&self);
    tt_live_watch_fini(&self.watch);
    tt_histogram_fini(&self.lag_ns);
    tt_live_tree_fini(&self.tree);
    free_all(&self.in_flight);
    free_all(&self.spare);
    return err;
}
