#include "multicore/rank_thread.h"

#include "base/instant.h"

#include <stdlib.h>

enum { CHANGES = 1024 };

enum tt_err tt_rank_thread_init(struct tt_rank_thread *self,
                                const struct tt_rank_thread_options *options) {
    size_t models = (size_t)options->model_count;
    *self = (struct tt_rank_thread){.devices = options->devices,
                                    .registers = options->registers,
                                    .model_threads = options->model_threads,
                                    .thread_count = options->thread_count,
                                    .one_grant = options->one_grant,
                                    .rest_ns = options->rest_ns,
                                    .depth = options->depth,
                                    .delay = options->delay,
                                    .fleet = {.delay = options->delay},
                                    .now = INT64_MIN};
    tt_eventcount_init(&self->eventcount);
    tt_histogram_init(&self->stats.late_ns);
    self->delays = calloc((size_t)options->executor_count, sizeof(*self->delays));
    for (int32_t e = 0; self->delays && e < options->executor_count; e++)
        self->delays[e] = options->delay;
    self->comes_up = calloc((size_t)options->executor_count, sizeof(*self->comes_up));
    self->generation = calloc(models, sizeof(*self->generation));
    self->granted = calloc(models, sizeof(*self->granted));
    self->unread = calloc(models, sizeof(*self->unread));
    self->ids = calloc((models + 63) / 64 * 64, sizeof(*self->ids));
    self->has_events = calloc((size_t)options->thread_count, sizeof(*self->has_events));
    if (self->delays && self->comes_up && self->generation && self->granted && self->unread &&
        self->ids && self->has_events &&
        !tt_deferred_rank_init(&self->half, options->model_count, options->executor_count,
                               options->ahead) &&
        !(options->lists_free_times && tt_deferred_rank_free_times_reserve(&self->half)) &&
        !tt_record_ring_init(&self->changes, CHANGES, sizeof(struct tt_multicore_change))) {
        self->half.grants_expired = options->grants_expired;
        return TT_OK;
    }
    tt_rank_thread_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_rank_thread_fini(struct tt_rank_thread *self) {
    tt_deferred_rank_fini(&self->half);
    tt_record_ring_fini(&self->changes);
    tt_histogram_fini(&self->stats.late_ns);
    free(self->delays);
    free(self->comes_up);
    free(self->generation);
    free(self->granted);
    free(self->unread);
    free(self->ids);
    free(self->has_events);
    *self = (struct tt_rank_thread){0};
}

static void send(struct tt_rank_thread *self, int32_t thread,
                 const struct tt_multicore_event *event) {
    bool added = tt_record_ring_add(&self->model_threads[thread]->events, event);
    tt_assert(added); /* see model_thread.c: the ring never fills */
    self->has_events[thread] = true;
}

/* ---- devices ---- */

/* S4: of the executors that are up; the given one if none is. */
static struct tt_network_delay longest_delay(const struct tt_rank_thread *self) {
    struct tt_network_delay longest = {-1, -1};
    for (int32_t e = 0; e < self->half.executor_count; e++)
        if (self->half.executors[e].up) {
            longest.control_ns = tt_instant_max(longest.control_ns, self->delays[e].control_ns);
            longest.data_ns = tt_instant_max(longest.data_ns, self->delays[e].data_ns);
        }
    return longest.control_ns < 0 ? self->delay : longest;
}

/* Adds an executor that was removed and is expected back, if nothing of it is outstanding. */
static void settle(struct tt_rank_thread *self, int32_t executor) {
    const struct tt_deferred_executor *e = &self->half.executors[executor];
    if (!self->comes_up[executor] || e->granted || e->queued > 0)
        return;
    self->comes_up[executor] = false;
    tt_deferred_rank_add(&self->half, self->now, executor, self->depth);
    self->executors_changed = true;
}

static bool take_changes(struct tt_rank_thread *self) {
    int32_t count;
    tt_turn_log_take(self->turn_log, &self->changes, INT32_MAX, TT_PARTY_DOMAIN);
    const struct tt_multicore_change *changes = tt_record_ring_peek(&self->changes, &count);
    for (int32_t i = 0; i < count; i++) {
        int32_t executor = changes[i].executor;
        tt_assert(executor >= 0 && executor < self->half.executor_count);
        if (changes[i].kind == TT_MULTICORE_DELAY) {
            self->delays[executor] = changes[i].delay;
            continue;
        }
        self->comes_up[executor] = false;
        if (changes[i].kind == TT_MULTICORE_REMOVED) {
            tt_deferred_rank_remove(&self->half, executor);
            self->devices.ops.lose(self->devices.self, self->now, executor);
        } else if (!self->half.executors[executor].up) {
            self->comes_up[executor] = true;
            settle(self, executor);
        }
    }
    tt_record_ring_take(&self->changes, count);
    self->executors_changed |= count > 0;
    return count > 0;
}

static struct tt_multicore_batch *next_ended(struct tt_rank_thread *self) {
    bool plays = tt_turn_log_plays(self->turn_log);
    if (plays && !tt_turn_log_number(self->turn_log, 0, 1))
        return NULL;
    struct tt_device_task *task = self->devices.ops.ended(self->devices.self, self->now);
    struct tt_multicore_batch *batch = task ? tt_multicore_batch_of(task) : NULL;
    if (plays)
        tt_turn_log_expect(self->turn_log, batch != NULL,
                           "it took the end of a batch that had not ended");
    else
        tt_turn_log_number(self->turn_log, batch != NULL, 1);
    return batch;
}

static bool take_ended(struct tt_rank_thread *self) {
    struct tt_multicore_batch *batch;
    bool any = false;
    while ((batch = next_ended(self))) {
        struct tt_multicore_event event = {.kind = TT_MULTICORE_ENDED, .batch = batch};
        int32_t executor = batch->head.executor;
        int64_t ended_at = tt_instant_min(batch->head.ended_at, self->now);
        send(self, batch->thread, &event); /* before its executor may be granted again */
        tt_deferred_rank_finished(&self->half, ended_at, executor);
        settle(self, executor);
        any = true;
    }
    return any;
}

/* ---- input from the model threads ---- */

/* The party that writes the registers of a model. */
static int32_t writer_of(const struct tt_rank_thread *self, int32_t model) {
    return TT_PARTY_MODELS + model % self->thread_count;
}

/* Takes the numbers in the set to `ids`; returns how many. With a turn log that plays: the recorded
 * numbers. */
static int32_t take_set(struct tt_rank_thread *self, struct tt_dirty_set *set) {
    int32_t models = self->half.model_count;
    int32_t found = tt_dirty_set_take(set, self->ids);
    if (!self->turn_log)
        return found;
    int32_t count = (int32_t)tt_turn_log_number(self->turn_log, found, models);
    for (int32_t i = 0; i < count; i++)
        self->ids[i] = (int32_t)tt_turn_log_number(self->turn_log, self->ids[i], models - 1);
    return count;
}

static void read_candidate(struct tt_rank_thread *self, int32_t model) {
    struct tt_deferred_candidate candidate;
    if (!tt_turn_log_read(self->turn_log, model, &self->registers->candidates[model],
                          writer_of(self, model), &candidate, sizeof(candidate)))
        return; /* it is being written: its number will come again */
    if ((int32_t)(candidate.generation - self->generation[model]) <= 0)
        return;
    tt_deferred_rank_candidate(&self->half, self->now, &candidate);
}

static void take_answer(struct tt_rank_thread *self, const struct tt_multicore_answer *answer) {
    int32_t executor = answer->dispatched.executor;
    tt_assert(self->granted[answer->model] > 0);
    self->granted[answer->model]--;
    self->generation[answer->model] = answer->generation;
    self->unanswered--;
    tt_deferred_rank_dispatched(&self->half, self->now, &answer->dispatched);
    if (answer->batch) {
        answer->batch->head.submitted_at = self->now;
        if (self->now >= self->measure_from_at)
            tt_histogram_add(&self->stats.late_ns,
                             tt_instant_max(0, self->now - answer->batch->planned_at));
        self->devices.ops.submit(self->devices.self, &answer->batch->head);
        if (!self->half.executors[executor].up)
            self->devices.ops.lose(self->devices.self, self->now, executor);
    }
    settle(self, executor);
    if (self->granted[answer->model] == 0 && self->unread[answer->model]) {
        self->unread[answer->model] = false;
        read_candidate(self, answer->model);
    }
}

static bool take_answers(struct tt_rank_thread *self) {
    bool any = false;
    for (int32_t t = 0; t < self->thread_count; t++) {
        struct tt_record_ring *ring = &self->model_threads[t]->answers;
        int32_t count;
        const struct tt_multicore_answer *answers;
        tt_turn_log_take(self->turn_log, ring, INT32_MAX, TT_PARTY_MODELS + t);
        while (answers = tt_record_ring_peek(ring, &count), count > 0) {
            for (int32_t i = 0; i < count; i++)
                take_answer(self, &answers[i]);
            tt_record_ring_take(ring, count);
            any = true;
        }
    }
    return any;
}

static bool take_candidates(struct tt_rank_thread *self) {
    bool any = false;
    for (int32_t t = 0; t < self->thread_count; t++) {
        int32_t count = take_set(self, &self->model_threads[t]->candidates_changed);
        for (int32_t i = 0; i < count; i++) {
            if (self->granted[self->ids[i]] > 0)
                self->unread[self->ids[i]] = true;
            else
                read_candidate(self, self->ids[i]);
        }
        any = any || count > 0;
    }
    return any;
}

/* False: neither loads nor delays have changed. */
static bool publish_fleet(struct tt_rank_thread *self, bool has_loads) {
    struct tt_network_delay before = self->fleet.delay;
    struct tt_network_delay delay = self->executors_changed ? longest_delay(self) : before;
    self->executors_changed = false;
    if (!has_loads && delay.control_ns == before.control_ns && delay.data_ns == before.data_ns)
        return false;
    uint32_t number = self->fleet.number;
    if (has_loads)
        tt_deferred_rank_fleet(&self->half, &self->fleet);
    self->fleet.number = number + has_loads;
    self->fleet.delay = delay;
    tt_turn_log_write(self->turn_log, 2 * self->half.model_count, &self->registers->fleet,
                      &self->fleet, sizeof(self->fleet));
    tt_turn_log_made(self->turn_log, self->fleet.psi_ppm);
    return true;
}

/* True if loads or delays had changed: the fleet's answer is in its register. */
static bool take_loads(struct tt_rank_thread *self) {
    int32_t models = self->half.model_count;
    bool any = false;
    for (int32_t t = 0; t < self->thread_count; t++) {
        int32_t count = take_set(self, &self->model_threads[t]->loads_changed);
        for (int32_t i = 0; i < count; i++) {
            struct tt_deferred_load load;
            int32_t model = self->ids[i];
            if (tt_turn_log_read(self->turn_log, models + model, &self->registers->loads[model],
                                 writer_of(self, model), &load, sizeof(load)))
                tt_deferred_rank_load(&self->half, &load);
        }
        any = any || count > 0;
    }
    return publish_fleet(self, any);
}

/* ---- granting ---- */

/* S6: O(log models + log executors) for each grant. */
static bool grant_all(struct tt_rank_thread *self) {
    bool any = false;
    struct tt_multicore_event event = {.kind = TT_MULTICORE_GRANT};
    struct tt_deferred_grant *grant = &event.grant;
    while (!(self->one_grant && self->unanswered > 0) &&
           !tt_deferred_rank_quiet(&self->half, self->now) &&
           tt_deferred_rank_next(&self->half, self->now, grant)) {
        struct tt_deferred_candidate candidate = self->half.candidates[grant->model];
        grant->delay = self->delays[grant->executor];
        event.planned_at = tt_instant_max(candidate.exec_at, grant->free_at);
        self->granted[grant->model]++;
        self->unanswered++;
        self->stats.grants++;
        tt_turn_log_made(self->turn_log, grant->model);
        tt_turn_log_made(self->turn_log, grant->executor);
        tt_turn_log_made(self->turn_log, grant->free_at);
        send(self, grant->model % self->thread_count, &event);
        any = true;
        candidate.left -= candidate.size;
        if (!self->one_grant && candidate.left >= candidate.size &&
            self->granted[grant->model] < TT_MULTICORE_GRANTS)
            tt_deferred_rank_candidate(&self->half, self->now, &candidate);
    }
    return any;
}

/* Publishes only at the end of the turn. If the beginning of a turn caused another thread's
 * message, and its end read that message, the turn could not be played alone
 * (multicore/turn_log.h). */
static void publish_events(struct tt_rank_thread *self) {
    if (self->devices.ops.flush)
        self->devices.ops.flush(self->devices.self);
    for (int32_t t = 0; t < self->thread_count; t++)
        if (self->has_events[t]) {
            self->has_events[t] = false;
            self->sent_events = true;
            tt_record_ring_publish(&self->model_threads[t]->events);
            tt_eventcount_notify_by(&self->model_threads[t]->eventcount, self->now + self->rest_ns);
        }
}

bool tt_rank_thread_look(struct tt_rank_thread *self) {
    bool something = tt_record_ring_look(&self->changes);
    if (self->devices.ops.pending)
        something = self->devices.ops.pending(self->devices.self) || something;
    for (int32_t t = 0; t < self->thread_count; t++) {
        struct tt_model_thread *thread = self->model_threads[t];
        something = tt_record_ring_look(&thread->answers) || something;
        something = something || !tt_dirty_set_empty(&thread->candidates_changed) ||
                    !tt_dirty_set_empty(&thread->loads_changed);
    }
    return something;
}

static bool turn(struct tt_rank_thread *self) {
    bool worked = take_changes(self);
    worked = take_ended(self) || worked;
    worked = take_answers(self) || worked;
    worked = take_candidates(self) || worked;
    /* Grant nothing when loads changed: models first form candidates with the new minimum. */
    self->sent_events = take_loads(self);
    worked = self->sent_events || worked;
    if (!self->sent_events)
        worked = grant_all(self) || worked;
    publish_events(self);
    return worked;
}

bool tt_rank_thread_turn(struct tt_rank_thread *self, int64_t now) {
    self->now = tt_instant_max(self->now, now);
    self->stats.turns++;
    tt_turn_log_begin(self->turn_log);
    bool worked = turn(self);
    tt_turn_log_end(self->turn_log, self->now);
    return worked;
}

void tt_rank_thread_pass_delays(struct tt_rank_thread *self, int64_t now) {
    tt_assert(self->turn_log == NULL);
    self->now = tt_instant_max(self->now, now);
    tt_record_ring_look(&self->changes);
    take_changes(self);
    publish_fleet(self, false);
}

int64_t tt_rank_thread_next_at(const struct tt_rank_thread *self) {
    int64_t at = self->devices.ops.next_at(self->devices.self);
    if (self->half.free.count > 0) /* no batch waits for that device */
        at = tt_instant_add(at, self->rest_ns);
    if (self->one_grant && self->unanswered > 0)
        return at;
    return tt_instant_min(at, tt_deferred_rank_next_at(&self->half));
}

void tt_rank_thread_check(const struct tt_rank_thread *self) {
    tt_deferred_rank_check(&self->half);
    int32_t models = 0, executors = 0;
    for (int32_t m = 0; m < self->half.model_count; m++) {
        tt_assert(self->granted[m] >= 0 && self->granted[m] <= TT_MULTICORE_GRANTS);
        models += self->granted[m];
    }
    for (int32_t i = 0; i < self->half.executor_count; i++)
        executors += self->half.executors[i].granted;
    tt_assert(models == self->unanswered && executors == self->unanswered);
}
