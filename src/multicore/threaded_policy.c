#include "multicore/threaded_policy.h"

#include "base/instant.h"
#include "multicore/multicore.h"
#include "policy/deferred/deferred.h"

#include <sched.h>
#include <stdlib.h>

/* Times the limit of requests: records in a thread's inbox, its tickets, and requests that it gets
 * between two looks of the domain. */
enum { RING = 4, TICKETS = 2, ARRIVALS_PER_TURN = 2, MAX_RING = 1 << 28, HANDED = 512 };

struct dropped {
    uint64_t id;
    int64_t reason;
};

struct tt_policy {
    struct tt_network_delay delay; /* S4: as given */
    const struct tt_mechanism *domain;
    struct tt_threaded_policy_options options;
    struct tt_multicore *multicore;
    struct tt_turn_log *turn_log;        /* of the domain; NULL: no recording */
    struct tt_record_ring begun;         /* batch pointers, written by the rank thread */
    bool has_begun;                      /* of the rank thread: some of `begun` is not published */
    struct tt_record_ring ended;         /* batch pointers, back to the rank thread */
    struct tt_record_ring *dropped;      /* [model thread] */
    int32_t dropped_count;               /* number of rings */
    struct tt_multicore_batch **running; /* [executor][depth]: in its order, then NULL */
    int32_t depth;                       /* of an executor: 1, or 2, the second one sent ahead */
    struct tt_list refused;           /* requests that found no room; the next decide drops them */
    int32_t arrivals;                 /* since the last decide */
    struct tt_device_request *handed; /* [HANDED]: for the threads, with cancellations */
    int32_t handed_count;
    bool is_started;
    int64_t step_at; /* not started: when the next step is due */
};

static uint64_t id_of(const struct tt_request *request) {
    return (uint64_t)request->handle.index << 32 | request->handle.generation;
}

/* The request with this id, if it still exists and waits for its first step. */
static struct tt_request *waiting(const struct tt_mechanism *domain, uint64_t id) {
    struct tt_handle handle = {(uint32_t)(id >> 32), (uint32_t)id};
    struct tt_request *request = tt_request_pool_find(&domain->requests, handle);
    return request && request->state == TT_REQUEST_QUEUED ? request : NULL;
}

static void push(struct tt_record_ring *ring, const void *record) {
    bool pushed = tt_record_ring_push(ring, record);
    tt_assert(pushed); /* the ring never fills: an executor has `depth` batches */
}

/* ---- the devices, on the rank thread ---- */

static void device_submit(void *context, struct tt_device_task *task) {
    struct tt_policy *self = context;
    struct tt_multicore_batch *batch = tt_multicore_batch_of(task);
    bool added = tt_record_ring_add(&self->begun, &batch);
    tt_assert(added); /* the ring never fills: an executor has `depth` batches */
    self->has_begun = true;
}

static void device_flush(void *context) {
    struct tt_policy *self = context;
    if (!self->has_begun)
        return;
    self->has_begun = false;
    tt_record_ring_publish(&self->begun);
    if (self->is_started)
        self->options.wake(self->options.wake_context);
}

static struct tt_device_task *device_ended(void *context, int64_t now) {
    (void)now;
    struct tt_policy *self = context;
    int32_t count;
    if (!tt_record_ring_look(&self->ended))
        return NULL;
    struct tt_multicore_batch *batch =
        *(struct tt_multicore_batch *const *)tt_record_ring_peek(&self->ended, &count);
    tt_record_ring_take(&self->ended, 1);
    return &batch->head;
}

static bool device_pending(void *context) {
    struct tt_policy *self = context;
    return tt_record_ring_look(&self->ended);
}

static int64_t device_next_at(void *context) {
    (void)context;
    return TT_NEVER; /* the rank thread is woken */
}

static void device_lose(void *context, int64_t now, int32_t executor) {
    (void)context;
    (void)now;
    (void)executor; /* its task ends by itself */
}

/* ---- the client, on the model threads ---- */

static void client_ended(void *context, int32_t thread, int64_t now,
                         const struct tt_multicore_batch *batch) {
    (void)context;
    (void)thread;
    (void)now;
    (void)batch; /* the mechanism has reported the end */
}

static void client_dropped(void *context, int32_t thread, int64_t now,
                           const struct tt_device_request *request, enum tt_drop_reason reason) {
    (void)now;
    struct tt_policy *self = context;
    if (reason == TT_DROP_NONE)
        return; /* cancelled: it has left */
    struct dropped dropped = {request->id, reason};
    bool pushed = tt_record_ring_push(&self->dropped[thread], &dropped);
    tt_assert(pushed || tt_turn_log_plays(self->turn_log)); /* each request is dropped once */
    tt_turn_log_expect(self->turn_log, pushed,
                       "more requests were dropped than the domain can hold");
    if (self->is_started)
        self->options.wake(self->options.wake_context);
}

/* ---- the policy, on the server's thread ---- */

/* A thread is so far behind that there is no room for the record. */
static void refuse(struct tt_policy *self, const struct tt_device_request *record) {
    struct tt_request *request = waiting(self->domain, record->id);
    if (record->rows != TT_MULTICORE_COMMAND && request)
        tt_list_push_back(&self->refused, &request->link);
}

/* What came since the last decision goes to the threads at once, so that it costs them one turn. */
static void hand_in_all(struct tt_policy *self, int64_t now) {
    struct tt_turn_log *log = self->turn_log;
    for (int32_t done = 0; done < self->handed_count;) {
        done += tt_multicore_submit(self->multicore, 0, now, &self->handed[done],
                                    self->handed_count - done);
        if (done == self->handed_count)
            break;
        int32_t thread = self->handed[done].model % self->dropped_count;
        if (!tt_turn_log_plays(log))
            refuse(self, &self->handed[done++]);
        else if (!log->player->demand(log->player, TT_PARTY_MODELS + thread))
            break;
    }
    self->handed_count = 0;
}

static void hand_in(struct tt_policy *self, int64_t now, const struct tt_request *request,
                    bool cancels) {
    struct tt_device_request record = {.arrived_at = request->arrived_at,
                                       .deadline_at = request->deadline_at,
                                       .id = id_of(request),
                                       .model = (uint16_t)request->model,
                                       .rows = (uint16_t)request->rows,
                                       .length = request->length};
    if (cancels) {
        record.rows = TT_MULTICORE_COMMAND;
        record.length = TT_MULTICORE_CANCEL;
    }
    self->handed[self->handed_count++] = record;
    if (self->handed_count == HANDED)
        hand_in_all(self, now);
}

static void arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    tt_assert(request->step == 0); /* it runs whole graphs only */
    bool has_room = tt_turn_log_plays(self->turn_log) ||
                    self->arrivals++ < ARRIVALS_PER_TURN * self->options.request_limit;
    if (has_room)
        hand_in(self, now, request, false);
    else
        tt_list_push_back(&self->refused, &request->link);
}

/* If the thread does not get to know it, the request is left out of the batch that has it. */
static void cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    if (tt_list_linked(&request->link))
        tt_list_remove(&request->link);
    else
        hand_in(self, now, request, true);
}

static void give_back(struct tt_policy *self, int64_t now, struct tt_multicore_batch *batch) {
    batch->head.started_at = batch->head.ended_at = now;
    push(&self->ended, &batch);
    tt_multicore_wake_rank(self->multicore);
}

/* The batches of the executor, the oldest first. */
static struct tt_multicore_batch **running_on(const struct tt_policy *self, int32_t executor) {
    return &self->running[(ptrdiff_t)executor * self->depth];
}

static void finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    struct tt_multicore_batch **running = running_on(self, task->executor);
    struct tt_multicore_batch *batch = running[0];
    tt_assert(batch != NULL);
    for (int32_t i = 0; i < self->depth; i++)
        running[i] = i + 1 < self->depth ? running[i + 1] : NULL;
    give_back(self, now, batch);
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            arrived(self, now, task->items[i].request);
}

static void run(struct tt_policy *self, int64_t now, struct tt_multicore_batch *batch,
                struct tt_mechanism *actions) {
    if (!tt_mechanism_has_room(actions, batch->head.executor)) {
        /* The executor is being removed: its requests are queued again. */
        batch->head.outcome = TT_OUTCOME_LOST;
        give_back(self, now, batch);
        return;
    }
    struct tt_task *task = NULL;
    for (int32_t i = 0; i < batch->head.count; i++) {
        struct tt_request *request = waiting(actions, batch->requests[i].id);
        if (!request)
            continue;
        if (!task)
            task = tt_mechanism_run_begin(actions, batch->head.executor, batch->head.model, 0,
                                          actions->models[batch->head.model]->step_count - 1);
        if (request->length > task->length)
            task->length = request->length;
        tt_mechanism_run_add(actions, request);
    }
    if (!task) { /* all of its requests have left */
        give_back(self, now, batch);
        return;
    }
    struct tt_multicore_batch **running = running_on(self, batch->head.executor);
    int32_t before = 0;
    while (before < self->depth && running[before])
        before++;
    tt_assert(before < self->depth);
    running[before] = batch;
    struct tt_network_delay delay = /* S4 */
        tt_mechanism_delay(self->domain, batch->head.executor, self->delay);
    int64_t there_at = now + tt_network_delay_of(delay, batch->head.rows);
    tt_mechanism_run_commit(actions, tt_instant_max(there_at, batch->head.start_at));
}

static void drop(struct tt_record_ring *ring, struct tt_mechanism *actions) {
    int32_t count;
    for (;;) {
        const struct dropped *dropped = tt_record_ring_peek(ring, &count);
        if (count == 0)
            return;
        for (int32_t i = 0; i < count; i++) {
            struct tt_request *request = waiting(actions, dropped[i].id);
            if (request)
                tt_mechanism_drop(actions, request, (enum tt_drop_reason)dropped[i].reason);
        }
        tt_record_ring_take(ring, count);
    }
}

/* Looks at what the threads have decided so far. */
static void look(struct tt_policy *self, int64_t now) {
    tt_turn_log_begin(self->turn_log);
    for (int32_t t = 0; t < self->dropped_count; t++) {
        tt_record_ring_look(&self->dropped[t]);
        tt_turn_log_take(self->turn_log, &self->dropped[t], INT32_MAX, TT_PARTY_MODELS + t);
    }
    tt_record_ring_look(&self->begun);
    tt_turn_log_take(self->turn_log, &self->begun, INT32_MAX, TT_PARTY_RANK);
    tt_turn_log_end(self->turn_log, now);
}

static void drop_refused(struct tt_policy *self, struct tt_mechanism *actions) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->refused))) {
        tt_list_remove(node);
        tt_mechanism_drop(actions, TT_CONTAINER_OF(node, struct tt_request, link),
                          TT_DROP_QUEUE_FULL);
    }
}

/* Carries out what the threads have decided. False: they have no new batch. */
static bool carry_out(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    look(self, now);
    if (tt_turn_log_is_over(self->turn_log))
        return false;
    for (int32_t t = 0; t < self->dropped_count; t++)
        drop(&self->dropped[t], actions);
    drop_refused(self, actions);
    bool any = false;
    for (int32_t count;; any = true) {
        struct tt_multicore_batch *const *batches = tt_record_ring_peek(&self->begun, &count);
        if (count == 0)
            return any;
        struct tt_multicore_batch *batch = batches[0];
        /* Take it out of the ring first: if it is given back at once, the next batch of its
         * executor may be in the ring before the next look. */
        tt_record_ring_take(&self->begun, 1);
        run(self, now, batch, actions);
    }
}

static void decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    self->arrivals = 0;
    hand_in_all(self, now);
    if (self->is_started || tt_turn_log_plays(self->turn_log)) {
        carry_out(self, now, actions);
        return;
    }
    do /* a batch may come back at once, and its executor is free again */
        self->step_at = tt_multicore_step(self->multicore, now);
    while (carry_out(self, now, actions));
}

static int64_t next_at(const struct tt_policy *self) {
    return self->is_started ? TT_NEVER : self->step_at; /* threads wake the server's */
}

static void model_changed(struct tt_policy *self, int64_t now, int32_t model,
                          enum tt_change change) {
    hand_in_all(self, now); /* what came before */
    if (change == TT_CHANGE_ADDED)
        tt_multicore_add_model(self->multicore, 0, now, model,
                               tt_mechanism_prior(self->domain, model));
    else if (change == TT_CHANGE_GONE)
        tt_multicore_remove_model(self->multicore, 0, now, model);
}

/* The rank thread takes changes in at its next turn. False: it is played from a recording and
 * cannot advance. */
static bool await_room(struct tt_policy *self, int64_t now) {
    if (tt_turn_log_plays(self->turn_log))
        return self->turn_log->player->demand(self->turn_log->player, TT_PARTY_RANK);
    if (self->is_started)
        sched_yield();
    else
        self->step_at = tt_multicore_step(self->multicore, now);
    return true;
}

/* S4: states the delay of messages to the executor. */
static void state_delay(struct tt_policy *self, int64_t now, int32_t executor) {
    struct tt_network_delay delay = tt_mechanism_delay(self->domain, executor, self->delay);
    while (!tt_multicore_delay(self->multicore, executor, delay))
        if (!await_room(self, now))
            return;
}

static void executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                             enum tt_change change) {
    if (change != TT_CHANGE_BELIEF)
        while (!tt_multicore_change(self->multicore, executor, change == TT_CHANGE_ADDED))
            if (!await_room(self, now))
                return;
    if (self->domain->delays && (change == TT_CHANGE_ADDED || change == TT_CHANGE_BELIEF))
        state_delay(self, now, executor);
}

static void check(const struct tt_policy *self) {
    for (int32_t e = 0; e < self->domain->executor_capacity; e++)
        for (int32_t i = 0; i < self->depth; i++)
            tt_assert((running_on(self, e)[i] != NULL) == (i < self->domain->executors[e].queued));
}

static void policy_free(struct tt_policy *take_self) {
    if (!take_self)
        return;
    if (take_self->multicore)
        tt_multicore_stop(take_self->multicore);
    tt_multicore_free(take_self->multicore);
    tt_record_ring_fini(&take_self->begun);
    tt_record_ring_fini(&take_self->ended);
    for (int32_t t = 0; t < take_self->dropped_count; t++)
        tt_record_ring_fini(&take_self->dropped[t]);
    free((void *)take_self->dropped);
    free(take_self->running);
    free(take_self->handed);
    free((void *)take_self);
}

static const struct tt_policy_ops ops = {
    .arrived = arrived,
    .finished = finished,
    .cancelled = cancelled,
    .decide = decide,
    .next_at = next_at,
    .model_changed = model_changed,
    .executor_changed = executor_changed,
    .check = check,
    .free = policy_free,
};

/* ---- creation ---- */

static enum tt_err allocate(struct tt_policy *self, int32_t threads) {
    int32_t executors = self->domain->executor_capacity;
    int32_t batches = executors * self->depth;
    self->running = calloc((size_t)batches, sizeof(struct tt_multicore_batch *));
    self->dropped = aligned_alloc(64, sizeof(*self->dropped) * (size_t)threads);
    self->handed = calloc(HANDED, sizeof(*self->handed));
    if (!self->running || !self->dropped || !self->handed ||
        tt_record_ring_init(&self->begun, batches, sizeof(struct tt_multicore_batch *)) ||
        tt_record_ring_init(&self->ended, batches, sizeof(struct tt_multicore_batch *)))
        return TT_ERR_NO_MEMORY;
    /* None of these ever fills: between two looks of the domain a thread drops no more than it has
     * tickets and the inbox has room for, what comes back in lost batches, and what arrives. */
    int64_t drops = (int64_t)(TICKETS + RING + ARRIVALS_PER_TURN) * self->options.request_limit +
                    (int64_t)batches * self->options.max_batch;
    for (; self->dropped_count < threads; self->dropped_count++)
        if (tt_record_ring_init(&self->dropped[self->dropped_count],
                                (int32_t)tt_instant_min(drops, MAX_RING), sizeof(struct dropped)))
            return TT_ERR_NO_MEMORY;
    return TT_OK;
}

static enum tt_err make(struct tt_policy *self, const struct tt_deferred_options *policy,
                        struct tt_error *why) {
    int32_t models = self->options.threads - 1;
    int32_t threads = models > 0 ? models : 1;
    if (allocate(self, threads))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler's threads");
    struct tt_multicore_options options = {
        .model_threads = models,
        .model_count = self->domain->model_capacity,
        .max_batch = self->options.max_batch,
        .executor_count = self->domain->executor_capacity,
        .depth = self->depth,
        .ahead = policy->delay.control_ns > 0 || policy->delay.data_ns > 0 || self->domain->delays,
        .port_count = 1,
        .ring_capacity = RING * self->options.request_limit,
        .request_limit = (int32_t)tt_instant_min(
            (int64_t)TICKETS * self->options.request_limit * threads, INT32_MAX),
        .policy = policy,
        .devices = {.self = self,
                    .ops = {.submit = device_submit,
                            .flush = device_flush,
                            .ended = device_ended,
                            .pending = device_pending,
                            .next_at = device_next_at,
                            .lose = device_lose}},
        .client = {.context = self, .ended = client_ended, .dropped = client_dropped}};
    return tt_multicore_new(&options, &self->multicore, why);
}

enum tt_err tt_threaded_policy_create(struct tt_mechanism *mechanism, const char *name,
                                      const struct tt_policy_setup *setup,
                                      const struct tt_threaded_policy_options *options,
                                      struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_policy_find(name);
    struct tt_deferred_options policy;
    if (!kind)
        return tt_fail(TT_ERR_NOT_FOUND, why, "no policy is called '%s'", name);
    enum tt_err err =
        tt_deferred_options_parse(kind, setup->options, setup->option_count, &policy, why);
    if (err)
        return err;
    policy.delay = (struct tt_network_delay){setup->d_ctrl_ns, setup->d_data_ns}; /* S4 */
    policy.lateness_ns = setup->lateness_ns;
    policy.reform_at_latest |= tt_deferred_must_reform(mechanism);
    struct tt_policy *self = aligned_alloc(64, (sizeof(*self) + 63) / 64 * 64);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a scheduler's threads");
    *self = (struct tt_policy){
        .domain = setup->domain,
        .options = *options,
        .delay = policy.delay,
        .depth = setup->domain->executors[0].depth > 1 ? 2 : 1, /* as the half that ranks uses */
        .step_at = TT_NEVER};
    tt_list_init(&self->refused);
    err = make(self, &policy, why);
    if (err) {
        policy_free(self);
        return err;
    }
    tt_mechanism_attach(mechanism, &ops, &kind->traits, self);
    return TT_OK;
}

int32_t tt_threaded_policy_parties(const struct tt_policy *self) {
    return tt_multicore_parties(self->multicore);
}

void tt_threaded_policy_use_turn_logs(struct tt_policy *self,
                                      struct tt_turn_log *const *turn_logs) {
    self->turn_log = turn_logs[TT_PARTY_DOMAIN];
    tt_multicore_use_turn_logs(self->multicore, turn_logs);
}

void tt_threaded_policy_play_turn(struct tt_policy *self, int32_t party, int64_t now) {
    tt_multicore_play_turn(self->multicore, party, now);
}

enum tt_err tt_threaded_policy_start(struct tt_policy *self, struct tt_error *why) {
    self->is_started = true; /* before the threads read it */
    enum tt_err err = tt_multicore_start(self->multicore, why);
    self->is_started = !err;
    return err;
}
