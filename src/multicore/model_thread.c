#include "multicore/model_thread.h"

#include "base/instant.h"

#include <stdlib.h>

_Static_assert(sizeof(struct tt_deferred_candidate) <= TT_LATEST_BYTES, "fits a register");
_Static_assert(sizeof(struct tt_deferred_load) <= TT_LATEST_BYTES, "fits a register");
_Static_assert(sizeof(struct tt_deferred_fleet) <= TT_LATEST_BYTES, "fits a register");

enum { LOOK_REQUESTS = 4096 };

/* ---- init ---- */

/* As many as executors hold at once: the end of a batch is reported before its executor is granted
 * again. */
static enum tt_err make_batches(struct tt_model_thread *self,
                                const struct tt_model_thread_options *options) {
    int32_t most = options->max_batch > 1 ? options->max_batch : 1;
    tt_deferred_model_executors(&self->half, options->executor_count);
    for (int32_t m = options->index; options->models && m < options->model_count;
         m += options->thread_count)
        most = options->models[m].max_batch > most ? options->models[m].max_batch : most;
    size_t bytes =
        sizeof(struct tt_multicore_batch) + (size_t)most * sizeof(struct tt_device_request);
    int32_t batches = options->executor_count * options->depth;
    self->batch_memory = calloc((size_t)batches, bytes);
    if (!self->batch_memory)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = batches - 1; i >= 0; i--) {
        struct tt_multicore_batch *batch =
            (void *)((unsigned char *)self->batch_memory + (size_t)i * bytes);
        batch->head.last_step = TT_DEVICE_ALL_STEPS;
        batch->head.requests = batch->requests;
        batch->next = self->free_batches;
        self->free_batches = batch;
    }
    return TT_OK;
}

static enum tt_err make_rings(struct tt_model_thread *self,
                              const struct tt_model_thread_options *options) {
    for (; self->port_count < options->port_count; self->port_count++)
        if (tt_record_ring_init(&self->inbox[self->port_count], options->ring_capacity,
                                sizeof(struct tt_device_request)))
            return TT_ERR_NO_MEMORY;
    /* Neither ring ever fills: a model has a limited number of unanswered grants, no more than
     * there are executors, and an executor has at most `depth` batches. */
    int32_t events = self->grant_limit + options->executor_count * options->depth;
    if (tt_record_ring_init(&self->events, events, sizeof(struct tt_multicore_event)) ||
        tt_record_ring_init(&self->answers, self->grant_limit,
                            sizeof(struct tt_multicore_answer)) ||
        tt_record_ring_init(&self->removed, 1, sizeof(int64_t)) ||
        tt_dirty_set_init(&self->candidates_changed, options->model_count) ||
        tt_dirty_set_init(&self->loads_changed, options->model_count))
        return TT_ERR_NO_MEMORY;
    return TT_OK;
}

enum tt_err tt_model_thread_init(struct tt_model_thread *self,
                                 const struct tt_model_thread_options *options) {
    tt_assert(options->model_count >= 1 && options->model_count <= TT_MULTICORE_MAX_MODELS);
    size_t models = (size_t)options->model_count;
    *self = (struct tt_model_thread){.index = options->index,
                                     .thread_count = options->thread_count,
                                     .model_count = options->model_count,
                                     .client = options->client,
                                     .registers = options->registers,
                                     .rank_eventcount = options->rank_eventcount,
                                     .rest_ns = options->rest_ns,
                                     .ticket_limit = options->request_limit,
                                     .written_low = INT32_MAX,
                                     .written_high = -1,
                                     .written_due_at = TT_NEVER,
                                     .now = INT64_MIN};
    tt_eventcount_init(&self->eventcount);
    tt_histogram_init(&self->stats.batch_rows);
    tt_histogram_init(&self->stats.queued);
    tt_histogram_init(&self->stats.intake_ns);
    int64_t grants =
        ((int64_t)models + options->thread_count - 1) / options->thread_count * TT_MULTICORE_GRANTS;
    self->grant_limit = (int32_t)tt_instant_min(grants, options->executor_count);
    enum tt_err err = tt_deferred_model_init(&self->half, options->model_count, options->policy);
    self->inbox = aligned_alloc(64, sizeof(*self->inbox) * (size_t)options->port_count);
    self->tickets = aligned_alloc(64, sizeof(*self->tickets) * (size_t)options->request_limit);
    self->grants = calloc((size_t)self->grant_limit, sizeof(*self->grants));
    self->planned_at = calloc((size_t)self->grant_limit, sizeof(*self->planned_at));
    self->changed = calloc(models, sizeof(*self->changed));
    self->is_changed = calloc(models, sizeof(*self->is_changed));
    self->written = calloc((models + 63) / 64, sizeof(*self->written));
    if (err || !self->inbox || !self->tickets || !self->grants || !self->planned_at ||
        !self->changed || !self->is_changed || !self->written || make_rings(self, options) ||
        make_batches(self, options)) {
        tt_model_thread_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    tt_deferred_model_executors(&self->half, options->executor_count);
    for (int32_t m = options->index; options->models && m < options->model_count;
         m += options->thread_count)
        tt_deferred_model_add(&self->half, m, &options->models[m]);
    return TT_OK;
}

void tt_model_thread_fini(struct tt_model_thread *self) {
    for (int32_t i = 0; i < self->port_count; i++)
        tt_record_ring_fini(&self->inbox[i]);
    tt_record_ring_fini(&self->events);
    tt_record_ring_fini(&self->answers);
    tt_record_ring_fini(&self->removed);
    tt_dirty_set_fini(&self->candidates_changed);
    tt_dirty_set_fini(&self->loads_changed);
    tt_histogram_fini(&self->stats.batch_rows);
    tt_histogram_fini(&self->stats.queued);
    tt_histogram_fini(&self->stats.intake_ns);
    tt_deferred_model_fini(&self->half);
    free(self->inbox);
    free(self->tickets);
    free(self->grants);
    free(self->planned_at);
    free(self->changed);
    free(self->is_changed);
    free(self->written);
    free(self->batch_memory);
    *self = (struct tt_model_thread){0};
}

/* ---- tickets ---- */

static struct tt_ticket *ticket_take(struct tt_model_thread *self) {
    struct tt_list_node *node = self->free_tickets;
    if (node) { /* the one freed last: it is most likely cached */
        self->free_tickets = node->next;
        tt_deferred_fetch_ahead(tt_ticket_at(node));
        return tt_ticket_at(node);
    }
    if (self->ticket_fresh == self->ticket_limit)
        return NULL;
    return &self->tickets[self->ticket_fresh++];
}

static void ticket_give(struct tt_model_thread *self, struct tt_ticket *ticket) {
    ticket->link.next = self->free_tickets;
    self->free_tickets = &ticket->link;
}

static struct tt_device_request request_of(const struct tt_ticket *ticket) {
    return (struct tt_device_request){.arrived_at = ticket->arrived_at,
                                      .deadline_at = ticket->deadline_at,
                                      .id = (uint64_t)ticket->policy_word,
                                      .model = (uint16_t)ticket->model,
                                      .rows = (uint16_t)ticket->rows,
                                      .length = ticket->length};
}

static void mark(struct tt_model_thread *self, int32_t model) {
    if (self->is_changed[model])
        return;
    self->is_changed[model] = true;
    self->changed[self->changed_count++] = model;
}

/* Removes a cancelled request from its queue if it is (still) there. A running one ends by itself.
 */
static void cancel(struct tt_model_thread *self, const struct tt_device_request *request) {
    struct tt_list *tickets = &self->half.queues[request->model].tickets;
    struct tt_list_node *node = tt_list_first(tickets);
    while (node && (uint64_t)tt_ticket_at(node)->policy_word != request->id)
        node = tt_list_next(tickets, node);
    if (!node)
        return;
    struct tt_ticket *ticket = tt_ticket_at(node);
    struct tt_device_request cancelled = request_of(ticket);
    tt_deferred_model_cancelled(&self->half, ticket);
    ticket_give(self, ticket);
    self->queued--;
    mark(self, request->model);
    self->client.dropped(self->client.context, self->index, self->now, &cancelled, TT_DROP_NONE);
}

/* Queues the request; drops it if there is no room. Inlined: it runs once per request. */
static inline __attribute__((always_inline)) void
enqueue(struct tt_model_thread *self, const struct tt_device_request *request, bool comes_back) {
    struct tt_ticket *ticket = ticket_take(self);
    if (!ticket) {
        self->client.dropped(self->client.context, self->index, self->now, request,
                             TT_DROP_QUEUE_FULL);
        return;
    }
    tt_assert(request->rows >= 1);
    *ticket = (struct tt_ticket){.policy_word = (int64_t)request->id,
                                 .number = self->number++,
                                 .arrived_at = request->arrived_at,
                                 .deadline_at = request->deadline_at,
                                 .model = request->model,
                                 .rows = request->rows,
                                 .length = request->length};
    if (comes_back)
        tt_deferred_model_returned(&self->half, ticket);
    else
        tt_deferred_model_arrived(&self->half, ticket);
    self->queued++;
    mark(self, request->model);
}

/* ---- input ---- */

bool tt_model_thread_look(struct tt_model_thread *self, bool urgent_only) {
    bool something = tt_record_ring_look(&self->events) || self->grant_count > 0;
    if (urgent_only)
        return something;
    self->intake_room = LOOK_REQUESTS;
    self->took_requests = false;
    for (int32_t i = 0; i < self->port_count; i++)
        something = tt_record_ring_look(&self->inbox[i]) || something;
    return something;
}

/* False: the model of the batch was removed meanwhile, and another one may have its number. */
static bool is_wanted(const struct tt_model_thread *self, const struct tt_multicore_batch *batch) {
    const struct tt_deferred_queue *q = &self->half.queues[batch->head.model];
    return q->model && (int32_t)(batch->generation - q->first_generation) >= 0;
}

/* Queues the requests of a lost batch again. */
static __attribute__((cold)) void take_back(struct tt_model_thread *self,
                                            const struct tt_multicore_batch *batch) {
    for (int32_t i = 0; is_wanted(self, batch) && i < batch->head.count; i++)
        enqueue(self, &batch->requests[i], true);
}

static void batch_ended(struct tt_model_thread *self, struct tt_multicore_batch *batch) {
    if (batch->head.outcome == TT_OUTCOME_LOST)
        take_back(self, batch);
    else
        self->client.ended(self->client.context, self->index, self->now, batch);
    batch->next = self->free_batches;
    self->free_batches = batch;
}

static bool take_events(struct tt_model_thread *self) {
    bool any = false;
    int32_t count;
    tt_turn_log_take(self->turn_log, &self->events, INT32_MAX, TT_PARTY_RANK);
    const struct tt_multicore_event *events;
    while (events = tt_record_ring_peek(&self->events, &count), count > 0) {
        for (int32_t i = 0; i < count; i++) {
            if (events[i].kind == TT_MULTICORE_ENDED) {
                batch_ended(self, events[i].batch);
                continue;
            }
            tt_assert(self->grant_count < self->grant_limit);
            self->grants[self->grant_count] = events[i].grant;
            self->planned_at[self->grant_count++] = events[i].planned_at;
        }
        tt_record_ring_take(&self->events, count);
        any = true;
    }
    return any;
}

static void publish_load(struct tt_model_thread *self, int32_t model,
                         const struct tt_deferred_load *load) {
    tt_turn_log_write(self->turn_log, self->model_count + model, &self->registers->loads[model],
                      load, sizeof(*load));
    tt_dirty_set_add_one(&self->loads_changed, model);
}

static void remove_model(struct tt_model_thread *self, int32_t model) {
    struct tt_deferred_queue *q = &self->half.queues[model];
    struct tt_list_node *node;
    while ((node = tt_list_first(&q->tickets))) { /* only requests that have left */
        tt_deferred_model_cancelled(&self->half, tt_ticket_at(node));
        ticket_give(self, tt_ticket_at(node));
        self->queued--;
    }
    tt_deferred_model_remove(&self->half, model);
    mark(self, model); /* its empty candidate replaces the last one */
    struct tt_deferred_load none = {.model = model};
    publish_load(self, model, &none);
    int64_t gone = model;
    bool pushed = tt_record_ring_push(&self->removed, &gone);
    tt_assert(pushed); /* the removing thread waits for it */
}

static void run_command(struct tt_model_thread *self, const struct tt_device_request *command) {
    switch ((enum tt_multicore_command)command->length) {
    case TT_MULTICORE_CANCEL: cancel(self, command); break;
    case TT_MULTICORE_ADD:
        tt_deferred_model_add(&self->half, command->model,
                              (const struct tt_step_model *)(uintptr_t)command->id);
        break;
    case TT_MULTICORE_REMOVE: remove_model(self, command->model); break;
    }
}

static bool take_requests(struct tt_model_thread *self) {
    int32_t room = self->intake_room;
    int64_t oldest_at = self->now;
    for (int32_t port = 0; port < self->port_count; port++) {
        int32_t count;
        const struct tt_device_request *requests;
        tt_turn_log_take(self->turn_log, &self->inbox[port], room, TT_PARTY_DOMAIN);
        while (room > 0 &&
               (requests = tt_record_ring_peek(&self->inbox[port], &count), count > 0)) {
            count = count < room ? count : room;
            oldest_at = tt_instant_min(oldest_at, requests[0].arrived_at);
            for (int32_t i = 0; i < count; i++) {
                __builtin_prefetch(&requests[i + TT_MODEL_THREAD_AHEAD]);
                tt_assert(requests[i].model < self->model_count);
                if (__builtin_expect(requests[i].rows == TT_MULTICORE_COMMAND, 0))
                    run_command(self, &requests[i]);
                else
                    enqueue(self, &requests[i], false);
            }
            tt_record_ring_take(&self->inbox[port], count);
            room -= count;
        }
    }
    int32_t taken = self->intake_room - room;
    if (taken == 0)
        return false;
    self->intake_room = room;
    self->took_requests = true;
    if (self->now >= self->measure_from_at) {
        self->stats.taken_in += taken;
        tt_histogram_add(&self->stats.queued, self->queued);
        tt_histogram_add(&self->stats.intake_ns, self->now - oldest_at);
    }
    return true;
}

/* ---- output ---- */

static void publish(struct tt_model_thread *self, int32_t model) {
    struct tt_deferred_candidate candidate;
    tt_deferred_model_form(&self->half, model, self->now, &candidate);
    tt_turn_log_write(self->turn_log, model, &self->registers->candidates[model], &candidate,
                      sizeof(candidate));
    tt_turn_log_made(self->turn_log, candidate.size);
    tt_turn_log_made(self->turn_log, candidate.exec_at);
    tt_turn_log_made(self->turn_log, candidate.key);
    int32_t word = model / 64;
    self->written[word] |= UINT64_C(1) << (model % 64);
    self->written_low = word < self->written_low ? word : self->written_low;
    self->written_high = word > self->written_high ? word : self->written_high;
    if (candidate.size > 0)
        self->written_due_at =
            tt_instant_min(self->written_due_at, candidate.exec_at - candidate.lead_ns);
}

/* S6: publishes the set of changed candidates to the rank thread. Only the newest of each counts,
 * so nothing accumulates however slow it is. Wakes it only if it would look too late by itself. A
 * candidate that shrank, or is empty, needs no wake-up. */
static void notify_rank(struct tt_model_thread *self) {
    for (int32_t word = self->written_low; word <= self->written_high; word++) {
        if (self->written[word])
            tt_dirty_set_add(&self->candidates_changed, word, self->written[word]);
        self->written[word] = 0;
    }
    self->written_low = INT32_MAX;
    self->written_high = -1;
    if (self->written_due_at != TT_NEVER)
        tt_eventcount_notify_by(self->rank_eventcount,
                                tt_instant_add(self->written_due_at, self->rest_ns));
    self->written_due_at = TT_NEVER;
}

/* Reports to the client that a request is dropped. */
static void drop(struct tt_model_thread *self, const struct tt_device_request *request,
                 enum tt_drop_reason reason) {
    tt_turn_log_made(self->turn_log, request->arrived_at);
    tt_turn_log_made(self->turn_log, reason);
    self->client.dropped(self->client.context, self->index, self->now, request, reason);
}

static void report_dropped(struct tt_model_thread *self) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->half.dropped))) {
        struct tt_ticket *ticket = tt_ticket_at(node);
        struct tt_device_request request = request_of(ticket);
        tt_list_remove(node);
        self->queued--;
        drop(self, &request, (enum tt_drop_reason)ticket->drop_reason);
        ticket_give(self, ticket);
    }
}

/* Moves the first requests of the queue to the batch; returns their longest length. Their tickets
 * are freed in the same order, so that `ahead` of each is one that is taken soon after it. */
static int32_t fill_requests(struct tt_model_thread *self, struct tt_deferred_queue *queue,
                             int32_t count, struct tt_device_request *out_requests) {
    struct tt_list_node *first = queue->tickets.head.next, *last = first;
    int32_t length = 0;
    for (int32_t i = 0;; i++, last = last->next) {
        const struct tt_ticket *ticket = tt_ticket_at(last);
        tt_deferred_fetch_ahead(ticket);
        tt_turn_log_made(self->turn_log, ticket->number);
        out_requests[i] = request_of(ticket);
        length = ticket->length > length ? ticket->length : length;
        if (i == count - 1)
            break;
    }
    struct tt_list taken;
    tt_list_init(&taken);
    tt_list_move_front(&queue->tickets, last, &taken);
    last->next = self->free_tickets;
    self->free_tickets = first;
    self->queued -= count;
    return length;
}

static struct tt_multicore_batch *fill_batch(struct tt_model_thread *self,
                                             const struct tt_deferred_batch *taken,
                                             const struct tt_deferred_dispatched *dispatched,
                                             int32_t model, int64_t planned_at) {
    struct tt_deferred_queue *queue = &self->half.queues[model];
    struct tt_multicore_batch *batch = self->free_batches;
    tt_assert(batch != NULL);
    self->free_batches = batch->next;
    batch->thread = self->index;
    batch->head.model = model;
    batch->generation = queue->generation;
    batch->head.executor = dispatched->executor;
    batch->planned_at = planned_at;
    batch->head.start_at = dispatched->start_at;
    batch->free_at = dispatched->free_at;
    batch->head.outcome = TT_OUTCOME_DONE;
    batch->head.count = taken->count;
    batch->head.rows = taken->rows;
    batch->head.length = fill_requests(self, queue, taken->count, batch->requests);
    if (self->now >= self->measure_from_at) {
        self->stats.batches++;
        self->stats.rows += batch->head.rows;
        tt_histogram_add(&self->stats.batch_rows, batch->head.rows);
    }
    return batch;
}

static void answer(struct tt_model_thread *self, const struct tt_deferred_grant *grant,
                   int64_t planned_at) {
    struct tt_deferred_batch taken;
    struct tt_multicore_answer out = {.model = grant->model,
                                      .generation = self->half.queues[grant->model].generation};
    tt_deferred_model_granted(&self->half, self->now, grant, &taken, &out.dispatched);
    report_dropped(self);
    if (out.dispatched.taken)
        out.batch = fill_batch(self, &taken, &out.dispatched, grant->model, planned_at);
    else
        self->stats.refused++;
    bool pushed = tt_record_ring_push(&self->answers, &out);
    tt_assert(pushed);
    self->written_due_at = tt_instant_min(self->written_due_at, self->now);
    publish(self, grant->model);
    report_dropped(self);
}

/* ---- a turn ---- */

/* True if an interval of 100 ms began: the loads were reported. */
static bool measure(struct tt_model_thread *self) {
    int64_t elapsed_ns;
    if (!tt_deferred_model_tick(&self->half, self->now, &elapsed_ns))
        return false;
    for (int32_t m = self->index; m < self->model_count; m += self->thread_count) {
        struct tt_deferred_load load;
        if (!self->half.queues[m].model)
            continue; /* its last load was empty */
        tt_deferred_model_measure(&self->half, m, elapsed_ns, &load);
        publish_load(self, m, &load);
    }
    tt_eventcount_notify_by(self->rank_eventcount, self->now + self->rest_ns);
    return true;
}

/* Reads the fleet's register. False: it has not changed. */
static bool read_fleet(struct tt_model_thread *self, struct tt_deferred_fleet *out_fleet,
                       uint64_t *out_version) {
    *out_version = tt_latest_version(&self->registers->fleet);
    return tt_turn_log_number(self->turn_log, *out_version != self->fleet_version, 1) &&
           tt_turn_log_read(self->turn_log, 2 * self->model_count, &self->registers->fleet,
                            TT_PARTY_RANK, out_fleet, sizeof(*out_fleet));
}

/* S4: the timers count with the longest delay of the executors. */
static void believe_delay(struct tt_model_thread *self, struct tt_network_delay delay) {
    struct tt_network_delay known = self->half.options.delay;
    if (delay.control_ns == known.control_ns && delay.data_ns == known.data_ns)
        return;
    tt_deferred_model_delay(&self->half, delay);
    for (int32_t m = self->index; m < self->model_count; m += self->thread_count)
        if (self->half.queues[m].model)
            mark(self, m);
}

static bool turn(struct tt_model_thread *self) {
    int64_t now = self->now;
    struct tt_deferred_fleet fleet;
    uint64_t version;
    bool fleet_changed = read_fleet(self, &fleet, &version);
    bool worked = take_events(self);
    worked = take_requests(self) || worked;
    if (measure(self))
        return true;
    if (fleet_changed) {
        self->fleet_version = version;
        if (fleet.number != self->fleet_number)
            tt_deferred_model_fleet(&self->half, &fleet);
        self->fleet_number = fleet.number;
        believe_delay(self, fleet.delay);
    }
    worked = worked || self->changed_count > 0 || self->grant_count > 0;
    for (int32_t i = 0; i < self->changed_count; i++) {
        self->is_changed[self->changed[i]] = false;
        publish(self, self->changed[i]);
    }
    self->changed_count = 0;
    int32_t due;
    while ((due = tt_deferred_model_due(&self->half, now)) >= 0) {
        publish(self, due);
        worked = true;
    }
    report_dropped(self);
    for (int32_t i = 0; i < self->grant_count; i++)
        answer(self, &self->grants[i], self->planned_at[i]);
    self->grant_count = 0;
    notify_rank(self);
    return worked;
}

bool tt_model_thread_turn(struct tt_model_thread *self, int64_t now) {
    self->now = tt_instant_max(self->now, now); /* a clock that goes back stands still */
    self->stats.turns++;
    if (tt_turn_log_plays(self->turn_log))
        self->intake_room = LOOK_REQUESTS;
    tt_turn_log_begin(self->turn_log);
    bool worked = turn(self);
    tt_turn_log_end(self->turn_log, self->now);
    return worked;
}

int64_t tt_model_thread_next_at(const struct tt_model_thread *self) {
    if (self->changed_count > 0 || self->grant_count > 0)
        return self->now;
    return tt_deferred_model_next_at(&self->half);
}

void tt_model_thread_check(const struct tt_model_thread *self) {
    if (self->changed_count == 0) /* else candidates that are not formed yet have no timer */
        tt_deferred_model_check(&self->half);
    int32_t queued = 0;
    for (int32_t m = 0; m < self->model_count; m++)
        queued += self->half.queues[m].count;
    tt_assert(queued == self->queued);
    int32_t unused = self->ticket_limit - self->ticket_fresh;
    for (const struct tt_list_node *node = self->free_tickets; node; node = node->next)
        unused++;
    tt_assert(unused + queued == self->ticket_limit);
}
