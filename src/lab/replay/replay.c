#include "lab/replay/replay.h"

#include "base/array.h"
#include "base/instant.h"
#include "lab/replay/replay_ends.h"
#include "lab/replay/replay_models.h"
#include "lab/replay/replay_requests.h"
#include "lab/replay/replay_text.h"
#include "lab/replay/replay_threads.h"
#include "lab/scenario/allocate.h"
#include "sim/sim_cells.h"

#include <stdlib.h>

enum { EVENTS_PER_STOP_CHECK = 65536 }; /* how often `stop` is read */

/* A replay in progress. */
struct replaying {
    struct tt_replay *replay;
    const struct tt_recording *recording;
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *next; /* read, not yet replayed; NULL: none was read */
    bool ended;                           /* there is no next event */
    bool over;                            /* a difference, a gap, or an error ended it */
    bool check;
    struct tt_mechanism mechanism;
    int32_t *model_of; /* [model_capacity]: in replay->models; -1: none */
    struct tt_replay_requests live;
    struct tt_replay_threads *threads; /* NULL: the domain had no threads of its own */
    int64_t decide_serial;             /* the event whose answers are compared */
    size_t decide_offset;
    enum tt_err err;
    struct tt_error *why;
};

/* ---- reading ---- */

static void fail(struct replaying *self, enum tt_err err) {
    if (!self->err)
        self->err = err;
    self->over = true;
}

/* Reports an event that cannot have happened. */
static void impossible(struct replaying *self, const struct tt_recorded_event *event,
                       const char *what) {
    if (self->over)
        return;
    fail(self,
         tt_fail(TT_ERR_INVALID, self->why,
                 "%s: offset %zu: event %lld of domain %d is impossible: %s", self->recording->name,
                 event->offset, (long long)event->serial, self->replay->stream, what));
}

/* The next event, which stays the next; NULL at the end or on an error. */
static const struct tt_recorded_event *look(struct replaying *self) {
    if (self->next || self->ended || self->err)
        return self->next;
    enum tt_err err = tt_recording_next(&self->cursor, &self->next, self->why);
    if (err)
        fail(self, err);
    else if (!self->next)
        self->ended = true;
    else if (self->next->kind == TT_RECORD_GAP) {
        self->replay->lost = self->next->lost;
        self->over = true;
    }
    return self->next;
}

static bool is_answer(const struct tt_recorded_event *event) {
    return event->kind == TT_RECORD_RUN || event->kind == TT_RECORD_DROP ||
           event->kind == TT_RECORD_YIELD || event->kind == TT_RECORD_ABORT;
}

/* ---- comparing ---- */

static void differ(struct replaying *self, const struct tt_recorded_event *recorded,
                   const struct tt_text *made) {
    struct tt_text text;
    tt_text_init(&text);
    if (recorded)
        tt_replay_text_event(&text, recorded);
    else
        tt_text_puts(&text, "nothing more");
    struct tt_replay *replay = self->replay;
    int64_t at = self->mechanism.now - replay->base_at;
    replay->differs = true;
    (void)tt_fail(TT_ERR_INVALID, &replay->difference,
                  "domain %d differs at event %lld (offset %zu), %lld.%09lld s after the first "
                  "arrival: recorded %s; replayed %s",
                  replay->stream, (long long)self->decide_serial, self->decide_offset,
                  (long long)(at / TT_S), (long long)(at < 0 ? -(at % TT_S) : at % TT_S),
                  tt_text_string(&text), tt_text_string(made));
    tt_text_fini(&text);
    self->over = true;
}

/* Ends the replay when the domain's threads cannot advance. */
static void follow_threads(struct replaying *self) {
    const struct tt_replay_threads_state *state =
        self->threads && !self->over ? tt_replay_threads_state(self->threads) : NULL;
    struct tt_replay *replay = self->replay;
    if (!state || !state->over)
        return;
    self->over = true;
    replay->lost = state->lost;
    replay->cut = state->cut;
    replay->differs = state->differs;
    if (state->differs)
        (void)tt_fail(TT_ERR_INVALID, &replay->difference, "domain %d: %s", replay->stream,
                      state->why.text);
    if (state->err)
        fail(self, tt_fail(state->err, self->why, "%s", state->why.text));
}

/* The recorded event to compare with the current answer; NULL: it cannot be compared. */
static const struct tt_recorded_event *recorded_answer(struct replaying *self) {
    if (self->over)
        return NULL;
    const struct tt_recorded_event *event = look(self);
    if (!event && !tt_recording_has_end(self->recording))
        self->over = true; /* the rest of the decision was cut off */
    return self->over ? NULL : event;
}

static void took_answer(struct replaying *self) {
    self->next = NULL;
    self->replay->events++;
    self->replay->decisions++;
}

static bool same_run(const struct tt_recorded_event *event, const struct tt_task *task) {
    if (!event || event->kind != TT_RECORD_RUN || event->index != task->executor ||
        event->model != task->model || event->first_step != task->first_step ||
        event->last_step != task->last_step || event->repeat != task->repeat ||
        event->walk != task->walk || event->length != task->length ||
        event->start_at != task->start_at || event->count != task->count ||
        (event->subgraphs != NULL) != (task->items[0].subgraph != NULL))
        return false;
    for (int32_t i = 0; i < task->count; i++)
        if (event->numbers[i] != tt_request_arrival(task->items[i].request) ||
            (event->subgraphs && event->subgraphs[i] != tt_record_subgraph(&task->items[i])))
            return false;
    return true;
}

static void on_start(void *context, int64_t now, struct tt_task *task) {
    (void)now;
    struct replaying *self = context;
    const struct tt_recorded_event *event = recorded_answer(self);
    if (self->over)
        return;
    if (same_run(event, task)) {
        took_answer(self);
        return;
    }
    struct tt_text made;
    tt_text_init(&made);
    tt_replay_text_run(&made, task);
    differ(self, event, &made);
    tt_text_fini(&made);
}

static void stopped(struct replaying *self, int32_t executor, enum tt_record_kind kind) {
    const struct tt_recorded_event *event = recorded_answer(self);
    if (self->over)
        return;
    if (event && event->kind == kind && event->index == executor) {
        took_answer(self);
        return;
    }
    struct tt_text made;
    tt_text_init(&made);
    tt_text_printf(&made, "%s executor %d", kind == TT_RECORD_YIELD ? "YIELD" : "ABORT", executor);
    differ(self, event, &made);
    tt_text_fini(&made);
}

static void on_yield(void *context, int64_t now, int32_t executor) {
    (void)now;
    stopped(context, executor, TT_RECORD_YIELD);
}

static void on_abort(void *context, int64_t now, int32_t executor) {
    (void)now;
    stopped(context, executor, TT_RECORD_ABORT);
}

static void compare_drop(struct replaying *self, int64_t number, enum tt_drop_reason reason) {
    const struct tt_recorded_event *event = recorded_answer(self);
    if (self->over)
        return;
    if (event && event->kind == TT_RECORD_DROP && event->number == number &&
        event->reason == reason) {
        took_answer(self);
        return;
    }
    struct tt_text made;
    tt_text_init(&made);
    tt_replay_text_drop(&made, number, reason);
    differ(self, event, &made);
    tt_text_fini(&made);
}

static void on_gone(void *context, struct tt_request *request) {
    (void)context;
    tt_cell_graph_free(request->graph);
}

static void on_ended(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                     enum tt_drop_reason reason) {
    struct replaying *self = context;
    int64_t number = tt_request_arrival(request);
    if (ending == TT_ENDING_DROPPED)
        compare_drop(self, number, reason);
    struct tt_replay_request *known = tt_replay_requests_find(&self->live, number);
    if (!known)
        return; /* memory ran out at its arrival */
    int64_t base_at = self->replay->base_at;
    int64_t due_at = tt_mechanism_promised_at(&self->mechanism, request);
    struct tt_sim_ending report = {.number = request->number,
                                   .arrived_at = request->arrived_at - base_at,
                                   .deadline_at = due_at == TT_NEVER ? TT_NEVER : due_at - base_at,
                                   .started_at =
                                       known->started_at < 0 ? -1 : known->started_at - base_at,
                                   .ended_at = now - base_at,
                                   .model = self->model_of[request->model],
                                   .ending = ending,
                                   .reason = reason};
    /* It may start before the recorded arrival: clocks are read at different instants. */
    report.started_at = tt_instant_max(report.started_at, report.arrived_at);
    if (request->graph)
        report.tokens = request->graph->tokens;
    report.tokens_late = ending == TT_ENDING_DONE && request->graph &&
                         !tt_token_slo_kept(&self->mechanism.models[request->model]->tokens,
                                            request->arrived_at, &report.tokens);
    report.tokens.first_at -= base_at;
    report.tokens.last_at -= base_at;
    if (!self->over || ending != TT_ENDING_DROPPED)
        tt_measure_ended(&self->replay->measure, &report);
    tt_replay_requests_remove(&self->live, number);
}

/* ---- events for the mechanism ---- */

static struct tt_sim_arrival *keep_arrival(struct replaying *self, int64_t now,
                                           const struct tt_arrival *arrival) {
    struct tt_replay *replay = self->replay;
    if (!TT_ARRAY_RESERVE(replay->arrivals, &replay->arrival_capacity, replay->arrival_count + 1)) {
        fail(self, tt_fail(TT_ERR_NO_MEMORY, self->why, "out of memory"));
        return NULL;
    }
    if (replay->arrival_count == 0)
        replay->base_at = now;
    struct tt_sim_arrival *kept = &replay->arrivals[replay->arrival_count++];
    *kept = (struct tt_sim_arrival){.at = now - replay->base_at,
                                    .deadline_at = arrival->deadline_at == TT_NEVER
                                                       ? TT_NEVER
                                                       : arrival->deadline_at - replay->base_at,
                                    .cancel_at = TT_NEVER,
                                    .model = self->model_of[arrival->model],
                                    .rows = arrival->rows,
                                    .length = arrival->length,
                                    .priority = arrival->priority,
                                    .exit_step = -1};
    return kept;
}

/* Keeps the request's cells, if it has any, and makes their graph if the policy works by cells.
 * False: they are impossible. */
static bool take_cells(struct replaying *self, const struct tt_recorded_event *event,
                       struct tt_cell_graph **out_graph) {
    struct tt_replay *replay = self->replay;
    const struct tt_arrival *arrival = &event->arrival;
    const struct tt_step_model *model = self->mechanism.models[arrival->model];
    bool by_cells = tt_policy_runs_cells(self->mechanism.traits);
    if (arrival->spec_count == 0 && by_cells)
        impossible(self, event, "a request without its cells, under a policy that works by them");
    if (arrival->spec_count == 0)
        return !by_cells;
    struct tt_error why;
    struct tt_cell_graph *graph = NULL;
    enum tt_err err = tt_replay_cells_graph(model, arrival, &graph, &why);
    if (err == TT_ERR_INVALID)
        impossible(self, event, why.text);
    if (!err)
        err = tt_replay_cells_add(&replay->cells, replay->arrival_count - 1,
                                  self->model_of[arrival->model], model->step_count, event);
    if (err == TT_ERR_NO_MEMORY)
        fail(self, tt_fail(err, self->why, "out of memory"));
    if (!err && by_cells)
        *out_graph = graph;
    else
        tt_cell_graph_free(graph);
    return !err;
}

static void arrive(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_mechanism *m = &self->mechanism;
    const struct tt_arrival *arrival = &event->arrival;
    if (arrival->model >= m->model_capacity || !m->models[arrival->model]) {
        impossible(self, event, "a request for a model that is not there");
        return;
    }
    const struct tt_step_model *model = m->models[arrival->model];
    bool refused = event->kind == TT_RECORD_REFUSED;
    if (arrival->rows > model->max_batch)
        impossible(self, event, "a request with more rows than its model takes");
    else if (model->rules && (arrival->priority < 0 || arrival->priority >= model->rule_count))
        impossible(self, event, "a request of a priority for which its model has no rule");
    else if (tt_sim_cells_count(model, TT_TREE_NONE, arrival->length) > TT_CELL_GRAPH_MAX_CELLS)
        impossible(self, event, "a request of more cells than there can be");
    else if (!refused && event->number != m->arrivals)
        impossible(self, event, "a request with a number that is not the next");
    else if (refused != (m->requests.in_use == m->requests.limit))
        impossible(self, event, "a request was taken or refused against the domain's limit");
    if (self->over || !keep_arrival(self, event->now, arrival))
        return;
    if (!refused)
        tt_replay_requests_add(&self->live, self->replay->arrival_count - 1);
    struct tt_arrival arrived = *arrival; /* the event may be gone when the policy is called */
    struct tt_request *request = NULL;    /* remains NULL if a rule ends it at once */
    int64_t number = m->arrivals;
    if (!take_cells(self, event, &arrived.graph))
        return;
    if (tt_mechanism_arrived(m, event->now, &arrived, &request) != TT_OK) {
        tt_cell_graph_free(arrived.graph);
        if (!refused)
            fail(self, tt_fail(TT_ERR_NO_MEMORY, self->why, "out of memory"));
        return;
    }
    struct tt_replay_request *known = tt_replay_requests_find(&self->live, number);
    if (known && request)
        known->request = request;
}

static void pass_on(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_replay_request *known = tt_replay_requests_find(&self->live, event->number);
    if (!known || !known->request) {
        impossible(self, event, "it is about a request that is not there");
        return;
    }
    if (event->kind == TT_RECORD_READY) {
        known->request->slot = event->slot;
        tt_mechanism_ready(&self->mechanism, event->now, known->request);
        return;
    }
    struct tt_sim_arrival *arrival = &self->replay->arrivals[known->arrival];
    if (arrival->cancel_at == TT_NEVER)
        arrival->cancel_at = event->now - self->replay->base_at;
    tt_mechanism_cancelled(&self->mechanism, event->now, known->request);
}

static void finish(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_mechanism *m = &self->mechanism;
    struct tt_task *task =
        event->index < m->executor_capacity ? tt_mechanism_oldest(m, event->index) : NULL;
    if (!task) {
        impossible(self, event, "an executor that had no task finished one");
        return;
    }
    struct tt_replay_ends ends = {
        .replay = self->replay, .mechanism = m, .live = &self->live, .model_of = self->model_of};
    if (!tt_replay_ends_take(&ends, event, task)) {
        impossible(self, event, "a task ended in a way that it cannot");
        return;
    }
    tt_mechanism_finished(m, event->now, task);
}

static void receive(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_mechanism *m = &self->mechanism;
    struct tt_task *task =
        event->index < m->executor_capacity ? tt_mechanism_oldest(m, event->index) : NULL;
    if (task && event->received_at >= task->dispatched_at && event->received_at <= event->now)
        task->received_at = event->received_at;
    else
        impossible(self, event, "the message of no task arrived");
}

static void add_model(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_replay *replay = self->replay;
    struct tt_record_model *model;
    enum tt_err err = tt_record_model_read(event->message, event->message_bytes, &model, self->why);
    if (err) {
        fail(self,
             tt_fail_in(err, self->why, "%s: offset %zu", self->recording->name, event->offset));
        return;
    }
    bool by_cells = tt_policy_runs_cells(self->mechanism.traits);
    const char *what = tt_replay_models_refuse(model, &replay->domain->limits, by_cells);
    if (what) {
        tt_record_model_free(model);
        impossible(self, event, what);
        return;
    }
    err = by_cells ? TT_OK : tt_replay_models_widen(model, self->why);
    if (err) {
        tt_record_model_free(model);
        fail(self, err);
        return;
    }
    self->model_of[event->index] = replay->model_count;
    replay->models[replay->model_count++] = model;
    tt_mechanism_add_model(&self->mechanism, event->now, event->index, &model->step_model);
}

static void change_model(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_mechanism *m = &self->mechanism;
    if (event->index >= m->model_capacity ||
        (m->models[event->index] == NULL) != (event->change == TT_CHANGE_ADDED)) {
        impossible(self, event, "a model came that was there, or went that was not");
        return;
    }
    switch (event->change) {
    case TT_CHANGE_ADDED: add_model(self, event); break;
    case TT_CHANGE_DRAINING: tt_mechanism_drain_model(m, event->now, event->index); break;
    case TT_CHANGE_GONE:
        if (m->model_requests[event->index] > 0)
            impossible(self, event, "a model went that still had requests");
        else
            tt_mechanism_remove_model(m, event->now, event->index);
        break;
    case TT_CHANGE_MOVED:         /* of executors only */
    case TT_CHANGE_BELIEF: break; /* is not recorded: it follows from the tasks */
    }
}

static void change_executor(struct replaying *self, const struct tt_recorded_event *event) {
    struct tt_mechanism *m = &self->mechanism;
    struct tt_replay *replay = self->replay;
    if (event->index >= m->executor_capacity) {
        impossible(self, event, "there is no such executor");
        return;
    }
    const struct tt_executor *executor = &m->executors[event->index];
    bool adds = event->change == TT_CHANGE_ADDED, drains = event->change == TT_CHANGE_DRAINING;
    bool moves = event->change == TT_CHANGE_MOVED;
    if (adds != (executor->state == TT_EXECUTOR_GONE) ||
        (drains && executor->state != TT_EXECUTOR_UP) ||
        (event->change == TT_CHANGE_GONE && executor->queued > 0)) {
        impossible(self, event, "an executor cannot change so");
        return;
    }
    if (adds && event->index >= replay->executors) {
        for (int32_t e = replay->executors; e <= event->index; e++)
            replay->appeared_at[e] = replay->arrival_count ? event->now - replay->base_at : 0;
        replay->executors = event->index + 1;
    }
    if (adds)
        tt_mechanism_add_executor(m, event->now, event->index, event->device);
    else if (drains)
        tt_mechanism_drain_executor(m, event->now, event->index);
    else if (moves)
        tt_mechanism_move_executor(m, event->now, event->index, event->device);
    else
        tt_mechanism_remove_executor(m, event->now, event->index);
}

static void decide(struct replaying *self, int64_t serial, size_t offset, int64_t now) {
    self->decide_serial = serial;
    self->decide_offset = offset;
    tt_mechanism_decide(&self->mechanism, now);
    follow_threads(self);
    const struct tt_recorded_event *event = self->over ? NULL : look(self);
    if (self->over || !event || !is_answer(event))
        return;
    struct tt_text made;
    tt_text_init(&made);
    tt_text_puts(&made, "nothing more");
    differ(self, event, &made);
    tt_text_fini(&made);
}

static void replay_event(struct replaying *self) {
    const struct tt_recorded_event *event = self->next;
    if (event->now < self->mechanism.now || is_answer(event)) {
        impossible(self, event, "an answer to nothing");
        return;
    }
    enum tt_record_kind event_kind = event->kind;
    self->next = NULL; /* valid until the next one is read */
    self->replay->events++;
    self->replay->last_at = event->now;
    switch (event_kind) {
    case TT_RECORD_ARRIVED:
    case TT_RECORD_REFUSED: arrive(self, event); break;
    case TT_RECORD_READY:
    case TT_RECORD_CANCELLED: pass_on(self, event); break;
    case TT_RECORD_RECEIVED: receive(self, event); break;
    case TT_RECORD_FINISHED: finish(self, event); break;
    case TT_RECORD_MODEL: change_model(self, event); break;
    case TT_RECORD_EXECUTOR: change_executor(self, event); break;
    case TT_RECORD_DECIDE: decide(self, event->serial, event->offset, event->now); break;
    case TT_RECORD_DOMAIN:
    case TT_RECORD_RUN:
    case TT_RECORD_DROP:
    case TT_RECORD_YIELD:
    case TT_RECORD_ABORT:
    case TT_RECORD_GAP:
    case TT_RECORD_THREAD:
    case TT_RECORD_TURN:
    case TT_RECORD_ARRIVED_CELLS:
    case TT_RECORD_REFUSED_CELLS:
    case TT_RECORD_RUN_CELLS:
    default: break;
    }
    follow_threads(self);
    if (self->check && !self->over && event_kind == TT_RECORD_DECIDE)
        tt_mechanism_check(&self->mechanism);
}

/* ---- the whole ---- */

/* Counts the models and the events of the domain in a pass of its own. */
static enum tt_err count_ahead(const struct tt_recording *recording, int32_t domain,
                               int32_t *out_models, int64_t *out_events, struct tt_error *why) {
    struct tt_recording_cursor cursor;
    enum tt_err err = tt_recording_cursor_init(&cursor, recording,
                                               tt_recording_domain_stream(recording, domain), why);
    const struct tt_recorded_event *event = NULL;
    *out_models = 0;
    *out_events = 0;
    while (!err && !(err = tt_recording_next(&cursor, &event, why)) && event) {
        ++*out_events;
        *out_models += event->kind == TT_RECORD_MODEL && event->change == TT_CHANGE_ADDED;
    }
    tt_recording_cursor_fini(&cursor);
    return err;
}

static enum tt_err make_domain(struct replaying *self, struct tt_error *why) {
    struct tt_replay *replay = self->replay;
    struct tt_record_domain *domain = replay->domain;
    struct tt_carrier carrier = {.context = self,
                                 .start = on_start,
                                 .yield = on_yield,
                                 .abort = on_abort,
                                 .ended = on_ended,
                                 .gone = on_gone};
    enum tt_err err = tt_mechanism_init(&self->mechanism, &domain->limits, &carrier, why);
    if (err)
        return err;
    struct tt_policy_setup setup = tt_record_domain_setup(domain, &self->mechanism);
    if (domain->scheduler_threads == 0)
        return tt_policy_create(&self->mechanism, domain->policy, &setup, why);
    return tt_replay_threads_new(self->recording,
                                 tt_recording_domain_stream(self->recording, replay->stream),
                                 domain, &self->mechanism, &self->threads, why);
}

static enum tt_err prepare(struct replaying *self, int64_t *out_events, struct tt_error *why) {
    struct tt_replay *replay = self->replay;
    int32_t models;
    enum tt_err err = count_ahead(self->recording, replay->stream, &models, out_events, why);
    if (!err)
        err = tt_recording_cursor_init(&self->cursor, self->recording,
                                       tt_recording_domain_stream(self->recording, replay->stream),
                                       why);
    if (err)
        return err;
    const struct tt_recorded_event *event;
    err = tt_recording_next(&self->cursor, &event, why);
    if (err)
        return err;
    if (!event)
        return tt_fail(TT_ERR_INVALID, why, "%s: domain %d has no events", self->recording->name,
                       replay->stream);
    replay->events++;
    err = tt_record_domain_read(event->message, event->message_bytes, &replay->domain, why);
    if (err)
        return tt_fail_in(err, why, "%s: offset %zu", self->recording->name, event->offset);
    const struct tt_mechanism_options *limits = &replay->domain->limits;
    size_t executors = (size_t)limits->executor_capacity;
    struct tt_sim_device *devices = tt_allocate(executors, sizeof(*devices));
    replay->models = tt_allocate((size_t)models + 1, sizeof(struct tt_record_model *));
    replay->appeared_at = tt_allocate(executors, sizeof(*replay->appeared_at));
    self->model_of = tt_allocate((size_t)limits->model_capacity, sizeof(*self->model_of));
    for (size_t e = 0; e < executors; e++)
        devices[e].executors = 1;
    tt_measure_init(&replay->measure, models > 0 ? models : 1, devices, (int32_t)executors);
    free(devices);
    err = make_domain(self, why);
    return err ? tt_fail_in(err, why, "%s: domain %d", self->recording->name, replay->stream) : err;
}

static void replaying_fini(struct replaying *self) {
    /* Requests in the mechanism may be incomplete: it is freed without a check. */
    tt_policy_destroy(&self->mechanism);
    tt_replay_threads_free(self->threads);
    tt_mechanism_fini(&self->mechanism);
    tt_recording_cursor_fini(&self->cursor);
    tt_replay_requests_fini(&self->live);
    free(self->model_of);
}

enum tt_err tt_replay_run(const struct tt_recording *recording, int32_t stream, bool check,
                          const volatile sig_atomic_t *stop, struct tt_replay *out_replay,
                          struct tt_error *why) {
    return tt_replay_run_observed(recording, stream, check, NULL, stop, out_replay, why);
}

enum tt_err tt_replay_run_observed(const struct tt_recording *recording, int32_t stream, bool check,
                                   const struct tt_sim_observer *also,
                                   const volatile sig_atomic_t *stop, struct tt_replay *out_replay,
                                   struct tt_error *why) {
    struct tt_replay replay = {.path = recording->name, .stream = stream, .also = also};
    struct replaying self = {.replay = &replay, .recording = recording, .check = check, .why = why};
    int64_t all_events = 0;
    enum tt_err err = prepare(&self, &all_events, why);
    for (int64_t i = 1; !err && !self.over && look(&self) && !self.over; i++) {
        replay_event(&self);
        if (i % EVENTS_PER_STOP_CHECK == 0 && stop && *stop) {
            replay.interrupted = true;
            break;
        }
    }
    if (!err && !self.over && self.ended && self.threads) {
        tt_replay_threads_finish(self.threads);
        follow_threads(&self);
    }
    err = err ? err : self.err;
    replay.cut |= self.ended && !recording->complete;
    replay.turns = self.threads ? tt_replay_threads_state(self.threads)->turns : 0;
    replay.events += replay.turns;
    for (int64_t i = 0; i < replay.arrival_count; i++)
        replay.arrivals[i].output_length = tt_replay_cells_output(&replay.cells, i);
    replay.unknown_ends = tt_replay_cells_unknown(&replay.cells);
    if (replay.executors > 0) /* by the capacity */
        replay.measure.executor_count = replay.measure.device_count = replay.executors;
    bool own_gap = self.next && self.next->kind == TT_RECORD_GAP; /* of no thread */
    if (replay.lost > 0)
        replay.left_out = all_events - (replay.events - replay.turns) - own_gap;
    replaying_fini(&self);
    if (err) {
        tt_replay_fini(&replay);
        return err;
    }
    replay.also = NULL;
    *out_replay = replay;
    return TT_OK;
}

void tt_replay_fini(struct tt_replay *self) {
    for (int32_t m = 0; m < self->model_count; m++)
        tt_record_model_free(self->models[m]);
    tt_record_domain_free(self->domain);
    tt_measure_fini(&self->measure);
    free(self->models);
    free(self->appeared_at);
    free(self->arrivals);
    tt_replay_cells_fini(&self->cells);
    *self = (struct tt_replay){0};
}
