#include "multicore/multicore.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/time_slice.h"

#include <stdlib.h>
#include <string.h>

/* ---- init ---- */

static enum tt_err make_registers(struct tt_multicore_registers *self, int32_t models) {
    size_t bytes = sizeof(struct tt_latest) * (size_t)models;
    self->candidates = aligned_alloc(64, bytes);
    self->loads = aligned_alloc(64, bytes);
    if (!self->candidates || !self->loads)
        return TT_ERR_NO_MEMORY;
    memset((void *)self->candidates, 0, bytes);
    memset((void *)self->loads, 0, bytes);
    return TT_OK;
}

static enum tt_err make_threads(struct tt_multicore *self,
                                const struct tt_multicore_options *options) {
    struct tt_model_thread_options model = {
        .thread_count = self->thread_count,
        .model_count = options->model_count,
        .executor_count = options->executor_count,
        .depth = options->depth > 1 ? options->depth : 1,
        .port_count = options->port_count,
        .ring_capacity = options->ring_capacity,
        .request_limit = (options->request_limit + self->thread_count - 1) / self->thread_count,
        .policy = options->policy,
        .models = options->models,
        .max_batch = options->max_batch,
        .registers = &self->registers,
        .rank_eventcount = &self->rank_thread.eventcount,
        .client = options->client,
        .rest_ns = self->one_thread ? 0 : options->rest_ns};
    size_t threads = (size_t)self->thread_count;
    self->model_threads =
        aligned_alloc(64, (sizeof(*self->model_threads) + 63) / 64 * 64 * threads);
    self->model_thread_list = calloc(threads, sizeof(struct tt_model_thread *));
    self->threads = calloc(threads + 1, sizeof(*self->threads));
    if (!self->model_threads || !self->model_thread_list || !self->threads)
        return TT_ERR_NO_MEMORY;
    memset((void *)self->model_threads, 0, sizeof(*self->model_threads) * threads);
    for (int32_t t = 0; t < self->thread_count; t++) {
        model.index = t;
        self->model_thread_list[t] = &self->model_threads[t];
        enum tt_err err = tt_model_thread_init(&self->model_threads[t], &model);
        if (err)
            return err;
    }
    struct tt_rank_thread_options rank = {.model_count = options->model_count,
                                          .executor_count = options->executor_count,
                                          .depth = model.depth,
                                          .ahead = options->ahead,
                                          .delay = options->policy->delay,
                                          .devices = options->devices,
                                          .registers = &self->registers,
                                          .model_threads = self->model_thread_list,
                                          .thread_count = self->thread_count,
                                          .one_grant = self->one_thread,
                                          .grants_expired = !self->one_thread &&
                                                            options->policy->reform_at_latest,
                                          .lists_free_times = options->policy->lookahead,
                                          .rest_ns = self->one_thread ? 0 : options->rest_ns};
    return tt_rank_thread_init(&self->rank_thread, &rank);
}

enum tt_err tt_multicore_new(const struct tt_multicore_options *options,
                             struct tt_multicore **out_multicore, struct tt_error *why) {
    tt_assert(options->model_threads >= 0 && options->model_threads <= TT_MULTICORE_MAX_THREADS);
    tt_assert(options->port_count >= 1 && options->executor_count >= 1);
    struct tt_multicore *self = aligned_alloc(64, (sizeof(*self) + 63) / 64 * 64);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler");
    memset((void *)self, 0, sizeof(*self));
    self->one_thread = options->model_threads == 0;
    self->thread_count = self->one_thread ? 1 : options->model_threads;
    self->port_count = options->port_count;
    self->rest_ns = options->rest_ns;
    self->spin_ns = options->spin_ns;
    if (make_registers(&self->registers, options->model_count) || make_threads(self, options)) {
        tt_multicore_free(self);
        return tt_fail(TT_ERR_NO_MEMORY, why,
                       "out of memory for a scheduler of %d models, %d executors and %d requests",
                       options->model_count, options->executor_count, options->request_limit);
    }
    *out_multicore = self;
    return TT_OK;
}

void tt_multicore_free(struct tt_multicore *take_multicore) {
    if (!take_multicore)
        return;
    tt_assert(!take_multicore->started);
    for (int32_t t = 0; take_multicore->model_threads && t < take_multicore->thread_count; t++)
        tt_model_thread_fini(&take_multicore->model_threads[t]);
    tt_rank_thread_fini(&take_multicore->rank_thread);
    free((void *)take_multicore->registers.candidates);
    free((void *)take_multicore->registers.loads);
    free((void *)take_multicore->model_threads);
    free(take_multicore->model_thread_list);
    free(take_multicore->threads);
    free((void *)take_multicore);
}

/* ---- clients ---- */

static bool change(struct tt_multicore *self, struct tt_multicore_change given) {
    if (!tt_record_ring_push(&self->rank_thread.changes, &given))
        return false;
    self->has_changes |= !self->started;
    tt_multicore_wake_rank(self);
    return true;
}

bool tt_multicore_change(struct tt_multicore *self, int32_t executor, bool up) {
    return change(
        self, (struct tt_multicore_change){.executor = executor,
                                           .kind = up ? TT_MULTICORE_ADDED : TT_MULTICORE_REMOVED});
}

bool tt_multicore_delay(struct tt_multicore *self, int32_t executor,
                        struct tt_network_delay delay) {
    return change(self, (struct tt_multicore_change){
                            .executor = executor, .kind = TT_MULTICORE_DELAY, .delay = delay});
}

void tt_multicore_wake_rank(struct tt_multicore *self) {
    tt_eventcount_notify_by(self->one_thread ? &self->model_threads[0].eventcount
                                             : &self->rank_thread.eventcount,
                            TT_EVENTCOUNT_AT_ONCE);
}

/* The reserved records of one thread's ring that a submit fills. */
struct lane {
    struct tt_device_request *room;
    int32_t room_count, filled;
};

static bool lane_has_room(struct tt_multicore *self, struct lane *lane, int32_t thread,
                          int32_t port) {
    if (lane->filled < lane->room_count)
        return true;
    struct tt_record_ring *ring = &self->model_threads[thread].inbox[port];
    if (lane->filled > 0)
        tt_record_ring_commit(ring, lane->filled);
    lane->filled = 0;
    lane->room = tt_record_ring_room(ring, &lane->room_count);
    return lane->room_count > 0;
}

/* S6: requests enter as metadata, in batches. */
int32_t tt_multicore_submit(struct tt_multicore *self, int32_t port, int64_t now,
                            const struct tt_device_request *requests, int32_t count) {
    struct lane lanes[TT_MULTICORE_MAX_THREADS];
    int32_t threads = self->thread_count, done = 0;
    for (int32_t t = 0; t < threads; t++)
        lanes[t] = (struct lane){0};
    while (done < count) {
        int32_t t = threads == 1 ? 0 : requests[done].model % threads;
        struct lane *lane = &lanes[t];
        if (!lane_has_room(self, lane, t, port))
            break;
        int32_t left = count - done, room = lane->room_count - lane->filled;
        /* With one thread all go to the same place. */
        int32_t run = threads > 1 ? 1 : left < room ? left : room;
        memcpy(&lane->room[lane->filled], &requests[done], sizeof(*requests) * (size_t)run);
        lane->filled += run;
        done += run;
    }
    for (int32_t t = 0; t < threads; t++) {
        if (lanes[t].filled > 0)
            tt_record_ring_commit(&self->model_threads[t].inbox[port], lanes[t].filled);
        if (lanes[t].room)
            tt_eventcount_notify_by(&self->model_threads[t].eventcount, now + self->rest_ns);
    }
    return done;
}

/* Lets the model thread advance. False: it is played from a recording and cannot advance. */
static bool wait_for(struct tt_multicore *self, int64_t now, int32_t thread,
                     struct tt_eventcount *eventcount) {
    if (self->player)
        return self->player->demand(self->player, TT_PARTY_MODELS + thread);
    if (self->started)
        tt_eventcount_sleep(eventcount, tt_clock_now() + 20 * TT_US);
    else
        tt_multicore_step(self, now);
    return true;
}

static void command(struct tt_multicore *self, int32_t port, int64_t now, int32_t model,
                    enum tt_multicore_command what, const struct tt_step_model *step_model) {
    struct tt_device_request record = {.id = (uintptr_t)step_model,
                                       .model = (uint16_t)model,
                                       .rows = TT_MULTICORE_COMMAND,
                                       .length = (int32_t)what};
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    while (tt_multicore_submit(self, port, now, &record, 1) == 0)
        if (!wait_for(self, now, model % self->thread_count, &eventcount))
            return;
    tt_eventcount_notify_by(&self->model_threads[model % self->thread_count].eventcount,
                            TT_EVENTCOUNT_AT_ONCE);
}

void tt_multicore_add_model(struct tt_multicore *self, int32_t port, int64_t now, int32_t model,
                            const struct tt_step_model *step_model) {
    command(self, port, now, model, TT_MULTICORE_ADD, step_model);
}

void tt_multicore_remove_model(struct tt_multicore *self, int32_t port, int64_t now,
                               int32_t model) {
    int32_t thread = model % self->thread_count;
    struct tt_record_ring *removed = &self->model_threads[thread].removed;
    struct tt_eventcount eventcount;
    tt_eventcount_init(&eventcount);
    command(self, port, now, model, TT_MULTICORE_REMOVE, NULL);
    while (!tt_record_ring_look(removed))
        if (!wait_for(self, now, thread, &eventcount))
            return;
    tt_record_ring_take(removed, 1);
}

/* ---- turns and threads ---- */

void tt_multicore_use_turn_logs(struct tt_multicore *self, struct tt_turn_log *const *turn_logs) {
    tt_assert(!self->started);
    for (int32_t t = 0; t < self->thread_count; t++)
        self->model_threads[t].turn_log = turn_logs[TT_PARTY_MODELS + t];
    self->rank_thread.turn_log = turn_logs[TT_PARTY_RANK];
    self->player = turn_logs[TT_PARTY_RANK]->player;
}

void tt_multicore_play_turn(struct tt_multicore *self, int32_t party, int64_t now) {
    tt_assert(self->player != NULL);
    if (party == TT_PARTY_RANK)
        tt_rank_thread_turn(&self->rank_thread, now);
    else
        tt_model_thread_turn(&self->model_threads[party - TT_PARTY_MODELS], now);
}

static int64_t models_next_at(const struct tt_multicore *self) {
    int64_t next_at = TT_NEVER;
    for (int32_t t = 0; t < self->thread_count; t++)
        next_at = tt_instant_min(next_at, tt_model_thread_next_at(&self->model_threads[t]));
    return next_at;
}

/* Runs turns until nothing is left to do at `now`. Takes in the requests of the last look only. */
static int64_t run_instant(struct tt_multicore *self, int64_t now) {
    int64_t next_at;
    do {
        for (int32_t t = 0; t < self->thread_count; t++) {
            tt_model_thread_look(&self->model_threads[t], true);
            tt_model_thread_turn(&self->model_threads[t], now);
        }
        tt_rank_thread_look(&self->rank_thread);
        tt_rank_thread_turn(&self->rank_thread, now);
        next_at = models_next_at(self);
    } while (self->rank_thread.sent_events || next_at <= now);
    return tt_instant_min(next_at, tt_rank_thread_next_at(&self->rank_thread));
}

int64_t tt_multicore_step(struct tt_multicore *self, int64_t now) {
    if (self->has_changes) /* the models form their candidates with the new delays */
        tt_rank_thread_pass_delays(&self->rank_thread, now);
    self->has_changes = false;
    for (int32_t t = 0; t < self->thread_count; t++)
        tt_model_thread_look(&self->model_threads[t], false);
    return run_instant(self, now);
}

/* When to wake up for an instant that matters. */
static int64_t wake_for(const struct tt_multicore *self, int64_t at) {
    return at == TT_NEVER ? at : at - self->spin_ns;
}

static void *model_main(void *context) {
    struct tt_model_thread *thread = ((void **)context)[0];
    struct tt_multicore *self = ((void **)context)[1];
    free(context);
    tt_eventcount_be_punctual();
    tt_time_slice_be_short();
    while (!tt_flag_is_raised(&self->stopping)) {
        tt_model_thread_look(thread, false);
        int64_t now = tt_clock_now();
        bool worked = tt_model_thread_turn(thread, now);
        int64_t until_at = wake_for(self, tt_model_thread_next_at(thread));
        if (worked) /* everything that arrives during the rest is handled at its end */
            until_at = now + self->rest_ns;
        if (until_at <= now || tt_model_thread_has_more(thread))
            continue;
        tt_eventcount_prepare(&thread->eventcount, until_at);
        if ((!worked && tt_model_thread_look(thread, false)) || tt_flag_is_raised(&self->stopping))
            tt_eventcount_cancel(&thread->eventcount);
        else
            tt_eventcount_commit(&thread->eventcount, until_at);
    }
    return NULL;
}

static void *rank_main(void *context) {
    struct tt_multicore *self = context;
    struct tt_rank_thread *thread = &self->rank_thread;
    tt_eventcount_be_punctual();
    tt_time_slice_be_short();
    while (!tt_flag_is_raised(&self->stopping)) {
        tt_rank_thread_look(thread);
        int64_t now = tt_clock_now();
        bool worked = tt_rank_thread_turn(thread, now);
        int64_t until_at = wake_for(self, tt_rank_thread_next_at(thread));
        if (worked)
            until_at = now + self->rest_ns;
        if (until_at <= now)
            continue;
        tt_eventcount_prepare(&thread->eventcount, until_at);
        if ((!worked && tt_rank_thread_look(thread)) || tt_flag_is_raised(&self->stopping))
            tt_eventcount_cancel(&thread->eventcount);
        else
            tt_eventcount_commit(&thread->eventcount, until_at);
    }
    return NULL;
}

static void *only_main(void *context) {
    struct tt_multicore *self = context;
    struct tt_model_thread *model = &self->model_threads[0];
    tt_eventcount_be_punctual();
    tt_time_slice_be_short();
    while (!tt_flag_is_raised(&self->stopping)) {
        tt_model_thread_look(model, false);
        int64_t now = tt_clock_now();
        int64_t next_at = run_instant(self, now);
        bool busy = model->took_requests;
        int64_t until_at = wake_for(self, next_at);
        if (busy)
            until_at = tt_instant_min(until_at, now + self->rest_ns);
        if (until_at <= now || tt_model_thread_has_more(model))
            continue;
        tt_eventcount_prepare(&model->eventcount, until_at);
        if (tt_model_thread_look(model, busy) || tt_rank_thread_look(&self->rank_thread) ||
            tt_flag_is_raised(&self->stopping))
            tt_eventcount_cancel(&model->eventcount);
        else
            tt_eventcount_commit(&model->eventcount, until_at);
    }
    return NULL;
}

static int start_model(struct tt_multicore *self, int32_t t) {
    void **context = malloc(2 * sizeof(void *));
    if (!context)
        return -1;
    context[0] = &self->model_threads[t];
    context[1] = self;
    int failed = pthread_create(&self->threads[t], NULL, model_main, context);
    if (failed)
        free(context);
    return failed;
}

static void join(struct tt_multicore *self, int32_t models, bool rank) {
    tt_flag_raise(&self->stopping);
    tt_eventcount_notify_by(&self->rank_thread.eventcount, TT_EVENTCOUNT_AT_ONCE);
    for (int32_t t = 0; t < models; t++) {
        tt_eventcount_notify_by(&self->model_threads[t].eventcount, TT_EVENTCOUNT_AT_ONCE);
        pthread_join(self->threads[t], NULL);
    }
    if (rank)
        pthread_join(self->threads[self->thread_count], NULL);
}

enum tt_err tt_multicore_start(struct tt_multicore *self, struct tt_error *why) {
    tt_assert(!self->started);
    int failed = 0;
    int32_t made = 0;
    if (self->one_thread) {
        failed = pthread_create(&self->threads[0], NULL, only_main, self);
    } else {
        while (made < self->thread_count && !(failed = start_model(self, made)))
            made++;
        if (!failed)
            failed = pthread_create(&self->threads[self->thread_count], NULL, rank_main, self);
    }
    if (failed) {
        join(self, made, false);
        return tt_fail(TT_ERR_IO, why, "cannot start a scheduler's thread: %s",
                       failed > 0 ? strerror(failed) : "out of memory");
    }
    self->started = true;
    return TT_OK;
}

void tt_multicore_stop(struct tt_multicore *self) {
    if (!self->started)
        return;
    join(self, self->thread_count, !self->one_thread);
    self->started = false;
}

/* ---- statistics ---- */

void tt_multicore_measure_from(struct tt_multicore *self, int64_t at) {
    for (int32_t t = 0; t < self->thread_count; t++)
        self->model_threads[t].measure_from_at = at;
    self->rank_thread.measure_from_at = at;
}

void tt_multicore_cpu(const struct tt_multicore *self, int64_t *out_model_ns,
                      int64_t *out_rank_ns) {
    *out_model_ns = *out_rank_ns = 0;
    for (int32_t t = 0; self->started && t < self->thread_count; t++)
        *out_model_ns += tt_clock_thread_cpu(self->threads[t]);
    if (self->started && !self->one_thread)
        *out_rank_ns = tt_clock_thread_cpu(self->threads[self->thread_count]);
}

void tt_multicore_check(const struct tt_multicore *self) {
    for (int32_t t = 0; t < self->thread_count; t++)
        tt_model_thread_check(&self->model_threads[t]);
    tt_rank_thread_check(&self->rank_thread);
}
